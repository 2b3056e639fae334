"""Rows with labels of which some are rare, bands of them, and all that two calibrations answer."""

import numpy as np

from aptset import LabelBands


def rows_with_labels(n, n_classes=6, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(0.4 * np.arange(1, n_classes + 1), size=n)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


P, Y = rows_with_labels(500)
NEW, _ = rows_with_labels(90, seed=1)
NEW[3] = NEW[4] = NEW[5]  # copies have a chance of their own
BANDS = LabelBands({0: "rare", 1: "rare", 2: "some", 3: "rare", 4: "often", 5: "often"})


def same(one, other, new=NEW, **of_rows):
    """Compare all that two calibrations answer, to the last bit."""
    for alpha in (0.07, 0.3, [0.1, 0.2, 0.5]):
        assert one.predict_set(new, alpha, **of_rows) == other.predict_set(new, alpha, **of_rows)
    np.testing.assert_array_equal(one.predict_mask(new, 0.2, **of_rows), other.predict_mask(new, 0.2, **of_rows))
    np.testing.assert_array_equal(one.p_values(new, **of_rows), other.p_values(new, **of_rows))
    filled = [each.predict_set(new, 0.9, allow_empty=False, **of_rows) for each in (one, other)]
    assert filled[0] == filled[1]
    both = [each.sets_and_p_values(new, 0.2, **of_rows) for each in (one, other)]
    assert both[0][0] == both[1][0]
    np.testing.assert_array_equal(both[0][1], both[1][1])
