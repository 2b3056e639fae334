"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

The names below are loaded when first used, so that ``import aptset`` stays as light as numpy. Type checkers read
``__init__.pyi``, which says the same; a test compares the two.
"""

from importlib import import_module

# The public names, by the module that each is loaded from.
_PUBLIC = {
    "audits.auditing": "audit",
    "audits.comparing": "compare",
    "data.groups.bands": "LabelBands",
    "batches.calibrating": "calibrate_batches",
    "batches.predicting": "predict_batches",
    "estimator.classifier": "ConformalClassifier",
    "estimator.density": "Ratio density_ratio",
    "estimator.loading": "load",
    "judging.estimates": "Estimate",
    "judging.evaluation": "Evaluation evaluate",
    "judging.metrics": (
        "breakdown coverage coverage_by coverage_gap empty_rate labels_below macro_coverage mean_size mean_size_by "
        "singleton_accuracy singleton_rate size_distribution size_given_coverage size_given_coverage_by "
        "size_stratified_coverage"
    ),
    "judging.planning": "calibration_size coverage_test",
    "judging.scorers": "coverage_score negative_mean_size negative_size_given_coverage scorer worst_slice_score",
    "judging.worst_slice": "WorstSlice worst_slice_coverage",
    "judging.monitors.coverage": "CoverageMonitor",
    "data.groups.overlapping": "Overlapping",
    "probabilities.calibrating": "calibrate",
    "probabilities.calibrating_folds": "calibrate_cv",
    "probabilities.calibration": "Calibration",
    "probabilities.cross": "CrossCalibration",
    "probabilities.formulas": "adaptive_scores conformal_rank",
    "probabilities.label_ratios": "LabelRatios label_ratios",
    "probabilities.oracle": "oracle_sets",
    "probabilities.tuning": "Tuned tune",
    "reports.making": "report",
    "data.sets": "PredictionSets",
    "probabilities.streams.online": "Online",
}
_ROOMS = {name: room for room, names in _PUBLIC.items() for name in names.split()}
_OPEN = ("calibrations", "scores")  # rooms whose own __all__ is public: a line there is a name here


def _rooms() -> dict[str, str]:
    """Return where each public name is loaded from; this loads numpy, so nobody asks before a name is used."""
    return _ROOMS | {name: room for room in _OPEN for name in import_module(f"aptset.{room}").__all__}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("aptset")
    if name == "__all__":
        return sorted(_rooms())
    room = _ROOMS.get(name) or ("" if name.startswith("_") else _rooms().get(name))
    if not room:
        raise AttributeError(f"module 'aptset' has no attribute {name!r}")
    found = getattr(import_module(f"aptset.{room}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*sorted(_rooms()), "__version__"]
