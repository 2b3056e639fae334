"""Compares the page of public names with the names that are public: neither may have one that the other lacks."""

import inspect
import re
from pathlib import Path

import aptset
import aptset.onnx
import aptset.torch

ROOMS = (aptset.onnx, aptset.torch)  # whose names are public, and need an extra


def check_public_names(page: Path) -> None:
    """Refuse a page that lists too few names, too many, or one without an example."""
    listed = re.findall(r"^   (aptset\.[\w.]+)$", page.read_text(), flags=re.MULTILINE)
    public = [f"{room.__name__}.{name}" for room in (aptset, *ROOMS) for name in room.__all__]
    known = [name for name in listed if name.count(".") == 1 or name.startswith(("aptset.onnx.", "aptset.torch."))]
    if sorted(known) != sorted(public):
        difference = sorted(set(known).symmetric_difference(public)) or "a name that stands there twice"
        raise ValueError(f"{page} must list every public name once; look at {difference}")
    without = [name for name in public if ">>>" not in (inspect.getdoc(_found(name)) or "")]
    if without:
        raise ValueError(f"these public names have no example in their docstring: {', '.join(without)}")


def _found(name: str) -> object:
    found: object = aptset
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found
