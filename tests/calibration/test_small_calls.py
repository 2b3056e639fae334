"""What a small call costs is counted, not timed: calls of our own functions, and the files they stand in."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import aptset

ROOM = str(Path(aptset.__file__).parent)
generator = np.random.default_rng(0)
P = generator.dirichlet(np.ones(10), size=5100)
CALIBRATION = aptset.calibrate(P[100:], P[100:].argmax(axis=1), random_state=0)


def trace(work):
    """Return the calls of functions of the package, from the second time on."""
    work()
    calls = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(ROOM):
            calls.append((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("verb", ["predict_set", "predict_mask", "p_values"])
def test_few_calls_in_few_files(verb):
    calls = trace(lambda: getattr(CALIBRATION, verb)(P[:100]))
    assert len(calls) <= 27
    assert len({file for file, _ in calls}) <= 8


def test_calibrate_in_few_calls():
    calls = trace(lambda: aptset.calibrate(P[:300], P[:300].argmax(axis=1), random_state=0))
    named = [(file, name) for file, name in calls if not name.startswith("<")]  # comprehensions are not calls
    assert len(named) <= 45
    assert len({file for file, _ in named}) <= 12


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "bool", "U3", "object"])
def test_groups_in_any_array_are_groups_in_a_list(kind):
    """Whole numbers take a short cut: nothing may change."""
    values = generator.integers(3, size=5000).astype(kind if kind != "object" else int)
    names = values.astype(object) if kind == "object" else values
    one = aptset.calibrate(P[100:], P[100:].argmax(axis=1), groups=names, random_state=0)
    other = aptset.calibrate(P[100:], P[100:].argmax(axis=1), groups=values.tolist(), random_state=0)
    assert one.held_out.groups == other.held_out.groups
    assert all(type(name) is type(values.tolist()[0]) for name in one.held_out.groups.names)
    np.testing.assert_array_equal(one.held_out.folds[0].scores, other.held_out.folds[0].scores)
    assert one.threshold() == other.threshold()
    new = names[:100]
    assert one.predict_set(P[:100], groups=new) == other.predict_set(P[:100], groups=new.tolist())


def test_whole_numbers_far_apart_and_never_seen():
    far = np.where(np.arange(5000) % 2 == 0, -(2**40), 2**40)
    calibration = aptset.calibrate(P[100:], P[100:].argmax(axis=1), groups=far, random_state=0)
    with pytest.warns(UserWarning, match=r"5 \(never seen\)"):
        sets = calibration.predict_set(P[:3], groups=np.array([2**40, 5, -(2**40)]))
    assert sets.sizes[1] == 10
    listed = calibration.predict_set(P[:1], groups=[2**40], ids=["a"])
    assert listed == calibration.predict_set(P[:1], groups=np.array([2**40]), ids=["a"])


@pytest.mark.parametrize("groups", [None, "label"])
def test_thresholds_are_selected_as_they_are_sorted(groups):
    """The first few levels are selected from scores that are not in order; the others see them sorted."""
    levels = [0.5, 0.05, 0.1, 0.9, 0.2]
    labels = generator.integers(10, size=5000)
    fresh = [aptset.calibrate(P[100:], labels, groups=groups, random_state=0).threshold(a) for a in levels]
    one = aptset.calibrate(P[100:], labels, groups=groups, random_state=0)
    assert [one.threshold(a) for a in levels] == fresh
    one = aptset.calibrate(P[100:], labels, groups=groups, random_state=0)
    offsets = one.held_out.folds[0].offsets
    for start, stop in pairwise(offsets):
        part = one.held_out.folds[0].scores[start:stop]
        assert (np.diff(part) >= 0).all()
    assert [one.threshold(a) for a in levels] == fresh


@pytest.mark.parametrize("groups", [None, "label"])
def test_sets_and_p_values_at_once(groups):
    rows = np.concatenate([P[:60], P[:40]])  # copies have a u of their own, the same for both answers
    calibration = aptset.calibrate(P[100:], P[100:].argmax(axis=1), groups=groups, random_state=0)
    sets, p_values = calibration.sets_and_p_values(rows, alpha=0.2)
    assert sets == calibration.predict_set(rows, alpha=0.2)
    np.testing.assert_array_equal(p_values, calibration.p_values(rows))
    np.testing.assert_array_equal(sets.mask, p_values > 0.2)
