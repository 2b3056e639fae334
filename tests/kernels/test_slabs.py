"""The least mean of a slab against all pairs, with ties and repeated positions."""

from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels import engines
from aptset.kernels.slabs import find_slab


def brute_force(position, covered, least):
    means = []
    for low in np.unique(position):
        for high in np.unique(position):
            inside = (position >= low) & (position <= high)
            if inside.sum() >= least:
                means.append(Fraction(int(covered[inside].sum()), int(inside.sum())))
    return min(means)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(
    points=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=25),
    data=st.data(),
)
def test_equals_all_pairs(path, points, data):
    position = np.array(sorted(p for p, _ in points), dtype=float)
    covered = np.array([c for _, c in points], dtype=np.uint8)
    least = data.draw(st.integers(1, len(points)))
    expected = brute_force(position, covered, least)
    assert engines.chosen.least_mean(position, covered, least) == expected
    slab = find_slab(position, covered, least, expected)
    inside = (position >= slab.low) & (position <= slab.high)
    assert inside.sum() >= least
    assert Fraction(int(covered[inside].sum()), int(inside.sum())) == expected


def test_long_random_sequences(path):
    generator = np.random.default_rng(0)
    for n, least in ((300, 30), (301, 1), (300, 300), (250, 25)):
        position = np.sort(generator.normal(size=n).round(1))
        covered = (generator.random(n) < 0.8).astype(np.uint8)
        assert engines.chosen.least_mean(position, covered, least) == brute_force(position, covered, least)


@settings(max_examples=400)
@given(
    points=st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 1.0, 2.0, 3.5, 3.6, 50.0]), st.booleans()), min_size=1, max_size=60
    ),
    data=st.data(),
)
def test_no_slab_falls_below_the_bound(points, data):
    place = np.array([p for p, _ in points])
    covered = np.array([c for _, c in points], dtype=np.uint8)
    least = data.draw(st.integers(1, len(points)))
    order = np.argsort(place)
    (bound,) = engines.chosen.least_mean_bounds(place[None, :], covered, least)
    assert bound <= engines.chosen.least_mean(place[order], covered[order], least) + 1e-12


def test_the_bound_is_worth_its_while():
    """Half of the random directions are ruled out by their bound alone."""
    generator = np.random.default_rng(0)
    places, covered = generator.normal(size=(100, 2000)), (generator.random(2000) < 0.9).astype(np.uint8)
    means = [float(engines.chosen.least_mean(np.sort(place), covered[np.argsort(place)], 200)) for place in places]
    bounds = engines.chosen.least_mean_bounds(places, covered, 200)
    assert (bounds > min(means)).mean() > 0.5
