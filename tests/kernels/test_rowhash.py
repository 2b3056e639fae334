"""Keyed uniforms: uniform, unrelated to what they come from, and a function of key and content alone."""

import numpy as np
import pytest
from scipy import stats

from aptset.kernels import engines
from aptset.kernels.rowhash import uniforms
from aptset.kernels.rows import hash_rows

# Fixed seeds. Each p-value below is uniform if the law holds, and 1e-7 is the false alarm rate of each check;
# there are fewer than 150 of them.
FALSE_ALARM = 1e-7


def contents():
    generator = np.random.default_rng(0)
    n = 20_000
    return {
        "dense": generator.normal(size=(n, 5)),
        "counter": np.arange(n, dtype=float)[:, None],
        "small integers": np.stack([np.arange(n) % 200, np.arange(n) // 200], axis=1).astype(float),
        "bits": ((np.arange(n)[:, None] >> np.arange(20)) & 1).astype(float),
        "powers of two": 2.0 ** (np.arange(n)[:, None] // np.array([1, 151]) % 151 - 75),
        "float32": generator.random((n, 3), dtype=np.float32),
        "probabilities": generator.dirichlet([0.2] * 10, size=n),
    }


@pytest.mark.parametrize("name", sorted(contents()))
@pytest.mark.parametrize("key", [0, 1, 2**63 + 12345])
def test_uniform_and_unrelated_to_the_content(path, name, key):
    rows = contents()[name]
    u = uniforms(hash_rows(rows, key))
    assert len(np.unique(u)) == len(u)
    assert stats.kstest(u, "uniform").pvalue > FALSE_ALARM
    assert stats.pearsonr(u[1:], u[:-1]).pvalue > FALSE_ALARM, "neighbours"
    for column in rows.T[:3]:
        assert stats.spearmanr(u, column).pvalue > FALSE_ALARM
    other = uniforms(hash_rows(rows, key + 1))
    assert stats.pearsonr(u, other).pvalue > FALSE_ALARM, "another key is another draw"


def test_engines_agree(monkeypatch):
    for rows in contents().values():
        expected = hash_rows(rows, 5)
        for engine in engines.ENGINES.values():
            monkeypatch.setattr(engines, "chosen", engine)
            np.testing.assert_array_equal(hash_rows(rows, 5), expected)


def test_only_the_values_count(path):
    rows = np.array([[1.5, 0.0, np.nan], [2.0, 3.0, 4.0]])
    expected = hash_rows(rows, 9)
    np.testing.assert_array_equal(hash_rows(rows.astype(np.float32), 9), expected)
    np.testing.assert_array_equal(hash_rows(np.asfortranarray(rows), 9), expected)
    np.testing.assert_array_equal(hash_rows(rows[::-1], 9), expected[::-1])
    np.testing.assert_array_equal(hash_rows(np.array([[1.5, -0.0, -np.nan]]), 9), expected[:1])
    np.testing.assert_array_equal(hash_rows(np.array([[2, 3, 4]]), 9), expected[1:])


def test_every_cell_and_every_position_counts(path):
    rows = np.zeros((7, 6))
    rows[np.arange(6), np.arange(6)] = 1.0
    assert len(np.unique(hash_rows(rows, 0))) == 7
