"""Which labels share a band, and how often labels occur: what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from aptset.data.label_checks import as_labels, check_hashable, check_label_table, check_training_counts
from aptset.data.labels import columns_of, distinct, hashable, plain_value


def check_bands(bands: Any) -> dict[Any, Any]:
    """Return the band of each label, in plain values."""
    check_label_table(bands, "bands", "its band", "Pass {'cat': 'animal', 'car': 'thing'}, for instance.")
    found = {plain_value(label): plain_value(band) for label, band in bands.items()}
    for label, band in found.items():
        try:
            hash(band)
        except TypeError as error:
            raise TypeError(
                f"bands must be texts, numbers or other plain values; got {band!r} for {label!r}. Pass each label "
                "with its band: {'cat': 'animal', 'car': 'thing'}, for instance."
            ) from error
        if hashable(band) is None:
            raise ValueError(f"bands must not be missing; got {band!r} for the label {label!r}.")
    return found


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


def check_band_count(n_bands: Any) -> int:
    """Return how many bands are wanted at most."""
    if isinstance(n_bands, bool) or not isinstance(n_bands, Integral) or n_bands < 1:
        raise ValueError(f"n_bands must be a whole number of at least 1; got {n_bands!r}.")
    return int(n_bands)


def check_calibration_rows(n_calibration: Any) -> int:
    """Return how many rows will calibrate."""
    if isinstance(n_calibration, bool) or not isinstance(n_calibration, Integral) or n_calibration < 1:
        raise ValueError(f"n_calibration must be a whole number of rows, at least 1; got {n_calibration!r}.")
    return int(n_calibration)
