"""Rows that change while they are read: ``python -m fuzz.changing SECONDS``, in the build of sanitized.sh.

Whatever the bytes are, loops stay inside their buffers, which AddressSanitizer watches: a call is answered, or refuses
the rows with a ValueError. Two adversaries write to a map of memory: one whenever a loop turns to a row
(``changing_rows.c``), and a process that never stops. With 0 seconds only the first one does, once.
"""

import ctypes
import itertools
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import aptset
from aptset.kernels import engines

WIDTHS = (2, 10, 16, 17, 40, 41, 130, 600, 5000)
SCORES = ("adaptive", "homogeneous", "regularized", "saps", "margin", "rank", "own mass", "function")
WRITER = """
import sys, numpy as np
path, kind, n, width = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rows = np.memmap(path, dtype=kind, mode="r+", shape=(n, width))
generator = np.random.default_rng(0)
good = generator.dirichlet(np.full(width, 0.3), size=n)
odd = generator.choice([np.nan, -1.0, np.inf, 0.0, -1e-30, 1e-30, 0.5, 3.0, -np.inf], size=(n, width))
some = np.where(generator.random((n, width)) < 0.5 / width, odd, good)
several = [one.astype(kind) for one in (good, good[::-1], some, good, odd)]
while True:
    for one in several:
        rows[:] = one
"""


def calibrations(name, width, kind):
    """Return calibrations of every kind under a score, on rows that stay as they are."""
    scores = {
        "own mass": aptset.Prevalence(dict.fromkeys(range(width), 1)),
        "function": lambda at: 1 - at.own / at.total,
    }
    settings = {"conformity": scores.get(name, name), "random_state": 1}
    generator = np.random.default_rng(1)
    rows, labels = generator.dirichlet(np.full(width, 0.3), size=300).astype(kind), generator.integers(0, width, 300)
    bands = aptset.LabelBands({label: label % 2 for label in range(width)})
    groups = (None, "label", bands, np.arange(300) % 3)
    return settings, [aptset.calibrate(rows, labels, groups=one, **settings) for one in groups]


def calls(rows, settings, calibrated):
    """Yield everything that reads rows."""
    plain, *others, by_row = calibrated
    labels, of_rows = np.arange(len(rows)) % rows.shape[1], np.arange(len(rows)) % 3
    yield lambda: aptset.calibrate(rows, labels, **settings)
    yield lambda: aptset.adaptive_scores(rows, labels, random_state=1)
    yield lambda: [list(sets) for sets in plain.predict_set(rows, [0.05, 0.1, 0.4])]
    yield lambda: list(by_row.predict_set(rows, 0.2, groups=of_rows))
    yield lambda: by_row.p_values(rows, groups=of_rows)
    for one in (plain, *others):
        yield lambda one=one: list(one.predict_set(rows, 0.2))
        yield lambda one=one: one.predict_mask(rows, 0.2)
        yield lambda one=one: one.p_values(rows)


def attack(rows, settings, calibrated, counts):
    """Call everything once, and count what was refused and what was answered."""
    for call in calls(rows, settings, calibrated):
        try:
            call()
            counts[1] += 1
        except ValueError as error:
            if "must" not in str(error):  # not ours
                raise
            counts[0] += 1


def attack_at_each_turn(levels, counts, every):
    """Let rows change whenever a loop turns to one of them; try one of so many kinds of rows and scores."""
    loops = engines.ENGINES["compiled"].loops
    rows_change = ctypes.c_int.in_dll(ctypes.CDLL(loops.__file__), "rows_change")
    for width, kind, name in list(itertools.product(WIDTHS, ("f4", "f8"), SCORES))[::every]:
        settings, calibrated = calibrations(name, width, kind)
        for level, n in itertools.product(levels, (1, 6)):
            loops.use_level(level)
            rows_change.value = 1
            attack(np.full((n, width), 1 / width, dtype=kind), settings, calibrated, counts)
            rows_change.value = 0


def attack_from_outside(levels, counts, seconds):
    """Let another process write to the rows all the time."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    several = list(itertools.product(WIDTHS, ("f4", "f8")))
    for width, kind in several:
        n = 20_000 // width + 8
        with tempfile.NamedTemporaryFile() as file:
            rows = np.memmap(file.name, dtype=kind, mode="w+", shape=(n, width))
            writer = subprocess.Popen([sys.executable, "-c", WRITER, file.name, kind, str(n), str(width)], env=plain)
            made = [calibrations(name, width, kind) for name in SCORES]
            end = time.monotonic() + seconds / len(several)
            while time.monotonic() < end:
                for level, (settings, calibrated) in itertools.product(levels, made):
                    engines.ENGINES["compiled"].loops.use_level(level)
                    attack(rows, settings, calibrated, counts)
            writer.kill()
            writer.wait()


def runs_here(level):
    try:
        return engines.ENGINES["compiled"].loops.use_level(level)
    except ValueError:
        return None


def main(seconds):
    warnings.simplefilter("ignore")
    levels, counts = [level for level in ("baseline", "v3", "v4") if runs_here(level)], [0, 0]
    attack_at_each_turn(levels, counts, 1 if seconds else 3)
    if seconds:
        attack_from_outside(levels, counts, seconds)
    assert min(counts) > 0, counts
    print(f"changing rows, {', '.join(levels)}: {sum(counts):,} calls, {counts[0]:,} refused, {counts[1]:,} answered")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
