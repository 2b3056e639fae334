"""aptset: prediction sets with guaranteed, adaptive coverage for any classifier.

A model and labelled rows::

    import aptset

    classifier = aptset.ConformalClassifier(model, alpha=0.1).fit(X, y)  # trains on one half, calibrates on the other
    sets = classifier.predict_set(X_new)  # each holds the true label with probability at least 0.9
    sets[0], sets.sizes, sets.to_frame()

Probabilities that are there already::

    calibration = aptset.calibrate(probabilities, y)
    sets = calibration.predict_set(new_probabilities, alpha=0.1)

What the sets are worth: ``aptset.evaluate(sets, y_new)``, ``aptset.report(classifier, X_new, y_new, "report.html")``,
``aptset.audit(model, X, y)``. Keep and load: ``classifier.save("folder")``, ``aptset.load("folder")``. On the command
line: ``aptset run table.csv --target column``.
"""

# Names are loaded when first used, so that ``import aptset`` stays as light as numpy. Type checkers read
# ``__init__.pyi``, which says the same; a test compares the two.

from importlib import import_module

# The public names, by the module that each is loaded from.
_PUBLIC = {
    "arrow.calibrating": "calibrate_batches",
    "arrow.predicting": "predict_batches",
    "audits.audit": "audit",
    "audits.compare": "compare",
    "calibration.acceptance": "Acceptance learn_acceptance",
    "calibration.acceptance_threshold": "AcceptanceThreshold",
    "calibration.calibrate": "calibrate calibrate_cv",
    "calibration.calibration": "Calibration",
    "calibration.cross_calibration": "CrossCalibration",
    "calibration.formulas": "Confidence adaptive_scores conformal_rank oracle_sets",
    "calibration.online": "Online",
    "calibration.tuning": "Tuned tune",
    "calibration.weights": "LabelRatios label_ratios",
    "core.groupings": "LabelBands Overlapping",
    "core.levels": "Assurance",
    "core.taxonomy": "Taxonomy",
    "estimator.classifier": "ConformalClassifier",
    "estimator.density": "Ratio density_ratio",
    "estimator.full_conformal": "KernelDensityClassifier",
    "estimator": "load",
    "metrics": "breakdown",
    "metrics.coverages": (
        "coverage coverage_by coverage_gap empty_rate labels_below macro_coverage mean_size mean_size_by "
        "singleton_accuracy singleton_rate size_distribution size_given_coverage size_given_coverage_by "
        "size_stratified_coverage"
    ),
    "metrics.estimates": "Estimate",
    "metrics.evaluate": "evaluate",
    "metrics.evaluation": "Evaluation",
    "metrics.monitor": "CoverageMonitor ErrorMonitor",
    "metrics.planning": "calibration_size coverage_test",
    "metrics.scorers": "coverage_score negative_mean_size negative_size_given_coverage scorer worst_slice_score",
    "metrics.unevenness": "Unevenness coverage_unevenness",
    "metrics.worst_slice": "WorstSlice worst_slice_coverage",
    "reports.making": "report",
    "sets": "PredictionSets",
    "sets.rolled_up": "RolledUp",
}
_ROOMS = {name: room for room, names in _PUBLIC.items() for name in names.split()}
_OPEN = ("conformal", "scores")  # rooms whose own __all__ is public: a line there is a name here


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
    value = getattr(import_module(f"aptset.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*sorted(_rooms()), "__version__"]
