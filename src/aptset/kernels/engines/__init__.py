"""Engines of the loops: one object each, with the members of :class:`~aptset.kernels.engines.interface.Engine`.

``chosen`` runs all scores; its ``for_functions`` those that are plain functions of places. Callers never ask which
engine they have. Set ``APTSET_KERNELS=numpy`` to leave the compiled loops unused.
"""

import os
from importlib import import_module

from aptset.kernels.engines.compiled_engine import CompiledEngine
from aptset.kernels.engines.interface import Engine
from aptset.kernels.engines.numpy_engine import NumpyEngine

NUMPY: Engine = NumpyEngine()


def available() -> dict[str, Engine]:
    """Return the engines that run here by their names, the slowest first."""
    engines = {NUMPY.name: NUMPY}
    try:
        compiled: Engine = CompiledEngine(import_module("aptset.kernels._compiled"))
    except ImportError:  # no compiler when this was installed: the numpy path gives the same bits, slower
        return engines
    return engines | {compiled.name: compiled}


ENGINES = available()
chosen: Engine = ENGINES.get(os.environ.get("APTSET_KERNELS", ""), list(ENGINES.values())[-1])
