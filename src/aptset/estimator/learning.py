"""What the estimator does, without the estimator: prepare, fit, predict, as functions of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_method_params

from aptset import Adaptive, CVPlus, JackknifePlus, PredictionSets, Split
from aptset.calibration.request import sets_of
from aptset.calibration.tuning import Tuning, choose
from aptset.conformal import CALIBRATIONS
from aptset.conformal.aggregation import Tally
from aptset.conformal.clusters import (
    OVERLAPPING_CLUSTERS,
    Clusters,
    check_clusters_alone,
    check_scheme_of_clusters,
    count_clusters,
    masses_of,
)
from aptset.conformal.fold_scores import Fold
from aptset.conformal.importance import check_weighing, check_weights_of_scheme
from aptset.conformal.scheme import Promises, Scheme, is_full, opens_ensemble
from aptset.conformal.schemes.cross import folds_of_splitter
from aptset.core import validate
from aptset.core.groups import EVERYONE, Groups, GroupValues, groups_overlap, is_pair
from aptset.core.labels import columns_of
from aptset.core.levels import Level, check_level, strictest
from aptset.core.matrix import OF_ESTIMATOR, tolerance_of
from aptset.core.overlapping import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.core.randomization import Randomization, check_ids, column_or_values
from aptset.core.row_groups import Membership, check_clusters, check_group_values, plural
from aptset.core.row_seeds import id_seeds, row_seeds
from aptset.core.runner import with_bar
from aptset.core.tables import without_column
from aptset.core.validate import check_choice, draw_key
from aptset.estimator import fitting
from aptset.estimator.checks import (
    check_estimator_can,
    check_frozen,
    check_frozen_calibration,
    check_label_space,
    check_overlap_scheme,
    check_training_data,
    check_workers,
    is_frozen,
    warn_trained_anew,
)
from aptset.estimator.columns import NamedColumns
from aptset.estimator.downdates import InexactError
from aptset.estimator.fitted import Fitted, Rule
from aptset.estimator.fitting import canonical_places
from aptset.estimator.full_conformal import check_full_model, fit_full
from aptset.estimator.leave_one_out import DifferingError, leave_each_out, warn_differing
from aptset.estimator.models import drawn_ensemble, members
from aptset.kernels.rows import Rows
from aptset.scores import Score
from aptset.scores.conformity import AUTO, check_conformity, check_intervals, for_classes, formula_of


def estimator_for(
    scheme: Scheme, estimator: Any, n_rows: int, fit_params: dict[str, Any], generator: np.random.Generator
) -> Any:
    """Return the estimator as a scheme fits it; refuse one that it cannot take."""
    if is_full(scheme):
        check_full_model(estimator, n_rows, fit_params)
    return drawn_ensemble(estimator, n_rows, fit_params, generator) if opens_ensemble(scheme) else estimator


_FOLDS = 5


class Rest(NamedTuple):
    """The score that was chosen, and the rows that are left to train and calibrate."""

    score: Score
    rows: NDArray[np.intp]
    fit_params: dict[str, Any]

    def of(self, *values: Any) -> list[Any]:
        """Return what belongs to these rows; what is None or the name of a column stays."""
        return [self._of(value) for value in values]

    def _of(self, value: Any) -> Any:
        if is_pair(value):  # the groups of rows, and what decides with them
            return self._of(value[0]), value[1]
        return value if value is None or isinstance(value, str) else fitting.take(value, self.rows)


def set_aside_and_choose(
    settings: Any,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    fit_params: dict[str, Any],
    key: int,
    generator: np.random.Generator,
    ids: NDArray[Any] | None = None,
    members: Membership | None = None,
) -> Rest:
    """Draw the rows that choose, let them choose, and return the others.

    The choice depends on the drawn rows alone (and on a frozen model): also the models that give them probabilities are
    trained on them, out of fold. So whatever calibration follows on the other rows, its theorem applies as it stands.
    """
    tuning = Tuning(strictest([check_level(settings.alpha)]))
    reserved = tuning.reserve(len(y), generator, members)
    chosen, rest = np.flatnonzero(reserved), np.flatnonzero(~reserved)
    some_X, some_y = fitting.take(X, chosen), y[chosen]
    some_params = _check_method_params(X, fit_params, indices=chosen)
    inside = None if members is None else members.some(chosen)
    probabilities = _out_of_fold(settings, some_X, some_y, classes, some_params, key, generator, inside)
    uniforms = None if settings.randomized else np.ones(len(some_y))
    seeds = row_seeds(some_X, key) if ids is None else id_seeds(ids[chosen], key)
    tolerance = tolerance_of(probabilities)
    rows = Rows(probabilities, formula_of(Adaptive()), key, tolerance, seeds, uniforms)
    score, _ = choose(rows, columns_of(some_y, classes), tuning, OF_ESTIMATOR)
    return Rest(score, rest, _check_method_params(X, fit_params, indices=rest))


def _out_of_fold(
    settings: Any,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    fit_params: dict[str, Any],
    key: int,
    generator: np.random.Generator,
    members: Membership | None = None,
) -> NDArray[np.generic]:
    """Return the probabilities of each row under a model that was not trained on it."""
    if is_frozen(settings.estimator):
        return fitting.probabilities_of(settings.estimator, X, classes)
    folds = folds_of(CVPlus(_FOLDS), X, y, members, generator)
    drawn = generator.integers(2**63, size=_FOLDS).tolist()
    seeds = drawn if settings.random_state is not None else [None] * _FOLDS
    samples = fitting.Samples(X, row_seeds(X, key), None, None, formula_of(Adaptive()), key)
    training = fitting.Training(settings.estimator, samples, y, classes, EVERYONE, folds, seeds, fit_params)
    parts = [
        fitting.probabilities_of(training.fit_model(f), fitting.take(X, fold.held_out), classes)
        for f, fold in with_bar(enumerate(folds), [1] * _FOLDS, "folds to choose on", settings.progress)
    ]
    probabilities = np.empty((len(y), len(classes)), dtype=np.result_type(*parts))
    for fold, part in zip(folds, parts, strict=True):
        probabilities[fold.held_out] = part
    return probabilities


def folds_of_clusters(
    scheme: Scheme, X: Any, y: NDArray[Any], members: Membership, generator: np.random.Generator
) -> list[Fold]:
    """Return folds of whole clusters: those that the scheme makes of as many rows as there are clusters.

    A scheme that looks at the rows, such as one with a splitter, makes its own, which must cut no cluster.
    """
    numbers, nouns = members.numbers(), plural(members.noun)
    n, n_folds, splitter = int(numbers.max()) + 1, getattr(scheme, "n_folds", None), getattr(scheme, "splitter", None)
    if splitter is not None:
        folds = folds_of_splitter(splitter, X, y, generator, numbers)
    elif not isinstance(scheme, Split | CVPlus | JackknifePlus):
        folds = scheme.folds(X, y, generator)
    else:
        folds = []
    if folds:
        for number, fold in enumerate(folds):
            check_whole_clusters(numbers, fold.held_out, fold.train_rows(len(y)), number, members.noun)
        return folds
    if n < 2 or (isinstance(n_folds, int) and n_folds > n):
        raise ValueError(
            f"clusters must be at least as many as there are folds, and 2 for a split: folds hold whole {nouns}; got "
            f"{n} {nouns}" + (f" for n_folds={n_folds}." if n_folds else ".") + " Pass fewer folds, or more rows."
        )
    every = np.arange(n)
    return [
        Fold(np.flatnonzero(np.isin(every, fold.held_out)[numbers])) for fold in scheme.folds(every, every, generator)
    ]


def check_whole_clusters(
    numbers: NDArray[np.intp], held_out: NDArray[np.intp], train: NDArray[np.intp], fold: int, noun: str
) -> None:
    """Refuse a fold that trains on rows of a cluster that it holds out."""
    both = np.intersect1d(numbers[held_out], numbers[train])
    if len(both):
        rows = [int(side[np.argmax(numbers[side] == both[0])]) for side in (held_out, train)]
        raise ValueError(
            f"folds must hold all rows of a {noun}; fold {fold + 1} holds row {rows[0]} out and trains on row "
            f"{rows[1]}, which are of one {noun}. Pass calibration='cv+', or CVPlus(splitter=GroupKFold(10))."
        )


def share_out(
    training: fitting.Training, members: Membership, groups: NDArray[np.intp], column: str | None
) -> fitting.Training:
    """Return the training with the mass of each row that calibrates: clusters share theirs out within each cell."""
    held_out = np.concatenate([fold.held_out for fold in training.folds])
    masses, unit = masses_of(groups[held_out], members.words[held_out])
    samples = training.samples
    if masses is not None:
        weights = np.zeros(len(samples))
        weights[held_out] = masses
        samples = replace(samples, weights=weights)
    clusters = Clusters(members.noun, unit=unit, column=column)
    return replace(training, samples=samples, words=members.words, clusters=clusters)


def prepare(
    settings: Any,
    X: Any,
    y: Any,
    passed_groups: Any,
    u: Any,
    ids: Any,
    fit_params: dict[str, Any],
    clusters: Any = None,
) -> tuple[Rule, fitting.Training, Promises]:
    """Check everything and draw everything random; ``settings`` has the parameters of ConformalClassifier."""
    check_estimator_can(settings.estimator)
    check_workers(settings.n_jobs)
    for name in ("randomized", "allow_empty", "progress"):
        validate.flag(getattr(settings, name), name)
    is_auto = isinstance(settings.conformity, str) and settings.conformity == AUTO
    score = Adaptive() if is_auto else check_conformity(settings.conformity)
    scheme: Scheme = check_choice(settings.calibration, CALIBRATIONS, "folds", "calibration")
    check_weighing(settings.weights)
    check_weights_of_scheme(settings.weights is not None, scheme.combine is Tally, f"calibration={scheme.name!r}")
    if clusters is not None:
        check_scheme_of_clusters(scheme.combine is Tally, f"calibration={scheme.name!r}")
        check_clusters_alone(settings.weights, None, None, "clusters")
    generator = validate.generator(settings.random_state)
    frozen = is_frozen(settings.estimator)
    if not frozen:
        warn_trained_anew(settings.estimator)
    check_overlap_scheme(groups_overlap(passed_groups), isinstance(scheme, Split), is_auto)
    labels = y  # as they came, with the order that a categorical may have
    X, y, classes = check_training_data(settings, X, y, 1 if frozen else 2, settings.classes)
    key = draw_key(generator)
    members = None if clusters is None else check_clusters(clusters, X, len(y), key)
    column = clusters if isinstance(clusters, str) else None
    X = X if column is None else without_column(X, column)
    features = NamedColumns.of(X, settings.estimator if frozen else None)
    X = features.in_front(X)
    if frozen:
        check_frozen_calibration(settings.calibration, isinstance(scheme, Split))
        classes = check_frozen(settings.estimator, classes, fit_params)
    if is_auto:
        ids = check_ids(column_or_values(ids, X), len(y), least_distinct=0.5)
        rest = set_aside_and_choose(settings, features.only(X), y, classes, fit_params, key, generator, ids, members)
        score, fit_params = rest.score, rest.fit_params
        X, y, passed_groups, u, ids = rest.of(X, y, passed_groups, u, ids)
        members = None if members is None else members.some(rest.rows)
    every = Fold(np.arange(len(y)), np.arange(0))  # nothing to train: one fold that holds every row out
    folds = [every] if frozen else folds_of(scheme, X, y, members, generator)
    opens = opens_ensemble(scheme)
    estimator = estimator_for(scheme, settings.estimator, len(y), fit_params, generator)
    classes = check_label_space(settings.classes, classes)
    score, columns = for_classes(score, classes, labels), columns_of(y, classes)
    unseen = _unseen_label_chance(settings, columns, classes, frozen, members)
    values = check_group_values(settings.groups, passed_groups, X, len(y))
    groups = Groups.of(values, passed_groups if is_pair(passed_groups) else settings.groups, classes)
    check_intervals(score, groups.by_label)
    if settings.weights is not None:
        refuse_overlapping(groups.overlaps, *WITHOUT_WEIGHTS)
    if members is not None:
        refuse_overlapping(groups.overlaps, *OVERLAPPING_CLUSTERS)
    chance = Randomization.of(u, ids, settings.randomized)
    of_rows = (settings.weights, column, features)
    rule = Rule(scheme, score, key, chance, settings.groups, groups, classes, unseen, *of_rows)
    rule = rule if frozen else replace(rule, training_rows=_training_rows(folds, len(y)))
    ids, X = column_or_values(ids, X), features.only(X)
    samples, rule = rule.calibration_samples(X, values, u, ids)
    seeds = _seeds_of_folds(settings, len(folds), generator)
    content = X if ids is None else samples.seeds  # rows that have ids go by them
    places = canonical_places(content, y, fit_params, key) if len(folds) > 1 or opens else None
    calibrating = (groups, samples.ids, columns, samples.weights is not None, members and members.words)
    promises = Promises.before_fit(scheme, folds, *calibrating)
    training = fitting.Training(estimator, samples, y, classes, groups, folds, seeds, fit_params)
    training = replace(training, places=places, combine=scheme.combine)
    if members is not None:
        training = share_out(training, members, groups.ids_of_labels(samples.ids, columns), column)
    if samples.weights is not None:
        _ = training.scale  # which refuses weights of 0 before anything is fitted
    return rule, training, promises


def _training_rows(folds: list[Fold], n_rows: int) -> tuple[int, int]:
    """Return how many rows train each model: the fewest and the most."""
    sizes = [n_rows - len(fold.held_out) if fold.train is None else len(fold.train) for fold in folds]
    return min(sizes), max(sizes)


def folds_of(
    scheme: Scheme, X: Any, y: NDArray[Any], members: Membership | None, generator: np.random.Generator
) -> list[Fold]:
    """Return the folds of a scheme, of rows or of whole clusters."""
    return scheme.folds(X, y, generator) if members is None else folds_of_clusters(scheme, X, y, members, generator)


def _unseen_label_chance(
    settings: Any, columns: NDArray[np.int64], classes: NDArray[Any], frozen: bool, members: Membership | None
) -> float:
    """Return about the chance that a new row carries a label not among the classes (Good and Turing's estimate).

    With clusters it is the chance that a new cluster has such a label: labels that one cluster has were seen once.
    """
    if settings.classes is not None:
        return 0.0
    words = np.arange(len(columns), dtype=np.uint64) if members is None else members.words
    seen = np.bincount(columns, minlength=len(classes))
    seen = seen if members is None else count_clusters(columns, words, len(classes))
    seen_once = classes[seen == 1]
    if frozen:  # it would know some of them without these rows
        seen_once = seen_once[columns_of(seen_once, np.asarray(settings.estimator.classes_)) < 0]
    return len(seen_once) / (len(columns if members is None else np.unique(words)) + 1)


def _seeds_of_folds(settings: Any, n_folds: int, generator: np.random.Generator) -> list[int | None]:
    """Draw the seed of each fold's model; None leaves a single model, or models with own seeds, to their own chance."""
    drawn: list[int | None] = generator.integers(2**63, size=n_folds).tolist()
    if validate.one_of(settings.fold_seeds, ("common", "own"), "fold_seeds") == "common" and n_folds > 1:
        return drawn[:1] * n_folds
    return drawn if settings.random_state is not None else [None] * n_folds


def fit(rule: Rule, training: fitting.Training, n_jobs: int | None, progress: bool) -> Fitted:
    """Fit every fold and keep its model."""
    if opens_ensemble(rule.scheme):
        models, folds = members(training.fit_model(0), training.train_rows(0))
        kept = [training.remember(model, fold) for model, fold in zip(models, folds, strict=True)]
        return Fitted(rule, replace(training, folds=folds).join(kept), models, fit_times=times(1, "one ensemble"))
    if is_full(rule.scheme):
        model, measure = fit_full(training)
        return Fitted(rule, measure, [model], fit_times=times(1, "one fit: rows are scored together with each new one"))
    by_formula, road = fit_by_formula(rule, training)
    if by_formula is not None:
        return by_formula
    fitted, made = fitting.fit_folds(training, n_jobs, progress), times(len(training.folds), road)
    if training.keeps_rows:
        ((model, (kept, decisions)),) = fitted
        return Fitted(rule, training.join([kept]), [model], decisions, made)
    return Fitted(rule, training.join([kept for _, kept in fitted]), [model for model, _ in fitted], fit_times=made)


def fit_by_formula(rule: Rule, training: fitting.Training) -> tuple[Fitted | None, str]:
    """Return what one fit gives where rows can be left out by formula; else nothing, and why every fold is fitted."""
    n_folds = len(training.folds)
    if n_folds == 1:
        return None, "one fit"
    try:
        models, kept = leave_each_out(training)
    except InexactError as error:
        if isinstance(error, DifferingError):
            warn_differing(error)
        return None, "a fit for each fold" + (f": {error}" if n_folds == len(training.y) else "")
    road = "one fit, and rows left out by formula; two models were fitted to compare with it"
    return Fitted(rule, training.join(kept), list(models), fit_times=times(3, road)), road


def times(n_fits: int, road: str) -> dict[str, Any]:
    """Return how often a model was fitted, and by which road the models of all folds came to be."""
    return {"fits": n_fits, "road": road}


def fit_and_predict(
    rule: Rule,
    training: fitting.Training,
    new: tuple[fitting.Samples, GroupValues | None],
    levels: list[Level],
    allow_empty: bool,
    n_jobs: int | None,
    progress: bool,
) -> tuple[Fitted, list[PredictionSets]]:
    """Fit each fold, use its model on the new samples and drop it."""
    n_folds, classes = len(training.folds), rule.classes
    if n_folds == 1 or rule.scheme.combine.holds_all_models:
        fitted = fit(rule, training, n_jobs, progress)
        return replace(fitted, models=[]), fitted.sets(fitted.placed(*new), levels, allow_empty, n_jobs)
    by_formula, road = fit_by_formula(rule, training)
    if by_formula is not None:
        return replace(by_formula, models=[]), by_formula.sets(by_formula.placed(*new), levels, allow_empty, n_jobs)
    folds, tally = fitting.tally_folds(training, n_folds, new[0], classes, rule.scheme.combine, n_jobs, progress)
    fitted = Fitted(rule, training.join(folds), [], fit_times=times(n_folds, road))
    samples = fitted.placed(*new)
    sets = tally.sets(fitted.held_out, samples.ids, levels, allow_empty, samples.mass)
    return fitted, sets_of(sets, classes)
