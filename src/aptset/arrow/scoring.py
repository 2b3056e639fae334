"""From batches with labels to the scores of the labels: what is the same in every pass and on every worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset import Gridded
from aptset.arrow.layout import ColumnLayout
from aptset.arrow.states import check_grid_scores
from aptset.calibration.request import count_copies, make_rows, scores_of_labels
from aptset.conformal.histogram import Keys, keys_of
from aptset.core.groups import Groups, Kind
from aptset.core.randomization import Randomization
from aptset.kernels.formula import Formula
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import CALIBRATION
from aptset.scores import Conformity as Conformity
from aptset.scores import Score
from aptset.scores.conformity import formula_of

PARTITION_ROWS = 2**40  # rows of partition p are numbered from p times this: their copies are copies of their own


class ScoredPiece(NamedTuple):
    """What is kept of the rows of a piece: keys in the order of their scores, the group of each, and their chance."""

    keys: Keys
    names: Sequence[Any]
    groups: NDArray[Any]
    n_copies: int
    fingerprint: int
    ids: Words


@dataclass(frozen=True)
class BatchScorer:
    """How labels are scored: the columns, the score, and where chance comes from."""

    layout: ColumnLayout
    conformity: Score
    kind: Kind
    key: int
    chance: Randomization
    normalize: bool
    logits: bool
    bands: Groups | None = None  # of the labels, where the kind is "band"

    @property
    def resolution(self) -> float | None:
        """The grid that scores are on, if there is one."""
        return float(self.conformity.resolution) if isinstance(self.conformity, Gridded) else None

    @property
    def names(self) -> tuple[Any, ...]:
        """The groups that are known before any row is seen."""
        if self.bands is not None:
            return tuple(range(len(self.bands.names)))
        return {"all": ("all",), "label": tuple(range(len(self.layout.classes))), "row": ()}[self.kind]

    def groups_of(self, names: tuple[Any, ...]) -> Groups:
        """Return the groups under their own names: those of labels are counted by number."""
        if self.bands is not None:
            return self.bands
        return Groups(self.kind, tuple(self.layout.classes.tolist()) if self.kind == "label" else names)

    def score(self, piece: pa.RecordBatch, first_row: int) -> ScoredPiece:
        """Score the label of each row."""
        columns, matrix = self.layout.label_columns(piece), self.layout.matrix(piece)
        draw = self.chance.calibrates(None, self.layout.id_values(piece), len(matrix), self.key, 0.0)
        settings = (draw, self.normalize, CALIBRATION, first_row)
        rows = make_rows(matrix, matrix, False, self.logits, self._formula, self.key, *settings)
        scored = scores_of_labels(rows, columns)
        check_grid_scores(scored.scores, self.resolution)
        names, groups = self._groups(piece, columns)
        keys = keys_of(scored.scores, self.resolution)
        words = int(scored.seeds.sum(dtype=np.uint64)) + int((scored.scores + 0.0).view(np.uint64).sum(dtype=np.uint64))
        ids = scored.seeds[:0] if self.layout.ids is None else scored.seeds
        n_copies = scored.n_copies
        if self.layout.ids is not None:
            share = count_copies(matrix, matrix, False, self.key)
            n_copies = share[0] * len(matrix) // max(1, share[1])
        return ScoredPiece(keys, names, groups, n_copies, words, ids)

    @cached_property
    def _formula(self) -> Formula:
        return formula_of(self.conformity)

    def _groups(self, piece: pa.RecordBatch, columns: NDArray[np.int64]) -> tuple[Sequence[Any], NDArray[Any]]:
        of_rows = self.layout.group_values(piece)
        if of_rows is not None:
            return of_rows
        if self.bands is not None:
            return self.names, self.bands.ids_of_labels(None, columns)
        return self.names, columns if self.kind == "label" else np.zeros(len(columns), dtype=np.int64)
