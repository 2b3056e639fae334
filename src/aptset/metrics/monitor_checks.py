"""What a monitor must be told, and what a file of one must hold: it is untrusted input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core import validate
from aptset.core.dates import DAY_FIRST, MONTH_FIRST, read_times
from aptset.core.labels import coded_list, hashable, with_one_missing
from aptset.core.store import (
    ALPHA,
    Facts,
    Field,
    Rules,
    Schema,
    Store,
    Tensor,
    Tensors,
    count,
    is_storable,
    stored_fraction,
)
from aptset.core.tables import plain_list
from aptset.kernels.counting import size_needed
from aptset.metrics.betting import TIMES

MOST = 2**53  # rows: beyond this, counts are no exact numbers
COVERED, MISSED, UNKNOWN = 0, 1, 2  # what became of a row
_LARGEST = float(np.finfo(np.float64).max)
_FARTHEST = 10**7  # predictions ahead of the next one: a number beyond that is an id or a time


def check_alarm(alarm: Any) -> float:
    """Return the evidence at which the alarm goes off."""
    is_number = isinstance(alarm, Real) and not isinstance(alarm, bool | np.bool_)
    try:
        threshold = float(alarm) if is_number else 0.0
    except OverflowError:  # a whole number beyond every float
        threshold = inf
    if not 1 < threshold < inf:
        raise ValueError(
            "alarm must be a number above 1; with 100, which is usual, at most 1 of 100 deployments ever has "
            f"a false alarm; got {alarm!r}."
        )
    return threshold


def check_monitored_sizes(n: Any, needed: int, alpha: float) -> dict[Any, int]:
    """Return the calibration size of each group (None: of everyone); some must be large enough for a miss to happen."""
    named = {None: n} if not isinstance(n, Mapping) else n
    sizes = {hashable(name.item() if isinstance(name, np.generic) else name): size for name, size in named.items()}
    checked = {name: validate.sample_size(size) for name, size in sizes.items()}
    if max(checked.values(), default=0) >= MOST:
        raise ValueError(f"n must be below 2^53; got {n}.")
    if not any(size >= needed for size in checked.values()):
        raise ValueError(
            f"n must be at least {needed} for alpha={alpha:g}: with fewer calibration rows every label is in every set "
            f"and nothing can be missed; got {n}. Calibrate on more rows or raise alpha."
        )
    return checked


def check_mature(mature: Any) -> int | timedelta | None:
    """Return how old a prediction may become without a label: so many predictions later, or so much time."""
    if isinstance(mature, np.timedelta64) and not np.isnat(mature):
        mature = mature.astype("timedelta64[us]").item()
    is_number = isinstance(mature, int | np.integer) and not isinstance(mature, bool | np.bool_)
    if mature is None or (isinstance(mature, timedelta) and mature >= timedelta(0)):
        return mature
    if is_number and 0 <= mature < MOST:
        return int(mature)
    raise ValueError(
        "mature must be a whole number of predictions from 0 on, a time such as datetime.timedelta(days=30), "
        f"or None: how long a missing label is waited for; got {mature!r}."
    )


def check_outcomes(covered: Any, name: str = "covered") -> NDArray[np.int8]:
    """Return whether each row was covered, missed, or is not known yet, as an array."""
    values = np.atleast_1d(np.asarray(covered))
    if values.ndim == 1 and values.dtype == np.bool_:
        return np.where(values, COVERED, MISSED).astype(np.int8)
    plain = with_one_missing(values.tolist()) if values.ndim == 1 else [covered]
    if not all(value is None or isinstance(value, bool | np.bool_) for value in plain):
        raise TypeError(
            f"{name} must be True or False (None: not known yet), or a 1-D array of them, as sets.covers(labels) "
            f"gives; got {covered!r:.80}."
        )
    return np.array([UNKNOWN if value is None else MISSED - value for value in plain], dtype=np.int8)


def check_one_order(
    mature: int | timedelta | None, goes_by: str | None, has_order: bool, has_time: bool, n_rows: int
) -> None:
    """Refuse rows whose place among the predictions, or whose age, is not known."""
    is_in_time = isinstance(mature, timedelta)
    if has_time and not is_in_time:
        raise ValueError(
            f"time must be left out: this monitor does not wait for a length of time (mature={mature!r}). "
            "Make it with mature=datetime.timedelta(days=30), for instance, or pass the number of each "
            "prediction as order."
        )
    if is_in_time and n_rows and not has_time:
        raise ValueError(
            f"time must be passed: this monitor waits for {mature}. Pass when each prediction was made (and its number "
            "as order, if you know it)."
        )
    if n_rows and goes_by is not None and goes_by != ("time" if has_time and not has_order else "order"):
        raise ValueError(
            f"order must be passed in every call or in none: this monitor has ordered rows by their {goes_by} "
            "so far. Go on in the same way, or make a new monitor."
        )


def check_numbers(order: Any, n_rows: int | None, settled: int, following: int) -> list[int]:
    """Return the number of each prediction; without any the rows are the next ones. One number for ``now``."""
    name = "order" if n_rows is not None else "now"
    if order is None:
        return list(range(following, following + (n_rows or 0)))
    values = np.atleast_1d(np.asarray(order if np.ndim(order) == 0 else plain_list(order)))
    if len(values) == 0:
        values = values.astype(np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) != (1 if n_rows is None else n_rows):
        raise ValueError(
            f"{name} must be whole numbers, one for each row: how many predictions were made before it, since the "
            f"monitor began; got {order!r:.80}."
        )
    if len(values) and not (values.min() >= 0 and values.max() <= settled + _FARTHEST):
        wrong = values[(values < 0) | (values > settled + _FARTHEST)][0]
        raise ValueError(
            f"{name} must count predictions, 0, 1, 2, ... since the monitor began, of which {settled:,} were settled; "
            f"got {wrong}. Subtract the number of the first prediction, or number the rows in the order of their times."
        )
    if len(np.unique(values)) < len(values):
        numbers, counts = np.unique(values, return_counts=True)
        raise ValueError(f"{name} must name each prediction once; {numbers[counts > 1][0]} is there twice.")
    return [int(value) for value in values]


def check_same_row(number: int, what: str, before: int, now: int, unknown: int) -> None:
    """Refuse a second label of a prediction that says something else than the first."""
    if before != now and unknown not in (before, now):
        raise ValueError(
            f"order must name each prediction once: prediction {number} waits with another {what}. Give every "
            "prediction a number of its own, and its label once."
        )


def check_times(time: Any, n_rows: int | None) -> list[float]:
    """Return times in seconds; dates without a zone are taken for UTC, numbers for seconds. One time for ``now``.

    Of texts only those with the year first are taken: rows come call by call, and a later call must not read 03/04/2026
    in another way than an earlier one.
    """
    name = "time" if n_rows is not None else "now"
    values = np.atleast_1d(np.asarray(time))
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        seconds[np.isnat(values)] = np.nan
    elif values.dtype.kind in "iuf":
        seconds = values.astype(np.float64)
    elif values.ndim == 1 and all(isinstance(value, str | date | None) for value in values.tolist()):
        times = read_times(values.tolist(), name)
        check_year_first(name, times.how)
        seconds = np.array(times.keys, dtype=np.float64)
    else:
        seconds = np.array([np.nan])
    if seconds.ndim != 1 or len(seconds) != (1 if n_rows is None else n_rows) or not np.isfinite(seconds).all():
        raise ValueError(
            f"{name} must say when each prediction was made, one date (datetime, numpy or pandas) or number of seconds "
            f"for each row, none missing; got {time!r:.80}."
        )
    listed: list[float] = seconds.tolist()
    return listed


def check_year_first(name: str, how: str) -> None:
    """Refuse dates with the day or the month first."""
    if how in (DAY_FIRST, MONTH_FIRST):
        raise ValueError(
            f"{name} must hold dates (datetime, numpy or pandas), numbers of seconds or texts such as 2024-12-31; got "
            f"texts {how}. Pass pandas.to_datetime(column, dayfirst={how == DAY_FIRST})."
        )


def check_row_groups(
    groups: Sequence[Any] | None, n_rows: int, known: Mapping[Any, int] | None, is_known: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the number of each row's group; 0 for every row of a monitor without groups.

    It is -1 where neither the label nor the group is known.
    """
    if known is None:
        if groups is not None:
            raise ValueError("groups must not be passed: this monitor has none. Make it with n={group: size, ...}.")
        return np.zeros(n_rows, dtype=np.intp)
    if groups is None and not is_known.any():
        return np.full(n_rows, -1, dtype=np.intp)
    if groups is None:
        raise ValueError(f"groups must be passed: this monitor has {len(known)} of them. Pass the group of each row.")
    if len(groups) != n_rows:
        raise ValueError(f"groups must have one entry per row: {n_rows} rows, but {len(groups)} entries came.")
    try:
        several = coded_list(with_one_missing(list(groups)))
    except TypeError as error:
        raise TypeError(
            f"groups must be texts, numbers or other plain values, one for each row; got {list(groups)!r:.80}. Pass "
            "the group of each row."
        ) from error
    for number, group in enumerate(several.values):
        must_be_known = (several.codes == number) & (is_known | (group is not None))
        if group not in known and must_be_known.any():
            shown, row = ", ".join(repr(name) for name in list(known)[:6]), int(np.argmax(must_be_known))
            raise ValueError(f"groups must be among those of the monitor ({shown}); got {group!r} in row {row}.")
    return np.take(np.array([known.get(group, -1) for group in several.values], dtype=np.intp), several.codes)


def refuse_impossible_misses(
    is_miss: NDArray[np.bool_], numbers: NDArray[np.intp], first: NDArray[np.int64], names: Sequence[Any]
) -> None:
    """Refuse a miss where every label was in the set."""
    impossible = is_miss & (first[numbers] == 0)
    if impossible.any():
        row = int(impossible.argmax())
        raise ValueError(
            f"covered must be True in row {row}: group {names[numbers[row]]!r} has too few calibration rows for this "
            "level, so every label is in its sets. Are these the sets of this calibration, at this level?"
        )


def check_storable_groups(names: Sequence[Any]) -> None:
    """Refuse groups that a file of JSON would not give back as they are."""
    for name in names:
        if not is_storable(name) or (isinstance(name, float) and not isfinite(name)):
            raise TypeError(
                f"groups must be texts, numbers, booleans or None to be saved; got {name!r}. Pass texts that stand for "
                "them instead, such as str(group)."
            )


def _are_counts(values: NDArray[Any]) -> bool:
    return bool(((values >= 0) & (values < MOST)).all())


def mature_of(facts: Facts) -> int | timedelta | None:
    """Return how long a stored monitor waits: a number of predictions, or microseconds."""
    mature: int | None = facts["mature"]
    return mature if not facts["in_time"] or mature is None else timedelta(microseconds=mature)


def _rules(facts: Facts, tensors: Tensors) -> Rules:
    """Return the relations that hold in every monitor."""
    n, rows, misses, unknown = tensors["urns"].T
    settled = facts["nowhere"] + sum(rows.tolist()) + sum(unknown.tolist())
    return {
        "its groups must be distinct texts, numbers, booleans or null": lambda: (
            all(map(is_storable, facts["groups"])) and len(set(facts["groups"])) == len(facts["groups"])
        ),
        "it must have groups, or one": lambda: len(n) > 0 and (facts["has_groups"] or facts["groups"] == [None]),
        "its numbers of rows must be counts": lambda: _are_counts(tensors["urns"]) and (misses <= rows).all(),
        "its n must be large enough for a miss at its alpha": lambda: (
            facts["kind"] == "error_monitor" or n.max() >= size_needed(stored_fraction(facts["alpha"]))
        ),
        "its mature must be a count, or a time": lambda: facts["mature"] is None or 0 <= facts["mature"] <= _LONGEST,
        "its alarm must be at one of its rows": lambda: (
            facts["alarmed_at"] is None or 0 < facts["alarmed_at"] <= settled
        ),
        **_rules_of_capital(tensors),
        **_rules_of_path(tensors, settled),
        **_rules_of_queue(facts, tensors, settled),
    }


def _rules_of_capital(tensors: Tensors) -> Rules:
    exponents, kept = tensors["exponents"], tensors["capital"][:, 0]
    stakes, won = tensors["capital"][:, 1 : 1 + len(TIMES)], tensors["capital"][:, 1 + len(TIMES) :]
    return {
        "its capital must be what bets can make": lambda: (
            ((stakes >= 0) & (stakes < 2.0**301) & (won > 0) & (won <= 2.0**320)).all()
            and ((kept > 0) & (kept <= 1)).all()
        ),
        "its exponents must be those of its stakes": lambda: (
            ((exponents >= 0) & (exponents < 2**32)).all() and ((exponents == 0) | (stakes.max(axis=1) >= 1)).all()
        ),
    }


def _rules_of_path(tensors: Tensors, settled: int) -> Rules:
    path, peak = tensors["path"], tensors["peak"]
    counts = path[:, [0, 2]]
    return {
        "its peak must be a number from 0 on": lambda: ((peak >= 0) & (peak < inf)).all(),
        "its path must be finite numbers at its rows": lambda: len(path) <= 2**16 and np.isfinite(path).all(),
        "its path must count its rows": lambda: (
            _are_counts(counts) and (counts == np.floor(counts)).all() and (path[:, 0] <= settled).all()
        ),
    }


def _rules_of_queue(facts: Facts, tensors: Tensors, settled: int) -> Rules:
    """Return what holds of rows that could have come to wait."""
    times, numbers = tensors["waiting_times"], tensors["waiting_numbers"]
    outcomes, groups, clock = tensors["waiting_outcomes"], tensors["waiting_groups"], float(tensors["clock"][0])
    in_time, by_time = facts["in_time"] and facts["mature"] is not None, facts["by_time"]
    keys = list(zip(times.tolist(), numbers.tolist(), strict=True)) if by_time else numbers.tolist()
    return {
        "its clock must be a time": lambda: -inf <= clock < inf,
        "its rows that wait must have times if it waits for a time": lambda: (
            (np.isfinite(times) & (times <= clock)).all() if in_time else not by_time and (times == -inf).all()
        ),
        "its rows that wait must be distinct predictions": lambda: len(set(keys)) == len(keys),
        "its rows that wait must have an outcome and a group": lambda: (
            ((outcomes >= COVERED) & (outcomes <= UNKNOWN) & (groups < len(facts["groups"]))).all()
            and (groups >= np.where(outcomes == UNKNOWN, -1, 0)).all()
        ),
        "its rows that wait must come after those that were settled": lambda: (
            by_time or all(settled <= number <= facts["newest"] for number in numbers.tolist())
        ),
    }


_SIZES = {"counts": 4, "capitals": 2, "numbers of a capital": 1 + 2 * len(TIMES), "numbers of a point": 3, "once": 1}
_LONGEST = timedelta.max // timedelta(microseconds=1)
_SCHEMA = Schema(
    {
        "alpha": ALPHA,
        "alarm": Field(int | float, "its alarm must be above 1, and finite", lambda alarm: 1 < alarm <= _LARGEST),
        "groups": Field(list),
        "has_groups": Field(bool),
        "nowhere": count("nowhere"),
        "ignored": count("ignored"),
        "mature": Field(int | None),
        "in_time": Field(bool),
        "newest": count("newest", -1),
        "by_time": Field(bool),
        "arrived": count("arrived"),
        "alarmed_at": Field(int | None),
        "every": count("every", 1),
        "log": Field(dict | None),  # what the command line has seen
    },
    {
        "urns": Tensor("I64", ("groups", "counts")),
        "capital": Tensor("F64", ("capitals", "numbers of a capital")),
        "exponents": Tensor("I64", ("capitals",)),
        "peak": Tensor("F64", ("once",)),
        "path": Tensor("F64", ("points", "numbers of a point")),
        "clock": Tensor("F64", ("once",)),
        "waiting_times": Tensor("F64", ("rows that wait",)),
        "waiting_numbers": Tensor("U64", ("rows that wait",)),
        "waiting_outcomes": Tensor("I64", ("rows that wait",)),
        "waiting_groups": Tensor("I64", ("rows that wait",)),
    },
    lambda facts, names: {"groups": len(facts["groups"]), **_SIZES},
    _rules,
)
STORE = Store({"monitor": _SCHEMA, "error_monitor": _SCHEMA}, "kind of state", "Start a new monitor.")
