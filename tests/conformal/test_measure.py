"""Every maker of thresholds stands behind one interface: shapes broadcast, and a set is a comparison with them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import aptset
from aptset.calibration.request import Request, prepare
from aptset.kernels.rows import all_scores_of_block

LEVELS = [Fraction(1, 20), Fraction(1, 4), Fraction(7, 10)]
N, M, K = 400, 50, 5
generator = np.random.default_rng(3)
P, NEW = generator.dirichlet(np.ones(K), size=N), generator.dirichlet(np.ones(K), size=M)
Y = (P.cumsum(axis=1) > generator.random((N, 1))).argmax(axis=1)
GROUPS, NEW_GROUPS = generator.integers(3, size=N), generator.integers(4, size=M)  # one of them was never seen
FLAGS, NEW_FLAGS = generator.random((N, 2)) < 0.5, generator.random((M, 2)) < 0.5
BANDS = aptset.LabelBands({0: "a", 1: "a", 2: "b", 3: "b", 4: "c"})
CELLS = {
    "none": (None, None, (1, 1)),
    "label": ("label", None, (1, K)),
    "bands": (BANDS, None, (1, K)),
    "groups": (GROUPS, NEW_GROUPS, (M, 1)),
    "overlapping": (aptset.Overlapping(FLAGS), NEW_FLAGS, (M, 1)),
}
MASSES = {
    "plain": ({}, {}, (1, 1)),
    "of rows": ({"weights": generator.random(N)}, {"weights": generator.random(M)}, (M, 1)),
    "of labels": ({"label_weights": dict(enumerate(generator.random(K) + 0.5))}, {}, (1, K)),
}


def check(calibration, new_groups, shape, **options):
    request = Request(groups=new_groups, **options)
    measure = calibration.held_out
    placed, _ = prepare(calibration, NEW, request, ())
    thresholds = measure.thresholds(LEVELS, measure.groups.index(placed.ids), placed.mass)
    assert thresholds.shape == (len(LEVELS), *shape)
    scores, bad = all_scores_of_block(placed.rows.seeded(), 0, M)
    assert bad == -1
    for alpha, of_level in zip(LEVELS, thresholds, strict=True):
        options = {"groups": new_groups, **options}
        mask = calibration.predict_mask(NEW, float(alpha), **options)
        np.testing.assert_array_equal(mask, np.broadcast_to(scores <= of_level, (M, K)))
        np.testing.assert_array_equal(mask, calibration.predict_set(NEW, float(alpha), **options).mask)
        if measure.p_values is not None and measure.groups.kind != "overlap":
            np.testing.assert_array_equal(mask, calibration.p_values(NEW, **options) > float(alpha))


@pytest.mark.filterwarnings("ignore:.*(too few calibration samples|effective size|weigh more):UserWarning")
@pytest.mark.parametrize(("cells", "masses"), list(product(CELLS, MASSES)))
def test_a_set_is_a_comparison_with_thresholds_of_the_shape_of_cells_and_masses(cells, masses):
    (groups, new_groups, by_cells), (weights, new_weights, by_masses) = CELLS[cells], MASSES[masses]
    if cells == "overlapping" and weights:
        with pytest.raises(ValueError, match="overlapping groups have no promise for weights"):
            aptset.calibrate(P, Y, groups=groups, random_state=0, **weights)
        return
    calibration = aptset.calibrate(P, Y, groups=groups, random_state=0, **weights)
    assert calibration.held_out.is_weighted == bool(weights)
    check(calibration, new_groups, np.broadcast_shapes(by_cells, by_masses), **new_weights)


@pytest.mark.filterwarnings("ignore:.*too few calibration samples:UserWarning")
@pytest.mark.parametrize("resolution", [None, 2**-20])
@pytest.mark.parametrize("cells", ["none", "label", "bands", "groups"])
def test_so_it_is_for_counts_and_for_fixed_thresholds(cells, resolution):
    groups, new_groups, shape = CELLS[cells]
    columns = {"p": P.tolist(), "y": Y, "g": GROUPS}
    options = {"resolution": resolution} if resolution else {"alpha": [float(level) for level in LEVELS]}
    calibration = aptset.calibrate_batches(
        pa.table(columns if cells == "groups" else {name: columns[name] for name in "py"}),
        labels="y",
        groups="g" if cells == "groups" else groups,
        random_state=0,
        **options,
    )
    assert (calibration.held_out.p_values is None) == (calibration.held_out.merge is None) == (resolution is None)
    check(calibration, new_groups, shape)


def test_a_stream_takes_plain_scores_of_groups_that_do_not_overlap():
    others = [aptset.calibrate(P, Y, weights=np.ones(N)), aptset.calibrate(P, Y, groups=aptset.Overlapping(FLAGS))]
    table = pa.table({"p": P.tolist(), "y": Y})
    others += [aptset.calibrate_batches(table, labels="y", **kept) for kept in ({"alpha": 0.1}, {"resolution": 2**-20})]
    for calibration in others:
        with pytest.raises(ValueError, match="calibration must have stored its scores, one threshold for each group"):
            aptset.Online(calibration)


def test_plain_scores_and_weighted_ones_are_not_merged():
    plain, weighted = (aptset.calibrate(P, Y, random_state=0, weights=w) for w in (None, np.ones(N)))
    with pytest.raises(ValueError, match=r"what was kept.*weights"):
        plain.merge(weighted)
