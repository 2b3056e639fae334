"""aptset monitor and labels that become known in any order: columns of numbers and times, and empty cells."""

import json
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import aptset
from aptset.cli.main import main
from forging import forge, taken_apart

ROWS = 500
ASKED = [datetime(2026, 1, 1) + timedelta(hours=6) * row for row in range(ROWS)]


@pytest.fixture
def log(tmp_path):
    """Give a function that runs the monitor over some predictions, those in ``known`` with their labels."""
    generator = np.random.default_rng(2)
    probabilities = generator.dirichlet([1.0] * 3, size=300 + ROWS)
    labels = np.array(["a", "b", "c"])[
        (probabilities.cumsum(axis=1) > generator.random((len(probabilities), 1))).argmax(axis=1)
    ]
    calibration = aptset.calibrate(probabilities[:300], labels[:300], classes=["a", "b", "c"], random_state=0)
    calibration.save(tmp_path / "cal.aptset")
    sets = calibration.predict_set(probabilities[300:], 0.1)
    truth = labels[300:]

    def look(rows, *options, known=None, name="log.parquet", **changes):
        cells = [truth[row] if known is None or row in known else None for row in rows]
        columns = {
            "set": pa.array([sets[row].tolist() for row in rows], pa.list_(pa.string())),
            "y": pa.array(cells, pa.string()),
            "number": pa.array(rows, pa.int64()),
            "asked": pa.array([ASKED[row] for row in rows], pa.timestamp("us")),
        }
        table = pa.table({**columns, **changes})
        if name.endswith(".csv"):
            texts = ["|".join(members) for members in table["set"].to_pylist()]
            pa.csv.write_csv(table.set_column(0, "set", pa.array(texts)), tmp_path / name)
        else:
            pq.write_table(table, tmp_path / name)
        arguments = [str(tmp_path / name), "--label", "y", "-c", str(tmp_path / "cal.aptset"), *map(str, options)]
        return CliRunner().invoke(main, ["monitor", *arguments, "--json", "--quiet"])

    look.covered, look.state, look.truth = sets.covers(truth), tmp_path / "state.json", truth
    return look


def seen(found):
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("options", [["--order", "number", "--mature", "900"], ["--time", "asked", "--mature", "30d"]])
def test_rows_are_judged_in_the_order_of_prediction(log, options, name):
    """A log in the order in which labels became known, those of wrong guesses first, gives the same."""
    arrival = np.argsort(np.arange(ROWS) / 4 + np.where(log.covered, 25, 5), kind="stable").tolist()
    found = seen(log(arrival, *options, name=name))
    judged = ROWS if "number" in options else ROWS - 4 * 30
    by_hand = aptset.CoverageMonitor(300, 0.1, mature=900).update(log.covered[:judged])
    assert (found["rows"], found["log_evidence"]) == (judged, by_hand.log_evidence)
    assert (found["mature"], found["waiting"]) == (options[-1], ROWS - judged)


@pytest.mark.parametrize("options", [["--mature", "80"], ["--time", "asked", "--order", "number", "--mature", "20d"]])
def test_cells_that_are_still_empty_are_waited_for_and_filled(log, options):
    options = [*options, "--state", log.state]
    known = set(range(100)) - {40}
    found = seen(log(range(100), *options, known=known))
    assert (found["rows"], found["waiting"], found["unlabelled"]) == (40, 59, 0)
    found = seen(log(range(130), *options, known=set(range(110))))
    by_hand = aptset.CoverageMonitor(300, 0.1, mature=80).update(log.covered[:110])
    assert (found["rows"], found["waiting"], found["log_evidence"]) == (110, 0, by_hand.log_evidence)


def test_cells_that_stay_empty_are_given_up_and_told(log):
    options = ["--mature", "80", "--state", log.state]
    found = seen(log(range(200), *options, known=set(range(200)) - {40, 190}))
    assert (found["rows"], found["waiting"], found["unlabelled"], found["ignored"]) == (189, 9, 1, 0)
    for _ in range(2):
        found = seen(log(range(200), *options))  # 190 is known now, and 40 too late
        assert (found["rows"], found["waiting"], found["unlabelled"], found["ignored"]) == (199, 0, 1, 1)


def test_a_growing_log_by_time_is_the_log_at_once(log):
    arrival = np.argsort(np.arange(ROWS) / 4 + np.where(log.covered, 25, 5), kind="stable").tolist()
    options = ["--time", "asked", "--mature", "30d"]
    for rows in (100, 250, 250, ROWS):
        found = seen(log(arrival[:rows], *options, "--state", log.state))
    at_once = seen(log(arrival, *options))
    assert found == at_once
    again = [*arrival, 3]  # a second row of an old time
    assert seen(log(again, *options, "--state", log.state))["ignored"] == 1


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        (["--mature", "soon"], {}, "--mature must be a whole number of predictions"),
        (["--mature", "30d"], {}, "must come together"),
        (["--time", "asked"], {}, "must come together"),
        (["--time", "asked", "--mature", "30"], {}, "must come together"),
        (["--order", "number"], {}, "must come with --mature"),
        (["--order", "numbre", "--mature", "9"], {}, "Did you mean 'number'?"),
        (["--order", "y", "--mature", "9"], {}, "must hold the number of the prediction"),
        (["--time", "y", "--mature", "9d"], {}, "must hold numbers throughout, or dates throughout"),
        (["--order", "number", "--mature", "9"], {"number": pa.array([0, 1, 1, 2])}, "1 is there twice"),
        ([], {"y": pa.array(["a", None, "a", "a"])}, "Pass --mature to wait for labels"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(log, options, changes, words):
    found = log(range(4), *options, **changes)
    assert found.exit_code != 0
    assert words in found.output


def test_other_settings_than_those_of_the_state_are_refused(log):
    assert log(range(50), "--mature", "80", "--state", log.state).exit_code == 0
    found = log(range(60), "--mature", "90", "--state", log.state)
    assert "mature 80 there and 90 here" in found.output
    found = log(range(40), "--mature", "80", "--state", log.state)
    assert "must begin with the 50 rows" in found.output


def test_a_rotated_log_goes_on_behind_the_one_before(log):
    """What waits for an old log is given up when it is mature; another log in its place is refused."""
    options = ["--mature", "80", "--state", log.state]
    assert seen(log(range(100), *options, known=set(range(100)) - {40}))["rows"] == 40
    other = log(range(100, 200), *options)
    assert "its first 100 rows are others" in other.output
    found = seen(log(range(100, 200), *options, "--rotated"))
    assert (found["rows"], found["unlabelled"], found["ignored"]) == (199, 1, 0)
    found = seen(log(range(100, 230), *options))
    assert (found["rows"], found["waiting"]) == (229, 0)


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("options", [["--order", "number", "--mature", "50"], ["--time", "asked", "--mature", "10d"]])
def test_a_label_that_was_judged_may_not_change(log, options, name):
    """Cells may be filled in later; one that was read may be neither another nor empty at the next look."""
    state = ["--state", log.state, *options]
    seen(log(range(200), *state, known={*range(200)} - {7, 30}, name=name))
    truth = log.truth[:250].tolist()
    for row, label in ((10, None), (10, "a" if truth[10] != "a" else "b"), (149, None)):
        changed = pa.array([*truth[:row], label, *truth[row + 1 :]], pa.string())
        found = log(range(250), *state, name=name, y=changed)
        assert found.exit_code == 1
        assert "must keep the labels that the monitor was given; at least one of them was changed" in found.output
    facts, tensors = taken_apart(log.state)
    seen(log(range(250), *state, known={*range(250)} - {30}, name=name))  # 7 is filled in, 30 not yet
    for damaged in ("", "AAAA", "%", None):
        forge(log.state, {**facts, "log": {**facts["log"], "judged": damaged}}, tensors)
        found = log(range(250), *state, name=name)
        assert found.exit_code == 1
        assert "must keep the labels" in found.output or "does not say which rows it has seen" in found.output


def test_labels_of_rows_that_are_not_mature_may_be_corrected(log):
    """By time alone a row waits in the file: what it says when it is mature is what is judged."""
    state = ["--state", log.state, "--time", "asked", "--mature", "10d"]
    seen(log(range(200), *state))
    truth = log.truth[:250].tolist()
    truth[190] = "a" if truth[190] != "a" else "b"
    seen(log(range(250), *state, y=pa.array(truth, pa.string())))
