"""Build and try a release.

python -m release dist      sdist and wheels in dist/, built twice, each wheel tried in a clean environment
python -m release matrix    the wheels of dist/ with every Python of this machine and with the oldest dependencies
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from release.building import ROOT, build, check_contents, check_descriptions, hashes, uncommitted
from release.floors import PYPROJECT, constraints
from release.installing import Cell, interpreters, tried

DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.13t")


def dist() -> None:
    """Build twice, compare, describe, install, try."""
    if changed := uncommitted():
        print(f"{len(changed)} files are not committed as they are: these bits are for trying, not for giving away")
    shutil.rmtree(DIST, ignore_errors=True)
    files = build(DIST)
    with tempfile.TemporaryDirectory() as folder:
        again = hashes(build(Path(folder)))
    first = hashes(files)
    for name in sorted(first | again):
        if first.get(name) != again.get(name):
            sys.exit(f"{name} is not reproducible: {first.get(name)} and then {again.get(name)}")
        print(f"{first[name]}  {name}  {(DIST / name).stat().st_size:,} bytes, the same bits twice")
    check_contents(files[0])
    check_descriptions(files)
    print("twine check --strict: passed")
    report([Cell(f"{engine} wheel", sys.executable, wheel, engine) for engine, wheel in wheels().items()])


def matrix() -> None:
    """Try the wheel that pip would choose with every Python that is here, and with the floors of the dependencies."""
    found, wheel = interpreters(VERSIONS), wheels()
    cells = [Cell(f"Python {version}", python, *_chosen(version, wheel)) for version, python in found.items()]
    oldest = next(iter(found))
    floors = constraints(PYPROJECT.read_text(encoding="utf-8"))
    cells.append(
        Cell(f"Python {oldest}, oldest dependencies", found[oldest], wheel["compiled"], "compiled", floors, "all,dask")
    )
    for version in sorted(set(VERSIONS) - set(found)):
        print(f"Python {version}: skipped, no such interpreter on the PATH or in pyenv")
    report(cells)


def wheels() -> dict[str, Path]:
    """Return the wheels of dist/ by the engine that each runs on."""
    found = {"compiled": [*DIST.glob("*manylinux*.whl")], "numpy": [*DIST.glob("*none-any.whl")]}
    if not all(len(paths) == 1 for paths in found.values()):
        sys.exit("dist/ must hold one wheel of each kind; run: make dist")
    return {engine: paths[0] for engine, paths in found.items()}


def _chosen(version: str, wheel: dict[str, Path]) -> tuple[Path, str]:
    """Return what pip chooses: builds with free threads have no stable ABI, and take the pure wheel."""
    engine = "numpy" if version.endswith("t") else "compiled"
    return wheel[engine], engine


def report(cells: list[Cell]) -> None:
    """Try every cell, print what each said, and end with an error if one failed or if their bits differ."""
    said, failed = set(), []
    for cell in cells:
        try:
            words = tried(cell)
        except RuntimeError as error:
            failed.append(cell.name)
            print(f"{cell.name}: FAILED\n{error}", flush=True)
        else:
            said.add(words.split()[-1])
            print(f"{cell.name}: {words}", flush=True)
    if failed or len(said) != 1:
        sys.exit(f"failed: {', '.join(failed)}" if failed else f"p-values and sets differ between cells: {said}")


if __name__ == "__main__":
    commands = {"dist": dist, "matrix": matrix}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: python -m release {'|'.join(commands)}")
    commands[sys.argv[1]]()
