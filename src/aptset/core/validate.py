"""The small arguments: numbers, words, flags, levels and seeds, each with one message of one form."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


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


def flag(value: Any, name: str, default: bool | None = None) -> bool:
    """Return a boolean, or for None the default, where there is one; a text such as "no" would be true."""
    if value is None and default is not None:
        return default
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def flags(of: Any, names: tuple[str, ...]) -> None:
    """Refuse attributes that are neither True nor False."""
    for name in names:
        if not isinstance(value := getattr(of, name), bool | np.bool_):
            raise TypeError(f"{name} must be True or False; got {value!r}.")


def alpha(value: Any) -> Fraction:
    """Return the exact decimal that the user wrote."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | Decimal):
        raise TypeError(f"alpha must be a number in (0, 1); got {value!r}. For 90 % coverage pass alpha=0.1.")
    is_signal = isinstance(value, Decimal) and value.is_snan()  # every use of it would raise
    if is_signal or not (isinstance(value, Decimal) or is_number(value)) or not 0 < float(value) < 1:
        raise ValueError(f"alpha must be in (0, 1); got {value}. For 90 % coverage pass alpha=0.1.")
    # str of a float, numpy's too, is the shortest decimal that means it: 0.1 is one tenth, not its binary neighbour.
    return Fraction(value) if isinstance(value, Fraction | Decimal) else Fraction(str(value))


def sample_size(n: Any) -> int:
    """Return n as an int."""
    if isinstance(n, bool | np.bool_) or not isinstance(n, Integral):
        raise TypeError(f"n must be a whole number of calibration samples; got {n!r}.")
    if n < 0:
        raise ValueError(f"n must be at least 0; got {n}.")
    return int(n)


def generator(random_state: Any) -> np.random.Generator:
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


def draw_key(generator: np.random.Generator) -> int:
    """Draw the 64-bit key of the row hash."""
    return int(generator.integers(2**64, dtype=np.uint64))


def check_choice(value: Any, table: Mapping[str, Callable[[], Any]], method: str, name: str) -> Any:
    """Return the object that a name of the table, or an object with the method, stands for."""
    if isinstance(value, str) and value in table:
        return table[value]()
    if isinstance(value, str | type) or not hasattr(value, method):
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(f"{name} must be one of {sorted(table)} or an object with {method}; got {value!r}.")
    return value


_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def warn_caller(text: str) -> None:
    """Warn at the first line outside the package, however deep below it the reason is noticed.

    Frames are counted, since ``skip_file_prefixes`` of :func:`warnings.warn` came with Python 3.12.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def install(extra: str) -> str:
    """Return how to install an extra: from an index, or, until aptset is on one, from a clone."""
    return f"pip install 'aptset[{extra}]' (in a clone of the repository: pip install '.[{extra}]')"


def need_jinja() -> Any:
    """Return jinja2, or say how to get it."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(f"aptset.report needs jinja2 ({error}). Install it with: {install('report')}") from error
    return jinja2


def _as_alpha(name: str, value: Any) -> str:
    is_share = isinstance(value, int | float) and 0 < value < 1
    return f"{name}={value} is alpha={1 - value:.10g} here" if is_share else f"{name} is 1 - alpha here"


# Arguments of MAPIE, crepes, TorchCP, puncc and nonconformist, and what they are called here; and of our own
# functions, where another has no such argument.
_FOREIGN: dict[str, Callable[[str, Any], str]] = {
    **dict.fromkeys(("confidence_level", "confidence", "coverage"), _as_alpha),
    "significance": lambda name, value: f"{name}={value!r} is alpha={value!r} here",
    **dict.fromkeys(
        ("conformity_score", "score_function", "nc_function", "method"),
        lambda name, value: f"{name} is conformity here: 'aps', 'lac', 'raps', ..., or a score of your own",
    ),
    **dict.fromkeys(
        ("prefit", "train"),
        lambda name, value: (
            f"{name}={value!r} has no place here: a fitted model is wrapped in sklearn.frozen.FrozenEstimator, and "
            "then every row of fit calibrates; any other model is trained"
        ),
    ),
    **dict.fromkeys(
        ("class_cond", "mondrian", "condition"),
        lambda name, value: f"{name}={value!r} is groups='label' here, or groups of your own",
    ),
    "smoothing": lambda name, value: f"{name}={value!r} is randomized={value!r} here, a setting of the calibration",
    "include_last_label": lambda name, value: f"{name} is randomized=False here, a setting of the calibration",
    **dict.fromkeys(("seed", "random_seed"), lambda name, value: f"{name}={value!r} is random_state={value!r} here"),
    **dict.fromkeys(
        ("clusters", "votes"),
        lambda name, value: (
            f"batches are counted without a look at which rows belong together; pass {name} to aptset.calibrate, or "
            "--cluster to `aptset calibrate`"
        ),
    ),
    "cv": lambda name, value: f"{name} is calibration here: 'split', 'cv+', 'jackknife+', ...",
}


def answers_foreign_keywords(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Answer the keywords of other libraries with what they are called here."""
    known = signature(function).parameters.keys()

    @wraps(function)
    def checked(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Returned:
        foreign = {name: keywords[name] for name in keywords.keys() - known if name in _FOREIGN}
        if foreign:
            refuse_foreign_keywords(function.__qualname__.removesuffix(".__init__"), foreign)
        return function(*arguments, **keywords)

    return checked


def refuse_foreign_keywords(called: str, keywords: Mapping[str, object]) -> NoReturn:
    """Refuse keywords that a function does not have, those of other libraries with what they are called here."""
    for name, value in keywords.items():
        if name in _FOREIGN:
            raise TypeError(f"{called} takes no {name}: {_FOREIGN[name](name, value)}.")
    raise TypeError(f"{called}() got an unexpected keyword argument {next(iter(keywords))!r}")
