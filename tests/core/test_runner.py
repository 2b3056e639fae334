"""The runner: parallel, resumable after a kill, the same for any number of workers."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from aptset.core.runner import file_of, read_results, run_tasks


@dataclass(frozen=True)
class Square:
    number: int
    log: Path | None = None

    @property
    def key(self):
        return f"square {self.number} ü/\\:*"

    @property
    def weight(self):
        return 1.0

    def run(self):
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{self.number}\n")
        return [{"square": self.number**2, "nothing": math.nan, "root": self.number**0.5}]


@dataclass(frozen=True)
class Failing(Square):
    def run(self):
        raise ZeroDivisionError("as planned")


@pytest.mark.parametrize("folder", [None, "cells"])
def test_results_do_not_depend_on_the_workers(folder, tmp_path):
    tasks = [Square(number) for number in range(7)]
    found = {}
    for jobs in (1, 2, 3):
        place = None if folder is None else tmp_path / f"{folder}{jobs}"
        found[jobs] = [done.rows for done in run_tasks(tasks, place, jobs)]
    assert str(found[1]) == str(found[2]) == str(found[3])
    assert [rows[0]["square"] for rows in found[1]] == [number**2 for number in range(7)]


def test_nothing_is_done_twice(tmp_path):
    log = tmp_path / "log"
    run_tasks([Square(number, log) for number in range(4)], tmp_path / "cells")
    again = run_tasks([Square(number, log) for number in range(6)], tmp_path / "cells")
    assert sorted(log.read_text().split()) == list("012345")
    assert again[3].rows[0]["square"] == 9
    assert again[3].rows[0]["root"] == 3**0.5
    assert math.isnan(again[3].rows[0]["nothing"])
    assert again[3].versions["numpy"]


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


def damage_digit(path):
    outer = json.loads(path.read_text())
    outer["body"] = outer["body"].replace('"square": 4', '"square": 5')
    path.write_text(json.dumps(outer))


def damage_empty(path):
    path.write_bytes(b"")


def damage_other_task(path):
    path.write_bytes(file_of(Square(1), path.parent).read_bytes())


@pytest.mark.parametrize("damage", [damage_truncate, damage_digit, damage_empty, damage_other_task])
def test_a_damaged_result_is_named_and_computed_again(damage, tmp_path):
    log, cells = tmp_path / "log", tmp_path / "cells"
    tasks = [Square(number, log) for number in range(4)]
    run_tasks(tasks, cells)
    path = file_of(tasks[2], cells)
    damage(path)
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged and is computed again; every other result is kept"):
        found = run_tasks(tasks, cells)
    assert [done.rows[0]["square"] for done in found] == [0, 1, 4, 9]
    assert log.read_text().split() == ["0", "1", "2", "3", "2"]
    assert len(read_results(cells)) == 4


def test_an_error_leaves_what_was_finished(tmp_path):
    with pytest.raises(ZeroDivisionError, match="as planned"):
        run_tasks([Square(0), Square(1), Failing(2), Square(3)], tmp_path)
    assert sorted(read_results(tmp_path)) == [Square(0).key, Square(1).key]


SLOW = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from aptset.core.runner import run_tasks

@dataclass(frozen=True)
class Slow:
    number: int
    weight = 1.0
    @property
    def key(self):
        return f"slow {self.number}"
    def run(self):
        with (Path(sys.argv[1]) / "log").open("a") as file:
            file.write(f"{self.number}\\n")
        time.sleep(0.05)
        return [{"number": self.number}]

found = run_tasks([Slow(k) for k in range(40)], Path(sys.argv[1]) / "cells", jobs=int(sys.argv[2]))
print(sum(done.rows[0]["number"] for done in found))
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_at_any_moment_it_goes_on(jobs, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    command = [sys.executable, str(script), str(tmp_path), str(jobs)]
    first = subprocess.Popen(command, start_new_session=True)
    while len(list((tmp_path / "cells").glob("*.json"))) < 5:
        assert first.poll() is None
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = sorted((tmp_path / "cells").glob("*.json"))
    assert 5 <= len(kept) < 40
    before = {path: path.stat().st_mtime_ns for path in kept}
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["780"]
    assert before == {path: path.stat().st_mtime_ns for path in kept}, "a restart redoes nothing"
    assert len(list((tmp_path / "cells").glob("*.json"))) == 40
    assert len((tmp_path / "log").read_text().split()) <= 40 + 3 * jobs


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match=r"tasks must have different keys; 'square 1 .* is there twice"):
        run_tasks([Square(1), Square(1)])
    for jobs in (0, -2, 1.5, True, "2"):
        with pytest.raises(ValueError, match="jobs must be a positive whole number, or -1"):
            run_tasks([Square(1)], jobs=jobs)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OSError, match="must be a folder that can be written"):
        run_tasks([Square(1)], file / "below")


@dataclass(frozen=True)
class Threads(Square):
    def run(self):
        from aptset.kernels.blocks import thread_count

        return [{"threads": thread_count()}]


def test_processes_share_the_cores_out(monkeypatch):
    monkeypatch.setenv("APTSET_THREADS", "6")
    alone, beside = (run_tasks([Threads(k) for k in range(4)], jobs=jobs) for jobs in (1, 2))
    assert [done.rows[0]["threads"] for done in alone] == [6] * 4
    assert [done.rows[0]["threads"] for done in beside] == [3] * 4
