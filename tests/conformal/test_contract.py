"""What every combination of score, calibration and grouping must obey."""

import copy
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from aptset import Bootstrap, ConformalClassifier, CVPlus, Full, JackknifePlus, LabelBands, Minimax, OutOfBag
from aptset.conformal import CALIBRATIONS
from aptset.core.groups import GROUPINGS
from aptset.scores import SCORES

X, Y = make_classification(
    60, n_features=6, n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.2, random_state=0
)
Y = np.array(["a", "b", "c"])[Y]
NEW, _ = make_classification(30, n_features=6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=1)

QUICK = {"cv+": [CVPlus(5)], "minimax": [Minimax(), Minimax(5)], "bootstrap": [Bootstrap(10)]}
SCHEMES = [scheme for name, make in CALIBRATIONS.items() for scheme in QUICK.get(name, [make()])]
NAMED = {name: name for name in GROUPINGS}
SETTINGS = {"none": None, **NAMED, "callable": lambda X: np.where(X[:, 0] > 0, "high", "low")}
SETTINGS["bands"] = LabelBands({"a": "vowel", "b": "other", "c": "other"})

EVERY = [
    pytest.mark.parametrize("score", sorted(SCORES)),
    pytest.mark.parametrize("scheme", SCHEMES, ids=str),
    pytest.mark.parametrize("grouping", SETTINGS),
]


def every(function):
    for mark in EVERY:
        function = mark(function)
    return function


def make(score, scheme, grouping, **settings):
    models = {OutOfBag: BaggingClassifier(GaussianNB()), Full: KNeighborsClassifier(7)}
    model = models.get(type(scheme), GaussianNB())
    return ConformalClassifier(
        model, calibration=scheme, conformity=score, groups=SETTINGS[grouping], random_state=0, **settings
    )


@cache
def _fitted(score, scheme, grouping):
    return make(score, scheme, grouping).fit(X, Y)


def fitted(score, scheme, grouping, **settings):
    """Return a classifier that was fitted once for all tests, with settings that only matter later."""
    return copy.copy(_fitted(score, scheme, grouping)).set_params(**settings)


@every
def test_sets_and_p_values(score, scheme, grouping, limits, monkeypatch):
    classifier = fitted(score, scheme, grouping)
    p_values = classifier.p_values(NEW)
    alphas = [0.15, 0.21, 0.33, 0.5, 0.9]
    sets = classifier.predict_set(NEW, alphas)
    mean = classifier.predict_proba(NEW)
    for alpha, found in zip(alphas, sets, strict=True):
        np.testing.assert_array_equal(found.mask, p_values > alpha)
        for row, labels in enumerate(found):
            places = np.searchsorted(classifier.classes_, labels)
            assert (np.diff(mean[row, places].astype(float)) <= 0).all(), "most likely first"
    for larger, smaller in pairwise(sets):
        assert (smaller.mask <= larger.mask).all()

    # Nothing but the row decides: order, batch, block, threads, workers.
    order = np.random.default_rng(0).permutation(len(NEW))
    assert classifier.predict_set(NEW[order], alphas)[1] == sets[1][order]
    assert classifier.predict_set(NEW[3:4], 0.21)[0].tolist() == sets[1][3].tolist()
    limits(block_cells=12, chunk_cells=15)
    monkeypatch.setenv("APTSET_THREADS", "2")
    few = NEW[:9]
    assert classifier.predict_set(few, alphas[1:3]) == [found[:9] for found in sets[1:3]]
    assert classifier.set_params(n_jobs=2).predict_set(few, 0.21) == sets[1][:9]


@every
def test_streaming_equals_fit_and_predict(score, scheme, grouping):
    expected = fitted(score, scheme, grouping).predict_set(NEW, [0.2, 0.4])
    streamed = make(score, scheme, grouping)
    found = streamed.fit_predict_set(X, Y, NEW, [0.2, 0.4])
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.mask, theirs.mask)
    assert streamed.guarantee() >= 0


@every
def test_no_empty_sets_on_request(score, scheme, grouping):
    sets = fitted(score, scheme, grouping, allow_empty=False).predict_set(NEW, 0.95)
    assert (sets.sizes >= 1).all()
    some = fitted(score, scheme, grouping).predict_set(NEW, 0.95)
    assert (sets.mask >= some.mask).all()
    assert (sets.sizes[some.sizes == 0] == 1).all()


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("folds", [5, 60])
def test_minimax_holds_the_plus_set(score, folds):
    plus = fitted(score, CVPlus(folds), "none").predict_set(NEW, 0.2)
    minimax = fitted(score, Minimax(folds), "none").predict_set(NEW, 0.2)
    assert (minimax.mask >= plus.mask).all()
    assert minimax.sizes.sum() > plus.sizes.sum()


@pytest.mark.parametrize("score", sorted(SCORES))
def test_cv_plus_with_one_fold_per_row_is_the_jackknife_plus(score):
    jackknife = fitted(score, JackknifePlus(), "none")
    cross = fitted(score, CVPlus(len(Y)), "none")
    np.testing.assert_array_equal(jackknife.p_values(NEW), cross.p_values(NEW))


@pytest.mark.parametrize("grouping", ["label", "callable"])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_too_few_samples_in_a_group(scheme, grouping):
    classifier = fitted("adaptive", scheme, grouping)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sets = classifier.predict_set(NEW, 0.001)
    assert len(caught) == 1
    assert "at least 999 are needed" in str(caught[0].message)
    assert "'a'" in str(caught[0].message) if grouping == "label" else "'low'" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert (sets.sizes == 3).all()
