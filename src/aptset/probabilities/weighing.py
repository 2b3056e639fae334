"""From the weights that the user passes to those of calibration rows, and to the columns that they correct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.weight_checks import (
    check_label_weights,
    check_one_kind_of_weights,
    check_some_weight,
    check_weights,
    warn_of_uncertain_ratios,
)
from aptset.data.setting_checks import check_flag
from aptset.kernels.blocks import over_blocks
from aptset.kernels.formula import Floats, normalised


class Weighed(NamedTuple):
    """The weight of each calibration row, and where labels decide it, the ratio of each label."""

    of_rows: Floats
    ratios: Floats | None
    corrects: bool

    @property
    def factors(self) -> Floats | None:
        """What columns are multiplied by; None: nothing."""
        return self.ratios if self.corrects else None

    def some(self, rows: NDArray[np.bool_]) -> Weighed:
        """Return the weights of some rows."""
        return self._replace(of_rows=check_some_weight(self.of_rows[rows]))


@dataclass(frozen=True)
class Weighing:
    """What was passed about weights."""

    weights: Any = None
    label_weights: Any = None
    prior_correction: Any = False
    is_part: bool = False  # of all rows: none of it may have weight

    def of(self, columns: NDArray[np.int64], classes: NDArray[Any]) -> Weighed | None:
        """Return the weights of calibration rows, given their labels; None if all weigh the same."""
        corrects = check_flag(self.prior_correction, "prior_correction")
        check_one_kind_of_weights(self.weights, self.label_weights, corrects)
        if self.weights is not None:
            found = check_weights(self.weights, len(columns))
            return Weighed(found if self.is_part else check_some_weight(found), None, False)
        if self.label_weights is None:
            return None
        ratios = check_label_weights(self.label_weights, classes)
        if corrects:
            # What label_ratios returns knows its errors; ratios from elsewhere are taken as known.
            warn_of_uncertain_ratios(getattr(self.label_weights, "errors", {}), columns, classes)
        return Weighed(check_some_weight(ratios[columns], "label_weights"), ratios, corrects)


EQUAL = Weighing()

_BLOCK_CELLS = 2**15  # some temporary matrices of so many float64 stay in the cache of a core


def corrected(matrix: NDArray[np.generic], factors: Floats, tolerance: float, normalize: bool) -> NDArray[np.generic]:
    """Multiply each column by its factor and divide rows by their new sums; bad rows stay what they are.

    A row all of whose mass is on labels without a factor stays as it is, too: any fixed map will do, and there is none
    better.
    """
    if (factors == factors[0]).all():
        return matrix
    found, shares = np.empty(matrix.shape), factors / factors.max()

    def work(start: int, stop: int) -> None:
        found[start:stop] = _corrected(matrix[start:stop], shares, tolerance, normalize)

    over_blocks(len(matrix), max(1, _BLOCK_CELLS // matrix.shape[1]), work)
    return found


def _corrected(matrix: NDArray[np.generic], factors: Floats, tolerance: float, normalize: bool) -> Floats:
    with np.errstate(all="ignore"):
        wide = matrix.astype(np.float64, order="C")
        wide = normalised(wide) if normalize else wide
        total = ((wide + 2.0) - 2.0).sum(axis=1, keepdims=True)  # on the grid, where sums are exact
        is_good = (abs(total - 1.0) <= tolerance) & (wide >= 0.0).all(axis=1, keepdims=True)
        times = wide * factors
        found = normalised(np.where(times.any(axis=1, keepdims=True), times, wide))
    return np.where(is_good, found, wide)
