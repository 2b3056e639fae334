"""Scores on a grid: a score like any other, whose counts answer every level and every p-value."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aptset
from aptset.scores import SCORES
from batch_data import NAMES, rows, table
from rows_strategy import matrices, uniforms

P, Y = rows(800, seed=21)
NEW, _ = rows(200, seed=22)
LABELS = [NAMES[k] for k in Y]
GROUP = np.random.default_rng(23).integers(0, 3, size=800)


@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore:.*are too few for alpha")
@given(p=matrices(), u=uniforms, steps=st.integers(0, 12), name=st.sampled_from(sorted(SCORES)), data=st.data())
def test_the_fast_form_is_the_definition(p, u, steps, name, data):
    """Rounding up as a function of places, which scores every label, gives the same as comparing plain scores."""
    score = aptset.Gridded(SCORES[name](), 2.0**-steps)
    y = data.draw(st.lists(st.integers(0, p.shape[1] - 1), min_size=len(p), max_size=len(p)))
    common = {"u": np.full(len(p), u), "random_state": 0, "normalize": True}
    fast = aptset.calibrate(p, y, conformity=score, **common)
    slow = aptset.calibrate(p, y, conformity=score.of, **common)
    assert fast.scores.tolist() == slow.scores.tolist()
    assert (fast.scores / 2.0**-steps % 1 == 0).all()
    assert np.array_equal(fast.p_values(p, u=common["u"]), slow.p_values(p, u=common["u"]))
    for alpha in (0.3, 0.5, 0.9):
        assert fast.predict_set(p, alpha, u=common["u"]) == slow.predict_set(p, alpha, u=common["u"])


@pytest.mark.parametrize("resolution", [2.0**-20, 2.0**-4])
@pytest.mark.parametrize("groups", ["none", "label", "row"])
@pytest.mark.parametrize("conformity", ["adaptive", "regularized", "margin"])
def test_counts_answer_what_scores_would(conformity, groups, resolution, path):
    values = {"none": None, "label": "label", "row": GROUP}[groups]
    score = aptset.Gridded(SCORES[conformity](), resolution)
    kept = aptset.calibrate(P, LABELS, classes=NAMES, conformity=score, groups=values, random_state=5)
    found = aptset.calibrate_batches(
        table(P, Y, g=GROUP),
        labels="y",
        prefix="p_",
        conformity=conformity,
        resolution=resolution,
        groups={"row": "g"}.get(groups, values),
        random_state=5,
    )
    of_new = np.where(np.arange(200) == 7, 99, GROUP[:200]) if groups == "row" else None  # 99 was never seen
    p_values = found.p_values(NEW, groups=of_new)
    assert np.array_equal(p_values, kept.p_values(NEW, groups=of_new))
    for alpha in (0.05, 0.1, 1 / 3, 0.5, 0.77):
        assert found.threshold(alpha) == kept.threshold(alpha)
        with pytest.warns(UserWarning, match="never seen") if groups == "row" else _nothing():
            assert np.array_equal(found.predict_mask(NEW, alpha, groups=of_new), p_values > alpha)


class _nothing:  # noqa: N801 - stands for a context without a warning
    def __enter__(self):
        return None

    def __exit__(self, *failure):
        return None


def test_the_promise_holds_on_a_coarse_grid():
    """Coverage is at least 1 - alpha: of 40,000 new rows it is within 6 deviations of Beta-binomial's lower end.

    Given n = 4,000 calibration rows coverage has the law of a Beta(k, n + 1 - k) at least (ties only help); its
    deviation is 0.0047, that of the share of 40,000 rows 0.0015: together 0.005. Below 0.9 - 0.03 with chance < 1e-8.
    """
    p, y = rows(44_000, seed=24)
    found = aptset.calibrate_batches(
        table(p[:4000], y[:4000]), labels="y", prefix="p_", resolution=2**-3, random_state=0
    )
    sets = found.predict_set(p[4000:], 0.1)
    assert sets.covers(np.array(NAMES)[y[4000:]]).mean() > 0.87
    exact = aptset.calibrate(p[:4000], y[:4000], random_state=0).predict_set(p[4000:], 0.1)
    assert sets.sizes.mean() >= exact.sizes.mean() - 0.05


@pytest.mark.parametrize("groups", [None, "label", "g"])
def test_merging_is_calibrating_at_once(groups):
    common = {"labels": "y", "prefix": "p_", "resolution": 2**-20, "groups": groups, "ids": "row", "random_state": 1}
    sent = table(P, Y, g=[f"g{k}" for k in GROUP])
    whole = aptset.calibrate_batches(sent, **common)
    parts = [aptset.calibrate_batches(sent.slice(start, 200), **common) for start in (0, 200, 400, 600)]
    left = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    right = parts[3].merge(parts[2].merge(parts[1].merge(parts[0])))
    for merged in (left, right):
        assert merged.n == 800
        for alpha in (0.03, 0.1, 0.6):
            assert merged.threshold(alpha) == whole.threshold(alpha)
    with pytest.raises(ValueError, match="differs in score"):
        parts[0].merge(aptset.calibrate_batches(sent.slice(200), **{**common, "resolution": 2**-10}))
    with pytest.raises(ValueError, match="would count twice"):
        parts[0].merge(parts[0])


def test_what_a_grid_cannot_hold():
    with pytest.raises(ValueError, match="on a grid last, and once"):
        aptset.calibrate(P, Y, conformity=aptset.Gridded(aptset.Gridded(aptset.Adaptive(), 0.5), 0.5))
    with pytest.raises(ValueError, match="on a grid last, and once"):
        aptset.calibrate(P, Y, conformity=aptset.Tempered(aptset.Gridded(aptset.Adaptive(), 0.5), 0.5))
    for wrong in (0, -0.5, 2, 0.3, True, "fine", float("nan"), 2.0**-41):
        with pytest.raises(ValueError, match="resolution must be a power of two"):
            aptset.Gridded(aptset.Adaptive(), wrong)
    giant = aptset.Regularized(penalty=1e9)
    with pytest.raises(ValueError, match="resolution must be coarse enough for the scores"):
        aptset.calibrate_batches(giants(), labels="y", probabilities="p", conformity=giant, resolution=2**-40)


def giants():
    """Labels of ranks up to 6,000, each of which costs a billion."""
    return pa.table({"p": np.full((20, 6000), 1 / 6000).tolist(), "y": np.arange(20)})


def test_a_grid_that_does_not_fit_is_refused(limits):
    limits(grid_cells=100)
    with pytest.raises(ValueError, match=r"at most 100 points of the grid.*Pass a coarser one, or leave it out"):
        aptset.calibrate_batches(table(P, Y), labels="y", prefix="p_", resolution=2**-20)


def test_scores_that_stand_on_the_grid_already():
    """Dyadic rows without chance: new scores equal calibration scores, and a tie is not below."""
    p = np.array([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125], [1.0, 0.0, 0.0]])[np.arange(90) % 3]
    y = np.arange(90) // 3 % 3
    common = {"randomized": False, "random_state": 0}
    kept = aptset.calibrate(p, y, conformity=aptset.Gridded(aptset.Adaptive(), 2**-3), **common)
    sent = pa.table({"p": p.tolist(), "y": y})
    found = aptset.calibrate_batches(sent, labels="y", resolution=2**-3, **common)
    assert np.array_equal(found.p_values(p), kept.p_values(p))
    assert len(np.unique(found.p_values(p))) > 3
