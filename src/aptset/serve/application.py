"""The HTTP face: what may be asked, limits, and errors in one sentence (problem+json, RFC 9457)."""

from __future__ import annotations

import asyncio
import hmac
import sqlite3
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

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

from aptset.serve.monitors import metrics_text
from aptset.serve.requests import ARROW, JSON, RequestError, labels_of
from aptset.serve.served import Choice, openapi_of
from aptset.serve.store import ConflictError, UnknownIdError
from aptset.serve.worker import LOG, ServiceSettings, Worker, one_sentence

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


class ProblemError(Exception):
    """An answer that is an error: its status and one sentence."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


class Service:
    """The HTTP face of one worker: the application that Starlette runs."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.worker, self.settings = Worker(settings), settings
        self.in_flight = 0
        self._usual: float | None = None  # seconds of a small request

    async def sets(self, request: Request) -> Response:
        """POST /v1/sets."""
        kind = _media_type(request)
        if kind not in (JSON, ARROW):
            raise ProblemError(415, f"content-type must be {JSON} or {ARROW}; got {kind[:80]!r}.")
        body, current, began = await self._body(request), self.worker.current, time.perf_counter()
        query = dict(request.query_params) if request.scope["query_string"] else {}
        await asyncio.sleep(0)  # others that have come are counted before this one is answered
        if len(body) <= _SMALL and self._usual is not None and self._usual < _SHORT:
            content = self.worker.answer_sets(current, body, query, kind == ARROW)
        else:
            asked = (current, body, query, kind == ARROW)
            content = await self._in_thread(self.worker.predicting, self.worker.answer_sets, *asked)
        if len(body) <= _SMALL:
            seconds = time.perf_counter() - began
            self._usual = seconds if self._usual is None else 0.9 * self._usual + 0.1 * seconds
        return Response(content, media_type=JSON)

    async def feedback(self, request: Request) -> Response:
        """POST /v1/feedback."""
        if _media_type(request) != JSON:
            raise ProblemError(415, f"content-type must be {JSON}; got {_media_type(request)[:80]!r}.")
        labels = labels_of(await self._body(request))
        accepted, repeated, unknown = await self._in_thread(self.worker.writing, self.worker.store.learn, labels)
        return _json({"accepted": accepted, "repeated": repeated, "unknown_labels": unknown})

    async def model(self, request: Request) -> Response:
        """GET /v1/model."""
        return _json(self.worker.current.served.facts())

    async def monitor(self, request: Request) -> Response:
        """GET /v1/monitor."""
        state = await self._in_thread(self.worker.writing, self.worker.current.monitors.state)
        return _json(state)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        text = await self._in_thread(self.worker.writing, self._metrics)
        return Response(text, media_type="text/plain; version=0.0.4")

    def _metrics(self) -> str:
        counted, state = self.worker.all_counters(), self.worker.current.monitors.state()
        return metrics_text(counted, state, self.in_flight)

    async def health(self, request: Request) -> Response:
        """GET /health: the process answers."""
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """GET /ready: there is a model, and the store can be read."""
        await self._in_thread(self.worker.writing, self.worker.store.counts, self.worker.current.monitors.model)
        return _json({"status": "ready", "model": self.worker.current.served.name})

    async def openapi(self, request: Request) -> Response:
        """GET /openapi.json."""
        return _json(openapi_of(self.worker.current.served))

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
        if self.worker.token is None or request.scope["path"] in _OPEN:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.worker.token):
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
            self.worker.counters.note_request(request.scope["path"], response.status_code, time.perf_counter() - began)
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
        application.state.service = self.worker
        return application

    @asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.worker.look_after())]
        if self.settings.watch > 0:
            tasks.append(asyncio.create_task(self.worker.watch()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.worker.close()


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


def _media_type(request: Request) -> str:
    return str(request.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _json(content: Any) -> Response:
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    return Response(orjson.dumps(content, default=str, option=options), media_type=JSON)


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
