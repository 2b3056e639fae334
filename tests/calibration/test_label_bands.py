"""Bands of labels: the definition in exact numbers, one band and one band per label, and what is kept of them."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from bands_data import BANDS, NEW, P, Y, rows_with_labels, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

import aptset
import reference
from aptset import LabelBands
from aptset.kernels.rows import Rows, all_scores_of_block
from aptset.scores.conformity import formula_of
from rows_strategy import matrices

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
SCORES = ["adaptive", "homogeneous", "saps", aptset.Tempered(aptset.Adaptive(), 0.5), lambda places: 1 - places.own]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: getattr(score, "__name__", str(score)).strip("<>"))
def test_one_band_is_no_groups_and_a_band_per_label_is_groups_by_label(path, score):
    common = {"conformity": score, "random_state": 0}
    same(
        aptset.calibrate(P, Y, groups=LabelBands(dict.fromkeys(range(6), "x")), **common),
        aptset.calibrate(P, Y, **common),
    )
    each = aptset.calibrate(P, Y, groups=LabelBands({label: f"band {9 - label}" for label in range(6)}), **common)
    by_label = aptset.calibrate(P, Y, groups="label", **common)
    same(each, by_label)
    assert list(each.threshold(0.1).values()) == list(by_label.threshold(0.1).values())


@pytest.mark.parametrize("combine", ["plus", "minimax"])
def test_the_same_with_folds(path, combine):
    folds, three = np.arange(500) % 3, [NEW, NEW[::-1], (NEW + NEW[::-1]) / 2]
    u = np.random.default_rng(0).random(90)

    def made(groups):
        found = aptset.calibrate_cv(
            P, Y, folds, combine=combine, groups=groups, u=np.linspace(0, 1, 500), random_state=0
        )
        return found.predict_set(three, 0.2, u=u), found.p_values(three, u=u)

    for bands, groups in ((dict.fromkeys(range(6), 1), None), ({label: -label for label in range(6)}, "label")):
        (sets, p_values), (others, other_p_values) = made(LabelBands(bands)), made(groups)
        assert sets == others
        np.testing.assert_array_equal(p_values, other_p_values)
    sets, p_values = made(BANDS)
    np.testing.assert_array_equal(sets.mask, p_values > 0.2)
    assert (p_values != made(None)[1]).any()


@KEYED
@given(
    matrix=matrices(max_rows=8, max_classes=6),
    new=st.integers(1, 4),
    name=st.sampled_from(["adaptive", "homogeneous", "rank"]),
    data=st.data(),
)
def test_membership_is_the_definition_within_the_band(path, matrix, new, name, data):
    """Literally: fewer than (1 - alpha)(n + 1) scores of the label's band are below its own."""
    n_classes, draw = matrix.shape[1], data.draw
    band_of = draw(st.lists(st.integers(0, 2), min_size=n_classes, max_size=n_classes))
    labels = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=len(matrix), max_size=len(matrix))))
    alpha = draw(st.sampled_from(["0.1", "0.25", "0.5", "0.8"]))
    u, v = np.linspace(0, 1, len(matrix)), np.linspace(1, 0, new)
    calibration = aptset.calibrate(
        matrix,
        labels,
        conformity=name,
        groups=LabelBands(dict(enumerate(band_of))),
        u=u,
        random_state=0,
        normalize=True,
    )
    rows = np.resize(matrix, (new, n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: some bands hold every label
        mask = calibration.predict_mask(rows, float(alpha), u=v)
        sets = calibration.predict_set(rows, float(alpha), u=v)
    p_values = calibration.p_values(rows, u=v)
    formula = formula_of(calibration.conformity)

    def scores_of(values, chance):
        return all_scores_of_block(
            Rows(values, formula, calibration.key, 1.0, None, chance, True).seeded(), 0, len(values)
        )[0]

    known, found = scores_of(matrix, u), scores_of(rows, v)
    for row in range(new):
        for label in range(n_classes):
            mine = [known[i, y] for i, y in enumerate(labels) if band_of[y] == band_of[label]]
            expected = reference.in_set(mine, found[row, label], Fraction(alpha))
            at_least = 1 + sum(score >= found[row, label] for score in mine)
            assert mask[row, label] == sets.mask[row, label] == expected
            assert p_values[row, label] == pytest.approx(at_least / (len(mine) + 1), rel=1e-15)
            assert (p_values[row, label] > float(alpha)) == expected


def test_every_band_is_covered_as_promised():
    """Law: covered rows of a band, after calibration on n of it, are Beta-binomial(n + 1 - k, k).

    400 calibrations: the mean over them lies within 5.2 standard errors of its law, false alarm rate 2e-7 for each of
    three bands.
    """
    totals = {band: [0.0, 0.0, 0.0] for band in ("rare", "some", "often")}
    of_label = np.array(BANDS.of(range(6)))
    p, y = rows_with_labels(400 * 200, seed=7)
    for start in range(0, 400 * 200, 200):
        calibration_rows, test = slice(start, start + 120), slice(start + 120, start + 200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a band without enough rows has an infinite threshold, and no law here
            found = aptset.calibrate(p[calibration_rows], y[calibration_rows], groups=BANDS, random_state=start)
            covered = found.predict_mask(p[test], 0.2)[np.arange(80), y[test]]
        for band, sums in totals.items():
            n, rows = int((of_label[y[calibration_rows]] == band).sum()), of_label[y[test]] == band
            k = reference.rank(n, Fraction(1, 5))
            if k <= n and rows.any():
                law = betabinom(int(rows.sum()), k, n + 1 - k)
                sums[0] += covered[rows].sum() - law.mean()
                sums[1] += law.var()
                sums[2] += covered[rows].sum()
    for difference, variance, hits in totals.values():
        assert hits > 1000
        assert abs(difference) < 5.2 * variance**0.5


def test_thresholds_names_and_warnings():
    calibration = aptset.calibrate(P, Y, groups=BANDS, random_state=0)
    assert list(calibration.threshold(0.1)) == ["rare", "some", "often"]
    with pytest.warns(
        UserWarning, match=r"bands of labels with too few .* 'some' \(68\).*their labels are in every set"
    ):
        mask = calibration.predict_mask(NEW, 0.006)
    assert mask[:, 2].all()
    with pytest.raises(ValueError, match="groups must be left out"):
        calibration.predict_set(NEW, groups=["a"] * 90)
