"""A calibration of one model and one of several folds are asked the same things, in the same words."""

import inspect
import warnings

import numpy as np
import pytest

import aptset
from aptset.calibration.cross_calibration import NOT_OFFERED

VERBS = ("predict_set", "predict_mask", "p_values", "sets_and_p_values")
generator = np.random.default_rng(5)
LOGITS = generator.normal(size=(3, 260, 4)) * 2
P = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=2, keepdims=True)
Y = P[0].argmax(axis=1)
FOLDS = np.arange(200) % 3


def cross(matrices, **settings):
    """Return a calibration of three folds, and what their models say about 60 new rows."""
    out_of_fold = matrices[FOLDS, np.arange(200)]
    calibration = aptset.calibrate_cv(out_of_fold, Y[:200], FOLDS, random_state=0, **settings)
    return calibration, list(matrices[:, 200:])


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_have_the_same_options(verb):
    one, several = (getattr(face, verb) for face in (aptset.Calibration, aptset.CrossCalibration))
    mine, theirs = ({**inspect.signature(call).parameters} for call in (one, several))
    mine.pop("probabilities"), theirs.pop("fold_probabilities")
    assert {name: p.default for name, p in mine.items()} == {name: p.default for name, p in theirs.items()}


def test_whatever_one_face_lacks_is_in_the_table():
    public = {name for name in dir(aptset.Calibration) if not name.startswith("_")}
    public |= set(aptset.Calibration.__dataclass_fields__)
    calibration, _ = cross(P)
    assert {name for name in public if not hasattr(calibration, name)} == set(NOT_OFFERED)
    for name, why in NOT_OFFERED.items():
        with pytest.raises(AttributeError, match=f"CrossCalibration has no {name}") as error:
            getattr(calibration, name)
        assert why in str(error.value)


@pytest.mark.parametrize("combine", ["plus", "minimax"])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_masks_are_those_of_the_sets(combine, allow_empty):
    calibration, new = cross(P, combine=combine)
    for alpha in (0.05, 0.3, 0.9):
        sets = calibration.predict_set(new, alpha, allow_empty=allow_empty)
        mask = calibration.predict_mask(new, alpha, allow_empty=allow_empty)
        assert mask.dtype == np.bool_
        np.testing.assert_array_equal(mask, sets.mask)


def test_logits_of_folds_are_their_softmax_with_the_same_u():
    u, new_u = generator.random(200), generator.random(60)
    by_logits, new_logits = cross(LOGITS, logits=True, u=u)
    by_softmax, new = cross(P, u=u)
    np.testing.assert_allclose(
        by_logits.p_values(new_logits, logits=True, u=new_u), by_softmax.p_values(new, u=new_u), atol=1e-12
    )


def test_u_of_logits_comes_from_the_logits():
    """Logits whose softmax is (1, 0, 0, 0) are no copies of one another: a row alone has the set of the batch."""
    sharp = LOGITS.copy()
    sharp[:, :, 0] += 900 + np.arange(260)
    calibration, new = cross(sharp, logits=True)
    assert calibration.chance.copies == 0
    whole = calibration.p_values(new, logits=True)
    alone = [calibration.p_values([m[row : row + 1] for m in new], logits=True)[0] for row in range(60)]
    np.testing.assert_array_equal(whole, alone)
    assert len(np.unique(whole[:, 0])) > 10


def test_probabilities_are_refused_as_logits_under_the_name_of_the_fold():
    calibration, new = cross(P)
    with pytest.raises(ValueError, match="probabilities of fold 0 must be logits with logits=True"):
        calibration.p_values(new, logits=True)
    with pytest.raises(TypeError, match="logits must be True or False"):
        calibration.p_values(new, logits="no")


def test_copies_depend_on_the_first_row_and_on_nothing_else():
    same = np.repeat(P[:, 200:201], 8192, axis=1)
    calibration, _ = cross(P)
    whole = calibration.p_values(list(same))
    second = calibration.p_values(list(same[:, 4096:]), first_row=4096)
    np.testing.assert_array_equal(whole[4096:], second)
    with pytest.raises(ValueError, match="first_row must be a multiple of 4096"):
        calibration.predict_mask(list(same), first_row=5)


def test_randomized_is_said():
    assert cross(P)[0].randomized
    assert not cross(P, randomized=False)[0].randomized


@pytest.mark.parametrize("verb", ["predict_set", "predict_mask", "sets_and_p_values"])
@pytest.mark.parametrize("several", [False, True])
def test_warnings_point_at_the_caller(verb, several):
    calibration, new = cross(P) if several else (aptset.calibrate(P[0, :200], Y[:200], random_state=0), P[0, 200:])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(calibration, verb)(new, 0.001)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("several", [False, True])
def test_copies_are_warned_of_at_the_caller(several):
    same = np.repeat(P[:, :1], 260, axis=1)
    calibration, new = cross(same) if several else (aptset.calibrate(same[0, :200], Y[:200]), same[0, 200:])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibration.predict_mask(new, 0.1)
    assert [warning.filename for warning in caught if "copies" in str(warning.message)] == [__file__]


def test_weights_of_folds_are_checked_before_any_fold_but_the_first_is_read():
    calibration, new = cross(P, weights=np.ones(200))

    def folds():
        yield new[0]
        pytest.fail("the second fold was read")

    with pytest.raises(ValueError, match="weights must be passed with the new rows"):
        calibration.predict_set(folds())
