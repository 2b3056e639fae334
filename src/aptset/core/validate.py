"""Levels, scores, seeds: the small arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from aptset.kernels.counting import size_needed


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number that a float can hold: whole numbers may be larger than any."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def whole(value: Any, name: str, least: int, rule: str = "", most: float = math.inf, way_out: str = "") -> int:
    """Return a whole number within bounds; ``rule`` says which ones where "of at least" does not."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        rule = rule or f"a whole number of at least {least}"
        raise ValueError(f"{name} must be {rule}; got {value!r}.{way_out and ' ' + way_out}")
    return int(value)


def number(value: Any, name: str, rule: str, fits: Callable[[float], bool], way_out: str = "") -> float:
    """Return a finite number that fits the rule."""
    if not is_number(value) or not fits(float(value)):
        raise ValueError(f"{name} must be {rule}; got {value!r}.{way_out and ' ' + way_out}")
    return float(value)


def share(value: Any, name: str, of_what: str = "", way_out: str = "") -> float:
    """Return a number between 0 and 1, without the ends."""
    rule = f"in (0, 1), {of_what}" if of_what else "in (0, 1)"
    return number(value, name, rule, lambda part: 0 < part < 1, way_out)


def one_of(value: Any, options: tuple[str, ...], name: str) -> str:
    """Return one of a few words."""
    if value not in options:
        raise ValueError(f"{name} must be one of {list(options)}; got {value!r}.")
    return str(value)


def flag(value: Any, name: str) -> bool:
    """Return a boolean; a text such as "no" would be true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


check_option, check_flag = one_of, flag  # as rooms above call them


def check_alpha(alpha: Any) -> Fraction:
    """Return the exact decimal that the user wrote."""
    if isinstance(alpha, np.ndarray) and alpha.ndim == 0:
        alpha = alpha[()]
    if isinstance(alpha, bool | np.bool_) or not isinstance(alpha, Real | Decimal):
        raise TypeError(f"alpha must be a number in (0, 1); got {alpha!r}. For 90 % coverage pass alpha=0.1.")
    is_signal = isinstance(alpha, Decimal) and alpha.is_snan()  # every use of it would raise
    if is_signal or not (isinstance(alpha, Decimal) or is_number(alpha)) or not 0 < float(alpha) < 1:
        raise ValueError(f"alpha must be in (0, 1); got {alpha}. For 90 % coverage pass alpha=0.1.")
    # str of a float, numpy's too, is the shortest decimal that means it: 0.1 is one tenth, not its binary neighbour.
    return Fraction(alpha) if isinstance(alpha, Fraction | Decimal) else Fraction(str(alpha))


@lru_cache(maxsize=256)
def _level_of_float(alpha: float) -> Fraction:
    """Return the decimal of a level that comes again and again."""
    return check_alpha(alpha)


def check_alphas(alpha: Any) -> tuple[list[Fraction], bool]:
    """Return the levels, and whether there was a sequence of them."""
    if type(alpha) is float:
        return [_level_of_float(alpha)], False
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


def warn_if_too_few(
    sizes: Mapping[Any, int],
    alphas: Sequence[Fraction],
    kind: str,
    stacklevel: int = 3,
    levels: Sequence[Fraction] | None = None,
    counted: str = "samples",
) -> None:
    """Say once that sets hold every label because their calibration samples, or those of some groups, are too few.

    ``kind`` is that of the groups: "all" for none, "label", "band", or "row". ``levels`` are the input levels at which
    calibration runs, where they are not the levels that were asked for, and ``counted`` is what sizes count.
    """
    strictest, inner = min(alphas), min(levels or alphas)
    needed = size_needed(inner)
    if min(sizes.values(), default=needed) >= needed:
        return
    asked = f"alpha={float(strictest):g}"
    asked += f" (level='guaranteed' runs at {float(inner):.4g})" if inner != strictest else ""
    short = {name: n for name, n in sizes.items() if n < needed}
    if kind != "all":
        shown = ", ".join(f"{name!r} ({n if n else 'never seen'})" for name, n in list(short.items())[:8])
        what = f"groups with too few calibration samples for {asked}: {shown}"
        what += f" and {len(short) - 8} more" if len(short) > 8 else ""
        effect = "so every label is in their sets. Calibrate on more samples of these groups or raise alpha."
        if kind == "label":
            what = what.replace("groups", "labels", 1)
            effect = "so they are in every set. Calibrate on more samples of these labels or raise alpha."
        if kind == "band":
            what = what.replace("groups", "bands of labels", 1)
            effect = "so their labels are in every set. Calibrate on more samples of these bands, or join bands."
    else:
        what = f"{next(iter(short.values()))} calibration samples are too few for {asked}"
        effect = "so every set holds every label. Calibrate on more samples or raise alpha."
    wanted = needed if needed < 10**15 else f"{Decimal(needed):.3g}"  # 300 digits help nobody
    what, effect = (text.replace(" samples", f" {counted}", 1) for text in (what, effect))
    warnings.warn(f"{what}: at least {wanted} are needed, {effect}", stacklevel=stacklevel)


def draw_key(generator: np.random.Generator) -> int:
    """Draw the 64-bit key of the row hash."""
    return int(generator.integers(2**64, dtype=np.uint64))


def check_share(value: Any) -> float:
    """Return the share of rows that calibrates."""
    return share(value, "share", "the share of rows that calibrates")


def check_slack(slack: Any) -> float:
    """Return how much worse the coverage of classes may be."""
    return number(slack, "slack", "in [0, 1], a difference of coverages", lambda part: 0 <= part <= 1)


def check_choice(value: Any, table: Mapping[str, Callable[[], Any]], method: str, name: str) -> Any:
    """Return the object that a name of the table, or an object with the method, stands for."""
    if isinstance(value, str) and value in table:
        return table[value]()
    if isinstance(value, str | type) or not hasattr(value, method):
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} must be one of {sorted(table)} or an object with {method}; got {value!r}.")
    return value


def check_reachable(level: Fraction, alpha: Fraction, calibration: str, caveat: str = "") -> Fraction:
    """Return the input level that makes the promise, if there is one."""
    if level <= 0:
        why = caveat or f"{calibration} with so few samples and folds promises less at every input level"
        raise ValueError(
            f"level='guaranteed' must be able to promise coverage {float(1 - alpha):g}; {why}. "
            "Use more samples, other folds, calibration='split', or level='nominal'."
        )
    return level


def check_list(values: Any, name: str) -> list[Any]:
    """Return several values; a text is one, not a list of letters."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list; got {values!r}. For one pass [{values!r}].")
    return list(values)


def check_share_of_split(calibration: str, of_rows: float) -> float:
    """Refuse a share that calibrates for calibrations in which every row does."""
    if calibration != "split":
        raise ValueError(f"--share is for --calibration split, where some rows calibrate; got {calibration!r}.")
    return check_share(of_rows)


def check_flag_or_none(value: Any, default: bool, name: str) -> bool:
    """Return a boolean, or the default for None."""
    return default if value is None else flag(value, name)


_ALL_AT_ONCE: ContextVar[bool] = ContextVar("all_at_once", default=False)


@contextmanager
def all_at_once() -> Iterator[None]:
    """Work on rows that come in this one call, as a test set does: each of their copies has u of its own."""
    before = _ALL_AT_ONCE.set(True)
    try:
        yield
    finally:
        _ALL_AT_ONCE.reset(before)


def are_all_at_once() -> bool:
    """Tell whether rows come in one call, so that nobody needs to be warned of those in other ones."""
    return _ALL_AT_ONCE.get()
