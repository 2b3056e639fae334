"""Thresholds and p-values with the test point's own weight (Tibshirani, Foygel Barber, Candès and Ramdas, 2019).

A label is in iff the mass of the scores below its own is less than (1 - alpha)(W + v), where W is the mass of all
calibration rows (of the cell) and v that of the new row, or of the label itself. What is said about labels here spreads
over a matrix (rows, labels): it has one row where no row differs from the others, and one column where no label does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.weight_checks import refuse_with_weights, warn_of_infinite_thresholds, warn_of_small_size
from aptset.conformal.weights import Whole, narrowed
from aptset.core.groups import Ids
from aptset.core.validate import warn_if_too_few
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.counting import ratios, weight_needed_of_sums
from aptset.kernels.formula import Floats

if TYPE_CHECKING:
    from aptset.conformal.fold_scores import FoldScores
    from aptset.conformal.measure import Thresholds

MassBelow = Callable[[NDArray[Any], Ids | None], Whole]  # from what is known of labels, and the groups of their rows

_LONGEST = 2**63
_BLOCK_ROWS = 2**15
_FEW_CELLS = 256  # of a group: fewer are not worth a look at the group alone


def rows_of(spread: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Return what is said about rows start .. stop - 1, where one row may stand for all."""
    return spread if len(spread) == 1 else spread[start:stop]


def thresholds(fold: FoldScores, totals: Whole, levels: Sequence[Fraction], cells: NDArray[Any], mass: Whole) -> Floats:
    """Return the smallest score up to which the mass is what is needed, (levels, 1 or rows, 1 or labels)."""
    shape = np.broadcast_shapes(cells.shape, mass.shape)
    made = np.empty((len(levels), *shape))

    def work(start: int, stop: int) -> None:
        here, own = rows_of(cells, start, stop), narrowed(rows_of(mass, start, stop))
        for of_level, alpha in zip(made, levels, strict=True):
            of_level[start:stop] = _thresholds(fold, totals[here], here, own, alpha)

    over_blocks(shape[0], _BLOCK_ROWS, work)
    return made


def _thresholds(fold: FoldScores, total: Whole, cells: NDArray[Any], own: Whole, alpha: Fraction) -> Floats:
    """Return the thresholds of one level; infinite where all of the mass is less than what is needed."""
    assert fold.cumulative is not None
    needed = weight_needed_of_sums(total, own, alpha)
    is_finite = (needed <= total) & (total > 0)
    before = np.append(fold.cumulative[fold.offsets[:-1]], 0)[cells]
    needles = before + np.minimum(needed, total).astype(np.int64, copy=False)
    place = _places_among(fold.cumulative, needles, _by_cell(cells, len(fold.offsets) - 1, needles.size))
    return np.where(is_finite, fold.scores[np.maximum(place, 1) - 1], np.inf)


def _by_cell(cells: NDArray[Any], n_cells: int, n_needles: int) -> list[Any]:
    """Return where each cell is, where cells are few; else everything at once."""
    if n_cells == 1 or n_cells * _FEW_CELLS > n_needles:
        return [np.s_[:, :]]
    if cells.shape[1] > 1:
        return [np.s_[:, np.flatnonzero(cells[0] == cell)] for cell in range(n_cells)]
    return [np.s_[np.flatnonzero(cells[:, 0] == cell)] for cell in range(-1, n_cells)]


def _places_among(cumulative: Whole, needles: Whole, parts: list[Any]) -> NDArray[np.intp]:
    """Return where needles stand, part by part.

    Masses of new rows are small beside that of all rows of their cell: their places are close together.
    """
    place = np.empty(needles.shape, dtype=np.intp)
    for part in parts:
        inside = needles[part]
        if inside.size:
            low, high = np.searchsorted(cumulative, [inside.min(), inside.max()])
            place[part] = low + np.searchsorted(cumulative[low : high + 1], inside)
    return place


def p_values(measure: Thresholds, known: NDArray[Any], ids: Ids | None, mass: Whole, mass_below: MassBelow) -> Floats:
    """Return the share of the mass, a label's own included, that is not below its score."""
    shares: Floats = np.empty(known.shape)

    def work(start: int, stop: int) -> None:
        here = None if ids is None else ids[start:stop]
        together = measure.totals[measure.groups.index(here)] + narrowed(rows_of(mass, start, stop))
        above = ratios(together - mass_below(known[start:stop], here), together)
        shares[start:stop] = above if together.all() else np.where(together > 0, above, 1.0)

    over_blocks(len(shares), max(1, BLOCK_CELLS // 4 // shares.shape[1]), work)
    return shares


def inside(measure: Thresholds, below: Whole, ids: Ids | None, mass: Whole, alpha: Fraction) -> NDArray[np.bool_]:
    """Return which labels are in, where the mass below each was summed over several folds."""
    total = measure.totals[measure.groups.index(ids)]
    is_in: NDArray[np.bool_] = (below < weight_needed_of_sums(total, mass, alpha)) | (total + mass == 0)
    return is_in


def _limits(totals: Whole, alpha: Fraction) -> Whole:
    """Return up to what mass of its own a row or label has a threshold, in each cell: alpha / (1 - alpha) W."""
    odds = alpha / (1 - alpha)
    limits = [int(odds * total) if total else -1 for total in totals.tolist()]
    return np.array(limits, dtype=np.int64 if max(limits) < _LONGEST else object)


def warn_of_weights(
    measure: Thresholds,
    known: dict[Any, int],
    ids: Ids | None,
    alphas: Sequence[Fraction],
    mass: Whole,
    stacklevel: int,
) -> None:
    """Say if the weights leave few samples, or are so large that nothing can be left out."""
    alpha, groups = min(alphas), measure.groups
    never = {name: size for name, size in known.items() if not size}
    warn_if_too_few(never, alphas, groups.kind, stacklevel + 1)
    numbers = np.array([number for number, name in enumerate(groups.names) if known.get(name)], dtype=np.intp)
    sizes = measure.effective_sizes[numbers]
    if len(sizes) and sizes.min() < 10 * (1 - alpha) / alpha:
        name = groups.names[numbers[sizes.argmin()]]
        of_group = "" if groups.kind == "all" else f" of group {name!r}"
        warn_of_small_size(float(sizes.min()), of_group, alpha, stacklevel + 1)
    cells, has_rows = groups.index(ids), np.append(measure.sizes > 0, False)
    share = float(np.mean((mass > _limits(measure.totals, alpha)[cells]) & has_rows[cells]))
    if share > 0.01:
        by_row, by_label = measure.ratios is None or groups.kind == "row", measure.ratios is not None or ids is None
        of_what = "rows" if not by_label else "labels" if not by_row else "pairs of row and label"
        warn_of_infinite_thresholds(share, of_what, alpha, stacklevel + 1)


def effective_in_words(measure: Thresholds) -> str:
    """Return the effective size, the smallest one of several groups; nothing where all rows weigh the same."""
    if not measure.is_weighted:
        return ""
    least = "" if measure.groups.kind == "all" else "at least "
    return f"{least}{measure.effective_sizes.min():.4g}"


def refuse_weighted(measure: Thresholds, why: str) -> None:
    """Refuse what does not hold, or was not built, for scores with weights."""
    if measure.is_weighted:
        refuse_with_weights(why)


def same_kind_of_weights(one: Any, other: Any) -> bool:
    """Tell whether rows of both have weights of their own, or labels the same ones, or all weigh the same."""
    if not one.is_weighted or not other.is_weighted:
        return not one.is_weighted and not other.is_weighted
    first, second = (np.zeros(0) if each.ratios is None else each.ratios for each in (one, other))
    return np.array_equal(first, second) and one.corrects == other.corrects
