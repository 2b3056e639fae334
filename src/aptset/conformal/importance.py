"""Thresholds and p-values with the test point's own weight (Tibshirani, Foygel Barber, Candès and Ramdas, 2019).

A label is in iff the mass of the scores below its own is less than (1 - alpha)(W + v), where W is the mass of all
calibration rows (of the cell) and v that of the new row, or of the label itself. What is said about labels here spreads
over a matrix (rows, labels): it has one row where no row differs from the others, and one column where no label does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import on_host
from aptset.core.groups import Ids
from aptset.core.labels import check_length, refuse_masked, some
from aptset.core.levels import Level, strictest, warn_if_too_few
from aptset.core.validate import is_number, warn_caller
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.counting import ratios, weight_needed_of_sums
from aptset.kernels.formula import Floats

if TYPE_CHECKING:
    from aptset.conformal.measure import FoldScores
    from aptset.conformal.thresholds import Thresholds


Whole = NDArray[Any]  # int64, or Python's whole numbers where a weight exceeds all others by far

_MOST_WHOLE = 2.0**32
# What the largest weight becomes: more than 2^32, and divided by every number up to 24, so that small whole numbers
# times any constant keep their ratios exactly.
_LARGEST = 5_354_228_880.0
_FITS = 2.0**61


class Scale(NamedTuple):
    """From weights to whole numbers, for calibration and new rows alike."""

    largest: float
    steps: float

    @classmethod
    def of(cls, weights: Floats) -> Scale:
        """Return the scale of all calibration weights: whole ones stay what they are, times a power of two."""
        largest = float(weights.max()) or 1.0  # of a part of all rows, none of which has weight
        if largest <= _MOST_WHOLE and bool((weights == np.rint(weights)).all()):
            return cls(2.0 ** np.ceil(np.log2(largest)), _MOST_WHOLE)
        return cls(largest, _LARGEST)

    def whole(self, weights: Floats) -> Whole:
        """Return weights as whole numbers; one that is not 0 stays so, or a row would not count itself and p be 0."""
        with np.errstate(over="ignore"):
            steps = np.maximum(np.rint(weights / self.largest * self.steps), weights > 0)
        fits = steps < _FITS
        if fits.all():
            return steps.astype(np.int64)
        exact = np.where(fits, steps, 0).astype(np.int64).astype(object)  # what fits is what it is without the others
        exact[~fits] = [round(Fraction(w) / Fraction(self.largest) * int(self.steps)) for w in weights[~fits].tolist()]
        return exact


def narrowed(whole: Whole) -> Whole:
    """Return whole numbers as int64 where all of them are small enough: Python's are slow."""
    return whole.astype(np.int64) if whole.dtype == object and (whole < int(_FITS)).all() else whole


def check_weights(weights: Any, n_rows: int, name: str = "weights") -> Floats:
    """Return one weight per row: finite, and not negative."""
    refuse_masked(weights, name)
    values = np.asarray(on_host(weights))
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, one per row; got dtype {values.dtype}. Convert them to float.")
    if values.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one weight per row; got shape {values.shape}.")
    check_length(values, n_rows, name)
    values = values.astype(np.float64)
    is_good = np.isfinite(values) & (values >= 0)
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise ValueError(
            f"{name} must be finite and at least 0; got {values[row]} in row {row}. A weight is the density of new "
            "rows over that of calibration rows, up to a constant."
        )
    return values


def check_some_weight(weights: Floats, name: str = "weights") -> Floats:
    """Refuse calibration rows none of which counts."""
    if not weights.any():
        raise ValueError(
            f"{name} must not be 0 for every calibration row; got {len(weights)} rows without weight. The new rows "
            "must look like some of those that calibrate."
        )
    return weights


def check_one_kind_of_weights(weights: Any, label_weights: Any, prior_correction: bool) -> None:
    """Refuse a shift of rows and one of labels at once, and a correction that nothing is known for."""
    if weights is not None and label_weights is not None:
        raise ValueError(
            "weights and label_weights must not both be passed: one says that the rows shifted, the other that the "
            "labels did. Leave one of the two out."
        )
    if prior_correction and label_weights is None:
        raise ValueError(
            "prior_correction must come with label_weights, by which it multiplies the columns. Pass label_weights=..."
        )


def check_label_weights(label_weights: Any, classes: NDArray[Any]) -> Floats:
    """Return the ratio of each class, finite and not negative; all of them must be named, and no others."""
    if not isinstance(label_weights, Mapping):
        raise TypeError(
            f"label_weights must map each label to its ratio, target over source; got {type(label_weights).__name__}. "
            "Pass {label: ratio, ...}, or what label_ratios(...) returns."
        )
    known = classes.tolist()
    missing = [label for label in known if label not in label_weights]
    if missing:
        raise ValueError(f"label_weights must name every class; {missing[0]!r} is missing of {some(classes)}.")
    known_labels = set(known)
    unknown = [label for label in label_weights if label not in known_labels]
    if unknown:
        raise ValueError(
            f"label_weights must name classes only; got {unknown[0]!r}, and the classes are {some(classes)}."
        )
    values = [label_weights[label] for label in known]
    for label, value in zip(known, values, strict=True):
        if not is_number(value) or value < 0:
            raise ValueError(f"label_weights must be finite and at least 0; got {value!r:.40} for {label!r}.")
    return np.array(values, dtype=np.float64)


def check_new_weights(weights: Any, n_rows: int, are_wanted: bool, why_not: str = "without weights") -> Floats | None:
    """Return the weights of new rows, which must come if and only if the calibration rows had some."""
    if weights is None and are_wanted:
        raise ValueError(
            "weights must be passed with the new rows, since calibration was done with weights. Pass weights=..., one "
            "per row and up to the same constant."
        )
    if weights is not None and not are_wanted:
        raise ValueError(
            f"weights must be left out here, since calibration was done {why_not}. Pass weights=... to calibrate to "
            "use them."
        )
    return None if weights is None else check_weights(weights, n_rows)


def check_weights_of_scheme(are_weighted: bool, adds_up: bool, scheme: str) -> None:
    """Refuse weights where folds do not simply add up: nothing is known of them."""
    if are_weighted and not adds_up:
        raise ValueError(
            f"weights must come with a split, CV+ or the jackknife+; got {scheme}, of which no theorem with weights is "
            "known."
        )


def check_weighing(weights: Any) -> None:
    """Refuse a setting of weights that cannot be asked about rows."""
    if weights is not None and not callable(weights):
        raise TypeError(
            f"weights must be None or a function that returns one weight per row of X; got {type(weights).__name__}. "
            "For weights that are known row by row, call calibrate(probabilities, labels, weights=...)."
        )


def refuse_guaranteed(are_weighted: bool) -> None:
    """Refuse a level that would have to be chosen by a theorem about rows of equal weight."""
    if are_weighted:
        refuse_with_weights("level='guaranteed' goes by theorems about rows of equal weight. Use 'nominal'")


def refuse_with_weights(what: str) -> NoReturn:
    """Refuse what no theorem, or no code, knows of weights."""
    raise ValueError(f"weights must be left out here: {what}.")


MOST_UNCERTAIN = 0.05  # proportions that are wrong by so much have cost a corrected calibration about a percent


def warn_of_uncertain_ratios(errors: Mapping[Any, float], columns: NDArray[np.int64], classes: NDArray[Any]) -> None:
    """Say that a correction by estimated ratios may cover too little: their errors say by how much proportions err.

    Coverage is at least 1 - alpha minus half the mean error of the weights. Without a correction such errors hardly
    matter, since scores do not know them; a correction moves every score with them. A normal error has a mean size of
    sqrt(2 / pi) standard errors.
    """
    shares = np.bincount(columns, minlength=len(classes)) / max(1, len(columns))
    missed = float(shares @ [errors.get(label, 0.0) for label in classes.tolist()]) * (2 / np.pi) ** 0.5 / 2
    if missed > MOST_UNCERTAIN:
        warn_caller(
            f"prior_correction goes by estimated ratios whose standard errors amount to about {missed:.2g} of the "
            "proportions of labels: coverage may be less than 1 - alpha by up to as much. Estimate the ratios on more "
            "rows, leave prior_correction out, or calibrate with groups='label', which needs no ratios."
        )


def warn_of_small_size(effective: float, group: str, alpha: Fraction) -> None:
    """Say that the weights leave few samples."""
    warn_caller(
        f"the weights leave an effective size of {effective:.3g} calibration samples{group}. With fewer than "
        f"{float(10 * (1 - alpha) / alpha):.4g} at alpha={float(alpha):g}, coverage varies much from one calibration "
        "to the next, and sets are large. Calibrate on more rows like the new ones, or raise alpha."
    )


def warn_of_infinite_thresholds(share: float, of_what: str, alpha: Fraction) -> None:
    """Say that some weights are so large that every label is in."""
    warn_caller(
        f"{share:.0%} of the {of_what} weigh more than alpha / (1 - alpha) of all calibration samples at "
        f"alpha={float(alpha):g}, so that their sets hold every label. Calibrate on more rows like the new ones, or "
        "raise alpha."
    )


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
    thresholds = np.empty((len(levels), *shape))

    def work(start: int, stop: int) -> None:
        here, own = rows_of(cells, start, stop), narrowed(rows_of(mass, start, stop))
        for of_level, alpha in zip(thresholds, levels, strict=True):
            of_level[start:stop] = _thresholds(fold, totals[here], here, own, alpha)

    over_blocks(shape[0], _BLOCK_ROWS, work)
    return thresholds


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
    if n_cells == 1 or n_cells * _FEW_CELLS > n_needles or min(cells.shape) > 1:
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
    alphas: Sequence[Level],
    mass: Whole,
) -> None:
    """Say if the weights leave few samples, or are so large that nothing can be left out."""
    alpha, groups = strictest(alphas), measure.groups
    never = {name: size for name, size in known.items() if not size}
    warn_if_too_few(never, alphas, groups)
    numbers = np.array([number for number, name in enumerate(groups.names) if known.get(name)], dtype=np.intp)
    sizes = measure.effective_sizes[numbers]
    if len(sizes) and sizes.min() < 10 * (1 - alpha) / alpha:
        name = groups.names[numbers[sizes.argmin()]]
        of_group = "" if groups.is_one else f" of group {name!r}"
        warn_of_small_size(float(sizes.min()), of_group, alpha)
    cells, has_rows = groups.index(ids), np.append(measure.sizes > 0, False)
    share = float(np.mean((mass > _limits(measure.totals, alpha)[cells]) & has_rows[cells]))
    if share > 0.01:
        by_row, by_label = (
            measure.ratios is None or groups.by_row,
            measure.ratios is not None or ids is None,
        )
        of_what = "rows" if not by_label else "labels" if not by_row else "pairs of row and label"
        warn_of_infinite_thresholds(share, of_what, alpha)


def effective_in_words(measure: Thresholds) -> str:
    """Return the effective size, the smallest one of several groups; nothing where all rows weigh the same."""
    if not measure.has_weights:
        return ""
    least = "" if measure.groups.is_one else "at least "
    return f"{least}{measure.effective_sizes.min():.4g}"


def same_kind_of_weights(first_measure: Any, second_measure: Any) -> bool:
    """Tell whether rows of both have weights of their own, or labels the same ones, or all weigh the same."""
    if not first_measure.has_weights or not second_measure.has_weights:
        return not first_measure.has_weights and not second_measure.has_weights
    first, second = (np.zeros(0) if each.ratios is None else each.ratios for each in (first_measure, second_measure))
    return np.array_equal(first, second) and first_measure.corrects == second_measure.corrects
