"""Classifiers whose rows have weights: a function of X, asked about held-out and new rows."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import aptset

generator = np.random.default_rng(0)
X = generator.normal(size=(240, 2))
Y = np.array(["no", "yes", "never"])[(X[:, 0] + generator.normal(size=240) > 0).astype(int) + (X[:, 1] > 1)]
NEW = generator.normal(size=(60, 2)) + np.array([1, 0])
SCHEMES = {"split": "split", "cv+": aptset.CVPlus(n_folds=4), "jackknife+": aptset.CVPlus(n_folds=30)}


def toward_one(some):
    return np.exp(some[:, 0] - 0.5)


def equal(some):
    return np.full(len(some), 0.3)


@pytest.fixture(autouse=True)
def _small_sizes():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the weights leave|.* weigh more than")
        yield


def fitted(scheme, weights=toward_one, **settings):
    rows = slice(0, 30) if scheme == "jackknife+" else slice(None)
    settings = {"calibration": SCHEMES[scheme], "random_state": 0, **settings}
    classifier = aptset.ConformalClassifier(GaussianNB(), weights=weights, **settings)
    return classifier.fit(X[rows], Y[rows]), X[rows], Y[rows]


@pytest.mark.parametrize("groups", [None, "label"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_verb_agrees(scheme, groups):
    classifier, x, y = fitted(scheme, groups=groups)
    sets, p_values = classifier.sets_and_p_values(NEW, 0.1)
    np.testing.assert_array_equal(sets.mask, p_values > 0.1)
    np.testing.assert_array_equal(classifier.p_values(NEW), p_values)
    assert classifier.predict_set(NEW, 0.1) == sets
    assert classifier.predict_set(NEW, [0.3, 0.1])[1] == sets
    np.testing.assert_array_equal(classifier.predict_frame(NEW, 0.1)["size"], sets.sizes)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.p_values(NEW), p_values)
    assert clone(classifier).fit_predict_set(x, y, NEW, 0.1) == sets
    parts = [classifier.predict_set(NEW[[row]], 0.1).mask[0] for row in range(5)]
    np.testing.assert_array_equal(parts, sets.mask[:5])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_weights_are_none(scheme):
    weighted, plain = fitted(scheme, equal)[0], fitted(scheme, None)[0]
    np.testing.assert_array_equal(weighted.p_values(NEW), plain.p_values(NEW))
    assert weighted.predict_set(NEW, 0.2) == plain.predict_set(NEW, 0.2)


def test_a_split_is_calibrate_with_the_weights_of_its_held_out_rows():
    model = GaussianNB().fit(X[:100], Y[:100])
    classifier = aptset.ConformalClassifier(FrozenEstimator(model), weights=toward_one, random_state=0)
    classifier.fit(X[100:], Y[100:], ids=np.arange(140))
    by_hand = classifier.calibration_
    options = {"ids": np.arange(60), "weights": toward_one(NEW)}
    assert by_hand.predict_set(classifier.predict_proba(NEW), 0.1, **options) == classifier.predict_set(
        NEW, 0.1, ids=np.arange(60)
    )
    w = toward_one(X[100:])
    assert by_hand.effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert f"({by_hand.effective_size:.4g} effective): promises coverage >= 0.9" in repr(classifier)
    assert "if the weights are right" in repr(classifier)


def test_promises():
    assert fitted("split")[0].guarantee(0.1) == 0.9
    assert fitted("jackknife+")[0].guarantee(0.1) == 0.8
    with pytest.warns(UserWarning, match=r"rows with weights\. For a promise use a split or the jackknife\+"):
        assert fitted("cv+")[0].guarantee(0.1) == 0


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"calibration": "minimax"}, ValueError, "got calibration='minimax'"),
        ({"calibration": "bootstrap"}, ValueError, "got calibration='jackknife"),
        ({"level": "guaranteed"}, ValueError, "level='guaranteed' goes by theorems about rows of equal weight"),
        ({"weights": [1.0] * 240}, TypeError, "weights must be None or a function"),
        ({"weights": lambda x: x[:, 0]}, ValueError, "what weights returns must be finite and at least 0"),
        ({"weights": lambda x: np.zeros(len(x))}, ValueError, "must not be 0 for every calibration row"),
        ({"weights": lambda x: np.ones(3)}, ValueError, "what weights returns must have one entry per row"),
    ],
)
def test_refused_before_anything_is_fitted(settings, error, match):
    class Never(GaussianNB):
        def fit(self, *_, **__):
            raise AssertionError("it was fitted")

    with pytest.raises(error, match=match):
        aptset.ConformalClassifier(Never(), **{"weights": toward_one, **settings}).fit(X, Y)


def test_a_function_is_not_saved_but_the_calibration_is(tmp_path):
    classifier, *_ = fitted("split")
    with pytest.raises(TypeError, match="weights must be None for a classifier to be saved"):
        classifier.save(tmp_path / "folder")
    classifier.calibration_.save(tmp_path / "cal.aptset")
    p = classifier.predict_proba(NEW)
    options = {"weights": toward_one(NEW), "ids": np.arange(60)}
    one, other = aptset.load(tmp_path / "cal.aptset"), classifier.calibration_
    assert one.predict_set(p, 0.1, **options) == other.predict_set(p, 0.1, **options)


def test_a_warning_points_at_the_caller():
    classifier, *_ = fitted("split")
    for verb in (classifier.predict_set, classifier.sets_and_p_values, classifier.predict_frame):
        with pytest.warns(UserWarning, match="the weights leave an effective size") as told:
            verb(NEW, 0.05)
        assert told[0].filename == __file__


def test_weighted_folds_follow_the_definition():
    """Sum over folds of the weights of scores below a label's own, under the model of each fold."""
    p = generator.dirichlet(np.ones(3), size=30)
    y, folds = p.argmax(axis=1), np.arange(30) % 3
    u, u_new = generator.random(30), generator.random(8)
    weights, own = generator.integers(0, 9, size=30), generator.integers(0, 9, size=8)
    new = [generator.dirichlet(np.ones(3), size=8) for _ in range(3)]
    found = aptset.calibrate_cv(p, y, folds, u=u, weights=weights)
    expected = np.zeros((8, 3))
    for fold, rows in enumerate(new):
        for label in range(3):
            scores = aptset.adaptive_scores(p, y, u=u)[folds == fold]
            mine = aptset.adaptive_scores(rows, np.full(8, label), u=u_new)
            expected[:, label] += ((scores >= mine[:, None]) * weights[folds == fold]).sum(axis=1)
    expected = (expected + own[:, None]) / (weights.sum() + own[:, None])
    p_values = found.p_values(new, u=u_new, weights=own)
    np.testing.assert_allclose(p_values, expected, rtol=1e-15)
    for alpha in np.unique(p_values[(p_values > 0) & (p_values < 1)]).tolist():
        np.testing.assert_array_equal(found.predict_set(new, alpha, u=u_new, weights=own).mask, p_values > alpha)
