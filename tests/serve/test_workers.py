"""Real processes: signals, kills, and workers that share what they know."""

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


def test_a_kill_in_the_middle_loses_no_feedback_that_was_acknowledged(start):
    (process, port), (X, y) = start("--workers", 2, "--mature", "never"), people(400, 1)
    client, acknowledged = Client(port), []
    client.sets(records(X), ids=list(range(400)))

    def tell():
        own = Client(port)
        for number in range(400):
            try:
                own.tell((number, y[number]))
            except OSError:
                return
            acknowledged.append(number)

    teller = threading.Thread(target=tell)
    teller.start()
    while len(acknowledged) < 60:
        time.sleep(0.005)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
    for pid in [process.pid, *map(int, children.split())]:
        subprocess.run(["kill", "-9", str(pid)], check=False)
    teller.join()
    process.wait()
    _, port = start("--mature", "never")
    again = Client(port)
    kept = again.get("/v1/monitor")
    assert kept["asked"] == 400
    assert len(acknowledged) <= kept["labels"] <= len(acknowledged) + 1 < 400
    assert again.tell(*[(number, y[number]) for number in acknowledged])["repeated"] == len(acknowledged)


def test_workers_share_feedback_load_anew_and_finish_what_they_began(start, tmp_path):
    fitted(seed=3).save(tmp_path / "model")
    (process, port), (X, y) = start("--workers", 2, "--watch", 0, model=tmp_path / "model"), people(200, 2)
    first = {Client(port).get("/v1/model")["model"] for _ in range(4)}
    fitted(seed=4).save(tmp_path / "model")
    process.send_signal(signal.SIGHUP)
    while {Client(port).get("/v1/model")["model"] for _ in range(8)} & first:
        time.sleep(0.05)
    for number in range(20):  # each on a connection of its own, to whoever takes it
        Client(port).sets(records(X[10 * number : 10 * number + 10]), ids=list(range(10 * number, 10 * number + 10)))
    for number in range(0, 200, 20):
        Client(port).tell(*[(one, y[one]) for one in range(number, number + 20)])
    states = [Client(port).get("/v1/monitor") for _ in range(6)]
    assert all(state == states[0] for state in states)
    assert states[0]["labels"] == states[0]["coverage"]["rows"] + states[0]["coverage"]["waiting"] == 200
    answers = []
    rows = records(people(5000, 3)[0])
    client = threading.Thread(target=lambda: answers.append(Client(port).sets(rows)))
    client.start()
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    client.join()
    assert [len(one) for one in answers] == [5000]
    assert process.wait(20) == 0


def test_what_cannot_be_served_is_one_line(tmp_path, folder):
    assert "no such folder" in failure("serve", tmp_path / "nowhere")
    assert "--mature must be a whole number" in failure("serve", folder, "--mature", "soon")
