"""Labels that neither training nor calibration saw: the chance that they come, and what ``classes`` does about it."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from aptset import ConformalClassifier, CVPlus

X, Y = load_iris(return_X_y=True)
NAMES = load_iris().target_names[Y]
ZIPF = 1 / np.arange(1, 1001)
ZIPF /= ZIPF.sum()


def draw(generator, n):
    """Rows of 1000 classes, a few common and many rare; the first feature hints at the label."""
    y = generator.choice(1000, size=n, p=ZIPF)
    return np.column_stack([y + generator.normal(scale=20, size=n), generator.normal(size=n)]), y


def zipf(repetitions, **settings):
    """Coverage, chance of an unseen label that is said, and share of unseen labels, for n = 200 and k-NN."""
    found = []
    for r in range(repetitions):
        generator = np.random.default_rng([r, 12])
        (data, y), (new, truth) = draw(generator, 200), draw(generator, 500)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "a new row carries a label|The number of unique classes")
            classifier = ConformalClassifier(KNeighborsClassifier(5), random_state=r, **settings).fit(data, y)
        sets, unseen = classifier.predict_set(new), ~np.isin(truth, y)
        either = (sets.covers(truth) | unseen).mean()
        found.append([sets.covers(truth).mean(), classifier.unseen_label_chance_, unseen.mean(), either])
    return np.array(found)


def test_zipf_labels_are_covered_when_they_are_named():
    """Theorem 1 with all 1000 labels: mean coverage is k/(n + 1) = 91/101, scores do not tie.

    One repetition has variance c (1 - c)(1/(n + 2) + 1/m), n = 100 and m = 500; 5.5 errors of the mean of 30: 4e-8.
    """
    coverage, chance, _, _ = zipf(30, classes=range(1000)).T
    c = 91 / 101
    assert abs(coverage.mean() - c) < 5.5 * (c * (1 - c) * (1 / 102 + 1 / 500) / 30) ** 0.5
    assert (chance == 0).all()


def test_without_names_the_promise_is_about_known_labels():
    """Missed and known at once has a chance of at most alpha; how often a label is unknown is what is said.

    Both are means of 30 repetitions in [0, 1]; 6 empirical standard errors. The estimate (labels seen once)/(n + 1) is
    that of Good and Turing: its expectation is the chance for one row less, up to 1/(n + 1).
    """
    coverage, chance, unseen, either = zipf(30).T

    def error(values):
        return 6 * values.std(ddof=1) / 30**0.5

    assert coverage.mean() < 0.75, "the design makes it matter"
    assert either.mean() > 0.9 - error(either)
    assert abs((chance - unseen).mean()) < error(chance - unseen) + 2 / 201


@pytest.mark.parametrize("calibration", ["split", CVPlus(4)], ids=str)
def test_warning_and_number(calibration):
    labels = NAMES.astype(object)
    labels[[3, 70, 120]] = ["one", "two", "three"]  # three labels seen once
    with pytest.warns(UserWarning, match=r"probability of about 0.02 .*known labels. Pass classes=\[...\]") as caught:
        classifier = ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0).fit(X, labels)
    assert caught[0].filename == __file__
    assert classifier.unseen_label_chance_ == 3 / 151
    assert "of known labels (chance of another one about 0.02)" in repr(classifier)
    with pytest.warns(UserWarning, match="probability of about 0.02"):
        classifier.fit_predict_set(X, labels, X)
    quiet = ConformalClassifier(GaussianNB(), alpha=0.3, random_state=0).fit(X, labels)
    assert quiet.unseen_label_chance_ == 3 / 151, "a fifteenth of alpha: said, but without a warning"
    assert "known labels" not in repr(quiet.fit(X, NAMES))
    assert quiet.unseen_label_chance_ == 0
    named = ConformalClassifier(GaussianNB(), classes=[*np.unique(labels), "four"], random_state=0).fit(X, labels)
    assert named.unseen_label_chance_ == 0
    assert "four" in named.classes_


@pytest.mark.parametrize("calibration", ["split", "cv+", "jackknife+", "minimax"])
def test_named_labels_get_a_column_of_zeros(calibration):
    classes = ["virginica", "rose", "setosa", "versicolor", "aster"]
    settings = {"calibration": calibration, "random_state": 0}
    classifier = ConformalClassifier(GaussianNB(), classes=classes, **settings).fit(X[::3], NAMES[::3])
    assert classifier.classes_.tolist() == sorted(classes)
    p = classifier.predict_proba(X)
    assert p.shape == classifier.p_values(X).shape == (150, 5)
    assert (p[:, [0, 1]] == 0).all()
    assert set(classifier.predict(X)) <= set(NAMES)
    # A label without mass has a larger score than any with mass: it comes in last.
    values = classifier.p_values(X)
    assert (values[:, :2].max(axis=1) <= values[:, 2:].max(axis=1)).all()
    assert classifier.classes is classes, "the parameter is left alone"


def test_named_labels_of_a_frozen_model():
    model = GaussianNB().fit(X[:100], NAMES[:100])
    frozen = ConformalClassifier(FrozenEstimator(model), classes=[*np.unique(NAMES), "rose"], random_state=0)
    assert frozen.fit(X[:90], NAMES[:90]).classes_.tolist() == ["rose", "setosa", "versicolor", "virginica"]
    with pytest.raises(ValueError, match=r"classes must name every label.*\['versicolor'\]"):
        ConformalClassifier(FrozenEstimator(model), classes=["setosa", "rose"]).fit(X[:40], NAMES[:40])
    one_label = ConformalClassifier(FrozenEstimator(model), classes=np.unique(NAMES)).fit(X[:40], NAMES[:40])
    assert one_label.n_calibration_ == 40
    # Labels that the model knows are known, however often they come in y; others count if they came once.
    seen = ConformalClassifier(FrozenEstimator(model), alpha=0.9).fit(X[49:101], NAMES[49:101])
    assert seen.unseen_label_chance_ == 1 / 53, "one setosa, which the model knows, and one virginica"


def test_kinds_of_labels():
    for labels, classes in ((Y, range(5)), (Y, np.arange(5.0)), (Y > 0, [True, False]), (NAMES.astype(object), None)):
        named = np.unique(NAMES).tolist() if classes is None else classes
        classifier = ConformalClassifier(GaussianNB(), classes=named, random_state=0).fit(X, labels)
        assert classifier.predict_set(X).covers(labels).mean() > 0.8
        assert len(classifier.classes_) == len(named)


def test_bad_classes():
    cases = [
        (["setosa"], r"at least 2 distinct labels; got \['setosa'\]"),
        (["setosa", "rose", "rose"], "at least 2 distinct labels"),
        (["setosa", "rose"], r"y or the fitted model has \['versicolor', 'virginica'\], which is not in"),
        ([0, 1, 2], "classes must name every label that may come"),
        ([["a", "b"]], "classes must be 1-D"),
        ([*NAMES[[0, 60, 120]], None], "classes must not be missing; got"),
        ([*NAMES[[0, 60, 120]].tolist(), 3], "classes must hold labels of one kind; got 'setosa' in row 0 and 3 "),
    ]
    for classes, message in cases:
        with pytest.raises((ValueError, TypeError), match=message):
            ConformalClassifier(GaussianNB(), classes=classes).fit(X, NAMES)
