"""Labels that share a threshold: few groups of labels, each with enough rows to calibrate on.

Mondrian (label-conditional) conformal prediction: Vovk, Gammerman and Shafer 2005, "Algorithmic learning in a random
world".
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.groups import Groups
from aptset.core.labels import (
    as_labels,
    as_objects,
    check_every_label,
    check_hashable,
    check_label_table,
    check_training_counts,
    columns_of,
    distinct,
    hashable,
    plain_value,
)
from aptset.core.taxonomy import Taxonomy


def check_bands(bands: Any) -> dict[Any, Any]:
    """Return the band of each label, in plain values."""
    check_label_table(bands, "bands", "its band", "Pass {'cat': 'animal', 'car': 'thing'}, for instance.")
    plain = {plain_value(label): plain_value(band) for label, band in bands.items()}
    for label, band in plain.items():
        try:
            hash(band)
        except TypeError as error:
            raise TypeError(
                f"bands must be texts, numbers or other plain values; got {band!r} for {label!r}. Pass each label "
                "with its band: {'cat': 'animal', 'car': 'thing'}, for instance."
            ) from error
        if hashable(band) is None:
            raise ValueError(f"bands must not be missing; got {band!r} for the label {label!r}.")
    return plain


def check_counts(counts: Any) -> dict[Any, int]:
    """Return how many training rows each label has: from a dictionary, or from the labels themselves."""
    if not isinstance(counts, Mapping):
        if getattr(counts, "name", None) in ("count", "proportion"):  # what value_counts of a Series returns
            check_label_table(counts, "counts", "its number of training rows", "Pass counts.to_dict().")
        labels = as_labels(counts, "counts")
        check_hashable(labels, "counts")
        names = distinct(labels)
        times = np.bincount(columns_of(labels, names), minlength=len(names))
        counts = dict(zip(names.tolist(), times.tolist(), strict=True))
    check_training_counts(counts)
    return {plain_value(label): int(count) for label, count in counts.items()}


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
        total, level = sum(times.values()), validate.alpha(alpha)
        rule = "a whole number of rows, at least 1"
        rows = total if n_calibration is None else validate.whole(n_calibration, "n_calibration", 1, rule)
        labels = sorted(times, key=lambda label: -times[label])
        cut = np.array_split(np.arange(len(labels)), min(validate.whole(n_bands, "n_bands", 1), len(labels)))
        parts = _joined([[labels[place] for place in part] for part in cut], times, rows, total, level)
        return cls({label: number for number, part in enumerate(parts, start=1) for label in part})

    @classmethod
    def from_taxonomy(cls, taxonomy: Taxonomy, depth: int = 1) -> LabelBands:
        """Return a band for each node of a tree of labels at a depth below its root.

        Parameters
        ----------
        taxonomy : Taxonomy
            The tree. Labels that are not as deep are bands of their own.
        depth : int, default=1
            1 is right below the root.

        Examples
        --------
        >>> import aptset
        >>> taxonomy = aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree", "fir": "tree"})
        >>> aptset.LabelBands.from_taxonomy(taxonomy)
        LabelBands(4 labels in 2 bands)
        """
        if not isinstance(taxonomy, Taxonomy):
            raise TypeError(f"taxonomy must be an aptset.Taxonomy; got {type(taxonomy).__name__}.")
        labels = taxonomy.labels
        return cls(dict(zip(labels, taxonomy.at_depth(as_objects(labels), depth).tolist(), strict=True)))

    def groups_of(self, classes: NDArray[Any]) -> Groups:
        """Return the bands of some classes as groups, in the order in which the classes have them."""
        bands = check_every_label(self.bands, classes, "LabelBands", "Give each of them a band.")
        number_of = {band: number for number, band in enumerate(dict.fromkeys(bands))}
        return Groups("band", tuple(number_of), tuple(number_of[band] for band in bands))

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
