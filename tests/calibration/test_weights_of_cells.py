"""Weights where rows and cells have thresholds of their own: bad rows are told, groups never seen hold every label."""

import numpy as np
import pytest

import aptset


@pytest.mark.filterwarnings("ignore:the weights leave")
@pytest.mark.parametrize("verb", ["predict_set", "predict_mask", "p_values", "sets_and_p_values"])
@pytest.mark.parametrize("settings", [{"weights": np.ones(40), "groups": "label"}, {"label_weights": {0: 1.0, 1: 2.0}}])
def test_bad_rows_are_told_where_every_cell_has_a_threshold(verb, settings):
    of_rows = {} if "weights" in settings else {"groups": ["a", "b"] * 20}
    calibration = aptset.calibrate(np.full((40, 2), 0.5), [0, 1] * 20, random_state=0, **settings, **of_rows)
    new = np.full((4, 2), 0.5)
    new[2, 1] = np.nan
    asked = {"weights": np.ones(4)} if "weights" in settings else {"groups": ["a", "b", "a", "b"]}
    with pytest.raises(ValueError, match="probabilities must be finite; got nan in row 2"):
        getattr(calibration, verb)(new, **asked)


def test_rows_of_groups_never_seen_hold_every_label_among_many_others():
    """So many rows that thresholds are looked up group by group."""
    draw = np.random.default_rng(0)
    rows, labels = draw.dirichlet(np.ones(3), size=900), draw.integers(0, 3, size=900)
    weights, groups = draw.gamma(2.0, size=900), draw.integers(0, 3, size=900)
    calibration = aptset.calibrate(rows, labels, weights=weights, groups=groups, random_state=0)
    new = draw.integers(0, 4, size=900)
    with pytest.warns(UserWarning, match="never seen"):
        sets = calibration.predict_set(rows, 0.2, groups=new, weights=weights)
    assert (sets.sizes[new == 3] == 3).all()
    alone = np.flatnonzero(new != 3)[:50]
    few = calibration.predict_mask(rows[alone], 0.2, groups=new[alone], weights=weights[alone])
    assert np.array_equal(few, sets.mask[alone])
