"""An evaluation is what the metrics say, as attributes, a table, figures and words."""

import numpy as np
import pytest

import aptset
from aptset import Evaluation
from aptset.metrics import BREAKDOWNS, METRICS
from aptset.metrics.estimates import share_of_count


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


def test_a_worst_slice_of_few_rows_is_kept_but_not_shown():
    """Coverage of fewer than ten rows says nothing: neither text, nor table, nor report shows it."""
    X, truth = np.random.default_rng(0).normal(size=(400, 2)), np.arange(400) % 2
    for n_rows, is_shown in ((30, False), (400, True)):
        found = aptset.evaluate(np.ones((n_rows, 2), dtype=bool), truth[:n_rows], X[:n_rows], alpha=0.1, random_state=0)
        assert (len(found.worst_slice.rows) >= 10) is is_shown
        assert ("worst slice" in repr(found), "Worst slice" in found._repr_html_()) == (is_shown, is_shown)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_evaluation_as_a_frame(backend):
    found, _, _ = evaluation()
    frame = found.to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names == ["metric", "by", "group", "value", "low", "high", "n", "count"]
    assert len(frame) == len(METRICS) + sum(len(getattr(found, name)) for name in BREAKDOWNS)


def test_figures_give_back_their_table():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found, _, _ = evaluation(alpha=0.4)
    for kind in BREAKDOWNS:
        display = found.plot(kind)
        frame = display.frame()
        np.testing.assert_array_equal(frame.iloc[:, 1], [float(v) for v in getattr(found, kind).values()])
        axes = display.draw()
        assert len(axes.patches) == len(frame)
    bare = aptset.evaluate([["a"]], ["a"])
    with pytest.raises(ValueError, match=r"kind .by_group. needs groups: pass groups="):
        bare.plot("by_group")
    axes = aptset.calibration_size(0.1, 0.05).plot().draw()
    assert len(axes.lines) == 4
    matplotlib.pyplot.close("all")


def test_mixed_keys_can_be_drawn():
    found = aptset.evaluate([["a"], [1], ["a"]], np.array(["a", 1, None], dtype=object))
    for backend in ("pandas", "polars", "pyarrow"):
        assert len(found.plot("by_label").frame(backend)) == 3


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


@pytest.mark.parametrize(("labels", "rows"), [(10, 3000), (200, 12_000)])
def test_the_interval_of_the_lowest_coverage_knows_that_it_was_chosen(labels, rows):
    """Law: whichever label comes out lowest, its interval holds its coverage in at least 95 of 100 samples.

    In 400 samples at that rate fewer than 354 would come in less than one of a million. The label's own interval holds
    in about 0.82 of the samples with 10 labels here, and in 0.05 with 200.
    """
    generator, single, chosen = np.random.default_rng(labels), 0, 0
    for _ in range(400):
        truth = generator.integers(labels, size=rows)
        covered = np.bincount(truth, generator.random(rows) < 0.9, minlength=labels).astype(int)
        shares = {
            label: share_of_count(int(covered[label]), int(n), 0.95)
            for label, n in enumerate(np.bincount(truth, minlength=labels))
        }
        name, lowest = Evaluation({}, {"by_label": shares}, 0.1, rows).lowest()
        single += shares[name].low <= 0.9 <= shares[name].high
        chosen += lowest.low <= 0.9 <= lowest.high
    assert chosen >= 354
    assert single < 354


def test_the_lowest_coverage_is_simultaneous_wherever_it_is_said():
    judged, _, _ = evaluation(confidence=0.9)
    for by in ("label", "group", "size"):
        values = {name: one for name, one in getattr(judged, f"by_{by}").items() if by != "size" or name}
        name, lowest = judged.lowest(by)
        assert float(lowest) == min(float(one) for one in values.values())
        assert repr(lowest) == repr(share_of_count(values[name].count, values[name].n, 1 - 0.1 / len(values)))
        line = f"lowest coverage by {by:<10}{lowest!r} for {name}".replace("  ", "")
        assert (line in repr(judged).replace("  ", "")) == (by != "size"), "an exact method covers less in small sets"
    assert aptset.evaluate([], []).lowest() is None
    with pytest.raises(ValueError, match="by"):
        judged.lowest("row")


def test_coverage_is_flat_over_difficulty_where_it_should_be():
    """Law: the oracle's adaptive sets cover 1 - alpha at every number of labels that rows need, but not at every size.

    Right probabilities; 20,000 rows calibrate, 60,000 are judged: within 5.5 standard errors, of the stratum and of the
    calibration, in each of eight strata; less than one false alarm in a million.
    """
    generator = np.random.default_rng(1)
    logits = generator.normal(size=(80_000, 8)) * np.repeat([0.7, 1.5, 3, 8], 20_000)[:, None]
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    y = np.minimum((p.cumsum(axis=1) < generator.random((80_000, 1))).sum(axis=1), 7)
    first = generator.permutation(80_000) < 20_000
    sets, p_values = aptset.calibrate(p[first], y[first], random_state=0).sets_and_p_values(p[~first], 0.1)
    judged = aptset.evaluate(sets, y[~first], alpha=0.1, p_values=p_values, probabilities=p[~first])
    strata = aptset.coverage_by(sets, y[~first], judged.evidence.needed.of_row)
    for one in strata.values():
        assert abs(one - 0.9) < 5.5 * (0.09 / one.n + 0.09 / 20_000) ** 0.5
    assert sorted(strata) == list(range(1, 9)), "the strata differ as much as sizes do"
    assert judged.by_size[7] > 0.93, "where u decides, the larger sets cover more"
