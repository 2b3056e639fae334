"""Full conformal prediction without refits: the definition in rationals, its law, and what is refused."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import aptset
from aptset import ConformalClassifier, Full, KernelDensityClassifier
from aptset.conformal.measure import scores_of
from aptset.core.matrix import OF_ESTIMATOR
from aptset.estimator.fitting import Samples

X, Y = load_iris(return_X_y=True)


def full(model, **settings):
    return ConformalClassifier(model, calibration="full", random_state=0, **settings)


def votes_of_others(X, y, row, k, n_classes):
    """Return the votes of the k nearest others in rationals; those at the k-th distance share what is left."""
    others = [j for j in range(len(y)) if j != row]
    away = {j: sum(Fraction(float(a - b)) ** 2 for a, b in zip(X[row], X[j], strict=True)) for j in others}
    last = sorted(away.values())[k - 1]
    nearer, level = [j for j in others if away[j] < last], [j for j in others if away[j] == last]
    share = Fraction(k - len(nearer), len(level))
    votes = [Fraction(sum(y[j] == c for j in nearer)) + share * sum(y[j] == c for j in level) for c in range(n_classes)]
    return [float(vote / k) for vote in votes]


def kernels_of_others(X, y, row, bandwidth, n_classes):
    """Return the shares of classes in the sum of a kernel, in whole units of 2^-44."""
    sums = [0] * n_classes
    for j in range(len(y)):
        if j != row:
            square = sum((a / bandwidth - b / bandwidth) ** 2 for a, b in zip(X[row], X[j], strict=True))
            sums[y[j]] += round(max(1.0 - square, 0.0) * 2**44)
    total = sum(sums)
    return [float(part) / float(total) if total else 1 / n_classes for part in sums]


def literal_p_values(classifier, new, groups=None, groups_new=None):
    """Score every row of every augmented set from scratch, by the classifier's own score and uniforms."""
    whole, model, K = classifier.models_[0].model, classifier.estimator, len(classifier.classes_)
    samples, _ = classifier.fitted_.rule.samples(new, groups_new)
    by_label = classifier.groups == "label"
    p_values = np.empty((len(new), K))
    for q in range(len(new)):
        rows = np.vstack([whole.X, new[q]])
        seeds = np.append(whole.seeds, samples.seeds[q])
        u = None if samples.u is None else np.append(whole.u, samples.u[q])
        for label in range(K):
            y = np.append(whole.y, label)
            if isinstance(model, KNeighborsClassifier):
                said = [votes_of_others(rows, y, row, model.n_neighbors, K) for row in range(len(y))]
            else:
                said = [kernels_of_others(rows, y, row, model.bandwidth, K) for row in range(len(y))]
            alone = Samples(None, seeds, u, None, samples.formula, samples.key)
            scores = scores_of(alone.rows(np.array(said)), y, OF_ESTIMATOR)
            same = y == label if by_label else np.ones(len(y), dtype=bool)
            same &= True if groups is None else np.append(groups, groups_new[q]) == groups_new[q]
            p_values[q, label] = np.mean(scores[same] >= scores[-1])
    return p_values


MODELS = [KNeighborsClassifier(1), KNeighborsClassifier(2), KNeighborsClassifier(5)]
MODELS += [KernelDensityClassifier("epanechnikov", bandwidth) for bandwidth in (0.5, 4.0)]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([*MODELS, "as many neighbours as rows"]),
    st.sampled_from(["grid", "copies", "plain"]),
    st.sampled_from(["adaptive", "homogeneous", "margin"]),
    st.booleans(),
    st.sampled_from([None, "label", "rows"]),
)
def test_p_values_are_those_of_the_definition(seed, model, kind, score, randomized, grouping):
    generator = np.random.default_rng(seed)
    n, new = 9, generator.normal(size=(3, 2)) * 2
    rows, y = generator.normal(size=(n, 2)) * 2, np.concatenate([[0, 1, 2], generator.integers(3, size=n - 3)])
    if kind == "grid":
        rows, new = np.rint(rows), np.rint(new)
    if kind == "copies":
        rows[1::2], new[0] = rows[:-1:2], rows[0]
    model = KNeighborsClassifier(n) if isinstance(model, str) else model
    groups, groups_new = (generator.integers(2, size=size) for size in (n, 3)) if grouping == "rows" else (None, None)
    if groups is not None:
        groups[:2] = [0, 1]
    setting = "label" if grouping == "label" else None
    classifier = full(model, conformity=score, randomized=randomized, groups=setting, classes=[0, 1, 2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows are few for groups
        classifier.fit(rows, y, groups=groups)
        found, sets = classifier.p_values(new, groups=groups_new), classifier.predict_set(new, 0.3, groups=groups_new)
    expected = literal_p_values(classifier, new, groups, groups_new)
    if grouping == "label":  # no row carries the last label: it is in every set
        assert (expected[:, 3] == 1).all()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(sets.mask, expected > 0.3)


@pytest.mark.parametrize("model", [KNeighborsClassifier(3), KernelDensityClassifier(bandwidth=0.8)], ids=str)
def test_the_p_value_of_the_true_label_is_uniform(model):
    """Law: for n = 9 the p-value is uniform on 0.1, ..., 1.0, as scores of u differ.

    Each of the ten counts is Binomial(R, 0.1); bounds of 1e-8 on both sides have false alarms below 2e-7 in all. Rows
    are drawn from six points, so that most distances are equal and rows have copies.
    """
    repetitions, counts = 300, np.zeros(11, dtype=int)
    generator = np.random.default_rng(5)
    points = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [0, 2]])
    for _ in range(repetitions):
        where = generator.integers(6, size=10)
        y = (generator.random(10) < 0.2 + 0.1 * where).astype(int)
        u = generator.random(10)
        classifier = full(model, classes=[0, 1]).fit(points[where[:9]], y[:9], u=u[:9])
        p_value = classifier.p_values(points[where[9:]], u=u[9:])[0, y[9]]
        counts[round(10 * p_value)] += 1
    assert counts[0] == 0
    low, high = binom.ppf([1e-8, 1 - 1e-8], repetitions, 0.1)
    assert (counts[1:] >= low).all(), counts
    assert (counts[1:] <= high).all(), counts


def test_neighbours_without_ties_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    rows, y, new = generator.normal(size=(60, 3)), generator.integers(3, size=60), generator.normal(size=(20, 3))
    for metric in ("euclidean", "manhattan", "chebyshev", "minkowski"):
        model = KNeighborsClassifier(7, metric=metric, p=3)
        said = full(model).fit(rows, y).predict_proba(new)
        np.testing.assert_allclose(said, model.fit(rows, y).predict_proba(new), atol=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "tophat", "linear", "epanechnikov"])
def test_kernels_are_those_of_scikit_learn(kernel):
    model = KernelDensityClassifier(kernel, 0.9).fit(X[::2], Y[::2])
    densities = [KernelDensity(kernel=kernel, bandwidth=0.9).fit(X[::2][Y[::2] == c]) for c in range(3)]
    joint = np.exp([density.score_samples(X[1::2]) for density in densities]).T * np.bincount(Y[::2])
    reached = joint.sum(axis=1) > 1e-9
    expected = joint[reached] / joint[reached].sum(axis=1, keepdims=True)
    assert reached.mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(X[1::2])[reached], expected, atol=1e-6)
    assert (model.predict(X[1::2]) == Y[1::2]).mean() > 0.9


def test_the_kernel_classifier_is_an_estimator_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(KernelDensityClassifier())


@pytest.mark.parametrize("model", [KNeighborsClassifier(5), KernelDensityClassifier(bandwidth=0.5)], ids=str)
def test_kept_read_and_asked_by_every_face(model, tmp_path):
    names = np.array(["a", "b", "c"])[Y]
    classifier = full(model).fit(X[::2], names[::2])
    assert classifier.guarantee(0.1) == 0.9
    assert "full, 75 samples: promises coverage >= 0.9" in repr(classifier)
    assert classifier.fit_times_["fits"] == 1
    classifier.save(tmp_path / "folder")
    for other in (aptset.load(tmp_path / "folder"), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(other.p_values(X[1::2]), classifier.p_values(X[1::2]))
        assert other.guarantee(0.2) == 0.8
    sets, p_values = classifier.sets_and_p_values(X[1::2], 0.2)
    np.testing.assert_array_equal(sets.mask, p_values > 0.2)
    assert sets == full(model).fit_predict_set(X[::2], names[::2], X[1::2], 0.2)
    assert classifier.confidence(X[1::2]).guess.shape == (75,)
    assert len(classifier.predict_frame(X[:2])) == 2
    page = aptset.report(classifier, X[1::2], names[1::2], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000 or page
    order = np.random.default_rng(0).permutation(75)
    shuffled = full(model).fit(X[::2][order], names[::2][order], ids=order)
    again = full(model).fit(X[::2], names[::2], ids=np.arange(75))
    np.testing.assert_array_equal(
        shuffled.p_values(X[1::2], ids=np.arange(75)), again.p_values(X[1::2], ids=np.arange(75))
    )


class Neighbours(KNeighborsClassifier):
    pass


@pytest.mark.parametrize(
    "model",
    [GaussianNB(), RandomForestClassifier(), Neighbours(), make_pipeline(StandardScaler(), KNeighborsClassifier())],
)
def test_models_that_would_be_fitted_again_are_refused(model):
    with pytest.raises(TypeError, match="must be a KNeighborsClassifier or"):
        full(model).fit(X, Y)


def test_settings_that_would_not_be_exact_are_refused():
    for model, match in (
        (KNeighborsClassifier(weights="distance"), "must be 'uniform'"),
        (KNeighborsClassifier(metric="cosine"), "metric of the estimator"),
        (KNeighborsClassifier(151), "at most the number of rows"),
        (KernelDensityClassifier(bandwidth=0), "bandwidth"),
        (KernelDensityClassifier(kernel="cosine"), "kernel"),
    ):
        with pytest.raises(ValueError, match=match):
            full(model).fit(X, Y)
    with pytest.raises(ValueError, match="distances of rows are finite"):
        full(KNeighborsClassifier()).fit(X * 1e200, Y)
    with pytest.raises(ValueError, match="weights must come with"):
        full(KNeighborsClassifier(), weights=len).fit(X, Y)
    with pytest.raises(ValueError, match="clusters must come with"):
        full(KNeighborsClassifier()).fit(X, Y, clusters=Y)
    with pytest.raises(ValueError, match="assurance must be left out"):
        full(KNeighborsClassifier(), assurance=0.9).fit(X, Y)


def test_what_has_no_meaning_here_says_so():
    classifier = full(KNeighborsClassifier(), alpha=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="every row trains"):
        classifier.act_or_ask(X)
    with pytest.raises(ValueError, match="Ask the classifier itself"):
        classifier.calibration_.predict_set([classifier.predict_proba(X)], 0.1, u=np.ones(150))
    assert isinstance(classifier.calibration_.scheme, Full)
