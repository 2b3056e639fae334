"""Levels, scores, seeds: the small arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np

from aptset.kernels.counts import size_needed
from aptset.scores import SCORES, Score


def check_alpha(alpha: Any) -> Fraction:
    """Return the exact decimal that the user wrote."""
    if isinstance(alpha, np.ndarray) and alpha.ndim == 0:
        alpha = alpha[()]
    if isinstance(alpha, bool | np.bool_) or not isinstance(alpha, Real | Decimal):
        raise TypeError(f"alpha must be a number in (0, 1); got {alpha!r}. For 90 % coverage pass alpha=0.1.")
    if not 0 < float(alpha) < 1:  # NaN compares false, so it is refused here too
        raise ValueError(f"alpha must be in (0, 1); got {alpha}. For 90 % coverage pass alpha=0.1.")
    # str of a float, numpy's too, is the shortest decimal that means it: 0.1 is one tenth, not its binary neighbour.
    return Fraction(alpha) if isinstance(alpha, Fraction | Decimal) else Fraction(str(alpha))


def check_alphas(alpha: Any) -> tuple[list[Fraction], bool]:
    """Return the levels, and whether there was a sequence of them."""
    if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) and np.ndim(alpha) == 1:
        if len(alpha) == 0:
            raise ValueError("alpha must be a number or a non-empty sequence of numbers; got an empty sequence.")
        return [check_alpha(a) for a in alpha], True
    return [check_alpha(alpha)], False


def check_sample_size(n: Any) -> int:
    """Return n as an int."""
    if isinstance(n, bool | np.bool_) or not isinstance(n, Integral):
        raise TypeError(f"n must be a whole number of calibration samples; got {n!r}.")
    if n < 0:
        raise ValueError(f"n must be at least 0; got {n}.")
    return int(n)


def check_conformity(conformity: Any) -> Score:
    """Return the score that a name or an object stands for."""
    score: Score = check_choice(conformity, SCORES, "weights", "conformity")
    weights = tuple(score.weights)
    if not all(isinstance(w, Real) and math.isfinite(w) for w in weights) or score.weights.rank < 0:
        raise ValueError(f"conformity must have finite weights and no negative penalty; got {score!r}.")
    return score


def check_generator(random_state: Any) -> np.random.Generator:
    """Return a generator: from a seed, from fresh entropy, or drawn from another generator."""
    if random_state is None or (isinstance(random_state, Integral) and not isinstance(random_state, bool)):
        if random_state is not None and random_state < 0:
            raise ValueError(f"random_state must not be negative; got {random_state}.")
        return np.random.default_rng(None if random_state is None else int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state.integers(2**63, size=2))
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    raise TypeError(f"random_state must be None, an int or a numpy random generator; got {random_state!r}.")


def warn_if_too_few(n: int, alphas: list[Fraction], stacklevel: int = 3) -> None:
    """Say once that a set is every label because the calibration sample is too small."""
    short = [alpha for alpha in alphas if size_needed(alpha) > n]
    if short:
        strictest = min(short)
        warnings.warn(
            f"{n} calibration samples are too few for alpha={float(strictest):g}: at least {size_needed(strictest)} "
            "are needed, so every set holds every label. Calibrate on more samples or raise alpha.",
            stacklevel=stacklevel,
        )


def draw_key(generator: np.random.Generator) -> int:
    """Draw the 64-bit key of the row hash."""
    return int(generator.integers(2**64, dtype=np.uint64))


def check_share(share: Any) -> float:
    """Return the share of rows that calibrates."""
    if isinstance(share, bool | np.bool_) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise ValueError(f"share must be in (0, 1), the share of rows that calibrates; got {share!r}.")
    return float(share)


def check_choice(value: Any, table: Mapping[str, Callable[[], Any]], method: str, name: str) -> Any:
    """Return the object that a name of the table, or an object with the method, stands for."""
    if isinstance(value, str) and value in table:
        return table[value]()
    if isinstance(value, str | type) or not hasattr(value, method):
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} must be one of {sorted(table)} or an object with {method}; got {value!r}.")
    return value
