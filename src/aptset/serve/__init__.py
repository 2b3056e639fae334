"""A service of prediction sets that learns whether it keeps its word: ``aptset serve FOLDER``.

Here is how it runs: one process or several that serve on one socket, and the signals that they hear. SIGHUP loads the
folder anew, SIGTERM and SIGINT finish what is in flight. The parent of several workers binds the socket, passes signals
on, and starts a worker again that died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from typing import Any
from uuid import uuid4

from aptset.core.validate import install
from aptset.serve.application import Service, application
from aptset.serve.served import Choice
from aptset.serve.worker import LOG, ServiceSettings, one_sentence

__all__ = ["Choice", "Service", "ServiceSettings", "application"]

_CANNOT_START = 3  # the status of a worker that nothing but another folder or another setting can mend
_SOON = 5.0  # seconds: a worker that dies within them is not started again for ever
_MOST_DEATHS = 5
_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


def run(settings: ServiceSettings) -> int:
    """Serve until a signal says stop; return the status of the process."""
    need_uvicorn()
    listen_to_log()
    settings = replace(settings, run=uuid4().hex)
    bound = bind(settings.host, settings.port)
    LOG.info("Serving %s on %s", settings.choice.folder, address_of(bound))
    if settings.workers == 1:
        return work(settings, bound)
    return _Workers(settings, bound).run()


def need_uvicorn() -> Any:
    """Return uvicorn, which servers of one's own do without, or say how to get it."""
    try:
        import uvicorn
    except ImportError as error:
        raise ModuleNotFoundError(f"serving needs Starlette, uvicorn and orjson: {install('serve')}") from error
    return uvicorn


def listen_to_log() -> None:
    """Write what the service says to standard error, one line each."""
    if not LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(logging.INFO)
        LOG.propagate = False


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens, once there is somebody who does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle's delay on
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(f"--host {host} --port {port} cannot be listened on: {error.strerror}.") from error
    bound.listen(1024)
    bound.set_inheritable(True)
    return bound


def address_of(bound: socket.socket) -> str:
    """Return the address of the page."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def work(settings: ServiceSettings, bound: socket.socket) -> int:
    """Serve in this process."""
    for number in (signal.SIGTERM, signal.SIGINT):  # which uvicorn raises again once it is done
        signal.signal(number, lambda *_: None)
    if _HANGUP is not None:
        signal.signal(_HANGUP, signal.SIG_IGN)  # until there is somebody who loads anew
    try:
        service = Service(settings)
    except Exception as error:
        LOG.error("%s", one_sentence(error))
        return _CANNOT_START
    uvicorn = need_uvicorn()
    config = uvicorn.Config(
        service.application(),
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than proxies keep a connection, so that it is theirs to close
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        lifespan="on",
    )
    asyncio.run(_serve(uvicorn.Server(config), service, bound))
    return 0


async def _serve(server: Any, service: Service, bound: socket.socket) -> None:
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[Any]]()

    def load_anew() -> None:
        task = loop.create_task(service.worker.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if _HANGUP is not None:
        loop.add_signal_handler(_HANGUP, load_anew)
    await server.serve(sockets=[bound])


def _work_in_child(settings: ServiceSettings, bound: socket.socket) -> None:
    listen_to_log()
    sys.exit(work(settings, bound))


class _Workers:
    """Several workers on one socket."""

    def __init__(self, settings: ServiceSettings, bound: socket.socket) -> None:
        self._settings, self._bound = settings, bound
        self._context, self._stop, self._deaths = get_context("spawn"), False, 0
        self._children: list[Any] = []

    def run(self) -> int:
        """Look after the workers until a signal says stop, or none can be started."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        if _HANGUP is not None:
            signal.signal(_HANGUP, self._pass_on)
        self._children = [self._start() for _ in range(self._settings.workers)]
        status = 0
        while not self._stop:
            time.sleep(0.2)
            status = self._replace_dead()
        self._bound.close()
        for child, _ in self._children:
            child.terminate()
        for child, _ in self._children:
            child.join(self._settings.timeout + 5)
            child.kill()
        return status

    def _start(self) -> tuple[Any, float]:
        child = self._context.Process(target=_work_in_child, args=(self._settings, self._bound))
        child.start()
        return child, time.monotonic()

    def _replace_dead(self) -> int:
        for place, (child, began) in enumerate(self._children):
            if child.is_alive() or self._stop:
                continue
            self._deaths = self._deaths + 1 if time.monotonic() - began < _SOON else 0
            if child.exitcode == _CANNOT_START or self._deaths > _MOST_DEATHS:
                self._stop = True
                return 1
            LOG.error("A worker ended with status %s, and is started again.", child.exitcode)
            self._children[place] = self._start()
        return 0

    def _end(self, *_: Any) -> None:
        self._stop = True

    def _pass_on(self, number: int, _: Any) -> None:
        for child, _ in self._children:
            if child.is_alive():
                os.kill(child.pid, number)
