"""Which versions of which packages a result was computed with."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("aptset", "numpy", "scipy", "scikit-learn", "torch", "quantile-forest")


@cache
def versions() -> dict[str, str]:
    """Return the versions of what results depend on; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
