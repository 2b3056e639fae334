"""What a monitor must be told, and what a file of one must hold: it is untrusted input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.labels import coded_list, hashable, with_one_missing
from aptset.data.setting_checks import check_sample_size, stored_fraction

MOST = 2**53  # rows: beyond this, counts are no exact numbers


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


def check_covered(covered: Any) -> NDArray[np.bool_]:
    """Return whether each set held its label, as an array."""
    found = np.atleast_1d(np.asarray(covered))
    if found.ndim != 1 or (found.dtype != np.bool_ and len(found)):
        raise TypeError(
            f"covered must be True or False, or a 1-D array of them, as sets.covers(labels) gives; got {covered!r:.80}."
        )
    return found.astype(np.bool_)


def check_row_groups(groups: Sequence[Any] | None, n_rows: int, known: Mapping[Any, int] | None) -> NDArray[np.intp]:
    """Return the number of each row's group; 0 for every row of a monitor without groups."""
    if known is None:
        if groups is not None:
            raise ValueError("groups must not be passed: this monitor has none. Make it with n={group: size, ...}.")
        return np.zeros(n_rows, dtype=np.intp)
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
        if group not in known:
            shown, row = ", ".join(repr(name) for name in list(known)[:6]), int(np.argmax(several.codes == number))
            raise ValueError(f"groups must be among those of the monitor ({shown}); got {group!r} in row {row}.")
    return np.take(np.array([known[group] for group in several.values], dtype=np.intp), several.codes)


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
    if found.get("format") != 2:
        raise ValueError(f"{path} has format {found.get('format')!r}, and this version reads format 2. Update aptset.")
    try:
        is_right = _is_right(found, n_bettors)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
        is_right = False
    if not is_right:
        raise ValueError(f"{path} is damaged: no monitor has such a state. Start a new one.")
    checked: dict[str, Any] = found
    return checked


def _is_right(found: dict[str, Any], n_bettors: int) -> bool:
    urns, path, at = found["urns"], found["path"], found["alarmed_at"]
    stakes, won = ([float.fromhex(text) for text in found[name]] for name in ("stakes", "won"))
    kept, peak = (float.fromhex(found[name]) for name in ("kept", "peak"))
    rows = sum(urn[2] for urn in urns)
    points = [(row, float.fromhex(text), misses) for row, text, misses in path["points"]]
    counts = [number for urn in urns for number in urn[1:]] + [path["every"], *(row for row, _, _ in points)]
    return (
        all(type(number) is int and 0 <= number < MOST for number in counts)
        and len({urn[0] for urn in urns}) == len(urns) > 0
        and all(len(urn) == 4 and urn[3] <= urn[2] for urn in urns)
        and type(found["has_groups"]) is bool
        and (found["has_groups"] or len(urns) == 1)
        and 0 < stored_fraction(found["alpha"]) < 1
        and type(found["alarm"]) in (int, float)
        and check_alarm(found["alarm"]) > 1
        and len(stakes) == len(won) == n_bettors
        and all(0 <= stake < 2.0**301 and 0 < factor <= 2.0**320 for stake, factor in zip(stakes, won, strict=True))
        and 0 < kept <= 1
        and 0 <= peak < inf
        and type(found["exponent"]) is int
        and 0 <= found["exponent"] < 2**32
        and (found["exponent"] == 0 or max(stakes) >= 1)
        and path["every"] > 0
        and all(isfinite(number) and type(misses) is int for _, number, misses in points)
        and all(row <= rows for row, _, _ in points)
        and (at is None or (type(at) is int and 0 < at <= rows))
        and len(points) <= 2**16
    )
