"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

The names below are loaded when first used, so that ``import aptset`` stays as light as numpy. Type checkers read
``__init__.pyi``, which says the same; a test compares the two.
"""

from importlib import import_module

# The public names, by the module that each is loaded from.
_PUBLIC = {
    "audits.auditing": "audit",
    "audits.comparing": "compare",
    "calibrations.bootstrap": "Bootstrap OutOfBag",
    "calibrations.cross": "CVPlus JackknifePlus",
    "calibrations.minimax": "Minimax",
    "calibrations.split": "Split",
    "estimator.classifier": "ConformalClassifier",
    "estimator.loading": "load",
    "judging.estimates": "Estimate",
    "judging.evaluation": "Evaluation evaluate",
    "judging.metrics": (
        "breakdown coverage coverage_by coverage_gap empty_rate mean_size mean_size_by "
        "singleton_accuracy singleton_rate size_distribution size_given_coverage size_given_coverage_by "
        "size_stratified_coverage"
    ),
    "judging.planning": "calibration_size coverage_test",
    "judging.scorers": "coverage_score negative_mean_size negative_size_given_coverage scorer worst_slice_score",
    "judging.worst_slice": "WorstSlice worst_slice_coverage",
    "probabilities.calibrating": "calibrate",
    "probabilities.calibration": "Calibration",
    "probabilities.cross": "CrossCalibration calibrate_cv",
    "probabilities.formulas": "adaptive_scores conformal_rank",
    "probabilities.oracle": "oracle_sets",
    "probabilities.tuning": "Tuned tune",
    "reports.making": "report",
    "scores": "Adaptive Homogeneous Margin Places Rank Regularized SAPS Tempered",
    "sets": "PredictionSets",
}
_ROOMS = {name: room for room, names in _PUBLIC.items() for name in names.split()}

__all__ = sorted(_ROOMS)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("aptset")
    if name not in _ROOMS:
        raise AttributeError(f"module 'aptset' has no attribute {name!r}")
    found = getattr(import_module(f"aptset.{_ROOMS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
