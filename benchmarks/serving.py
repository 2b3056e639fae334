"""What `aptset serve` costs beside its model: loopback alone, bounded in count and time.

``python -m benchmarks.serving`` measures one row beside model + empty POST of the same stack, half load, requests of
1,000 rows, memory, a change of the model under load, and a kill in the middle of feedback. ``--requests 100000`` is
what the page tells; the default is a tenth of it. ``--out FILE`` keeps the numbers.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import aptset

EMPTY = """
import asyncio, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from aptset.serve import bind, address_of

async def empty(request):
    await request.body()
    return Response(b'{}', media_type='application/json')

bound = bind('127.0.0.1', 0)
print(address_of(bound), file=sys.stderr, flush=True)
app = Starlette(routes=[Route('/empty', empty, methods=['POST'])])
config = uvicorn.Config(app, log_level='error', access_log=False)
asyncio.run(uvicorn.Server(config).serve(sockets=[bound]))
"""
JSON, ARROW = b"application/json", b"application/vnd.apache.arrow.stream"


class Connection:
    """A connection of the least cost to its own side."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: bytes, body: bytes, kind: bytes = JSON) -> tuple[int, bytes]:
        head = b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (
            path,
            kind,
            len(body),
        )
        self.socket.sendall(head + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        headers, _, content = received.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", headers.lower())[1])  # type: ignore[index]
        parts, size = [content], len(content)
        while size < length:
            parts.append(self._more())
            size += len(parts[-1])
        return int(headers[9:12]), b"".join(parts)

    def _more(self) -> bytes:
        received = self.socket.recv(1 << 18)
        if not received:
            raise ConnectionError("the service closed the connection")
        return received


def start(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Start a process that says on its first line where it listens, and wait until it answers."""
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = int(re.search(r":(\d+)\s*$", process.stderr.readline())[1])  # type: ignore[index]
    threading.Thread(target=process.stderr.read, daemon=True).start()
    Connection(port).post(b"/empty", b"{}")
    return process, port


def serve(folder: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    feedback = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.sqlite")
    named = () if "--feedback" in options else ("--feedback", str(feedback))
    return start("-m", "aptset", "serve", str(folder), "--port", "0", *named, *options)


def percentiles(seconds: list[float]) -> dict[str, float]:
    p50, p90, p99 = np.percentile(np.array(seconds[len(seconds) // 10 :]) * 1e3, [50, 90, 99])
    return {"p50_ms": round(p50, 3), "p90_ms": round(p90, 3), "p99_ms": round(p99, 3)}


def timed(work: Any, items: list[Any], count: int) -> list[float]:
    seconds = []
    for number in range(count):
        began = time.perf_counter()
        work(items[number % len(items)])
        seconds.append(time.perf_counter() - began)
    return seconds


def post(connection: Connection, path: bytes, kind: bytes = JSON) -> Any:
    def work(body: bytes) -> None:
        status, content = connection.post(path, body, kind)
        assert status == 200, content[:300]

    return work


def folders(where: Path) -> tuple[dict[str, Path], pd.DataFrame, pd.Series]:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True, as_frame=True)
    models = {"logistic": LogisticRegression(max_iter=3000), "forest": RandomForestClassifier(200, random_state=0)}
    paths = {name: where / name for name in models}
    for name, model in models.items():
        aptset.ConformalClassifier(model, random_state=0).fit(X[:1200], y[:1200]).save(paths[name])
    return paths, X, y


def one_row(paths: dict[str, Path], X: pd.DataFrame, count: int, rounds: int) -> dict[str, Any]:
    """Compare one row with the model on a frame of one row, plus an empty POST with the same body."""
    rows = X.iloc[1200:1400]
    bodies = [json.dumps({"rows": [row]}).encode() for row in rows.to_dict("records")]
    frames = [rows.iloc[[number]] for number in range(len(rows))]
    process, port = start("-c", EMPTY)
    told = {}
    try:
        for name, path in paths.items():
            model, (served, own) = aptset.load(path).models_[0], serve(path)
            seconds: dict[str, list[float]] = {"model": [], "empty": [], "sets": []}
            for _ in range(rounds):  # in turns, so that all meet the same weather; idle connections are closed
                seconds["model"] += timed(model.predict_proba, frames, count)
                empty = post(Connection(port), b"/empty")
                seconds["empty"] += timed(empty, bodies, count)
                sets = post(Connection(own), b"/v1/sets")
                seconds["sets"] += timed(sets, bodies, count)
            served.terminate()
            medians = {key: float(np.median(values)) for key, values in seconds.items()}
            ratio = medians["sets"] / (medians["model"] + medians["empty"])
            told[name] = {key: percentiles(values) for key, values in seconds.items()} | {"ratio": round(ratio, 3)}
            served.wait()
    finally:
        process.kill()
    return told


def half_load(path: Path, X: pd.DataFrame, count: int) -> dict[str, Any]:
    """Ask from 4 connections as fast as they can, then at half that rate, at times that do not wait for answers."""
    bodies = [json.dumps({"rows": [row]}).encode() for row in X.iloc[1200:1400].to_dict("records")]
    process, port = serve(path)
    try:
        full, _ = _load(port, bodies, count, None)
        rate, seconds = _load(port, bodies, count, full / 2)
    finally:
        process.kill()
    told = percentiles(seconds)
    return {
        "full_per_second": round(full),
        "at_per_second": round(rate),
        **told,
        "p99_to_p50": round(told["p99_ms"] / told["p50_ms"], 2),
    }


def _load(port: int, bodies: list[bytes], count: int, rate: float | None) -> tuple[float, list[float]]:
    connections, seconds = 4, list[float]()
    own = count // connections

    def ask(number: int) -> None:
        work, mine = post(Connection(port), b"/v1/sets"), list[float]()
        begin = time.perf_counter()
        for turn in range(own):
            due = time.perf_counter() if rate is None else begin + (turn * connections + number) / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            asked = time.perf_counter()
            work(bodies[(turn + number) % len(bodies)])
            mine.append(time.perf_counter() - asked)
        seconds.extend(mine)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(connections)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return own * connections / (time.perf_counter() - began), seconds


def thousand_rows(path: Path, X: pd.DataFrame, count: int) -> dict[str, Any]:
    import pyarrow as pa

    rows = X.iloc[200:1200]
    sink, table = io.BytesIO(), pa.Table.from_pandas(rows, preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    bodies = {"json": (json.dumps({"rows": rows.to_dict("records")}).encode(), JSON), "arrow": (sink.getvalue(), ARROW)}
    model, (process, port) = aptset.load(path).models_[0], serve(path)
    seconds: dict[str, list[float]] = {"model": [], "json": [], "arrow": []}
    try:
        for _ in range(count):
            connection = Connection(port)
            seconds["model"] += timed(model.predict_proba, [rows], 1)
            for name, (body, kind) in bodies.items():
                seconds[name] += timed(post(connection, b"/v1/sets", kind), [body], 1)
    finally:
        process.kill()
    told: dict[str, Any] = {}
    for name, values in seconds.items():  # the least of rounds that take turns: others may use the machine, too
        told[f"{name}_ms"] = {"least": round(min(values) * 1e3, 2), "median": round(np.median(values) * 1e3, 2)}
    for name in bodies:
        of_rounds = np.array(seconds[name]) / seconds["model"]
        quartiles = np.percentile(of_rounds, [25, 50, 75]).round(3).tolist()
        told[f"{name}_ratio"] = {"of_least": round(min(seconds[name]) / min(seconds["model"]), 3), "rounds": quartiles}
    return told


def memory(path: Path, X: pd.DataFrame, count: int) -> dict[str, Any]:
    """Return the resident memory of the service after a tenth of the requests, and after all."""
    bodies = [json.dumps({"rows": [row]}).encode() for row in X.iloc[1200:1400].to_dict("records")]
    process, port = serve(path)
    try:
        work, sizes = post(Connection(port), b"/v1/sets"), []
        for _ in range(10):
            timed(work, bodies, count // 10)
            sizes.append(_resident(process.pid))
    finally:
        process.kill()
    return {"requests": count, "megabytes": sizes}


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def swap(where: Path, X: pd.DataFrame, y: pd.Series, count: int) -> dict[str, Any]:
    """Save other models over the one that serves, three times, while 4 connections ask."""
    from sklearn.naive_bayes import GaussianNB

    def fitted(seed: int) -> Any:
        return aptset.ConformalClassifier(GaussianNB(), random_state=seed).fit(X[:1200], y[:1200])

    path, wanted, lock = where / "swapped", dict[str, list[Any]](), threading.Lock()
    fitted(0).save(path)
    rows = X.iloc[1200:1205]
    body = json.dumps({"rows": rows.to_dict("records")}).encode()
    process, port = serve(path, "--u", "content", "--watch", "0")
    answers = list[tuple[int, bytes]]()

    def ask() -> None:
        own = Connection(port)
        for _ in range(count // 4):
            answer = own.post(b"/v1/sets", body)
            with lock:
                answers.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for seed in range(4):
        one = fitted(seed)
        one.save(path)
        process.send_signal(signal.SIGHUP)
        wanted[seed] = [row.tolist() for row in one.predict_set(rows)]  # type: ignore[index]
        while len(answers) < count * (seed + 1) / 5:
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    process.kill()
    failed = sum(status != 200 for status, _ in answers)
    said = [json.loads(content)["answers"] for status, content in answers if status == 200]
    mixed = sum(
        len({one["model"] for one in several}) > 1 or [one["set"] for one in several] not in wanted.values()
        for several in said
    )
    models = len({several[0]["model"] for several in said})
    return {"requests": len(answers), "failed": failed, "mixed": mixed, "models": models}


def kill(path: Path, X: pd.DataFrame, y: pd.Series) -> dict[str, int]:
    """Kill the service in the middle of feedback; return what was acknowledged, and what is known after a restart."""
    feedback = str(path.with_name("killed.sqlite"))
    process, port = serve(path, "--feedback", feedback)
    rows, acknowledged = X.iloc[:1000].to_dict("records"), 0
    Connection(port).post(b"/v1/sets", json.dumps({"rows": rows, "ids": list(range(1000))}).encode())
    own = Connection(port)
    threading.Timer(1.0, process.kill).start()
    try:
        for number in range(1000):
            body = json.dumps({"id": number, "label": int(y[number])}).encode()
            acknowledged += own.post(b"/v1/feedback", body)[0] == 200
    except OSError:
        pass
    process.wait()
    process, port = serve(path, "--feedback", feedback)
    body = json.dumps(
        {"feedback": [{"id": number, "label": int(y[number])} for number in range(acknowledged)]}
    ).encode()
    said = json.loads(Connection(port).post(b"/v1/feedback", body)[1])
    process.kill()
    return {"acknowledged": acknowledged, "known_after_kill": said["repeated"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=["one", "half", "thousand", "swap", "kill", "memory"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        paths, X, y = folders(where)
        work = {
            "one": lambda: one_row(paths, X, 300, options.rounds),
            "half": lambda: half_load(paths["logistic"], X, 4000),
            "thousand": lambda: thousand_rows(paths["forest"], X, 12 * options.rounds),
            "swap": lambda: swap(where, X, y, 6000),
            "kill": lambda: kill(paths["logistic"], X, y),
            "memory": lambda: memory(paths["logistic"], X, options.requests),
        }
        told: dict[str, Any] = {}
        for name in options.only:
            told[name] = work[name]()
            print(name, json.dumps(told[name]), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
