"""From what the user passes to the score of each true label: what both faces for probabilities share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.calibration import Calibration
from aptset.calibration.request import (
    NAME,
    content_seeds,
    count_copies,
    make_rows,
    scores_of_labels,
    shape_proxy,
    stays_on_device,
    take_ids,
    with_own_seeds,
    without_ids,
)
from aptset.calibration.weights import EQUAL, ImportanceWeights, RowWeights
from aptset.conformal.clusters import OVERLAPPING_CLUSTERS, Clusters, check_clusters_alone
from aptset.conformal.importance import Scale
from aptset.conformal.measure import FoldScores, Measure, clustered_folds
from aptset.core import validate
from aptset.core.groupings import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.core.groups import EVERYONE, Groups, GroupValues, groups_labels
from aptset.core.labels import check_labels
from aptset.core.matrix import check_named_columns, check_probabilities
from aptset.core.randomization import Randomization, check_first_row, fingerprint_of
from aptset.core.row_groups import Answers, Membership, check_clusters, check_group_values, check_votes
from aptset.core.validate import draw_key
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.rowhash import Words, mix
from aptset.kernels.rows import CALIBRATION, LabelScores, Rows, label_scores
from aptset.scores import Conformity as Conformity
from aptset.scores import Gridded, Score
from aptset.scores.conformity import check_conformity, check_intervals, for_classes, formula_of

if TYPE_CHECKING:
    from aptset.calibration.tensors import OnDevice


class LabelledRequest(NamedTuple):
    """What comes with the probabilities and labels of calibration rows, the same for every way to calibrate.

    ``least_distinct`` is the share of ids that must differ. ``number_copies`` turns the seeds of contents into those of
    copies, where rows come after others, as in many files.
    """

    conformity: Conformity
    classes: Any = None
    groups: Any = None
    randomized: bool = True
    normalize: bool = False
    u: Any = None
    ids: Any = None
    random_state: Any = None
    first_row: Any = 0
    logits: Any = False
    allow_empty: bool = True
    least_distinct: float = 0.5
    importance: ImportanceWeights = EQUAL
    number_copies: Callable[[Words], Words] | None = None
    clusters: Any = None
    votes: Any = None


FLAGS = ("allow_empty", "randomized", "normalize", "logits")


@dataclass(frozen=True)
class LabelledRows:
    """Calibration rows with labels, groups, weights and clusters that have been checked; nothing is scored yet."""

    request: LabelledRequest
    given: Any  # the probabilities as they came, without columns of ids and clusters
    matrix: NDArray[Any]
    stays: bool  # on the device
    names: NDArray[Any] | None
    classes: NDArray[Any]
    columns: NDArray[np.int64]
    answers: Answers | None
    score: Score
    formula: Formula
    ids: Any
    values: GroupValues | None
    row_weights: RowWeights | None
    clusters: Membership | None
    generator: np.random.Generator
    key: int
    chance: Randomization

    def rows(self) -> Rows | OnDevice:
        """Return the rows as the loops take them, each with what its u comes from."""
        request, key = self.request, self.key
        first_row = request.first_row
        start = 0 if type(first_row) is int and first_row == 0 else check_first_row(first_row)
        draw = self.chance.calibrates(request.u, self.ids, len(self.matrix), key, request.least_distinct)
        factors = None if self.row_weights is None else self.row_weights.factors
        of_rows = (self.formula, key, draw, bool(request.normalize), CALIBRATION, start, factors)
        rows = make_rows(self.matrix, self.given, self.stays, bool(request.logits), *of_rows)
        if request.number_copies is None or draw.seeds is not None or not isinstance(rows, Rows):
            return rows
        keys = content_seeds(rows, self.matrix)
        return with_own_seeds(rows, keys, request.number_copies(keys))

    def cells(self) -> tuple[Groups, NDArray[np.intp] | None]:
        """Return the cells of a calibration, and the cell of each score; None where there is only one."""
        by_labels = self.row_weights is not None and self.row_weights.ratios is not None
        if self.request.groups is None and not by_labels:
            return EVERYONE, None
        groups = Groups.of(self.values, self.request.groups, self.classes)
        check_intervals(self.score, groups.by_label or by_labels)
        if self.row_weights is not None:
            refuse_overlapping(groups.overlaps, *WITHOUT_WEIGHTS)
        if self.clusters is not None or self.answers is not None:
            refuse_overlapping(groups.overlaps, *OVERLAPPING_CLUSTERS)
        ids = groups.ids(self.values, len(self.columns) if self.answers is None else len(self.matrix))
        if self.answers is not None and ids is not None:
            ids = ids[self.answers.rows]
        return groups, groups.ids_of_labels(ids, self.columns)


@dataclass(frozen=True)
class Scored:
    """The score and the cell of each calibration row, and all that new rows need to be scored alike."""

    of: LabelledRows
    scores: Floats
    seeds: Words
    fingerprint: int
    chance: Randomization
    groups: Groups
    cell_of_row: NDArray[np.intp] | None  # None: there is one cell
    clusters: Membership | None

    def measure(self, members: Sequence[NDArray[np.intp] | slice] = (slice(None),)) -> Measure:
        """Return the scores of the rows of each fold; by default there is one that holds them all."""
        groups, row_weights = self.groups, self.of.row_weights
        if self.clusters is not None:
            return self._clustered(self.clusters, members)
        if row_weights is None:
            cells = self.cell_of_row
            folds = (FoldScores.sort(self.scores[r], None if cells is None else cells[r], groups) for r in members)
            return Measure(tuple(folds), groups)
        weights, scale = row_weights.of_rows, Scale.of(row_weights.of_rows)
        folds = (
            FoldScores.weighted(self.scores[rows], weights[rows], self._cells(rows), groups, scale) for rows in members
        )
        return Measure(tuple(folds), groups, ratios=row_weights.ratios, corrects=row_weights.corrects)

    def _cells(self, rows: Any) -> NDArray[np.intp]:
        """Return the cell of each of some rows."""
        return np.zeros(len(self.scores[rows]), dtype=np.intp) if self.cell_of_row is None else self.cell_of_row[rows]

    def _clustered(self, clusters: Membership, members: Sequence[NDArray[np.intp] | slice]) -> Measure:
        """Return the scores with the masses that their clusters share out."""
        scores, cells = [self.scores[rows] for rows in members], [self._cells(rows) for rows in members]
        words, answers = [clusters.words[rows] for rows in members], self.of.answers
        votes = None if answers is None else [answers.votes[rows] for rows in members]
        folds, unit = clustered_folds(scores, cells, words, self.groups, votes)
        return Measure(folds, self.groups, clusters=Clusters(clusters.noun, votes is not None, unit))

    def calibration(self) -> Calibration:
        """Return the calibration of one model on these rows."""
        of, request = self.of, self.of.request
        settings = (bool(request.allow_empty), of.names, bool(request.normalize))
        of_parts = ((self.fingerprint,), (int(request.first_row),))
        return Calibration(self.measure(), of.classes, of.score, of.key, self.chance, *settings, *of_parts)


def score_labels(probabilities: Any, labels: Any, request: LabelledRequest) -> Scored:
    """Check everything and score the true label of each row."""
    labelled = check_labelled(probabilities, labels, request)
    rows, answers = labelled.rows(), labelled.answers
    scored = scores_of_labels(rows, labelled.columns) if answers is None else _scores_of_answers(rows, answers)
    return finish(labelled, scored, scored.n_copies)


def score_and_formula(conformity: Any) -> tuple[Score, Formula]:
    """Return the score that a name, an object or a function stands for, and the form in which the loops take it."""
    score = check_conformity(conformity)
    return score, formula_of(score)


def score_on_grid(conformity: Any, resolution: float | None) -> Score:
    """Return the score that a name, an object or a function stands for, on a grid where a resolution is given."""
    score = check_conformity(conformity)
    return score if resolution is None else check_conformity(Gridded(score, resolution))


@dataclass(frozen=True)
class LabelScorer:
    """Scores the labels of calibration rows that come piece by piece, as :func:`score_labels` does all at once."""

    score: Score
    key: int
    chance: Randomization
    normalize: bool
    logits: bool

    @classmethod
    def of(cls, score: Score, classes: NDArray[Any], by_label: bool, ids: Any, settings: Any) -> LabelScorer:
        """Bind a checked score to classes; ``settings`` has the flags and the random state, as they were given."""
        bound = for_classes(score, classes)
        check_intervals(bound, by_label)
        chance = Randomization.of(None, ids, validate.flag(settings.randomized, "randomized"))
        normalize, logits = (validate.flag(getattr(settings, name), name) for name in ("normalize", "logits"))
        return cls(bound, draw_key(validate.generator(settings.random_state)), chance, normalize, logits)

    @cached_property
    def _formula(self) -> Formula:
        return formula_of(self.score)

    def scores(self, matrix: NDArray[Any], columns: NDArray[np.int64], ids: Any, first_row: int) -> LabelScores:
        """Score one label of each row of a piece; the copies of rows with ids are those that its first block shows."""
        draw = self.chance.calibrates(None, ids, len(matrix), self.key, 0.0)
        of_rows = (self._formula, self.key, draw, self.normalize, CALIBRATION, first_row)
        scored = scores_of_labels(make_rows(matrix, matrix, False, self.logits, *of_rows), columns)
        if ids is None:
            return scored
        n_copies, n_rows = count_copies(matrix, matrix, False, self.key)
        return scored._replace(n_copies=n_copies * len(matrix) // max(1, n_rows))


def finish(labelled: LabelledRows, scored: LabelScores, n_copies: int) -> Scored:
    """Put rows that are scored into their cells; so many rows are copies of others."""
    n_rows, clusters, answers = len(labelled.matrix), labelled.clusters, labelled.answers
    if labelled.ids is not None:
        n_copies, n_rows = count_copies(labelled.matrix, labelled.given, labelled.stays, labelled.key)
    fingerprint, chance = fingerprint_of(scored.seeds, scored.scores), labelled.chance.with_copies(n_copies, n_rows)
    if answers is not None:
        words = mix(scored.seeds + np.uint64(fingerprint) + answers.rows.astype(np.uint64))
        clusters = Membership(words, "row")  # rows of other parts are other clusters, whatever they hold
    return Scored(labelled, scored.scores, scored.seeds, fingerprint, chance, *labelled.cells(), clusters)


def check_labelled(probabilities: Any, labels: Any, request: LabelledRequest, may_stay: bool = True) -> LabelledRows:
    """Check what came with the rows, from the score to the clusters; ``may_stay`` allows rows to stay on a device."""
    score, ids, clusters = check_conformity(request.conformity), request.ids, request.clusters
    validate.flags(request, FLAGS)
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    table, belong = probabilities, clusters is not None or request.votes is not None
    if belong:
        _check_together(request)
        probabilities = without_ids(probabilities, clusters, "clusters")
    formula = formula_of(score)
    # Columns are corrected, and clusters looked up, on the host.
    stays = may_stay and type(probabilities) is not np.ndarray and request.importance is EQUAL and not belong
    stays = stays and stays_on_device(probabilities, formula)
    matrix, names = check_probabilities(shape_proxy(probabilities, stays) if stays else probabilities, NAME)
    matrix, known = check_named_columns(matrix, names, request.classes, [0] if labels is None else labels, NAME)
    answers = None if request.votes is None else check_votes(request.votes, known, len(matrix))
    columns = check_labels(labels, known, len(matrix)) if answers is None else answers.columns
    bound = for_classes(score, known, labels)
    row_weights = None if request.importance is EQUAL else request.importance.of(columns, known)
    values = None if request.groups is None else _group_values(request.groups, len(matrix))
    generator = validate.generator(request.random_state)
    key, chance = draw_key(generator), Randomization.of(request.u, ids, bool(request.randomized))
    members = None if clusters is None else check_clusters(clusters, table, len(matrix), key)
    return LabelledRows(
        request,
        probabilities,
        matrix,
        stays,
        names,
        known,
        columns,
        answers,
        bound,
        formula if bound is score else formula_of(bound),
        ids,
        values,
        row_weights,
        members,
        generator,
        key,
        chance,
    )


def _check_together(request: LabelledRequest) -> None:
    """Refuse what no theorem knows of rows that belong together, or of several answers."""
    name = "votes" if request.clusters is None else "clusters"
    if request.clusters is not None and request.votes is not None:
        raise ValueError(
            "clusters must be left out where votes are passed: each row is then a cluster of its answers. For rows of "
            "patients pass labels, one per row, and clusters."
        )
    importance = request.importance
    check_clusters_alone(importance.weights, importance.label_weights, importance.prior_correction, name)


def _scores_of_answers(rows: Rows | OnDevice, answers: Answers) -> LabelScores:
    """Score every label that somebody chose, a row's first one in the first pass; all labels of a row share its u."""
    assert isinstance(rows, Rows)
    starts = np.flatnonzero(np.diff(answers.rows, prepend=-1))
    first = scores_of_labels(rows, answers.columns[starts])
    scores, again = np.empty(len(answers.rows)), replace(rows, seeds=first.seeds)
    scores[starts] = first.scores
    place = np.arange(len(answers.rows)) - starts[answers.rows]
    for turn in range(1, int(place.max(initial=0)) + 1):
        now = np.flatnonzero(place == turn)
        scores[now] = label_scores(again.some(answers.rows[now]), answers.columns[now]).scores
    return first._replace(scores=scores, seeds=first.seeds[answers.rows])


def _group_values(groups: Any, n_rows: int) -> GroupValues | None:
    """Return the group of each calibration row; None where labels decide, by name or by bands."""
    by_labels = isinstance(groups, str) or groups_labels(groups)
    return check_group_values(groups if by_labels else None, None if by_labels else groups, None, n_rows)
