"""A folder of sets after a kill, a change, a loss: what is finished is left alone, and the result is the same."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import aptset
from shell import failure, run, table

# A score of the user's own that waits, in the part of 77 rows, for as long as there is a file called hold.
SLOW = """
import pathlib, time

def score(places):
    while places.own.shape[0] == 77 and pathlib.Path("hold").exists():
        pathlib.Path("waiting").touch()
        time.sleep(0.01)
    return places.above + places.u * places.own
"""
ROWS = (30, 50, 77, 40)


@pytest.fixture
def data(tmp_path):
    """Hold four parts, and a calibration by a score that can be made to wait."""
    (tmp_path / "slow.py").write_text(SLOW)
    for number, n in enumerate(ROWS):
        path = tmp_path / "new" / f"day={number}" / ("part.csv" if number == 1 else "part.parquet")
        path.parent.mkdir(parents=True)
        frame = table(100, number).iloc[:n].drop(columns="note")
        frame.to_csv(path, index=False) if number == 1 else frame.to_parquet(path)
    table(100, 9).to_parquet(tmp_path / "val.parquet")
    calibrate(tmp_path)
    return tmp_path


def calibrate(data, *options):
    run("calibrate", "val.parquet", "--label", "y", "--prefix", "p_", "--conformity", "slow:score", "-o", "c.aptset",
        *options, cwd=data)  # fmt: skip


def predict(out, *options):
    return ("predict", "new", "-c", "c.aptset", "--prefix", "p_", "--trust", "slow", "-o", out, *options)


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def identities(folder):
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("part*") if path.is_file()}


def test_after_a_kill_the_same_command_goes_on(data):
    run(*predict("straight"), cwd=data)
    (data / "hold").touch()
    same_code = {**os.environ, "PYTHONPATH": str(Path(aptset.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-m", "aptset", *predict("sets")], cwd=data, env=same_code) as process:
        for _ in range(30_000):
            if (data / "waiting").exists() or process.poll() is not None:
                break
            time.sleep(0.01)
        assert process.poll() is None, "it waits in the third part"
        process.kill()
    (data / "hold").unlink()
    before = identities(data / "sets")
    finished = {f"day={k}" for k in (0, 1)}
    assert {path.parent.name for path in before} == finished, "two parts and their records are whole, others absent"
    assert list((data / "sets" / "day=2").glob(".*.tmp")), "a kill cannot clean up"
    told = run(*predict("sets"), cwd=data).stdout
    assert "Parts: 4, of which an earlier run had finished 2." in told
    assert {path: identity for path, identity in identities(data / "sets").items() if path in before} == before
    assert tree(data / "sets") == tree(data / "straight")


def test_nothing_is_done_twice_and_what_changed_is_done_again(data):
    run(*predict("sets"), cwd=data)
    whole, before = tree(data / "sets"), identities(data / "sets")
    calibrate(data)  # the same calibration at another time
    assert "an earlier run had finished 4." in run(*predict("sets/"), cwd=data).stdout
    assert identities(data / "sets") == before
    records = data / "sets" / "_aptset" / "parts"
    (data / "sets" / "day=0" / "part.parquet").unlink()
    (data / "sets" / "day=1" / "part.csv").write_text("damaged")
    (records / "day=2" / "part.parquet.json").write_text('{"input_size": 0}')
    assert "an earlier run had finished 1." in run(*predict("sets"), cwd=data).stdout
    assert tree(data / "sets") == whole
    source = data / "new" / "day=3" / "part.parquet"
    pd.read_parquet(source).iloc[:20].to_parquet(source)
    told = run(*predict("sets"), cwd=data).stdout
    assert told.startswith("177 sets, ")
    assert "an earlier run had finished 3." in told
    assert len(pd.read_parquet(data / "sets" / "day=3" / "part.parquet")) == 20


def test_other_settings_are_refused_and_nothing_is_touched(data):
    run(*predict("sets"), cwd=data)
    before = tree(data / "sets")
    told = failure(*predict("sets", "--alpha", "0.2"), cwd=data)
    assert told == (
        "Error: sets holds the parts of another run: alpha was [0.1], and is [0.2] now. Name another folder, or delete "
        "this one.\n"
    )
    assert "batch_rows was 65536" in failure(*predict("sets", "--batch-rows", "10"), cwd=data)
    calibrate(data, "--seed", "7")
    assert "another run: calibration was" in failure(*predict("sets"), cwd=data)
    (data / "sets" / "_aptset" / "manifest.json").write_text("[")
    assert "its manifest cannot be read" in failure(*predict("sets"), cwd=data)
    (data / "sets" / "_aptset" / "manifest.json").write_bytes(before["_aptset/manifest.json"])
    assert tree(data / "sets") == before


def test_a_run_that_finished_nothing_does_not_hold_later_ones_to_its_settings(data):
    assert "alpha must be in (0, 1)" in failure(*predict("sets", "--alpha", "2"), cwd=data)
    assert not (data / "sets").exists()
    wrong = [name if name != "p_" else "q_" for name in predict("sets")]
    assert "at least 2 columns that start with 'q_'" in failure(*wrong, cwd=data)
    run(*predict("sets"), cwd=data)
    run(*predict("straight"), cwd=data)
    assert tree(data / "sets") == tree(data / "straight")


def test_runs_on_different_parts_share_a_folder(data):
    """One folder of days after the other, in any order and on any machine, is all of them at once."""
    run(*predict("all"), cwd=data)
    for names in (["new/day=3"], ["new/day=[01]/*"], ["new/day=2"]):
        done = run("predict", *names, *predict("sets")[2:], cwd=data).stdout
    assert "sets also holds 3 parts that are not among these" in done
    assert tree(data / "sets") == tree(data / "all")


def test_a_run_that_is_at_work_keeps_its_folder_from_runs_with_other_settings(data):
    """Nothing is finished yet: the manifest would be written anew, and parts of both would stand side by side."""
    (data / "hold").touch()
    same_code = {**os.environ, "PYTHONPATH": str(Path(aptset.__file__).parents[1])}
    first = [sys.executable, "-m", "aptset", "predict", "new/day=2", *predict("sets")[2:]]
    with subprocess.Popen(first, cwd=data, env=same_code) as process:
        try:
            for _ in range(30_000):
                if (data / "waiting").exists() or process.poll() is not None:
                    break
                time.sleep(0.01)
            assert process.poll() is None, "it waits in its only part"
            told = failure("predict", "new/day=0", *predict("sets", "--alpha", "0.2")[2:], cwd=data)
            assert "holds the parts of another run: alpha was [0.1], and is [0.2] now" in told
            run("predict", "new/day=1", *predict("sets")[2:], cwd=data)
        finally:
            (data / "hold").unlink()
        assert process.wait() == 0
    run(*predict("sets"), cwd=data)
    run(*predict("straight"), cwd=data)
    assert tree(data / "sets") == tree(data / "straight")


def test_a_run_that_is_at_work_keeps_its_part_from_another_input_of_the_same_name(data):
    (data / "hold").touch()
    other = data / "other" / "day=2" / "part.parquet"
    other.parent.mkdir(parents=True)
    table(100, 5).iloc[:60].drop(columns="note").to_parquet(other)
    same_code = {**os.environ, "PYTHONPATH": str(Path(aptset.__file__).parents[1])}
    first = [sys.executable, "-m", "aptset", "predict", "new/day=2", *predict("sets")[2:]]
    with subprocess.Popen(first, cwd=data, env=same_code) as process:
        try:
            for _ in range(30_000):
                if (data / "waiting").exists() or process.poll() is not None:
                    break
                time.sleep(0.01)
            told = failure("predict", "other", *predict("sets")[2:], cwd=data)
        finally:
            (data / "hold").unlink()
        assert process.wait() == 0
    assert told == (
        "Error: sets/day=2/part.parquet is being written by a run that reads another input than "
        "other/day=2/part.parquet. Name another folder by --out.\n"
    )
    run("predict", "new/day=2", *predict("straight")[2:], cwd=data)
    assert tree(data / "sets") == tree(data / "straight")


@pytest.fixture
def days(tmp_path):
    """Hold two folders with a file of the same name, length and time of change, and a calibration."""
    for number in (1, 2):
        path = tmp_path / f"day{number}" / "part.csv"
        path.parent.mkdir()
        frame = table(40, number).drop(columns=["note", "id", "y"]).round(4)
        path.write_text(frame.to_csv(index=False, float_format="%.4f"))
        os.utime(path, ns=(10**18, 10**18))
    assert len({path.stat().st_size for path in tmp_path.glob("day*/part.csv")}) == 1
    table(100, 9).to_parquet(tmp_path / "val.parquet")
    run("calibrate", "val.parquet", "--label", "y", "--prefix", "p_", "-o", "c.aptset", cwd=tmp_path)
    return tmp_path


def sets_of(name, out, *options):
    return ("predict", name, "-c", "c.aptset", "--prefix", "p_", "--normalize", "-o", out, *options)


def test_another_input_of_the_same_name_is_refused_and_nothing_is_touched(days):
    run(*sets_of("day1", "sets"), cwd=days)
    before = tree(days / "sets")
    for time_of_change in (10**18, 2 * 10**18):
        os.utime(days / "day2" / "part.csv", ns=(time_of_change, time_of_change))
        assert failure(*sets_of("day2", "sets"), cwd=days).replace(f"{days}/", "") == (
            "Error: sets/part.csv holds the sets of day1/part.csv, and this run reads day2/part.csv, whose content is "
            "another. Name another folder by --out, or delete this one.\n"
        )
    (days / "today").symlink_to("day2")
    assert "holds the sets of" in failure(*sets_of("today/*", "sets"), cwd=days), "a link leads to another input"
    pd.read_csv(days / "day2" / "part.csv").to_csv(days / "day2" / "part.csv.gz", index=False)
    assert "holds the sets of" in failure(*sets_of("day2/part.csv.gz", "sets/"), cwd=days), "it has the same output"
    assert tree(days / "sets") == before
    (days / "day2" / "part.csv.gz").rename(days / "day2" / "other.csv.gz")
    assert "sets/ also holds 1 parts" in run(*sets_of("day2/other.csv.gz", "sets/"), cwd=days).stdout


def test_the_same_bytes_under_another_name_are_the_same_input(days):
    """A job that is started again may read a fresh copy; that it did is said."""
    run(*sets_of("day1", "sets"), cwd=days)
    before = tree(days / "sets")
    (days / "day1").rename(days / "copy")
    told = run(*sets_of("copy", "sets"), cwd=days).stdout
    assert "finished 1 (1 of them from files of other names with the same bytes)." in told
    assert tree(days / "sets") == before


def test_an_input_that_changed_is_predicted_anew_in_words(days):
    run(*sets_of("day1", "sets"), cwd=days)
    path = days / "day1" / "part.csv"
    path.write_bytes((days / "day2" / "part.csv").read_bytes())
    os.utime(path, ns=(10**18, 10**18))
    done = run(*sets_of("day1", "sets", "--quiet"), cwd=days)
    assert done.stderr == ("Warning: sets: 1 part is predicted anew: part.csv (its input day1/part.csv has changed).\n")
    run(*sets_of("day2", "straight"), cwd=days)
    assert (days / "sets" / "part.csv").read_bytes() == (days / "straight" / "part.csv").read_bytes()
    os.utime(path)
    assert "an earlier run had finished 1." in run(*sets_of("day1", "sets"), cwd=days).stdout, "only touched"


def test_an_output_that_is_not_as_it_was_written_is_noticed(days):
    run(*sets_of("day1", "sets"), cwd=days)
    whole, path = tree(days / "sets"), days / "sets" / "part.csv"
    for damaged, why in (
        (path.read_bytes()[:-9], "it was changed or cut short"),
        (path.read_bytes()[:-9] + b"x" * 9, "it was changed or cut short"),
        (None, "it was no longer there"),
    ):
        path.write_bytes(damaged) if damaged is not None else path.unlink()
        done = run(*sets_of("day1", "sets", "--json"), cwd=days)
        assert why in done.stderr
        assert json.loads(done.stdout)["predicted_anew"] == 1
        assert tree(days / "sets") == whole
    record = days / "sets" / "_aptset" / "parts" / "part.csv.json"
    for write, why in ((record.unlink, "it has no record"), (lambda: record.write_text("{}"), "cannot be read")):
        write()
        assert why in run(*sets_of("day1", "sets"), cwd=days).stderr
        assert tree(days / "sets") == whole
    facts = json.loads(record.read_text())
    for text in ("[" * 100_000, json.dumps({**facts, "rows": -5}), json.dumps({**facts, "empty": 10**400})):
        record.write_text(text)
        assert "its record cannot be read" in run(*sets_of("day1", "sets"), cwd=days).stderr
        assert tree(days / "sets") == whole
    (days / "sets" / "_aptset" / "manifest.json").write_text("[" * 100_000)
    assert "its manifest cannot be read" in failure(*sets_of("day1", "sets"), cwd=days)


MEDDLING = """
import pathlib

def score(places):
    if pathlib.Path("meddle").exists():
        pathlib.Path("meddle").unlink()
        with open("day1/part.csv", "a") as file:
            file.write("0.2000,0.3000,0.5000\\n")
    return places.above + places.u * places.own
"""


def test_an_input_that_changes_while_it_is_read_leaves_no_sets(days):
    (days / "meddling.py").write_text(MEDDLING)
    run("calibrate", "val.parquet", "--label", "y", "--prefix", "p_", "--conformity", "meddling:score",
        "-o", "c.aptset", cwd=days)  # fmt: skip
    (days / "meddle").touch()
    told = failure(*sets_of("day1", "sets", "--trust", "meddling"), cwd=days)
    assert told == (
        "Error: day1/part.csv must stay as it is while it is read; it changed. Run the command again when nobody "
        "writes to it.\n"
    )
    assert not (days / "sets" / "part.csv").exists()
    assert "finished 0." in run(*sets_of("day1", "sets", "--trust", "meddling"), cwd=days).stdout
    assert len(pd.read_csv(days / "sets" / "part.csv")) == 41


def test_labels_that_stand_in_a_file_of_their_own_are_a_setting(tmp_path):
    frame = table(100, 9).drop(columns="note")
    np.save(tmp_path / "new.npy", frame.iloc[:, :3].to_numpy())
    np.savez(tmp_path / "val.npz", probabilities=frame.iloc[:, :3].to_numpy(), y=np.arange(100) % 3)
    run("calibrate", "val.npz", "--label", "y", "-o", "c.aptset", cwd=tmp_path)
    predict = ("predict", "new.npy", "-c", "c.aptset", "--label", "labels.npy", "-o", "sets/")
    np.save(tmp_path / "labels.npy", np.zeros(100, dtype=int))
    run(*predict, cwd=tmp_path)
    np.save(tmp_path / "labels.npy", np.ones(100, dtype=int))
    assert "sets/ holds the parts of another run: label was" in failure(*predict, cwd=tmp_path)
