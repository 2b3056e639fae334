"""A save that is stopped at any moment, by an error or a kill, leaves the old classifier or the new one."""

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.estimator import storage

X, y = load_iris(return_X_y=True)


def fitted(seed):
    return aptset.ConformalClassifier(GaussianNB(), random_state=seed).fit(X, y)


class Stop:
    """Lets so many operations on files pass, and stops the next one, before it or when it is half done."""

    def __init__(self, monkeypatch, folder, after, failure):
        self.folder, self.left, self.failure, self.seen = folder, after, failure, []
        for owner, name in [
            (Path, "mkdir"),
            (Path, "open"),
            (Path, "write_bytes"),
            (Path, "chmod"),
            (Path, "replace"),
            (Path, "unlink"),
            (os, "fsync"),
        ]:
            monkeypatch.setattr(owner, name, self._stopping(getattr(owner, name), name))

    def _stopping(self, real, name):
        def call(*arguments, **options):
            if isinstance(arguments[0], Path) and self.folder not in (arguments[0], *arguments[0].parents):
                return real(*arguments, **options)
            self.seen.append(name)
            if self.left == 0:
                self.left = -1  # once: whoever cleans up may work
                if name == "write_bytes":
                    real(arguments[0], arguments[1][:100])
                if name == "replace" and not isinstance(self.failure, OSError):
                    real(*arguments, **options)  # a signal may come when the work is done
                raise self.failure
            self.left -= self.left > 0
            return real(*arguments, **options)

        return call


@pytest.fixture(scope="module")
def operations(tmp_path_factory):
    """How many operations a save takes, that of a new folder and that of an old one."""
    counts, folder = {}, tmp_path_factory.mktemp("counted") / "model"
    for kind, seed in (("new", 0), ("old", 1)):
        with pytest.MonkeyPatch.context() as patch:
            stop = Stop(patch, folder, -1, OSError())
            fitted(seed).save(folder)
        counts[kind] = len(stop.seen)
        assert {"write_bytes", "fsync", "replace", "chmod"} <= set(stop.seen)
    assert "unlink" in stop.seen
    return counts


FAILURES = {"a full disk": OSError(errno.ENOSPC, "No space left on device"), "a signal": KeyboardInterrupt()}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_at_any_write_keeps_the_old_classifier_or_the_new_one(tmp_path, operations, failure):
    old, new = fitted(0), fitted(1)
    sets = {tuple(map(tuple, one.predict_set(X))): name for one, name in ((old, "old"), (new, "new"))}
    assert len(sets) == 2
    outcomes = set()
    for number in range(operations["old"]):
        folder = tmp_path / str(number)
        old.save(folder)
        with pytest.MonkeyPatch.context() as patch:
            Stop(patch, folder, number, FAILURES[failure])
            try:
                new.save(folder)
                happened = "nothing"  # what cannot be swept harms nobody
            except (OSError, KeyboardInterrupt):
                happened = "failure"
        found = sets[tuple(map(tuple, aptset.load(folder).predict_set(X)))]
        outcomes.add((happened, found))
        if happened == "nothing":
            assert found == "new"
        if found == "old":
            assert len(os.listdir(folder)) == 2, f"what operation {number} left behind: {os.listdir(folder)}"
        new.save(folder)
        assert len(os.listdir(folder)) == 2
    assert ("failure", "old") in outcomes


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_in_a_new_folder_leaves_no_folder_or_a_whole_one(tmp_path, operations, failure):
    new = fitted(1)
    for number in range(operations["new"]):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            Stop(patch, folder, number, FAILURES[failure])
            with suppress(OSError, KeyboardInterrupt):
                new.save(folder)
        if (folder / storage.FACTS).exists():
            assert aptset.load(folder).predict_set(X) == new.predict_set(X)
        else:
            assert not folder.exists(), f"operation {number} left {os.listdir(folder)}"


def test_a_folder_that_is_saved_anew_while_it_is_read_gives_the_new_one(tmp_path, monkeypatch):
    old, new = fitted(0), fitted(1)
    old.save(tmp_path)
    real, calls = storage.read_folder, []

    def slow(folder):
        facts, tensors = real(folder)
        calls.append(facts["models"]["digest"])
        if len(calls) == 1:
            new.save(folder)  # sweeps the models that these facts name
        return facts, tensors

    monkeypatch.setattr(storage, "read_folder", slow)
    assert aptset.load(tmp_path).predict_set(X) == new.predict_set(X)
    assert len(set(calls)) == 2


KILLED = """
import os, sys
from pathlib import Path
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
import aptset

X, y = load_iris(return_X_y=True)
old, new = (aptset.ConformalClassifier(GaussianNB(), random_state=seed).fit(X, y) for seed in (0, 1))
left = 0

def deadly(real):
    def call(*arguments, **options):
        global left
        if left == 0:
            if real.__name__ == "write_bytes":
                real(arguments[0], arguments[1][:100])
            os._exit(9)  # no handler, no finally, as by SIGKILL
        left -= 1
        return real(*arguments, **options)
    return call

root, number = Path(sys.argv[1]), 0
while True:
    folder = root / str(number)
    old.save(folder)
    child = os.fork()
    if child == 0:
        left = number
        for owner, name in [(Path, "write_bytes"), (Path, "open"), (Path, "chmod"), (Path, "replace"), (os, "fsync")]:
            setattr(owner, name, deadly(getattr(owner, name)))
        new.save(folder)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = aptset.load(folder).predict_set(X)
    which = "old" if found == old.predict_set(X) else "new" if found == new.predict_set(X) else "neither"
    new.save(folder)
    print(status, which, len(os.listdir(folder)))
    if status == 0:
        break
    number += 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
def test_a_kill_at_any_write_keeps_the_old_classifier_or_the_new_one(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) > 10
    assert {(status, which) for status, which, _ in lines} <= {("9", "old"), ("9", "new"), ("0", "new")}
    assert lines[0][:2] == ["9", "old"]
    assert lines[-1][:2] == ["0", "new"]
    assert {count for _, _, count in lines} == {"2"}, "the next save takes over what a kill left"


def test_a_run_that_cannot_save_its_model_keeps_the_results_of_the_run_before(tmp_path, monkeypatch):
    import pandas as pd
    from click.testing import CliRunner

    from aptset.cli import table_jobs
    from aptset.cli.main import main

    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"a": generator.normal(size=200), "y": generator.choice(["x", "z"], 200)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    command = ["run", str(tmp_path / "t.csv"), "--target", "y", "--model", "bayes", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(main, command).exit_code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(table_jobs, "save_classifier", full)
    assert CliRunner().invoke(main, [*command, "--seed", "7"]).exit_code == 1
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
