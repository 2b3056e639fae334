"""A folder of sets after a kill, a change, a loss: what is finished is left alone, and the result is the same."""

import os
import subprocess
import sys
import time
from pathlib import Path

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
