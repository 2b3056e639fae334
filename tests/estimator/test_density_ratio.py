"""Density ratios by a model that tells source from target, never asked about rows that it saw."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import aptset

generator = np.random.default_rng(0)
SOURCE, TARGET = generator.normal(0, 1, size=(800, 2)), generator.normal(0, 1, size=(600, 2)) + np.array([1.0, 0.0])


def test_a_gaussian_shift_is_found():
    """The logarithm of the true ratio is x_0 - 1/2: logistic regression has that form."""
    ratio = aptset.density_ratio(SOURCE, TARGET, random_state=0)
    for found, rows in ((ratio.source, SOURCE), (ratio.target, TARGET)):
        error = np.log(found) - (rows[:, 0] - 0.5)
        assert np.abs(error).mean() < 0.2
    assert 0.7 < ratio.auc < 0.82  # 0.76 of a shift by one
    assert ratio.effective_size == pytest.approx(ratio.source.sum() ** 2 / (ratio.source**2).sum())
    assert ratio.largest_share == pytest.approx(ratio.source.max() / ratio.source.sum())
    assert abs(ratio.source.mean() - 1) < 0.25
    assert repr(ratio).startswith("Ratio(800 source rows (")


class Remembers(ClassifierMixin, BaseEstimator):
    """Knows every row that it saw, and nothing else: in-sample odds would be infinite."""

    def fit(self, X, y):
        self.classes_, self.seen_ = np.unique(y), {tuple(row): label for row, label in zip(X, y, strict=True)}
        return self

    def predict_proba(self, X):
        assert not any(tuple(row) in self.seen_ for row in X), "it was asked about a row that trained it"
        return np.full((len(X), 2), 0.5)


def test_nobody_is_asked_about_what_it_saw():
    ratio = aptset.density_ratio(SOURCE, TARGET, Remembers(), n_folds=3)
    np.testing.assert_allclose(ratio.source, 800 / 600)
    assert ratio.effective_size == pytest.approx(800)


def test_equal_seeds_give_equal_ratios_and_frames_are_rows():
    one, other = (aptset.density_ratio(SOURCE, TARGET, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.source, other.source)
    in_pandas = [pd.DataFrame(rows, columns=["a", "b"]) for rows in (SOURCE, TARGET)]
    in_polars = [pl.DataFrame(rows, schema=["a", "b"]) for rows in (SOURCE, TARGET)]
    for frames in (in_pandas, in_polars):
        np.testing.assert_allclose(aptset.density_ratio(*frames, random_state=3).target, one.target)
    sparse = aptset.density_ratio(csr_matrix(SOURCE), csr_matrix(TARGET), LogisticRegression(), random_state=3)
    assert sparse.auc > 0.7


def test_too_sure_of_itself_is_told():
    with pytest.warns(UserWarning, match="rows have odds beyond 1e\\+06 to 1 between source and target"):
        ratio = aptset.density_ratio(SOURCE, TARGET + 20, GaussianNB(), random_state=0)
    assert ratio.source.max() <= 1e6 * 800 / 600
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aptset.density_ratio(SOURCE, TARGET, random_state=0)
    with pytest.warns(UserWarning, match="odds beyond"):
        aptset.density_ratio(SOURCE, TARGET, KNeighborsClassifier(3), random_state=0)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((SOURCE, TARGET[:, :1]), ValueError, "must be 2-D with the same columns"),
        ((SOURCE[:, 0], TARGET[:, 0]), ValueError, "must be 2-D with the same columns"),
        ((SOURCE, pd.DataFrame(TARGET)), TypeError, "must be of one kind"),
        ((pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})), ValueError, "must have the columns of X_source"),
        ((SOURCE, TARGET[:3]), ValueError, "n_folds must be between 2 and the number of rows of either kind, 3"),
        ((SOURCE, TARGET, None, 1), ValueError, "so folds are needed"),
        ((SOURCE, TARGET, None, 2.0), TypeError, "n_folds must be a whole number"),
        ((SOURCE, TARGET, "forest"), TypeError, "estimator must be a scikit-learn classifier"),
    ],
)
def test_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        aptset.density_ratio(*arguments)


def test_weights_of_a_ratio_bring_the_coverage_back():
    """Labels get random with x, which the model does not see; over 200 repetitions one new row is judged in each.

    With estimated weights nothing is proven; with those of a logistic model, which is right here, the count of covered
    rows is near a Binomial(200, 0.9): below 155 has probability 3e-8. Without weights the coverage is near 0.75.
    """
    draw = np.random.default_rng(1)
    covered = plain = 0
    for seed in range(200):
        x = draw.normal(np.repeat([0.0, 1.0], [200, 60]))
        p = draw.dirichlet(np.full(6, 0.2), size=260)
        noise = 1 / (1 + np.exp(-3 * (x - 1)))[:, None]
        y = (draw.random((260, 1)) > ((1 - noise) * p + noise / 6).cumsum(axis=1)[:, :-1]).sum(axis=1)
        shifted = (x[200:, None] - x[:200].mean()) / x[:200].std()
        ratio = aptset.density_ratio(
            (x[:200, None] - x[:200].mean()) / x[:200].std(), shifted, LogisticRegression(), 2, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the weights leave|.* weigh more")
            calibration = aptset.calibrate(p[:200], y[:200], weights=ratio.source, random_state=seed)
            covered += calibration.predict_mask(p[200:201], 0.1, weights=ratio.target[:1])[0, y[200]]
        plain += aptset.calibrate(p[:200], y[:200], random_state=seed).predict_mask(p[200:201], 0.1)[0, y[200]]
    assert covered >= 155
    assert plain < covered
