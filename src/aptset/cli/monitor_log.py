"""Which rows of a growing file a monitor has seen: digests of its columns, and of the labels that were judged."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aptset import CoverageMonitor
from aptset.arrow.formats import TableFile
from aptset.arrow.sources import as_texts, filled_numbers

_EXACT = 2.0**53  # whole numbers below are the same in every kind of column


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
        digest, wanted = sha256(), set(columns)
        for key in sorted(key for key in self._running if key[0] in wanted):
            digest.update(json.dumps([*key, self._running[key].hexdigest()]).encode())
        return digest.hexdigest()


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
