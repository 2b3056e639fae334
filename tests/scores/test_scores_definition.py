"""Every score of the table against its definition in exact rationals, and its fast form against its slow one."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aptset
import reference
from aptset.kernels.formula import Formula, broken_rule
from aptset.kernels.membership import select
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from aptset.scores import ALIASES, SCORES
from aptset.scores.conformity import formula_of
from rows_strategy import matrices, uniforms

EVERY = pytest.mark.parametrize("name", sorted(SCORES))
FAST = pytest.mark.parametrize("name", sorted(name for name in SCORES if hasattr(SCORES[name], "weights")))
KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def rows_of(matrix, formula, u=None):
    return Rows(matrix, formula, 7, 0.05, u=None if u is None else np.full(len(matrix), u)).seeded()


def orders_of(rows):
    """The labels of each row in order, as the sets list them."""
    pointers, members = select(rows, np.full((1, 1, 1), np.inf)).sets[0]
    return np.split(members, pointers[1:-1])


def test_every_score_has_a_definition():
    assert set(reference.SCORES) == set(SCORES)
    assert set(ALIASES.values()) <= set(SCORES)


@EVERY
@KEYED
@given(matrix=matrices(max_classes=12), u=uniforms)
def test_score_equals_the_definition(path, name, matrix, u):
    rows = rows_of(matrix, formula_of(SCORES[name]()), u)
    scores, bad = all_scores_of_block(rows, 0, len(rows))
    assert bad == -1
    for i, order in enumerate(orders_of(rows)):
        p = reference.exact_row(matrix[i])
        for label in range(len(p)):
            exact = reference.SCORES[name](p, order.tolist(), label, Fraction(u))
            # At most seven roundings of numbers up to 16.
            assert abs(Fraction(float(scores[i, label])) - exact) <= 7 * Fraction(16, 2**53)


SETTINGS = {
    "regularized": [aptset.Regularized(0.0, 0), aptset.Regularized(1e-17, 1), aptset.Regularized(0.3, 2)],
    "saps": [aptset.SAPS(0.0), aptset.SAPS(1e-17), aptset.SAPS(3.0)],
}


@FAST
@KEYED
@given(matrix=matrices(max_classes=45), u=st.one_of(st.none(), uniforms))
def test_fast_is_slow_to_the_last_bit(path, name, matrix, u):
    """Compiled loops, numpy loops and ``of``, over zeros, ties, subnormals, one-hot and even rows, in every dtype."""
    for score in (SCORES[name](), *SETTINGS.get(name, ())):
        assert broken_rule(score.weights) is None
        fast, slow = rows_of(matrix, Formula(score.weights), u), rows_of(matrix, Formula(None, score.of), u)
        expected, _ = all_scores_of_block(slow, 0, len(slow))
        np.testing.assert_array_equal(all_scores_of_block(fast, 0, len(fast))[0], expected)
        for label in (0, matrix.shape[1] - 1):
            chosen = np.full(len(matrix), label)
            np.testing.assert_array_equal(label_scores(fast, chosen)[0], expected[:, label])
            np.testing.assert_array_equal(label_scores(slow, chosen)[0], expected[:, label])


@FAST
@pytest.mark.parametrize("n_classes", [41, 300])
def test_fast_is_slow_in_wide_rows(path, name, n_classes):
    generator = np.random.default_rng(n_classes)
    score = SCORES[name]()
    for spread in (0.0, 1.0, 8.0, 60.0):
        logits = generator.normal(size=(60, n_classes)).round(1) * spread
        matrix = np.exp(logits - logits.max(axis=1, keepdims=True))
        matrix = (matrix / matrix.sum(axis=1, keepdims=True)).astype(np.float32)
        fast, slow = rows_of(matrix, Formula(score.weights)), rows_of(matrix, Formula(None, score.of))
        expected, _ = all_scores_of_block(slow, 0, 60)
        np.testing.assert_array_equal(all_scores_of_block(fast, 0, 60)[0], expected)
        labels = generator.integers(n_classes, size=60)
        np.testing.assert_array_equal(label_scores(fast, labels)[0], label_scores(slow, labels)[0])
        thresholds = np.quantile(expected, [0.01, 0.3, 0.9], axis=1).T
        one, other = (select(rows, thresholds.T[:, :, None]) for rows in (fast, slow))
        for which in range(3):
            for mine, theirs in zip(one.sets[which], other.sets[which], strict=True):
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_names_that_people_know(alias):
    probabilities, labels = np.random.default_rng(0).dirichlet(np.ones(4), size=30), np.arange(30) % 4
    known = aptset.calibrate(probabilities, labels, conformity=alias, random_state=0)
    assert known.conformity == SCORES[ALIASES[alias]]()


def test_ranks_end_at_the_number_of_classes(path):
    scores, _ = all_scores_of_block(rows_of(np.array([[1.0, 0, 0, 0]]), Formula(aptset.Rank().weights), 0.0), 0, 1)
    assert sorted(scores[0]) == [1, 2, 3, 4]
