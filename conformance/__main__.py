"""Ask every library the same questions, each in an environment of its own, and write docs/conformance.md.

python -m conformance              all libraries
python -m conformance mapie puncc  these two; the others keep the answers that they have
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from conformance.page import FAILURES, script_of, written

HERE = Path(__file__).parent
ROOT = HERE.parent
ENVIRONMENTS = ROOT / ".conformance"
RESULTS = ROOT / "docs" / "conformance.json"
NO_LIBRARIES = {"__init__", "models", "broken"}


def libraries() -> list[str]:
    """Return the names of the adapters, ours first."""
    found = {path.stem for path in (HERE / "adapters").glob("*.py")} - NO_LIBRARIES
    return sorted(found, key=lambda name: (name != "aptset", name))


def environment(name: str) -> Path:
    """Return the Python of a library's environment, made if it is not there."""
    folder = ENVIRONMENTS / name
    python, limits = folder / "bin" / "python", folder / "versions.txt"
    pins = tomllib.loads((HERE / "versions.toml").read_text(encoding="utf-8")).get(name, {})
    wanted = "".join(f"{package}=={version}\n" for package, version in pins.items())
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(folder)])
    if name == "aptset" or not limits.exists() or limits.read_text(encoding="utf-8") != wanted:
        limits.write_text(wanted, encoding="utf-8")
        for words in _installs(name):
            quiet = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*quiet, "--constraint", str(limits), *words])
    return python


def _installs(name: str) -> list[list[str]]:
    """Return what an adapter installs, without importing it: its library is not here."""
    for line in ast.parse((HERE / "adapters" / f"{name}.py").read_text(encoding="utf-8")).body:
        if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "INSTALL":
            return list(ast.literal_eval(line.value))
    raise RuntimeError(f"conformance/adapters/{name}.py must say INSTALL, a list of lists of arguments for pip")


def _run(command: list[str]) -> str:
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise RuntimeError(f"{' '.join(command[1:4])} ...: {''.join(last)}")
    return done.stdout


def asked(name: str) -> dict[str, Any]:
    """Return the answers of a library, or why there are none; every failure is shown by its script."""
    command = f"python -m conformance.ask {name}"
    try:
        python = environment(name)
        start = time.perf_counter()
        answers = json.loads(_run([str(python), *command.split()[1:]]))
    except RuntimeError as error:
        return {"error": str(error), "command": command}
    seconds = round(time.perf_counter() - start)
    for question, cell in answers["cells"].items():
        script = FAILURES / script_of(name, question)
        if cell["verdict"] == "fail" and script.exists():
            cell["shown"] = _shown(python, script)
    return {**answers, "command": command, "seconds": seconds}


def _shown(python: Path, script: Path) -> str:
    """Return the last line that a script prints, or the error that it ends with."""
    try:
        return _run([str(python), str(script)]).strip().splitlines()[-1]
    except RuntimeError as error:
        return str(error).split(": ", 1)[1]


def main(names: list[str]) -> None:
    unknown = set(names) - set(libraries())
    if unknown:
        sys.exit(f"no adapter for {', '.join(sorted(unknown))}; there are {', '.join(libraries())}")
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))["libraries"] if RESULTS.exists() else {}
    results = {name: kept[name] for name in libraries() if name in kept}
    for name in names or libraries():
        results[name] = asked(name) | {"date": time.strftime("%Y-%m-%d")}
        print(f"{name}: {results[name].get('error', '{} s'.format(results[name].get('seconds')))}", flush=True)
        written(RESULTS, {other: results[other] for other in libraries() if other in results})


if __name__ == "__main__":
    main(sys.argv[1:])
