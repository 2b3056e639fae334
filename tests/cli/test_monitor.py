"""aptset monitor: a growing file of outcomes, the state beside it, and what it refuses."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import aptset
from aptset.arrow.formats import delimited, table_file
from aptset.cli import monitor_jobs
from aptset.cli.main import main
from forging import forge, taken_apart


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
    assert "must begin with the 300 rows that the monitor has seen; it has 200 rows" in shorter.output
    other = monitor(*write(400), "--state", state, "--alpha", "0.2")
    assert other.exit_code == 1
    assert "alpha 0.1 there and 0.2 here" in other.output
    assert state.read_bytes() == before
    state.write_text("{}")
    assert "is no intact aptset artefact: not a readable file" in monitor(*write(400), "--state", state).output
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


def log_of(path, first, rows, misses):
    """Write outcomes with ids from ``first`` on; every so often ("misses" of 100 rows) the set misses its label."""
    sets = ["b|c" if number * misses % 100 < misses else "a|b" for number in range(rows)]
    ids = range(first, first + rows)
    if path.suffix == ".csv":
        path.write_text("id,set,y\n" + "".join(f"{i},{one},a\n" for i, one in zip(ids, sets, strict=True)))
    else:
        lists = pa.array([one.split("|") for one in sets], pa.list_(pa.string()))
        pq.write_table(pa.table({"id": ids, "set": lists, "y": ["a"] * rows}), path)
    return path


@pytest.fixture
def watched(outcomes):
    folder = outcomes[0]
    return folder, ["--label", "y", "-c", folder / "cal.aptset", "--state", folder / "state.json"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_log_that_was_rotated_is_refused_and_counted_as_new_when_that_is_said(watched, ending):
    folder, arguments = watched
    path = folder / f"outcomes{ending}"
    assert monitor(log_of(path, 0, 3000, misses=10), *arguments).exit_code == 0
    state = (folder / "state.json").read_bytes()
    for rows in (2000, 3000, 4000):
        told = monitor(log_of(path, 3000, rows, misses=47), *arguments)
        assert told.exit_code == 1
        assert "outcomes" + ending + " must begin with the 3,000 rows that the monitor has seen" in told.output
        assert "If the log was rotated, and every row in it is new, pass --rotated once" in told.output
        assert (folder / "state.json").read_bytes() == state
    found = monitor(path, *arguments, "--rotated")
    assert found.exit_code == 3, "47 % are missed"
    assert json.loads(found.output)["rows"] == 7000
    at_once = aptset.CoverageMonitor(300, 0.1)
    for rows, misses in ((3000, 10), (4000, 47)):
        at_once.update(np.arange(rows) * misses % 100 >= misses)
    assert json.loads(found.output)["log_evidence"] == at_once.log_evidence
    again = monitor(path, *arguments, "--rotated")
    assert again.exit_code == 1
    assert "Leave --rotated out" in again.output
    assert json.loads(monitor(log_of(path, 3000, 4100, misses=47), *arguments).output)["rows"] == 7100


def test_a_new_log_may_be_empty_at_first(watched):
    folder, arguments = watched
    path = folder / "outcomes.csv"
    monitor(log_of(path, 0, 300, misses=10), *arguments)
    path.write_text("id,set,y\n")
    assert monitor(path, *arguments).exit_code == 1
    assert json.loads(monitor(path, *arguments, "--rotated").output)["rows"] == 300
    assert json.loads(monitor(log_of(path, 300, 50, misses=10), *arguments).output)["rows"] == 350


def test_a_row_that_was_changed_in_any_column_is_noticed(watched):
    folder, arguments = watched
    path = folder / "outcomes.csv"
    monitor(log_of(path, 0, 300, misses=10), *arguments)
    text = path.read_text()
    for before, after in (("\n7,", "\n8,"), ("a|b,a", "b|a,a"), ("a|b,a", "a|b,b"), ("\n9,a|b,a\n", "\n")):
        path.write_text(text.replace(before, after, 1) + "300,a|b,a\n")
        assert "its first 300 rows are others" in monitor(path, *arguments).output
    path.write_text(text.replace("id,set,y", "number,set,y"))
    assert "it lacks their columns 'id'. If the log was rotated" in monitor(path, *arguments).output
    path.write_text(text + "300,a|b,a\n")
    assert json.loads(monitor(path, *arguments).output)["rows"] == 301


def test_the_same_rows_in_another_shape_are_the_same_rows(watched):
    """Whoever appends to parquet writes it anew: other row groups, another order of columns, a column more, floats."""
    folder, arguments = watched
    path = log_of(folder / "outcomes.parquet", 0, 300, misses=10)
    monitor(path, *arguments)
    table = pq.read_table(log_of(path, 0, 400, misses=10))
    ids = pa.array([float(number) if number < 350 else None for number in range(400)])
    coded = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int8()), pa.array(["a"]))
    new = pa.table({"more": ["x"] * 400, "y": coded, "id": ids, "set": table["set"]})
    pq.write_table(new, path, row_group_size=70)
    found = monitor(path, *arguments)
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["rows"] == 400
    path.rename(folder / "moved.parquet")
    assert json.loads(monitor(folder / "moved.parquet", *arguments).output)["rows"] == 400


def test_another_calibration_of_the_same_size_is_refused(watched):
    folder, arguments = watched
    path = log_of(folder / "outcomes.csv", 0, 300, misses=10)
    monitor(path, *arguments)
    probabilities = np.random.default_rng(8).dirichlet([1.0] * 3, size=300)
    aptset.calibrate(probabilities, ["a", "b", "c"] * 100, classes=["a", "b", "c"]).save(folder / "cal.aptset")
    told = monitor(path, *arguments)
    assert told.exit_code == 1
    assert "state.json must be the state of a monitor of this calibration: calibration" in told.output
    assert "start again with another --state" in told.output


def test_another_column_of_labels_is_refused(watched):
    folder, arguments = watched
    path = log_of(folder / "outcomes.csv", 0, 300, misses=10)
    path.write_text(path.read_text().replace("\n", ",a\n").replace("id,set,y,a", "id,set,y,z"))
    monitor(path, *arguments)
    told = monitor(path, "--label", "z", *arguments[2:])
    assert told.exit_code == 1
    assert "label 'y' there and 'z' here" in told.output


def test_a_state_that_does_not_say_which_rows_it_saw_is_refused(watched):
    folder, arguments = watched
    path = log_of(folder / "outcomes.csv", 0, 300, misses=10)
    assert "--rotated needs a state file to go on with" in monitor(path, *arguments, "--rotated").output
    without = monitor(path, *arguments[:-2], "--rotated")
    assert without.exit_code == 2
    aptset.CoverageMonitor(300, 0.1).update([True] * 300).save(folder / "state.json")
    told = monitor(path, *arguments)
    assert told.exit_code == 1
    assert "state.json does not say which rows it has seen" in told.output
    (folder / "state.json").unlink()
    monitor(path, *arguments)
    facts, tensors = taken_apart(folder / "state.json")
    for name, value in (("rows", -1), ("rows", "3"), ("columns", None), ("digest", 1)):
        forge(folder / "state.json", {**facts, "log": {**facts["log"], name: value}}, tensors)
        assert "does not say which rows it has seen" in monitor(path, *arguments).output
    forge(folder / "state.json", facts, tensors)
    assert aptset.CoverageMonitor.load(folder / "state.json").rows == 300, "it is a monitor in Python, too"


def log_of_file(path, *arguments):
    return monitor_jobs.log_of(table_file(path), *arguments)


def test_rows_that_are_appended_during_a_look_wait_for_the_next(watched, monkeypatch):
    folder, arguments = watched
    path = log_of(folder / "outcomes.csv", 0, 300, misses=10)
    count = delimited.DelimitedText._count

    def and_append(file):
        rows = count(file)
        with path.open("a") as file:
            file.write("300,a|b,a\n301,a|")
        return rows

    monkeypatch.setattr(delimited.DelimitedText, "_count", and_append)
    found = monitor(path, *arguments)
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["rows"] == 300
    monkeypatch.undo()
    assert json.loads(monitor(path, *arguments).output)["rows"] == 301


def test_logs_in_a_folder_are_one_log(watched):
    """A new file a day needs no word about rotation; its last line waits there, too."""
    folder, arguments = watched
    (folder / "logs").mkdir()
    log_of(folder / "logs" / "day-1.csv", 0, 300, misses=10)
    assert json.loads(monitor(folder / "logs", *arguments).output)["rows"] == 300
    log_of(folder / "logs" / "day-2.csv", 300, 100, misses=10)
    with (folder / "logs" / "day-2.csv").open("a") as file:
        file.write("400,a|b,a")
    assert json.loads(monitor(folder / "logs", *arguments).output)["rows"] == 400
    log_of(folder / "logs" / "day-2.csv", 300, 101, misses=10)
    assert json.loads(monitor(folder / "logs", *arguments).output)["rows"] == 401
    log_of(folder / "logs" / "day-0.csv", 900, 10, misses=10)
    assert "its first 401 rows are others" in monitor(folder / "logs", *arguments).output


def test_the_digest_of_the_first_rows_is_that_of_a_file_with_these_rows_alone(tmp_path):
    """Whatever the types are, and wherever row groups end."""
    n = 60
    columns = {
        "lists": pa.array([None if i % 7 == 0 else [str(k) for k in range(i % 4)] for i in range(n)]),
        "texts": pa.array([None if i % 5 == 0 else "é" * (i % 3) for i in range(n)]),
        "coded": pa.array([None if i % 6 == 0 else f"{i % 4}" for i in range(n)]).dictionary_encode(),
        "floats": pa.array([None if i % 9 == 0 else float("nan") if i % 4 == 0 else i / 2 for i in range(n)]),
        "dates": pa.array([i * 10**9 for i in range(n)], pa.timestamp("ns")),
        "flags": pa.array([i % 2 == 0 for i in range(n)]),
        "bytes": pa.array([bytes([i, 255]) for i in range(n)], pa.binary()),
        "records": pa.array([{"a": i, "b": [i]} for i in range(n)]),
        "nothing": pa.nulls(n),
    }
    whole = pa.table(columns)
    for rows in (0, 1, 7, 33, 60):
        pq.write_table(whole.slice(0, rows), tmp_path / "first.parquet", row_group_size=9)
        alone = log_of_file(tmp_path / "first.parquet")[1]
        assert alone["rows"] == rows
        for size in (4, 11, 60):
            pq.write_table(whole, tmp_path / "whole.parquet", row_group_size=size)
            assert rows == 0 or log_of_file(tmp_path / "whole.parquet", rows)[0] == alone["digest"]
    digests = {log_of_file(tmp_path / "whole.parquet")[1]["digest"]}
    for name in columns.keys() - {"nothing"}:
        moved = pa.concat_arrays([columns[name].slice(3, 1), columns[name].slice(1)])
        pq.write_table(pa.table({**columns, name: moved}), tmp_path / "changed.parquet")
        digests.add(log_of_file(tmp_path / "changed.parquet")[1]["digest"])
    assert len(digests) == len(columns), "a change in any column tells"
    assert log_of_file(tmp_path / "first.parquet", 61)[0] == "", "there are fewer"
