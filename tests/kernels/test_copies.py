"""The first row of a block with some content keeps the seed of that content; later ones get their own."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels.formula import Formula
from aptset.kernels.membership import masks, select
from aptset.kernels.rowhash import uniforms
from aptset.kernels.rows import (
    BLOCK_ROWS,
    CALIBRATION,
    PREDICTION,
    Rows,
    find_copies,
    hash_rows,
    label_scores,
    own_seeds,
)
from aptset.scores import SCORES
from aptset.scores.conformity import formula_of

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
WORD = 2**64


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def by_definition(seeds, side, first_row):
    """Row by row, with Python's own integers and dictionaries."""
    golden, found, met = 0x9E3779B97F4A7C15, {}, {}
    for i, seed in enumerate(seeds):
        block = (first_row + i) // BLOCK_ROWS
        copy = met[block, seed] = met.get((block, seed), -1) + 1
        if copy:
            found[i] = mix((seed + mix((((block * BLOCK_ROWS + copy) * 2 + side) + golden) % WORD)) % WORD)
    return found


@KEYED
@given(
    values=st.lists(st.sampled_from([0, 1, 5, 2**63, 2**64 - 1, 2**51, 2**51 + 1]), max_size=40),
    lead=st.sampled_from([0, BLOCK_ROWS - 7]),
    side=st.sampled_from([CALIBRATION, PREDICTION]),
    first_block=st.sampled_from([0, 1, 2**20]),
)
def test_copies_by_definition(path, values, lead, side, first_block):
    """Some rows stand across the border of two blocks, where counting starts again."""
    seeds = np.array([*range(1000, 1000 + lead), *values], dtype=np.uint64)
    first_row = first_block * BLOCK_ROWS
    expected = {lead + i: seed for i, seed in by_definition(values, side, first_row + lead).items()}  # lead has none
    copies = find_copies(seeds, side, first_row)
    assert dict(zip(copies.rows.tolist(), copies.seeds.tolist(), strict=True)) == expected
    own, wanted = own_seeds(seeds, side, first_row), seeds.copy()
    wanted[list(expected)] = list(expected.values())
    np.testing.assert_array_equal(own, wanted)


def test_many_blocks_at_once(path):
    seeds = np.random.default_rng(0).integers(50_000, size=150_001, dtype=np.uint64)
    copies = find_copies(seeds, PREDICTION, 3 * BLOCK_ROWS)
    assert dict(zip(copies.rows.tolist(), copies.seeds.tolist(), strict=True)) == by_definition(
        seeds.tolist(), PREDICTION, 3 * BLOCK_ROWS
    )


FEW = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]


@pytest.mark.parametrize("name", [*sorted(SCORES), "any function"])
@pytest.mark.parametrize("columns", [3, 45])
@pytest.mark.parametrize("normalize", [False, True])
def test_every_loop_takes_the_seeds_of_copies(path, name, columns, normalize):
    """Scores, sets and masks of rows with copies are those of the same rows with their seeds given."""
    generator = np.random.default_rng(1)
    matrix = np.zeros((BLOCK_ROWS + 300, columns), dtype=np.float32)
    matrix[:, :3] = np.array(FEW)[generator.integers(4, size=len(matrix))]
    matrix[::3] = generator.dirichlet(np.ones(columns), size=len(matrix[::3]))
    if normalize:
        matrix *= 0.5
    formula = formula_of(SCORES[name]()) if name in SCORES else Formula(None, lambda places: places.rank % 2 - places.u)
    rows = Rows(matrix, formula, 7, 1e-4, normalize=normalize, side=CALIBRATION, first_row=2 * BLOCK_ROWS)
    plain = matrix / matrix.sum(axis=1, keepdims=True, dtype=np.float64) if normalize else matrix
    seeds = own_seeds(hash_rows(plain, 7), CALIBRATION, 2 * BLOCK_ROWS)
    given = Rows(plain, formula, 7, 1e-4, seeds=seeds)
    np.testing.assert_array_equal(rows.seeded().seeds, seeds)
    labels = generator.integers(columns, size=len(matrix))
    found = label_scores(rows, labels)
    np.testing.assert_array_equal(found.scores, label_scores(given, labels).scores)
    np.testing.assert_array_equal(found.seeds, seeds)
    assert found.n_copies == len(find_copies(hash_rows(plain, 7), CALIBRATION).rows) > 2000
    for thresholds in (np.array([[0.3, 1.2, 0.7]]), generator.random((len(matrix), 2)) * 1.5):
        one, other = (select(each, thresholds.T[:, :, None]) for each in (rows, given))
        for mine, theirs in zip(one.sets, other.sets, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[0])
            np.testing.assert_array_equal(mine[1], theirs[1])
        np.testing.assert_array_equal(masks(rows, thresholds[:, :1])[0], masks(given, thresholds[:, :1])[0])


def test_copies_have_uniforms_of_their_own(path):
    """Kolmogorov-Smirnov over 4 096 copies of one row; beyond 0.045 lies less than one chance in ten million."""
    seeds = own_seeds(np.full(BLOCK_ROWS, 12345, dtype=np.uint64), CALIBRATION)
    u = np.sort(uniforms(seeds))
    assert np.abs(u - (np.arange(BLOCK_ROWS) + 0.5) / BLOCK_ROWS).max() < 0.045
    others = uniforms(own_seeds(np.full(BLOCK_ROWS, 12345, dtype=np.uint64), PREDICTION))
    assert len(set(u.tolist()) & set(others.tolist())) == 1, "only the first copy is the same on both sides"
