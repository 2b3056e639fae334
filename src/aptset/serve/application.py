"""The HTTP face: what may be asked, limits, and errors in one sentence (problem+json, RFC 9457)."""

from __future__ import annotations

import asyncio
import hmac
import logging
import sqlite3
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from aptset.core.validate import install

try:
    import orjson
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:  # the library alone does not need them
    raise ModuleNotFoundError(f"serving needs Starlette, uvicorn and orjson: {install('serve')}") from error

from aptset.serve.monitors import Monitors, ServiceCounters, metrics_text
from aptset.serve.served import Choice, RequestError, RequestRows, RowAnswers, ServedModel, id_text, version_of
from aptset.serve.store import AskedRow, ConflictError, FeedbackStore, Recorded, UnknownIdError

LOG = logging.getLogger("aptset.serve")
ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
_SHORT = 0.005  # seconds: a request that usually takes less is answered where it came in, without a thread
_SMALL = 16_384  # bytes of such a request
_OPEN = ("/", "/health", "/ready")  # paths without a token
_TITLES = {
    400: "Bad request",
    401: "Token needed",
    404: "Not there",
    405: "Method not allowed",
    408: "Time-out",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Cannot be answered",
    500: "Error",
    503: "Too busy",
    504: "Time-out",
}


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


class ProblemError(Exception):
    """An answer that is an error: its status and one sentence."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


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


class Service:
    """One worker: the model, the store, and the application that Starlette runs."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = replace(settings, run=settings.run or uuid4().hex)
        self.worker, self.counters = uuid4().hex, ServiceCounters()
        self._token = None if settings.token_file is None else check_token(settings.token_file)
        self.store = FeedbackStore(settings.feedback, settings.mature)
        self.current = self._load()
        self.in_flight = 0
        self._usual: float | None = None  # seconds of a small request
        self._flushed, self._has_alarmed = dict[str, float](), False
        self._reloading = asyncio.Lock()
        self._predicting = ThreadPoolExecutor(2, "aptset-predict")
        self._writing = ThreadPoolExecutor(2, "aptset-feedback")  # waits for the disk

    # The model

    def _load(self) -> Current:
        version = version_of(self.settings.choice.folder)
        served = ServedModel(self.settings.choice)
        return Current(served, Monitors(self.store, served, self.settings.alarm), version)

    async def reload(self) -> bool:
        """Load the folder and the token anew; requests go on, and what cannot be loaded leaves all as it was."""
        async with self._reloading:
            try:
                loaded = await asyncio.get_running_loop().run_in_executor(self._writing, self._load)
                token = self.settings.token_file
                self._token = None if token is None else check_token(token)
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

    async def _watch(self) -> None:
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

    async def _look_after(self) -> None:
        """Share counters, judge what is known, and tidy up, every second."""
        while True:
            await asyncio.sleep(1.0)
            try:
                await asyncio.get_running_loop().run_in_executor(self._writing, self._housekeeping)
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
            self.store.write_counters(self.settings.run, self.worker, counted)
            self._flushed = counted

    # Answers

    def answer_sets(self, current: Current, body: bytes, query: dict[str, str], is_arrow: bool) -> bytes:
        """Return the answers to the rows of a request, which are recorded first."""
        served = current.served
        rows = served.rows_of_arrow(body, *_arguments(query)) if is_arrow else served.rows_of_json(body)
        by_client = [id_ for id_ in rows.ids if id_ is not None]
        if not by_client:
            ids = [uuid4().hex for _ in rows.ids]
            return _joined(self._record(current, rows, ids, [""] * rows.n_rows, False)[0])
        digests = served.digests(rows)
        known = self.store.known(by_client)
        new = [row for row, id_ in enumerate(rows.ids) if id_ not in known]
        said = {row: _same(id_, digests[row], known) for row, id_ in enumerate(rows.ids) if id_ in known}
        if new:
            few = rows if len(new) == rows.n_rows else rows.only(new)
            ids = [id_ or uuid4().hex for id_ in few.ids]
            made, meanwhile = self._record(current, few, ids, [digests[row] for row in new], True)
            for row, id_, one in zip(new, ids, made, strict=True):
                said[row] = _same(id_, digests[row], meanwhile) if id_ in meanwhile else one
        if len(new) < rows.n_rows:
            self.counters.add("aptset_repeated_rows_total", rows.n_rows - len(new))
        return _joined([said[row] for row in range(rows.n_rows)])

    def _record(
        self, current: Current, rows: RequestRows, ids: list[str], digests: list[str], may_be_known: bool
    ) -> tuple[list[bytes], dict[str, Recorded]]:
        """Return the answers to rows; they are on disk when this returns."""
        served = current.served
        try:
            answers = served.answer(rows, ids)
        except RequestError:
            raise
        except (ValueError, TypeError) as error:  # of the model, about these rows
            raise RequestError(f"the model cannot take these rows: {one_sentence(error)}") from error
        said, judged = served.said(rows, ids, answers), served.judged(answers)
        groups = [None] * rows.n_rows if rows.groups is None else [str(group) for group in rows.groups]
        act = [False] * rows.n_rows if answers.act is None else answers.act.tolist()
        asked = [AskedRow(*one) for one in zip(ids, digests, said, judged, act, groups, strict=True)]
        meanwhile = self.store.record(current.monitors.model, asked, may_be_known)
        self._note(answers, served)
        return said, meanwhile

    def _note(self, answers: RowAnswers, served: ServedModel) -> None:
        self.counters.note_answers(answers, len(served.classes))

    async def sets(self, request: Request) -> Response:
        """POST /v1/sets."""
        kind = _media_type(request)
        if kind not in (JSON, ARROW):
            raise ProblemError(415, f"content-type must be {JSON} or {ARROW}; got {kind[:80]!r}.")
        body, current, began = await self._body(request), self.current, time.perf_counter()
        query = dict(request.query_params) if request.scope["query_string"] else {}
        await asyncio.sleep(0)  # others that have come are counted before this one is answered
        if len(body) <= _SMALL and self._usual is not None and self._usual < _SHORT:
            content = self.answer_sets(current, body, query, kind == ARROW)
        else:
            content = await self._in_thread(self._predicting, self.answer_sets, current, body, query, kind == ARROW)
        if len(body) <= _SMALL:
            seconds = time.perf_counter() - began
            self._usual = seconds if self._usual is None else 0.9 * self._usual + 0.1 * seconds
        return Response(content, media_type=JSON)

    async def feedback(self, request: Request) -> Response:
        """POST /v1/feedback."""
        if _media_type(request) != JSON:
            raise ProblemError(415, f"content-type must be {JSON}; got {_media_type(request)[:80]!r}.")
        labels = _labels_of(await self._body(request))
        accepted, repeated, unknown = await self._in_thread(self._writing, self.store.learn, labels)
        return _json({"accepted": accepted, "repeated": repeated, "unknown_labels": unknown})

    async def model(self, request: Request) -> Response:
        """GET /v1/model."""
        return _json(self.current.served.facts())

    async def monitor(self, request: Request) -> Response:
        """GET /v1/monitor."""
        state = await self._in_thread(self._writing, self.current.monitors.state)
        return _json(state)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        text = await self._in_thread(self._writing, self._metrics)
        return Response(text, media_type="text/plain; version=0.0.4")

    def _metrics(self) -> str:
        self.share_counters()
        counted = self.store.read_counters(self.settings.run)
        return metrics_text(counted, self.current.monitors.state(), self.in_flight)

    async def health(self, request: Request) -> Response:
        """GET /health: the process answers."""
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """GET /ready: there is a model, and the store can be read."""
        await self._in_thread(self._writing, self.store.counts, self.current.monitors.model)
        return _json({"status": "ready", "model": self.current.served.name})

    async def openapi(self, request: Request) -> Response:
        """GET /openapi.json."""
        return _json(openapi_of(self.current.served))

    async def page(self, request: Request) -> Response:
        """GET /: the page that shows the monitor."""
        text, policy = self._page
        return Response(text, media_type="text/html", headers={"content-security-policy": policy})

    @cached_property
    def _page(self) -> tuple[str, str]:
        """The page, and a policy that allows its own style and script, its own address, and nothing else."""
        text = (Path(__file__).with_name("page.html")).read_text(encoding="utf-8")
        hashes = {}
        for tag in ("style", "script"):
            inner = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
            hashes[tag] = b64encode(sha256(inner.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return text, policy

    # Limits

    async def _body(self, request: Request) -> bytes:
        """Return the body; one that is too large is read to its end and dropped, so that its sender reads why."""
        parts, size, limit = list[bytes](), 0, self.settings.most_bytes
        try:
            async with asyncio.timeout(self.settings.timeout):
                async for part in request.stream():
                    size += len(part)
                    parts = [*parts, part] if size <= limit else []
        except TimeoutError as error:
            raise ProblemError(408, f"the body must come within {self.settings.timeout:g} seconds.") from error
        if size > limit:
            raise ProblemError(
                413, f"the body must have {limit:,} bytes at most; got {size:,}. Send fewer rows at once."
            )
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do work in a thread; the answer comes within the time-out, or says that it does not."""
        done = asyncio.get_running_loop().run_in_executor(threads, work, *arguments)
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await asyncio.shield(done)
        except TimeoutError as error:
            done.add_done_callback(lambda future: future.exception())  # nobody waits for it any more
            raise ProblemError(
                504,
                f"the answer took longer than {self.settings.timeout:g} seconds. Ask again with the same id: what was "
                "recorded is not computed twice.",
            ) from error

    def _check_token(self, request: Request) -> None:
        """Refuse a request without the token; how long that takes does not depend on how much of it is right."""
        if self._token is None or request.scope["path"] in _OPEN:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
            raise ProblemError(401, "authorization must be 'Bearer TOKEN'.", **{"www-authenticate": "Bearer"})

    def guarded(
        self, answer: Callable[[Request], Awaitable[Response]], is_limited: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler with its limits, its count, and its errors in one sentence."""

        async def handle(request: Request) -> Response:
            began = time.perf_counter()
            self.in_flight += is_limited
            try:
                self._check_token(request)
                if is_limited and self.in_flight > self.settings.queue:
                    way_out = "Too many requests wait; try again in a second."
                    raise ProblemError(503, way_out, **{"retry-after": "1"})
                response = await answer(request)
            except ClientDisconnect:
                response = Response(status_code=499)
            except Exception as error:
                response = await self._problem(request, error, is_limited)
            finally:
                self.in_flight -= is_limited
            self.counters.note_request(request.scope["path"], response.status_code, time.perf_counter() - began)
            return response

        return handle

    async def _problem(self, request: Request, error: Exception, has_body: bool) -> Response:
        problem = problem_of(error)
        if problem.status == 500:
            LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        if has_body and problem.status in (401, 415, 503):  # the body was not read yet
            with suppress(ProblemError, ClientDisconnect, RuntimeError):
                await self._body(request)
        return as_response(problem)

    # The application

    def application(self) -> Starlette:
        """Return the application."""
        posts = {"/v1/sets": self.sets, "/v1/feedback": self.feedback}
        gets = {
            "/": self.page,
            "/v1/model": self.model,
            "/v1/monitor": self.monitor,
            "/health": self.health,
            "/ready": self.ready,
            "/metrics": self.metrics,
            "/openapi.json": self.openapi,
        }
        routes = [Route(path, self.guarded(answer, True), methods=["POST"]) for path, answer in posts.items()]
        routes += [Route(path, self.guarded(answer), methods=["GET"]) for path, answer in gets.items()]
        handlers: dict[Any, Any] = {HTTPException: _of_routing}
        application = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        application.state.service = self
        return application

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._look_after())]
        if self.settings.watch > 0:
            tasks.append(asyncio.create_task(self._watch()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for threads in (self._predicting, self._writing):
                threads.shutdown(wait=True)
            self.share_counters()
            self.store.close()


def application(folder: str | Path, feedback: str | Path | None = None, **settings: Any) -> Starlette:
    """Return the service of a folder as an ASGI application, for servers of your own.

    Parameters
    ----------
    folder : path
        The folder of :meth:`ConformalClassifier.save`.
    feedback : path, optional
        The SQLite file of what was asked and of the labels; beside the folder by default.
    **settings
        Of ``ServiceSettings``, and ``trust``, ``u``, ``alpha``, ``error`` and ``assurance`` of its choice.

    Examples
    --------
    >>> import aptset, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from aptset.serve import application
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y).save(f"{folder}/iris")
    ...     app = application(f"{folder}/iris")  # uvicorn module:app
    ...     app.state.service.store.close()
    >>> sorted(route.path for route in app.routes)[-3:]
    ['/v1/model', '/v1/monitor', '/v1/sets']
    """
    names = ("trust", "u", "alpha", "error", "assurance", "most_rows", "loader")
    choice = Choice(Path(folder), **{name: settings.pop(name) for name in names if name in settings})
    return Service(ServiceSettings(choice, feedback_file(Path(folder), feedback), **settings)).application()


def feedback_file(folder: Path, given: str | Path | None) -> Path:
    """Return the file of feedback: beside the folder, which is replaced when a classifier is saved anew."""
    return Path(given) if given is not None else folder.resolve().with_name(f"{folder.resolve().name}.feedback.sqlite")


# Requests and answers in parts


def _media_type(request: Request) -> str:
    return str(request.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _arguments(query: dict[str, str]) -> tuple[float | None, bool]:
    """Return what the address of a stream says: alpha and p_values."""
    unknown = query.keys() - {"alpha", "p_values"}
    if unknown:
        raise RequestError(f"the address must have no argument but alpha and p_values; got {sorted(unknown)[0]!r:.80}.")
    try:
        alpha = float(query["alpha"]) if "alpha" in query else None
    except ValueError as error:
        raise RequestError(f"alpha must be a number in (0, 1); got {query['alpha']!r:.80}.") from error
    return alpha, query.get("p_values") in ("true", "1")


def _labels_of(body: bytes) -> list[tuple[str, Any]]:
    """Return ids and labels of one piece of feedback, or of several."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body must be JSON: {error}.") from error
    several = given.get("feedback", [given]) if isinstance(given, dict) else None
    if not isinstance(several, list) or not several:
        raise RequestError('the body must be {"id": ..., "label": ...}, or {"feedback": [...]} with several of them.')
    labels = []
    for one in several:
        if not isinstance(one, dict) or one.keys() != {"id", "label"}:
            raise RequestError(f'feedback must have an "id" and a "label"; got {one!r:.80}.')
        if not isinstance(one["label"], str | int | float | bool):
            raise RequestError(f"a label must be a text, a number, true or false; got {one['label']!r:.80}.")
        labels.append((id_text(one["id"]), one["label"]))
    return labels


def _same(id_: Any, digest: str, known: dict[str, Recorded]) -> bytes:
    """Return what an id was answered before, if the same was asked."""
    if known[id_].digest != digest:
        raise ConflictError(
            f"id {id_!r} was asked before with other values, another alpha or another p_values. Give every prediction "
            "an id of its own."
        )
    return known[id_].answer


def _joined(answers: list[bytes]) -> bytes:
    return b'{"answers":[' + b",".join(answers) + b"]}"


def _json(content: Any) -> Response:
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    return Response(orjson.dumps(content, default=str, option=options), media_type=JSON)


def one_sentence(error: BaseException) -> str:
    """Return what an error says in one line."""
    return " ".join(str(error).split())[:500] or type(error).__name__


def problem_of(error: Exception) -> ProblemError:
    """Return the answer to whatever went wrong; what is inside of the service stays there."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, UnknownIdError):
        return ProblemError(404, str(error))
    if isinstance(error, ConflictError):
        return ProblemError(409, str(error))
    if isinstance(error, RequestError):
        return ProblemError(422, one_sentence(error))
    if isinstance(error, sqlite3.OperationalError):
        way_out = f"the store of feedback cannot be written now: {error}."
        return ProblemError(503, way_out, **{"retry-after": "1"})
    return ProblemError(500, f"the service failed ({type(error).__name__}); its log says more.")


def as_response(problem: ProblemError) -> Response:
    """Return a problem as its sender reads it."""
    title = _TITLES.get(problem.status, "Error")
    detail = problem.detail[:1].upper() + problem.detail[1:]
    content = {"type": "about:blank", "title": title, "status": problem.status, "detail": detail}
    return Response(orjson.dumps(content), problem.status, problem.headers, "application/problem+json")


async def _of_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {
        404: f"there is nothing at {request.url.path[:80]}; see /openapi.json.",
        405: f"{request.url.path[:80]} does not take {request.method}.",
    }
    problem = ProblemError(error.status_code, words.get(error.status_code, str(error.detail)), **(error.headers or {}))
    return as_response(problem)


_KINDS: dict[str, Any] = {
    "number": {"type": ["number", "null"]},
    "category": {"type": ["string", "number", "boolean", "null"]},
    "date": {"type": ["string", "null"], "description": "a date such as 2024-12-31"},
    "text": {"type": ["string", "null"]},
    "any": {"type": ["number", "string", "boolean", "null"]},
}


def openapi_of(served: ServedModel) -> dict[str, Any]:
    """Return the description of the service, with the features and classes of the model (OpenAPI 3.1)."""
    label: dict[str, Any] = {"enum": served.classes}
    features = {name: _KINDS[served.kinds[name]] for name in served.names}
    more = {served.id_column: {"type": ["string", "integer", "null"]}} if served.id_column else {}
    more |= {served.group_column: {}} if served.group_column else {}
    row = {"type": "object", "properties": {**more, **features}, "required": served.names}
    asked = {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {
            "rows": {"type": "array", "items": row, "minItems": 1, "maxItems": served.choice.most_rows},
            "ids": {"type": "array", "items": {"type": ["string", "integer", "null"]}},
            "groups": {"type": "array"},
            "alpha": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "p_values": {"type": "boolean"},
        },
    }
    of_row = {
        "id": {"type": "string"},
        "set": {"type": "array", "items": label},
        "size": {"type": "integer"},
        "guess": label,
        "act": {"type": "boolean"},
        "ask": {"type": "array", "items": label},
        "p_values": {"type": "object", "additionalProperties": {"type": "number"}},
        "alpha": {"type": "number"},
        "u": {"enum": ["id", "content", "fresh", "none"]},
        "model": {"type": "string"},
    }
    answered = {"type": "object", "properties": {"answers": {"type": "array", "items": {"properties": of_row}}}}
    one = {"type": "object", "required": ["id", "label"], "properties": {"id": {}, "label": {}}}
    several = {"type": "object", "properties": {"feedback": {"type": "array", "items": one}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Prediction sets", "version": served.name, "description": served.facts()["guarantee"]},
        "paths": {
            "/v1/sets": {"post": _operation("Prediction sets of rows", answered, {JSON: asked, ARROW: {}})},
            "/v1/feedback": {"post": _operation("True labels of rows", {}, {JSON: {"oneOf": [one, several]}})},
            "/v1/model": {"get": _operation("What the model promises", {})},
            "/v1/monitor": {"get": _operation("Whether the promise is kept", {})},
            "/health": {"get": _operation("Whether the process answers", {})},
            "/ready": {"get": _operation("Whether there is a model", {})},
            "/metrics": {"get": _operation("Numbers for Prometheus", {})},
        },
    }


def _operation(summary: str, answer: dict[str, Any], bodies: dict[str, Any] | None = None) -> dict[str, Any]:
    problem = {"description": "One sentence", "content": {"application/problem+json": {"schema": {"type": "object"}}}}
    responses = {"200": {"description": summary, "content": {JSON: {"schema": answer}}}, "default": problem}
    said: dict[str, Any] = {"summary": summary, "responses": responses}
    if bodies:
        content = {kind: {"schema": schema} for kind, schema in bodies.items()}
        said["requestBody"] = {"required": True, "content": content}
    return said
