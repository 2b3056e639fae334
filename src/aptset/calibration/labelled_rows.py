"""From what the user passes to the score of each true label: what both faces for probabilities share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from aptset.calibration.trials import Trial, Tuning, choose, some_rows
from aptset.calibration.weights import EQUAL, ImportanceWeights, RowWeights
from aptset.conformal.clusters import OVERLAPPING_CLUSTERS, Clusters, check_clusters_alone
from aptset.conformal.fold_scores import FoldScores, clustered_folds
from aptset.conformal.importance import Scale
from aptset.conformal.measure import Measure
from aptset.core import validate
from aptset.core.groups import Groups, GroupValues, groups_labels
from aptset.core.labels import Coded, check_labels
from aptset.core.matrix import check_named_columns, check_probabilities
from aptset.core.overlapping import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.core.randomization import Randomization, check_first_row, fingerprint_of
from aptset.core.row_groups import Answers, Membership, check_clusters, check_group_values, check_votes
from aptset.core.validate import draw_key
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.rowhash import Words, mix
from aptset.kernels.rows import BLOCK_ROWS, CALIBRATION, LabelScores, Rows, label_scores
from aptset.scores import Adaptive, Score
from aptset.scores.conformity import check_conformity, check_intervals, for_classes, formula_of

if TYPE_CHECKING:
    from aptset.calibration.tensors import OnDevice

__all__ = ["NAME", "LabelledRequest", "Scored", "score_labels", "take_ids"]


@dataclass(frozen=True)
class Scored:
    """The score and the group of each calibration row, and all that new rows need to be scored alike."""

    scores: Floats
    group_of_row: NDArray[np.intp]
    groups: Groups
    classes: NDArray[Any]
    columns: NDArray[Any] | None
    conformity: Score
    key: int
    chance: Randomization
    fingerprint: int
    seeds: Words
    trials: tuple[Trial, ...] = ()
    reserved: NDArray[np.bool_] | None = None
    weighed: RowWeights | None = None
    clusters: Membership | None = None
    votes: Floats | None = None  # of each score, where a row has several answers

    def held_out(self, members: Sequence[NDArray[np.intp] | slice] = (slice(None),)) -> Measure:
        """Return the scores of the rows of each fold; by default there is one that holds them all."""
        groups, weighed = self.groups, self.weighed
        if self.clusters is not None:
            return self._clustered(self.clusters, members)
        if weighed is None:
            folds = [FoldScores.sort(self.scores[rows], self.group_of_row[rows], groups) for rows in members]
            return Measure(tuple(folds), groups)
        weights, scale = weighed.of_rows, Scale.of(weighed.of_rows)
        return Measure(
            tuple(
                FoldScores.weighted(self.scores[rows], weights[rows], self.group_of_row[rows], groups, scale)
                for rows in members
            ),
            groups,
            ratios=weighed.ratios,
            corrects=weighed.corrects,
        )

    def _clustered(self, clusters: Membership, members: Sequence[NDArray[np.intp] | slice]) -> Measure:
        """Return the scores with the masses that their clusters share out."""
        scores, cells = [self.scores[rows] for rows in members], [self.group_of_row[rows] for rows in members]
        words = [clusters.words[rows] for rows in members]
        votes = None if self.votes is None else [self.votes[rows] for rows in members]
        folds, unit = clustered_folds(scores, cells, words, self.groups, votes)
        return Measure(folds, self.groups, clusters=Clusters(clusters.noun, votes is not None, unit))


class LabelledRequest(NamedTuple):
    """What comes with the probabilities and labels of calibration rows, the same for every way to calibrate.

    ``least_distinct`` is the share of ids that must differ. ``number_copies`` turns the seeds of contents into those of
    copies, where rows come after others, as in many files. With ``tuning`` the score is chosen on a part of the rows.
    """

    conformity: Any
    classes: Any = None
    groups: Any = None
    randomized: bool = True
    normalize: bool = False
    u: Any = None
    ids: Any = None
    random_state: Any = None
    first_row: Any = 0
    logits: Any = False
    tuning: Tuning | None = None
    least_distinct: float = 0.5
    weighing: ImportanceWeights = EQUAL
    number_copies: Callable[[Words], Words] | None = None
    clusters: Any = None
    votes: Any = None


def score_labels(probabilities: Any, labels: Any, request: LabelledRequest) -> Scored:
    """Check everything and score the true label of each row; with ``tuning``, choose the score on some of them."""
    checked = _check(probabilities, labels, request)
    rows, answers = _rows_of(checked, request), checked.answers
    scored = scores_of_labels(rows, checked.columns) if answers is None else _scores_of_answers(rows, answers)
    copies = (scored.n_copies, len(checked.matrix))
    if checked.ids is not None:
        copies = count_copies(checked.matrix, checked.given, checked.stays, checked.key)
    trials: tuple[Trial, ...] = ()
    reserved = None
    if request.tuning is not None and isinstance(rows, Rows):
        reserved = request.tuning.reserve(len(checked.matrix), checked.generator, checked.clusters)
        checked, scored, trials = _choose_score(checked, rows, request.tuning, reserved)
    cells, group_of_row = _cells_of(checked, request)
    randomization, fingerprint = checked.chance.with_copies(*copies), fingerprint_of(scored.seeds, scored.scores)
    clusters = checked.clusters
    if answers is not None:
        words = mix(scored.seeds + np.uint64(fingerprint) + answers.rows.astype(np.uint64))
        clusters = Membership(words, "row")  # rows of other parts are other clusters, whatever they hold
    of_score = (checked.score, checked.key, randomization, fingerprint, scored.seeds, trials, reserved)
    of_rows = (*of_score, checked.weighed, clusters, None if answers is None else answers.votes)
    return Scored(scored.scores, group_of_row, cells, checked.classes, checked.names, *of_rows)


@dataclass(frozen=True)
class _Checked:
    """Calibration rows with labels, groups, weights and clusters that have been checked; nothing is scored yet."""

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
    weighed: RowWeights | None
    clusters: Membership | None
    generator: np.random.Generator
    key: int
    chance: Randomization


def _check(probabilities: Any, labels: Any, request: LabelledRequest) -> _Checked:
    """Check what came with the rows, from the score to the clusters."""
    score = check_conformity(request.conformity) if request.tuning is None else Adaptive()
    formula, ids, clusters = formula_of(score), request.ids, request.clusters
    randomized = validate.flag(request.randomized, "randomized")
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    table, belong = probabilities, clusters is not None or request.votes is not None
    if belong:
        _check_together(request)
        probabilities = without_ids(probabilities, clusters, "clusters")
    # A score is chosen on the host, and columns are corrected there.
    may_stay = request.tuning is None and request.weighing is EQUAL and not belong
    stays = may_stay and stays_on_device(probabilities, formula)
    matrix, names = check_probabilities(shape_proxy(probabilities, stays) if stays else probabilities, NAME)
    matrix, known = check_named_columns(matrix, names, request.classes, [0] if labels is None else labels, NAME)
    answers = None if request.votes is None else check_votes(request.votes, known, len(matrix))
    columns = check_labels(labels, known, len(matrix)) if answers is None else answers.columns
    bound = for_classes(score, known, labels)
    weighed = None if request.weighing is EQUAL else request.weighing.of(columns, known)
    values = None if request.groups is None else _group_values(request.groups, len(matrix))
    generator = validate.generator(request.random_state)
    key, chance = draw_key(generator), Randomization.of(request.u, ids, randomized)
    members = None if clusters is None else check_clusters(clusters, table, len(matrix), key)
    bound_formula = formula if bound is score else formula_of(bound)
    of_labels = (names, known, columns, answers, bound, bound_formula, ids, values, weighed, members)
    return _Checked(probabilities, matrix, stays, *of_labels, generator, key, chance)


def _rows_of(checked: _Checked, request: LabelledRequest) -> Rows | OnDevice:
    """Return the rows as the loops take them, each with what its u comes from."""
    n_rows, key, logits = len(checked.matrix), checked.key, validate.flag(request.logits, "logits")
    start, divides = check_first_row(request.first_row, BLOCK_ROWS), validate.flag(request.normalize, "normalize")
    draw = checked.chance.calibrates(request.u, checked.ids, n_rows, key, request.least_distinct)
    factors = None if checked.weighed is None else checked.weighed.factors
    of_rows = (checked.formula, key, draw, divides, CALIBRATION, start, factors)
    rows = make_rows(checked.matrix, checked.given, checked.stays, logits, *of_rows)
    if request.number_copies is None or draw.seeds is not None or not isinstance(rows, Rows):
        return rows
    keys = content_seeds(rows, checked.matrix)
    return with_own_seeds(rows, keys, request.number_copies(keys))


def _choose_score(
    checked: _Checked, rows: Rows, tuning: Tuning, reserved: NDArray[np.bool_]
) -> tuple[_Checked, LabelScores, tuple[Trial, ...]]:
    """Choose the score on the reserved rows; return the other rows with their scores, and what was tried."""
    tuning = replace(tuning, candidates=tuple(for_classes(score, checked.classes) for score in tuning.candidates))
    score, trials = choose(some_rows(rows, reserved), checked.columns[reserved], tuning, NAME)
    kept, formula = ~reserved, formula_of(score)
    checked = replace(
        checked,
        score=score,
        formula=formula,
        columns=checked.columns[kept],
        values=_some(checked.values, kept),
        weighed=None if checked.weighed is None else checked.weighed.some(kept),
        clusters=None if checked.clusters is None else checked.clusters.some(kept),
    )
    return checked, label_scores(replace(some_rows(rows, kept), formula=formula), checked.columns), trials


def _cells_of(checked: _Checked, request: LabelledRequest) -> tuple[Groups, NDArray[np.intp]]:
    """Return the cells of a calibration, and the cell of each score."""
    weighed, answers = checked.weighed, checked.answers
    cells = Groups.of(checked.values, request.groups, checked.classes)
    check_intervals(checked.score, cells.by_label or (weighed is not None and weighed.ratios is not None))
    if weighed is not None:
        refuse_overlapping(cells.kind, *WITHOUT_WEIGHTS)
    if checked.clusters is not None or answers is not None:
        refuse_overlapping(cells.kind, *OVERLAPPING_CLUSTERS)
    group_ids = cells.ids(checked.values, len(checked.columns) if answers is None else len(checked.matrix))
    if answers is not None and group_ids is not None:
        group_ids = group_ids[answers.rows]
    return cells, cells.ids_of_labels(group_ids, checked.columns)


def _check_together(request: LabelledRequest) -> None:
    """Refuse what no theorem knows of rows that belong together, or of several answers."""
    name = "votes" if request.clusters is None else "clusters"
    if request.clusters is not None and request.votes is not None:
        raise ValueError(
            "clusters must be left out where votes are passed: each row is then a cluster of its answers. For rows of "
            "patients pass labels, one per row, and clusters."
        )
    weighing = request.weighing
    check_clusters_alone(weighing.weights, weighing.label_weights, weighing.prior_correction, name)
    if request.votes is not None and request.tuning is not None:
        raise ValueError(
            "conformity must name a score where votes are passed; got 'auto', which judges scores by one label per "
            "row. Choose by aptset.tune on other rows."
        )


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
        scores[now] = label_scores(some_rows(again, answers.rows[now]), answers.columns[now]).scores
    return first._replace(scores=scores, seeds=first.seeds[answers.rows])


def _group_values(groups: Any, n_rows: int) -> GroupValues | None:
    """Return the group of each calibration row; None where labels decide, by name or by bands."""
    by_labels = isinstance(groups, str) or groups_labels(groups)
    return check_group_values(groups if by_labels else None, None if by_labels else groups, None, n_rows)


def _some(values: Any, rows: NDArray[np.bool_]) -> Any:
    """Return the groups of some rows."""
    if values is None:
        return None
    if isinstance(values, Coded):
        return values.some(rows)
    return [values[row] for row in np.flatnonzero(rows).tolist()]
