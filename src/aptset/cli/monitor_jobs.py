"""What ``aptset monitor`` does: look at the outcomes that a file has gained, in the order of prediction.

Which rows of a growing file a monitor has seen is told by digests of its columns, and of the labels that were judged.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aptset import Calibration, CoverageMonitor
from aptset.arrow.formats import TableFile
from aptset.arrow.sources import as_texts, filled_numbers
from aptset.cli.evaluation_jobs import Outcomes, outcomes_of
from aptset.cli.files import about_skipped
from aptset.cli.options import check_mature_text, way_of_dates
from aptset.cli.stores import location_of, refuse_changing_input
from aptset.cli.tables import WAY_OF_DATES
from aptset.core.dates import Way, read_times
from aptset.core.labels import plain_label
from aptset.metrics.evaluation import about_unknown

_EXACT = 2.0**53  # whole numbers below are the same in every kind of column
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
    way_out = "If wrong guesses get their labels sooner than others, use --mature to wait for all labels."
    said = [f"{about_skipped(n_skipped, n_rows + n_skipped)} {way_out}"] if n_skipped else []
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
            for row, text in enumerate(texts.pop(0), start):
                if text is None or not re.fullmatch(r"\d{1,18}", text):
                    what = f"it must hold the number of the prediction, 0, 1, 2, ...; got {text!r}."
                    raise ValueError(f"{path}, row {row}, column {places.order!r}: {what}")
                rows.numbers.append(int(text))
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


def go_on(
    file: TableFile, monitor: CoverageMonitor, state: Path, about: dict[str, Any], is_rotated: bool
) -> tuple[CoverageMonitor, int, dict[str, Any]]:
    """Return the monitor to go on with, how many rows of the file it has seen, and what to note about all of them."""
    filled_in = () if monitor.mature is None else (about["label"],)  # labels that are not known yet
    if not state.exists():
        if is_rotated:
            way_out = "Leave --rotated out for the first log."
            raise FileNotFoundError(f"--rotated needs a state file to go on with; there is no {state}. {way_out}")
        return monitor, 0, {**about, **log_of(file, filled_in=filled_in)[1], "before": 0}
    before = CoverageMonitor.load(state)
    log = check_log(state, before._log)
    then, here = {**before.settings, **{name: log[name] for name in about}}, {**monitor.settings, **about}
    differ = [f"{name} {then[name]!r} there and {here[name]!r} here" for name in here if then[name] != here[name]]
    if differ:
        raise ValueError(
            f"{state} must be the state of a monitor of this calibration: {', '.join(differ)}. Pass the calibration, "
            "--alpha, --alarm, --label and --groups that it was started with, or start again with another "
            "--state."
        )
    seen: int = log["rows"]
    first, now = log_of(file, seen, log["columns"], filled_in)
    now["before"] = log["before"] + (seen if is_rotated else 0)
    if is_rotated and seen and first == log["digest"]:
        raise ValueError(
            f"{file.path} must be a new log, with --rotated; it begins with the {seen:,} rows that the monitor has "
            "seen, which would count twice. Leave --rotated out."
        )
    if seen and not is_rotated:
        _check_begins_with(file, log, first, now)
        if filled_in and labels_of(file, about["label"], _unpacked(log["judged"] or "", seen)) != log["labels"]:
            raise ValueError(  # a row is judged once
                f"{file.path} must keep the labels that the monitor was given; at least one of them was changed or is "
                "gone since the last look. Empty cells may be filled; for corrected labels start again with "
                "another --state."
            )
    return before, 0 if is_rotated else seen, {**about, **now}


def _check_begins_with(file: TableFile, log: dict[str, Any], first: str, now: dict[str, Any]) -> None:
    """Refuse a file that does not begin with the rows that were seen: nobody knows which of its rows are new."""
    if first != log["digest"]:
        seen, missing = log["rows"], [name for name in log["columns"] if name not in now["columns"]]
        what = f"it has {now['rows']:,} rows" if now["rows"] < seen else f"its first {seen:,} rows are others"
        what = f"it lacks their columns {', '.join(map(repr, missing[:6]))}" if missing else what
        raise ValueError(
            f"{file.path} must begin with the {seen:,} rows that the monitor has seen; {what}. If the log was "
            "rotated, and every row in it is new, pass --rotated once. If rows were changed or lost, start "
            "again with another --state."
        )


def log_of(
    file: TableFile, n_first: int = 0, columns: Sequence[str] = (), filled_in: Sequence[str] = ()
) -> tuple[str, dict[str, Any]]:
    """Return a digest of the first rows of a file in some columns (by default all), "" if there are fewer.

    And what is noted about the file: how many rows it has, its columns, and a digest of them. Columns that are
    ``filled_in`` later are no part of it.
    """
    digests, rows, first = _Digests(), 0, ""
    names = [name for name in file.names if name not in filled_in]
    for batch in file.batches(types=dict.fromkeys(file.names, pa.binary())):  # as written, in whatever alphabet
        stop = n_first - rows
        if 0 <= stop < batch.num_rows:
            digests.add(batch.slice(0, stop))
            first = digests.of(columns or names)
            batch, rows = batch.slice(stop), n_first
        digests.add(batch)
        rows += batch.num_rows
    first = digests.of(columns or names) if rows == n_first else first
    return first, {"rows": rows, "columns": sorted(names), "digest": digests.of(names)}


def labels_of(file: TableFile, label: str, judged: NDArray[np.bool_]) -> str:
    """Return a digest of the labels of the rows that were given to be judged: they may not change any more."""
    digests, rows, names = _Digests(), 0, file.names
    for batch in file.batches(types=dict.fromkeys(names, pa.binary())) if label in names else ():
        of_batch = judged[rows : rows + batch.num_rows]
        kept = batch.slice(0, len(of_batch)).column(names.index(label)).filter(pa.array(of_batch))
        digests.add(pa.RecordBatch.from_arrays([kept], names=[label]))
        rows += batch.num_rows
    return digests.of([label])


def packed(flags: NDArray[np.bool_]) -> str:
    """Return flags as a text that is short where neighbours are alike."""
    return b64encode(zlib.compress(np.packbits(flags).tobytes())).decode()


def _unpacked(text: str, n_rows: int) -> NDArray[np.bool_]:
    """Return the flags of some rows; a text that holds others leaves them out, and the digest tells."""
    try:
        content = zlib.decompressobj().decompress(b64decode(text), n_rows // 8 + 1)
    except (ValueError, zlib.error):
        content = b""
    return np.unpackbits(np.frombuffer(content, dtype=np.uint8))[:n_rows].astype(np.bool_)


class _Digests:
    """Running digests of columns: of the lengths of cells, and of their letters; how rows come in batches is no matter.

    Values are hashed as texts, whole numbers without a point: a column that becomes one of floats, since a later row is
    missing, still holds the same numbers.
    """

    def __init__(self) -> None:
        self._running: defaultdict[tuple[str, ...], Any] = defaultdict(sha256)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in some rows."""
        for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            twin = str(batch.schema.names[:number].count(name))
            self._add((name, twin), column)

    def _add(self, key: tuple[str, ...], column: Any) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        holds_lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        texts = None if holds_lists else _as_binary(column)
        lengths = pc.list_value_length(column) if holds_lists else pc.binary_length(texts)
        running = self._running[(*key, "lists" if holds_lists else "lengths")]
        running.update(filled_numbers(lengths, -1).astype(np.int64).tobytes())
        if holds_lists:
            self._add((*key, "items"), pc.list_flatten(column))
            return
        running, filled = self._running[(*key, "letters")], pc.fill_null(texts, b"")
        _, ends, letters = filled.buffers()
        if len(filled) and letters is not None:
            first, last = np.frombuffer(ends, dtype=np.int64)[[filled.offset, filled.offset + len(filled)]]
            running.update(memoryview(letters)[first:last])

    def of(self, columns: Sequence[str]) -> str:
        """Return one digest of what came in these columns."""
        digest, wanted = sha256(), set(columns)
        for key in sorted(key for key in self._running if key[0] in wanted):
            digest.update(json.dumps([*key, self._running[key].hexdigest()]).encode())
        return digest.hexdigest()


def _as_binary(column: Any) -> Any:
    """Return values as texts, in bytes."""
    if pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64())
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
        is_whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), _EXACT))
        whole = pc.if_else(is_whole, numbers, None).cast(pa.int64()).cast(pa.large_string())
        column = pc.coalesce(whole, numbers.cast(pa.large_string()))
    if pa.types.is_binary(column.type):
        return column.cast(pa.large_binary())
    try:
        texts = column.cast(pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # records, for instance
        texts = pa.array(as_texts(column), pa.large_string())
    return texts.cast(pa.large_binary())


def check_log(path: Path, log: Any) -> dict[str, Any]:
    """Return what a state says about the rows it has seen."""
    kinds = {"rows": int, "columns": list, "digest": str, "calibration": str, "label": str, "groups": str | None}
    kinds |= {"before": int, "order": str | None, "time": str | None, "judged": str | None, "labels": str | None}
    is_log = isinstance(log, dict) and all(isinstance(log.get(name), kind) for name, kind in kinds.items())
    if not is_log or min(log["rows"], log["before"]) < 0:
        raise ValueError(
            f"{path} does not say which rows it has seen: it was saved in Python or by an older version, or "
            "it is damaged. Start again with another --state."
        )
    return {**dict.fromkeys(kinds), **log}
