"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

The names below are loaded when first used, so that ``import aptset`` stays as light as numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aptset.audits.auditing import audit
    from aptset.audits.comparing import compare
    from aptset.calibrations.bootstrap import Bootstrap, OutOfBag
    from aptset.calibrations.cross import CVPlus, JackknifePlus
    from aptset.calibrations.minimax import Minimax
    from aptset.calibrations.split import Split
    from aptset.estimator.classifier import ConformalClassifier
    from aptset.estimator.loading import load
    from aptset.judging.estimates import Estimate
    from aptset.judging.evaluation import Evaluation, evaluate
    from aptset.judging.metrics import (
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
    from aptset.judging.planning import calibration_size, coverage_test
    from aptset.judging.scorers import (
        coverage_score,
        negative_mean_size,
        negative_size_given_coverage,
        worst_slice_score,
    )
    from aptset.judging.worst_slice import WorstSlice, worst_slice_coverage
    from aptset.probabilities.calibrating import calibrate
    from aptset.probabilities.calibration import Calibration
    from aptset.probabilities.cross import CrossCalibration, calibrate_cv
    from aptset.probabilities.formulas import adaptive_scores, conformal_rank
    from aptset.probabilities.oracle import oracle_sets
    from aptset.reports.making import report
    from aptset.scores import SAPS, Adaptive, Homogeneous, Margin, Places, Rank, Regularized, Tempered
    from aptset.sets import PredictionSets

_ROOMS = {
    "Adaptive": "scores",
    "Bootstrap": "calibrations.bootstrap",
    "CVPlus": "calibrations.cross",
    "Calibration": "probabilities.calibration",
    "ConformalClassifier": "estimator.classifier",
    "CrossCalibration": "probabilities.cross",
    "Estimate": "judging.estimates",
    "Evaluation": "judging.evaluation",
    "Homogeneous": "scores",
    "JackknifePlus": "calibrations.cross",
    "Margin": "scores",
    "Minimax": "calibrations.minimax",
    "OutOfBag": "calibrations.bootstrap",
    "Places": "scores",
    "PredictionSets": "sets",
    "Rank": "scores",
    "Regularized": "scores",
    "SAPS": "scores",
    "Split": "calibrations.split",
    "Tempered": "scores",
    "Tuned": "probabilities.tuning",
    "WorstSlice": "judging.worst_slice",
    "adaptive_scores": "probabilities.formulas",
    "audit": "audits.auditing",
    "breakdown": "judging.metrics",
    "calibrate": "probabilities.calibrating",
    "calibrate_cv": "probabilities.cross",
    "calibration_size": "judging.planning",
    "compare": "audits.comparing",
    "conformal_rank": "probabilities.formulas",
    "coverage": "judging.metrics",
    "coverage_by": "judging.metrics",
    "coverage_gap": "judging.metrics",
    "coverage_score": "judging.scorers",
    "coverage_test": "judging.planning",
    "empty_rate": "judging.metrics",
    "evaluate": "judging.evaluation",
    "load": "estimator.loading",
    "mean_size": "judging.metrics",
    "mean_size_by": "judging.metrics",
    "negative_mean_size": "judging.scorers",
    "negative_size_given_coverage": "judging.scorers",
    "oracle_sets": "probabilities.oracle",
    "report": "reports.making",
    "singleton_accuracy": "judging.metrics",
    "singleton_rate": "judging.metrics",
    "size_distribution": "judging.metrics",
    "size_given_coverage": "judging.metrics",
    "size_given_coverage_by": "judging.metrics",
    "size_stratified_coverage": "judging.metrics",
    "tune": "probabilities.tuning",
    "worst_slice_coverage": "judging.worst_slice",
    "worst_slice_score": "judging.scorers",
}

__all__ = [
    "SAPS",
    "Adaptive",
    "Bootstrap",
    "CVPlus",
    "Calibration",
    "ConformalClassifier",
    "CrossCalibration",
    "Estimate",
    "Evaluation",
    "Homogeneous",
    "JackknifePlus",
    "Margin",
    "Minimax",
    "OutOfBag",
    "Places",
    "PredictionSets",
    "Rank",
    "Regularized",
    "Split",
    "Tempered",
    "Tuned",
    "WorstSlice",
    "adaptive_scores",
    "audit",
    "breakdown",
    "calibrate",
    "calibrate_cv",
    "calibration_size",
    "compare",
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
    "tune",
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
