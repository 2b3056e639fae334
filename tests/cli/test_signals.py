"""Signals, closed pipes and kills, with real processes: clean ends, and nothing left behind."""

import os
import signal
import subprocess
import time
from contextlib import ExitStack

import numpy as np
import pytest

from shell import APTSET, run, table

TEXT = "p_a,p_b,y\n" + "0.5,0.5,a\n" * 20
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def heed_signals():
    """Undo what nohup, or a shell in the background, has told the tests to ignore."""
    for number in STATUS:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def start():
    """Start commands; what they wrote to is closed when the test is over."""
    with ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        pipes["preexec_fn"] = heed_signals
        yield lambda *arguments, **options: stack.enter_context(
            subprocess.Popen([APTSET, *map(str, arguments)], **{**pipes, **options})
        )


def wait_for(condition):
    for _ in range(18_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


@pytest.fixture(scope="module")
def long_file(tmp_path_factory):
    """Hold rows enough for a signal to meet them being written."""
    path = tmp_path_factory.mktemp("long") / "long.parquet"
    table(2000, 1).iloc[np.arange(200_000) % 2000, :3].to_parquet(path)
    return path


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_while_standard_input_is_read_leaves_nothing(tmp_path, number, start):
    place = tmp_path / "tmp"
    place.mkdir()
    arguments = ("calibrate", "-", "--label", "y", "--prefix", "p_", "-o", tmp_path / "c.aptset")
    process = start(*arguments, env={**os.environ, "TMPDIR": str(place)})
    process.stdin.write(TEXT)
    process.stdin.flush()
    wait_for(lambda: list(place.iterdir()))
    process.send_signal(number)
    assert process.wait() == STATUS[number]
    assert process.stderr.read() == ""
    assert not list(place.iterdir())
    assert not (tmp_path / "c.aptset").exists()


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_while_writing_leaves_the_old_file_and_no_other(folder, long_file, number, start):
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    (folder / "s.parquet").write_text("old")
    common = ("predict", long_file, "-c", folder / "c.aptset", "-o", folder / "s.parquet", "--prefix", "p_")
    process = start(*common, "--batch-rows", "1")
    wait_for(lambda: list(folder.glob(".s.parquet*tmp")))
    process.send_signal(number)
    assert process.wait() == STATUS[number]
    assert process.stderr.read() == ""
    assert not list(folder.glob(".s.parquet*tmp"))
    assert (folder / "s.parquet").read_text() == "old"


def test_what_a_kill_leaves_is_taken_over_by_the_next_run(folder, long_file, start):
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    (folder / "s.parquet").write_text("old")
    common = ("predict", long_file, "-c", folder / "c.aptset", "-o", folder / "s.parquet", "--prefix", "p_")
    process = start(*common, "--batch-rows", "1")
    wait_for(lambda: list(folder.glob(".s.parquet*tmp")))
    process.kill()
    process.wait()
    assert list(folder.glob(".s.parquet*tmp")), "a kill cannot clean up"
    assert (folder / "s.parquet").read_text() == "old"
    run(*common)
    assert not list(folder.glob(".s.parquet*tmp"))


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_during_start_up_prints_no_traceback(tmp_path, number, start):
    """A stand-in for click says when it is being loaded, and takes its time."""
    (tmp_path / "click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    process = start("plan", env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"})
    assert process.stdout.readline() == "loading\n"
    process.send_signal(number)
    assert process.wait() == STATUS[number]
    assert process.stderr.read() == ""


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path, start):
    (tmp_path / "click.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(1)\nraise SystemExit(7)\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    process = start("plan", env=env, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    assert process.wait() == 7


def test_a_closed_pipe_is_no_error(start):
    process = start("plan", stdin=None)
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == ""


def test_closed_standard_input_and_evaluate_from_it():
    done = subprocess.run(
        ["sh", "-c", f"'{APTSET}' evaluate - --label y <&-"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "Error: - must be standard input that is open; it is closed. Pipe data in, or name a file.\n"
    done = run("evaluate", "-", "--label", "y", input="y,set\na,a|b\nb,a\n")
    assert "(1 of 2)" in done.stdout
