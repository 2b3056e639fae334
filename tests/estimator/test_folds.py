"""CV+, jackknife+ and minimax through the estimator: folds, workers, failures, groups."""

import gc
import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import check_estimator

import aptset
from aptset import ConformalClassifier, CVPlus, Minimax
from aptset.conformal.schemes.cross import random_folds

X, Y = load_iris(return_X_y=True)


NAMES = load_iris().target_names[Y]


@pytest.mark.parametrize("calibration", ["cv+", CVPlus(3), Minimax(3)], ids=str)
def test_scikit_learn_checks(calibration):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed on purpose what warns
        classifier = ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0)
        results = check_estimator(classifier, on_fail=None, on_skip=None)
    left = [(r["check_name"], r["status"], r["exception"]) for r in results if r["status"] != "passed"]
    assert [name for name, *_ in left] in ([], ["check_array_api_input"]), left


def test_random_folds_share_the_rows_out():
    folds = random_folds(23, 5, np.random.default_rng(0))
    assert sorted(len(fold.held_out) for fold in folds) == [4, 4, 5, 5, 5]
    assert sorted(np.concatenate([fold.held_out for fold in folds])) == list(range(23))
    for fold in folds:
        assert sorted([*fold.train_rows(23), *fold.held_out]) == list(range(23))
    assert any(np.diff(fold.held_out).max() > 1 for fold in folds), "random, not blocks"


@pytest.mark.parametrize(
    "splitter", [KFold(5), KFold(5, shuffle=True), StratifiedKFold(4), PredefinedSplit(Y)], ids=str
)
def test_scikit_learn_splitters(splitter):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is watched
    first, second = (
        ConformalClassifier(GaussianNB(), calibration=CVPlus(splitter=splitter), random_state=0).fit(X, NAMES)
        for _ in range(2)
    )
    assert len(first.models_) == splitter.get_n_splits()
    assert first.predict_set(X) == second.predict_set(X)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


class Pairs:
    """A splitter that says what it is told."""

    def __init__(self, *pairs):
        self.pairs = pairs

    def split(self, X, y=None):
        return iter(self.pairs)


def test_splitters_with_masks_and_gaps():
    """Boolean masks are row numbers too, and a fold may train on fewer rows than all others."""
    first = np.arange(150) < 75
    gap = [(np.arange(90, 150), np.arange(75)), (np.arange(60), np.arange(75, 150))]
    masks = Pairs((~first, first), (first, ~first))
    for splitter, n_train in ((masks, 75), (Pairs(*gap), 60)):
        order = np.random.default_rng(0).permutation(150)
        classifier = ConformalClassifier(Counter(), calibration=CVPlus(splitter=splitter), random_state=0)
        classifier.fit(X[order], NAMES[order])
        assert [model.rows_ for model in classifier.models_] == [n_train, n_train]


class Counter(GaussianNB):
    """Counts the rows it is fitted on, and how many fitted ones are alive; forgets to return itself."""

    alive = most = 0

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y)
        self.rows_ = len(X)
        Counter.alive += 1
        Counter.most = max(Counter.most, Counter.alive)

    def __del__(self):
        Counter.alive -= hasattr(self, "rows_")


def test_streaming_holds_one_model():
    gc.collect()
    Counter.alive = Counter.most = 0
    classifier = ConformalClassifier(Counter(), calibration="jackknife+", random_state=0)
    classifier.fit_predict_set(X[::3], NAMES[::3], X)
    assert Counter.most == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12 on fork
def test_backends_of_joblib():
    """Also those that cannot hand results over as they come."""
    expected = ConformalClassifier(GaussianNB(), calibration=CVPlus(4), random_state=0).fit_predict_set(X, NAMES, X)
    for backend in ("threading", "multiprocessing", "loky"):
        with parallel_config(backend=backend, n_jobs=2):
            classifier = ConformalClassifier(GaussianNB(), calibration=CVPlus(4), random_state=0)
            assert classifier.fit_predict_set(X, NAMES, X) == expected
            assert classifier.fit(X, NAMES).predict_set(X) == expected


def test_streaming_breaks_ties_as_fitting_does():
    model = KNeighborsClassifier(4)
    for calibration in ("split", CVPlus(5)):
        settings = {"calibration": calibration, "allow_empty": False, "random_state": 0}
        kept = ConformalClassifier(model, **settings).fit(X, NAMES).predict_set(X, 0.6)
        assert ConformalClassifier(model, **settings).fit_predict_set(X, NAMES, X, 0.6) == kept


def test_bad_folds():
    cases = [
        (CVPlus(1), ValueError, "between 2 and the number of rows"),
        (CVPlus(151), ValueError, "n_folds=151 with n_samples=150"),
        (CVPlus(2.5), TypeError, "n_folds must be a whole number"),
        (CVPlus(splitter=ShuffleSplit(5, random_state=0)), ValueError, "exactly one test part"),
        (CVPlus(splitter=GroupKFold(3)), ValueError, "without groups; GroupKFold does not.*PredefinedSplit"),
        (CVPlus(splitter=Pairs((np.arange(150), np.arange(150)))), ValueError, "must not train on rows that it holds"),
        (CVPlus(splitter=Pairs((np.arange(5), np.arange(-3, 147)))), ValueError, "row numbers from 0 to 149; got -3"),
        (CVPlus(splitter=Pairs(("ab", np.arange(150)))), TypeError, "splitter must give row numbers"),
        (CVPlus(splitter=5), TypeError, "must be a scikit-learn splitter"),
        (CVPlus(splitter=KFold), TypeError, "must be a scikit-learn splitter"),
        (Minimax(0), ValueError, "between 2 and"),
    ]
    for calibration, error, message in cases:
        with pytest.raises(error, match=message):
            ConformalClassifier(GaussianNB(), calibration=calibration).fit(X, NAMES)


@pytest.mark.parametrize("calibration", [CVPlus(4), Minimax(4)], ids=str)
def test_results_do_not_depend_on_workers(calibration):
    def sets(n_jobs):
        model = RandomForestClassifier(n_estimators=5)
        classifier = ConformalClassifier(model, calibration=calibration, n_jobs=n_jobs, random_state=1)
        streamed = classifier.fit_predict_set(X, NAMES, X)
        return streamed, classifier.fit(X, NAMES).predict_set(X), classifier.predict_proba(X)

    (streamed, kept, p), (streamed_2, kept_2, p_2) = sets(None), sets(2)
    assert streamed == streamed_2 == kept == kept_2
    np.testing.assert_array_equal(p, p_2)


def test_every_fold_has_its_own_model_and_their_common_seed():
    model = RandomForestClassifier(n_estimators=2)

    def seeds(**settings):
        classifier = ConformalClassifier(model, calibration=CVPlus(5), **settings).fit(X, NAMES)
        assert len({id(m) for m in classifier.models_}) == 5
        return {m.random_state for m in classifier.models_}

    (one,) = seeds(random_state=0)
    assert seeds(random_state=0) == {one} != seeds(random_state=1)
    (fresh,) = seeds()
    assert fresh is not None, "one seed for all folds without random_state too"
    assert seeds() != {fresh}, "a fresh one for every fit"
    assert len(seeds(random_state=0, fold_seeds="own")) == 5
    assert seeds(fold_seeds="own") == {None}
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match=r"fold_seeds must be one of \['common', 'own'\]; got 'mine'"):
        seeds(fold_seeds="mine")


class LastRow(ClassifierMixin, BaseEstimator):
    """Depends on the order of its rows as much as can be: believes in the last label, by the last weight."""

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.last_, self.rows_ = np.unique(y), y[-1], np.column_stack([X, sample_weight])
        self.belief_ = sample_weight[-1]
        return self

    def predict_proba(self, X):
        p = np.full((len(X), len(self.classes_)), (1 - self.belief_) / (len(self.classes_) - 1))
        p[:, self.classes_ == self.last_] = self.belief_
        return p


@pytest.mark.parametrize("fold_seeds", ["common", "own"])
@pytest.mark.parametrize(("has_weights", "has_ids"), [(True, False), (False, False), (False, True)])
def test_training_is_symmetric(fold_seeds, has_weights, has_ids):
    """The models do not depend on where the rows stand, only on which they are: rows, labels and weights move together.

    Every X comes five times, with other labels and weights: equal features must not leave the order to the position.
    """
    generator = np.random.default_rng(0)
    data, labels = np.repeat(generator.normal(size=(30, 2)), 5, axis=0), generator.permutation(Y)
    weights = generator.random(150) if has_weights else np.full(150, 0.7)
    folds = np.arange(150) % 5

    def models(order):
        splitter = PredefinedSplit(folds[order])
        classifier = ConformalClassifier(
            LastRow(), calibration=CVPlus(splitter=splitter), fold_seeds=fold_seeds, random_state=0
        )
        ids = order if has_ids else None
        return classifier.fit(data[order], labels[order], ids=ids, sample_weight=weights[order]).models_

    expected = models(np.arange(150))
    moved = models(generator.permutation(150))
    for one, other in zip(expected, moved, strict=True):
        np.testing.assert_array_equal(one.rows_, other.rows_)
        assert one.last_ == other.last_
        assert {*map(tuple, one.rows_)} <= {*map(tuple, np.column_stack([data, weights]))}, (
            "weights stay with their rows"
        )


def test_streaming_drops_the_models():
    classifier = ConformalClassifier(GaussianNB(), calibration="jackknife+", random_state=0)
    sets = classifier.fit_predict_set(X, NAMES, X[:5], alpha=[0.1, 0.2])
    assert [len(some) for some in sets] == [5, 5]
    assert classifier.n_calibration_ == 150
    for method in ("predict_set", "predict", "p_values", "predict_proba"):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(classifier, method)(X)


def test_probabilities_of_folds_stream_and_are_checked():
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(3), size=60)
    y, folds = p.argmax(axis=1), np.array(["x", "y", "z"])[np.arange(60) % 3]
    calibration = aptset.calibrate_cv(p, y, folds, random_state=0)
    new = [generator.dirichlet(np.ones(3), size=10) for _ in range(3)]
    expected = calibration.predict_set(new)
    alive = []

    def stream():
        for matrix in new:
            alive.append(1)
            assert len(alive) <= 3
            yield matrix

    assert calibration.predict_set(stream()) == expected
    assert calibration.predict_set(np.stack(new)) == expected
    assert calibration.predict_set({"z": new[2], "x": new[0], "y": new[1]}) == expected
    assert calibration.predict_set(new, [0.1, 0.3])[0] == expected
    np.testing.assert_array_equal(expected.mask, calibration.p_values(new) > 0.1)
    order = generator.permutation(10)
    assert calibration.predict_set([matrix[order] for matrix in new]) == expected[order]
    cases = [
        (lambda: calibration.predict_set(new[:2]), "3 folds, but 2 came"),
        (lambda: calibration.predict_set([*new, new[0]]), "3 folds, but 4 came"),
        (lambda: calibration.predict_set(new[0]), r"array of shape \(10, 3\)"),
        (lambda: calibration.predict_set([new[0], new[1][:5], new[2]]), "same rows"),
        (lambda: calibration.predict_set({"x": new[0]}), "for each of the folds"),
        (lambda: calibration.predict_set([new[0], new[1], new[2] * 2]), r"of fold z .*row 0 sums to 2"),
        (lambda: aptset.calibrate_cv(p, y, np.zeros(60)), "at least 2 folds"),
        (lambda: aptset.calibrate_cv(p, y, folds[:5]), "60 rows, but 5 entries"),
        (lambda: aptset.calibrate_cv(p, y, folds, combine="max"), "combine must be one of"),
    ]
    cases += [
        (lambda: calibration.predict_set(None), "one matrix per fold; got NoneType"),
        (lambda: calibration.predict_set("xyz"), "one matrix per fold; got str"),
        (lambda: calibration.predict_set(pd.DataFrame(new[0])), r"got a table of shape \(10, 3\)"),
        (lambda: aptset.calibrate_cv(p, y, np.where(folds == "x", np.nan, 1.0)), "that of row 0 is missing"),
        (lambda: aptset.calibrate_cv(p, y, [*folds[:7].tolist(), None, *folds[8:].tolist()]), "row 7 is missing"),
        (lambda: aptset.calibrate_cv(p, y, [[0], [1]] * 30), "folds must be 1-D"),
    ]
    for call, message in cases:
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_bad_level():
    with pytest.raises(ValueError, match="level must be one of"):
        ConformalClassifier(GaussianNB(), level="sure").fit(X, NAMES)
