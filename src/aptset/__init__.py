"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

The names below are loaded when first used, so that ``import aptset`` stays as light as numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aptset.calibrated import Calibration, calibrate
    from aptset.calibrations.cross import CVPlus, JackknifePlus
    from aptset.calibrations.minimax import Minimax
    from aptset.calibrations.split import Split
    from aptset.classifier import ConformalClassifier
    from aptset.cross_calibrated import CrossCalibration, calibrate_cv
    from aptset.formulas import adaptive_scores, conformal_rank
    from aptset.oracle import oracle_sets
    from aptset.scores import Adaptive, Homogeneous, Regularized
    from aptset.sets import PredictionSets

_ROOMS = {
    "Adaptive": "scores",
    "CVPlus": "calibrations.cross",
    "Calibration": "calibrated",
    "ConformalClassifier": "classifier",
    "CrossCalibration": "cross_calibrated",
    "Homogeneous": "scores",
    "JackknifePlus": "calibrations.cross",
    "Minimax": "calibrations.minimax",
    "PredictionSets": "sets",
    "Regularized": "scores",
    "Split": "calibrations.split",
    "adaptive_scores": "formulas",
    "calibrate": "calibrated",
    "calibrate_cv": "cross_calibrated",
    "conformal_rank": "formulas",
    "oracle_sets": "oracle",
}

__all__ = [
    "Adaptive",
    "CVPlus",
    "Calibration",
    "ConformalClassifier",
    "CrossCalibration",
    "Homogeneous",
    "JackknifePlus",
    "Minimax",
    "PredictionSets",
    "Regularized",
    "Split",
    "adaptive_scores",
    "calibrate",
    "calibrate_cv",
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
