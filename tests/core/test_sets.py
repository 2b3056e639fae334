"""PredictionSets: a frozen sequence of label arrays that round-trips."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aptset import PredictionSets

CLASSES = np.array(["ant", "bee", "cat", "dog"])
ROWS = [["bee", "ant"], [], ["dog"], ["cat", "dog", "ant", "bee"]]


@pytest.fixture
def sets():
    return PredictionSets.from_labels(ROWS, CLASSES)


def test_reads_as_a_sequence(sets):
    assert len(sets) == 4
    assert [row.tolist() for row in sets] == ROWS
    assert [row.tolist() for row in sets.labels()] == ROWS
    assert sets[0].tolist() == ["bee", "ant"]
    assert sets[-1].tolist() == sets[3].tolist()
    assert [row.tolist() for row in reversed(sets)] == ROWS[::-1]
    assert ["dog"] in sets
    assert ["ant"] not in sets
    assert sets.index(["dog"]) == 2
    assert sets.count([]) == 1
    with pytest.raises(ValueError, match="no row"):
        sets.index(["ant", "bee"])
    with pytest.raises(IndexError, match="row must be in"):
        sets[4]


def test_rows_with_a_set_are_those_that_equal_it(sets):
    """Whatever is asked for: labels in order, other orders, labels that are none, numbers, texts, nothing at all."""
    numbers = PredictionSets.from_mask(np.array([[1, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=bool), [1, 2, 3])
    asked = [["bee", "ant"], ["ant", "bee"], [], ["dog"], ["cow"], [1, 2], [1.0, 2.0], [1, "ant"]]
    asked += ["dog", 3, None, [[1]]]
    for some in (sets, numbers):
        for labels in (*asked, np.array(["dog"]), ("dog",)):
            rows = [k for k, row in enumerate(some.labels()) if np.array_equal(row, np.asarray(labels, dtype=object))]
            assert some.count(labels) == len(rows), labels
            assert (labels in some) == bool(rows)
            for k in rows:
                assert some.index(labels, k) == k
    assert numbers.index([1, 2], 1) == 2
    with pytest.raises(ValueError, match="no row"):
        numbers.index([1, 2], 1, 2)


def test_labels_come_back_as_arrays_of_any_kind(sets):
    mixed = [np.array(["ant"]), ["bee", "ant"], np.array([], dtype=float), ("dog",)]
    again = PredictionSets.from_labels(mixed, CLASSES)
    assert [row.tolist() for row in again] == [["ant"], ["bee", "ant"], [], ["dog"]]
    assert PredictionSets.of(sets.labels(), CLASSES) == sets
    assert PredictionSets.of([np.array([2]), np.array(["b"]), [2.5]]).classes.tolist() == [2, "b", 2.5]


def test_picks_rows(sets):
    assert [row.tolist() for row in sets[1:3]] == ROWS[1:3]
    assert [row.tolist() for row in sets[[3, 0, 3]]] == [ROWS[3], ROWS[0], ROWS[3]]
    assert [row.tolist() for row in sets[sets.sizes > 1]] == [ROWS[0], ROWS[3]]
    assert len(sets[[]]) == 0
    with pytest.raises(TypeError, match="row must be"):
        sets["ant"]
    with pytest.raises(ValueError, match="one entry per row"):
        sets[[True, False]]


def test_describes_itself(sets):
    assert sets.sizes.tolist() == [2, 0, 1, 4]
    assert sets.mask.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]]
    assert repr(sets).splitlines()[:2] == ["PredictionSets: 4 rows, 4 classes, mean size 1.75", "  0  {bee, ant}"]
    many = PredictionSets.from_mask(np.ones((50, 30), dtype=bool))
    assert "... 22 more" in repr(many)
    assert "44 more rows" in repr(many)
    assert len(repr(many)) < 1000
    hostile = PredictionSets.from_labels([["<b>x"]], ["<b>x", "y"])
    assert "<b>x" not in hostile._repr_html_()
    assert "&lt;b&gt;x" in hostile._repr_html_()
    assert repr(sets[[]]) == "PredictionSets: 0 rows, 4 classes"


def test_covers(sets):
    assert sets.covers(["ant", "ant", "dog", "cat"]).tolist() == [True, False, True, True]
    assert sets.covers(np.array(["ant", "x", "y", "cat"], dtype=object)).tolist() == [True, False, False, True]
    with pytest.raises(TypeError, match="labels are int64 such as 1, 2, 3, classes are texts"):
        sets.covers([1, 2, 3, 4])
    with pytest.raises(ValueError, match="one entry per row"):
        sets.covers(["ant"])


def test_covers_in_long_sets_among_empty_ones():
    generator = np.random.default_rng(0)
    for share in (0.1, 0.9):
        mask = generator.random((80, 200)) < share
        mask[[0, 7, 8, 79]] = False
        labels = generator.integers(201, size=80)  # 200 is none of the classes
        expected = [bool(label < 200 and row[label]) for row, label in zip(mask, labels.tolist(), strict=True)]
        assert PredictionSets.from_mask(mask).covers(labels).tolist() == expected
        assert not PredictionSets.from_mask(mask[[0, 7]]).covers(labels[:2]).any()
    assert PredictionSets.from_mask(mask[:0]).covers([]).tolist() == []


def test_is_frozen(sets):
    with pytest.raises(AttributeError):
        sets.indptr = np.array([0])
    with pytest.raises(ValueError, match="read-only"):
        sets.indices[0] = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(sets)
    assert pickle.loads(pickle.dumps(sets)) == sets


def test_the_owner_of_the_arrays_keeps_them_writable():
    indptr, classes = np.array([0, 1]), np.array([1, 2])
    sets = PredictionSets(indptr, np.array([0], dtype=np.int32), classes)
    indptr[0], classes[0] = 5, 7
    assert sets[0].tolist() == [1]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_round_trip(sets, backend):
    frame = sets.to_frame(backend)
    assert type(frame).__module__.split(".")[0] == backend
    assert PredictionSets.from_frame(frame, CLASSES) == sets


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8))
def test_masks_and_arrays_round_trip(rows):
    mask = np.array(rows)
    sets = PredictionSets.from_mask(mask, ["a", "b", "c"])
    np.testing.assert_array_equal(sets.mask, mask)
    assert PredictionSets(sets.indptr, sets.indices, sets.classes) == sets
    assert PredictionSets.from_labels(sets.labels(), sets.classes) == sets
    assert sets != PredictionSets.from_mask(~mask, ["a", "b", "c"])
    assert (sets == 3) is False


def test_small_sets_over_many_classes_are_small():
    n = 100_000
    sets = PredictionSets(np.arange(n + 1), np.zeros(n, dtype=np.int32), np.arange(1000))
    assert sum(a.nbytes for a in (sets.indptr, sets.indices, sets.classes)) < 20 * n


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([1, 2], [0, 1], "indptr must"),
        ([0, 2, 1], [0], "indptr must"),
        ([], [], "indptr must"),
        ([0, 2], [0], "indices must be 1-D"),
        ([0, 1], [7], "positions in the 2 classes"),
        ([0, 1], [-1], "positions in the 2 classes"),
    ],
)
def test_bad_arrays(indptr, indices, message):
    with pytest.raises(ValueError, match=message):
        PredictionSets(np.array(indptr, dtype=int), np.array(indices, dtype=int), np.array([1, 2]))


def test_bad_masks_and_labels(sets):
    for labels in ("ant", [["ant"]] * 4, 3):
        with pytest.raises(ValueError, match=r"labels must (be 1-D|have one entry)"):
            sets.covers(labels)
    with pytest.raises(TypeError, match="list of labels for each row; got 'ant' in row 0"):
        PredictionSets.from_labels(["ant"], CLASSES)
    assert PredictionSets.from_labels([{"ant"}, ()], CLASSES).sizes.tolist() == [1, 0]
    with pytest.raises(ValueError, match="row 1 holds one twice"):
        PredictionSets.from_labels([["ant"], ["bee", "ant", "bee"]], CLASSES)
    with pytest.raises(ValueError, match="classes must be distinct"):
        PredictionSets.from_labels([[1]], [1, 1])
    with pytest.raises(TypeError, match="must be integers"):
        PredictionSets(np.array([0.0, 1.0]), np.array([0]), CLASSES)
    with pytest.raises(TypeError, match="boolean"):
        PredictionSets.from_mask([[1, 0]])
    with pytest.raises(ValueError, match="must be among the classes"):
        PredictionSets.from_labels([["wolf"]], CLASSES)


@pytest.mark.parametrize(
    "classes", [np.array(["ant", "bee", "cat"]), np.array([10, 20, 30]), np.array([0.5, 1.5, 2.5])]
)
@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library_are_read_back(classes, backend):
    mask = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=np.bool_)
    sets = PredictionSets.from_mask(mask, classes)
    frame = sets.to_frame(backend)
    assert PredictionSets.from_frame(frame, classes) == sets
    assert PredictionSets.of(frame).covers(classes[[0, 1, 1, 2]]).tolist() == [True, False, True, True]
    with pytest.raises(ValueError, match=r"must be among the classes \['none'\]"):
        PredictionSets.from_frame(frame, ["none"])


def test_lists_with_missing_entries_are_told():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="list of labels for each row; got None in row 1"):
        PredictionSets.from_frame(pl.DataFrame({"labels": [["a"], None]}), ["a"])
    with pytest.raises(ValueError, match="must be among the classes"):
        PredictionSets.from_frame(pl.DataFrame({"labels": [["a", None]]}), ["a"])


@pytest.mark.parametrize(
    ("labels", "row"), [([["a", "b"], ["a"], ["q"]], 2), ([["a", "q"], []], 0), ([[], [], ["q", "a"]], 2)]
)
def test_a_label_that_is_no_class_is_told_with_its_row(labels, row):
    with pytest.raises(ValueError, match=rf"got 'q' in row {row}\. Pass classes=\.\.\. with every label"):
        PredictionSets.from_labels(labels, classes=["a", "b"])


@pytest.mark.parametrize("threads", ["1", "4"])
@pytest.mark.parametrize("kind", ["list", "large list", "slice", "chunks", "fixed size"])
def test_sets_from_long_columns_of_arrow(monkeypatch, threads, kind):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setenv("APTSET_THREADS", threads)
    generator, classes = np.random.default_rng(0), np.array(["a", "b", "c", "d"])
    n_rows = 300_000
    first, sizes = generator.integers(4, size=n_rows), generator.integers(4, size=n_rows)
    sizes = np.full(n_rows, 2) if kind == "fixed size" else sizes
    pointers = np.concatenate([[0], np.cumsum(sizes)])
    place = np.arange(pointers[-1]) - np.repeat(pointers[:-1], sizes)
    members = ((np.repeat(first, sizes) + place) % 4).astype(np.int32)
    texts = pa.array(classes[members].tolist())
    column = {
        "fixed size": lambda: pa.FixedSizeListArray.from_arrays(texts, 2),
        "large list": lambda: pa.LargeListArray.from_arrays(pointers, texts),
    }.get(kind, lambda: pa.ListArray.from_arrays(pointers.astype(np.int32), texts))()
    expected = PredictionSets(pointers, members, classes)
    if kind == "slice":
        column, expected = column[1000:-7], expected[1000:-7]
    if kind == "chunks":
        column = pa.chunked_array([column[:100], column[100:]])
    assert PredictionSets.from_frame(pa.table({"labels": column}), classes) == expected
    doubled = pa.ListArray.from_arrays([0, 1, 3], pa.array(["a", "b", "b"]))
    with pytest.raises(ValueError, match="row 1 holds one twice"):
        PredictionSets.from_frame(pa.table({"labels": doubled}), classes)
