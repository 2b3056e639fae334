"""W5: the worst slice over 1000 directions, against the double loop of the paper's code."""

from __future__ import annotations

import numpy as np

import aptset
from benchmarks.timing import Line, lines_of, race
from benchmarks.yardsticks import direct_worst_slice

LOOP = "the paper's loop"


def compare(n: int, loop_directions: int, rounds: int) -> list[Line]:
    """The loop takes the same time for each direction: a few of them tell."""
    generator = np.random.default_rng(0)
    X, covered = generator.normal(size=(n, 10)), generator.random(n) < 0.9
    sets = np.column_stack([covered, np.ones(n, dtype=bool)])
    directions = generator.normal(size=(1000, 10))
    common = {"X": X, "labels": np.zeros(n, dtype=int), "method": "in-sample"}
    entries = {"aptset": lambda: aptset.worst_slice_coverage(sets, directions=directions, **common)}
    notes, agrees = {}, {}
    if loop_directions:
        some = directions[:loop_directions]
        entries[LOOP] = lambda: direct_worst_slice(covered, X, some)
        expected = direct_worst_slice(covered, X, some)
        found = float(aptset.worst_slice_coverage(sets, directions=some, **common))
        agrees[LOOP] = "yes" if abs(found - expected) < 1e-12 else f"no: {found} and {expected}"
        notes[LOOP] = f"from {loop_directions} of 1000 directions"
    best = race(entries, rounds)
    if loop_directions:
        best[LOOP] *= 1000 / loop_directions
    return lines_of(f"W5 worst slice n={n:,}", best, rounds, notes, agrees)


def run(quick: bool) -> list[Line]:
    """Measure W5."""
    rounds = 3 if quick else 5
    lines = compare(1250, 2 if quick else 10, rounds)
    if quick:
        return lines
    return lines + compare(5000, 1, 3) + compare(100_000, 0, rounds)
