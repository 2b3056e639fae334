"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

The names below are loaded when first used, so that ``import aptset`` stays as light as numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aptset.calibrated import Calibration, adaptive_scores, calibrate, conformal_rank
    from aptset.calibrations.split import Split
    from aptset.classifier import ConformalClassifier
    from aptset.oracle import oracle_sets
    from aptset.scores import Adaptive, Homogeneous, Regularized
    from aptset.sets import PredictionSets

_ROOMS = {
    "Adaptive": "scores",
    "Calibration": "calibrated",
    "ConformalClassifier": "classifier",
    "Homogeneous": "scores",
    "PredictionSets": "sets",
    "Regularized": "scores",
    "Split": "calibrations.split",
    "adaptive_scores": "calibrated",
    "calibrate": "calibrated",
    "conformal_rank": "calibrated",
    "oracle_sets": "oracle",
}

__all__ = [
    "Adaptive",
    "Calibration",
    "ConformalClassifier",
    "Homogeneous",
    "PredictionSets",
    "Regularized",
    "Split",
    "adaptive_scores",
    "calibrate",
    "conformal_rank",
    "oracle_sets",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("aptset")
    if name not in _ROOMS:
        raise AttributeError(f"module 'aptset' has no attribute {name!r}")
    found = getattr(import_module(f"aptset.{_ROOMS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
