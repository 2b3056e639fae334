"""Scores on probabilities that were raised to a power first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset.kernels.formula import POWER_STEP, raised
from aptset.scores import SCORES

GENERATOR = np.random.default_rng(2)
P = GENERATOR.dirichlet(np.full(6, 0.5), size=300)
Y = (GENERATOR.random((300, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
OLD, NEW = P[:150], P[150:]


@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    steps=st.integers(1, 512),
)
def test_powers_are_powers(values, steps):
    """At most 7 square roots and 13 products, each off by half a unit in the last place."""
    power = steps * POWER_STEP
    found = raised(np.array(values), power)
    np.testing.assert_allclose(found, np.array(values) ** power, rtol=20 * 2.0**-52, atol=1e-300)


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("power", [0.25, 0.75, 2.0])
def test_it_is_the_score_of_the_raised_rows(name, power, path):
    raised_rows = P**power / (P**power).sum(axis=1, keepdims=True)
    score = SCORES[name]()
    u = GENERATOR.random(150)
    tempered = aptset.calibrate(OLD, Y[:150], conformity=aptset.Tempered(score, power), u=u)
    plain = aptset.calibrate(raised_rows[:150], Y[:150], conformity=score, u=u)
    np.testing.assert_allclose(tempered.scores, plain.scores, atol=1e-12)
    p_values = tempered.p_values(NEW, u=u)
    for alpha in (0.1, 0.4):
        sets = tempered.predict_set(NEW, alpha, u=u)
        np.testing.assert_array_equal(sets.mask, p_values > alpha)
        np.testing.assert_array_equal(tempered.predict_mask(NEW, alpha, u=u), sets.mask)


@pytest.mark.parametrize("score", [aptset.Adaptive(), lambda places: places.rank - places.u])
def test_layout_dtype_blocks_and_paths_do_not_matter(score, path, limits):
    score = aptset.Tempered(score, 0.625)
    narrow = P.astype(np.float32)
    expected = aptset.calibrate(narrow[:150], Y[:150], conformity=score, random_state=0)
    sets = expected.predict_set(narrow[150:], 0.2)
    limits(block_cells=20)
    for rows in (narrow, narrow.astype(np.float64), np.asfortranarray(narrow), np.repeat(narrow, 2, axis=0)[::2]):
        found = aptset.calibrate(rows[:150], Y[:150], conformity=score, random_state=0)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert found.predict_set(rows[150:], 0.2) == sets
        assert found.predict_set(rows[160:161], 0.2)[0].tolist() == sets[10].tolist()


@pytest.mark.parametrize("value", [np.nan, -0.1, 0.4, np.inf])
def test_bad_rows_are_bad_before_they_are_raised(value):
    bad = OLD.copy()
    bad[7, 3] = value
    for conformity in (aptset.Tempered(aptset.Adaptive(), 0.5), aptset.Tempered(lambda places: places.own, 0.5)):
        with pytest.raises(ValueError, match="row 7"):
            aptset.calibrate(bad, Y[:150], conformity=conformity)
    scaled = aptset.calibrate(OLD * 3, Y[:150], conformity=conformity, normalize=True, random_state=0)
    assert scaled.n == 150


def test_labels_are_listed_by_the_mean_of_the_models_own_probabilities():
    folds, score = np.arange(150) % 3, aptset.Tempered(aptset.Adaptive(), 4.0)
    calibration = aptset.calibrate_cv(OLD, Y[:150], folds, conformity=score, random_state=0)
    of_models = [NEW, NEW[:, ::-1], np.full_like(NEW, 1 / 6)]
    mean = sum(of_models)
    sets = calibration.predict_set(of_models, 0.05)
    assert sets.sizes.mean() > 2
    for row, labels in zip(mean, sets, strict=True):
        assert (np.diff(row[labels]) <= 1e-9).all()


def test_tempered_twice_is_refused():
    twice = aptset.Tempered(aptset.Tempered(aptset.Adaptive(), 0.5), 0.5)
    with pytest.raises(ValueError, match="tempered once"):
        aptset.calibrate(P, Y, conformity=twice)
