"""What turns out true later: recorded once, in any order, and judged in the order of asking."""

import sqlite3
import threading
import time
from datetime import timedelta
from itertools import count

import numpy as np
import pytest

import aptset
from aptset.serve import store
from service import fitted, people, records


def evidence_of(client, name="coverage"):
    state = client.get("/v1/monitor")[name]
    return state["rows"], state["misses"], state["log_evidence"], state["waiting"], state["unlabelled"]


def number_of(monitor):
    return monitor.rows, monitor.misses, monitor.log_evidence, monitor.n_waiting, monitor.unlabelled


def test_a_repeated_request_gets_the_same_set_and_is_recorded_once(serve):
    client, (X, _) = serve(u="fresh"), people(30, 1)
    rows, ids = records(X), [f"r{number}" for number in range(30)]
    first = client.sets(rows[:20], ids=ids[:20])
    assert client.sets(rows, ids=ids)[:20] == first
    assert client.sets([{**rows[3], "id": "r3"}]) == first[3:4]
    assert {one["u"] for one in first} == {"fresh"}
    assert client.get("/v1/monitor")["asked"] == 30


def test_an_id_that_comes_with_something_else_is_a_conflict(serve):
    client, (X, _) = serve(), people(2, 1)
    first, other = records(X)
    client.sets([first], ids=["a"])
    for content in ({"rows": [other], "ids": ["a"]}, {"rows": [first], "ids": ["a"], "alpha": 0.2}):
        status, _, said = client.ask("/v1/sets", content)
        assert (status, "'a' was asked before" in said["detail"]) == (409, True)
    assert client.ask("/v1/sets", {"rows": [first, other], "ids": ["b", "b"]})[0] == 422
    assert client.get("/v1/monitor")["asked"] == 1


def test_rows_without_an_id_get_one_and_are_fresh(serve):
    client, (X, _) = serve(), people(1, 2)  # one row, of which two sets are about as likely
    several = [client.sets(records(X))[0] for _ in range(40)]
    assert {one["u"] for one in several} == {"fresh"}
    assert len({one["id"] for one in several}) == 40
    assert len({tuple(one["set"]) for one in several}) > 1, "sets are drawn anew"
    assert client.tell((several[0]["id"], "ill"))["accepted"] == 1


def test_rows_of_a_request_are_known_by_the_ids_that_it_gave_them(serve, classifier):
    """Rows with and without ids of the client in one request, labelled in another order, are judged as asked."""
    client, (X, y) = serve(error=0.4, mature=None), people(90, 21)
    ids = [f"c{number}" if number % 3 else None for number in range(90)]
    said = client.sets(records(X[:60]), ids=ids[:60]) + client.sets(records(X[60:]))
    assert [one["id"] for one in said[:60] if one["u"] == "id"] == [id_ for id_ in ids[:60] if id_]
    assert {one["u"] for one in said[60:]} == {"fresh"}
    assert len({one["id"] for one in said}) == 90
    order = np.random.default_rng(0).permutation(90)
    assert client.tell(*[(said[number]["id"], y[number]) for number in order])["accepted"] == 90
    covered = [label in one["set"] for label, one in zip(y, said, strict=True)]
    assert evidence_of(client) == number_of(classifier.calibration_.monitor(0.1).update(covered))
    wrong = [label != one["guess"] for label, one in zip(y, said, strict=True) if one["act"]]
    assert evidence_of(client, "error") == number_of(aptset.ErrorMonitor(0.4).update(wrong))


def test_an_id_that_the_service_gave_is_no_id_for_something_else(serve):
    client, (X, _) = serve(), people(3, 22)
    given = client.sets(records(X), ids=[None, "own", None])[0]["id"]
    token = given.removesuffix("-0")
    assert client.ask("/v1/sets", {"rows": records(X[:1]), "ids": [given]})[0] == 409
    for id_ in (f"{token}-1", f"{token}-3", f"{token}-02", f"{token}-", token, f"{'0' * 32}-0"):
        assert client.ask("/v1/feedback", {"id": id_, "label": "ill"})[0] == 404
    assert client.tell((f"{token}-2", "ill"), ("own", "ill"))["accepted"] == 2
    assert client.sets(records(X[:1]), ids=[f"{'0' * 32}-0"])[0]["id"] == f"{'0' * 32}-0", "an id like any other"
    assert client.tell((f"{'0' * 32}-0", "ill"))["accepted"] == 1


def test_an_id_that_somebody_else_records_meanwhile_gets_their_answer(serve, monkeypatch):
    client, (X, _) = serve(u="fresh"), people(40, 23)
    rows, ids, store = records(X), [f"m{number}" for number in range(40)], client.service.store
    first = client.sets(rows[:20], ids=ids[:20])
    known, looks = store.known, []
    monkeypatch.setattr(store, "known", lambda given: looks.append(1) or (known(given) if len(looks) > 1 else {}))
    assert client.sets(rows, ids=ids)[:20] == first
    assert len(looks) == 2
    assert client.get("/v1/monitor")["asked"] == 40


def test_feedback_counts_once_and_all_or_nothing(serve):
    client, (X, y) = serve(), people(10, 1)
    client.sets(records(X), ids=list(range(10)))
    pairs = list(zip(range(10), y.tolist(), strict=True))
    assert client.tell(*pairs[:4]) == {"accepted": 4, "repeated": 0, "unknown_labels": []}
    assert client.tell(*pairs[:6]) == {"accepted": 2, "repeated": 4, "unknown_labels": []}
    other = next(label for label in ("ill", "well") if label != y[0])
    for wrong, status in ((("0", other), 409), (("never", "ill"), 404)):
        content = {"feedback": [{"id": 7, "label": "ill"}, dict(zip(("id", "label"), wrong, strict=True))]}
        assert client.ask("/v1/feedback", content)[0] == status
    assert client.get("/v1/monitor")["labels"] == 6, "nothing of what was refused"
    assert client.tell((8, "a new label"))["unknown_labels"] == ["a new label"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_are_judged_in_the_order_of_asking_however_labels_come(serve, classifier, seed):
    """Wrong guesses are labelled first here: judged as they come, they would be an alarm at once."""
    client, (X, y) = serve(error=0.4, mature=None), people(240, 11 + seed)
    said = client.sets(records(X), ids=[f"o{number}" for number in range(240)])
    covered = [label in one["set"] for label, one in zip(y, said, strict=True)]
    generator = np.random.default_rng(seed)
    arrival = np.argsort(np.where(covered, 1000, 0) + generator.permutation(240))
    for numbers in np.array_split(arrival[:-1], 7):
        client.tell(*[(f"o{number}", y[number]) for number in numbers])
        client.get("/v1/monitor")
    first = int(arrival[-1])
    reference = classifier.calibration_.monitor(0.1).update(covered[:first])
    assert evidence_of(client)[:3] == number_of(reference)[:3]
    assert evidence_of(client)[3] == 239 - first
    client.tell((f"o{first}", y[first]))
    assert evidence_of(client) == number_of(reference.update(covered[first:]))
    assert client.get("/v1/monitor")["coverage"]["alarmed_at"] is None
    wrong = [label != one["guess"] for label, one in zip(y, said, strict=True) if one["act"]]
    assert evidence_of(client, "error") == number_of(aptset.ErrorMonitor(0.4).update(wrong))


def test_rows_are_given_up_after_so_many_predictions_and_labels_after_that_are_not_judged(serve, classifier):
    client, (X, y) = serve(mature=50), people(120, 3)
    said = client.sets(records(X), ids=list(range(120)))
    covered = [label in one["set"] for label, one in zip(y, said, strict=True)]
    client.tell(*[(number, y[number]) for number in range(70, 120)])  # the first 70 are too old
    reference = classifier.calibration_.monitor(0.1, mature=50).update(covered[70:], order=range(70, 120), now=119)
    assert evidence_of(client) == number_of(reference)
    assert client.get("/v1/monitor")["coverage"]["unlabelled"] == 70
    assert client.tell(*[(number, y[number]) for number in range(70)])["accepted"] == 70
    assert evidence_of(client) == number_of(reference)
    assert client.get("/v1/monitor")["too_old"] == 70


def test_rows_are_given_up_after_a_time(serve, classifier):
    client, (X, y) = serve(mature=timedelta(seconds=1)), people(40, 4)
    said = client.sets(records(X), ids=list(range(40)))
    covered = [label in one["set"] for label, one in zip(y, said, strict=True)]
    client.tell(*[(number, y[number]) for number in range(10, 40)])
    assert evidence_of(client)[:2] == (0, 0)
    time.sleep(1.1)
    rows, misses, *_, unlabelled = evidence_of(client)
    assert (rows, misses, unlabelled) == (30, covered[10:].count(False), 10)
    client.tell((0, y[0]))
    assert client.get("/v1/monitor")["too_old"] == 1


def test_a_restart_forgets_nothing_and_may_not_wait_otherwise(serve, tmp_path):
    client, (X, y) = serve(mature=100), people(60, 5)
    client.sets(records(X), ids=list(range(60)))
    client.tell(*[(number, y[number]) for number in range(0, 60, 2)])
    before = client.get("/v1/monitor")
    client.stop()
    again = serve(mature=100)
    assert again.get("/v1/monitor") == before
    again.tell(*[(number, y[number]) for number in range(60)])
    assert evidence_of(again)[0] == 60
    with pytest.raises(ValueError, match="--mature must stay what it was"):
        serve(mature=99)


def test_the_monitor_looks_at_its_own_level_whatever_was_asked(serve, classifier):
    client, (X, y) = serve(mature=None), people(100, 6)
    ids = [str(number) for number in range(100)]
    client.sets(records(X), ids=ids, alpha=0.5)
    client.tell(*zip(ids, y.tolist(), strict=True))
    covered = classifier.predict_set(X, 0.1, ids=ids).covers(y)
    assert evidence_of(client) == number_of(classifier.calibration_.monitor(0.1).update(covered))


@pytest.mark.parametrize("settings", [{"groups": "label"}, {"by_region": True}])
def test_groups_have_their_own_odds(serve, tmp_path, settings):
    classifier, (X, y) = fitted(**settings), people(150, 7)
    classifier.save(tmp_path / "groups")
    client, ids = serve(tmp_path / "groups", mature=None), [str(number) for number in range(150)]
    regions = np.where(X["age"] > 0, "south", "north").tolist() if "by_region" in settings else None
    client.sets(records(X), ids=ids, groups=regions)
    client.tell(*zip(reversed(ids), reversed(y.tolist()), strict=True))
    covered = classifier.predict_set(X, 0.1, ids=ids, groups=regions).covers(y)
    reference = classifier.calibration_.monitor(0.1).update(covered, groups=y.tolist() if regions is None else regions)
    assert evidence_of(client) == number_of(reference)


def test_what_follows_no_law_is_served_and_says_why_it_is_not_monitored(serve, tmp_path):
    fitted(calibration="cv+").save(tmp_path / "folds")
    client, (X, y) = serve(tmp_path / "folds"), people(5, 7)
    client.sets(records(X), ids=list(range(5)))
    assert client.tell(*enumerate(y.tolist()))["accepted"] == 5
    assert "coverage is not monitored" in client.get("/v1/monitor")["coverage"]["reason"]
    assert "aptset_feedback_labels" in client.get("/metrics")


def test_old_rows_are_forgotten_and_labels_are_kept(serve, tmp_path):
    client, (X, y) = serve(keep=timedelta(0)), people(4, 8)
    client.sets(records(X), ids=list(range(4)))
    client.tell((0, y[0]))
    made = client.sets(records(X))[0]["id"]
    client.service.store.tidy(timedelta(0))
    for id_ in (1, made):
        assert client.ask("/v1/feedback", {"id": id_, "label": "ill"})[0] == 404
    assert client.get("/v1/monitor")["labels"] == 1
    with client.service.store._reads.reading() as sqlite:
        assert sqlite.execute("SELECT (SELECT count(*) FROM ids) + (SELECT count(*) FROM requests)").fetchone() == (0,)


def test_the_log_begins_anew_although_somebody_always_writes(tmp_path, monkeypatch):
    """A checkpoint that leaves the log alone while others write lets it grow, and its index in memory, without end."""
    monkeypatch.setattr(store, "_LONG_LOG", 50)
    written, stop = store.FeedbackStore(tmp_path / "busy.sqlite", None), threading.Event()
    model, log = written.number_of("m", ["a"]), tmp_path / "busy.sqlite-wal"

    def write():
        for number in count():
            rows = store.AskedRows(f"{number:032x}", [None], [""], [b'{"id": ""}' * 100], None, None, None)
            assert written.record(model, rows)
            if stop.is_set():
                break

    writer, sizes = threading.Thread(target=write), []
    writer.start()
    for _ in range(20):
        time.sleep(0.02)
        written.tidy(None)
        sizes.append(log.stat().st_size)
    stop.set()
    writer.join()
    assert min(sizes[5:]) < 50 * 4096, "cut back again and again"
    written.close()


def test_a_file_that_is_no_store_is_refused(serve, tmp_path):
    (tmp_path / "other").write_text("this is no SQLite file, but it is long enough to be taken for one" * 20)
    with pytest.raises(ValueError, match=r"--feedback .* must be a SQLite file"):
        serve(feedback=tmp_path / "other")
    serve(feedback=tmp_path / "older").stop()
    with sqlite3.connect(tmp_path / "older") as older:
        older.execute("UPDATE facts SET value = '1' WHERE name = 'format'")
    older.close()
    with pytest.raises(ValueError, match="another version of aptset"):
        serve(feedback=tmp_path / "older")


def test_feedback_is_written_through(serve, tmp_path):
    client = serve()
    with client.service.store._labels.reading() as sqlite:
        assert sqlite.execute("PRAGMA synchronous").fetchone() == (2,)
        assert sqlite.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sqlite3.sqlite_version_info >= (3, 35)
