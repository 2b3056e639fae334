"""Levels, assurance, cells of group and label, and confidence of the scikit-learn face."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import aptset

generator = np.random.default_rng(0)
X = pd.DataFrame({"x": generator.normal(size=600), "region": generator.integers(2, size=600)})
Y = np.where(X["x"] + generator.normal(size=600) > 0, "bad", "good")
NEW = pd.DataFrame({"x": generator.normal(size=80), "region": generator.integers(2, size=80)})
LEVELS = {"bad": 0.05, "good": 0.3}


def fitted(**settings):
    return aptset.ConformalClassifier(GaussianNB(), random_state=0, **settings).fit(X, Y)


def test_levels_of_labels_in_the_constructor(tmp_path):
    classifier = fitted(alpha=LEVELS, groups="label")
    mask = classifier.predict_set(NEW).mask
    np.testing.assert_array_equal(mask, classifier.p_values(NEW) > [0.05, 0.3])
    assert classifier.guarantee() == {"bad": 0.95, "good": 0.7}
    assert classifier.input_level() == LEVELS
    assert "0.95 of bad" in repr(classifier)
    classifier.save(tmp_path / "model")
    for other in (aptset.load(tmp_path / "model"), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(other.predict_set(NEW).mask, mask)
        assert other.alpha == LEVELS


def test_levels_without_groups_are_refused_before_anything_is_fitted():
    with pytest.raises(ValueError, match="groups='label'"):
        fitted(alpha=LEVELS)
    with pytest.raises(ValueError, match="assurance must be left out here: for several models"):
        fitted(calibration="cv+", assurance=0.9)


def test_assurance_of_the_constructor_and_of_the_call(tmp_path):
    classifier, plain = (
        fitted(assurance=aptset.Assurance(0.9, simultaneous=True), groups="label"),
        fitted(groups="label"),
    )
    sets = classifier.predict_set(NEW)
    both = aptset.Assurance(0.9, simultaneous=True)
    assert sets == plain.predict_set(NEW, assurance=both)
    assert sets != plain.predict_set(NEW)
    ranks = classifier.calibration_.ranks(0.1, assurance=both)
    assert all(rank > plain.calibration_.ranks(0.1)[name] for name, rank in ranks.items())
    assert "assurance=0.9 for all groups at once" in repr(classifier)
    classifier.save(tmp_path / "model")
    assert aptset.load(tmp_path / "model").predict_set(NEW) == sets


def test_every_label_in_every_region(tmp_path):
    classifier = fitted(groups=("region", "label"))
    p_values = classifier.p_values(NEW)
    np.testing.assert_array_equal(classifier.predict_set(NEW, LEVELS).mask, p_values > [0.05, 0.3])
    assert set(classifier.calibration_.ranks()) == {(0, "bad"), (0, "good"), (1, "bad"), (1, "good")}
    classifier.save(tmp_path / "model")
    loaded = aptset.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.p_values(NEW), p_values)
    assert loaded.groups == ("region", "label")
    passed = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(
        X, Y, groups=(X["region"].to_numpy(), "label")
    )
    np.testing.assert_array_equal(passed.p_values(NEW, groups=NEW["region"].to_numpy()), p_values)
    bands = aptset.LabelBands({"bad": "all", "good": "all"})
    banded = fitted(groups=("region", bands))
    banded.save(tmp_path / "bands")
    assert aptset.load(tmp_path / "bands").groups == ("region", bands)


@pytest.mark.parametrize("calibration", ["split", "cv+"])
def test_guaranteed_levels_and_confidence(calibration):
    classifier = fitted(groups="label", calibration=calibration, level="guaranteed")
    levels = {"bad": 0.3, "good": 0.4}
    inner = classifier.input_level(levels)
    np.testing.assert_array_equal(
        classifier.predict_set(NEW, levels).mask, classifier.p_values(NEW) > [inner["bad"], inner["good"]]
    )
    assert all(classifier.guarantee(levels)[name] >= 1 - part for name, part in levels.items())
    guess, confidence, credibility = classifier.confidence(NEW)
    p_values = classifier.p_values(NEW)
    np.testing.assert_array_equal(credibility, p_values.max(axis=1))
    np.testing.assert_array_equal(confidence, 1 - p_values.min(axis=1))
    np.testing.assert_array_equal(guess, classifier.classes_[p_values.argmax(axis=1)])


def test_reports_print_both_levels():
    pytest.importorskip("jinja2")
    page = aptset.report(fitted(), X, Y, alpha=0.1, assurance=0.95)
    assert "alpha = 0.1 with assurance=0.95, which runs at" in page.html
    assert page.evaluation.alpha < 0.1
    with pytest.raises(ValueError, match="alpha must be one number for a report"):
        aptset.report(fitted(groups="label"), X, Y, alpha=LEVELS)
    with pytest.raises(ValueError, match="assurance must be left out of a report about groups"):
        aptset.report(fitted(groups="label"), X, Y, assurance=0.9)


def test_audits_refuse_levels_that_they_do_not_know():
    with pytest.raises(ValueError, match="assurance must be None"):
        aptset.audit(aptset.ConformalClassifier(GaussianNB(), assurance=0.9), X, Y, repetitions=2)
