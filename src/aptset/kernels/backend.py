"""The compiled loops if they were built, else None.

Set ``APTSET_KERNELS=numpy`` to leave them unused, for example to compare the two paths.
"""

import os
from importlib import import_module
from types import ModuleType


def _find() -> ModuleType | None:
    if os.environ.get("APTSET_KERNELS") == "numpy":
        return None
    try:
        return import_module("aptset.kernels._compiled")
    except ImportError:  # no compiler when this was installed: the numpy path gives the same bits, slower
        return None


compiled = _find()
