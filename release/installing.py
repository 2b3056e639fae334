"""Clean environments: new, without a compiler, without an index but the files that lie ready."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "tests" / "golden"


@dataclass(frozen=True)
class Cell:
    """One way to install: a Python, a wheel, what it must run on, and versions that are asked for."""

    name: str
    python: str
    wheel: Path
    engine: str
    constraints: str = ""
    extras: str = "cli"


def tried(cell: Cell) -> str:
    """Install the wheel of a cell in a new environment, run the smoke test there, and return what it said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run([cell.python, "-m", "venv", str(folder / "venv")])
        wanted = f"aptset[{cell.extras}] @ {cell.wheel.resolve().as_uri()}"
        limits = folder / "constraints.txt"
        limits.write_text(cell.constraints, encoding="utf-8")
        chosen = ["--only-binary", ":all:", "--constraint", str(limits), wanted]
        python = str(folder / "venv" / "bin" / "python")
        _run([python, "-m", "pip", "download", "--quiet", "--dest", str(folder / "files"), *chosen])
        install = [python, "-m", "pip", "install", "--quiet", "--isolated", "--no-index", *chosen]
        _run([*install, "--find-links", str(folder / "files")], alone=folder)
        smoke = [python, "-I", str(HERE / "smoke.py"), str(GOLDEN), cell.engine]
        return _run([*smoke, *(["--other-models"] if cell.constraints else [])], alone=folder).strip()


def _run(command: Sequence[str], alone: Path | None = None) -> str:
    """Run a command; ``alone`` is the folder of an environment whose programs are all that it finds."""
    environment = dict(os.environ)
    if alone is not None:
        kept = {"PATH": str(alone / "venv" / "bin"), "HOME": str(alone), "PIP_CONFIG_FILE": os.devnull}
        environment = {**kept, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "TMPDIR": tempfile.gettempdir()}
    done = subprocess.run(command, env=environment, cwd=alone, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def interpreters(versions: Sequence[str]) -> dict[str, str]:
    """Return the Pythons of this machine that start, by the version asked for ("3.13", or "3.13t" for free threads)."""
    found = {}
    for version in versions:
        for candidate in (f"python{version}", *_of_pyenv(version)):
            if _answers(candidate, version):
                found[version] = candidate
                break
    return found


def _of_pyenv(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return sorted(map(str, root.glob(f"versions/*/bin/python{version}")), reverse=True)


def _answers(candidate: str, version: str) -> bool:
    """Return whether a Python starts and is of the version: names may lie, and shims may lead nowhere."""
    code = (
        "import sys, sysconfig, venv, ensurepip;"
        "threads = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else '';"
        "print(f'{sys.version_info[0]}.{sys.version_info[1]}{threads}')"
    )
    try:
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version
