"""The least mean of a slab against all pairs, with ties and repeated positions."""

from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels.slabs import find_slab, least_mean, least_mean_bounds
from aptset.metrics.features import project


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
    assert least_mean(position, covered, least) == expected
    slab = find_slab(position, covered, least, expected)
    assert (slab.low, slab.high) == first_slab(position, covered, least, expected)


def first_slab(position, covered, least, mean):
    """Return the slab of a mean that ends first, and among those the one that starts first."""
    for high in np.unique(position):
        for low in np.unique(position):
            inside = (position >= low) & (position <= high)
            if inside.sum() >= least and Fraction(int(covered[inside].sum()), int(inside.sum())) == mean:
                return low, high
    raise AssertionError("no slab has the mean")


def test_long_random_sequences(path):
    generator = np.random.default_rng(0)
    for n, least in ((300, 30), (301, 1), (300, 300), (250, 25)):
        position = np.sort(generator.normal(size=n).round(1))
        covered = (generator.random(n) < 0.8).astype(np.uint8)
        assert least_mean(position, covered, least) == brute_force(position, covered, least)


PLACES = st.sampled_from([*range(12), 0.1, 3.6, -1e-320, 1e300])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(points=st.lists(st.tuples(PLACES, PLACES, st.booleans()), min_size=1, max_size=40), data=st.data())
def test_no_slab_falls_below_the_bound(path, points, data):
    matrix = np.array([point[:2] for point in points], dtype=float)
    covered = np.array([point[2] for point in points], dtype=np.uint8)
    vectors = np.array([[1.0, 0.0], [0.3, -0.7], [0.0, 1.0]])
    least = data.draw(st.integers(1, len(points)))
    orders = [(place, np.argsort(place)) for place in project(matrix, vectors)]
    means = [least_mean(place[order], covered[order], least) for place, order in orders]
    known = data.draw(st.one_of(st.sampled_from(means), st.fractions(0, 1, max_denominator=20)))
    n_bins = data.draw(st.sampled_from([1, 2, 16, 1000]))
    bounds, reached = least_mean_bounds(matrix, vectors, covered, least, known, n_bins)
    for mean, bound in zip(means, bounds.tolist(), strict=True):
        assert bound <= mean + 1e-12 or (bound > reached and mean > reached)
    assert min(known, *means) <= reached <= known  # a slab has this mean, so the least one lies no higher


def test_bounds_of_many_rows_and_features(path):
    """Rows come in several pieces, and some lie outside of what a sample of them spans."""
    generator = np.random.default_rng(1)
    for n, features in ((3001, 3), (1500, 200), (700, 1)):
        matrix = generator.standard_t(2, size=(n, features))
        covered = (generator.random(n) < 0.8).astype(np.uint8)
        vectors = generator.normal(size=(5, features))
        bounds, reached = least_mean_bounds(matrix, vectors, covered, n // 10, Fraction(1), n // 5)
        for place, bound in zip(project(matrix, vectors), bounds.tolist(), strict=True):
            order = np.argsort(place)
            mean = least_mean(place[order], covered[order], n // 10)
            assert bound <= mean or (bound > reached and mean > reached)


def test_the_bound_is_worth_its_while():
    """Half of the random directions are ruled out by their bound alone, with and without a mean that is known."""
    generator = np.random.default_rng(0)
    matrix, covered = generator.normal(size=(2000, 5)), (generator.random(2000) < 0.9).astype(np.uint8)
    vectors = generator.normal(size=(100, 5))
    orders = [(place, np.argsort(place)) for place in project(matrix, vectors)]
    least = min(least_mean(place[order], covered[order], 200) for place, order in orders)
    for known in (Fraction(1), least):
        bounds, reached = least_mean_bounds(matrix, vectors, covered, 200, known, 400)
        assert (bounds > float(least)).mean() > 0.5
        assert bounds.min() <= float(least) <= float(reached) < float(least) + 0.02
