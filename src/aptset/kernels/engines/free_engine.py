"""The compiled loops around scores that they do not know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import blocks
from aptset.kernels.engines.compiled_engine import CompiledEngine, at_cells, job_of, known_of
from aptset.kernels.engines.seam import Calibrated, Columns, Groups
from aptset.kernels.formula import Floats, Places
from aptset.kernels.rowhash import Words

if TYPE_CHECKING:
    from aptset.kernels.places import Rows


@dataclass(frozen=True)
class FreeEngine(CompiledEngine):
    """The loops around scores that have no weights: every label is scored first, and no order of scores is assumed.

    Scores of a label's own mass are worked out in C; others are functions, which are told in C where labels stand.
    """

    def step(self, rows: Rows) -> int:
        """Return blocks whose scores stay in the cache of a core."""
        return max(1, blocks.BLOCK_CELLS // rows.n_columns)

    def label_scores(self, rows: Rows, labels: NDArray[np.int64], scores: Floats, noted: Words | None) -> int:
        """Score one label of each row."""
        own = rows.formula.own_mass
        if own is not None:
            return int(self.loops.own_mass(*job_of(rows, noted), own.factors, own.constant, own.u, labels, scores))
        every = np.empty(rows.probabilities.shape)
        bad = self.all_scores(rows, every, noted)
        scores[:] = np.take_along_axis(every, labels[:, None], axis=1)[:, 0]
        return bad

    def all_scores(self, rows: Rows, scores: Floats, noted: Words | None = None) -> int:
        """Score every label."""
        own, of = rows.formula.own_mass, rows.formula.of
        if own is not None:
            return int(self.loops.own_mass(*job_of(rows, noted), own.factors, own.constant, own.u, None, scores))
        assert of is not None
        of_labels, of_rows = np.empty((3, *scores.shape)), np.empty((5, len(scores), 1))
        bad = int(self.loops.standing(*job_of(rows, noted), of_labels, of_rows))
        if bad < 0:
            own, above, rank = of_labels
            top, second, total, with_mass, u = of_rows
            scores[:] = of(Places(own, above, rank, top, second, total, with_mass, u, scores.shape[1]))
        return bad

    def mask(self, rows: Rows, thresholds: Floats, at_least: int, flags: NDArray[np.bool_], noted: Words | None) -> int:
        """Flag the members."""
        rows, scores, bad = self._scored(rows, noted)
        if bad < 0:
            flags[:] = False
            where = (*at_cells(thresholds), at_least, None, None, 1, flags)
            self.loops.by_cell(*job_of(rows, None), len(rows), scores, *where)
        return bad

    def cut_by_label(
        self, rows: Rows, thresholds: Floats, at_least: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns]:
        """Return the members at a threshold for every column."""
        rows, scores, bad = self._scored(rows, noted)
        if bad >= 0:
            return bad, np.empty(0, dtype=np.int32)
        sizes[:], members = self._members(rows, scores, thresholds[None, :], at_least)
        return bad, members

    def mask_by_label(
        self, rows: Rows, thresholds: Floats, at_least: int, flags: NDArray[np.bool_], noted: Words | None
    ) -> int:
        """Flag the members at a threshold for every column."""
        return self.mask(rows, thresholds[None, :], at_least, flags, noted)

    def add_counts(self, rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
        """Count the scores below every label."""
        _, scores, bad = self._scored(rows, None)
        if bad < 0:
            self.loops.counts_of_scores(scores, rows.n_columns, *known_of(calibrated, row_groups), None, counts)
        return bad

    def p_values(
        self, rows: Rows, calibrated: Calibrated, row_groups: Groups, p_values: Floats, noted: Words | None
    ) -> int:
        """Count, divide, and go one step up where the table says so."""
        _, scores, bad = self._scored(rows, noted)
        if bad < 0:
            of_scores = (*known_of(calibrated, row_groups), self._rounding(calibrated))
            self.loops.p_values_of_scores(scores, rows.n_columns, *of_scores, p_values)
        return bad

    def _scored(self, rows: Rows, noted: Words | None) -> tuple[Rows, Floats, int]:
        """Return the rows with their seeds, the scores of all labels, and the first bad row or -1."""
        scores = np.empty(rows.probabilities.shape)
        if rows.seeds is not None:
            return rows, scores, self.all_scores(rows, scores)
        seeds = np.empty(len(rows), dtype=np.uint64) if noted is None else noted
        bad = self.all_scores(rows, scores, seeds)
        return replace(rows, seeds=seeds), scores, bad
