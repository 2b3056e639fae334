"""The worst slice: exact search, an unbiased estimate, and defined results at the edges."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

import aptset
from aptset.kernels.slabs import least_mean
from aptset.metrics.features import project


def sets_for(covered):
    """Sets over two labels that hold label 0 exactly where covered."""
    return np.column_stack([covered, np.ones(len(covered), dtype=bool)])


def worst(covered, X, **options):
    return aptset.worst_slice_coverage(sets_for(np.asarray(covered)), np.zeros(len(covered), dtype=int), X, **options)


@given(
    rows=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.booleans()), min_size=1, max_size=18),
    delta=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
)
def test_in_sample_minimum_equals_brute_force(rows, delta):
    X = np.array([row[:2] for row in rows], dtype=float)
    covered = np.array([row[2] for row in rows])
    directions = np.array([[1, 0], [0, 1], [0, -1]])  # whole numbers project exactly
    least = -(-Fraction(str(delta)) * len(rows) // 1)
    best = min(
        covered[inside].mean()
        for v in directions
        for low in (X @ v).tolist()
        for high in (X @ v).tolist()
        if (inside := (X @ v >= low) & (X @ v <= high)).sum() >= max(least, 1)
    )
    found = worst(covered, X, method="in-sample", directions=directions, delta=delta)
    assert float(found) == pytest.approx(best, abs=1e-12)
    assert found.found == float(found)
    inside = found.contains(X)
    assert covered[inside].mean() == pytest.approx(best, abs=1e-12)
    assert inside.mean() == pytest.approx(found.share)
    assert found.coverage.n == inside.sum()


@pytest.mark.parametrize("n", [60, 700])
def test_the_first_of_the_worst_directions_is_found(path, limits, n):
    """As by looking at every direction in turn, where several are the same and many tie; at 700 rows also by a second,
    closer look."""
    limits(coarse_bins=16)
    generator = np.random.default_rng(n)
    for _ in range(4):
        X, covered = generator.normal(size=(n, 3)).round(1), generator.random(n) < 0.85
        some = generator.normal(size=(40, 3))
        directions = np.vstack([some, -some, some])
        found = worst(covered, X, method="in-sample", directions=directions)
        means = []
        for place in project(X, directions):
            order = np.argsort(place)
            means.append(least_mean(place[order], covered[order].astype(np.uint8), -(-n // 10)))
        assert found.found == float(min(means))
        np.testing.assert_array_equal(found.direction, directions[int(np.argmin(means))])


def test_held_out_estimate_is_unbiased_and_the_minimum_is_not():
    """Law: with coverage 0.9 given every x, the rows kept apart are independent of the slab, so the covered ones among
    those in it are Binomial(number in it, 0.9): summed over repetitions, one exact test; false alarm 1e-6."""
    generator = np.random.default_rng(0)
    hits = rows = 0
    lowest = []
    for r in range(60):
        X, covered = generator.normal(size=(600, 4)), generator.random(600) < 0.9
        found = worst(covered, X, directions=100, random_state=r)
        hits, rows = hits + found.coverage.count, rows + found.coverage.n
        lowest.append(float(worst(covered, X, directions=100, method="in-sample")))
    assert rows > 2000
    assert stats.binomtest(hits, rows, 0.9).pvalue > 1e-6
    assert np.mean(lowest) < 0.82


def test_rows_that_are_not_independent_bias_the_held_out_estimate():
    """The other side of the law above, which the pages name: ten rows of each patient stand in both parts.

    Coverage is 0.9 given every x; the estimate is near 0.5, with a standard error below 0.03 over 30 repetitions.
    """
    generator, estimates = np.random.default_rng(3), []
    for r in range(30):
        X, covered = generator.normal(size=(60, 2)), generator.random(60) < 0.9
        estimates.append(float(worst(np.repeat(covered, 10), np.repeat(X, 10, axis=0), directions=100, random_state=r)))
    assert np.mean(estimates) < 0.75


def test_finds_the_rows_that_are_badly_served():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(4000, 5))
    covered = generator.random(4000) < np.where(X[:, 2] > 1, 0.5, 0.95)
    found = worst(covered, X)
    assert found.coverage.high < 0.75
    assert found.top_features(1)[0][0] == "x2"
    assert found.low > 0 or found.high < 0
    assert "x2 is" in found.describe()
    assert worst(covered, X, random_state=0).direction.tolist() == found.direction.tolist(), "seeded"
    assert worst(covered, X, random_state=1).direction.tolist() != found.direction.tolist()


def test_global_random_state_and_threads(monkeypatch):
    generator = np.random.default_rng(2)
    X, covered = generator.normal(size=(500, 3)), generator.random(500) < 0.8
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is watched
    found = worst(covered, X)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    monkeypatch.setenv("APTSET_THREADS", "1")
    assert (worst(covered, X).low, worst(covered, X).coverage) == (found.low, found.coverage)


def test_the_first_of_equal_directions_is_found_by_any_threads(monkeypatch):
    """Several directions are searched side by side where there are many rows."""
    generator = np.random.default_rng(4)
    X, covered = generator.normal(size=(30_000, 3)).round(1), generator.random(30_000) < 0.9
    some = generator.normal(size=(30, 3))
    directions, found = np.vstack([some, -some, some]), []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("APTSET_THREADS", threads)
        found.append(worst(covered, X, method="in-sample", directions=directions))
    assert len({(one.low, one.high, one.found, tuple(one.direction)) for one in found}) == 1
    position = project(X, some)
    order = np.argsort(position, axis=1)
    flags = covered.astype(np.uint8)
    means = [least_mean(place[at], flags[at], 3000) for place, at in zip(position, order, strict=True)]
    first = int(np.argmin([float(mean) for mean in means]))
    assert found[0].direction.tolist() == some[first].tolist()
    assert found[0].found == float(min(means))


def test_edges():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(200, 3))
    assert float(worst(np.ones(200, dtype=bool), X)) == 1.0
    assert float(worst(np.zeros(200, dtype=bool), X)) == 0.0
    for n in (1, 2, 3, 5, 20):
        found = worst(generator.random(n) < 0.5, X[:n], directions=20)
        assert np.isnan(float(found)) or 0 <= float(found) <= 1
        assert 0 <= found.found <= 1
        assert "coverage" in repr(found)


def test_nothing_in_the_slab_is_not_a_crash():
    X = np.arange(40.0)[:, None]
    found = aptset.worst_slice_coverage(
        sets_for(np.arange(40) % 2 == 0), np.zeros(40, dtype=int), X, delta=0.001, directions=[[1.0]], random_state=1
    )
    # One missed point is a slab of its own, which holds no other row.
    assert found.found == 0.0
    assert found.coverage.n == 0
    assert np.isnan(float(found))
    assert (found.coverage.low, found.coverage.high) == (0.0, 1.0)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_categories(library):
    frames = pytest.importorskip(library)
    generator = np.random.default_rng(4)
    city, age = generator.choice(["Rome", "Oslo", None], size=3000), generator.normal(50, 20, size=3000)
    covered = generator.random(3000) < np.where(city == "Oslo", 0.4, 0.95)
    frame = frames.DataFrame({"age": age, "city": city.tolist()})
    found = worst(covered, frame)
    assert found.names == ["age", "city=Oslo", "city=Rome", "city=missing"]
    assert "city=Oslo" in [name for name, _ in found.top_features(2)]
    assert found.coverage.high < 0.8
    inside = found.contains(frame)
    assert found.coverage.n < inside.sum()
    one_city = frames.DataFrame({"age": age[city == "Rome"], "city": city[city == "Rome"].tolist()})
    np.testing.assert_array_equal(found.contains(one_city), inside[city == "Rome"])


def test_sparse_features():
    generator = np.random.default_rng(5)
    X = generator.poisson(0.5, size=(400, 6)).astype(float)
    covered = generator.random(400) < 0.8
    directions = np.eye(6)
    dense, thin = (worst(covered, data, directions=directions) for data in (X, sparse.csr_array(X)))
    assert (dense.coverage, dense.low, dense.high) == (thin.coverage, thin.low, thin.high)
    np.testing.assert_allclose(dense.spread, thin.spread)


def test_bad_input():
    X, covered = np.zeros((10, 2)), np.ones(10, dtype=bool)
    cases = [
        ({"delta": 0}, "delta must be in"),
        ({"delta": 1.5}, "delta must be in"),
        ({"directions": 0}, "at least 1"),
        ({"directions": [[1.0, 2.0, 3.0]]}, "one entry per feature"),
        ({"directions": [[0.0, 0.0]]}, "must not be empty or zero"),
        ({"directions": np.empty((0, 2))}, "must not be empty"),
        ({"method": "best"}, "method must be one of"),
        ({"share_to_find": 1.0}, "share_to_find must be in"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            worst(covered, X, **options)
    with pytest.raises(ValueError, match="10 sets, but 9 rows"):
        worst(covered, X[:9])
    with pytest.raises(ValueError, match="Replace infinite values"):
        worst(covered, np.where(X == 0, np.inf, X))
    with pytest.raises(TypeError, match="matrix of numbers"):
        worst(covered, np.full((10, 2), "a"))
    with pytest.raises(ValueError, match="are missing"):
        worst(covered, X).contains(np.zeros((3, 1)))


def test_exact_ties_stay_ties():
    """Directions are used as they are given, and with one and the same sum everywhere."""
    X, covered = np.array([[0.0, 1.0], [1.0, 3.0]]), np.array([False, True])
    assert float(worst(covered, X, directions=[[2.0, -1.0]], delta=0.01, method="in-sample")) == 0.5
    X = np.array([[0.0, 0.4], [0.3, 0.1]])
    directions = np.array([[-1, -1], [1, -1], [1, 0], [-1, -1]])
    assert float(worst(covered, X, directions=directions, delta=0.01, method="in-sample")) == 0.0


@given(st.integers(0, 10_000))
def test_report_and_contains_agree(seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(60, 3)).round(int(generator.integers(0, 3)))
    covered = generator.random(60) < 0.7
    found = worst(covered, X, directions=30, method="in-sample", random_state=seed)
    inside = found.contains(X)
    assert inside.sum() == found.coverage.n
    assert covered[inside].mean() == float(found)
    np.testing.assert_array_equal([found.contains(row[None, :])[0] for row in X], inside)
    np.testing.assert_allclose(found.means, X[inside].mean(axis=0))
    assert found.share == inside.mean()


def test_spreads_that_overflow_are_infinite_on_every_engine_and_nobody_warns(path):
    draw = np.random.default_rng(0)
    p = draw.dirichlet(np.ones(3), size=400)
    sets = aptset.calibrate(p, p.argmax(axis=1), random_state=0).predict_set(p, 0.2)
    slab = aptset.evaluate(sets, p.argmax(axis=1), draw.normal(size=(400, 4)) * 1e300, alpha=0.2).worst_slice
    assert np.isinf(slab.spread).all()
    assert type(slab.share) is float


def test_values_that_overflow_are_refused():
    X = np.full((50, 64), 1.7e308)
    for options in ({"directions": np.ones((1, 64))}, {"standardize": True}):
        with pytest.raises(ValueError, match=r"overflow"), np.errstate(all="ignore"):
            worst(np.arange(50) % 3 > 0, X * np.linspace(0.5, 1, 50)[:, None], method="in-sample", **options)


def test_columns_of_odd_kinds():
    pd = pytest.importorskip("pandas")
    generator = np.random.default_rng(6)
    n = 400
    frame = pd.DataFrame(
        {
            "text": pd.Series(generator.choice(["x", None], size=n), dtype="string"),
            "flag": pd.Series(generator.choice([True, False], size=n), dtype="boolean"),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(100, size=n), unit="D"),
            "kind": pd.Categorical(generator.choice(["u", "v"], size=n)),
        }
    )
    covered = generator.random(n) < np.where(frame["when"] > "2024-03-20", 0.3, 0.95)
    found = worst(covered, frame)
    assert found.names == ["text=missing", "text=x", "flag", "when", "kind=u", "kind=v"]
    assert found.top_features(1)[0][0] == "when"
    with pytest.raises(ValueError, match="distinct column names"):
        worst(covered, frame[["flag", "flag"]])


def test_standardised_directions_and_spreads():
    """Features on scales a million apart: only standardised directions can find the small one."""
    generator = np.random.default_rng(7)
    X = generator.normal(size=(3000, 2)) * np.array([1e6, 1.0])
    covered = generator.random(3000) < np.where(X[:, 1] > 1, 0.3, 0.95)
    assert worst(covered, X, standardize=True).top_features(1)[0][0] == "x1"
    assert worst(covered, X, standardize=False).top_features(1)[0][0] == "x0"
    for matrix in (X, sparse.csr_array(X), sparse.csr_array((X / [1e5, 1]).astype(np.int8))):
        dense = matrix.toarray().astype(float) if sparse.issparse(matrix) else matrix
        np.testing.assert_allclose(worst(covered, matrix, directions=2).spread, dense.std(axis=0), rtol=1e-9)


def test_found_on_a_quarter_and_judged_on_the_rest():
    generator = np.random.default_rng(8)
    X, covered = generator.normal(size=(400, 2)), generator.random(400) < 0.8
    found = worst(covered, X, directions=np.eye(2), random_state=0)
    order = np.random.default_rng(0).permutation(400)  # directions are given: nothing else is drawn
    inside = found.contains(X)
    assert found.share == inside[order[:100]].mean()
    assert found.found == covered[order[:100]][inside[order[:100]]].mean()
    assert (found.coverage.n, found.coverage.count) == (
        inside[order[100:]].sum(),
        (covered & inside)[order[100:]].sum(),
    )


def test_ruling_directions_out_changes_nothing():
    """The worst of many directions is the worst of them taken one by one."""
    for seed in range(4):
        generator = np.random.default_rng(seed)
        X, covered = generator.normal(size=(500, 4)), generator.random(500) < 0.85
        directions = generator.normal(size=(60, 4))
        one_by_one = [float(worst(covered, X, directions=v[None, :], method="in-sample")) for v in directions]
        assert float(worst(covered, X, directions=directions, method="in-sample")) == min(one_by_one)
