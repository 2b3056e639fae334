"""What the estimator does, without the estimator: prepare, fit, predict, as functions of values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_method_params

from aptset import Adaptive, CVPlus, JackknifePlus, PredictionSets, Split
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
from aptset.conformal.importance import check_weighing, check_weights_of_scheme
from aptset.conformal.measure import Fold
from aptset.conformal.scheme import Promises, Scheme, is_full, opens_ensemble
from aptset.conformal.schemes.cross import folds_of_splitter
from aptset.core import validate
from aptset.core.groupings import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.core.groups import EVERYONE, Groups, GroupValues, groups_overlap, is_pair
from aptset.core.labels import columns_of
from aptset.core.levels import Level, check_level, strictest
from aptset.core.matrix import OF_ESTIMATOR
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
from aptset.estimator.full_conformal import fit_full
from aptset.estimator.leave_one_out import DifferingError, leave_each_out, warn_differing
from aptset.estimator.models import estimator_for, members
from aptset.scores import Score
from aptset.scores.conformity import AUTO, check_conformity, check_intervals, for_classes, formula_of

_FOLDS = 5


@dataclass(frozen=True)
class GivenRows:
    """The rows of ``fit`` with all that came with them; groups and ids may be the names of columns."""

    X: Any
    y: NDArray[Any]
    groups: Any
    u: Any
    ids: Any
    members: Membership | None  # of clusters
    fit_params: dict[str, Any]

    def some(self, rows: NDArray[np.intp]) -> GivenRows:
        """Return some of the rows with what belongs to them."""
        groups, u, ids = (_some(values, rows) for values in (self.groups, self.u, self.ids))
        members = None if self.members is None else self.members.some(rows)
        fit_params = _check_method_params(self.X, self.fit_params, indices=rows)
        return GivenRows(fitting.take(self.X, rows), self.y[rows], groups, u, ids, members, fit_params)


def _some(values: Any, rows: NDArray[np.intp]) -> Any:
    if is_pair(values):  # the groups of rows, and what decides with them
        return _some(values[0], rows), values[1]
    return values if values is None or isinstance(values, str) else fitting.take(values, rows)


def set_aside_and_choose(
    settings: Any,
    given: GivenRows,
    features: NamedColumns,
    classes: NDArray[Any],
    key: int,
    generator: np.random.Generator,
) -> tuple[Score, GivenRows]:
    """Draw the rows that choose a score, let them choose, and return it with the other rows.

    The choice depends on the drawn rows alone (and on a frozen model): also the models that give them probabilities are
    trained on them, out of fold. So whatever calibration follows on the other rows, its theorem applies as it stands.
    """
    given = replace(given, ids=check_ids(column_or_values(given.ids, given.X), len(given.y), least_distinct=0.5))
    tuning = Tuning(strictest([check_level(settings.alpha)]))
    reserved = tuning.reserve(len(given.y), generator, given.members)
    chosen = given.some(np.flatnonzero(reserved))
    X, uniforms = features.only(chosen.X), None if settings.randomized else np.ones(len(chosen.y))
    seeds = row_seeds(X, key) if chosen.ids is None else id_seeds(chosen.ids, key)
    samples = fitting.Samples(X, seeds, uniforms, None, formula_of(Adaptive()), key)
    if is_frozen(settings.estimator):
        probabilities = fitting.probabilities_of(settings.estimator, X, classes)
    else:
        folds = folds_of(CVPlus(_FOLDS), X, chosen.y, chosen.members, generator)
        drawn: list[int | None] = generator.integers(2**63, size=_FOLDS).tolist()
        own: list[int | None] = drawn if settings.random_state is not None else [None] * _FOLDS
        of_folds = (classes, EVERYONE, folds, own, chosen.fit_params)
        probabilities = _out_of_fold(
            fitting.Training(settings.estimator, samples, chosen.y, *of_folds), settings.progress
        )
    score, _ = choose(samples.rows(probabilities), columns_of(chosen.y, classes), tuning, OF_ESTIMATOR)
    return score, given.some(np.flatnonzero(~reserved))


def _out_of_fold(training: fitting.Training, progress: bool) -> NDArray[np.generic]:
    """Return the probabilities of each row under a model that was not trained on it."""
    X, classes = training.samples.X, training.classes
    parts = [
        fitting.probabilities_of(training.fit_model(f), fitting.take(X, fold.held_out), classes)
        for f, fold in with_bar(enumerate(training.folds), [1] * _FOLDS, "folds to choose on", progress)
    ]
    probabilities = np.empty((len(training.y), len(classes)), dtype=np.result_type(*parts))
    for fold, part in zip(training.folds, parts, strict=True):
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
    all_rows = np.arange(n)
    return [
        Fold(np.flatnonzero(np.isin(all_rows, fold.held_out)[numbers]))
        for fold in scheme.folds(all_rows, all_rows, generator)
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


def _check_settings(settings: Any, has_clusters: bool) -> tuple[Scheme, Score | None]:
    """Return the scheme and the score that settings name; None for a score that is still to be chosen."""
    check_estimator_can(settings.estimator)
    check_workers(settings.n_jobs)
    for name in ("randomized", "allow_empty", "progress"):
        validate.flag(getattr(settings, name), name)
    is_auto = isinstance(settings.conformity, str) and settings.conformity == AUTO
    score = None if is_auto else check_conformity(settings.conformity)
    scheme: Scheme = check_choice(settings.calibration, CALIBRATIONS, "folds", "calibration")
    adds_up, called = scheme.combine is Tally, f"calibration={scheme.name!r}"
    check_weighing(settings.weights)
    check_weights_of_scheme(settings.weights is not None, adds_up, called)
    if has_clusters:
        check_scheme_of_clusters(adds_up, called)
        check_clusters_alone(settings.weights, None, None, "clusters")
    return scheme, score


def _groups_of(settings: Any, given: GivenRows, classes: NDArray[Any]) -> tuple[GroupValues | None, Groups]:
    """Return the group of each row where groups belong to rows, and the groups; refuse what no theorem speaks of."""
    values = check_group_values(settings.groups, given.groups, given.X, len(given.y))
    groups = Groups.of(values, given.groups if is_pair(given.groups) else settings.groups, classes)
    if settings.weights is not None:
        refuse_overlapping(groups.overlaps, *WITHOUT_WEIGHTS)
    if given.members is not None:
        refuse_overlapping(groups.overlaps, *OVERLAPPING_CLUSTERS)
    return values, groups


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
    scheme, score = _check_settings(settings, clusters is not None)
    generator, frozen = validate.generator(settings.random_state), is_frozen(settings.estimator)
    if not frozen:
        warn_trained_anew(settings.estimator)
    check_overlap_scheme(groups_overlap(passed_groups), isinstance(scheme, Split), score is None)
    labels = y  # as they came, with the order that a categorical may have
    X, y, classes = check_training_data(settings, X, y, 1 if frozen else 2, settings.classes)
    key = draw_key(generator)
    members = None if clusters is None else check_clusters(clusters, X, len(y), key)
    column = clusters if isinstance(clusters, str) else None
    X = X if column is None else without_column(X, column)
    features = NamedColumns.of(X, settings.estimator if frozen else None)
    given = GivenRows(features.in_front(X), y, passed_groups, u, ids, members, fit_params)
    if frozen:
        check_frozen_calibration(settings.calibration, isinstance(scheme, Split))
        classes = check_frozen(settings.estimator, classes, fit_params)
    if score is None:
        score, given = set_aside_and_choose(settings, given, features, classes, key, generator)
    y, members, n = given.y, given.members, len(given.y)
    whole = Fold(np.arange(n), np.arange(0))  # nothing to train: one fold that holds every row out
    folds = [whole] if frozen else folds_of(scheme, given.X, y, members, generator)
    estimator = estimator_for(scheme, settings.estimator, n, given.fit_params, generator)
    classes = check_label_space(settings.classes, classes)
    score, columns = for_classes(score, classes, labels), columns_of(y, classes)
    unseen = _unseen_label_chance(settings, columns, classes, frozen, members)
    values, groups = _groups_of(settings, given, classes)
    check_intervals(score, groups.by_label)
    chance = Randomization.of(given.u, given.ids, settings.randomized)
    trained = None if frozen else _training_rows(folds, n)
    of_rows = (settings.weights, column, features, trained)
    rule = Rule(scheme, score, key, chance, settings.groups, groups, classes, unseen, *of_rows)
    ids, X = column_or_values(given.ids, given.X), features.only(given.X)
    samples, rule = rule.calibration_samples(X, values, given.u, ids)
    seeds = _seeds_of_folds(settings, len(folds), generator)
    is_symmetric = len(folds) == 1 and not opens_ensemble(scheme)
    content = X if ids is None else samples.seeds  # rows that have ids go by them
    places = None if is_symmetric else canonical_places(content, y, given.fit_params, key)
    calibrating = (groups, samples.ids, columns, samples.weights is not None, members and members.words)
    promises = Promises.before_fit(scheme, folds, *calibrating)
    of_models = (folds, seeds, given.fit_params, places, scheme.combine)
    training = fitting.Training(estimator, samples, y, classes, groups, *of_models)
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
    fitted, fit_times = fitting.fit_folds(training, n_jobs, progress), times(len(training.folds), road)
    if training.keeps_rows:
        ((model, (kept, decisions)),) = fitted
        return Fitted(rule, training.join([kept]), [model], decisions, fit_times)
    return Fitted(
        rule, training.join([kept for _, kept in fitted]), [model for model, _ in fitted], fit_times=fit_times
    )


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
    return fitted, [PredictionSets.trusted(*chosen, classes) for chosen in sets]
