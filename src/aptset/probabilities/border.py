"""From what the user passes to the score of each true label: the border that both faces for probabilities share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.held_out import FoldScores, HeldOut
from aptset.calibrations.tuning import Trial, Tuning, choose, some_rows
from aptset.calibrations.weighted import Weighted
from aptset.calibrations.weights import Scale, WeightedScores
from aptset.data.groups.checks import check_group_values
from aptset.data.groups.ids import Groups, groups_labels
from aptset.data.groups.overlapping_checks import WITHOUT_WEIGHTS, refuse_overlapping
from aptset.data.label_checks import check_labels
from aptset.data.labels import Coded
from aptset.data.matrix_checks import (
    check_named_columns,
    check_probabilities,
)
from aptset.data.setting_checks import (
    check_flag,
    check_generator,
    draw_key,
)
from aptset.data.tables import without_column
from aptset.kernels.copies import BLOCK_ROWS, CALIBRATION
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, label_scores
from aptset.kernels.rowhash import Words
from aptset.probabilities.answers import (
    NAME,
    content_seeds,
    count_copies,
    looked_at,
    make_rows,
    scores_of_labels,
    stays_on_device,
    with_own_seeds,
)
from aptset.probabilities.chance import Chance, fingerprint_of
from aptset.probabilities.chance.checks import (
    check_first_row,
    column_or_values,
)
from aptset.probabilities.weighing import EQUAL, Weighed, Weighing
from aptset.scores import Adaptive, Score
from aptset.scores.conformity import (
    check_conformity,
    for_classes,
    formula_of,
)

__all__ = ["NAME", "Scored", "score_labels", "take_ids"]


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

    def held_out(self, members: Sequence[NDArray[np.intp] | slice] = (slice(None),)) -> HeldOut:
        """Return the scores of the rows of each fold; by default there is one that holds them all."""
        groups, weighed = self.groups, self.weighed
        if weighed is None:
            folds = [FoldScores.sort(self.scores[rows], self.group_of_row[rows], groups) for rows in members]
            return HeldOut(tuple(folds), groups)
        weights, scale = weighed.of_rows, Scale.of(weighed.of_rows)
        return Weighted(
            tuple(
                WeightedScores.of(self.scores[rows], weights[rows], self.group_of_row[rows], groups, scale)
                for rows in members
            ),
            groups,
            ratios=weighed.ratios,
            corrects=weighed.corrects,
        )


def score_labels(
    probabilities: Any,
    labels: Any,
    conformity: Any,
    classes: Any,
    groups: Any,
    randomized: bool,
    normalize: bool,
    u: Any,
    ids: Any,
    random_state: Any,
    first_row: Any = 0,
    logits: Any = False,
    tuning: Tuning | None = None,
    least_distinct: float = 0.5,
    weighing: Weighing = EQUAL,
    number_copies: Callable[[Words], Words] | None = None,
) -> Scored:
    """Check everything and score the true label of each row; with ``tuning``, choose the score on some of them.

    ``number_copies`` turns the seeds of contents into those of copies, where rows come after others, as in many files.
    """
    score = check_conformity(conformity) if tuning is None else Adaptive()
    randomized, normalize = check_flag(randomized, "randomized"), check_flag(normalize, "normalize")
    probabilities, ids = take_ids(probabilities, ids)
    soft = check_flag(logits, "logits")
    # A score is chosen on the host, and columns are corrected there.
    stays = tuning is None and weighing is EQUAL and stays_on_device(probabilities, formula_of(score))
    matrix, names = check_probabilities(looked_at(probabilities, stays), NAME)
    matrix, known = check_named_columns(matrix, names, classes, labels, NAME)
    columns = check_labels(labels, known, len(matrix))
    score = for_classes(score, known)
    formula, weighed = formula_of(score), weighing.of(columns, known)
    by_name = isinstance(groups, str) or groups_labels(groups)
    values = check_group_values(groups if by_name else None, None if by_name else groups, None, len(matrix))
    generator = check_generator(random_state)
    key, chance = draw_key(generator), Chance.of(u, ids, randomized)
    start = check_first_row(first_row, BLOCK_ROWS)
    draw = chance.calibrates(u, ids, len(matrix), key, least_distinct)
    factors = None if weighed is None else weighed.factors
    of_rows = (formula, key, draw, normalize, CALIBRATION, start, factors)
    rows = make_rows(matrix, probabilities, stays, soft, *of_rows)
    if number_copies is not None and draw.seeds is None and isinstance(rows, Rows):
        keys = content_seeds(rows, matrix, soft)
        rows = with_own_seeds(rows, keys, number_copies(keys))
    found = scores_of_labels(rows, columns)
    n_copies, n_rows = (found.n_copies, len(rows)) if ids is None else count_copies(matrix, probabilities, stays, key)
    trials: tuple[Trial, ...] = ()
    reserved = None
    if tuning is not None and isinstance(rows, Rows):
        reserved = tuning.reserve(len(matrix), generator)
        tuning = replace(tuning, candidates=tuple(for_classes(one, known) for one in tuning.candidates))
        score, trials = choose(some_rows(rows, reserved), columns[reserved], tuning, NAME)
        rows, columns = some_rows(rows, ~reserved), columns[~reserved]
        values = _some(values, ~reserved)
        weighed = None if weighed is None else weighed.some(~reserved)
        found = label_scores(replace(rows, formula=formula_of(score)), columns)
    found_groups = Groups.of(values, groups, known)
    if weighed is not None:
        refuse_overlapping(found_groups.kind, *WITHOUT_WEIGHTS)
    group_of_row = found_groups.ids_of_labels(found_groups.ids(values, len(rows)), columns)
    chance, fingerprint = chance.with_copies(n_copies, n_rows), fingerprint_of(found.seeds, found.scores)
    of_score = (score, key, chance, fingerprint, found.seeds, trials, reserved, weighed)
    return Scored(found.scores, group_of_row, found_groups, known, names, *of_score)


def _some(values: Any, rows: NDArray[np.bool_]) -> Any:
    """Return the groups of some rows."""
    if values is None:
        return None
    if isinstance(values, Coded):
        return values.some(rows)
    return [values[row] for row in np.flatnonzero(rows).tolist()]


def take_ids(probabilities: Any, ids: Any) -> tuple[Any, Any]:
    """Return the probabilities and the ids, which may be a column of the same data frame."""
    values = column_or_values(ids, probabilities)
    return (without_column(probabilities, ids) if isinstance(ids, str) else probabilities), values
