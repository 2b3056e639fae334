"""What the settings of the scores may be."""

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

from numpy.typing import NDArray

from aptset.data.labels import as_objects, hashable, some
from aptset.kernels.formula import POWER_STEP


def check_penalty(penalty: Any) -> None:
    """Refuse what cannot be added for a rank."""
    if isinstance(penalty, bool) or not isinstance(penalty, Real) or not 0 <= float(penalty) <= 1e9:
        raise ValueError(f"penalty must be a number of at least 0 (and at most 1e9); got {penalty!r}.")


def check_free_ranks(free_ranks: Any) -> None:
    """Refuse what is no number of ranks."""
    if isinstance(free_ranks, bool) or not isinstance(free_ranks, Integral) or not 0 <= int(free_ranks) <= 1e9:
        raise ValueError(f"free_ranks must be a whole number of at least 0; got {free_ranks!r}.")


def check_power(power: Any) -> None:
    """Refuse powers that do not come out of square roots and products alone."""
    is_number = isinstance(power, Real) and not isinstance(power, bool) and isfinite(power)
    if not is_number or not POWER_STEP <= float(power) <= 8 or float(power) % POWER_STEP:
        near = min(max(round(float(power) / POWER_STEP), 1) * POWER_STEP, 8.0) if is_number else 1.0
        raise ValueError(f"power must be a multiple of 1/64 in [1/64, 8]; got {power!r}. The nearest is {near}.")


_FINEST = 40  # a score of 2^13 is then still a whole number of steps that a float64 holds


def check_resolution(resolution: Any) -> None:
    """Refuse grids on which scores could not be put without rounding twice."""
    is_number = isinstance(resolution, Real) and not isinstance(resolution, bool) and isfinite(resolution)
    if not is_number or float(resolution) not in {2.0**-step for step in range(_FINEST + 1)}:
        raise ValueError(
            f"resolution must be a power of two from 2**-{_FINEST} to 1; got {resolution!r}. 2**-20 is about 1e-6."
        )


def check_training_counts(counts: Any) -> None:
    """Refuse what does not say how many training rows each label has."""
    check_label_table(counts, "counts", "its number of training rows", "Pass collections.Counter(y_train).")
    for label, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral) or not 0 <= int(count) < 2**53 - 1:
            raise ValueError(
                f"counts must be whole numbers of training rows, 0 or more; got {count!r} for the label {label!r}. "
                "Pass collections.Counter(y_train), not shares."
            )


def check_label_table(table: Any, name: str, what: str, way_out: str) -> None:
    """Refuse what is no dictionary of labels: a Series, for instance, may hold labels or be indexed by them."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{name} must be a dictionary from each label to {what}; got {type(table).__name__}. {way_out}")
    if not len(table):
        raise ValueError(f"{name} must be a dictionary from each label to {what}; it is empty. {way_out}")
    if any(hashable(label) is None and label is not None for label in table):
        raise ValueError(f"{name} must not have a missing label: NaN equals nothing, not even itself.")


def check_every_label(table: Mapping[Any, Any], labels: NDArray[Any], name: str, way_out: str) -> list[Any]:
    """Return what a table says of each label; refuse a label that it leaves out."""
    missing = list(dict.fromkeys(label for label in labels.tolist() if label not in table))
    if missing:
        raise ValueError(
            f"{name} must speak of every label; {some(as_objects(missing))} are not in it, which has "
            f"{some(as_objects(list(table)))}. {way_out}"
        )
    return [table[label] for label in labels.tolist()]
