"""From what the user passes to the score of each true label: the border that both faces for probabilities share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.held_out import FoldScores
from aptset.calibrations.tuning import Trial, Tuning, choose, some_rows
from aptset.groups import Groups
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, label_scores
from aptset.scores import Adaptive, Score
from aptset.validation.groups import check_group_values
from aptset.validation.labels import check_labels
from aptset.validation.matrices import (
    check_named_columns,
    check_probabilities,
    check_rows,
    tolerance_of,
    uniforms_of,
)
from aptset.validation.scores import check_conformity, formula_of
from aptset.validation.settings import check_generator, draw_key

NAME = "probabilities"


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
    trials: tuple[Trial, ...] = ()
    reserved: NDArray[np.bool_] | None = None

    def fold(self, rows: NDArray[np.intp] | slice) -> FoldScores:
        """Return the sorted scores of some rows."""
        return FoldScores.sort(self.scores[rows], self.group_of_row[rows], len(self.groups.names))


def score_labels(
    probabilities: Any,
    labels: Any,
    conformity: Any,
    classes: Any,
    groups: Any,
    randomized: bool,
    normalize: bool,
    u: Any,
    random_state: Any,
    tuning: Tuning | None = None,
) -> Scored:
    """Check everything and score the true label of each row; with ``tuning``, choose the score on some of them."""
    score = check_conformity(conformity) if tuning is None else Adaptive()
    matrix, names = check_probabilities(probabilities, NAME)
    matrix, known = check_named_columns(matrix, names, classes, labels, NAME)
    columns = check_labels(labels, known, len(matrix))
    by_name = isinstance(groups, str)
    values = check_group_values(groups if by_name else None, None if by_name else groups, None, len(matrix))
    generator, uniforms = check_generator(random_state), uniforms_of(u, len(matrix), randomized)
    key = draw_key(generator)
    rows = Rows(matrix, formula_of(score), key, tolerance_of(matrix), u=uniforms, normalize=normalize)
    scores, first_bad = label_scores(rows, columns)
    check_rows(matrix, first_bad, NAME, normalize)
    trials: tuple[Trial, ...] = ()
    reserved = None
    if tuning is not None:
        reserved = tuning.reserve(len(matrix), generator)
        score, trials = choose(some_rows(rows, reserved), columns[reserved], tuning, NAME)
        rows, columns = some_rows(rows, ~reserved), columns[~reserved]
        values = None if values is None else [values[i] for i in np.flatnonzero(~reserved)]
        scores, _ = label_scores(replace(rows, formula=formula_of(score)), columns)
    of_rows = Groups.of(values, groups, known)
    group_of_row = of_rows.ids_of_labels(of_rows.ids(values, len(rows)), columns)
    return Scored(scores, group_of_row, of_rows, known, names, score, key, trials, reserved)
