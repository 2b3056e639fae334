"""A few of the attacks that `make fuzz` runs for as long as one likes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import aptset
from aptset.kernels import engines
from fuzz.attacks import ATTACKS


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(name):
    strategy, check = ATTACKS[name]
    outcomes = []
    given(strategy)(lambda attack: outcomes.append(check(attack)))()
    assert True in outcomes
    assert False in outcomes


LEVELS = {
    "baseline": "-O0",
    "v3": "-O0 -march=x86-64-v3",
    "v4": "-O0 -march=x86-64-v4 -mprefer-vector-width=512",
}
OF_MACHINE = engines.ENGINES["compiled"].loops.use_level("") if "compiled" in engines.ENGINES else "baseline"


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc to build the loops with AddressSanitizer")
def test_loops_stay_inside_their_buffers_while_rows_change():
    """Whenever a loop turns to a row, it holds something else. `make fuzz ASAN=1` does that at every level of machines,
    and adds a process that never stops writing."""
    root = Path(__file__).parents[2]
    trial = ["gcc", "-fsanitize=address", "-x", "c", "-", "-o", os.devnull]
    if subprocess.run(trial, input="int main(void) { return 0; }", text=True, check=False).returncode:
        pytest.skip("gcc has no AddressSanitizer here")
    command = ["sh", "tests/fuzz/sanitized.sh", sys.executable, "-m", "fuzz.changing", "0"]
    found = subprocess.run(
        command, cwd=root, env=os.environ | {"ONLY": LEVELS[OF_MACHINE]}, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-4000:]
    assert "calls" in found.stdout


@pytest.mark.parametrize("kind", ["labels", "groups"])
def test_what_another_thread_does_to_labels_does_not_matter(monkeypatch, kind):
    """The caller's arrays turn to numbers of no class and no group as soon as the rows are scored."""
    rows = np.random.default_rng(0).dirichlet([1, 1, 1], size=60)
    arrays = {"labels": np.arange(60) % 3, "groups": np.arange(60) % 2}
    expected = aptset.calibrate(rows, **arrays, random_state=0)
    engine = engines.ENGINES["compiled"]

    class Spoiling(type(engine)):
        def label_scores(self, *arguments):
            arrays[kind][:] = 2**40
            return super().label_scores(*arguments)

    monkeypatch.setattr(engines, "chosen", Spoiling(engine.loops))
    found = aptset.calibrate(rows, **arrays, random_state=0)
    assert (arrays[kind] == 2**40).all()
    assert np.array_equal(found.scores, expected.scores)
    assert found.predict_mask(rows, 0.2, groups=[0, 1] * 30).tolist() == (
        expected.predict_mask(rows, 0.2, groups=[0, 1] * 30).tolist()
    )
