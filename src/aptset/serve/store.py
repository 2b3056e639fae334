"""What was asked and what turned out true, in one SQLite file that all workers share.

A row is recorded before it is answered, and numbered in the order of asking. Feedback is acknowledged when it is on
disk (write-ahead log, synchronous=FULL), so that neither a kill nor a power cut loses it. The monitors are functions of
this log alone (:mod:`aptset.serve.monitors`): a restart forgets nothing, and workers agree.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import orjson

from aptset.arrow.sources import plain_label

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS models (
    model INTEGER PRIMARY KEY, name TEXT UNIQUE, asked INTEGER DEFAULT 0, acted INTEGER DEFAULT 0,
    newest REAL DEFAULT 0, classes TEXT);
CREATE TABLE IF NOT EXISTS asked (
    seq INTEGER PRIMARY KEY, id TEXT UNIQUE, model INTEGER, number INTEGER, acted INTEGER, time REAL, digest TEXT,
    answer BLOB, judged BLOB, row_group TEXT);
CREATE TABLE IF NOT EXISTS feedback (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, label TEXT, model INTEGER, number INTEGER, acted INTEGER,
    asked REAL, row_group TEXT, covered INTEGER, wrong INTEGER, time REAL, in_time INTEGER);
CREATE INDEX IF NOT EXISTS feedback_of_model ON feedback (model, seq);
CREATE TABLE IF NOT EXISTS counters (run TEXT, worker TEXT, content TEXT, PRIMARY KEY (run, worker));
"""
_AT_ONCE = 500  # ids in one question
_PATIENCE = 10.0  # seconds that a writer waits for another one


class UnknownIdError(LookupError):
    """Feedback about a row that was never asked."""


class ConflictError(ValueError):
    """An id that says one thing now, and said another before."""


class AskedRow(NamedTuple):
    """A row to be recorded: what it was answered, and what its set at the level of the monitor was, if another."""

    id: str
    digest: str
    answer: bytes
    judged: bytes | None
    acted: bool
    row_group: str | None


class Recorded(NamedTuple):
    """A row that was recorded before."""

    digest: str
    answer: bytes


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
            raise ValueError(f"--feedback {self.path} was written by a later version of aptset. Upgrade aptset.")
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

    def known(self, ids: Sequence[str]) -> dict[str, Recorded]:
        """Return those of the ids that were asked before."""
        with self._reads.reading() as sqlite:
            return _known(sqlite, ids)

    def record(self, model: int, rows: Sequence[AskedRow], may_be_known: bool) -> dict[str, Recorded]:
        """Record rows in the order of asking; return those that somebody else has recorded meanwhile."""
        with self._asks.writing() as sqlite:
            known = _known(sqlite, [row.id for row in rows]) if may_be_known else {}
            new = [row for row in rows if row.id not in known] if known else rows
            n_acted = sum(row.acted for row in new)
            counted = "UPDATE models SET asked = asked + ?, acted = acted + ?, newest = max(newest, ?) WHERE model = ?"
            ((asked, acted, now),) = sqlite.execute(
                f"{counted} RETURNING asked, acted, newest", (len(new), n_acted, time.time(), model)
            ).fetchall()
            number, number_acted, values = asked - len(new), acted - n_acted, []
            for row in new:
                of_acted = number_acted if row.acted else None
                numbers = (model, number, of_acted, now)
                values.append((row.id, *numbers, row.digest, row.answer, row.judged, row.row_group))
                number, number_acted = number + 1, number_acted + row.acted
            sqlite.executemany(
                "INSERT INTO asked (id, model, number, acted, time, digest, answer, judged, row_group) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        return known

    def learn(self, labels: Sequence[tuple[str, Any]]) -> tuple[int, int, list[Any]]:
        """Keep labels by their ids, all or none; return how many are new, how many repeated, and unknown labels."""
        accepted, unknown = 0, list[Any]()
        with self._labels.writing() as sqlite:
            for id_, label in labels:
                row = sqlite.execute(
                    "SELECT models.model, number, asked.acted, time, answer, judged, row_group, asked, classes FROM "
                    "asked JOIN models ON asked.model = models.model WHERE id = ?",
                    (id_,),
                ).fetchone()
                if row is None:
                    raise UnknownIdError(f"id {id_!r} was never asked here. Send feedback with the id of an answer.")
                if _is_repeated(sqlite, id_, label):
                    continue
                text, accepted = plain_label(str(label)), accepted + 1
                if text not in map(plain_label, json.loads(row[8])):
                    unknown.append(label)
                sqlite.execute(
                    "INSERT INTO feedback (id, label, model, number, acted, asked, row_group, covered, wrong, time, "
                    "in_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (id_, json.dumps(label), *row[:4], row[6], *_outcome(row[4], row[5], text), *self._moment(row)),
                )
        return accepted, len(labels) - accepted, unknown

    def _moment(self, row: Sequence[Any]) -> tuple[float, bool]:
        """Return the time, and whether the label of a row comes before it is given up."""
        now, number, asked, n_asked = time.time(), row[1], row[3], row[7]
        if isinstance(self.mature, timedelta):
            return now, now - asked < self.mature.total_seconds()
        return now, self.mature is None or n_asked - 1 - number < self.mature

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
        with suppress(sqlite3.OperationalError), self._labels.reading() as sqlite:  # busy: the next time
            if keep is not None:
                oldest = time.time() - keep.total_seconds()
                sqlite.execute(
                    "DELETE FROM asked WHERE seq IN (SELECT seq FROM asked WHERE time < ? ORDER BY seq LIMIT 2000)",
                    (oldest,),
                )
            sqlite.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the file; the last worker that does leaves no log behind."""
        for connection in (self._asks, self._reads, self._labels):
            with connection.reading() as sqlite:
                sqlite.close()


def _known(sqlite: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Recorded]:
    known = dict[str, Recorded]()
    for start in range(0, len(ids), _AT_ONCE):
        several = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(several))
        for row in sqlite.execute(f"SELECT id, digest, answer FROM asked WHERE id IN ({marks})", several):
            known[row[0]] = Recorded(*row[1:])
    return known


def _is_repeated(sqlite: sqlite3.Connection, id_: str, label: Any) -> bool:
    """Tell whether this label came before; another one is a conflict."""
    before = sqlite.execute("SELECT label FROM feedback WHERE id = ?", (id_,)).fetchone()
    if before is None:
        return False
    known = json.loads(before[0])
    if plain_label(str(known)) != plain_label(str(label)):
        raise ConflictError(f"id {id_!r} has the label {known!r} already; {label!r} came now, and nothing was changed.")
    return True


def _outcome(answer: bytes, judged: bytes | None, text: str) -> tuple[bool, bool]:
    """Return whether the set at the level of the monitor holds a label, and whether the guess is another one."""
    said = orjson.loads(answer)
    members = said["set"] if judged is None else orjson.loads(judged)
    covered = text in (plain_label(str(member)) for member in members)
    return covered, plain_label(str(said["guess"])) != text
