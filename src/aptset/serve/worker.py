"""One worker: the model that answers, what watches it, and the store of what was asked; no HTTP."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from aptset.serve.monitors import Monitors, ServiceCounters
from aptset.serve.requests import RequestError, RequestRows, query_arguments
from aptset.serve.served import Choice, ServedModel, version_of
from aptset.serve.store import AskedRows, ConflictError, FeedbackStore

LOG = logging.getLogger("aptset.serve")


@dataclass(frozen=True)
class ServiceSettings:
    """All that a service is started with."""

    choice: Choice
    feedback: Path
    mature: int | timedelta | None = timedelta(days=30)
    alarm: float = 100.0
    keep: timedelta | None = None
    most_bytes: int = 10 * 2**20
    timeout: float = 30.0
    queue: int = 64
    watch: float = 1.0
    token_file: Path | None = None
    run: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1


@dataclass(frozen=True)
class Current:
    """The model that answers and what watches it: replaced as a whole, so that no answer is made by two."""

    served: ServedModel
    monitors: Monitors
    version: tuple[int, int, int]


def check_token(path: Path) -> bytes:
    """Return the token of a file."""
    token = path.read_bytes().strip()
    if len(token) < 16:
        raise ValueError(f"--token-file {path} must hold a token of at least 16 letters; it holds {len(token)}.")
    return token


def one_sentence(error: BaseException) -> str:
    """Return what an error says in one line."""
    return " ".join(str(error).split())[:500] or type(error).__name__


class Worker:
    """The model, the store and the counters of one process."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = replace(settings, run=settings.run or uuid4().hex)
        self.name, self.counters = uuid4().hex, ServiceCounters()
        self.token = None if settings.token_file is None else check_token(settings.token_file)
        self.store = FeedbackStore(settings.feedback, settings.mature)
        self.current = self._load()
        self._flushed, self._has_alarmed = dict[str, float](), False
        self._reloading = asyncio.Lock()
        self.predicting = ThreadPoolExecutor(2, "aptset-predict")
        self.writing = ThreadPoolExecutor(2, "aptset-feedback")  # waits for the disk

    # The model

    def _load(self) -> Current:
        version = version_of(self.settings.choice.folder)
        served = ServedModel(self.settings.choice)
        return Current(served, Monitors(self.store, served, self.settings.alarm), version)

    async def reload(self) -> bool:
        """Load the folder and the token anew; requests go on, and what cannot be loaded leaves all as it was."""
        async with self._reloading:
            try:
                loaded = await asyncio.get_running_loop().run_in_executor(self.writing, self._load)
                token = self.settings.token_file
                self.token = None if token is None else check_token(token)
            except Exception as error:  # whatever a folder may make models and libraries say
                self.counters.add("aptset_failed_reloads_total")
                LOG.error("The model stays what it was: %s", one_sentence(error))
                return False
            if loaded.served.name != self.current.served.name:
                self._has_alarmed = False
                LOG.info("Model %s takes the place of %s.", loaded.served.name, self.current.served.name)
            self.current = loaded
            self.counters.add("aptset_reloads_total")
            return True

    async def watch(self) -> None:
        """Load the folder anew when it changes."""
        seen = self.current.version
        while True:
            await asyncio.sleep(self.settings.watch)
            try:
                now = version_of(self.settings.choice.folder)
            except OSError:  # it is being replaced
                continue
            if now not in (seen, self.current.version):
                await self.reload()
            seen = now

    async def look_after(self) -> None:
        """Share counters, judge what is known, and tidy up, every second."""
        while True:
            await asyncio.sleep(1.0)
            try:
                await asyncio.get_running_loop().run_in_executor(self.writing, self._housekeeping)
            except Exception as error:
                LOG.error("The store of feedback cannot be looked after: %s", one_sentence(error))

    def _housekeeping(self) -> None:
        self.share_counters()
        monitors = self.current.monitors
        monitors.update()
        alarmed = [one for one in (monitors.coverage, monitors.error) if one is not None and one.alarmed]
        if alarmed and not self._has_alarmed:
            self._has_alarmed = True
            LOG.warning("%s", alarmed[0].sentence())
        self.store.tidy(self.settings.keep)

    def share_counters(self) -> None:
        """Write what this worker counted, if it counted anything since."""
        counted = self.counters.copy()
        if counted != self._flushed:
            self.store.write_counters(self.settings.run, self.name, counted)
            self._flushed = counted

    def all_counters(self) -> list[dict[str, float]]:
        """Return what all workers have counted."""
        self.share_counters()
        return self.store.read_counters(self.settings.run)

    def close(self) -> None:
        """Finish what threads are at, and close the store."""
        for threads in (self.predicting, self.writing):
            threads.shutdown(wait=True)
        self.share_counters()
        self.store.close()

    # Answers

    def answer_sets(self, current: Current, body: bytes, query: dict[str, str], is_arrow: bool) -> bytes:
        """Return the answers to the rows of a request, which are recorded first."""
        features = current.served.features
        rows = features.of_arrow(body, *query_arguments(query)) if is_arrow else features.of_json(body)
        if rows.has_ids:
            answers = self._answers_by_id(current, rows)
        else:
            answers = self._record(current, rows, [""] * rows.n_rows) or []
        return b'{"answers":[' + b",".join(answers) + b"]}"

    def _answers_by_id(self, current: Current, rows: RequestRows) -> list[bytes]:
        """Return the answers to rows with ids: those that were asked before get what they got."""
        digests, said = current.served.digests(rows), dict[int, bytes]()
        while len(said) < rows.n_rows:  # somebody else may record one of the ids meanwhile
            known = self.store.known([id_ for id_ in rows.ids if id_ is not None])
            said = {row: _same(id_, digests[row], known) for row, id_ in enumerate(rows.ids) if id_ in known}
            new = [row for row in range(rows.n_rows) if row not in said]
            if new:
                few = rows if len(new) == rows.n_rows else rows.only(new)
                made = self._record(current, few, [digests[row] for row in new])
                said |= {} if made is None else dict(zip(new, made, strict=True))
        if len(new) < rows.n_rows:
            self.counters.add("aptset_repeated_rows_total", rows.n_rows - len(new))
        return [said[row] for row in range(rows.n_rows)]

    def _record(self, current: Current, rows: RequestRows, digests: list[str]) -> list[bytes] | None:
        """Return the answers to rows, which are on disk then; None if one of their ids was recorded meanwhile."""
        served, token = current.served, f"{time.time_ns() >> 20:012x}{secrets.token_hex(10)}"
        ids = [f"{token}-{row}" if id_ is None else id_ for row, id_ in enumerate(rows.ids)]
        try:
            answers = served.answer(rows, ids if rows.has_ids else None)
        except RequestError:
            raise
        except (ValueError, TypeError) as error:  # of the model, about these rows
            raise RequestError(f"the model cannot take these rows: {one_sentence(error)}") from error
        said = served.said(rows, ids, answers)
        judged = None if answers.judged is None else served.members(answers.judged)
        act = None if answers.act is None else answers.act.tolist()
        groups = None if rows.groups is None else [str(group) for group in rows.groups]
        if not self.store.record(
            current.monitors.model, AskedRows(token, rows.ids, digests, said, judged, act, groups)
        ):
            return None
        self.counters.note_answers(answers, len(served.classes))
        return said


def _same(id_: Any, digest: str, known: dict[str, tuple[str, bytes]]) -> bytes:
    """Return what an id was answered before, if the same was asked."""
    before, answer = known[id_]
    if before != digest:
        raise ConflictError(
            f"id {id_!r} was asked before with other values, another alpha or another p_values. Give every prediction "
            "an id of its own."
        )
    return answer
