"""Overlapping groups: thresholds against the definition in exact numbers, coverage in every group, what is kept."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

import aptset
from aptset import Overlapping
from aptset.cli.artefacts import facts_in_words, facts_of
from forging import forge, taken_apart

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def rows_with_groups(n, seed=0):
    """Rows of which two overlapping groups are hard: the labels know less there than the probabilities say."""
    generator = np.random.default_rng(seed)
    flags = generator.random((n, 4)) < [0.3, 0.3, 0.5, 0.5]
    p = generator.dirichlet(np.full(6, 0.3), size=n)
    hard = flags[:, 0].astype(float) + flags[:, 1]
    q = p + 0.12 * hard[:, None]
    q /= q.sum(axis=1, keepdims=True)
    return p, (generator.random((n, 1)) > q.cumsum(axis=1)[:, :-1]).sum(axis=1), flags


P, Y, FLAGS = rows_with_groups(600)
NEW, _, NEW_FLAGS = rows_with_groups(80, seed=1)


def frame_of(flags):
    return pd.DataFrame({"region": np.array(["n", "s", "w"])[flags[:, 0] * 1 + flags[:, 2]], "old": flags[:, 1]})


FRAME, NEW_FRAME = frame_of(FLAGS), frame_of(NEW_FLAGS)


@pytest.mark.parametrize("score", ["adaptive", "homogeneous", aptset.Prevalence(dict.fromkeys(range(6), 1))], ids=str)
@pytest.mark.parametrize("randomized", [True, False])
def test_one_group_is_a_split_and_disjoint_groups_are_groups(path, score, randomized):
    common = {"conformity": score, "randomized": randomized, "random_state": 0}
    alphas = [0.07, 0.1, 0.25, 0.5]
    plain = aptset.calibrate(P, Y, **common)
    for columns in (1, 3):  # columns that say the same
        one = aptset.calibrate(P, Y, groups=Overlapping(np.ones((600, columns))), **common)
        assert one.predict_set(NEW, alphas, groups=np.ones((80, columns))) == plain.predict_set(NEW, alphas)
        np.testing.assert_array_equal(
            one.predict_mask(NEW, 0.2, groups=np.ones((80, columns))), plain.predict_mask(NEW, 0.2)
        )
    by_row = aptset.calibrate(P, Y, groups=FRAME["region"], **common)
    apart = aptset.calibrate(P, Y, groups=Overlapping(FRAME[["region"]]), **common)
    expected = by_row.predict_set(NEW, alphas, groups=NEW_FRAME["region"])
    assert apart.predict_set(NEW, alphas, groups=NEW_FRAME[["region"]]) == expected
    for alpha in alphas:
        mine = {cell[0].removeprefix("region="): value for cell, value in apart.threshold(alpha).items()}
        assert mine == by_row.threshold(alpha)


def test_every_group_is_covered_as_promised():
    """400 calibrations on 150 rows: the mean coverage of each group is at least 1 - alpha.

    The promise is about means over calibrations and rows. Each calibration is tested on rows of its own, so the 400
    coverages of a group are independent; their mean lies more than 5.2 standard errors below 0.8 with a chance below
    2e-7 for each of four groups, their complements and all rows. Without groups the hard ones fail this test.
    """
    p, y, flags = rows_with_groups(400 * 250, seed=3)
    totals = {"overlapping": [], "plain": []}
    for start in range(0, len(y), 250):
        mine, test = slice(start, start + 150), slice(start + 150, start + 250)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows of a group: its sets hold every label
            found = aptset.calibrate(p[mine], y[mine], groups=Overlapping(flags[mine]), random_state=start)
            mask = found.predict_mask(p[test], 0.2, groups=flags[test])
        plain = aptset.calibrate(p[mine], y[mine], random_state=start).predict_mask(p[test], 0.2)
        members = np.column_stack([flags[test], ~flags[test], np.ones((100, 1), dtype=bool)])
        for name, held in (("overlapping", mask), ("plain", plain)):
            excess = held[np.arange(100), y[test]] - 0.8
            totals[name].append(excess @ members)
    z = {name: np.mean(values, axis=0) / (np.std(values, axis=0) / 20) for name, values in totals.items()}
    assert (z["overlapping"] > -5.2).all()
    assert (z["plain"][:2] < -5.2).all()
    assert (z["overlapping"] < 25).all(), "and not far more"


def test_frames_matrices_and_names():
    groups = Overlapping(FRAME)
    assert groups.names == ["region=" + value for value in dict.fromkeys(FRAME["region"])] + ["old"]
    assert groups.members("old").tolist() == np.flatnonzero(FRAME["old"]).tolist()
    assert repr(groups) == "Overlapping(600 rows in 4 groups)"
    calibration = aptset.calibrate(P, Y, groups=groups, random_state=0)
    expected = calibration.predict_set(NEW, 0.1, groups=NEW_FRAME)
    assert calibration.predict_set(NEW, 0.1, groups=NEW_FRAME[["old", "region"]].assign(more=1)) == expected
    assert calibration.predict_set(NEW, 0.1, groups=Overlapping(NEW_FRAME)) == expected
    polars = pytest.importorskip("polars")
    assert calibration.predict_set(NEW, 0.1, groups=polars.from_pandas(NEW_FRAME)) == expected
    flags = np.column_stack([FRAME["region"] == value for value in "nsw"] + [FRAME["old"]])
    new_flags = np.column_stack([NEW_FRAME["region"] == value for value in "nsw"] + [NEW_FRAME["old"]])
    same = aptset.calibrate(P, Y, groups=Overlapping(flags), random_state=0)
    assert same.predict_set(NEW, 0.1, groups=new_flags.astype(int)) == expected
    assert same.guarantee(0.1) == 0.9
    # Rows one by one, and in another order, have the same sets.
    assert calibration.predict_set(NEW[:1], 0.1, groups=NEW_FRAME[:1]) == expected[:1]
    order = np.random.default_rng(0).permutation(80)
    assert calibration.predict_set(NEW[order], 0.1, groups=NEW_FRAME.iloc[order]) == expected[order]


def test_a_group_of_a_value_goes_by_its_text():
    ages = pd.DataFrame({"age": np.random.default_rng(1).integers(0, 3, size=600)})
    calibration = aptset.calibrate(P, Y, groups=Overlapping(ages), random_state=0)
    expected = calibration.predict_set(NEW, 0.1, groups=ages[:80])
    for kind in ("float64", "Int64", "str", object):  # a missing value makes floats of whole numbers
        assert calibration.predict_set(NEW, 0.1, groups=ages[:80].astype(kind)) == expected
    mixed = Overlapping(pd.DataFrame({"c": pd.Series([1, "1", 1.0, "b", 1.5], dtype=object)}))
    assert {name: len(mixed.members(name)) for name in mixed.names} == {"c=1": 3, "c=b": 1, "c=1.5": 1}


def test_a_column_may_have_the_name_of_an_attribute():
    renamed, new = (frame.rename(columns={"old": "cells"}) for frame in (FRAME, NEW_FRAME))
    found = aptset.calibrate(P, Y, groups=Overlapping(renamed), random_state=0).predict_set(NEW, 0.1, groups=new)
    same = aptset.calibrate(P, Y, groups=Overlapping(FRAME), random_state=0).predict_set(NEW, 0.1, groups=NEW_FRAME)
    assert found == same


def test_values_never_seen_get_every_label_and_a_warning():
    calibration = aptset.calibrate(P, Y, groups=Overlapping(FRAME), random_state=0)
    strange = NEW_FRAME.assign(region=["east", *NEW_FRAME["region"][1:]])
    with pytest.warns(UserWarning, match=r"'region=east' \(never seen\).*every label is in their sets"):
        mask = calibration.predict_mask(NEW, 0.1, groups=strange)
    assert mask[0].all()
    np.testing.assert_array_equal(mask[1:], calibration.predict_mask(NEW[1:], 0.1, groups=NEW_FRAME[1:]))
    rare = np.arange(600)[:, None] < [5, 300]
    with pytest.warns(UserWarning, match=r"0 \(5\): at least 9 are needed"):
        few = aptset.calibrate(P, Y, groups=Overlapping(rare), random_state=0).predict_mask(
            NEW[:2], 0.1, groups=[[1, 1], [0, 1]]
        )
    assert few[0].all()
    assert not few[1].all()


def test_saved_merged_copied_and_tuned(tmp_path):
    common = {"random_state": 0, "conformity": "lac"}
    whole = aptset.calibrate(P, Y, groups=Overlapping(FRAME), **common)
    expected = whole.predict_set(NEW, [0.1, 0.3], groups=NEW_FRAME)
    whole.save(tmp_path / "cal.aptset")
    for other in (aptset.load(tmp_path / "cal.aptset"), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        assert other.predict_set(NEW, [0.1, 0.3], groups=NEW_FRAME) == expected
    north = FRAME["region"] == "n"  # the other part knows regions of its own
    parts = [aptset.calibrate(P[some], Y[some], groups=Overlapping(FRAME[some]), **common) for some in (north, ~north)]
    merged = parts[0].merge(parts[1])
    assert merged.predict_set(NEW, [0.1, 0.3], groups=NEW_FRAME) == expected
    assert merged.threshold(0.1) == {cell: whole.threshold(0.1)[cell] for cell in merged.threshold(0.1)}
    with pytest.raises(ValueError, match="differs in columns of groups"):
        parts[0].merge(aptset.calibrate(P[~north], Y[~north], groups=Overlapping(FRAME[["region"]][~north]), **common))
    tuned = aptset.tune(P, Y, candidates=["aps", "lac"], groups=Overlapping(FRAME), random_state=0)
    assert tuned.calibration.held_out.groups.kind == "overlap"
    assert tuned.calibration.predict_set(NEW, 0.1, groups=NEW_FRAME).sizes.mean() < 5


def test_in_a_classifier_and_in_an_evaluation(tmp_path):
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    groups = pd.DataFrame({"large": X[:, 0] > 15, "rough": pd.cut(X[:, 1], [0, 15, 20, 99]).astype(str)})
    model = make_pipeline(StandardScaler(), LogisticRegression())
    classifier = aptset.ConformalClassifier(model, alpha=0.2, random_state=0)
    classifier.fit(X[:400], y[:400], groups=Overlapping(groups[:400]))
    sets = classifier.predict_set(X[400:], groups=groups[400:])
    assert classifier.guarantee(0.2) == 0.8
    mine = {"groups": Overlapping(groups[:400]), "groups_new": groups[400:]}
    assert (
        aptset.ConformalClassifier(model, alpha=0.2, random_state=0).fit_predict_set(X[:400], y[:400], X[400:], **mine)
        == sets
    )
    classifier.save(tmp_path / "folder")
    for other in (aptset.load(tmp_path / "folder"), pickle.loads(pickle.dumps(classifier))):
        assert other.predict_set(X[400:], groups=groups[400:]) == sets
    found = aptset.evaluate(sets, y[400:], groups=Overlapping(groups[400:]), alpha=0.2)
    assert set(found.by_group) == {"large", *("rough=" + value for value in set(groups["rough"][400:]))}
    large = groups["large"][400:].to_numpy()
    assert found.by_group["large"] == aptset.coverage(sets[large], y[400:][large])
    with pytest.raises(ValueError, match="overlapping groups have no p-values"):
        classifier.p_values(X[400:], groups=groups[400:])
    with pytest.raises(ValueError, match="overlapping groups have no p-values"):
        aptset.report(classifier, X[400:], y[400:], groups=groups[400:])
    with pytest.raises(ValueError, match="known for one model only"):
        aptset.ConformalClassifier(model, calibration="cv+").fit(X, y, groups=Overlapping(groups))
    with pytest.raises(ValueError, match="conformity must name a score where groups overlap"):
        aptset.ConformalClassifier(model, conformity="auto").fit(X, y, groups=Overlapping(groups))
    with pytest.raises(TypeError, match="is about the rows of fit: pass it to fit"):
        aptset.ConformalClassifier(model, groups=Overlapping(groups)).fit(X, y)


def test_what_is_refused(tmp_path):
    calibration = aptset.calibrate(P, Y, groups=Overlapping(FRAME), random_state=0)
    matrix = aptset.calibrate(P, Y, groups=Overlapping(FLAGS), random_state=0)
    new, of_frame, of_matrix = NEW_FRAME, calibration.predict_set, matrix.predict_set
    ages, twins = pd.DataFrame({"age": np.arange(600.0)}), pd.DataFrame({"a=b": [True], "a": ["b"]})
    none, plain = "have no p-values", aptset.calibrate(P, Y)
    for error, words, call in (
        (ValueError, "groups must be passed with the new rows", lambda: of_frame(NEW)),
        (TypeError, "a data frame with the columns", lambda: of_frame(NEW, groups=NEW_FLAGS)),
        (ValueError, "the column 'region'", lambda: of_frame(NEW, groups=new[["old"]])),
        (ValueError, "True or False in the column 'old'", lambda: of_frame(NEW, groups=new.assign(old="yes"))),
        (ValueError, "80 rows, but 5 entries came", lambda: of_frame(NEW, groups=new[:5])),
        (TypeError, "a matrix with 4 columns", lambda: of_matrix(NEW, groups=new)),
        (ValueError, "the 4 columns of the calibration", lambda: of_matrix(NEW, groups=NEW_FLAGS[:, :3])),
        (ValueError, "got shape", lambda: of_matrix(NEW, groups=NEW_FLAGS[:, 0])),
        (ValueError, none, lambda: calibration.p_values(NEW, groups=new)),
        (ValueError, none, lambda: calibration.sets_and_p_values(NEW, groups=new)),
        (ValueError, none, lambda: aptset.report(calibration, NEW, [0] * 80, groups=new)),
        (ValueError, "no place in a report", lambda: aptset.report(plain, NEW, [0] * 80, groups=Overlapping(new))),
        (TypeError, r"calibrate with groups=aptset.Overlapping", lambda: aptset.calibrate(P, Y, groups=FRAME)),
        (TypeError, r"got ndarray of shape \(600, 4\). For", lambda: aptset.calibrate(P, Y, groups=FLAGS)),
        (TypeError, r"got DataFrame of shape", lambda: aptset.evaluate(plain.predict_set(NEW), [0] * 80, groups=new)),
        (ValueError, "have no monitor", lambda: calibration.monitor(0.1)),
        (ValueError, "must not overlap here", lambda: aptset.calibrate(P, Y).predict_set(NEW, groups=Overlapping(new))),
        (ValueError, "no cross calibration", lambda: aptset.calibrate_cv(P, Y, Y % 2, groups=Overlapping(FRAME))),
        (ValueError, "600 rows, but 9 entries", lambda: aptset.calibrate(P, Y, groups=Overlapping(FRAME[:9]))),
        (ValueError, "a matrix of True and False", lambda: Overlapping([[2, 0]])),
        (ValueError, "a matrix of True and False", lambda: Overlapping([["a", "b"]])),
        (ValueError, "got shape", lambda: Overlapping([True, False])),
        (ValueError, "different lengths", lambda: Overlapping([[True], [True, False]])),
        (ValueError, "at most 64; got 600 in the column 'age'", lambda: Overlapping(ages)),
        (ValueError, "at most 64; got 65", lambda: Overlapping(np.ones((3, 65)))),
        (ValueError, "'a=b' comes twice", lambda: Overlapping(twins)),
    ):
        with pytest.raises(error, match=words):
            call()
    many = (np.arange(2001)[:, None] >> np.arange(12)) % 2
    wide = aptset.calibrate(P, Y, groups=Overlapping(np.resize(many, (600, 12))), random_state=0)
    with pytest.raises(ValueError, match=r"at most 2,000 different combinations among the rows of one call; got 2,001"):
        wide.predict_set(np.resize(NEW, (2001, 6)), groups=many)
    import pyarrow as pa

    table = pa.table({**{f"p_{i}": P[:, i] for i in range(6)}, "y": Y})
    with pytest.raises(ValueError, match="overlapping groups have no batches"):
        aptset.calibrate_batches(table, labels="y", prefix="p_", groups=Overlapping(FRAME))
    with pytest.raises(ValueError, match="overlapping groups have no batches"):
        list(aptset.predict_batches(table, matrix, prefix="p_"))


def test_forged_groups_are_refused(tmp_path):
    path = tmp_path / "cal.aptset"
    kept = aptset.calibrate(P, Y, groups=Overlapping(FRAME), random_state=0)
    kept.save(path)
    good, tensors = taken_apart(path)
    for change, words in (
        ({"groups": []}, "its overlapping groups must be 1 to 64"),
        ({"groups": "old"}, "its overlapping groups must be 1 to 64"),
        ({"groups": ["old"] * 4}, "its overlapping groups must be distinct"),
        ({"groups": [["old"], "a", "b", "c"]}, "must be texts, numbers"),
        ({"names": [name + "0" for name in good["groups"]["names"]]}, "a 0 or 1 for each"),
        ({"names": [name.replace("0", "2") for name in good["groups"]["names"]]}, "a 0 or 1 for each"),
        ({"names": list(range(len(good["groups"]["names"])))}, "a 0 or 1 for each"),
        ({"frame": ["region"]}, "must come from columns"),
        ({"frame": [], "is_flag": []}, "must come from columns"),
        ({"is_flag": [0, 1]}, "must come from columns"),
        ({"frame": None}, "must come from columns"),
        ({"bands": [0] * 6}, "its groups must be of kind"),
        ({"kind": "row"}, "its groups must be of kind"),
    ):
        forge(path, {**good, "groups": {**good["groups"], **change}}, tensors)
        with pytest.raises(ValueError, match=words):
            aptset.load(path)
    kept.save(path)
    assert "overlapping, by combination" in facts_in_words(facts_of(path))
    fewest = min(len(Overlapping(FRAME).members(name)) for name in Overlapping(FRAME).names)
    assert facts_of(path)["smallest_alpha"] == 1 / (fewest + 1), "of a group, not of a combination"
