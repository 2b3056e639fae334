"""What an audit finds about the rows themselves: their order decides nothing but the look along it."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from test_audit_chances import rows

import aptset
from aptset.audits.dataset import prepare
from aptset.metrics.exchangeability import (
    columns_of_features,
    columns_of_labels,
    path_test,
    repeated_rows,
    repeats_test,
)

QUICK = {"repetitions": 4, "calibrations": "split"}


def test_the_order_of_the_rows_decides_nothing_but_the_look_along_it():
    """The test along the order is exact, given rows and seed, only if nothing else depends on it."""
    X, y = rows(160)
    X, y = np.vstack([X, X[:20]]), np.append(y, y[:20])  # copies too
    groups, times = np.arange(180) % 3, np.arange(180)
    order = np.random.default_rng(1).permutation(180)
    found = aptset.audit(GaussianNB(), X, y, groups=groups, time=times, **QUICK)
    mixed = aptset.audit(GaussianNB(), X[order], y[order], groups=groups[order], time=times[order], **QUICK)
    assert found.to_frame().equals(mixed.to_frame())
    values, of_mixed = ([one.values.tolist() for one in audit.splits.tested("split")] for audit in (found, mixed))
    assert values == of_mixed
    assert found.drift.p_order == mixed.drift.p_order


def test_all_that_belongs_to_a_row_stays_with_it():
    X, y = rows(50)
    frame, times = pd.DataFrame(X), np.random.default_rng(0).permutation(50)
    data, _ = prepare(frame, y, np.arange(50), times, 0.3, X[:, :2])
    where = np.array(data.groups)
    assert np.array_equal(data.X.to_numpy(), X[where])
    assert np.array_equal(data.y, y[where])
    assert np.array_equal(data.features, X[where, :2])
    assert np.array_equal(data.position, times[where])
    assert len(np.unique(data.content)) == 50


def test_copies_have_one_content_and_the_label_is_part_of_it():
    X = np.array([[1.0], [2.0], [1.0], [1.0], [2.0], *np.arange(3.0, 10.0)[:, None]])
    y = np.array(["a", "b", "a", "c", "b", *"abcabca"])
    data, _ = prepare(X, y, None, None, 0.3)
    pairs = {}
    for row, content in enumerate(data.content.tolist()):
        pairs.setdefault(content, set()).add((data.X[row, 0], data.y[row]))
    assert all(len(one) == 1 for one in pairs.values())
    assert len(pairs) == 10
    assert repeated_rows(data.content) == 4


@pytest.mark.parametrize("model", [GaussianNB(), LogisticRegression()])
def test_labels_and_features_that_change_slowly_are_found(model):
    X, y = rows(400, seed=2)
    by_label = np.argsort(y + 3 * np.random.default_rng(0).random(400))  # classes come and go, none is ever alone
    with pytest.warns(UserWarning, match="the shares of the labels change"):
        found = aptset.audit(model, X[by_label], y[by_label], **QUICK)
    assert "labels" in found.drift.found
    moved = X + np.linspace(0, 2, 400)[:, None] * [0, 0, 1]  # the labels do not depend on it
    with pytest.warns(UserWarning, match="the features change along the order"):
        found = aptset.audit(model, moved, y, **QUICK)
    assert found.drift.found == ["features"]


def test_rows_that_were_copied_are_found_and_rows_that_repeat_by_nature_are_not(tmp_path):
    X, y = rows(100)
    order = np.random.default_rng(0).permutation(300)
    with pytest.warns(UserWarning, match="300 rows occur more than once, more often than in independent draws"):
        found = aptset.audit(GaussianNB(), np.repeat(X, 3, axis=0)[order], np.repeat(y, 3)[order], **QUICK)
    assert found.drift.found == ["repeats"]
    assert "No sign of drift (" in found.drift.sentence()
    assert "If the table was designed to hold every combination" in found.drift.sentence(), (
        "a balanced design looks copied, and is not"
    )
    assert "at most one audit in 100 gives a warning" in repr(found)
    assert "but rows repeat" in found.report(tmp_path / "a.html").read_text()
    X, y = rows(300)
    natural = aptset.audit(GaussianNB(), np.round(X), y, **QUICK)
    assert natural.drift.repeated > 100
    assert "rows occur more than once." in natural.drift.sentence()
    assert not natural.drift.warning


def sources(generator):
    """Chances of every content, for sources that repeat themselves more or less."""
    yield from (np.full(m, 1 / m) for m in (30, 100, 300, 1000))
    for power in (0.5, 1, 2):
        weights = np.arange(1.0, 500) ** -power
        yield weights / weights.sum()
    yield generator.dirichlet(np.full(200, 0.3))
    yield np.r_[np.full(50, 0.5 / 50), np.full(100_000, 0.5 / 100_000)]


def test_independent_draws_repeat_as_they_may():
    """The p-value is valid whatever the source: of 900 draws, more than 29 at most 0.01 have probability below 1e-6."""
    generator = np.random.default_rng(0)
    found = [
        repeats_test(np.unique(generator.choice(len(chances), size=300, p=chances), return_inverse=True)[1])
        for chances in sources(generator)
        for _ in range(100)
    ]
    assert sum(p <= 0.01 for p in found) <= 29
    assert repeats_test(np.arange(50)) == 1
    for times in (2, 3, 5):
        assert repeats_test(np.arange(300) // times) < 1e-6


def test_paths_of_many_columns_count_reorderings():
    columns = np.array([[0.0, 3.0], [1.0, 1.0], [1.0, 2.0], [0.0, 9.0], [0.0, 4.0]])
    scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)

    def reach(order):
        return np.abs(np.cumsum(scaled[list(order)], axis=0)).max()

    share = np.mean([reach(order) >= reach(range(5)) - 1e-12 for order in itertools.permutations(range(5))])
    estimate = path_test(columns, np.random.default_rng(0), permutations=20_000)
    # A share of 20,000 random reorderings is this far from the share of all in fewer than one of a million cases.
    assert abs(estimate - share) < 5 * (0.25 / 20_000) ** 0.5 + 1e-4


def test_many_rows_are_taken_in_pieces_and_many_columns_in_directions():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(20_500, 1))
    assert path_test(values, generator, 99) > 0.01
    values[10_000:] += 0.2
    assert path_test(values, generator, 99) == 0.01
    wide = generator.normal(size=(300, 200))
    wide[150:] += 0.5
    for X in (wide, sparse.csr_matrix(wide)):
        found = columns_of_features(X)(np.random.default_rng(0))
        assert found.shape == (300, 30)
        assert path_test(found, generator, 99) == 0.01
    labels = columns_of_labels(np.arange(500) % 50)
    assert labels.shape == (500, 31)
    assert np.array_equal(labels.sum(axis=1), np.ones(500))


def test_features_with_gaps_constant_ones_and_none():
    generator = np.random.default_rng(0)
    X = np.arange(100.0)[:, None] * [1.0, 0.0]
    X[::3, 0] = np.nan
    found = columns_of_features(X)(generator)
    assert np.isfinite(found).all()
    assert path_test(found, generator, 99) == 0.01
    assert path_test(np.ones((50, 2)), generator, 99) == 1
    assert columns_of_features(["a text", "another"])(generator) is None
