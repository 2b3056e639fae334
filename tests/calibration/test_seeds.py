"""Seeds of rows: the content counts, whatever holds it."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import aptset
from aptset.core.labels import as_objects
from aptset.core.row_seeds import id_seeds, row_seeds

values = st.one_of(st.just(0.0), st.floats(allow_nan=True, allow_infinity=True, width=32))


@settings(max_examples=60)
@given(arrays(np.float32, (5, 4), elements=values), st.integers(0, 2**64 - 1))
def test_same_numbers_same_seeds(matrix, key):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = row_seeds(matrix, key)
    names = list("abcd")
    holders = [
        matrix.astype(np.float64),
        np.asfortranarray(matrix),
        matrix.tolist(),
        matrix.astype(object),
        matrix.reshape(5, 2, 2),
        pd.DataFrame(matrix, columns=names),
        pl.DataFrame(matrix, schema=names),
        sparse.csr_array(matrix),
        sparse.coo_matrix(matrix),
    ]
    for holder in holders:
        np.testing.assert_array_equal(row_seeds(holder, key), expected)
    np.testing.assert_array_equal(row_seeds(matrix[::-1], key), expected[::-1])
    np.testing.assert_array_equal(row_seeds(matrix[2:3], key), expected[2:3])


def test_sparse_duplicates_and_stored_zeros():
    dense = np.array([[0.0, 3.0], [1.0, 0.0]])
    doubled = sparse.csr_array(
        (np.array([1.0, 2.0, 1.0, 0.0]), np.array([1, 1, 0, 1]), np.array([0, 2, 4])), shape=(2, 2)
    )
    np.testing.assert_array_equal(row_seeds(doubled, 1), row_seeds(dense, 1))
    assert doubled.nnz == 4, "the user's matrix is left as it is"


def test_mixed_frames():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    day = datetime.datetime(2024, 5, 17)
    columns = {"n": [1.5, 2.0, 1.5], "t": ["a", None, "a"], "d": [day, day, day], "b": [True, False, True]}
    frames = [pd.DataFrame(columns), pl.DataFrame(columns), pd.DataFrame(columns).astype({"t": "category"})]
    for frame in frames:
        seeds = row_seeds(frame, 3)
        assert seeds[0] == seeds[2] != seeds[1]
    assert row_seeds(frames[0], 3)[0] == row_seeds(frames[2], 3)[0]


def test_columns_of_several_kinds_keep_their_places():
    """A frame of texts and numbers agrees with its rows as lists, so a value counts at its own column only."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["y", "x"], "n": [1.0, 2.0]})
    seeds = row_seeds(frame, 3)
    np.testing.assert_array_equal(seeds, row_seeds([["x", "y", 1.0], ["y", "x", 2.0]], 3))
    swapped = row_seeds(frame.assign(a=frame["b"], b=frame["a"]), 3)
    assert not (seeds == swapped).any()


def test_texts_dicts_and_ragged_rows():
    texts = ["one", "two", "one", "", "naïve ☃"]
    seeds = row_seeds(texts, 0)
    assert len(set(seeds.tolist())) == 4
    np.testing.assert_array_equal(row_seeds(np.array(texts), 0), seeds)
    np.testing.assert_array_equal(row_seeds(np.array(texts, dtype=object), 0), seeds)
    dicts = row_seeds([{"a": 1}, {"a": 2}, {"a": 1}], 0)
    assert dicts[0] == dicts[2] != dicts[1]
    ragged = row_seeds([[1, 2], [3], [1, 2]], 0)
    assert ragged[0] == ragged[2] != ragged[1]


def test_neighbours_do_not_matter():
    """A row alone has the seed it has in a batch, whatever the rest of the batch makes numpy think of it."""
    batches = [
        [["a", "b"], ["c"], ["a", "b"]],
        [[1, 2], [3], [4, 5, 6]],
        [[1.0, "a"], [2.0, None], [np.nan, "text"]],
        [[1, 2], [1.0, 2.0], [True, 2]],
        [(1, 2), (1.0, 2.5)],
        [{"a": 1}, {"a": 1.0}],
        ["a", "b c", ""],
        [np.arange(2000.0), np.arange(2000.0) + 1],
    ]
    for batch in batches:
        whole = row_seeds(batch, 3)
        np.testing.assert_array_equal([row_seeds([row], 3)[0] for row in batch], whole)
        objects = np.empty(len(batch), dtype=object)
        objects[:] = batch
        np.testing.assert_array_equal(row_seeds(objects, 3), whole)
    long = row_seeds([np.arange(2000.0), np.arange(2000.0) + (np.arange(2000) == 1000)], 3)
    assert long[0] != long[1]


def test_names_that_repeat_and_record_batches():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    matrix = np.arange(6.0).reshape(3, 2)
    expected = row_seeds(matrix, 1)
    np.testing.assert_array_equal(row_seeds(pd.DataFrame(matrix, columns=["a", "a"]), 1), expected)
    table = pa.table({"a": matrix[:, 0], "b": matrix[:, 1]})
    np.testing.assert_array_equal(row_seeds(table, 1), expected)
    np.testing.assert_array_equal(row_seeds(table.to_batches()[0], 1), expected)


def test_values_without_visible_content_are_refused():
    with pytest.raises(TypeError, match="got a object"):
        row_seeds(np.array([[object()], [object()]]), 0)


def test_the_seed_of_an_id_does_not_depend_on_the_others():
    """Texts that spell numbers or times take another way than those that do not."""
    ids = ["a", "7", 7, "", "-", "-3", "2024-05-17", "row 7", "07", "\u0663", "\u00b2", "\ud800"]
    ids += [b"7", b"a", 7.0, 7.5, True, "7.0"]
    together = id_seeds(as_objects(ids), 5)
    for one, seed in zip(ids, together.tolist(), strict=True):
        assert id_seeds(as_objects([one]), 5).tolist() == [seed], one
    assert len({together[k] for k in (1, 2, 12, 14, 17)}) == 1, "numbers and the texts that spell them are one id"
    texts = [one for one in ids if isinstance(one, str) and one != "\ud800"]
    of_texts = [seed for one, seed in zip(ids, together.tolist(), strict=True) if one in texts and type(one) is str]
    assert id_seeds(np.array(texts), 5).tolist() == of_texts
    assert len(id_seeds(np.array([], dtype=str), 5)) == 0


@pytest.mark.parametrize("first_row", [False, 0.0, "0", None, -4096, 1])
def test_the_first_row_is_a_whole_number(first_row):
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=20)
    with pytest.raises(ValueError, match="first_row must be a multiple of 4096"):
        aptset.calibrate(p, p.argmax(axis=1), first_row=first_row)
