"""What a classifier has learned: the rule that its scores follow, the models, and what they say about new rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples

from aptset import AcceptanceThreshold, Calibration, CrossCalibration, PredictionSets
from aptset.calibration.formulas import Confidence, confidence_of
from aptset.calibration.request import PlacedRows
from aptset.conformal.aggregation import Tally, chunks, on_mean_grid
from aptset.conformal.clusters import promise_about
from aptset.conformal.importance import check_weights, effective_in_words
from aptset.conformal.measure import Measure
from aptset.conformal.scheme import Promises, Scheme, is_full
from aptset.core.groups import Groups, GroupValues
from aptset.core.levels import CellLevel, Level, warn_if_too_few
from aptset.core.matrix import OF_ESTIMATOR
from aptset.core.randomization import NewU, Randomization, check_first_row, check_ids, column_or_values
from aptset.core.row_groups import check_group_values, check_same_kind
from aptset.core.row_seeds import row_seeds
from aptset.core.tables import is_table, names_of_columns, without_column
from aptset.estimator.columns import NamedColumns
from aptset.estimator.decisions import Decisions, confidence_and_u
from aptset.estimator.fitting import Samples, probabilities_of, take, tally_folds
from aptset.estimator.leave_one_out import LeftOut, mean_of_left_out, tally_left_out
from aptset.estimator.models import LabelledModel
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.long_arrays import pointers_of
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import BLOCK_ROWS, CALIBRATION, PREDICTION, Rows, find_copies, own_seeds
from aptset.scores import Score
from aptset.scores.conformity import formula_of


@dataclass(frozen=True)
class Rule:
    """All that calibration and prediction must share for their scores to be comparable."""

    scheme: Scheme
    score: Score
    key: int
    chance: Randomization
    group_setting: Any
    groups: Groups
    classes: NDArray[Any]
    unseen_label_chance: float = 0.0
    importance: Callable[[Any], Any] | None = None
    cluster_column: str | None = None  # of X, which no model sees
    columns: NamedColumns = field(default_factory=NamedColumns)  # of the frame that came to fit
    training_rows: tuple[int, int] | None = None  # of the models: the fewest and the most; None if it is not known

    @cached_property
    def formula(self) -> Formula:
        """The score as the loops take it."""
        return formula_of(self.score)

    def features(self, X: Any) -> Any:
        """Return X as models see it: the columns of ``fit`` in their order, and no others, such as that of clusters."""
        column = self.cluster_column
        if self.columns.names:
            return self.columns.only(self.columns.in_front(X))
        if column is not None and is_table(X) and column in names_of_columns(X):
            return without_column(X, column)
        return X

    def samples(
        self,
        X: Any,
        passed_groups: Any = None,
        u: NewU = None,
        ids: Any = None,
        first_row: int = 0,
        is_whole: bool = True,
    ) -> tuple[Samples, GroupValues | None]:
        """Return what the scores of new rows depend on, and the group of each row where groups belong to rows.

        Rows may be a piece of a longer table that starts at ``first_row``; copies depend on where they stand.
        """
        given, values = X, None  # with columns that no model sees: of ids, or of groups
        if self.columns.names:
            given = self.columns.in_front(X)
            X = self.columns.only(given)
        elif self.cluster_column is not None:
            X = self.features(X)
        (X,) = indexable(X)
        n = _num_samples(X)
        if n == 0:
            raise ValueError("X must have at least one row; got n_samples=0.")
        start = first_row and check_first_row(first_row)
        named = ids if ids is None else column_or_values(ids, given)
        draw = self.chance.predicts(u, named, n, self.key, is_whole)
        seeds = own_seeds(row_seeds(X, self.key), PREDICTION, start) if draw.seeds is None else draw.seeds
        if not self.groups.is_one or self.group_setting is not None or passed_groups is not None:
            values = check_group_values(self.group_setting, passed_groups, given, n, self.groups)
            check_same_kind(self.groups.by_row, values)
        return self._samples(X, values, seeds, draw.u), values

    def calibration_samples(
        self, X: Any, values: GroupValues | None, u: ArrayLike | None, ids: Any
    ) -> tuple[Samples, Rule]:
        """Return what the scores of training rows depend on, and the rule that knows how many of them are copies."""
        n = _num_samples(X)
        draw = self.chance.calibrates(u, ids, n, self.key)
        if draw.seeds is None:
            seeds = row_seeds(X, self.key)
            copies = find_copies(seeds, CALIBRATION)
            seeds[copies.rows] = copies.seeds
            counts = len(copies.rows), n
        else:
            seeds, counts = draw.seeds, _copies_among_first(X, n, self.key)
        rule = replace(self, chance=self.chance.with_copies(*counts))
        return self._samples(X, values, seeds, draw.u), rule

    def _samples(self, X: Any, values: GroupValues | None, seeds: Words, u: Floats | None) -> Samples:
        """Return rows with their groups, and with the weights that a function of X gives them, if there is one."""
        weight_of_row, n = self.importance, len(seeds)
        weights = None if weight_of_row is None else check_weights(weight_of_row(X), n, "what weights returns")
        return Samples(X, seeds, u, self.groups.ids(values, n), self.formula, self.key, weights)


def _copies_among_first(X: Any, n_rows: int, key: int) -> tuple[int, int]:
    """Return how many of the first rows are copies of others, and of how many; none of rows that cannot be hashed."""
    n_block = min(n_rows, BLOCK_ROWS)
    try:
        return len(find_copies(row_seeds(take(X, slice(n_block)), key), CALIBRATION).rows), n_block
    except (TypeError, ValueError):  # such rows have ids because of it
        return 0, n_rows


def concatenate(parts: list[PredictionSets]) -> PredictionSets:
    """Put sets over the same classes one after the other."""
    if len(parts) == 1:
        return parts[0]
    indptr = pointers_of(np.concatenate([part.sizes for part in parts]))
    return PredictionSets.trusted(indptr, np.concatenate([part.indices for part in parts]), parts[0].classes)


@dataclass(frozen=True)
class Fitted:
    """Models and the scores of their held-out rows; the models may have been dropped.

    After a split the held-out rows are kept one by one as well: what is acted on is learned from them.
    """

    rule: Rule
    held_out: Measure
    models: list[Any]
    decisions: Decisions | None = None
    fit_times: dict[str, Any] | None = None  # how the models came to be

    def with_models(self) -> Fitted:
        """Return the same, or refuse if the models were dropped."""
        if not self.models:
            raise NotFittedError("fit_predict_set drops its models to save memory; call fit to predict later.")
        return self

    @property
    def native_model(self) -> Any:
        """The first model as its library knows it, without what gives it labels or keeps it from being fitted."""
        model = self.models[0]
        while isinstance(model, LabelledModel | FrozenEstimator):
            model = model.model if isinstance(model, LabelledModel) else model.estimator
        return model

    @cached_property
    def has_one_judge(self) -> bool:
        """Whether one model scores all rows, each by itself."""
        return len(self.models) == 1 and not is_full(self.rule.scheme)

    @cached_property
    def promises(self) -> Promises:
        """What is promised."""
        return Promises.of(self.rule.scheme, self.held_out)

    def placed(
        self,
        samples: Samples,
        values: GroupValues | None,
        alphas: Sequence[Level] = (),
        levels: Sequence[Level] | None = None,
    ) -> Samples:
        """Return new samples with the mass that they bring; say if calibration samples are too few for some of them.

        Without ``alphas`` nothing is said. ``levels`` are the input levels at which calibration runs.
        """
        inner = None if levels is alphas else levels
        _, mass = self.held_out.place(values, samples.weights, len(samples.seeds), alphas, inner)
        return samples if mass is None else replace(samples, mass=mass)

    def in_words(self) -> str:
        """Say how it was calibrated."""
        n, n_folds = self.held_out.n, len(self.held_out.folds)
        size = effective_in_words(self.held_out)
        size = f" ({size} effective)" if size else ""
        clusters = self.held_out.clusters
        what = f" samples{size}" if clusters is None else f" {clusters.nouns} ({self.held_out.rows} rows)"
        return f"{self.rule.scheme.name}, {n}{what}" + (
            f" in {n_folds} folds" if n_folds > 1 and not is_full(self.rule.scheme) else ""
        )

    def promise_in_words(self, level: Level) -> str:
        """Say what is promised at an input level."""
        reason, unseen = self.promises.reason_of_nothing(level), self.rule.unseen_label_chance
        if reason:
            return f"promises nothing, {reason}"
        promised = self.promises.by_name(level)
        if isinstance(promised, dict):
            promise = f"promises coverage >= {', '.join(f'{part:.4g} of {name}' for name, part in promised.items())}"
        else:
            runs_at = level if isinstance(level, Fraction) else level.strictest
            about = promise_about(self.held_out.clusters)
            promise = f"promises coverage >= {promised:.4g}{about}, level {float(runs_at):.4g}"
        if isinstance(level, CellLevel) and level.assurance is not None:
            promise += f", {level.assurance} that this calibration keeps it"
        promise += ", if the weights are right" if self.promises.is_weighted else ""
        return promise + (f", of known labels (chance of another one about {unseen:.2g})" if unseen else "")

    def calibration(self, allow_empty: bool) -> Calibration | CrossCalibration:
        """Return what was calibrated, apart from the models.

        Several models must judge a new row by one u. The classifier takes it from X, which a calibration does not see:
        it is then the caller's to pass, as the promise asks.
        """
        rule, common = self.rule, (self.rule.classes, self.rule.score, self.rule.key)
        n_models = len(self.held_out.of_models)
        if n_models == 1 and not is_full(rule.scheme):
            return Calibration(self.held_out, *common, rule.chance, allow_empty)
        chance = replace(rule.chance, source="given") if rule.chance.source == "content" else rule.chance
        return CrossCalibration(self.held_out, np.arange(n_models), *common, chance, allow_empty, scheme=rule.scheme)

    def sets(
        self, samples: Samples, levels: Sequence[Level], allow_empty: bool, n_jobs: int | None
    ) -> list[PredictionSets]:
        """Return the sets at each level, in pieces that keep the memory bounded."""
        pieces = self._pieces(samples)
        parts = [self.sets_of(piece, self._modelled(piece, n_jobs), levels, allow_empty) for piece in pieces]
        return parts[0] if len(parts) == 1 else [concatenate(list(sets)) for sets in zip(*parts, strict=True)]

    def p_values(self, samples: Samples, n_jobs: int | None) -> Floats:
        """Return the p-value of every label."""
        return np.concatenate(
            [self.p_values_of(piece, self._modelled(piece, n_jobs)) for piece in self._pieces(samples)]
        )

    def answer(
        self, samples: Samples, level: Level, allow_empty: bool, n_jobs: int | None
    ) -> tuple[PredictionSets, Floats, NDArray[np.generic]]:
        """Return sets, p-values and probabilities, and ask every model once."""
        parts = []
        for piece in self._pieces(samples):
            modelled = self._modelled(piece, n_jobs)
            (sets,) = self.sets_of(piece, modelled, [level], allow_empty)
            parts.append((sets, self.p_values_of(piece, modelled), self.probabilities_of(modelled)))
        of_sets, of_p_values, of_probabilities = zip(*parts, strict=True)
        return concatenate(list(of_sets)), np.concatenate(of_p_values), np.concatenate(of_probabilities)

    def act(
        self, samples: Samples, threshold: AcceptanceThreshold, level: Level, allow_empty: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], PredictionSets]:
        """Return on which guesses to act, the guesses, and the sets of all rows; asks the only model once."""
        parts = []
        for piece in self._pieces(samples):
            rows = piece.under(self.models[0], self.rule.classes)
            (sets,) = self.sets_of(piece, rows, [level], allow_empty)
            guesses = np.asarray(rows.probabilities.argmax(axis=1), dtype=np.int64)
            parts.append((threshold.above(*confidence_and_u(rows.probabilities, piece.seeds), guesses), guesses, sets))
        act, of_guesses, of_sets = zip(*parts, strict=True)
        return np.concatenate(act), np.concatenate(of_guesses), concatenate(list(of_sets))

    def _pieces(self, samples: Samples) -> list[Samples]:
        models_at_once = len(self.models) if self.rule.scheme.combine.holds_all_models else 1
        if isinstance(self.models[0], LeftOut):
            models_at_once = self.models[0].whole.formula.width
        pieces = chunks(len(samples.seeds), len(self.rule.classes) * models_at_once)
        return [samples] if len(pieces) == 1 else [samples.some(piece) for piece in pieces]

    def _modelled(self, samples: Samples, n_jobs: int | None) -> Rows | Tally:
        """Return the probabilities of the only model, or what several models together say."""
        if self.has_one_judge:
            return samples.under(self.models[0], self.rule.classes)
        return self.tally(samples, n_jobs)

    def sets_of(
        self, samples: Samples, modelled: Rows | Tally, levels: Sequence[Level], allow_empty: bool
    ) -> list[PredictionSets]:
        """Return the sets at each level of samples that the models were asked about."""
        held_out, ids, classes, mass = self.held_out, samples.ids, self.rule.classes, samples.mass
        if isinstance(modelled, Rows):
            return PlacedRows(held_out, modelled, ids, mass, OF_ESTIMATOR).sets(levels, classes, allow_empty)
        chosen = modelled.sets(held_out, ids, levels, allow_empty, mass)
        return [PredictionSets.trusted(*of_level, classes) for of_level in chosen]

    def p_values_of(self, samples: Samples, modelled: Rows | Tally) -> Floats:
        """Return the p-values of samples that the models were asked about."""
        if isinstance(modelled, Rows):
            p_values: Floats = PlacedRows(self.held_out, modelled, samples.ids, samples.mass, OF_ESTIMATOR).p_values()
            return p_values
        return modelled.p_values(self.held_out, samples.ids, samples.mass)

    def probabilities_of(self, modelled: Rows | Tally) -> NDArray[np.generic]:
        """Return the probabilities of the only model, or their mean over several."""
        return modelled.probabilities if isinstance(modelled, Rows) else modelled.mass / len(self.models)

    def tally(self, samples: Samples, n_jobs: int | None = None) -> Tally:
        """Return what all models together say about new samples."""
        if is_full(self.rule.scheme):
            full: Tally = self.models[0].model.tally(samples, self.held_out)
            return full
        if isinstance(self.models[0], LeftOut):
            of_models = (samples, self.rule.classes, self.rule.scheme.combine)
            return tally_left_out(self.models[0].whole, self.held_out.of_models, *of_models)
        kept = list(zip(self.models, self.held_out.of_models, strict=True))
        _, tally = tally_folds(
            kept.__getitem__, len(kept), samples, self.rule.classes, self.rule.scheme.combine, n_jobs, prefer="threads"
        )
        return tally


class SetsOfPieces:
    """Predicts consecutive pieces of one table; each but the last has a multiple of 4096 rows.

    Parameters
    ----------
    classifier : ConformalClassifier
        A fitted one.
    alphas : sequence
        The levels, as :meth:`ConformalClassifier.predict_set` takes them.
    n_rows : int or None
        How many rows the table has, if that is known.
    with_confidence : bool
        Whether ``confidence`` shall have that of the rows of the last piece.
    """

    confidence: Confidence | None = None

    def __init__(
        self, classifier: Any, alphas: Sequence[Any], n_rows: int | None, with_confidence: bool = False
    ) -> None:
        self._with_confidence = with_confidence
        self._classifier, self._fitted = classifier, classifier._fitted()
        self._alphas, _ = classifier._asked(list(alphas), None)
        self._levels = classifier._levels(self._alphas, self._fitted.promises)
        self._n_rows, self._met = n_rows, dict[Any, int]()
        self._seeds: list[Words] = []
        self.rows = 0

    def of(self, X: Any, groups: Any, ids: Any, u: NewU = None) -> list[PredictionSets]:
        """Return the sets of the next piece at each level."""
        is_whole = self.rows == 0 and len(X) == self._n_rows
        samples, values = self._fitted.rule.samples(X, groups, u, ids, self.rows, is_whole)
        self._met |= self._fitted.held_out.resolve_groups(values, len(samples))[1]
        if ids is not None:
            self._seeds.append(samples.seeds)
        self.rows += len(samples)
        classifier = self._classifier
        samples = self._fitted.placed(samples, values, () if samples.weights is None else self._alphas, self._levels)
        if self._with_confidence:
            _, p_values, probabilities = self._fitted.answer(samples, self._levels[0], True, classifier.n_jobs)
            self.confidence = confidence_of(p_values, probabilities, self._fitted.rule.classes)
        sets: list[PredictionSets] = self._fitted.sets(samples, self._levels, classifier.allow_empty, classifier.n_jobs)
        return sets

    def finish(self) -> None:
        """Check what only all pieces together tell: ids that do not tell rows apart, and groups that are too small."""
        if self._seeds:
            check_ids(np.concatenate(self._seeds), self.rows, least_distinct=0.05, fewest=100)
        if not self._fitted.promises.is_weighted:  # of weights, pieces have told
            held_out = self._fitted.held_out
            sizes = held_out.size_of_group
            warn_if_too_few(self._met, self._alphas, held_out.groups, sizes, self._levels, held_out.counted)


def mean_probabilities(models: list[Any], X: Any, classes: NDArray[Any]) -> NDArray[np.generic]:
    """Return the mean of the models' probabilities; those of the model itself if there is one."""
    if len(models) == 1:
        return probabilities_of(models[0], X, classes)
    if isinstance(models[0], LeftOut):
        return mean_of_left_out(models[0].whole, len(models), X, classes)
    total = on_mean_grid(probabilities_of(models[0], X, classes))
    for model in models[1:]:
        total += on_mean_grid(probabilities_of(model, X, classes))
    return total / len(models)
