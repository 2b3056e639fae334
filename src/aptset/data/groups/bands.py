"""Labels that share a threshold: few groups of labels, each with enough rows to calibrate on."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.data.groups.band_checks import (
    check_band_count,
    check_bands,
    check_calibration_rows,
    check_counts,
)
from aptset.data.groups.ids import Groups
from aptset.data.label_checks import as_labels, check_every_label
from aptset.data.setting_checks import check_alpha

_ROWS_FOR_ONE = 10  # a band should expect so many times the rows without which its threshold is infinite


class LabelBands:
    """Groups of labels that share a threshold: coverage of at least 1 - alpha within each band.

    For many labels of which some are rare. ``groups="label"`` needs 1/alpha - 1 calibration rows of every label; a band
    needs them of all its labels together. The promise is about a band: P(label in the set, given that the label is of
    the band) >= 1 - alpha. Within a band some labels may be covered less, and others more.

    The bands must be fixed without a look at the calibration rows: by a taxonomy, or by how often labels occur in
    training (:meth:`by_prevalence`).

    Parameters
    ----------
    bands : mapping
        The band of each label: ``{"cat": "animal", "dog": "animal", "car": "thing"}``. Labels that never come may be in
        it; every label of the classifier must be.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> probabilities = np.random.default_rng(0).dirichlet([4, 2, 1, 1], size=600)
    >>> labels = probabilities.argmax(axis=1)
    >>> bands = aptset.LabelBands({0: "frequent", 1: "frequent", 2: "rare", 3: "rare"})
    >>> calibration = aptset.calibrate(probabilities, labels, groups=bands, random_state=0)
    >>> {band: round(threshold, 3) for band, threshold in calibration.threshold(0.1).items()}
    {'frequent': 0.506, 'rare': 0.402}
    """

    def __init__(self, bands: Mapping[Any, Any]) -> None:
        self.bands = check_bands(bands)

    @classmethod
    def by_prevalence(
        cls,
        counts: Mapping[Any, int] | ArrayLike,
        n_bands: int = 4,
        *,
        n_calibration: int | None = None,
        alpha: float = 0.1,
    ) -> LabelBands:
        """Return bands of labels that are about equally frequent in training.

        Labels are sorted by their counts and cut into bands with equal numbers of labels. Neighbours are then joined,
        the smallest first, until each band expects at least 10 (1 - alpha) / alpha calibration rows. Band 1 has the
        most frequent labels.

        Parameters
        ----------
        counts : mapping or array
            How many training rows each label has, or the training labels themselves. Never those of the calibration
            rows: the bands must not depend on them.
        n_bands : int, default=4
            How many bands there are at most.
        n_calibration : int, optional
            How many rows will calibrate; by default as many as the training rows.
        alpha : float, default=0.1
            The smallest level that will be asked for.

        Examples
        --------
        >>> import aptset
        >>> aptset.LabelBands.by_prevalence({"a": 900, "b": 700, "c": 150, "d": 30, "e": 2}, n_bands=3)
        LabelBands(5 labels in 2 bands)
        """
        times = check_counts(counts)
        total, level = sum(times.values()), check_alpha(alpha)
        rows = total if n_calibration is None else check_calibration_rows(n_calibration)
        labels = sorted(times, key=lambda label: -times[label])
        cut = np.array_split(np.arange(len(labels)), min(check_band_count(n_bands), len(labels)))
        parts = _joined([[labels[place] for place in part] for part in cut], times, rows, total, level)
        return cls({label: number for number, part in enumerate(parts, start=1) for label in part})

    def groups_of(self, classes: NDArray[Any]) -> Groups:
        """Return the bands of some classes as groups, in the order in which the classes have them."""
        found = check_every_label(self.bands, classes, "LabelBands", "Give each of them a band.")
        number_of = {band: number for number, band in enumerate(dict.fromkeys(found))}
        return Groups("band", tuple(number_of), tuple(number_of[band] for band in found))

    def of(self, labels: ArrayLike) -> list[Any]:
        """Return the band of each label: groups for :func:`evaluate`, :func:`report` and a monitor.

        Examples
        --------
        >>> import aptset
        >>> aptset.LabelBands({"cat": "animal", "car": "thing"}).of(["car", "cat"])
        ['thing', 'animal']
        """
        return check_every_label(self.bands, as_labels(labels, "labels"), "LabelBands", "Give each of them a band.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelBands) and self.bands == other.bands

    def __hash__(self) -> int:
        return hash(frozenset(self.bands.items()))

    def __repr__(self) -> str:
        return f"LabelBands({len(self.bands)} labels in {len(set(self.bands.values()))} bands)"


def _joined(parts: list[list[Any]], times: dict[Any, int], rows: int, total: int, alpha: Fraction) -> list[list[Any]]:
    """Join the smallest part with the smaller of its neighbours while it expects too few rows."""
    needed = _ROWS_FOR_ONE * (1 - alpha) / alpha * max(total, 1)  # nothing is expected where nothing was counted
    while len(parts) > 1:
        sizes = [sum(times[label] for label in part) for part in parts]
        least = sizes.index(min(sizes))
        if sizes[least] * rows >= needed:
            break
        beside = [place for place in (least - 1, least + 1) if 0 <= place < len(parts)]
        first = min(least, min(beside, key=sizes.__getitem__))
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    return parts
