"""The face for probabilities: alignment by label, levels, warnings, kinds of input."""

import pickle
import warnings

import numpy as np
import pytest

import aptset


def data(n=200, seed=0, n_classes=3):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(n_classes), size=n)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


def test_threshold_is_the_conformal_order_statistic():
    p, y = data(99)
    calibration = aptset.calibrate(p, y, random_state=0)
    assert calibration.n == 99
    assert calibration.threshold(0.1) == np.sort(calibration.scores)[89]
    assert calibration.threshold(0.005) == np.inf
    assert calibration.classes.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(np.sort(aptset.adaptive_scores(p, y, random_state=0)), calibration.scores)


def test_too_few_samples_give_every_label_and_one_warning():
    p, y = data(8)
    calibration = aptset.calibrate(p, y)
    with pytest.warns(UserWarning, match="8 calibration samples are too few for alpha=0.1: at least 9 are needed") as w:
        sets = calibration.predict_set(p, 0.1)
    assert len(w) == 1
    assert w[0].filename == __file__, "the warning points at the caller"
    assert (sets.sizes == 3).all()
    with pytest.warns(UserWarning, match="at least 99 are needed") as w:
        first, second, third = calibration.predict_set(p, [0.01, 0.1, 0.5])
    assert len(w) == 1
    assert (first.sizes == 3).all()
    assert (second.sizes == 3).all()
    assert third.sizes.mean() < 3
    p, y = data(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aptset.calibrate(p, y).predict_set(p, 0.1)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["b", "c", "a"]),
        np.array(["b", "c", "a"], dtype=object),
        np.array([30, 10, 20]),
        np.array([0.5, -1.0, 2.0]),
        ["b", "c", "a"],
    ],
    ids=["str", "object", "int", "float", "list"],
)
def test_any_labels_in_any_column_order(names):
    p, y = data()
    plain = aptset.calibrate(p, y, random_state=0)
    named = aptset.calibrate(p, np.asarray(names)[y], classes=names, random_state=0)
    np.testing.assert_array_equal(named.scores, plain.scores)
    for mine, theirs in zip(named.predict_set(p), plain.predict_set(p), strict=True):
        assert mine.tolist() == np.asarray(names)[theirs].tolist()
    np.testing.assert_array_equal(named.predict_set(p).covers(np.asarray(names)[y]), plain.predict_set(p).covers(y))


def test_boolean_labels():
    p, y = data(n_classes=2)
    sets = aptset.calibrate(p, y.astype(bool), random_state=0).predict_set(p)
    assert sets[0].dtype == bool


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_aligned_by_column_name(library):
    frames = pytest.importorskip(library)
    p, y = data()
    names = np.array(["b", "c", "a"])
    frame = frames.DataFrame({name: p[:, j] for j, name in enumerate(names)})
    calibration = aptset.calibrate(frame, names[y], random_state=0)
    assert calibration.classes.tolist() == ["b", "c", "a"]
    expected = calibration.predict_set(p)
    assert calibration.predict_set(frame) == expected
    assert calibration.predict_set(frame[["a", "b", "c"]]) == expected, "columns by name, never by position"
    with pytest.raises(ValueError, match="3 classes, but 2 columns came"):
        calibration.predict_set(frame[["a", "b"]])
    # The same with the classes spelled out, in another order than the columns.
    spelled = aptset.calibrate(frame[["c", "a", "b"]], names[y], classes=["b", "c", "a"], random_state=0)
    np.testing.assert_array_equal(spelled.scores, calibration.scores)
    assert spelled.predict_set(frame) == expected
    assert aptset.oracle_sets(frame[["a", "b", "c"]], 0.4, u=1, classes=names) == aptset.oracle_sets(frame, 0.4, u=1)
    with pytest.raises(ValueError, match="must have the columns"):
        aptset.calibrate(frame, ["a"] * 200, classes=["a", "b", "x"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_column_names_that_are_not_the_classes(library):
    frames = pytest.importorskip(library)
    p, y = data()
    frame = frames.DataFrame({f"p_{j}": p[:, j] for j in range(3)})
    with pytest.raises(ValueError, match="Pass classes="):
        aptset.calibrate(frame, y)
    with pytest.raises(ValueError, match=r"must have the columns \[0, 1, 2\], the classes; got \['p_0'"):
        aptset.calibrate(frame, y, classes=[0, 1, 2], random_state=0)
    names = np.array(["p_0", "p_1", "p_2"])
    calibration = aptset.calibrate(frame, names[y], random_state=0)
    expected = calibration.predict_set(p)
    assert calibration.predict_set(frame) == expected
    assert calibration.predict_set(frame[["p_2", "p_0", "p_1"]]) == expected, "by the names of the calibration"
    with pytest.raises(ValueError, match=r"must have the columns \['p_0'"):
        calibration.predict_set(frames.DataFrame({f"q_{j}": p[:, j] for j in range(3)}))
    texts = frames.DataFrame({"a": ["x"], "b": [0.5]})
    with pytest.raises(TypeError, match="column 'a' does not"):
        aptset.calibrate(texts, ["a"])


def test_the_caller_may_change_their_arrays_later():
    p, y = data()
    names = np.array(["x", "y", "z"])
    calibration = aptset.calibrate(p, names[y], classes=names, random_state=0)
    names[:] = "w"
    assert calibration.classes.tolist() == ["x", "y", "z"]


def test_texts_and_numbers_as_labels():
    p, y = data()
    names = [1, "one", None]
    sets = aptset.calibrate(p, [names[k] for k in y], classes=names, random_state=0).predict_set(p, 0.1)
    assert {type(label) for row in sets for label in row.tolist()} == {int, str, type(None)}
    assert sets.covers(np.array([names[k] for k in y], dtype=object)).mean() > 0.8


def test_nullable_pandas_numbers():
    pd = pytest.importorskip("pandas")
    p, y = data()
    frame = pd.DataFrame(p).astype("Float64")
    np.testing.assert_array_equal(
        aptset.calibrate(frame, y, random_state=0).scores, aptset.calibrate(p, y, random_state=0).scores
    )


def test_own_uniforms_and_keys():
    p, y = data()
    u = np.random.default_rng(5).random(200)
    given = aptset.calibrate(p, y, u=u)
    np.testing.assert_array_equal(given.scores, np.sort(aptset.adaptive_scores(p, y, u)))
    assert given.predict_set(p, 0.1, u=u) == aptset.calibrate(p, y, u=u).predict_set(p, 0.1, u=u), "no ties, no chance"
    first, second = aptset.calibrate(p, y), aptset.calibrate(p, y)
    assert first.key != second.key
    assert first.predict_set(p) == first.predict_set(p), "the key is drawn once and kept"
    for seed in (3, np.random.RandomState(3), np.random.default_rng(3)):
        assert isinstance(aptset.calibrate(p, y, random_state=seed).key, int)
    assert aptset.calibrate(p, y, random_state=3).key == aptset.calibrate(p, y, random_state=np.int64(3)).key


def test_global_random_state_is_left_alone():
    p, y = data()
    np.random.seed(0)  # noqa: NPY002 - the global state is what is watched
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    aptset.calibrate(p, y).predict_set(p)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_single_rows_use_different_uniforms():
    """Two rows that differ in one part in a million, one call each."""
    p, y = data()
    calibration = aptset.calibrate(p, y, random_state=0)
    rows = np.tile([0.5, 0.3, 0.2], (200, 1))
    rows[:, 0] += np.arange(200) * 1e-6
    rows[:, 1] -= np.arange(200) * 1e-6
    singles = [calibration.p_values(row[None, :])[0, 0] for row in rows]
    assert len(set(singles)) > 50


def test_no_empty_sets_on_request():
    p, y = data(2000)
    strict = aptset.calibrate(p, y, random_state=0)
    empty = strict.predict_set(p, 0.6).sizes == 0
    assert empty.any()
    for filled in (
        strict.predict_set(p, 0.6, allow_empty=False),
        aptset.calibrate(p, y, random_state=0, allow_empty=False).predict_set(p, 0.6),
    ):
        assert (filled.sizes[empty] == 1).all()
        assert [row[0] for row in filled[empty]] == p[empty].argmax(axis=1).tolist()
        assert (filled.mask >= strict.predict_set(p, 0.6).mask).all()


def test_normalize_divides_rows_by_their_sum():
    p, y = data()
    scaled = p * np.random.default_rng(0).choice([0.5, 2.0, 8.0], size=(200, 1))  # powers of two: exact
    with pytest.raises(ValueError, match="normalize=True"):
        aptset.calibrate(scaled, y)
    # The row sums of p are 1 up to rounding, so compare after the same division.
    expected = aptset.calibrate(p / p.sum(axis=1, keepdims=True), y, random_state=0)
    found = aptset.calibrate(scaled, y, random_state=0, normalize=True)
    np.testing.assert_array_equal(found.scores, expected.scores)
    counts = np.random.default_rng(1).integers(0, 5, size=(50, 3)) + np.array([1, 0, 0])
    assert len(found.predict_set(counts, normalize=True)) == 50


def test_pickles_and_shows_itself():
    p, y = data()
    calibration = aptset.calibrate(p, y, random_state=0)
    again = pickle.loads(pickle.dumps(calibration))
    assert again.predict_set(p) == calibration.predict_set(p)
    assert "n=200" in repr(calibration)
    assert "Adaptive()" in repr(calibration)
    assert len(repr(aptset.calibrate(np.full((2, 500), 1 / 500), [0, 1]))) < 300


def test_bad_row_in_a_later_piece_is_named(limits):
    p, y = data()
    bad = p.copy()
    bad[150] = 0.5
    limits(chunk_cells=60)
    for groups in (None, "label"):
        calibration = aptset.calibrate(p, y, groups=groups)
        for call in (calibration.predict_set, calibration.p_values):
            with pytest.raises(ValueError, match=r"row 150 sums to 1\.5"):
                call(bad)
