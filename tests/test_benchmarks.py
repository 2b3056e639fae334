"""The check for regressions names what got worse, and nothing else."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def regression(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import regression

    yield regression
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


@pytest.fixture
def cores(regression):
    from benchmarks import cores

    return cores


def line(workload, seconds, streams=None, who="aptset"):
    return {"workload": workload, "who": who, "seconds": seconds, "streams": streams}


def run(*lines):
    return {"lines": list(lines)}


def test_ratios_are_compared_not_seconds(regression):
    kept = run(line("calibrate, 10 x 10", 1.0, 2.0), line("p_values, 10 x 10", 4.0, 8.0))
    slower_machine = run(line("calibrate, 10 x 10", 10.0, 2.0), line("p_values, 10 x 10", 40.0, 8.0))
    assert regression.worse(slower_machine, kept) == []
    worse = run(line("calibrate, 10 x 10", 1.0, 2.9), line("p_values, 10 x 10", 4.0, 12.1), line("new", 1.0, 99.0))
    (found,) = regression.worse(worse, kept)
    assert found.startswith("p_values, 10 x 10: 12.1 instead of 8")


def test_one_row_is_measured_by_predict_set_of_one_row(regression):
    kept = run(line("predict_set, one row of 10", 30e-6), line("p_values, one row of 10", 10e-6))
    now = run(line("predict_set, one row of 10", 60e-6), line("p_values, one row of 10", 60e-6))
    (found,) = regression.worse(now, kept)
    assert found.startswith("p_values, one row of 10")


def test_peers_and_the_best_of_several_races(regression):
    kept = run(line("W1", 1.0, 3.0), line("W1", 1.0, 2.0), line("W1", 9.0, 9.0, who="a peer"))
    assert regression.ratios(kept) == {"W1": 2.0}


def test_the_page_about_cores_says_what_is_missed(cores):
    found = [
        {"stream": 8.0, "fast": 80.0, "near a stream": 9.0, "slow": 80.0, "falls back": 90.0},
        {"stream": 1.5, "fast": 12.0, "near a stream": 3.0, "slow": 20.0, "falls back": 4.0},
        {"stream": 1.0, "fast": 10.0, "near a stream": 2.0, "slow": 11.0, "falls back": 5.0},
    ]
    machine = {"cores": 16, "processor": "P", "python": "3", "numpy": "2", "level": "v4"}
    page = cores.page({"machine": machine, "date": "2026-01-01", "cores": [1, 8, 16], "10 x 10": found})
    assert "16 cores, P, Python 3" in page
    lines = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("| ")}
    assert lines["fast"].endswith("| 8.0 | 10.0 | reached |")
    assert lines["near a stream"].endswith("| 4.5 | 2.0 | reached |")
    assert lines["slow"].endswith("| missed: 8 times |")
    assert lines["falls back"].endswith("| missed: slower than on half the cores |")
