"""What the estimator does, without the estimator: prepare, fit, predict, as functions of values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations import CALIBRATIONS
from aptset.calibrations.folds import Fold
from aptset.calibrations.promises import Promises
from aptset.calibrations.scheme import Scheme, opens_ensemble
from aptset.calibrations.split import Split
from aptset.calibrations.tally import Tally
from aptset.calibrations.weight_checks import check_weighing, check_weights_of_scheme
from aptset.data.groups.checks import (
    check_group_values,
)
from aptset.data.groups.ids import Groups, groups_overlap
from aptset.data.groups.overlapping_checks import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.data.labels import columns_of
from aptset.data.sets import PredictionSets
from aptset.data.setting_checks import (
    check_choice,
    check_flag,
    check_generator,
    check_option,
    draw_key,
)
from aptset.estimator import fitting
from aptset.estimator.checks import (
    check_estimator_can,
    check_frozen,
    check_frozen_calibration,
    check_overlap_scheme,
    check_training_data,
    check_workers,
)
from aptset.estimator.ensembles import drawn_ensemble, members
from aptset.estimator.fitted import Fitted, Rule
from aptset.estimator.label_checks import check_label_space
from aptset.estimator.order import canonical_places
from aptset.estimator.tuning import set_aside_and_choose
from aptset.probabilities.chance import Chance
from aptset.probabilities.chance.checks import (
    check_ids,
    column_or_values,
)
from aptset.scores import Adaptive
from aptset.scores.conformity import (
    AUTO,
    check_conformity,
    for_classes,
)


def prepare(
    settings: Any, X: Any, y: Any, passed_groups: Any, u: Any, ids: Any, fit_params: dict[str, Any]
) -> tuple[Rule, fitting.Training, Promises]:
    """Check everything and draw everything random; ``settings`` has the parameters of ConformalClassifier."""
    check_estimator_can(settings.estimator)
    check_workers(settings.n_jobs)
    for name in ("randomized", "allow_empty", "progress"):
        check_flag(getattr(settings, name), name)
    is_auto = isinstance(settings.conformity, str) and settings.conformity == AUTO
    score = Adaptive() if is_auto else check_conformity(settings.conformity)
    scheme: Scheme = check_choice(settings.calibration, CALIBRATIONS, "folds", "calibration")
    check_weighing(settings.weights)
    check_weights_of_scheme(settings.weights is not None, scheme.combine is Tally, f"calibration={scheme.name!r}")
    generator = check_generator(settings.random_state)
    frozen = fitting.is_frozen(settings.estimator)
    check_overlap_scheme(groups_overlap(passed_groups), isinstance(scheme, Split), is_auto)
    X, y, classes = check_training_data(settings, X, y, 1 if frozen else 2, settings.classes)
    key = draw_key(generator)
    if frozen:
        check_frozen_calibration(settings.calibration, isinstance(scheme, Split))
        classes = check_frozen(settings.estimator, classes, fit_params)
    if is_auto:
        ids = check_ids(column_or_values(ids, X), len(y), least_distinct=0.5)
        rest = set_aside_and_choose(settings, X, y, classes, fit_params, key, generator, ids)
        score, fit_params = rest.score, rest.fit_params
        X, y, passed_groups, u, ids = rest.of(X, y, passed_groups, u, ids)
    every = Fold(np.arange(len(y)), np.arange(0))  # nothing to train: one fold that holds every row out
    folds = [every] if frozen else scheme.folds(X, y, generator)
    opens = opens_ensemble(scheme)
    estimator = drawn_ensemble(settings.estimator, len(y), fit_params, generator) if opens else settings.estimator
    classes = check_label_space(settings.classes, classes)
    score, columns = for_classes(score, classes), columns_of(y, classes)
    unseen = _unseen_label_chance(settings, columns, classes, frozen)
    values = check_group_values(settings.groups, passed_groups, X, len(y))
    groups = Groups.of(values, settings.groups, classes)
    if settings.weights is not None:
        refuse_overlapping(groups.kind, *WITHOUT_WEIGHTS)
    chance = Chance.of(u, ids, settings.randomized)
    rule = Rule(scheme, score, key, chance, settings.groups, groups, classes, unseen, settings.weights)
    samples, rule = rule.calibration_samples(X, values, u, ids)
    seeds = _seeds_of_folds(settings, len(folds), generator)
    content = X if ids is None else samples.seeds  # rows that have ids go by them
    places = canonical_places(content, y, fit_params, key) if len(folds) > 1 or opens else None
    promises = Promises.before_fit(scheme, folds, groups, samples.ids, columns, samples.weights is not None)
    training = fitting.Training(estimator, samples, y, classes, groups, folds, seeds, fit_params)
    training = replace(training, places=places, combine=scheme.combine)
    if samples.weights is not None:
        _ = training.scale  # which refuses weights of 0 before anything is fitted
    return rule, training, promises


def _unseen_label_chance(settings: Any, columns: NDArray[np.int64], classes: NDArray[Any], frozen: bool) -> float:
    """Return about the chance that a new row carries a label not among the classes (Good and Turing's estimate)."""
    if settings.classes is not None:
        return 0.0
    seen_once = classes[np.bincount(columns, minlength=len(classes)) == 1]
    if frozen:  # it would know some of them without these rows
        seen_once = seen_once[columns_of(seen_once, np.asarray(settings.estimator.classes_)) < 0]
    return len(seen_once) / (len(columns) + 1)


def _seeds_of_folds(settings: Any, n_folds: int, generator: np.random.Generator) -> list[int | None]:
    """Draw the seed of each fold's model; None leaves a single model, or models with own seeds, to their own chance."""
    drawn: list[int | None] = generator.integers(2**63, size=n_folds).tolist()
    if check_option(settings.fold_seeds, ("common", "own"), "fold_seeds") == "common" and n_folds > 1:
        return drawn[:1] * n_folds
    return drawn if settings.random_state is not None else [None] * n_folds


def fit(rule: Rule, training: fitting.Training, n_jobs: int | None, progress: bool) -> Fitted:
    """Fit every fold and keep its model."""
    if opens_ensemble(rule.scheme):
        models, folds = members(training.fit_model(0), training.train_rows(0))
        kept = [training.remember(model, fold) for model, fold in zip(models, folds, strict=True)]
        return Fitted(rule, replace(training, folds=folds).join(kept), models)
    fitted = fitting.fit_folds(training, n_jobs, progress)
    return Fitted(rule, training.join([kept for _, kept in fitted]), [model for model, _ in fitted])


def fit_and_predict(
    rule: Rule,
    training: fitting.Training,
    samples: fitting.Samples,
    levels: list[Fraction],
    allow_empty: bool,
    n_jobs: int | None,
    progress: bool,
) -> tuple[Fitted, list[PredictionSets]]:
    """Fit each fold, use its model on the new samples and drop it."""
    n_folds, classes = len(training.folds), rule.classes
    if n_folds == 1 or rule.scheme.combine.holds_all_models:
        fitted = fit(rule, training, n_jobs, progress)
        return Fitted(rule, fitted.held_out, []), fitted.sets(samples, levels, allow_empty, n_jobs)
    folds, tally = fitting.tally_folds(training, n_folds, samples, classes, rule.scheme.combine, n_jobs, progress)
    fitted = Fitted(rule, training.join(folds), [])
    return fitted, tally.sets(fitted.facing(samples), samples.ids, levels, classes, allow_empty)
