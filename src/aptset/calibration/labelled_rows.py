"""From what the user passes to the score of each true label: the border that both faces for probabilities share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.request import (
    EQUAL,
    NAME,
    Weighed,
    Weighing,
    content_seeds,
    count_copies,
    looked_at,
    make_rows,
    scores_of_labels,
    stays_on_device,
    take_ids,
    with_own_seeds,
    without_ids,
)
from aptset.calibration.trials import Trial, Tuning, choose, some_rows
from aptset.conformal.clusters import OVERLAPPING_CLUSTERS, Clusters, check_clusters_alone
from aptset.conformal.fold_scores import FoldScores, clustered_folds
from aptset.conformal.importance import Scale
from aptset.conformal.measure import Measure
from aptset.core.clusters import Answers, Membership, check_clusters, check_votes
from aptset.core.group_values import check_group_values
from aptset.core.groups import Groups, GroupValues, groups_labels
from aptset.core.labels import Coded, check_labels
from aptset.core.matrix import check_named_columns, check_probabilities
from aptset.core.overlapping import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.core.randomization import Chance, check_first_row, fingerprint_of
from aptset.core.validate import check_flag, check_generator, draw_key
from aptset.kernels.formula import Floats
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
    chance: Chance
    fingerprint: int
    seeds: Words
    trials: tuple[Trial, ...] = ()
    reserved: NDArray[np.bool_] | None = None
    weighed: Weighed | None = None
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
    weighing: Weighing = EQUAL
    number_copies: Callable[[Words], Words] | None = None
    clusters: Any = None
    votes: Any = None


def score_labels(probabilities: Any, labels: Any, request: LabelledRequest) -> Scored:
    """Check everything and score the true label of each row; with ``tuning``, choose the score on some of them."""
    tuning, weighing, groups = request.tuning, request.weighing, request.groups
    score = check_conformity(request.conformity) if tuning is None else Adaptive()
    formula = formula_of(score)
    randomized, normalize = check_flag(request.randomized, "randomized"), check_flag(request.normalize, "normalize")
    ids = request.ids
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    clusters, belong = request.clusters, request.clusters is not None or request.votes is not None
    if belong:
        _check_together(request)
        table, probabilities = probabilities, without_ids(probabilities, clusters, "clusters")
    soft = check_flag(request.logits, "logits")
    # A score is chosen on the host, and columns are corrected there.
    stays = tuning is None and weighing is EQUAL and not belong and stays_on_device(probabilities, formula)
    matrix, names = check_probabilities(looked_at(probabilities, stays) if stays else probabilities, NAME)
    matrix, known = check_named_columns(matrix, names, request.classes, [0] if labels is None else labels, NAME)
    answers = None if request.votes is None else check_votes(request.votes, known, len(matrix))
    columns = check_labels(labels, known, len(matrix)) if answers is None else answers.columns
    bound = for_classes(score, known, labels)
    score, formula = bound, formula if bound is score else formula_of(bound)
    weighed = None if weighing is EQUAL else weighing.of(columns, known)
    values = None if groups is None else _group_values(groups, len(matrix))
    generator = check_generator(request.random_state)
    key, chance = draw_key(generator), Chance.of(request.u, ids, randomized)
    start = check_first_row(request.first_row, BLOCK_ROWS)
    members = None if clusters is None else check_clusters(clusters, table, len(matrix), key)
    draw = chance.calibrates(request.u, ids, len(matrix), key, request.least_distinct)
    factors = None if weighed is None else weighed.factors
    of_rows = (formula, key, draw, normalize, CALIBRATION, start, factors)
    rows = make_rows(matrix, probabilities, stays, soft, *of_rows)
    if request.number_copies is not None and draw.seeds is None and isinstance(rows, Rows):
        keys = content_seeds(rows, matrix)
        rows = with_own_seeds(rows, keys, request.number_copies(keys))
    scored = scores_of_labels(rows, columns) if answers is None else _scores_of_answers(rows, answers)
    n_rows = n_all = len(matrix)
    n_copies = scored.n_copies
    if ids is not None:
        n_copies, n_all = count_copies(matrix, probabilities, stays, key)
    trials: tuple[Trial, ...] = ()
    reserved = None
    if tuning is not None and isinstance(rows, Rows):
        reserved = tuning.reserve(n_rows, generator, members)
        tuning = replace(tuning, candidates=tuple(for_classes(one, known) for one in tuning.candidates))
        score, trials = choose(some_rows(rows, reserved), columns[reserved], tuning, NAME)
        rows, columns = some_rows(rows, ~reserved), columns[~reserved]
        values, n_rows = _some(values, ~reserved), len(columns)
        weighed = None if weighed is None else weighed.some(~reserved)
        members = None if members is None else members.some(~reserved)
        scored = label_scores(replace(rows, formula=formula_of(score)), columns)
    cells = Groups.of(values, groups, known)
    check_intervals(score, cells.by_label or (weighed is not None and weighed.ratios is not None))
    if weighed is not None:
        refuse_overlapping(cells.kind, *WITHOUT_WEIGHTS)
    if belong:
        refuse_overlapping(cells.kind, *OVERLAPPING_CLUSTERS)
    group_ids = cells.ids(values, n_rows)
    if answers is not None and group_ids is not None:
        group_ids = group_ids[answers.rows]
    group_of_row = cells.ids_of_labels(group_ids, columns)
    chance, fingerprint = chance.with_copies(n_copies, n_all), fingerprint_of(scored.seeds, scored.scores)
    if answers is not None:
        words = mix(scored.seeds + np.uint64(fingerprint) + answers.rows.astype(np.uint64))
        members = Membership(words, "row")  # rows of other parts are other clusters, whatever they hold
    votes = None if answers is None else answers.votes
    of_score = (score, key, chance, fingerprint, scored.seeds, trials, reserved, weighed, members, votes)
    return Scored(scored.scores, group_of_row, cells, known, names, *of_score)


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
