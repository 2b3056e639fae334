"""Packages that a competitor needs."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

EXTRAS = {"torch": "network", "quantile_forest": "forest", "matplotlib": "plots", "pandas": "frames", "pyarrow": "cli"}


def check_packages(names: Iterable[str], needed_by: str, way_out: str = "") -> None:
    """Refuse to start work that needs packages that are not installed."""
    for name in names:
        if find_spec(name) is None:
            extra = EXTRAS[name]
            raise ImportError(f"{needed_by} needs {name}: pip install 'aptset[{extra}]'{way_out}.")
