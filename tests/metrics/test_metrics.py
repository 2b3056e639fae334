"""Every metric against its one-line definition, in every form of the input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset import PredictionSets

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


@given(outcomes(), st.sampled_from([None, 0.1, 0.3]), st.sampled_from([None, 0.0, 0.5, 1.0]))
def test_labels_that_count_the_same(outcome, alpha, level):
    mask, truth, _ = outcome
    covered = np.array([label < 3 and row[label] for row, label in zip(mask, truth, strict=True)])
    shares = [covered[truth == label].mean() for label in np.unique(truth)]
    labels = np.array([*LABELS, "dog"])[truth]
    macro = aptset.macro_coverage(mask, labels, classes=LABELS)
    assert same(macro, np.mean(shares))
    wanted = level if level is not None else 1 - 2 * (0.1 if alpha is None else alpha)
    below = aptset.labels_below(mask, labels, level, alpha=alpha, classes=LABELS)
    assert same(below, np.mean([share < wanted for share in shares]))
    for found in (macro, below):
        assert 0 <= found.low <= found <= found.high <= 1
        assert found.n == len(truth)


def test_the_interval_of_macro_coverage_holds():
    """Hoeffding's interval misses in at most 5 % of 2,000 draws; 5 standard deviations above would be 0.075."""
    generator, rows = np.random.default_rng(0), [3, 5, 40, 200]
    chances, truth = np.array([0.2, 0.6, 0.9, 0.95]), np.repeat(np.arange(4), rows)
    missed = 0
    for _ in range(2000):
        mask = np.zeros((len(truth), 4), dtype=bool)
        mask[np.arange(len(truth)), truth] = generator.random(len(truth)) < chances[truth]
        found = aptset.macro_coverage(mask, truth)
        missed += not found.low <= chances.mean() <= found.high
    assert missed < 0.075 * 2000


def test_labels_below_is_refused_for_no_level():
    with pytest.raises(ValueError, match=r"level must be a coverage in \[0, 1\]; got 80"):
        aptset.labels_below([[True, False]], [0], 80)


@pytest.mark.parametrize("metric", [aptset.coverage, aptset.singleton_accuracy, aptset.size_given_coverage])
def test_metrics_of_coverage_ask_for_the_labels(metric):
    sets = PredictionSets([0, 1], [0], [0, 1])
    with pytest.raises(ValueError, match=r"labels must be the true label of each row.*got None"):
        metric(sets, None)
