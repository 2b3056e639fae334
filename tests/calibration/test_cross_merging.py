"""Calibrations of several folds that are joined: as if all rows had been calibrated at once, or refused."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import aptset

generator = np.random.default_rng(0)
P = generator.dirichlet(np.ones(3), size=120)
Y = (generator.random((120, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
FOLDS = np.arange(120) % 4
NEW = [generator.dirichlet(np.ones(3), size=30) for _ in range(4)]
X, LABELS = make_classification(120, n_features=6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)


def kept(calibration):
    """All that a calibration knows, to be compared bit by bit."""
    scores = [fold.scores.tobytes() for fold in calibration.held_out.folds]
    offsets = [fold.offsets.tolist() for fold in calibration.held_out.folds]
    model_mask = calibration.held_out.model_mask
    return (
        scores,
        offsets,
        None if model_mask is None else model_mask.tolist(),
        calibration.folds.tolist(),
        calibration.parts,
    )


@pytest.mark.parametrize("groups", [None, "label", "rows"])
@pytest.mark.parametrize("combine", ["plus", "minimax"])
def test_merged_shards_are_the_whole(combine, groups):
    by = np.array(["x", "y", "z"])[np.searchsorted([40, 80], np.arange(120))] if groups == "rows" else groups
    whole = aptset.calibrate_cv(P, Y, FOLDS, combine=combine, groups=by, random_state=3)
    parts = [
        aptset.calibrate_cv(
            P[some], Y[some], FOLDS[some], combine=combine, groups=by[some] if groups == "rows" else by, random_state=3
        )
        for some in (np.arange(50), np.arange(50, 90), np.arange(90, 120))
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert kept(merged)[:-1] == kept(whole)[:-1]
    assert sum(merged.parts) % 2**64 == whole.parts[0]
    more = {"groups": ["z"] * 30} if groups == "rows" else {}
    assert merged.predict_set(NEW, 0.3, **more) == whole.predict_set(NEW, 0.3, **more)
    assert merged.guarantee(0.2) == whole.guarantee(0.2)


def test_folds_that_are_in_one_shard_only_are_added():
    """Workers that each score the rows of some folds: together they have all of them, in order."""
    whole = aptset.calibrate_cv(P, Y, FOLDS, random_state=3)
    few = [
        aptset.calibrate_cv(P[k == FOLDS % 2], Y[k == FOLDS % 2], FOLDS[k == FOLDS % 2], random_state=3) for k in (0, 1)
    ]
    merged = few[1].merge(few[0])
    assert merged.folds.tolist() == [0, 1, 2, 3]
    assert kept(merged)[:-1] == kept(whole)[:-1]


def test_a_merged_calibration_of_files_knows_its_parts(tmp_path):
    one, other = (aptset.calibrate_cv(P[k::2], Y[k::2], np.arange(60) % 3, random_state=3) for k in (0, 1))
    one.merge(other).save(tmp_path / "c")
    with pytest.raises(ValueError, match="would count twice"):
        aptset.load(tmp_path / "c").merge(one)


def test_only_like_calibrations_merge():
    one, others = aptset.calibrate_cv(P, Y, FOLDS, random_state=3), (P[:60], Y[:60])
    for name, other in {
        "key": aptset.calibrate_cv(*others, FOLDS[:60], random_state=4),
        "score": aptset.calibrate_cv(*others, FOLDS[:60], random_state=3, conformity="homogeneous"),
        "combine": aptset.calibrate_cv(*others, FOLDS[:60], random_state=3, combine="minimax"),
        "kind of groups": aptset.calibrate_cv(*others, FOLDS[:60], random_state=3, groups="label"),
        "kind of names of folds": aptset.calibrate_cv(*others, FOLDS[:60].astype(str), random_state=3),
    }.items():
        with pytest.raises(ValueError, match=f"differs in .*{name}"):
            one.merge(other)
    with pytest.raises(TypeError, match="other must be a CrossCalibration, too; got Calibration"):
        one.merge(aptset.calibrate(P, Y, random_state=3))
    with pytest.raises(TypeError, match="other must be a Calibration, too; got CrossCalibration"):
        aptset.calibrate(P, Y, random_state=3).merge(one)


def test_the_folds_of_two_fits_do_not_merge_but_rows_of_one_frozen_model_do():
    one, other = (
        aptset.ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0)
        .fit(X[some], LABELS[some])
        .calibration_
        for some in (slice(60), slice(60, None))
    )
    for left, right in ((one, other), (one, aptset.calibrate_cv(P, Y, FOLDS)), (aptset.calibrate_cv(P, Y, FOLDS), one)):
        with pytest.raises(ValueError, match="those of a fitted classifier are its own"):
            left.merge(right)
    frozen = FrozenEstimator(GaussianNB().fit(X[:40], LABELS[:40]))
    parts = [
        aptset.ConformalClassifier(frozen, random_state=0).fit(X[some], LABELS[some]).calibration_
        for some in (slice(40, 80), slice(80, None), slice(40, None))
    ]
    np.testing.assert_array_equal(parts[0].merge(parts[1]).scores, parts[2].scores)


def test_shards_full_of_copies_warn_and_name_the_way_out():
    few = np.repeat(P[:6], 10, axis=0)
    one, other = (aptset.calibrate_cv(few, Y[:60], FOLDS[:60], random_state=3) for _ in range(2))
    with pytest.warns(UserWarning, match=r"share their randomness.* Calibrate each shard with ids="):
        one.merge(replace(other, parts=(1,)))


def test_names_of_folds_are_compared_by_what_they_are_not_by_how_they_are_stored(tmp_path):
    """An array, a series and a file may hold the same names."""
    whole = aptset.calibrate_cv(P, Y, FOLDS, random_state=3)
    for first, second in [
        (FOLDS.astype(np.uint64), FOLDS),
        (FOLDS.astype(object), FOLDS.astype(np.int8)),
        (FOLDS.astype(str), FOLDS.astype(str).astype(object)),
    ]:
        one = aptset.calibrate_cv(P[:60], Y[:60], first[:60], random_state=3)
        one.save(tmp_path / "one")
        other = aptset.calibrate_cv(P[60:], Y[60:], second[60:], random_state=3)
        merged = aptset.load(tmp_path / "one").merge(other)
        assert merged.folds.tolist() == sorted(set(second.tolist()))
        assert kept(merged)[:3] == kept(whole)[:3]


def test_groups_of_another_kind_are_another_kind_of_groups():
    """1 and "1" would be two groups, each with half of the rows and without a word."""
    one = aptset.calibrate_cv(P[:60], Y[:60], FOLDS[:60], groups=FOLDS[:60] // 2, random_state=3)
    texts, missing = (FOLDS[60:] // 2).astype(str), np.where(FOLDS[60:] > 1, 1, None)
    with pytest.raises(ValueError, match="differs in kind of names of groups"):
        one.merge(aptset.calibrate_cv(P[60:], Y[60:], FOLDS[60:], groups=texts, random_state=3))
    merged = one.merge(aptset.calibrate_cv(P[60:], Y[60:], FOLDS[60:], groups=missing, random_state=3))
    assert set(merged.held_out.groups.names) == {0, 1, None}


def test_what_is_no_calibration_is_named():
    with pytest.raises(TypeError, match="other must be a CrossCalibration, too; got NoneType"):
        aptset.calibrate_cv(P, Y, FOLDS).merge(None)
