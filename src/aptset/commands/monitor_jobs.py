"""What ``aptset monitor`` does: look at the outcomes that a file has gained, and keep what was learned beside it.

The state holds a digest of the rows that were seen, in every column: only a file that begins with them may go on.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aptset.batches.arrow_arrays import filled_numbers
from aptset.commands.checks import (
    check_begins_with,
    check_is_rotated,
    check_log,
    check_rotated_state,
    check_same_monitor,
)
from aptset.commands.evaluation_jobs import outcomes_of
from aptset.commands.parts.checks import refuse_changing_input
from aptset.commands.parts.stores import place_of
from aptset.commands.reading import arrow_batches, as_texts, csv_batches, kind_of, names_of, only_empty_is_missing
from aptset.judging.monitors.coverage import CoverageMonitor
from aptset.judging.running_sums import Codes
from aptset.probabilities.calibration import Calibration
from aptset.running.path_checks import as_utf8
from aptset.running.writing import atomic_write

_EXACT = 2.0**53  # whole numbers below are the same in every kind of column


def monitor_file(
    path: Path,
    label: str,
    calibration: Calibration,
    alpha: float,
    group: str | None,
    alarm: float,
    state: Path | None,
    progress: bool,
    digest: str = "",
    is_rotated: bool = False,
) -> CoverageMonitor:
    """Take in the rows that were not seen before, in their order; what is in ``state`` was.

    ``digest`` is that of the calibration. Where the log ``is_rotated``, all rows of the file are new.
    """
    monitor, seen, version = calibration.monitor(alpha, alarm), 0, place_of(str(path)).version()
    log: dict[str, Any] = {}
    if state is not None:
        about = {"calibration": digest, "label": label, "groups": group}
        monitor, seen, log = _go_on(path, monitor, state, about, is_rotated)
    known = calibration.held_out.groups
    bands = [known.names[band] for band in known.bands or ()]
    band_of = dict(zip(map(str, calibration.classes.tolist() if bands else ()), bands, strict=True))
    start = 0
    for some in outcomes_of(path, (), label, alpha, group, progress):
        new = slice(max(0, seen - start), None)
        groups = some.groups if known.kind in ("all", "row") else some.truth
        names = None if groups is None else _in_full(groups)[new]
        monitor.update(some.covered[new], [band_of.get(str(name), name) for name in names or ()] if band_of else names)
        start += len(some.covered)
    if state is not None:
        if place_of(str(path)).version() != version:
            refuse_changing_input(str(path))
        with atomic_write(state) as file:
            file.write(json.dumps({**monitor._as_json(), "log": log}).encode())
    return monitor


def _go_on(
    path: Path, monitor: CoverageMonitor, state: Path, about: dict[str, Any], is_rotated: bool
) -> tuple[CoverageMonitor, int, dict[str, Any]]:
    """Return the monitor to go on with, how many rows of the file it has seen, and what to note about all of them."""
    if not state.exists():
        check_rotated_state(state, not is_rotated)
        return monitor, 0, {**about, **log_of(path)[1]}
    before = CoverageMonitor.load(state)
    log = check_log(state, json.loads(state.read_bytes()).get("log"))
    check_same_monitor(state, {**before.settings, **{name: log[name] for name in about}}, {**monitor.settings, **about})
    seen: int = log["rows"]
    first, now = log_of(path, seen, log["columns"])
    if is_rotated:
        check_is_rotated(path, seen, seen == 0 or first != log["digest"])
        seen = 0
    elif seen:
        missing = [name for name in log["columns"] if name not in now["columns"]]
        check_begins_with(path, seen, now["rows"], first == log["digest"], missing)
    return before, seen, {**about, **now}


def log_of(path: Path, n_first: int = 0, columns: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """Return a digest of the first rows of a file in some columns (by default all), "" if there are fewer.

    And what is noted about the file: how many rows it has, its columns, and a digest of them.
    """
    digests, rows, first = _Digests(), 0, ""
    names = names_of(path)
    for batch in _batches(path, names):
        stop = n_first - rows
        if 0 <= stop < batch.num_rows:
            digests.add(batch.slice(0, stop))
            first = digests.of(columns or names)
            batch, rows = batch.slice(stop), n_first
        digests.add(batch)
        rows += batch.num_rows
    first = digests.of(columns or names) if rows == n_first else first
    return first, {"rows": rows, "columns": sorted(names), "digest": digests.of(names)}


def _batches(path: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield all columns; the cells of a CSV as they are written, in whatever alphabet."""
    if kind_of(path) == "csv":
        yield from csv_batches(path, only_empty_is_missing(dict.fromkeys(names, pa.binary())))
    elif kind_of(path) == "arrow":
        yield from arrow_batches(path)
    else:
        file = pq.ParquetFile(as_utf8(path), pre_buffer=False)
        for group in range(file.num_row_groups):
            yield from file.iter_batches(65_536, row_groups=[group])


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
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            self._running[(*key, "lists")].update(_as_bytes(pc.list_value_length(column)))
            self._add((*key, "items"), pc.list_flatten(column))
            return
        texts = _as_binary(column)
        self._running[(*key, "lengths")].update(_as_bytes(pc.binary_length(texts)))
        running, filled = self._running[(*key, "letters")], pc.fill_null(texts, b"")
        _, ends, letters = filled.buffers()
        if len(filled) and letters is not None:
            first, last = np.frombuffer(ends, dtype=np.int64)[[filled.offset, filled.offset + len(filled)]]
            running.update(memoryview(letters)[first:last])

    def of(self, columns: Sequence[str]) -> str:
        """Return one digest of what came in these columns."""
        found, wanted = sha256(), set(columns)
        for key in sorted(key for key in self._running if key[0] in wanted):
            found.update(json.dumps([*key, self._running[key].hexdigest()]).encode())
        return found.hexdigest()


def _as_bytes(lengths: Any) -> bytes:
    return filled_numbers(lengths, -1).astype(np.int64).tobytes()


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


def _in_full(codes: Codes) -> list[Any]:
    return [codes.names[code] for code in codes.of_rows.tolist()]
