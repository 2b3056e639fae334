"""From a fitted classifier to its calibration, and that nothing is worked out twice on the way."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset import ConformalClassifier
from aptset.estimator.fitting import probabilities_of

X, Y = make_classification(120, n_features=6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)
NEW = X[::3] + 0.25
IDS, NEW_IDS = np.arange(len(Y)), np.arange(len(NEW)) + 1000


@pytest.mark.parametrize("groups", [None, "label"])
@pytest.mark.parametrize("calibration", ["split", "cv+", "minimax", "bootstrap"])
def test_with_ids_its_sets_are_those_of_the_classifier(calibration, groups):
    classifier = ConformalClassifier(GaussianNB(), calibration=calibration, groups=groups, random_state=0)
    classifier.fit(X, Y, ids=IDS)
    said = [probabilities_of(model, NEW, classifier.classes_) for model in classifier.models_]
    found = classifier.calibration_
    asked = said[0] if calibration == "split" else said
    np.testing.assert_array_equal(found.p_values(asked, ids=NEW_IDS), classifier.p_values(NEW, ids=NEW_IDS))
    assert found.predict_set(asked, 0.2, ids=NEW_IDS) == classifier.predict_set(NEW, 0.2, ids=NEW_IDS)
    sets, p_values = found.sets_and_p_values(asked if calibration == "split" else iter(said), 0.2, ids=NEW_IDS)
    assert sets == classifier.predict_set(NEW, 0.2, ids=NEW_IDS)
    np.testing.assert_array_equal(p_values, classifier.p_values(NEW, ids=NEW_IDS))
    assert found.guarantee(0.1) == classifier.guarantee(0.1)


def test_several_models_without_ids_ask_for_u():
    classifier = ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0).fit(X, Y)
    said = [probabilities_of(model, NEW, classifier.classes_) for model in classifier.models_]
    with pytest.raises(ValueError, match="u must be given both to calibration"):
        classifier.calibration_.predict_set(said)
    u = np.random.default_rng(0).random(len(NEW))
    assert len(classifier.calibration_.predict_set(said, u=u)) == len(NEW)


def test_it_can_be_saved_and_loaded(tmp_path):
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(X, Y)
    classifier.calibration_.save(tmp_path / "c.aptset")
    probabilities = classifier.predict_proba(NEW)
    assert aptset.load(tmp_path / "c.aptset").predict_set(probabilities) == classifier.calibration_.predict_set(
        probabilities
    )


def test_before_fit_there_is_none():
    with pytest.raises(NotFittedError):
        _ = ConformalClassifier(GaussianNB()).calibration_


@pytest.mark.parametrize("calibration", ["split", "cv+"])
def test_a_callable_of_groups_runs_once_for_each_call(calibration):
    calls = []

    def half(X):
        calls.append(len(X))
        return np.where(X[:, 0] > 0, "high", "low")

    classifier = ConformalClassifier(GaussianNB(), calibration=calibration, groups=half, random_state=0).fit(X, Y)
    classifier.predict_set(NEW, 0.3)
    assert calls == [len(X), len(NEW)]
