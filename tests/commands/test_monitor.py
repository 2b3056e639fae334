"""aptset monitor: a growing file of outcomes, the state beside it, and what it refuses."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import aptset
from aptset.commands.cli import main


@pytest.fixture
def outcomes(tmp_path):
    """Give a calibration, and a function that writes so many rows of sets with their labels, the later ones wrong."""
    generator = np.random.default_rng(5)
    probabilities = generator.dirichlet([1.0] * 3, size=900)
    labels = np.array(["a", "b", "c"])[(probabilities.cumsum(axis=1) > generator.random((900, 1))).argmax(axis=1)]
    calibration = aptset.calibrate(probabilities[:300], labels[:300], classes=["a", "b", "c"], random_state=0)
    calibration.save(tmp_path / "cal.aptset")
    sets = calibration.predict_set(probabilities[300:], 0.1)
    covered = sets.covers(labels[300:])

    def write(rows, wrong_from=600, name="outcomes.parquet"):
        lists = [sets[i].tolist() if i < wrong_from else [] for i in range(rows)]
        pq.write_table(
            pa.table({"set": pa.array(lists, pa.list_(pa.string())), "y": labels[300 : 300 + rows]}), tmp_path / name
        )
        return [str(tmp_path / name), "--label", "y", "-c", str(tmp_path / "cal.aptset")]

    return tmp_path, write, covered


def monitor(*arguments):
    return CliRunner().invoke(main, ["monitor", *map(str, arguments), "--json", "--quiet"])


def test_a_growing_file_in_pieces_is_the_file_at_once(outcomes):
    folder, write, covered = outcomes
    for rows in (100, 100, 350, 600):
        found = monitor(*write(rows), "--state", folder / "state.json")
        assert found.exit_code == 0, found.output
    at_once = json.loads(monitor(*write(600)).output)
    assert json.loads(found.output) == at_once
    by_hand = aptset.CoverageMonitor(300, 0.1).update(covered)
    assert (at_once["rows"], at_once["misses"], at_once["log_evidence"]) == (600, by_hand.misses, by_hand.log_evidence)


def test_an_alarm_has_an_exit_status_of_its_own_and_stays(outcomes):
    folder, write, _ = outcomes
    found = monitor(*write(500, wrong_from=300), "--state", folder / "state.json")
    assert found.exit_code == 3
    assert 300 < json.loads(found.output)["alarmed_at"] < 340
    assert monitor(*write(500, wrong_from=300), "--state", folder / "state.json").exit_code == 3
    text = CliRunner().invoke(main, ["monitor", *write(500, wrong_from=300)]).output
    assert text.startswith("ALARM at row 3")


def test_sets_by_label_are_watched_by_label(outcomes):
    folder, write, _ = outcomes
    arguments = write(600)
    table = pq.read_table(arguments[0])
    probabilities = np.random.default_rng(1).dirichlet([1.0] * 3, size=200)
    by_label = aptset.calibrate(
        probabilities, np.repeat(["a", "b", "c"], [80, 60, 60]), classes=["a", "b", "c"], groups="label"
    )
    by_label.save(folder / "cal.aptset")
    found = json.loads(monitor(*arguments).output)
    assert found["n"] == {"a": 80, "b": 60, "c": 60}
    assert found["rows"] == table.num_rows


def test_what_does_not_fit_together_is_refused_in_words(outcomes):
    folder, write, _ = outcomes
    state = folder / "state.json"
    assert monitor(*write(300), "--state", state).exit_code == 0
    before = state.read_bytes()
    shorter = monitor(*write(200), "--state", state)
    assert shorter.exit_code == 1
    assert "must hold the 300 rows that the monitor has seen" in shorter.output
    other = monitor(*write(400), "--state", state, "--alpha", "0.2")
    assert other.exit_code == 1
    assert "alpha 0.1 there and 0.2 here" in other.output
    assert state.read_bytes() == before
    state.write_text("{}")
    assert "is not the state of a monitor" in monitor(*write(400), "--state", state).output
    same = monitor(*write(400), "--state", folder / "outcomes.parquet")
    assert same.exit_code == 1


@pytest.mark.parametrize("alphabet", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("unfinished", ["a", "a|c{}", "a|c{}b", '"a|'])
def test_a_line_waits_wherever_its_writer_is_and_however_it_is_written(outcomes, unfinished, separator, alphabet):
    folder, _, _ = outcomes
    arguments = ["--label", "y", "-c", folder / "cal.aptset", "--state", folder / "state.json"]
    path = folder / "outcomes.csv"
    begun = "set,y\na|b,a\nb,b\n".replace(",", separator)
    path.write_bytes((begun + unfinished.format(separator)).encode(alphabet))
    found = monitor(path, *arguments)
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["rows"] == 2
    path.write_bytes((begun + f"a|c{separator}c\n").encode(alphabet))
    found = json.loads(monitor(path, *arguments).output)
    assert (found["rows"], found["misses"]) == (3, 0)


def test_a_line_that_is_being_written_waits(outcomes):
    folder, _, _ = outcomes
    arguments = ["--label", "y", "-c", folder / "cal.aptset", "--state", folder / "state.json"]
    path = folder / "outcomes.csv"
    path.write_text("set,y\na|b,a\nb,b\na|c,b")  # the label may go on: "bear"
    assert json.loads(monitor(path, *arguments).output)["rows"] == 2
    path.write_text("set,y\na|b,a\nb,b\na|c,c\nc,c\n")
    found = json.loads(monitor(path, *arguments).output)
    assert (found["rows"], found["misses"]) == (4, 0)
    assert json.loads(monitor(path, *arguments[:-2]).output)["rows"] == 4
