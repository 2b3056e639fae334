"""What the estimator does, without the estimator: prepare, fit, predict, as functions of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples

from aptset.calibrations import CALIBRATIONS
from aptset.calibrations.bootstrap import OutOfBag
from aptset.calibrations.folds import Fold
from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.promises import Promises
from aptset.calibrations.scheme import Scheme
from aptset.calibrations.split import Split
from aptset.calibrations.tally import Tally, chunks, p_values_of_one_model, sets_of_one_model
from aptset.chance import Chance
from aptset.estimator import fitting
from aptset.estimator.checks import (
    check_estimator_can,
    check_frozen,
    check_frozen_calibration,
    check_label_space,
    check_models_kept,
    check_some_rows,
    check_training_data,
    check_workers,
)
from aptset.estimator.ensembles import drawn_ensemble, members
from aptset.estimator.order import canonical_places
from aptset.estimator.tuning import set_aside_and_choose
from aptset.groups import Groups, GroupValues
from aptset.kernels.copies import CALIBRATION, PREDICTION, find_copies, own_seeds
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words
from aptset.labels import columns_of
from aptset.probabilities.calibration import Calibration
from aptset.probabilities.cross import CrossCalibration
from aptset.scores import Adaptive, Score
from aptset.seeds import row_seeds
from aptset.sets import PredictionSets, concatenate
from aptset.validation.chance import (
    check_ids,
    column_or_values,
)
from aptset.validation.groups import (
    check_group_values,
    check_same_kind,
)
from aptset.validation.matrices import OF_ESTIMATOR
from aptset.validation.scores import (
    AUTO,
    check_conformity,
    formula_of,
)
from aptset.validation.settings import (
    check_choice,
    check_flag,
    check_generator,
    check_option,
    draw_key,
)


@dataclass(frozen=True)
class Rule:
    """All that calibration and prediction must share for their scores to be comparable."""

    scheme: Scheme
    score: Score
    key: int
    chance: Chance
    group_setting: Any
    groups: Groups
    classes: NDArray[Any]
    unseen_label_chance: float = 0.0

    @property
    def randomized(self) -> bool:
        """Whether u is drawn or 1 everywhere."""
        return self.chance.randomized

    def samples(
        self, X: Any, passed_groups: Any = None, u: ArrayLike | None = None, ids: Any = None
    ) -> tuple[fitting.Samples, GroupValues | None]:
        """Return what the scores of new rows depend on, and the group of each row where groups belong to rows."""
        (X,) = indexable(X)
        n = _num_samples(X)
        check_some_rows(n)
        draw = self.chance.predicts(u, column_or_values(ids, X), n, self.key, stacklevel=5)
        seeds = own_seeds(row_seeds(X, self.key), PREDICTION) if draw.seeds is None else draw.seeds
        values = check_group_values(self.group_setting, passed_groups, X, n)
        check_same_kind(self.groups.kind, values)
        return self._samples(X, values, seeds, draw.u), values

    def calibration_samples(
        self, X: Any, values: GroupValues | None, u: ArrayLike | None, ids: Any
    ) -> tuple[fitting.Samples, Rule]:
        """Return what the scores of training rows depend on, and the rule that knows how many of them are copies."""
        n = _num_samples(X)
        draw = self.chance.calibrates(u, column_or_values(ids, X), n, self.key)
        if draw.seeds is not None:
            return self._samples(X, values, draw.seeds, draw.u), self
        seeds = row_seeds(X, self.key)
        copies = find_copies(seeds, CALIBRATION)
        seeds[copies.rows] = copies.seeds
        rule = replace(self, chance=self.chance.with_copies(len(copies.rows), n))
        return self._samples(X, values, seeds, draw.u), rule

    def _samples(self, X: Any, values: GroupValues | None, seeds: Words, u: Floats | None) -> fitting.Samples:
        return fitting.Samples(X, seeds, u, self.groups.ids(values, len(seeds)), formula_of(self.score), self.key)


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
    generator = check_generator(settings.random_state)
    frozen = fitting.is_frozen(settings.estimator)
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
    opens = isinstance(scheme, OutOfBag)
    estimator = drawn_ensemble(settings.estimator, len(y), fit_params, generator) if opens else settings.estimator
    classes = check_label_space(settings.classes, classes)
    columns = columns_of(y, classes)
    unseen = _unseen_label_chance(settings, columns, classes, frozen)
    values = check_group_values(settings.groups, passed_groups, X, len(y))
    groups = Groups.of(values, settings.groups, classes)
    chance = Chance.of(u, ids, settings.randomized)
    rule = Rule(scheme, score, key, chance, settings.groups, groups, classes, unseen)
    samples, rule = rule.calibration_samples(X, values, u, ids)
    seeds = _seeds_of_folds(settings, len(folds), generator)
    content = X if ids is None else samples.seeds  # rows that have ids go by them
    places = canonical_places(content, y, fit_params, key) if len(folds) > 1 or opens else None
    promises = Promises.before_fit(scheme, folds, groups, samples.ids, columns)
    training = fitting.Training(estimator, samples, y, classes, groups, folds, seeds, fit_params)
    training = replace(training, places=places, combine=scheme.combine)
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


@dataclass(frozen=True)
class Fitted:
    """Models and the scores of their held-out rows; the models may have been dropped."""

    rule: Rule
    held_out: HeldOut
    models: list[Any]

    def with_models(self) -> Fitted:
        """Return the same, or refuse if the models were dropped."""
        check_models_kept(self.models)
        return self

    @property
    def promises(self) -> Promises:
        """What is promised."""
        return Promises(self.rule.scheme, self.held_out.sizes_of_folds)

    def calibration(self, allow_empty: bool) -> Calibration | CrossCalibration:
        """Return what was calibrated, apart from the models.

        Several models must judge a new row by one u. The classifier takes it from X, which a calibration does not see:
        it is then the caller's to pass, as the promise asks.
        """
        rule, common = self.rule, (self.rule.classes, self.rule.score, self.rule.key)
        judges = len(self.held_out.of_models)
        if judges == 1:
            return Calibration(self.held_out, *common, rule.chance, allow_empty)
        chance = replace(rule.chance, source="given") if rule.chance.source == "content" else rule.chance
        return CrossCalibration(self.held_out, np.arange(judges), *common, chance, allow_empty, scheme=rule.scheme)

    def sets(
        self, samples: fitting.Samples, levels: list[Fraction], allow_empty: bool, n_jobs: int | None
    ) -> list[PredictionSets]:
        """Return the sets at each level, in pieces that keep the memory bounded."""
        classes, parts = self.rule.classes, []
        for some in self._pieces(samples):
            if len(self.models) == 1:
                rows = some.under(self.models[0], classes)
                found = sets_of_one_model(self.held_out, rows, some.ids, levels, classes, allow_empty, OF_ESTIMATOR)
            else:
                found = self._tally(some, n_jobs).sets(self.held_out, some.ids, levels, classes, allow_empty)
            parts.append(found)
        return [concatenate(list(of_level)) for of_level in zip(*parts, strict=True)]

    def p_values(self, samples: fitting.Samples, n_jobs: int | None) -> Floats:
        """Return the p-value of every label."""
        parts = []
        for some in self._pieces(samples):
            if len(self.models) == 1:
                rows = some.under(self.models[0], self.rule.classes)
                parts.append(p_values_of_one_model(self.held_out, rows, some.ids, OF_ESTIMATOR))
            else:
                parts.append(self._tally(some, n_jobs).p_values(self.held_out, some.ids))
        return np.concatenate(parts)

    def answer(
        self, samples: fitting.Samples, level: Fraction, allow_empty: bool, n_jobs: int | None
    ) -> tuple[PredictionSets, Floats, NDArray[np.generic]]:
        """Return sets, p-values and probabilities, and ask every model once."""
        parts = []
        for some in self._pieces(samples):
            common = (some.ids, [level], self.rule.classes, allow_empty)
            if len(self.models) == 1:
                rows = some.under(self.models[0], self.rule.classes)
                (sets,) = sets_of_one_model(self.held_out, rows, *common, OF_ESTIMATOR)
                p_values = p_values_of_one_model(self.held_out, rows, some.ids, OF_ESTIMATOR)
                parts.append((sets, p_values, rows.probabilities))
            else:
                tally = self._tally(some, n_jobs)
                (sets,) = tally.sets(self.held_out, *common)
                parts.append((sets, tally.p_values(self.held_out, some.ids), tally.mass / len(self.models)))
        of_sets, of_p_values, of_probabilities = zip(*parts, strict=True)
        return concatenate(list(of_sets)), np.concatenate(of_p_values), np.concatenate(of_probabilities)

    def _pieces(self, samples: fitting.Samples) -> Iterator[fitting.Samples]:
        voices = len(self.models) if self.rule.scheme.combine.holds_all_models else 1
        pieces = chunks(len(samples), len(self.rule.classes) * voices)
        yield from [samples] if len(pieces) == 1 else map(samples.some, pieces)

    def _tally(self, samples: fitting.Samples, n_jobs: int | None) -> Tally:
        kept = list(zip(self.models, self.held_out.of_models, strict=True))
        _, tally = fitting.tally_folds(
            kept.__getitem__, len(kept), samples, self.rule.classes, self.rule.scheme.combine, n_jobs, prefer="threads"
        )
        return tally


def fit(rule: Rule, training: fitting.Training, n_jobs: int | None, progress: bool) -> Fitted:
    """Fit every fold and keep its model."""
    if isinstance(rule.scheme, OutOfBag):
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
    return fitted, tally.sets(fitted.held_out, samples.ids, levels, classes, allow_empty)
