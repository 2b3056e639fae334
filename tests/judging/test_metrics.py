"""Every metric against its one-line definition, in every form of the input; intervals at their nominal coverage."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aptset
from aptset import PredictionSets
from aptset.judging.estimates import mean, mean_of_sizes, share, share_of_count

LABELS = ["ant", "bee", "cat"]


@st.composite
def outcomes(draw):
    n = draw(st.integers(1, 12))
    mask = np.array(draw(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=n, max_size=n)))
    truth = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))  # 3 is a label never seen
    groups = draw(st.lists(st.sampled_from(["x", "y"]), min_size=n, max_size=n))
    return mask, truth, groups


def same(found, expected):
    return (np.isnan(found) and np.isnan(expected)) or found == pytest.approx(expected, abs=1e-12)


def mean_or_nan(values):
    return float(np.mean(values)) if len(values) else np.nan


@given(outcomes())
def test_definitions(outcome):
    mask, truth, groups = outcome
    names = np.array([*LABELS, "dog"])
    labels = names[truth]
    rows = [[LABELS[j] for j in np.flatnonzero(row)] for row in mask]
    sizes = mask.sum(axis=1)
    covered = np.array([label in row for label, row in zip(labels, rows, strict=True)])
    classes = {"classes": LABELS}
    for sets, options in ((PredictionSets.from_mask(mask, LABELS), {}), (mask, classes), (rows, {})):
        assert same(aptset.coverage(sets, labels, **options), covered.mean())
        assert same(aptset.mean_size(sets), sizes.mean())
        assert same(aptset.size_given_coverage(sets, labels, **options), mean_or_nan(sizes[covered]))
        assert same(aptset.empty_rate(sets), (sizes == 0).mean())
        assert same(aptset.singleton_rate(sets), (sizes == 1).mean())
        assert same(aptset.singleton_accuracy(sets, labels, **options), mean_or_nan(covered[sizes == 1]))
        distribution = aptset.size_distribution(sets)
        assert {size: value.count for size, value in distribution.items()} == {
            size: int((sizes == size).sum()) for size in set(sizes.tolist())
        }
        for by, values in (("label", labels), (groups, np.array(groups))):
            found = aptset.coverage_by(sets, labels, by, **options)
            assert list(found) == sorted(set(values.tolist()))
            for name, value in found.items():
                assert same(value, covered[values == name].mean())
                assert value.n == (values == name).sum()
            by_size = aptset.mean_size_by(sets, labels, by, **options)
            assert all(same(value, sizes[values == name].mean()) for name, value in by_size.items())
            given = aptset.size_given_coverage_by(sets, labels, by, **options)
            assert all(same(value, mean_or_nan(sizes[(values == name) & covered])) for name, value in given.items())
        strata = aptset.size_stratified_coverage(sets, labels, **options)
        assert all(same(value, covered[sizes == size].mean()) for size, value in strata.items())
        binned = aptset.size_stratified_coverage(sets, labels, [0, 1, 3], **options)
        assert list(binned) == [(0, 0), (1, 2), (3, None)]
        assert same(binned[1, 2], mean_or_nan(covered[(sizes >= 1) & (sizes <= 2)]))
        shares = [covered[labels == name].mean() for name in set(labels.tolist())]
        assert same(aptset.coverage_gap(sets, labels, **options), max(shares) - min(shares))
        assert same(aptset.coverage_gap(sets, labels, 0.2, **options), np.mean(np.abs(np.array(shares) - 0.8)))


@given(n=st.integers(1, 60), data=st.data(), confidence=st.sampled_from([0.8, 0.95, 0.999]))
def test_shares_have_the_exact_binomial_interval(n, data, confidence):
    count = data.draw(st.integers(0, n))
    found = share_of_count(count, n, confidence)
    expected = stats.binomtest(count, n).proportion_ci(confidence, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (found, found.n, found.count) == (count / n, n, count)


def test_intervals_of_shares_cover_at_their_nominal_rate():
    """Law: Clopper-Pearson covers the truth with probability at least 0.95.

    4000 repetitions; the count of successes is Binomial(4000, at least 0.95): 5 standard deviations, false alarm 3e-7.
    """
    generator = np.random.default_rng(0)
    repetitions = 4000
    hits = sum(
        found.low <= 0.9 <= found.high
        for found in (share(generator.random(80) < 0.9, 0.95) for _ in range(repetitions))
    )
    assert hits > 0.95 * repetitions - 5 * (repetitions * 0.95 * 0.05) ** 0.5


SIZES = {  # rows, labels, sizes that come, their chances
    "few huge sets": (50, 100, [1, 100], [0.98, 0.02]),
    "very few huge sets": (1000, 1000, [1, 2, 1000], [0.6, 0.399, 0.001]),
    "few empty sets among large": (50, 100, [0, 100], [0.02, 0.98]),
    "few empty sets, labels unused": (200, 1000, [0, 5], [0.01, 0.99]),
    "three rows": (3, 10, [1, 2, 10], [0.5, 0.4, 0.1]),
    "one row": (1, 10, [1, 10], [0.5, 0.5]),
    "even sizes": (60, 5, [1, 2, 3], [0.3, 0.4, 0.3]),
    "long tail": (100, 50, np.arange(1, 51), 1 / np.arange(1, 51) ** 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_intervals_of_sizes_hold(name):
    """The interval holds at least 0.95; Student's held 0.64 in the first case.

    4000 repetitions, 5 standard deviations of a Binomial(4000, 0.95): false alarm 3e-7 each.
    """
    rows, most, values, weights = SIZES[name]
    generator = np.random.default_rng(0)
    chances = np.array(weights) / np.sum(weights)
    truth, repetitions = float(np.dot(values, chances)), 4000
    drawn = generator.choice(np.array(values), p=chances, size=(repetitions, rows))
    found = [mean_of_sizes(sizes, 0, most, 0.95) for sizes in drawn]
    hits = sum(one.low <= truth + 1e-12 and truth - 1e-12 <= one.high for one in found)
    assert hits > 0.95 * repetitions - 5 * (repetitions * 0.95 * 0.05) ** 0.5
    assert all(0 <= one.low <= float(one) <= one.high <= most for one in found)


def test_intervals_of_sizes_are_near_students_where_those_hold():
    sizes = np.random.default_rng(0).integers(1, 6, size=2000)
    found = mean_of_sizes(sizes, 0, 5, 0.95)
    half = 1.961 * sizes.std(ddof=1) / 2000**0.5
    assert (found.low, found.high) == pytest.approx((sizes.mean() - half, sizes.mean() + half), abs=0.008)
    wider = mean_of_sizes(sizes, 0, 5, 0.99)
    assert wider.low < found.low < found.high < wider.high


def test_estimates_are_floats_that_know_more():
    found = aptset.coverage([["a"], ["b"]], ["a", "a"])
    assert isinstance(found, float)
    assert found + 1 == 1.5
    assert found < 0.6
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.low, again.n, again.count) == (found, found.low, 2, 1)
    nothing = aptset.singleton_accuracy([[], ["a", "b"]], ["a", "a"])
    assert np.isnan(nothing)
    assert (nothing.low, nothing.high, nothing.n) == (0, 1, 0)
    assert np.isnan(aptset.size_given_coverage([[]], ["a"]))
    one = aptset.mean_size([["a"]])
    assert (one, one.low, one.high) == (1, 0, 1)


def test_bad_input():
    sets = [["a"], ["b"]]
    cases = [
        (lambda: aptset.coverage(sets, ["a"]), ValueError, "2 rows, but 1 entries"),
        (lambda: aptset.coverage(sets, ["a", "b"], confidence=1), ValueError, r"confidence must be in \(0, 1\)"),
        (lambda: aptset.coverage(np.ones((2, 2)), [0, 1]), TypeError, "boolean"),
        (lambda: aptset.coverage(["a", "b"], ["a", "b"]), TypeError, "list of labels for each row"),
        (lambda: aptset.coverage_by(sets, ["a", "b"], "feature"), ValueError, "by must be 'label' or an array"),
        (lambda: aptset.coverage_by(sets, ["a", "b"], [1]), ValueError, "by must have one entry per row"),
        (lambda: aptset.size_stratified_coverage(sets, ["a", "b"], [1, 2]), ValueError, "start at 0"),
        (lambda: aptset.coverage_gap(sets, ["a", "b"], 2), ValueError, "alpha must be"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


def test_labels_of_any_kind():
    assert aptset.coverage([[True], [False, True]], [True, False]) == 1
    assert aptset.coverage([[1, "a"], [None]], np.array(["a", None], dtype=object)) == 1
    assert list(aptset.coverage_by([[1], [2]], [1, 2], [1.5, None])) == [1.5, None]
    pd = pytest.importorskip("pandas")
    labels = pd.Series(["x", "y"], index=[7, 3])
    assert aptset.coverage([["x"], ["x"]], labels) == 0.5
    assert list(aptset.coverage_by([["x"], ["x"]], labels, pd.Categorical(["u", "v"]))) == ["u", "v"]


def evaluation(**options):
    generator = np.random.default_rng(0)
    mask = generator.random((300, 3)) < 0.6
    truth = generator.integers(3, size=300)
    return (
        aptset.evaluate(mask, truth, generator.normal(size=(300, 2)), generator.integers(2, size=300), **options),
        mask,
        truth,
    )


def test_evaluation_holds_everything():
    found, mask, truth = evaluation(alpha=0.4)
    assert found.coverage == aptset.coverage(mask, truth)
    assert found.coverage_gap == aptset.coverage_gap(mask, truth, 0.4)
    assert set(found.by_group) == set(found.size_by_group) == {0, 1}
    assert found.worst_slice.coverage.n > 0
    assert found.n == 300
    for words in ("300 prediction sets at alpha=0.4", "coverage", "worst slice", "lowest coverage by label"):
        assert words in repr(found)
    with pytest.raises(AttributeError):
        found.n = 3
    bare = aptset.evaluate(mask, truth)
    assert bare.worst_slice is None
    assert bare.by_group is None


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_evaluation_as_a_frame(backend):
    found, _, _ = evaluation()
    frame = found.to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names == ["metric", "by", "group", "value", "low", "high", "n", "count"]
    assert len(frame) == 8 + len(found.sizes) + len(found.by_size) + 3 * 3 + 3 * 2


def test_figures_give_back_their_table():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found, _, _ = evaluation(alpha=0.4)
    for kind in (
        "sizes",
        "by_size",
        "by_label",
        "size_by_label",
        "by_group",
        "size_by_group",
        "covering_size_by_label",
    ):
        display = found.plot(kind)
        frame = display.frame()
        np.testing.assert_array_equal(frame.iloc[:, 1], [float(v) for v in getattr(found, kind).values()])
        axes = display.draw()
        assert len(axes.patches) == len(frame)
    bare = aptset.evaluate([["a"]], ["a"])
    with pytest.raises(ValueError, match="kind must be one of"):
        bare.plot("by_group")
    axes = aptset.calibration_size(0.1, 0.05).plot().draw()
    assert len(axes.lines) == 4
    matplotlib.pyplot.close("all")


def test_missing_groups_are_one_group():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    sets, labels = [["a"], ["b"], ["a"], ["a"]], ["a", "a", "a", "b"]
    holders = [
        [1.0, np.nan, 2.0, np.nan],
        np.array([1.0, np.nan, 2.0, np.nan]),
        [1.0, None, 2.0, float("nan")],
        pd.array([1, None, 2, None], dtype="Int64"),
        pl.Series([1, None, 2, None]),
    ]
    for by in holders:
        found = aptset.coverage_by(sets, labels, by)
        assert {key: (value.count, value.n) for key, value in found.items()} == {1: (1, 1), None: (0, 2), 2: (1, 1)}
        gap = aptset.coverage_gap(sets, labels, by=by)
        assert gap.low <= gap == 1.0 <= gap.high
    assert list(aptset.coverage_by(sets, labels, [1, "1", 1, True])) == [1, "1"], "kinds are not mixed up (True is 1)"


def test_the_interval_of_the_gap_holds():
    """Law: simultaneous intervals hold all groups at once with probability at least 0.95, so the gap too.

    200 repetitions with a true gap of 0 and of 0.3: at least 0.95 - 5 standard deviations (0.077) of them hold it.
    """
    generator = np.random.default_rng(0)
    for chances in (np.full(6, 0.9), np.array([0.9, 0.8, 0.7, 0.6, 0.9, 0.9])):
        held = held_target = 0
        for _ in range(200):
            group = generator.integers(6, size=400)
            covered = generator.random(400) < chances[group]
            mask = np.column_stack([covered, np.ones(400, dtype=bool)])
            gap = aptset.coverage_gap(mask, np.zeros(400, dtype=int), by=group)
            held += gap.low <= np.ptp(chances) + 1e-12 and gap.high >= np.ptp(chances)
            toward = aptset.coverage_gap(mask, np.zeros(400, dtype=int), 0.1, by=group)
            held_target += toward.low <= np.abs(chances - 0.9).mean() + 1e-12 <= toward.high
        assert held > 200 * (0.95 - 0.077)
        assert held_target > 200 * (0.95 - 0.077)


def test_any_metric_by_any_group():
    sets, labels = [["a"], [], ["a", "b"], ["b"]], ["a", "b", "b", "b"]
    rates = aptset.breakdown(aptset.singleton_rate, sets, labels)
    assert {key: float(value) for key, value in rates.items()} == {"a": 1.0, "b": pytest.approx(1 / 3)}
    accuracy = aptset.breakdown(aptset.singleton_accuracy, sets, labels, ["x", "y", "x", "y"])
    assert {key: float(value) for key, value in accuracy.items()} == {"x": 1.0, "y": 1.0}
    sizes = aptset.breakdown(aptset.size_distribution, sets, labels)
    assert set(sizes["b"]) == {0, 1, 2}


def test_forms_that_are_accepted_and_refused():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    mask = np.array([[True, False], [True, True]])
    sets = PredictionSets.from_mask(mask, ["a", "b"])
    for frame in (pd.DataFrame(mask, columns=["a", "b"]), pl.DataFrame(mask, schema=["a", "b"]), sets.to_frame()):
        assert aptset.coverage(frame, ["b", "b"]) == 0.5
    with pytest.raises(TypeError, match="numpy array"):
        aptset.coverage(mask.tolist(), [0, 1])
    with pytest.raises(TypeError, match="one boolean column per class"):
        aptset.coverage(pd.DataFrame({"x": ["u"]}), ["u"])
    for by in (np.zeros((2, 2)), 3, None):
        with pytest.raises(ValueError, match="by must be 'label' or 1-D"):
            aptset.coverage_by(sets, ["a", "b"], by)
    with pytest.raises(TypeError, match="one plain value per row"):
        aptset.coverage_by(sets, ["a", "b"], [(1, 2), (3, 4)])
    nothing = aptset.coverage_gap([], [])
    assert np.isnan(nothing)


def test_mixed_keys_can_be_drawn():
    found = aptset.evaluate([["a"], [1], ["a"]], np.array(["a", 1, None], dtype=object))
    for backend in ("pandas", "polars", "pyarrow"):
        assert len(found.plot("by_label").frame(backend)) == 3


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1))
def test_the_ends_of_sizes_are_students_after_one_extreme_size_more(sizes):
    found = mean_of_sizes(np.array(sizes), 0, 9, 0.9)
    t = stats.t(len(sizes)).ppf(0.95)
    ends = []
    for extreme, interval_end in ((0, 0), (9, 1)):
        more = np.array([*sizes, extreme], dtype=float)
        student = stats.t.interval(0.9, len(sizes), more.mean(), stats.sem(more))[interval_end]
        further = (t**2 - 1) / 3 * abs(extreme - more.mean()) / len(more)
        ends.append(np.clip(student + (2 * interval_end - 1) * further, 0, 9))
    assert (found.low, found.high) == pytest.approx(ends)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1))
def test_means_have_the_interval_of_student(values):
    found = mean(np.array(values), 0.9)
    low, high = stats.t.interval(0.9, len(values) - 1, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_evaluation_passes_everything_on():
    generator = np.random.default_rng(1)
    mask, truth = generator.random((200, 3)) < 0.7, generator.integers(3, size=200)
    X, groups = generator.normal(size=(200, 2)), generator.integers(2, size=200)
    found = aptset.evaluate(mask, truth, X, groups, alpha=0.3, confidence=0.8, random_state=4)
    options = {"confidence": 0.8}
    expected = {
        "coverage": aptset.coverage(mask, truth, **options),
        "mean_size": aptset.mean_size(mask, **options),
        "size_given_coverage": aptset.size_given_coverage(mask, truth, **options),
        "empty_rate": aptset.empty_rate(mask, **options),
        "singleton_rate": aptset.singleton_rate(mask, **options),
        "singleton_accuracy": aptset.singleton_accuracy(mask, truth, **options),
        "coverage_gap": aptset.coverage_gap(mask, truth, 0.3, **options),
        "sizes": aptset.size_distribution(mask, **options),
        "by_size": aptset.size_stratified_coverage(mask, truth, **options),
        "by_label": aptset.coverage_by(mask, truth, **options),
        "size_by_label": aptset.mean_size_by(mask, truth, **options),
        "by_group": aptset.coverage_by(mask, truth, groups, **options),
        "size_by_group": aptset.mean_size_by(mask, truth, groups, **options),
        "covering_size_by_label": aptset.size_given_coverage_by(mask, truth, **options),
        "covering_size_by_group": aptset.size_given_coverage_by(mask, truth, groups, **options),
    }
    for name, value in expected.items():
        assert repr(getattr(found, name)) == repr(value), name
    slab = aptset.worst_slice_coverage(mask, truth, X, random_state=4, **options)
    assert repr(found.worst_slice) == repr(slab)
    assert found.plot("by_label").marks == [0.7]
