"""What a monitor must be told, and what a file of one must hold: it is untrusted input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core import store, validate
from aptset.core.labels import coded_list, hashable, with_one_missing
from aptset.core.levels import size_needed
from aptset.metrics.betting import TIMES, Urns
from aptset.metrics.waiting import COVERED, MISSED, MOST, UNKNOWN

_LARGEST = float(np.finfo(np.float64).max)


def rows_to_monitor(alpha: float) -> int:
    """Return how many calibration rows a monitor needs at least: with fewer no set can miss."""
    return size_needed(validate.alpha(alpha))


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


def check_groups(
    groups: Sequence[Any] | None, outcomes: NDArray[np.int8], urns: Urns, has_groups: bool
) -> NDArray[np.intp]:
    """Return the number of each row's group; 0 for every row of a monitor without groups.

    It is -1 where neither the label nor the group is known. A miss where every label was in the set is refused.
    """
    n_rows, is_known = len(outcomes), outcomes != UNKNOWN
    if not has_groups and groups is not None:
        raise ValueError("groups must not be passed: this monitor has none. Make it with n={group: size, ...}.")
    if has_groups and groups is None and is_known.any():
        raise ValueError(f"groups must be passed: this monitor has {len(urns.n)} of them. Pass the group of each row.")
    if groups is None:
        numbers = np.full(n_rows, -1 if has_groups else 0, dtype=np.intp)
    else:
        numbers = _numbers_of_groups(groups, n_rows, urns.number_of, is_known)
    impossible = (outcomes == MISSED) & (urns.first[numbers] == 0)
    if impossible.any():
        row = int(impossible.argmax())
        raise ValueError(
            f"covered must be True in row {row}: group {list(urns.number_of)[numbers[row]]!r} has too few calibration "
            "rows for this level, so every label is in its sets. Are these the sets of this calibration, at this level?"
        )
    return numbers


def _numbers_of_groups(
    groups: Sequence[Any], n_rows: int, known: Mapping[Any, int], is_known: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the number of each group; only a row without a label may have none."""
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


def check_storable(names: Sequence[Any]) -> None:
    """Refuse groups that a file of JSON would not give back as they are."""
    for name in names:
        if store.unstorable([name]) or (isinstance(name, float) and not isfinite(name)):
            raise TypeError(
                f"groups must be texts, numbers, booleans or None to be saved; got {name!r}. Pass texts that stand for "
                "them instead, such as str(group)."
            )


def _are_counts(values: NDArray[Any]) -> bool:
    return bool(((values >= 0) & (values < MOST)).all())


def _rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    """Return the relations that hold in every monitor."""
    n, rows, misses, unknown = tensors["urns"].T
    settled = facts["nowhere"] + sum(rows.tolist()) + sum(unknown.tolist())
    return {
        "its groups must be distinct texts, numbers, booleans or null": lambda: (
            not store.unstorable(facts["groups"]) and len(set(facts["groups"])) == len(facts["groups"])
        ),
        "it must have groups, or one": lambda: len(n) > 0 and (facts["has_groups"] or facts["groups"] == [None]),
        "its numbers of rows must be counts": lambda: _are_counts(tensors["urns"]) and (misses <= rows).all(),
        "its n must be large enough for a miss at its alpha": lambda: (
            facts["kind"] == "error_monitor" or n.max() >= size_needed(store.stored_fraction(facts["alpha"]))
        ),
        "its mature must be a count, or a time": lambda: facts["mature"] is None or 0 <= facts["mature"] <= _LONGEST,
        "its alarm must be at one of its rows": lambda: (
            facts["alarmed_at"] is None or 0 < facts["alarmed_at"] <= settled
        ),
        **_rules_of_capital(tensors),
        **_rules_of_path(tensors, settled),
        **_rules_of_queue(facts, tensors, settled),
    }


def _rules_of_capital(tensors: store.Tensors) -> store.Rules:
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


def _rules_of_path(tensors: store.Tensors, settled: int) -> store.Rules:
    path, peak = tensors["path"], tensors["peak"]
    counts = path[:, [0, 2]]
    return {
        "its peak must be a number from 0 on": lambda: ((peak >= 0) & (peak < inf)).all(),
        "its path must be finite numbers at its rows": lambda: len(path) <= 2**16 and np.isfinite(path).all(),
        "its path must count its rows": lambda: (
            _are_counts(counts) and (counts == np.floor(counts)).all() and (path[:, 0] <= settled).all()
        ),
    }


def _rules_of_queue(facts: store.Facts, tensors: store.Tensors, settled: int) -> store.Rules:
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
_SCHEMA = store.Schema(
    {
        "alpha": store.ALPHA,
        "alarm": store.Field(int | float, "its alarm must be above 1, and finite", lambda alarm: 1 < alarm <= _LARGEST),
        "groups": store.Field(list),
        "has_groups": store.Field(bool),
        "nowhere": store.count("nowhere"),
        "ignored": store.count("ignored"),
        "mature": store.Field(int | None),
        "in_time": store.Field(bool),
        "newest": store.count("newest", -1),
        "by_time": store.Field(bool),
        "arrived": store.count("arrived"),
        "alarmed_at": store.Field(int | None),
        "every": store.count("every", 1),
        "log": store.Field(dict | None),  # what the command line has seen
    },
    {
        "urns": store.Tensor("I64", ("groups", "counts")),
        "capital": store.Tensor("F64", ("capitals", "numbers of a capital")),
        "exponents": store.Tensor("I64", ("capitals",)),
        "peak": store.Tensor("F64", ("once",)),
        "path": store.Tensor("F64", ("points", "numbers of a point")),
        "clock": store.Tensor("F64", ("once",)),
        "waiting_times": store.Tensor("F64", ("rows that wait",)),
        "waiting_numbers": store.Tensor("U64", ("rows that wait",)),
        "waiting_outcomes": store.Tensor("I64", ("rows that wait",)),
        "waiting_groups": store.Tensor("I64", ("rows that wait",)),
    },
    lambda facts, names: {"groups": len(facts["groups"]), **_SIZES},
    _rules,
)
STORE = store.Store({"monitor": _SCHEMA, "error_monitor": _SCHEMA}, "kind of state", "Start a new monitor.")
