"""An evaluation is what the metrics say, as attributes, a table, figures and words."""

import numpy as np
import pytest

import aptset
from aptset.judging.metrics import METRICS


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
    assert len(frame) == len(METRICS) + len(found.sizes) + len(found.by_size) + 3 * 3 + 3 * 2


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
