"""What ``aptset monitor`` does: look at the outcomes that a file has gained, and keep what was learned beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aptset.commands.checks import (
    check_mature_text,
    check_numbers_column,
    check_same_monitor,
    check_still_there,
    check_times_column,
    check_which_order,
)
from aptset.commands.evaluation_jobs import Outcomes, outcomes_of
from aptset.judging.monitors.coverage import CoverageMonitor
from aptset.probabilities.calibration import Calibration


class Places(NamedTuple):
    """The columns that say which prediction a row is, and how long a label is waited for."""

    order: str | None = None
    time: str | None = None
    mature: int | timedelta | None = None

    @classmethod
    def of(cls, order: str | None, time: str | None, mature: str | None) -> Places:
        """Return what the options say."""
        checked = None if mature is None else check_mature_text(mature)
        check_which_order(order, time, checked)
        return cls(order, time, checked)


def monitor_file(
    path: Path,
    label: str,
    calibration: Calibration,
    alpha: float,
    group: str | None,
    alarm: float,
    state: Path | None,
    progress: bool,
    places: Places,
) -> CoverageMonitor:
    """Take in the rows that were not seen before, in the order of prediction; what is in ``state`` was."""
    monitor = calibration.monitor(alpha, alarm, mature=places.mature)
    if state is not None and state.exists():
        before = CoverageMonitor.load(state)
        check_same_monitor(state, before.settings, monitor.settings)
        monitor = before
    known = calibration.held_out.groups
    bands = [known.names[band] for band in known.bands or ()]
    band_of = dict(zip(map(str, calibration.classes.tolist() if bands else ()), bands, strict=True))

    def named(rows: Outcomes) -> list[Any] | None:
        groups = rows.groups if known.kind in ("all", "row") else rows.truth
        names = None if groups is None else [groups.names[code] for code in groups.of_rows.tolist()]
        return [band_of.get(str(name), name) for name in names] if names and band_of else names

    columns = [name for name in (places.order, places.time) if name is not None]
    way_out = " If it is not known yet, --mature says how long it is waited for."
    parts = outcomes_of(path, (), label, alpha, group, progress, columns, places.mature is not None, way_out)
    waiting: dict[str, Any] = {}
    if places.mature is None:
        _take_in(path, monitor, parts, named)
    else:
        rows = _all_rows(path, parts, named, places)
        if places.order is None and places.time is None:
            check_still_there(path, len(rows.covered), monitor.settled)
        waiting = _take_in_any_order(monitor, rows, places)
    if state is not None:
        monitor.save(state)
    return monitor.update(**waiting) if waiting else monitor


def _take_in(
    path: Path, monitor: CoverageMonitor, parts: Iterable[Outcomes], named: Callable[[Outcomes], list[Any] | None]
) -> None:
    """Take in the rows behind those that were seen, every one with its label."""
    seen, start = monitor.rows, 0
    for rows in parts:
        new = slice(max(0, seen - start), None)
        names = named(rows)
        monitor.update(rows.covered[new], None if names is None else names[new])
        start += len(rows.covered)
    check_still_there(path, start, seen)


class _Rows(NamedTuple):
    """All rows of a file: what became of each (None: not known yet), its group, and which prediction it is."""

    covered: list[bool | None]
    groups: list[Any]
    numbers: list[int]
    times: list[float]


def _all_rows(
    path: Path, parts: Iterable[Outcomes], named: Callable[[Outcomes], list[Any] | None], places: Places
) -> _Rows:
    rows = _Rows([], [], [], [])
    for part in parts:
        start, texts = len(rows.covered), list(part.others)
        nobody = part.truth.names.index(None)
        flags = zip(part.covered.tolist(), part.truth.of_rows.tolist(), strict=True)
        rows.covered.extend(None if label == nobody else flag for flag, label in flags)
        rows.groups.extend(named(part) or ())
        if places.order is None:
            rows.numbers.extend(range(start, len(rows.covered)))
        else:
            rows.numbers.extend(check_numbers_column(path, places.order, texts.pop(0), start))
        if places.time is not None:
            rows.times.extend(check_times_column(path, places.time, texts.pop(0), start))
    return rows


def _take_in_any_order(monitor: CoverageMonitor, rows: _Rows, places: Places) -> dict[str, Any]:
    """Take in rows by their numbers or times, those without a label too; return what is still to be given.

    The file still holds the rows that were settled at an earlier look: labels of more rows than were judged then have
    come too late. By time alone a row is given when it is mature, and waits in the file until then: nothing would tell
    it from others of its time when it comes again.
    """
    everything, by_time = list(range(len(rows.covered))), places.order is None and bool(rows.times)
    newest = max(rows.times, default=None)
    over = (
        newest - places.mature.total_seconds() if newest is not None and isinstance(places.mature, timedelta) else 0.0
    )
    mature = [row for row in everything if not by_time or rows.times[row] <= over]
    judged, ignored = monitor.rows, monitor.ignored
    monitor.update(**_as_given(rows, mature, by_time), now=newest)
    monitor.ignored = max(ignored, monitor.ignored - ignored - judged)
    return _as_given(rows, sorted(set(everything) - set(mature)), by_time)


def _as_given(rows: _Rows, kept: list[int], by_time: bool) -> dict[str, Any]:
    """Return what a monitor takes of some rows."""
    return {
        "covered": np.array([rows.covered[row] for row in kept], dtype=object),
        "groups": [rows.groups[row] for row in kept] if rows.groups else None,
        "order": None if by_time else [rows.numbers[row] for row in kept],
        "time": [rows.times[row] for row in kept] if rows.times else None,
    }
