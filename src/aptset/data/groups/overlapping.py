"""Groups that overlap: sex and region and age at once, each with the promise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.groups.ids import Cells
from aptset.data.groups.overlapping_checks import check_overlapping


class Overlapping:
    """Groups that a row may be in several of: coverage of at least 1 - alpha in every one of them.

    ``groups=`` of one value per row makes the promise for each value. Here a row may be a woman, old *and* from the
    north, and the promise holds among women, among the old and in the north, without a threshold for every combination:
    those with few rows would have infinite ones. It also holds outside of every group, and over all rows.

    The threshold of a row comes from one small linear programme for its combination of groups (Gibbs, Cherian and
    Candès, 2023), solved exactly. Under one model only (a split); there are no p-values.

    Parameters
    ----------
    groups : boolean matrix or data frame, one row per row
        True where a row is in a group. A column of a data frame that is not of flags becomes one group for each of its
        values, called "column=value" and told apart by that text: 1, 1.0 and "1" are one. At most 64 groups.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> probabilities = generator.dirichlet([2, 1, 1], size=500)
    >>> labels = probabilities.argmax(axis=1)
    >>> old, north = generator.random((2, 500)) < 0.4
    >>> groups = aptset.Overlapping(np.column_stack([old, north]))
    >>> calibration = aptset.calibrate(probabilities, labels, groups=groups, random_state=0)
    >>> sets = calibration.predict_set([[0.5, 0.3, 0.2]] * 2, 0.1, groups=[[True, False], [True, True]], ids=["a", "b"])
    >>> sets.sizes
    array([1, 2])
    """

    def __init__(self, groups: Any) -> None:
        self.cells: Cells = check_overlapping(groups)

    @property
    def names(self) -> list[Any]:
        """The names of the groups; those of a matrix are the numbers of its columns."""
        return list(self.cells.overlap.names)

    def members(self, name: Any) -> NDArray[np.intp]:
        """Return the numbers of the rows that are in a group."""
        is_in = np.array([name in cell for cell in self.cells.values], dtype=np.bool_)
        return np.flatnonzero(is_in[self.cells.codes])

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"Overlapping({len(self.cells)} rows in {len(self.names)} groups)"
