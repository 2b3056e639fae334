"""Proportions of labels elsewhere, from probabilities alone."""

import numpy as np
import pandas as pd
import pytest

import aptset

LIKELY = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])  # of a row of each kind
SOURCE = LIKELY.mean(axis=0)


def world(n, proportions, seed):
    """Rows of three kinds, equally frequent where labels come as in SOURCE: there LIKELY is right."""
    generator = np.random.default_rng(seed)
    given_label = LIKELY / LIKELY.sum(axis=0)
    y = generator.choice(3, size=n, p=proportions)
    kind = (generator.random((n, 1)) > given_label[:, y].T.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return LIKELY[kind], y


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_ratios_are_found(method):
    """With 8,000 rows a side the standard errors are near 0.03: none is six of them off, with probability 1 - 1e-8."""
    target = np.array([0.6, 0.3, 0.1])
    p, y = world(8000, SOURCE, 0)
    found = aptset.label_ratios(p, y, world(8000, target, 1)[0], method)
    for label, expected in enumerate(target / SOURCE):
        assert abs(found[label] - expected) < 6 * found.errors[label]
        assert 0.001 < found.errors[label] < 0.1
    assert found.method == method
    assert (found.condition is None) == (method == "em")
    assert isinstance(found, dict)


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_no_shift_is_found_where_there_is_none(method):
    p, y = world(5000, SOURCE, 2)
    found = aptset.label_ratios(p, y, p, method)
    shares = np.bincount(y) / len(y)
    assert sum(found[label] * share for label, share in enumerate(shares)) == pytest.approx(1)
    if method == "bbse":
        assert list(found.values()) == pytest.approx([1, 1, 1])


def test_names_of_labels_and_columns():
    p, y = world(6000, [0.4, 0.3, 0.3], 0)
    names = np.array(["b", "c", "a"])
    frame = pd.DataFrame(p, columns=names)
    found = aptset.label_ratios(frame, names[y], frame[["a", "b", "c"]])
    assert list(found) == ["b", "c", "a"]
    assert found == aptset.label_ratios(p, names[y], p, classes=names)
    weighted = aptset.calibrate(p, names[y], classes=names, label_weights=found, prior_correction=True)
    assert weighted.n == 6000


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"method": "magic"}, ValueError, "method must be one of"),
        ({"labels": np.zeros(300, dtype=int)}, ValueError, r"labels must hold every class.*no row of \[1, 2\]"),
        ({"new_probabilities": LIKELY[:, :2]}, ValueError, "must have one column per class"),
        ({"new_probabilities": LIKELY * 2}, ValueError, "new_probabilities must have rows that sum to 1"),
        ({"probabilities": LIKELY[[0] * 300] * np.nan}, ValueError, "probabilities must be finite"),
        ({"probabilities": LIKELY[[0] * 300], "method": "bbse"}, ValueError, "guesses that distinguish the labels"),
    ],
)
def test_refused(change, error, match):
    arguments = {"probabilities": LIKELY[[0, 1, 2] * 100], "labels": [0, 1, 2] * 100, "new_probabilities": LIKELY}
    with pytest.raises(error, match=match):
        aptset.label_ratios(**{**arguments, **change})


def test_rows_that_are_sure_of_a_label_that_is_hardly_there():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = aptset.label_ratios(sure[[0] * 99 + [1]], [0] * 99 + [1], sure[[0, 1] * 50])
    assert found[1] == pytest.approx(50, rel=1e-3)
    assert found[0] == pytest.approx(50 / 99, rel=1e-3)


def test_nothing_shifts_where_the_new_rows_are_the_old_ones():
    """Whatever the model's shares are: it says too little of the second label here, and says the same of both sides."""
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet([4.0, 1.0, 2.0], size=400)
    labels = np.append([0, 1, 2], generator.choice(3, p=[0.2, 0.6, 0.2], size=397))
    found = aptset.label_ratios(probabilities, labels, probabilities, method="em")
    np.testing.assert_allclose(list(found.values()), 1.0, atol=1e-5)


def literal_em(old, new, steps=2000):
    """Go from proportions to proportions as Saerens, Latinne and Decaestecker say, row by row."""
    source, ratios = old.mean(axis=0), np.ones(new.shape[1])
    for _ in range(steps):
        shares = [row * ratios / (row * ratios).sum() if (row * ratios).sum() > 0 else row for row in new]
        with np.errstate(divide="ignore", invalid="ignore"):
            last, ratios = ratios, np.where(source > 0, np.mean(shares, axis=0) / source, 0.0)
        if np.abs((ratios - last) * source).max() < 1e-7:
            break
    return ratios


@pytest.mark.parametrize("block_cells", [2**16, 12])
def test_em_is_the_literal_one(limits, block_cells):
    limits(ratio_cells=block_cells)
    p, y = world(120, SOURCE, 5)
    new = world(90, [0.1, 0.1, 0.8], 6)[0]
    found = aptset.label_ratios(p, y, new)
    np.testing.assert_allclose([*found.values()], literal_em(p, new), rtol=1e-9)


def test_rows_whose_labels_lose_all_their_mass_do_not_break_em():
    """Ratios of labels that no new row needs fall below any float; rows of such a label alone keep what they are."""
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]] * 10)
    new = np.vstack([np.tile([0.05, 0.95, 0.0], (60, 1)), np.tile([1e-200, 0.0, 1.0], (3, 1)), [[1.0, 0.0, 0.0]]])
    found = aptset.label_ratios(p, [0, 1, 2] * 10, new)
    assert np.isfinite([*found.values(), *found.errors.values()]).all()
    np.testing.assert_allclose([*found.values()], literal_em(p, new), rtol=1e-6)


def hard_labels(n, proportions, generator):
    """Rows of twenty labels that are hard to tell; probabilities are right where all are equally frequent."""
    y = np.append(np.arange(20), generator.choice(20, size=n - 20, p=proportions))
    odds = np.exp(1.5 * (generator.normal(size=(n, 20)) + 1.5 * (np.arange(20) == y[:, None])))
    return odds / odds.sum(axis=1, keepdims=True), y


def test_a_correction_keeps_the_promise_with_known_ratios_and_warns_where_estimated_ones_break_it():
    """Law: with known ratios coverage is at least 0.9 and at most 1 / (effective size + 1) more.

    40 calibrations on 300 rows: the mean coverage has a standard error of at most 0.005 (Beta law, effective size at
    least 150, and 2,000 new rows each); five of them. With estimated ratios it is far below, and every one warns.
    """
    generator, known, estimated = np.random.default_rng(4), [], []
    source, target = np.full(20, 0.05), np.repeat([0.01, 0.09], 10)
    for _ in range(40):
        rows = [hard_labels(n, share, generator) for n, share in ((300, source), (300, target), (2000, target))]
        (p, y), (new, _), (q, z) = rows
        settings = {"conformity": "lac", "random_state": 0, "prior_correction": True}
        right = aptset.calibrate(p, y, label_weights=dict(enumerate(target / source)), **settings)
        known.append(right.predict_set(q).covers(z).mean())
        with pytest.warns(UserWarning, match="prior_correction goes by estimated ratios.*groups='label'"):
            guessed = aptset.calibrate(p, y, label_weights=aptset.label_ratios(p, y, new), **settings)
        estimated.append(guessed.predict_set(q).covers(z).mean())
    assert 0.9 - 5 * 0.005 < np.mean(known) < 0.91 + 5 * 0.005
    assert np.mean(estimated) < 0.86


def test_ratios_that_are_sure_enough_do_not_warn_nor_do_those_without_a_correction():
    p, y = world(8000, SOURCE, 0)
    sure = aptset.label_ratios(p, y, world(8000, [0.6, 0.3, 0.1], 1)[0])
    aptset.calibrate(p, y, label_weights=sure, prior_correction=True)
    unsure = aptset.label_ratios(p[:60], y[:60], p[:40])
    aptset.calibrate(p[:60], y[:60], label_weights=unsure)
    aptset.calibrate(p[:60], y[:60], label_weights=dict(unsure), prior_correction=True)
    with pytest.warns(UserWarning, match=r"amount to about 0\.\d+ of the proportions") as caught:
        aptset.calibrate(p[:60], y[:60], label_weights=unsure, prior_correction=True)
    assert caught[0].filename == __file__
