"""The oldest versions that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"
LARGE = {"torch", "cuda-bindings", "xgboost", "lightgbm", "catboost", "pyspark", "onnx"}  # with targets of their own


def floors(text: str) -> dict[str, str]:
    """Return the lowest version of every package that the project needs, its extras among them, by its name."""
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    found: dict[str, str] = {}
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None, requirement
        floor = re.search(r">=\s*([0-9.]+)", requirement)
        if name[0] == project["name"] or (floor is None and name[0] in found):
            continue
        if floor is None and not any(line.startswith(f"{name[0]}>=") for line in wanted):
            raise ValueError(f"pyproject.toml must say the lowest version of {name[0]}; got {requirement!r}. Add >=.")
        if floor is not None:
            if found.get(name[0], floor[1]) != floor[1]:
                raise ValueError(f"{name[0]} must have one floor; got {found[name[0]]} and {floor[1]}.")
            found[name[0]] = floor[1]
    return found


def constraints(text: str) -> str:
    """Return the floors as the lines of a constraints file."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(floors(text).items()) if name not in LARGE)


if __name__ == "__main__":
    print(constraints(PYPROJECT.read_text(encoding="utf-8")), end="")
