"""Scores of held-out samples that do not all count alike: the new rows come from elsewhere, or have other labels.

A label is in iff the weight of the scores below its own is less than (1 - alpha)(W + v), where W is the weight of all
calibration samples (of the group) and v that of the new row, or of the label itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.measure import FoldScores, HeldOut, join_folds, join_groups
from aptset.conformal.weight_checks import (
    check_new_weights,
    refuse_with_weights,
    warn_of_infinite_thresholds,
    warn_of_small_size,
)
from aptset.conformal.weights import Scale, WeightedScores, Whole, join_weighted, narrowed
from aptset.core.groups import Groups, Ids
from aptset.core.validate import warn_if_too_few
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.counting import ratios, weight_needed_of_sums
from aptset.kernels.engines.interface import columns_in
from aptset.kernels.formula import Floats
from aptset.kernels.membership import Cut, FreeCut, cut, cut_by_cell, cut_by_label, mask_of, masks, masks_by_label
from aptset.kernels.rows import Rows

Below = Callable[[NDArray[Any], Ids | None], Whole]  # from what is known of cells, and the groups of their rows

_LONGEST = 2**63
_BLOCK_ROWS = 2**15
_FEW_CELLS = 256  # of a group: fewer are not worth a look at the group alone
_NO_THRESHOLD = "this asks for a threshold for all rows, and with weights every row has its own"


@dataclass(frozen=True)
class Weighted(HeldOut):
    """Scores with weights. ``ratios`` has the weight of each label where labels decide; else rows bring their own.

    With ``corrects`` the probabilities of labels are multiplied by the ratios before anything is scored.
    """

    ratios: Floats | None = None
    corrects: bool = False

    @property
    def parts(self) -> tuple[WeightedScores, ...]:
        """The folds, which are known to have weights."""
        return self.folds  # type: ignore[return-value]

    @property
    def scale(self) -> Scale:
        """From weights to whole numbers."""
        return self.parts[0].scale

    @property
    def factors(self) -> Floats | None:
        """What columns of probabilities are multiplied by; None: nothing."""
        return self.ratios if self.corrects else None

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The weight of each group in whole numbers, and 0 for one never seen."""
        found = sum(np.diff(part.cumulative[part.offsets]) for part in self.parts)
        return np.append(found, 0)

    @cached_property
    def effective_sizes(self) -> Floats:
        """So many samples of equal weight would say as much about the coverage, in each group: W^2 / sum w^2."""
        weights = np.concatenate([part.weights for part in self.parts]) / self.scale.largest
        group = np.concatenate([part.group_of_score for part in self.parts])
        first, second = (np.bincount(group, w, minlength=len(self.groups.names)) for w in (weights, weights**2))
        return np.divide(first**2, second, out=np.zeros(len(first)), where=second > 0)

    def facing(self, weights: Any, n_rows: int) -> Facing:
        """Return the scores as new rows, or labels, of some weights meet them."""
        found = check_new_weights(weights, n_rows, self.ratios is None, "with label_weights, which say it all")
        own = self.scale.whole(found)[:, None] if found is not None else self.scale.whole(self.label_ratios)[None, :]
        return Facing(self.folds, self.groups, self.judges, self.ratios, self.corrects, own)

    @property
    def label_ratios(self) -> Floats:
        """The weight of each label, where labels decide."""
        assert self.ratios is not None
        return self.ratios

    def of_labels(self, alpha: Fraction) -> list[float]:
        """Return the threshold of each label, where labels alone decide it."""
        if self.ratios is None or self.groups.kind == "row":
            refuse_with_weights(_NO_THRESHOLD)
        ids = None if self.groups.kind in ("label", "band") else np.zeros(1, dtype=np.int32)
        found: list[float] = self.facing(None, 1).thresholds_of(ids, alpha)[0].tolist()
        return found

    def merge(self, *others: HeldOut) -> HeldOut:
        """Join the scores of one-fold calibrations, group by group."""
        parts = (self, *others)
        groups = join_groups([part.groups for part in parts])
        return joined([[(part.folds[0], part.groups) for part in parts]], groups, self)

    def ranks(self, alpha: Fraction) -> NDArray[np.int64]:
        """Not there: no rank is the same for all rows."""
        return refuse_with_weights("this asks for the rank of a threshold, and with weights there is none")

    def _find_thresholds(self, alpha: Fraction) -> Floats:
        return refuse_with_weights(_NO_THRESHOLD)


@dataclass(frozen=True)
class Facing(Weighted):
    """Weighted scores, and what the new rows, (rows, 1), or the labels, (1, labels), weigh themselves.

    Whatever is said about labels here spreads over a matrix (rows, labels): it has one row where no row differs from
    the others, and one column where no label does.
    """

    own: Whole = field(default_factory=lambda: np.zeros((1, 1), dtype=np.int64))

    @property
    def _by_row(self) -> bool:
        return self.ratios is None or self.groups.kind == "row"

    @property
    def _by_label(self) -> bool:
        return self.ratios is not None or self.groups.kind in ("label", "band")

    def some(self, rows: slice) -> Facing:
        """Return what some of the rows meet."""
        own = narrowed(self.own[rows]) if self.ratios is None else self.own
        return Facing(self.folds, self.groups, self.judges, self.ratios, self.corrects, own)

    def _group(self, ids: Ids | None) -> NDArray[np.integer[Any]]:
        """Return the number of the group of every label; -1 for one never seen."""
        if ids is None:
            return self.groups.by_column(np.arange(len(self.groups.names) + 1))[None, :]
        return np.zeros((1, 1), dtype=np.int32) if self.groups.kind == "all" else ids[:, None]

    def needed(self, ids: Ids | None, alpha: Fraction) -> tuple[Whole, Whole]:
        """Return the weight that must stay above that of the scores below a label, and the weight of the group."""
        total = self.totals[self._group(ids)]
        return weight_needed_of_sums(total, self.own, alpha), total

    def _limits(self, alpha: Fraction) -> Whole:
        """Return up to what weight of its own a row or label has a threshold, in each group: alpha / (1 - alpha) W."""
        odds = alpha / (1 - alpha)
        found = [int(odds * total) if total else -1 for total in self.totals.tolist()]
        return np.array(found, dtype=np.int64 if max(found) < _LONGEST else object)

    def thresholds_of(self, ids: Ids | None, alpha: Fraction) -> Floats:
        """Return the smallest score up to which the weight is what is needed; infinite if all of it is less."""
        (fold,) = self.parts
        wanted, total = self.needed(ids, alpha)
        is_finite = (wanted <= total) & (total > 0)
        before = np.append(fold.cumulative[fold.offsets[:-1]], 0)[self._group(ids)]
        needles = before + np.minimum(wanted, total).astype(np.int64, copy=False)
        place = _places_among(fold.cumulative, needles, self._cells(ids, needles.shape))
        return np.where(is_finite, fold.scores[np.maximum(place, 1) - 1], np.inf)

    def _cells(self, ids: Ids | None, shape: tuple[int, ...]) -> list[Any]:
        """Return the cells of each group, where groups are few; else all at once."""
        n_groups = len(self.groups.names)
        if n_groups == 1 or n_groups * _FEW_CELLS > shape[0] * shape[1]:
            return [np.s_[:, :]]
        if ids is None:
            return [np.s_[:, columns_in(group, self.groups.of_columns)] for group in range(n_groups)]
        return [np.s_[np.flatnonzero(ids == group)] for group in range(-1, n_groups)]

    def cut(self, rows: Rows, ids: Ids | None, alphas: list[Fraction], at_least: int) -> Cut | FreeCut:
        """Return the sets at each level."""
        if self._by_row and self._by_label:
            return cut_by_cell(rows, lambda start, stop: self._of_block(ids, alphas, start, stop), at_least)
        if self._by_label:
            return cut_by_label(rows, np.concatenate(self._of_block(ids, alphas, 0, 1)), at_least)
        return cut(rows, self._of_rows(ids, alphas, len(rows)), at_least)

    def _of_rows(self, ids: Ids | None, alphas: list[Fraction], n_rows: int) -> Floats:
        """Return the thresholds of each row, (rows, levels)."""
        found = np.empty((n_rows, len(alphas)))

        def work(start: int, stop: int) -> None:
            np.concatenate(self._of_block(ids, alphas, start, stop), axis=1, out=found[start:stop])

        over_blocks(n_rows, _BLOCK_ROWS, work)
        return found

    def _of_block(self, ids: Ids | None, alphas: list[Fraction], start: int, stop: int) -> list[Floats]:
        some = self.some(slice(start, stop))
        return [some.thresholds_of(None if ids is None else ids[start:stop], alpha) for alpha in alphas]

    def mask(self, rows: Rows, ids: Ids | None, alpha: Fraction, at_least: int) -> tuple[NDArray[np.bool_], int]:
        """Return the sets at one level as a boolean matrix, and the first bad row or -1."""
        if self._by_row and self._by_label:
            found = cut_by_cell(rows, lambda start, stop: self._of_block(ids, [alpha], start, stop), at_least)
            return mask_of(found, rows.n_columns), found.first_bad
        if self._by_label:
            return masks_by_label(rows, self._of_block(ids, [alpha], 0, 1)[0][0], at_least)
        return masks(rows, self._of_rows(ids, [alpha], len(rows)), at_least)

    def p_values(self, rows: Rows, ids: Ids | None) -> tuple[Floats, int]:
        """Return the p-value of every label under the only model, and the first bad row or -1."""
        (fold,) = self.parts
        counts, first_bad = fold.counted(rows.seeded(), ids)
        return (self._p_values(counts, ids, fold.below) if first_bad < 0 else np.empty(counts.shape)), first_bad

    def p_values_of(self, below: NDArray[np.int64], ids: Ids | None) -> Floats:
        """Return the share of the weight, a label's own included, that is not below its score."""
        return self._p_values(below, ids, lambda some, _: some)

    def _p_values(self, of_cells: NDArray[Any], ids: Ids | None, below: Below) -> Floats:
        found: Floats = np.empty(of_cells.shape)

        def work(start: int, stop: int) -> None:
            some, mine = self.some(slice(start, stop)), None if ids is None else ids[start:stop]
            together = self.totals[self._group(mine)] + some.own
            shares = ratios(together - below(of_cells[start:stop], mine), together)
            found[start:stop] = shares if together.all() else np.where(together > 0, shares, 1.0)

        over_blocks(len(found), max(1, BLOCK_CELLS // 4 // found.shape[1]), work)
        return found

    def inside(self, below: NDArray[np.int64], ids: Ids | None, alpha: Fraction) -> NDArray[np.bool_]:
        """Return which labels are in, where the weight below each was summed over several folds."""
        wanted, total = self.needed(ids, alpha)
        found: NDArray[np.bool_] = (below < wanted) | (total + self.own == 0)
        return found

    def warn(self, met: dict[Any, int], ids: Ids | None, alphas: list[Fraction], stacklevel: int = 3) -> None:
        """Say if the weights leave few samples, or are so large that nothing can be left out."""
        alpha = min(alphas)
        never = {name: size for name, size in met.items() if not size}
        warn_if_too_few(never, alphas, self.groups.kind, stacklevel + 1)
        numbers = np.array([number for number, name in enumerate(self.groups.names) if met.get(name)], dtype=np.intp)
        sizes = self.effective_sizes[numbers]
        if len(sizes) and sizes.min() < 10 * (1 - alpha) / alpha:
            name = self.groups.names[numbers[sizes.argmin()]]
            of_group = "" if self.groups.kind == "all" else f" of group {name!r}"
            warn_of_small_size(float(sizes.min()), of_group, alpha, stacklevel + 1)
        group, has_rows = self._group(ids), np.append(self.sizes > 0, False)
        share = float(np.mean((self.own > self._limits(alpha)[group]) & has_rows[group]))
        if share > 0.01:
            of_what = "rows" if not self._by_label else "labels" if not self._by_row else "pairs of row and label"
            warn_of_infinite_thresholds(share, of_what, alpha, stacklevel + 1)


def _places_among(cumulative: Whole, needles: Whole, parts: list[Any]) -> NDArray[np.intp]:
    """Return where needles stand, part by part.

    Weights of new rows are small beside that of all samples of their group: their places are close together.
    """
    place = np.empty(needles.shape, dtype=np.intp)
    for part in parts:
        some = needles[part]
        if some.size:
            low, high = np.searchsorted(cumulative, [some.min(), some.max()])
            place[part] = low + np.searchsorted(cumulative[low : high + 1], some)
    return place


def effective_in_words(held_out: HeldOut) -> str:
    """Return the effective size, the smallest one of several groups; nothing where all samples weigh the same."""
    if not isinstance(held_out, Weighted):
        return ""
    least = "" if held_out.groups.kind == "all" else "at least "
    return f"{least}{held_out.effective_sizes.min():.4g}"


def refuse_weighted(held_out: HeldOut, why: str) -> None:
    """Refuse what does not hold, or was not built, for scores with weights."""
    if isinstance(held_out, Weighted):
        refuse_with_weights(why)


def same_kind_of_weights(one: HeldOut, other: HeldOut) -> bool:
    """Tell whether rows of both have weights of their own, or labels the same ones, or all weigh the same."""
    if not isinstance(one, Weighted) or not isinstance(other, Weighted):
        return not isinstance(one, Weighted) and not isinstance(other, Weighted)
    mine, theirs = (np.zeros(0) if each.ratios is None else each.ratios for each in (one, other))
    return np.array_equal(mine, theirs) and one.corrects == other.corrects


def joined(folds: Sequence[Sequence[tuple[FoldScores, Groups]]], groups: Groups, like: HeldOut) -> HeldOut:
    """Return scores of other rows, fold by fold, as if all rows had been calibrated at once."""
    if not isinstance(like, Weighted):
        return HeldOut(tuple(join_folds(parts, groups) for parts in folds), groups)
    weighted = [[(part, known) for part, known in parts if isinstance(part, WeightedScores)] for parts in folds]
    scale = Scale.of(np.concatenate([part.weights for parts in weighted for part, _ in parts]))
    found = tuple(join_weighted(parts, groups, scale) for parts in weighted)
    return Weighted(found, groups, None, like.ratios, like.corrects)
