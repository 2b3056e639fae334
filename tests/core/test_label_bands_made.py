"""How bands of labels are made, and which are refused."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset import LabelBands


def test_bands_by_prevalence():
    counts = {"a": 400, "b": 400, "c": 100, "d": 90, "e": 6, "f": 4}
    assert LabelBands.by_prevalence(counts, 3).bands == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 2}
    alone = LabelBands.by_prevalence(counts, 3, n_calibration=9000)
    assert alone.bands == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3, "f": 3}  # 10 of 1000 expect exactly 90 of 9000
    assert set(LabelBands.by_prevalence(counts, 3, n_calibration=8999).bands.values()) == {1, 2}
    assert set(LabelBands.by_prevalence(counts, 3, n_calibration=9000, alpha=0.09).bands.values()) == {1, 2}
    assert set(LabelBands.by_prevalence({"a": 8, "b": 6, "c": 4}, 3, n_calibration=200).bands.values()) == {1}
    labels = [label for label, count in counts.items() for _ in range(count)]
    for passed in (labels, np.array(labels), pd.Series(labels), np.array(labels, dtype=object)):
        assert LabelBands.by_prevalence(passed, 3) == LabelBands.by_prevalence(counts, 3)
    assert LabelBands.by_prevalence({1: 5, 2: 5}, 9, n_calibration=10**6).bands == {1: 1, 2: 2}
    assert LabelBands.by_prevalence({1: 0, 2: 0}, 9, n_calibration=10**6).bands == {1: 1, 2: 1}, "none expects a row"


@given(
    counts=st.lists(st.integers(0, 300), min_size=1, max_size=12).filter(any),
    n_bands=st.integers(1, 6),
    n_calibration=st.integers(1, 2000),
)
def test_bands_by_prevalence_keep_their_rules(counts, n_bands, n_calibration):
    bands = LabelBands.by_prevalence(dict(enumerate(counts)), n_bands, n_calibration=n_calibration).bands
    members = {band: [counts[label] for label in bands if bands[label] == band] for band in set(bands.values())}
    assert sorted(members) == list(range(1, len(members) + 1))
    assert len(members) <= n_bands
    for band in range(1, len(members)):
        assert min(members[band]) >= max(members[band + 1])
    if len(members) > 1:
        for times in members.values():
            assert Fraction(sum(times), sum(counts)) * n_calibration >= 90


@pytest.mark.parametrize(
    ("bands", "error", "words"),
    [
        ([("a", 1)], TypeError, "dictionary from each label to its band; got list"),
        (pd.Series({"a": 1}), TypeError, "dictionary"),
        ({}, ValueError, "empty"),
        ({"a": None}, ValueError, "bands must not be missing"),
        ({"a": [1]}, TypeError, "plain values"),
        ({float("nan"): 1}, ValueError, "missing label"),
    ],
)
def test_bands_that_are_refused(bands, error, words):
    with pytest.raises(error, match=words):
        LabelBands(bands)


def test_what_else_is_refused():
    with pytest.raises(ValueError, match=r"LabelBands must speak of every label; \[2, 3, 4, 5\] are not in it"):
        aptset.calibrate(np.full((6, 6), 1 / 6), range(6), groups=LabelBands({0: 1, 1: 1}))
    with pytest.raises(TypeError, match=r"counts\.to_dict\(\)"):
        LabelBands.by_prevalence(pd.Series([0, 0, 1]).value_counts())
    for counts in ({"a": 0.5}, {"a": -1}, {"a": True}):
        with pytest.raises(ValueError, match="whole numbers of training rows"):
            LabelBands.by_prevalence(counts)
    with pytest.raises(ValueError, match="n_bands must be a whole number"):
        LabelBands.by_prevalence({"a": 1}, 0)
    with pytest.raises(ValueError, match="n_calibration must be"):
        LabelBands.by_prevalence({"a": 1}, n_calibration=0)
