"""What a monitor must be told, and what a file of one must hold: it is untrusted input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import inf, isfinite
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import coded_list, hashable, with_one_missing
from aptset.core.tables import plain_list
from aptset.core.validate import check_sample_size, stored_fraction

MOST = 2**53  # rows: beyond this, counts are no exact numbers
COVERED, MISSED, UNKNOWN = 0, 1, 2  # what became of a row
_FARTHEST = 10**7  # predictions ahead of the next one: a number beyond that is an id or a time


def check_alarm(alarm: Any) -> float:
    """Return the evidence at which the alarm goes off."""
    is_number = isinstance(alarm, Real) and not isinstance(alarm, bool | np.bool_)
    try:
        found = float(alarm) if is_number else 0.0
    except OverflowError:  # a whole number beyond every float
        found = inf
    if not 1 < found < inf:
        raise ValueError(
            f"alarm must be a number above 1: false alarms, ever, in at most 1 of so many deployments; got {alarm!r}. "
            "100 is usual."
        )
    return found


def check_monitored_sizes(n: Any, needed: int, alpha: float) -> dict[Any, int]:
    """Return the calibration size of each group (None: of everyone); some must be large enough for a miss to happen."""
    named = {None: n} if not isinstance(n, Mapping) else n
    sizes = {hashable(name.item() if isinstance(name, np.generic) else name): size for name, size in named.items()}
    found = {name: check_sample_size(size) for name, size in sizes.items()}
    if max(found.values(), default=0) >= MOST:
        raise ValueError(f"n must be below 2^53; got {n}.")
    if not any(size >= needed for size in found.values()):
        raise ValueError(
            f"n must be at least {needed} for alpha={alpha:g}: with fewer calibration rows every label is in every set "
            f"and nothing can be missed; got {n}. Calibrate on more rows or raise alpha."
        )
    return found


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
        "mature must be a whole number of predictions from 0 on, a time such as datetime.timedelta(days=30), or None: "
        f"how long a row is waited for; got {mature!r}."
    )


def check_outcomes(covered: Any) -> NDArray[np.int8]:
    """Return whether each row was covered, missed, or is not known yet, as an array."""
    values = np.atleast_1d(np.asarray(covered))
    if values.ndim == 1 and values.dtype == np.bool_:
        return np.where(values, COVERED, MISSED).astype(np.int8)
    plain = with_one_missing(values.tolist()) if values.ndim == 1 else [covered]
    if not all(value is None or isinstance(value, bool | np.bool_) for value in plain):
        raise TypeError(
            "covered must be True or False (None: not known yet), or a 1-D array of them, as sets.covers(labels) "
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
            f"time must not be passed: this monitor waits for no time (mature={mature!r}). Make it with "
            "mature=datetime.timedelta(days=30), for instance, or pass the number of each prediction as order."
        )
    if is_in_time and n_rows and not has_time:
        raise ValueError(
            f"time must be passed: this monitor waits for {mature}. Pass when each prediction was made (and its number "
            "as order, if you know it)."
        )
    if n_rows and goes_by is not None and goes_by != ("time" if has_time and not has_order else "order"):
        raise ValueError(
            f"order must be passed in every call or in none: this monitor has put rows by their {goes_by} so far. "
            "Go on in the same way, or begin a new monitor."
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
    """Return times in seconds; dates without a zone are taken for UTC, numbers for seconds. One time for ``now``."""
    name = "time" if n_rows is not None else "now"
    values = np.atleast_1d(np.asarray(time))
    try:
        if values.dtype.kind == "M":
            seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
            seconds[np.isnat(values)] = np.nan
        elif values.dtype.kind in "iuf":
            seconds = values.astype(np.float64)
        else:
            seconds = np.array([_seconds(value) for value in values.tolist()], dtype=np.float64)
    except (TypeError, AttributeError):
        seconds = np.array([np.nan])
    if seconds.ndim != 1 or len(seconds) != (1 if n_rows is None else n_rows) or not np.isfinite(seconds).all():
        raise ValueError(
            f"{name} must say when each prediction was made, one date (datetime, numpy or pandas) or number of seconds "
            f"for each row, none missing; got {time!r:.80}."
        )
    listed: list[float] = seconds.tolist()
    return listed


def _seconds(value: date) -> float:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()


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
        if not (name is None or type(name) in (str, int, bool) or (type(name) is float and isfinite(name))):
            raise TypeError(
                f"groups must be texts, numbers, booleans or None to be saved; got {name!r}. Pass texts that stand for "
                "them instead, such as str(group)."
            )


def check_stored_monitor(path: str | Path, content: bytes, n_bettors: int) -> dict[str, Any]:
    """Return the state in a file; whatever no monitor would have written is refused."""
    try:
        found = json.loads(content)
        is_monitor = found["aptset"] == "monitor"
    except (ValueError, TypeError, KeyError, RecursionError):
        is_monitor = False
    if not is_monitor:
        raise ValueError(f"{path} is not the state of a monitor, or it is damaged. Start a new one.")
    if found.get("format") == 1:
        raise ValueError(f"{path} is of an older version, whose bets went deaf after long quiet. Start a new monitor.")
    if found.get("format") not in (2, 3):
        raise ValueError(f"{path} has format {found.get('format')!r}, and this version reads format 3. Update aptset.")
    try:
        if found["format"] == 2:  # when every row was judged at once
            found |= {"urns": [[*urn, 0] for urn in found["urns"]], "nowhere": 0, "ignored": 0, "mature": None}
            found["steady"] = {name: found[name] for name in ("kept", "stakes", "won", "exponent")}
            found["waiting"] = {"newest": -1, "clock": "-inf", "by_time": False, "arrived": 0, "rows": []}
        is_right = _is_right(found, n_bettors) and _is_right_queue(found)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
        is_right = False
    if not is_right:
        raise ValueError(f"{path} is damaged: no monitor has such a state. Start a new one.")
    checked: dict[str, Any] = found
    return checked


def _is_right(found: dict[str, Any], n_bettors: int) -> bool:
    urns, path, at = found["urns"], found["path"], found["alarmed_at"]
    peak = float.fromhex(found["peak"])
    rows = found["nowhere"] + sum(urn[2] + urn[4] for urn in urns)
    points = [(row, float.fromhex(text), misses) for row, text, misses in path["points"]]
    counts = [number for urn in urns for number in urn[1:]] + [path["every"], *(row for row, _, _ in points)]
    counts += [found["nowhere"], found["ignored"]]
    return (
        all(type(number) is int and 0 <= number < MOST for number in counts)
        and len({urn[0] for urn in urns}) == len(urns) > 0
        and all(len(urn) == 5 and urn[3] <= urn[2] for urn in urns)
        and type(found["has_groups"]) is bool
        and (found["has_groups"] or len(urns) == 1)
        and 0 < stored_fraction(found["alpha"]) < 1
        and type(found["alarm"]) in (int, float)
        and check_alarm(found["alarm"]) > 1
        and _is_right_capital(found, n_bettors)
        and _is_right_capital(found["steady"], n_bettors)
        and 0 <= peak < inf
        and path["every"] > 0
        and all(isfinite(number) and type(misses) is int for _, number, misses in points)
        and all(row <= rows for row, _, _ in points)
        and (at is None or (type(at) is int and 0 < at <= rows))
        and len(points) <= 2**16
    )


def _is_right_capital(stored: dict[str, Any], n_bettors: int) -> bool:
    stakes, won = ([float.fromhex(text) for text in stored[name]] for name in ("stakes", "won"))
    return (
        len(stakes) == len(won) == n_bettors
        and all(0 <= stake < 2.0**301 and 0 < factor <= 2.0**320 for stake, factor in zip(stakes, won, strict=True))
        and 0 < float.fromhex(stored["kept"]) <= 1
        and type(stored["exponent"]) is int
        and 0 <= stored["exponent"] < 2**32
        and (stored["exponent"] == 0 or max(stakes) >= 1)
    )


def stored_mature(mature: int | str | None) -> int | timedelta | None:
    """Return how long a stored monitor waits: a number of predictions, or a text of seconds."""
    return check_mature(timedelta(seconds=float.fromhex(mature)) if isinstance(mature, str) else mature)


def _is_right_queue(found: dict[str, Any]) -> bool:
    """Tell whether rows that wait could have come to wait."""
    queue, n_groups = found["waiting"], len(found["urns"])
    settled = found["nowhere"] + sum(urn[2] + urn[4] for urn in found["urns"])
    is_by_time, is_in_time = queue["by_time"], isinstance(stored_mature(found["mature"]), timedelta)
    keys = [tuple(row[:2]) if is_by_time else row[1] for row in queue["rows"]]
    times = [float.fromhex(row[0]) for row in queue["rows"] if is_in_time or row[0] is not None]
    return (
        type(is_by_time) is bool
        and (is_in_time or not (is_by_time or times))
        and type(queue["newest"]) is int
        and -1 <= queue["newest"] < MOST
        and type(queue["arrived"]) is int
        and 0 <= queue["arrived"] < MOST
        and -inf <= float.fromhex(queue["clock"]) < inf
        and len(set(keys)) == len(keys)
        and all(isfinite(time) and time <= float.fromhex(queue["clock"]) for time in times)
        and all(_is_right_row(row, n_groups) for row in queue["rows"])
        and all(is_by_time or settled <= row[1] <= queue["newest"] for row in queue["rows"])
    )


def _is_right_row(row: list[Any], n_groups: int) -> bool:
    _, number, outcome, group = row
    return (
        all(type(value) is int for value in (number, outcome, group))
        and 0 <= number < 2**64
        and COVERED <= outcome <= UNKNOWN
        and (0 if outcome != UNKNOWN else -1) <= group < n_groups
    )
