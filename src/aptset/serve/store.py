"""What was asked and what turned out true, in one SQLite file that all workers share.

A request is recorded before it is answered, and its rows are numbered in the order of asking. Feedback is acknowledged
when it is on disk (write-ahead log, synchronous=FULL), so that neither a kill nor a power cut loses it. The monitors
are functions of this log alone (:mod:`aptset.serve.monitors`): a restart forgets nothing, and workers agree.

A request is one row of the table ``requests``, with the answers to all of its rows in one value. Ids of clients stand
in a table of their own; those that the service makes are the token of the request and the number of the row in it.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import orjson

from aptset.core.labels import plain_label

FORMAT = 2
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS models (
    model INTEGER PRIMARY KEY, name TEXT UNIQUE, asked INTEGER DEFAULT 0, acted INTEGER DEFAULT 0,
    newest REAL DEFAULT 0, classes TEXT);
CREATE TABLE IF NOT EXISTS requests (
    request INTEGER PRIMARY KEY, token TEXT UNIQUE, model INTEGER, number INTEGER, acted INTEGER, time REAL,
    answers BLOB, ends BLOB, judged BLOB, are_acted BLOB, row_groups BLOB);
CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY, request INTEGER, row INTEGER, digest TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feedback (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, label TEXT, model INTEGER, number INTEGER, acted INTEGER,
    asked REAL, row_group TEXT, covered INTEGER, wrong INTEGER, time REAL, in_time INTEGER);
CREATE INDEX IF NOT EXISTS feedback_of_model ON feedback (model, seq);
CREATE TABLE IF NOT EXISTS counters (run TEXT, worker TEXT, content TEXT, PRIMARY KEY (run, worker));
"""
_MADE_BY_SERVICE = re.compile(r"([0-9a-f]{32})-([0-9]{1,9})")
_AT_ONCE = 500  # ids in one question
_FORGOTTEN_AT_ONCE = 200  # requests
_LONG_LOG = 4000  # pages of 4 kB
_PATIENCE = 10.0  # seconds that a writer waits for another one


class UnknownIdError(LookupError):
    """Feedback about a row that was never asked."""


class ConflictError(ValueError):
    """An id that says one thing now, and said another before."""


class AskedRows(NamedTuple):
    """Rows of a request to be recorded: their answers, and where there are such, their sets at the level of the
    monitor, whether their guesses are acted on, and their groups. ``ids`` are those of the client, with the digests of
    their rows.
    """

    token: str
    ids: list[str | None]
    digests: list[str]
    answers: list[bytes]
    judged: list[list[Any]] | None
    acted: list[bool] | None
    row_groups: list[str] | None


class StoredRow(NamedTuple):
    """A row that was recorded."""

    model: int
    number: int
    acted: int | None
    time: float
    row_group: str | None
    answer: bytes
    judged: list[Any] | None


class Labelled(NamedTuple):
    """A label that became known: of which prediction, and what it says about the set and the guess."""

    seq: int
    number: int
    acted: int | None
    asked: float
    row_group: str | None
    label: Any
    covered: bool
    wrong: bool


class _Connection:
    """A connection that one thread uses at a time."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._lock = Lock()
        self.sqlite = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        self.sqlite.execute("PRAGMA journal_mode=WAL")
        self.sqlite.execute(f"PRAGMA synchronous={synchronous}")
        self.sqlite.execute("PRAGMA wal_autocheckpoint=0")  # a request must not pay for it: see `tidy`

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to one thread."""
        with self._lock:
            yield self.sqlite

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write all that is inside, or nothing."""
        with self._lock:
            self.sqlite.execute("BEGIN IMMEDIATE")
            try:
                yield self.sqlite
            except BaseException:
                self.sqlite.execute("ROLLBACK")
                raise
            self.sqlite.execute("COMMIT")


class _StoredRows:
    """The recorded rows by their ids, as long as a connection is held; requests that were read last are kept."""

    def __init__(self, sqlite: sqlite3.Connection) -> None:
        self._sqlite, self._request = sqlite, lru_cache(maxsize=16)(self._read)

    def _read(self, column: str, value: Any) -> Any:
        return self._sqlite.execute(
            "SELECT model, number, acted, time, answers, ends, judged, are_acted, row_groups FROM requests "
            f"WHERE {column} = ?",
            (value,),
        ).fetchone()

    def by_id(self, id_: str) -> StoredRow | None:
        """Return the row of an id, if it was asked."""
        place = self._sqlite.execute("SELECT request, row FROM ids WHERE id = ?", (id_,)).fetchone()
        if place is not None:
            return self.at("request", *place)
        made = _MADE_BY_SERVICE.fullmatch(id_)
        row = None if made is None else self.at("token", made[1], int(made[2]))
        return row if row is not None and orjson.loads(row.answer)["id"] == id_ else None

    def at(self, column: str, value: Any, row: int) -> StoredRow | None:
        """Return a row of the request that a column tells."""
        request = self._request(column, value)
        if request is None or row >= len(request[5]) // 4:
            return None
        model, number, acted, asked, answers, ends, judged, are_acted, row_groups = request
        start, stop = np.frombuffer(ends, "<u4", 2, 4 * row - 4).tolist() if row else (0, np.frombuffer(ends, "<u4")[0])
        of_acted = acted + sum(are_acted[:row]) if are_acted is not None and are_acted[row] else None
        group, of_judge = (None if part is None else orjson.loads(part)[row] for part in (row_groups, judged))
        return StoredRow(model, number + row, of_acted, asked, group, answers[start:stop], of_judge)


class FeedbackStore:
    """The rows that were asked, their labels, and the counters of all workers.

    Parameters
    ----------
    path : path
        The SQLite file, made if it is not there.
    mature : int, timedelta or None
        How long a label is waited for: fixed when the file is made.
    """

    def __init__(self, path: Path, mature: int | timedelta | None) -> None:
        self.path, self.mature = path, mature
        try:
            self._asks, self._labels = _Connection(path, "NORMAL"), _Connection(path, "FULL")
            self._reads = _Connection(path, "NORMAL")
            with self._labels.reading() as sqlite:
                sqlite.executescript(_SCHEMA)
            self._check_facts()
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"--feedback {path} must be a SQLite file of this service that can be written; {error}. Name another "
                "file."
            ) from error

    def _check_facts(self) -> None:
        """Note how long labels are waited for, or refuse a file that was begun in another way."""
        mature = self.mature.total_seconds() if isinstance(self.mature, timedelta) else self.mature
        wanted = {"format": FORMAT, "mature": mature, "in_time": isinstance(self.mature, timedelta)}
        with self._labels.writing() as sqlite:
            sqlite.executemany(
                "INSERT OR IGNORE INTO facts VALUES (?, ?)", [(name, json.dumps(one)) for name, one in wanted.items()]
            )
            facts = {name: json.loads(value) for name, value in sqlite.execute("SELECT name, value FROM facts")}
        if facts["format"] != FORMAT:
            raise ValueError(
                f"--feedback {self.path} was written by another version of aptset. Use that one, or name another file."
            )
        if facts != wanted:
            unit = " seconds" if facts["in_time"] else " predictions"
            before = "for ever" if facts["mature"] is None else f"{facts['mature']:g}{unit}"
            raise ValueError(
                f"--mature must stay what it was when {self.path} was begun, which waits {before} for a label: rows "
                "would be chosen by their outcome otherwise. Pass the same, or begin a new file with --feedback."
            )

    def number_of(self, name: str, classes: Sequence[Any]) -> int:
        """Return the number of a model, which is noted when it is new."""
        with self._labels.writing() as sqlite:
            texts = json.dumps([str(label) for label in classes])
            sqlite.execute("INSERT OR IGNORE INTO models (name, classes) VALUES (?, ?)", (name, texts))
            ((number,),) = sqlite.execute("SELECT model FROM models WHERE name = ?", (name,)).fetchall()
        return int(number)

    def known(self, ids: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        """Return the digest of the row and the answer for those of the ids that were asked before."""
        with self._reads.reading() as sqlite:
            rows, known = _StoredRows(sqlite), dict[str, tuple[str, bytes]]()
            for id_, request, row, digest in _places(sqlite, ids):
                stored = rows.at("request", request, row)
                assert stored is not None
                known[id_] = digest, stored.answer
            for id_ in filter(_MADE_BY_SERVICE.fullmatch, ids):
                if id_ not in known and (made := rows.by_id(id_)) is not None:
                    known[id_] = "", made.answer
        return known

    def record(self, model: int, rows: AskedRows) -> bool:
        """Record rows in the order of asking; return False, and record nothing, if one of the ids is known."""
        ids = [(id_, row, rows.digests[row]) for row, id_ in enumerate(rows.ids) if id_ is not None]
        n_rows, n_acted = len(rows.answers), sum(rows.acted or [])
        ends = np.cumsum([len(answer) for answer in rows.answers]).astype("<u4").tobytes()
        judged, groups = (None if part is None else orjson.dumps(part) for part in (rows.judged, rows.row_groups))
        are_acted = None if rows.acted is None else bytes(rows.acted)
        with self._asks.writing() as sqlite:
            if ids and _places(sqlite, [id_ for id_, _, _ in ids]):
                return False
            counted = "UPDATE models SET asked = asked + ?, acted = acted + ?, newest = max(newest, ?) WHERE model = ?"
            ((asked, acted, now),) = sqlite.execute(
                f"{counted} RETURNING asked, acted, newest", (n_rows, n_acted, time.time(), model)
            ).fetchall()
            first = (rows.token, model, asked - n_rows, acted - n_acted, now)
            request = sqlite.execute(
                "INSERT INTO requests (token, model, number, acted, time, answers, ends, judged, are_acted, "
                "row_groups) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*first, b"".join(rows.answers), ends, judged, are_acted, groups),
            ).lastrowid
            if ids:
                of_request = [(id_, request, row, digest) for id_, row, digest in ids]
                sqlite.executemany("INSERT INTO ids VALUES (?, ?, ?, ?)", of_request)
        return True

    def learn(self, labels: Sequence[tuple[str, Any]]) -> tuple[int, int, list[Any]]:
        """Keep labels by their ids, all or none; return how many are new, how many repeated, and unknown labels."""
        accepted, unknown = 0, list[Any]()
        with self._labels.writing() as sqlite:
            rows, model_of = _StoredRows(sqlite), lru_cache(maxsize=None)(lambda model: _model(sqlite, model))
            for id_, label in labels:
                row = rows.by_id(id_)
                if row is None:
                    raise UnknownIdError(f"id {id_!r} was never asked here. Send feedback with the id of an answer.")
                if _is_repeated(sqlite, id_, label):
                    continue
                text, accepted = plain_label(str(label)), accepted + 1
                n_asked, classes = model_of(row.model)
                if text not in classes:
                    unknown.append(label)
                of_row = (row.model, row.number, row.acted, row.time, row.row_group)
                sqlite.execute(
                    "INSERT INTO feedback (id, label, model, number, acted, asked, row_group, covered, wrong, time, "
                    "in_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (id_, json.dumps(label), *of_row, *_outcome(row, text), *self._moment(row, n_asked)),
                )
        return accepted, len(labels) - accepted, unknown

    def _moment(self, row: StoredRow, n_asked: int) -> tuple[float, bool]:
        """Return the time, and whether the label of a row comes before it is given up."""
        now = time.time()
        if isinstance(self.mature, timedelta):
            return now, now - row.time < self.mature.total_seconds()
        return now, self.mature is None or n_asked - 1 - row.number < self.mature

    def labels_after(self, model: int, seq: int, n_rows: int) -> list[Labelled]:
        """Return the next labels of a model that came in time, in the order in which they came."""
        with self._reads.reading() as sqlite:
            rows = sqlite.execute(
                "SELECT seq, number, acted, asked, row_group, label, covered, wrong FROM feedback "
                "WHERE model = ? AND seq > ? AND in_time ORDER BY seq LIMIT ?",
                (model, seq, n_rows),
            ).fetchall()
        return [Labelled(*row[:5], json.loads(row[5]), *map(bool, row[6:])) for row in rows]  # type: ignore[call-arg]

    def counts(self, model: int) -> dict[str, int]:
        """Return how many rows of a model were asked and acted on, and how many labels came, in time or not."""
        with self._reads.reading() as sqlite:
            ((asked, acted),) = sqlite.execute("SELECT asked, acted FROM models WHERE model = ?", (model,)).fetchall()
            ((labels, in_time),) = sqlite.execute(
                "SELECT count(*), coalesce(sum(in_time), 0) FROM feedback WHERE model = ?", (model,)
            ).fetchall()
        return {"asked": asked, "acted": acted, "labels": labels, "too_old": labels - in_time}

    def write_counters(self, run: str, worker: str, content: dict[str, float]) -> None:
        """Keep what a worker has counted; those of earlier runs go."""
        with self._asks.writing() as sqlite:
            sqlite.execute("DELETE FROM counters WHERE run != ?", (run,))
            sqlite.execute(
                "INSERT OR REPLACE INTO counters VALUES (?, ?, ?)", (run, worker, orjson.dumps(content).decode())
            )

    def read_counters(self, run: str) -> list[dict[str, float]]:
        """Return what every worker of a run has counted."""
        with self._reads.reading() as sqlite:
            rows = sqlite.execute("SELECT content FROM counters WHERE run = ?", (run,)).fetchall()
        return [orjson.loads(content) for (content,) in rows]

    def tidy(self, keep: timedelta | None) -> None:
        """Move the log into the file, and forget rows that were asked too long ago; labels are kept."""
        with suppress(sqlite3.OperationalError):  # busy: the next time
            if keep is not None:
                with self._labels.writing() as sqlite:
                    _forget(sqlite, time.time() - keep.total_seconds())
            with self._labels.reading() as sqlite:
                _, n_pages, _ = sqlite.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if n_pages > _LONG_LOG:  # under load it would never begin anew, and its index is in memory
                    sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the file; the last worker that does leaves no log behind."""
        for connection in (self._asks, self._reads, self._labels):
            with connection.reading() as sqlite:
                sqlite.close()


def _places(sqlite: sqlite3.Connection, ids: Sequence[str]) -> list[tuple[str, int, int, str]]:
    """Return the ids of clients that are known, each with its request, its row there and its digest."""
    places = []
    for start in range(0, len(ids), _AT_ONCE):
        several = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(several))
        places += sqlite.execute(f"SELECT id, request, row, digest FROM ids WHERE id IN ({marks})", several).fetchall()
    return places


def _model(sqlite: sqlite3.Connection, model: int) -> tuple[int, set[str]]:
    """Return how many rows of a model were asked, and its classes as texts."""
    asked, classes = sqlite.execute("SELECT asked, classes FROM models WHERE model = ?", (model,)).fetchone()
    return asked, {plain_label(text) for text in json.loads(classes)}


def _forget(sqlite: sqlite3.Connection, oldest: float) -> None:
    """Delete some of the first requests, those that are older, with the ids of their rows."""
    first = "SELECT request, time, answers, ends FROM requests ORDER BY request LIMIT ?"
    for request, asked, answers, ends in sqlite.execute(first, (_FORGOTTEN_AT_ONCE,)).fetchall():
        if asked < oldest:
            stops = np.frombuffer(ends, "<u4").tolist()
            rows = (answers[start:stop] for start, stop in zip([0, *stops], stops, strict=False))
            sqlite.executemany("DELETE FROM ids WHERE id = ?", [(orjson.loads(row)["id"],) for row in rows])
            sqlite.execute("DELETE FROM requests WHERE request = ?", (request,))


def _is_repeated(sqlite: sqlite3.Connection, id_: str, label: Any) -> bool:
    """Tell whether this label came before; another one is a conflict."""
    before = sqlite.execute("SELECT label FROM feedback WHERE id = ?", (id_,)).fetchone()
    if before is None:
        return False
    known = json.loads(before[0])
    if plain_label(str(known)) != plain_label(str(label)):
        raise ConflictError(f"id {id_!r} has the label {known!r} already; {label!r} came now, and nothing was changed.")
    return True


def _outcome(row: StoredRow, text: str) -> tuple[bool, bool]:
    """Return whether the set at the level of the monitor holds a label, and whether the guess is another one."""
    said = orjson.loads(row.answer)
    members = said["set"] if row.judged is None else row.judged
    covered = text in (plain_label(str(member)) for member in members)
    return covered, plain_label(str(said["guess"])) != text
