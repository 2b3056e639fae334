"""What ``aptset monitor`` does: look at the outcomes that a file has gained, in the order of prediction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from aptset import Calibration, CoverageMonitor
from aptset.arrow.formats import TableFile
from aptset.cli.evaluation_jobs import Outcomes, outcomes_of
from aptset.cli.files import about_skipped
from aptset.cli.monitor_log import go_on, labels_of, packed
from aptset.cli.options import check_mature_text, way_of_dates
from aptset.cli.stores import location_of, refuse_changing_input
from aptset.cli.tables import WAY_OF_DATES
from aptset.core.dates import Way, read_times
from aptset.core.labels import plain_label
from aptset.metrics.evaluation import about_unknown

_Grouped = tuple[Outcomes, list[Any] | None]  # some rows, and the group of each


class PredictionOrder(NamedTuple):
    """The columns that say which prediction a row is, and how long a label is waited for."""

    order: str | None = None
    time: str | None = None
    mature: int | timedelta | None = None
    dates: Way | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> PredictionOrder:
        """Return what the options say; refuse times without a time to wait for, and the other way round."""
        order, time = options["order"], options["time"]
        mature = None if options["mature"] is None else check_mature_text(options["mature"])
        if (time is None) == isinstance(mature, timedelta):
            got = f"--time {time} with --mature {mature}" if time is not None else f"--mature {mature} without --time"
            raise ValueError(
                "--time COLUMN and a time to wait for (--mature 30d) must come together: rows are then judged in the "
                f"order of that column, 30 days later; got {got}. Without times pass --order COLUMN, or a file whose "
                "rows stand in the order of prediction, and --mature 500."
            )
        if order is not None and mature is None:
            raise ValueError(
                f"--order {order} must come with --mature, which says how long a missing label is waited for: a "
                "number of predictions (500), or a time (30d, with --time)."
            )
        return cls(order, time, mature, cast(Way | None, way_of_dates(options)))


def monitor_file(
    file: TableFile,
    label: str,
    calibration: Calibration,
    alpha: float,
    digest: str,
    state: Path | None,
    progress: bool,
    options: Mapping[str, Any],
) -> tuple[CoverageMonitor, list[str]]:
    """Take in the rows that were not seen before, in the order of prediction; what is in ``state`` was.

    ``digest`` is that of the calibration. Where the log was rotated, all rows of the file are new. The notes that come
    beside the monitor say how the file was read.
    """
    places, group = PredictionOrder.of(options), options["groups"]
    path, version = file.path, location_of(str(file.path)).version()
    monitor = calibration.monitor(alpha, options["alarm"], mature=places.mature)
    seen, log = 0, dict[str, Any](before=0)
    if state is not None:
        about = {"calibration": digest, "label": label, "groups": group, "order": places.order, "time": places.time}
        monitor, seen, log = go_on(file, monitor, state, about, options["rotated"])
    columns = [name for name in (places.order, places.time) if name is not None]
    way_out = " Pass --mature to wait for labels that are not known yet, or --skip-unlabelled to leave such rows out."
    skipped, labels = list[int]() if options["skip_unlabelled"] else None, Counter[Any]()
    may_lack = places.mature is not None
    outcomes = outcomes_of(file, label, alpha, group, progress, columns, may_lack, way_out, skipped)
    parts = _with_groups(outcomes, _names_of_groups(calibration), labels)
    waiting, notes = dict[str, Any](), list[str]()
    if places.mature is None:
        _take_in(monitor, parts, seen)
    else:
        rows = _all_rows(path, parts, places, log["before"])
        waiting, judged = _take_in_any_order(monitor, rows, places)
        notes += [f"Column {places.time!r} was read as {rows.read}."] if rows.read else []
        log |= {"judged": packed(judged), "labels": labels_of(file, label, judged)} if state is not None else {}
    notes += _about_labels(labels, calibration.classes.tolist(), skipped)
    if state is not None:
        if location_of(str(path)).version() != version:
            refuse_changing_input(str(path))
        monitor._log = log
        monitor.save(state)
    return monitor.update(**waiting) if waiting else monitor, notes


def _with_groups(
    parts: Iterable[Outcomes], named: Callable[[Outcomes], list[Any] | None], labels: Counter[Any]
) -> Iterator[_Grouped]:
    """Yield rows with the names of their groups, and count their labels as they go by."""
    for part in parts:
        times = np.bincount(part.truth.of_rows, minlength=len(part.truth.names)).tolist()
        labels.update({name: count for name, count in zip(part.truth.names, times, strict=True) if count})
        yield part, named(part)


def _about_labels(labels: Counter[Any], classes: Sequence[Any], skipped: list[int] | None) -> list[str]:
    """Say how many rows have no label, and how many have one that the model does not know."""
    known, n_rows, n_skipped = {plain_label(str(one)) for one in classes}, sum(labels.values()), sum(skipped or [])
    said = list[str]()
    if n_skipped:
        way_out = "If wrong guesses get their labels sooner than others, use --mature to wait for all labels."
        said = [f"{about_skipped(n_skipped, n_rows + n_skipped)} {way_out}"]
    return [*said, *about_unknown({label: n for label, n in labels.items() if label is not None}, known)]


def _names_of_groups(calibration: Calibration) -> Callable[[Outcomes], list[Any] | None]:
    """Return what names the group of each row: its own, its label, or the band of that."""
    known = calibration.held_out.groups
    if known.by_both:
        raise ValueError(
            "`aptset monitor` can watch groups of rows or labels, and this calibration has groups of both at "
            "once. Use calibration.monitor() in Python, with pairs of group and label as groups."
        )
    bands = [known.names[band] for band in known.bands or ()]
    of_text = {plain_label(str(name)): name for name in known.names}
    band_of = dict(zip(map(str, calibration.classes.tolist() if bands else ()), bands, strict=True))

    def named(rows: Outcomes) -> list[Any] | None:
        groups = rows.groups if not known.by_label else rows.truth
        names = None if groups is None else [groups.names[code] for code in groups.of_rows.tolist()]
        if names and known.kind == "label":  # which may be numbers, and are texts in a file
            names = [of_text.get(name, name) for name in names]
        return [band_of.get(str(name), name) for name in names] if names and band_of else names

    return named


def _take_in(monitor: CoverageMonitor, parts: Iterable[_Grouped], seen: int) -> None:
    """Take in the rows behind those that were seen, every one with its label."""
    start = 0
    for rows, names in parts:
        new = slice(max(0, seen - start), None)
        monitor.update(rows.covered[new], None if names is None else names[new])
        start += len(rows.covered)


class _Rows(NamedTuple):
    """All rows of a file: what became of each (None: not known yet), its group, and which prediction it is."""

    covered: list[bool | None]
    groups: list[Any]
    numbers: list[int]
    times: list[float]
    read: str  # how the times were read, in words


def _all_rows(path: Path, parts: Iterable[_Grouped], places: PredictionOrder, before: int) -> _Rows:
    rows, moments = _Rows([], [], [], [], ""), list[str | None]()
    for part, names in parts:
        start, texts = len(rows.covered), list(part.others)
        unknown = part.truth.names.index(None)
        flags = zip(part.covered.tolist(), part.truth.of_rows.tolist(), strict=True)
        rows.covered.extend(None if label == unknown else flag for flag, label in flags)
        rows.groups.extend(names or ())
        if places.order is None:
            rows.numbers.extend(range(before + start, before + len(rows.covered)))
        else:
            rows.numbers.extend(check_numbers_column(path, places.order, texts.pop(0), start))
        if places.time is not None:
            moments.extend(texts.pop(0))
    if places.time is None:
        return rows
    # Of all rows at once: a row that decides whether day or month is first may be the last one.
    times = read_times(moments, f"{path}, column {places.time!r}", places.dates, WAY_OF_DATES)
    return rows._replace(times=[float(key) for key in times.keys], read=times.words())


def _take_in_any_order(
    monitor: CoverageMonitor, rows: _Rows, places: PredictionOrder
) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Take in rows by their numbers or times, those without a label too.

    Return what is still to be given, and which rows were given with a label.

    The file still holds the rows that were settled at an earlier look: labels of more rows than were judged then have
    come too late. By time alone a row is given when it is mature, and waits in the file until then: nothing would tell
    it from others of its time when it comes again.
    """
    everything, by_time = list(range(len(rows.covered))), places.order is None and bool(rows.times)
    newest, over = max(rows.times, default=None), 0.0
    if newest is not None and isinstance(places.mature, timedelta):
        over = newest - places.mature.total_seconds()
    mature = [row for row in everything if not by_time or rows.times[row] <= over]
    judged, ignored = monitor.rows, monitor.ignored
    monitor.update(**_as_given(rows, mature, by_time), now=newest)
    monitor.ignored = max(ignored, monitor.ignored - ignored - judged)
    is_judged = np.zeros(len(everything), dtype=np.bool_)
    is_judged[mature] = [rows.covered[row] is not None for row in mature]
    return _as_given(rows, sorted(set(everything) - set(mature)), by_time), is_judged


def _as_given(rows: _Rows, kept: list[int], by_time: bool) -> dict[str, Any]:
    """Return what a monitor takes of some rows."""
    return {
        "covered": np.array([rows.covered[row] for row in kept], dtype=object),
        "groups": [rows.groups[row] for row in kept] if rows.groups else None,
        "order": None if by_time else [rows.numbers[row] for row in kept],
        "time": [rows.times[row] for row in kept] if rows.times else None,
    }


def check_numbers_column(path: Path, column: str, texts: list[str | None], start: int) -> list[int]:
    """Return the numbers of predictions."""
    for row, text in enumerate(texts):
        if text is None or not re.fullmatch(r"\d{1,18}", text):
            raise ValueError(
                f"{path}, row {start + row}, column {column!r}: it must hold the number of the prediction, 0, 1, 2, "
                f"...; got {text!r}."
            )
    return [int(text or 0) for text in texts]
