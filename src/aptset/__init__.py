"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

The names below are loaded when first used, so that ``import aptset`` stays as light as numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aptset.calibrated import Calibration, calibrate, load
    from aptset.calibrations.cross import CVPlus, JackknifePlus
    from aptset.calibrations.minimax import Minimax
    from aptset.calibrations.split import Split
    from aptset.classifier import ConformalClassifier
    from aptset.cross_calibrated import CrossCalibration, calibrate_cv
    from aptset.estimates import Estimate
    from aptset.evaluation import Evaluation, evaluate
    from aptset.formulas import adaptive_scores, conformal_rank
    from aptset.metrics import (
        breakdown,
        coverage,
        coverage_by,
        coverage_gap,
        empty_rate,
        mean_size,
        mean_size_by,
        singleton_accuracy,
        singleton_rate,
        size_distribution,
        size_given_coverage,
        size_given_coverage_by,
        size_stratified_coverage,
    )
    from aptset.oracle import oracle_sets
    from aptset.planning import calibration_size, coverage_test
    from aptset.reports.making import report
    from aptset.scorers import coverage_score, negative_mean_size, negative_size_given_coverage, worst_slice_score
    from aptset.scores import Adaptive, Homogeneous, Regularized
    from aptset.sets import PredictionSets
    from aptset.worst_slice import WorstSlice, worst_slice_coverage

_ROOMS = {
    "Adaptive": "scores",
    "CVPlus": "calibrations.cross",
    "Calibration": "calibrated",
    "ConformalClassifier": "classifier",
    "CrossCalibration": "cross_calibrated",
    "Estimate": "estimates",
    "Evaluation": "evaluation",
    "Homogeneous": "scores",
    "JackknifePlus": "calibrations.cross",
    "Minimax": "calibrations.minimax",
    "PredictionSets": "sets",
    "Regularized": "scores",
    "Split": "calibrations.split",
    "WorstSlice": "worst_slice",
    "adaptive_scores": "formulas",
    "breakdown": "metrics",
    "calibrate": "calibrated",
    "calibrate_cv": "cross_calibrated",
    "calibration_size": "planning",
    "conformal_rank": "formulas",
    "coverage": "metrics",
    "coverage_by": "metrics",
    "coverage_gap": "metrics",
    "coverage_score": "scorers",
    "coverage_test": "planning",
    "empty_rate": "metrics",
    "evaluate": "evaluation",
    "load": "calibrated",
    "mean_size": "metrics",
    "mean_size_by": "metrics",
    "negative_mean_size": "scorers",
    "negative_size_given_coverage": "scorers",
    "oracle_sets": "oracle",
    "report": "reports.making",
    "singleton_accuracy": "metrics",
    "singleton_rate": "metrics",
    "size_distribution": "metrics",
    "size_given_coverage": "metrics",
    "size_given_coverage_by": "metrics",
    "size_stratified_coverage": "metrics",
    "worst_slice_coverage": "worst_slice",
    "worst_slice_score": "scorers",
}

__all__ = [
    "Adaptive",
    "CVPlus",
    "Calibration",
    "ConformalClassifier",
    "CrossCalibration",
    "Estimate",
    "Evaluation",
    "Homogeneous",
    "JackknifePlus",
    "Minimax",
    "PredictionSets",
    "Regularized",
    "Split",
    "WorstSlice",
    "adaptive_scores",
    "breakdown",
    "calibrate",
    "calibrate_cv",
    "calibration_size",
    "conformal_rank",
    "coverage",
    "coverage_by",
    "coverage_gap",
    "coverage_score",
    "coverage_test",
    "empty_rate",
    "evaluate",
    "load",
    "mean_size",
    "mean_size_by",
    "negative_mean_size",
    "negative_size_given_coverage",
    "oracle_sets",
    "report",
    "singleton_accuracy",
    "singleton_rate",
    "size_distribution",
    "size_given_coverage",
    "size_given_coverage_by",
    "size_stratified_coverage",
    "worst_slice_coverage",
    "worst_slice_score",
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
