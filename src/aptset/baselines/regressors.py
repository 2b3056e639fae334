"""A quantile forest with the face that conformal quantile classification asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from aptset.baselines.checks import check_packages
from aptset.data.setting_checks import check_alpha
from aptset.kernels.formula import Floats


class ForestQuantiles(BaseEstimator):  # type: ignore[misc]
    """Two quantiles of y given x, at alpha and 1 - alpha, by a quantile random forest (package quantile-forest).

    Parameters
    ----------
    alpha : float, default=0.1
        The lower quantile; the upper one is 1 - alpha.
    n_estimators, min_samples_split
        Of the forest; the defaults are the paper's.
    random_state : None or int, optional
        Of the forest.

    Examples
    --------
    >>> from aptset.baselines import ForestQuantiles
    >>> forest = ForestQuantiles(alpha=0.1, random_state=0)
    """

    def __init__(
        self, alpha: float = 0.1, *, n_estimators: int = 100, min_samples_split: int = 3, random_state: Any = None
    ) -> None:
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.min_samples_split = min_samples_split
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ForestQuantiles:
        """Grow the forest."""
        check_packages(["quantile_forest"], "the quantile forest")
        from quantile_forest import RandomForestQuantileRegressor

        check_alpha(self.alpha)
        X, y = validate_data(self, X, y, dtype=np.float32, y_numeric=True)
        self.forest_ = RandomForestQuantileRegressor(
            n_estimators=self.n_estimators,
            min_samples_split=self.min_samples_split,
            max_samples_leaf=None,  # every row of a leaf counts, as in Meinshausen's forest; the default keeps one
            random_state=self.random_state,
        ).fit(X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the two quantiles of each row."""
        check_is_fitted(self)
        lower = float(check_alpha(self.alpha))
        X = validate_data(self, X, dtype=np.float32, reset=False)
        return np.asarray(self.forest_.predict(X, quantiles=[lower, 1 - lower]), dtype=np.float64)
