"""What a service refuses, and how it says so; what it counts; and how it changes its model."""

import asyncio
import re
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from service import Client, fitted, people, records

ROW = records(people(1, 0)[0])[0]


@pytest.mark.parametrize(
    ("path", "content", "status", "words"),
    [
        ("/v1/sets", b"{", 422, "must be JSON"),
        ("/v1/sets", [], 422, 'an object with "rows"'),
        ("/v1/sets", {"rows": []}, 422, "rows must be 1 to"),
        ("/v1/sets", {"rows": [ROW] * 11}, 422, "rows must be 1 to 10"),
        ("/v1/sets", {"rows": [5]}, 422, "must be an object of features by name"),
        ("/v1/sets", {"rows": [[1, 2, 3]]}, 422, "must be an object of features by name"),
        ("/v1/sets", {"rows": [{"age": 1}]}, 422, "'height' is not there"),
        ("/v1/sets", {"rows": [ROW], "alpah": 0.1}, 422, "got 'alpah'"),
        ("/v1/sets", {"rows": [ROW], "alpha": 1.5}, 422, "alpha must be a number in (0, 1)"),
        ("/v1/sets", {"rows": [ROW], "alpha": "0.1"}, 422, "alpha must be a number in (0, 1)"),
        ("/v1/sets", {"rows": [ROW], "ids": ["a", "b"]}, 422, "one id for each row"),
        ("/v1/sets", {"rows": [ROW], "ids": [True]}, 422, "an id must be a text"),
        ("/v1/sets", {"rows": [ROW], "ids": ["x" * 201]}, 422, "an id must be a text"),
        ("/v1/sets", {"rows": [{**ROW, "age": "old"}]}, 422, "the model cannot take these rows"),
        ("/v1/sets", {"rows": [{**ROW, "age": None}]}, 422, "the model cannot take these rows"),
        ("/v1/sets", {"rows": [{**ROW, "age": {"a": 1}}]}, 422, "plain values"),
        ("/v1/sets", {"rows": [{**ROW, "age": 10**400}]}, 422, "JSON"),
        ("/v1/feedback", {"id": "a"}, 422, 'an "id" and a "label"'),
        ("/v1/feedback", {"id": "a", "label": [1]}, 422, "a label must be"),
        ("/v1/feedback", {"feedback": []}, 422, "with several of them"),
        ("/v1/feedback", {"id": "a", "label": "ill"}, 404, "never asked"),
        ("/v2/sets", {"rows": []}, 404, "nothing at /v2/sets"),
        ("/health", {}, 405, "does not take POST"),
    ],
)
def test_errors_are_one_sentence(shared, path, content, status, words):
    got, headers, said = shared.ask(path, content, {"content-type": "application/json"})
    assert (got, headers["content-type"]) == (status, "application/problem+json")
    assert (said["status"], said["type"]) == (status, "about:blank")
    assert words.lower() in said["detail"].lower()
    assert "Traceback" not in said["detail"]


@pytest.fixture(scope="module")
def shared(folder, tmp_path_factory):
    """Run one service for all errors: none of them harms it."""
    from service import Running

    running = Running(folder, tmp_path_factory.mktemp("shared") / "feedback.sqlite", most_rows=10)
    yield running
    assert running.sets([ROW], ids=["after all"])[0]["id"] == "after all"
    running.stop()


def test_pages_of_others_cannot_post_as_browsers_let_them(shared):
    """A body without a type that a browser asks permission for is refused: other sites could send it unasked."""
    assert shared.ask("/v1/sets", b"{}", {"content-type": "text/plain"})[0] == 415
    assert shared.ask("/v1/feedback", b"{}", {"content-type": "application/x-www-form-urlencoded"})[0] == 415


def test_a_body_that_is_too_large_is_read_to_its_end_and_refused(serve):
    client = serve(most_bytes=1000)
    for body in (b"x" * 1001, b"x" * 3_000_000):
        status, _, said = client.ask("/v1/sets", body, {"content-type": "application/json"})
        assert (status, "1,000 bytes at most" in said["detail"]) == (413, True)
    assert client.sets([ROW])[0]["size"] >= 0, "on the same connection"


def test_a_body_that_does_not_come_is_not_waited_for(serve):
    client = serve(timeout=0.2)
    with socket.create_connection(("127.0.0.1", client.port)) as slow:
        slow.sendall(
            b"POST /v1/sets HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_an_answer_that_takes_too_long_is_not_waited_for(serve, monkeypatch):
    client = serve(timeout=0.2)
    monkeypatch.setattr(client.service, "answer_sets", lambda *_: time.sleep(0.6))
    status, _, said = client.ask("/v1/sets", {"rows": [ROW]})
    assert (status, "longer than 0.2 seconds" in said["detail"]) == (504, True)
    assert client.get("/health") == {"status": "ok"}


def test_who_comes_when_too_many_wait_is_told_when_to_come_again(serve, monkeypatch):
    client, begun, go_on = serve(queue=2), threading.Semaphore(0), threading.Event()
    answer = client.service.answer_sets

    def slowly(*arguments):
        begun.release()
        go_on.wait(20)
        return answer(*arguments)

    monkeypatch.setattr(client.service, "answer_sets", slowly)
    waiting = [threading.Thread(target=Client(client.port).sets, args=([ROW],)) for _ in range(2)]
    for one in waiting:
        one.start()
        begun.acquire()
    status, headers, said = client.ask("/v1/sets", {"rows": [ROW]})
    assert (status, headers["retry-after"], "wait" in said["detail"]) == (503, "1", True)
    assert client.get("/health") == {"status": "ok"}, "others are answered meanwhile"
    go_on.set()
    for one in waiting:
        one.join()
    assert client.sets([ROW])


def test_a_token_is_asked_for_everywhere_but_where_nothing_is_told(serve, tmp_path):
    (tmp_path / "token").write_text("a secret of enough letters\n")
    client = serve(token_file=tmp_path / "token")
    for path in ("/v1/sets", "/v1/feedback"):
        for given in ("", "Bearer a secret of enough letter", "Basic a secret of enough letters", "Bearer ä"):
            status, headers, _ = client.ask(path, {"rows": [ROW]}, {"authorization": given.encode("latin-1")})
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert [client.ask(path)[0] for path in ("/v1/model", "/v1/monitor", "/metrics", "/openapi.json")] == [401] * 4
    assert [client.ask(path)[0] for path in ("/", "/health", "/ready")] == [200] * 3
    allowed = {"authorization": "Bearer a secret of enough letters"}
    assert client.ask("/v1/sets", {"rows": [ROW]}, allowed)[0] == 200
    (tmp_path / "short").write_text("short")
    with pytest.raises(ValueError, match="at least 16 letters"):
        serve(token_file=tmp_path / "short")


def test_the_calibration_decides_where_u_may_come_from(serve, tmp_path):
    fitted(u=np.random.default_rng(0).random(400)).save(tmp_path / "given")
    with pytest.raises(ValueError, match="--u must be fresh"):
        serve(tmp_path / "given")
    assert serve(tmp_path / "given", u="fresh").sets([ROW])[0]["u"] == "fresh"


def samples_of(text):
    """Return every number of a page for Prometheus; each line must be one as the format has it."""
    line = re.compile(r'([a-z_]+(?:\{(?:[a-z]+="[^"\\\n]*",?)*\})?) (-?[0-9.e+-]+|NaN|[+-]Inf)')
    lines = [one for one in text.splitlines() if not one.startswith("#")]
    return {line.fullmatch(one)[1]: float(line.fullmatch(one)[2]) for one in lines}


def test_metrics_count_what_happened_in_all_workers(serve, tmp_path):
    workers = [serve(run="one", mature=None) for _ in range(2)]
    X, y = people(60, 2)
    said = workers[0].sets(records(X[:40]), ids=list(range(40))) + workers[1].sets(
        records(X[40:]), ids=list(range(40, 60))
    )
    workers[1].tell(*[(number, y[number]) for number in range(60)])
    workers[0].ask("/v1/sets", {"rows": []})
    workers[0].get("/metrics")  # which shares what it has counted
    both = samples_of(workers[1].get("/metrics"))
    sizes = np.array([one["size"] for one in said])
    assert both["aptset_rows_total"] == both["aptset_set_size_count"] == 60
    assert [both[f'aptset_set_size_bucket{{le="{bound}"}}'] for bound in (0, 1, 2, "+Inf")] == [
        (sizes <= 0).sum(),
        (sizes <= 1).sum(),
        (sizes <= 2).sum(),
        60,
    ]
    assert both["aptset_empty_sets_total"] == (sizes == 0).sum()
    assert both["aptset_full_sets_total"] == (sizes == 3).sum()
    assert both['aptset_requests_total{path="/v1/sets",status="200"}'] == 2
    assert both['aptset_requests_total{path="/v1/sets",status="422"}'] == 1
    covered = np.mean([label in one["set"] for label, one in zip(y, said, strict=True)])
    (coverage,) = (value for name, value in both.items() if name.startswith("aptset_coverage{"))
    (low,) = (value for name, value in both.items() if name.startswith("aptset_coverage_low{"))
    (high,) = (value for name, value in both.items() if name.startswith("aptset_coverage_high{"))
    assert coverage == covered
    assert low < covered < high
    assert any(name.startswith("aptset_monitor_log_evidence{") for name in both)


def test_a_model_that_changes_fails_no_request_and_mixes_no_answer(serve, tmp_path, folder):
    """Every answer is that of one of the two models, wholly; and each is heard of."""
    shutil.copytree(folder, tmp_path / "model")
    client, (X, _) = serve(tmp_path / "model", watch=0.05, u="content"), people(20, 3)
    first, second = client.service.current.served, fitted(seed=5)
    wanted = {first.name: first.classifier.predict_set(X)}
    rows, answers, stop = records(X), [], threading.Event()

    def ask():
        own = Client(client.port)
        while not stop.is_set():
            status, _, said = own.ask("/v1/sets", {"rows": rows})
            answers.append((status, said))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for one in askers:
        one.start()
    time.sleep(0.3)
    second.save(tmp_path / "model")
    while client.service.current.served is first:
        time.sleep(0.02)
    time.sleep(0.3)
    stop.set()
    for one in askers:
        one.join()
    wanted[client.service.current.served.name] = second.predict_set(X)
    assert {status for status, _ in answers} == {200}
    names = [{one["model"] for one in said["answers"]} for _, said in answers]
    assert {len(several) for several in names} == {1}
    assert {*wanted} == set.union(*names)
    expected = {name: [row.tolist() for row in sets] for name, sets in wanted.items()}
    assert all([one["set"] for one in said["answers"]] == expected[said["answers"][0]["model"]] for _, said in answers)


def reloaded(service):
    """Load the folder anew, in a thread: tests with a browser leave a loop of events behind in theirs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(service.reload())).result()


def test_a_repeated_request_keeps_its_set_when_the_model_changes(serve, tmp_path, folder):
    shutil.copytree(folder, tmp_path / "model")
    client, (X, y) = serve(tmp_path / "model", mature=None), people(20, 3)
    before = client.sets(records(X), ids=list(range(20)))
    client.tell(*enumerate(y[:10].tolist()))
    fitted(seed=5).save(tmp_path / "model")
    assert reloaded(client.service)
    assert client.sets(records(X), ids=list(range(20))) == before
    assert client.tell(*enumerate(y.tolist())) == {"accepted": 10, "repeated": 10, "unknown_labels": []}
    assert client.get("/v1/monitor")["asked"] == 0, "a new model has a monitor of its own"
    shutil.copytree(folder, tmp_path / "model", dirs_exist_ok=True)
    assert reloaded(client.service)
    assert client.get("/v1/monitor")["coverage"]["rows"] == 20, "and goes on where it was"


class Stranger(GaussianNB):
    """A model of a module that nobody has vouched for."""


def test_code_of_strangers_is_not_run_and_the_old_model_stays(serve, tmp_path, folder):
    shutil.copytree(folder, tmp_path / "model")
    client = serve(tmp_path / "model", watch=0.05)
    fitted(Stranger()).save(tmp_path / "strange")
    with pytest.raises(ValueError, match="Stranger"):
        serve(tmp_path / "strange")
    before = client.get("/v1/model")["model"]
    fitted(Stranger()).save(tmp_path / "model")
    while not client.service.counters.copy().get("aptset_failed_reloads_total"):
        time.sleep(0.02)
    assert client.get("/v1/model")["model"] == before
    assert client.sets([ROW])
