"""Real processes: signals, kills, and workers that share what they know."""

import http.client
import re
import signal
import subprocess
import threading
import time
from contextlib import ExitStack

import pytest

from service import Client, fitted, people, records
from shell import APTSET, failure


@pytest.fixture
def start(folder, tmp_path):
    """Start commands and wait until they answer."""
    with ExitStack() as stack:

        def begin(*options, model=folder):
            command = [APTSET, "serve", model, "--port", "0", "--feedback", tmp_path / "feedback.sqlite", *options]
            process = stack.enter_context(subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            line = process.stderr.readline()
            port = int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1])
            return process, port

        yield begin


def test_a_kill_loses_nothing_and_workers_share_what_they_know(start, tmp_path):
    """Kill in the middle of feedback; go on with two workers, which load anew, agree, and finish what they began."""
    fitted(seed=3).save(tmp_path / "model")
    (process, port), (X, y) = start(model=tmp_path / "model"), people(300, 1)
    acknowledged = tell_until_killed(process, port, X, y)
    process, port = start("--workers", 2, "--watch", 0, model=tmp_path / "model")
    kept = Client(port).get("/v1/monitor")
    assert kept["asked"] == 300
    assert len(acknowledged) <= kept["labels"] <= len(acknowledged) + 1 < 300
    assert Client(port).tell(*[(number, y[number]) for number in acknowledged])["repeated"] == len(acknowledged)
    for start_at in range(0, 300, 30):  # each on a connection of its own, to whoever takes it
        Client(port).tell(*[(number, y[number]) for number in range(start_at, start_at + 30)])
    states = [Client(port).get("/v1/monitor") for _ in range(6)]
    assert all(state == states[0] for state in states)
    assert states[0]["coverage"]["rows"] == 300
    fitted(seed=4).save(tmp_path / "model")
    process.send_signal(signal.SIGHUP)
    while kept["model"] in {Client(port).get("/v1/model")["model"] for _ in range(8)}:
        time.sleep(0.05)
    answers, rows = [], records(people(5000, 3)[0])
    client = threading.Thread(target=lambda: answers.append(Client(port).sets(rows)))
    client.start()
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    client.join()
    assert [len(one) for one in answers] == [5000]
    assert process.wait(60) == 0


def tell_until_killed(process, port, X, y):
    """Return which feedback was acknowledged before the process was killed in the middle of it."""
    acknowledged = []
    Client(port).sets(records(X), ids=list(range(len(y))))

    def tell():
        own = Client(port)
        for number in range(len(y)):
            try:
                own.tell((number, y[number]))
            except (OSError, http.client.HTTPException):
                return
            acknowledged.append(number)

    teller = threading.Thread(target=tell)
    teller.start()
    while len(acknowledged) < 40:
        time.sleep(0.002)
    process.kill()
    teller.join()
    process.wait()
    return acknowledged


def test_what_cannot_be_served_is_one_line(tmp_path, folder):
    assert "no such folder" in failure("serve", tmp_path / "nowhere")
    assert "--mature must be a whole number" in failure("serve", folder, "--mature", "soon")
