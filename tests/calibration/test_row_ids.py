"""Ids of rows: u comes from them alone, and ids that name no row are refused."""

import json

import numpy as np
import pytest

import aptset

P = np.random.default_rng(0).dirichlet([1, 1, 1], size=300)
Y = np.array([np.random.default_rng(i).choice(3, p=row) for i, row in enumerate(P)])


VERBS = ["predict_set", "predict_mask", "p_values"]


@pytest.mark.parametrize("verb", VERBS)
def test_ids_decide_alone(verb):
    """A row's answer is the same wherever and however often it comes, through JSON, and as float32."""
    pd = pytest.importorskip("pandas")
    ids = [f"row {i}" for i in range(300)]
    calibration = aptset.calibrate(P, Y, ids=ids, random_state=0)
    assert calibration.chance.source == "ids"

    def answer(matrix, ids):
        found = getattr(calibration, verb)(matrix, ids=ids)
        return getattr(found, "mask", found)

    ids_new = np.arange(300)
    whole = answer(P, ids_new)
    np.testing.assert_array_equal(answer(P[[5, 5, 9]], ids_new[[5, 5, 9]]), whole[[5, 5, 9]])
    np.testing.assert_array_equal(answer(P[40:41], [40.0]), whole[40:41])
    np.testing.assert_array_equal(answer(P[40:41], ["40"]), whole[40:41])
    frame = pd.DataFrame(P, columns=[0, 1, 2], index=ids_new)
    np.testing.assert_array_equal(answer(frame, frame.index), whole)
    named = frame.assign(customer=ids_new)
    np.testing.assert_array_equal(answer(named, "customer"), whole)
    if verb != "p_values":
        back = np.array(json.loads(frame.to_json(orient="values")))
        back /= back.sum(axis=1, keepdims=True)
        np.testing.assert_array_equal(answer(back, ids_new), whole)
        np.testing.assert_array_equal(answer(P.astype(np.float32), ids_new), whole)


def test_large_ids_stay_apart():
    """Whole numbers beyond 2^53 are no neighbours, whatever holds them."""
    calibration = aptset.calibrate(P, Y, random_state=0)
    large = 2**60 + np.arange(300)
    found = calibration.p_values(np.tile(P[0], (300, 1)), ids=large)
    assert len(np.unique(found[:, 0])) > 30
    np.testing.assert_array_equal(calibration.p_values(np.tile(P[0], (300, 1)), ids=[str(i) for i in large]), found)
    np.testing.assert_array_equal(calibration.p_values(np.tile(P[0], (300, 1)), ids=large.astype(object)), found)


def test_the_default_index_of_a_frame_names_no_row():
    pd = pytest.importorskip("pandas")
    calibration = aptset.calibrate(P, Y, ids=range(300), random_state=0)
    frame = pd.DataFrame(P[:5])
    with pytest.raises(ValueError, match="default index of a data frame, which starts at 0 in every call"):
        calibration.predict_set(frame, ids=frame.index)
    named = frame.set_index(pd.Index(list("abcde")))
    assert len(calibration.predict_set(named, ids=named.index)) == 5


def test_an_id_may_come_often_but_must_tell_many_rows_apart():
    calibration = aptset.calibrate(P, Y, ids=range(300), random_state=0)
    often = calibration.predict_set(np.repeat(P[:1], 50, axis=0), ids=[7] * 50)
    assert all(row.tolist() == often[0].tolist() for row in often)
    with pytest.raises(ValueError, match="ids must tell rows apart; got 2 different ids for 300 rows"):
        calibration.predict_set(P, ids=["a", "b"] * 150)


def test_one_id_in_many_forms():
    pd = pytest.importorskip("pandas")
    from aptset.core.row_seeds import id_seeds

    def seed(value):
        values = np.empty(1, dtype=object)
        values[0] = value
        return int(id_seeds(values, 1)[0])

    day = np.array(["2020-01-01"], dtype="datetime64[ns]")
    forms = ["2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00:00.000", pd.Timestamp("2020-01-01")]
    assert {seed(form) for form in forms} == {int(id_seeds(day, 1)[0])}
    assert len(np.unique(id_seeds(day + np.arange(200), 1))) == 200, "nanoseconds count"
    assert seed("7.0") == seed(7) == seed("7") == seed(7.0) == int(id_seeds(np.array([7]), 1)[0])
    assert seed(-1) == int(id_seeds(np.array([-1]), 1)[0]) != seed(2**64 - 1)
    with pytest.raises(ValueError, match="ids"):
        aptset.calibrate(P, Y, ids=np.ma.array(np.arange(300), mask=[1] + [0] * 299))
    with pytest.raises(TypeError, match="ids must hold numbers, texts"):
        aptset.calibrate(P, Y, ids=[object() for _ in Y])


def test_ids_of_folds_may_be_a_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(P, columns=[0, 1, 2]).assign(rid=np.arange(300))
    folds = aptset.calibrate_cv(frame, Y, np.arange(300) % 3, ids="rid", random_state=0)
    assert folds.predict_set([frame] * 3, ids="rid") == folds.predict_set([P] * 3, ids=np.arange(300))
