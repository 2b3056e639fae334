"""Weights of rows and of labels: what may come, and what fits together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import on_host
from aptset.core.labels import check_length, refuse_masked, some
from aptset.core.validate import is_number
from aptset.kernels.formula import Floats


def check_weights(weights: Any, n_rows: int, name: str = "weights") -> Floats:
    """Return one weight per row: finite, and not negative."""
    refuse_masked(weights, name)
    found = np.asarray(on_host(weights))
    if found.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, one per row; got dtype {found.dtype}. Convert them to float.")
    if found.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one weight per row; got shape {found.shape}.")
    check_length(found, n_rows, name)
    found = found.astype(np.float64)
    is_good = np.isfinite(found) & (found >= 0)
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise ValueError(
            f"{name} must be finite and at least 0; got {found[row]} in row {row}. A weight is the density of new rows "
            "over that of calibration rows, up to a constant."
        )
    return found


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
    every = set(known)
    unknown = [label for label in label_weights if label not in every]
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
        warnings.warn(
            f"prior_correction goes by estimated ratios whose standard errors amount to about {missed:.2g} of the "
            "proportions of labels: coverage may be less than 1 - alpha by up to as much. Estimate the ratios on more "
            "rows, leave prior_correction out, or calibrate with groups='label', which needs no ratios.",
            stacklevel=5,
        )


def warn_of_small_size(effective: float, group: str, alpha: Fraction, stacklevel: int) -> None:
    """Say that the weights leave few samples."""
    warnings.warn(
        f"the weights leave an effective size of {effective:.3g} calibration samples{group}, and for "
        f"alpha={float(alpha):g} fewer than {float(10 * (1 - alpha) / alpha):.4g} are few: coverage varies much from "
        "one calibration to the next, and sets are large. Calibrate on more rows like the new ones, or raise alpha.",
        stacklevel=stacklevel,
    )


def warn_of_infinite_thresholds(share: float, of_what: str, alpha: Fraction, stacklevel: int) -> None:
    """Say that some weights are so large that every label is in."""
    warnings.warn(
        f"{share:.0%} of the {of_what} weigh more than alpha / (1 - alpha) of all calibration samples at "
        f"alpha={float(alpha):g}, so that nothing can be left out there. Calibrate on more rows like the new ones, or "
        "raise alpha.",
        stacklevel=stacklevel,
    )
