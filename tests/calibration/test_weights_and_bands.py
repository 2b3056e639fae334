"""Weights within bands of labels: the definitions of both hold at once. Groups that overlap refuse weights."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import aptset

N, NEW, K = 240, 30, 5
GENERATOR = np.random.default_rng(20201116)
ROWS, NEW_ROWS = GENERATOR.dirichlet([0.4] * K, size=N), GENERATOR.dirichlet([0.4] * K, size=NEW)
LABELS = (ROWS.cumsum(axis=1) > GENERATOR.random((N, 1))).argmax(axis=1)
WEIGHTS, NEW_WEIGHTS = GENERATOR.integers(1, 9, size=N), GENERATOR.integers(1, 9, size=NEW)
BAND = np.array([0, 0, 1, 1, 1])
BANDS = aptset.LabelBands(dict(enumerate(BAND.tolist())))


@pytest.fixture(autouse=True)
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows in a band
        yield


def calibrated(**settings):
    return aptset.calibrate(ROWS, LABELS, random_state=0, **settings)


def test_p_values_are_those_of_the_definition():
    """p = (sum of w_i over the band's scores that are not below + v) / (W of the band + v), in fractions."""
    found = calibrated(groups=BANDS, weights=WEIGHTS)
    p_values = found.p_values(NEW_ROWS, weights=NEW_WEIGHTS)
    for band in (0, 1):
        mine = np.isin(LABELS, np.flatnonzero(band == BAND))
        (fold,) = found.held_out.folds
        scores, total = fold.scores[fold.offsets[band] : fold.offsets[band + 1]], int(WEIGHTS[mine].sum())
        assert len(scores) == mine.sum()
        weights = fold.weights[fold.offsets[band] : fold.offsets[band + 1]]
        plain = calibrated(groups=BANDS)
        of_labels = plain.held_out.folds[0].calibrated  # the same scores, without weights
        assert np.array_equal(of_labels.scores[fold.offsets[band] : fold.offsets[band + 1]], scores)
        counts = np.rint((1 - plain.p_values(NEW_ROWS)) * (len(scores) + 1)).astype(int)
        for column in np.flatnonzero(band == BAND):
            for row in range(NEW):
                not_below = int(weights[counts[row, column] :].sum()) + int(NEW_WEIGHTS[row])
                expected = Fraction(not_below, total + int(NEW_WEIGHTS[row]))
                value = float(p_values[row, column])  # the smallest number whose decimal is not below
                assert Fraction(repr(value)) >= expected > Fraction(repr(float(np.nextafter(value, 0))))


def test_sets_are_what_p_values_say():
    for settings, passed in (
        ({"weights": WEIGHTS}, {"weights": NEW_WEIGHTS}),
        ({"label_weights": {k: k + 1.0 for k in range(K)}}, {}),
    ):
        found = calibrated(groups=BANDS, **settings)
        mask = found.predict_mask(NEW_ROWS, 0.2, **passed)
        assert np.array_equal(mask, found.p_values(NEW_ROWS, **passed) > 0.2)
        assert np.array_equal(mask, found.predict_set(NEW_ROWS, 0.2, **passed).mask)


@pytest.mark.parametrize(
    ("bands", "groups"), [(dict.fromkeys(range(K), "all"), None), ({k: k for k in range(K)}, "label")], ids=str
)
def test_one_band_is_no_group_and_a_band_for_each_label_is_the_label(bands, groups):
    one, other = (calibrated(groups=by, weights=WEIGHTS) for by in (aptset.LabelBands(bands), groups))
    assert np.array_equal(one.p_values(NEW_ROWS, weights=NEW_WEIGHTS), other.p_values(NEW_ROWS, weights=NEW_WEIGHTS))
    masks = [each.predict_mask(NEW_ROWS, 0.1, weights=NEW_WEIGHTS) for each in (one, other)]
    assert np.array_equal(*masks)


def test_equal_weights_change_nothing():
    expected = calibrated(groups=BANDS).predict_mask(NEW_ROWS, 0.1)
    found = calibrated(groups=BANDS, weights=np.full(N, 7.3)).predict_mask(NEW_ROWS, 0.1, weights=np.full(NEW, 7.3))
    assert np.array_equal(found, expected)


def test_files_and_merges_keep_both(tmp_path):
    halves = [
        aptset.calibrate(ROWS[part], LABELS[part], random_state=0, groups=BANDS, weights=WEIGHTS[part])
        for part in (slice(0, N // 2), slice(N // 2, N))
    ]
    merged = halves[0].merge(halves[1])
    merged.save(tmp_path / "both.aptset")
    loaded = aptset.load(tmp_path / "both.aptset")
    masks = [each.predict_mask(NEW_ROWS, 0.1, weights=NEW_WEIGHTS) for each in (merged, loaded)]
    assert np.array_equal(*masks)
    assert loaded.held_out.groups == merged.held_out.groups


def test_groups_that_overlap_refuse_weights():
    groups = aptset.Overlapping(GENERATOR.random((N, 2)) < 0.5)
    with pytest.raises(ValueError, match=r"overlapping groups have no promise for weights\. Leave the weights out"):
        calibrated(groups=groups, weights=WEIGHTS)
