"""What a calibration promises, over all its groups, and the level that makes it promise something."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.split import Fold, Scheme
from aptset.groups import Groups, Ids
from aptset.kernels.counts import rank_at
from aptset.validation.settings import check_reachable


class Promises:
    """The promises of a scheme for folds whose sizes, by group, are known.

    Parameters
    ----------
    scheme : Scheme
        What the theorem says of one group.
    sizes : array of int, shape (folds, groups)
        Rows that each fold holds out in each group.
    """

    def __init__(self, scheme: Scheme, sizes: NDArray[np.int64]) -> None:
        self.scheme = scheme
        self.groups = [column[column > 0].tolist() for column in sizes.T if column.any()]

    @classmethod
    def before_fit(
        cls, scheme: Scheme, folds: list[Fold], groups: Groups, ids: Ids | None, columns: NDArray[np.int64]
    ) -> Promises:
        """Return what will be promised once these folds are fitted."""
        group = groups.ids_of_labels(ids, columns)
        return cls(scheme, np.array([np.bincount(group[fold.held_out], minlength=len(groups.names)) for fold in folds]))

    def coverage(self, level: Fraction) -> Fraction:
        """Return the coverage promised in every group at an input level; groups too small for it get every label."""
        bounds = [
            self.scheme.bound(level, sizes) if rank_at(sum(sizes), level) <= sum(sizes) else Fraction(1)
            for sizes in self.groups
        ]
        return max(Fraction(0), min(bounds))

    def level(self, alpha: Fraction) -> Fraction:
        """Return an input level whose promise is 1 - alpha; refuse if there is none."""
        levels = [self.scheme.level(alpha, sizes) for sizes in self.groups]
        best = min((level for level in levels if level > 0), default=Fraction(0))
        reached = best > 0 and self.coverage(best) >= 1 - alpha
        return check_reachable(best if reached else Fraction(0), alpha, self.scheme.name)
