"""The models inside a fitted forest, and the rows that each of them never saw.

Kim, Xu and Barber 2020, "Predictive inference is free with the jackknife+-after-bootstrap".
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from aptset.conformal.checks import check_bag_count
from aptset.conformal.fold_scores import Fold
from aptset.conformal.schemes.bootstrap import number_of_bags
from aptset.estimator.encoding import LabelledModel


@dataclass(frozen=True)
class Member:
    """One model of an ensemble, as a classifier of its own that speaks of the ensemble's labels."""

    ensemble: Any
    number: int

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of the ensemble that the member knows."""
        known: NDArray[Any] = np.asarray(self.ensemble.classes_)[self._model.classes_.astype(np.intp)]
        return known

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return int(self.ensemble.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, if they had any."""
        names: NDArray[Any] = self.ensemble.feature_names_in_
        return names

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return what the member says of X, which is checked as the ensemble would: also names and order of columns."""
        whole = self.ensemble.model if isinstance(self.ensemble, LabelledModel) else self.ensemble
        values = validate_data(whole, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False, reset=False)
        if hasattr(self.ensemble, "estimators_features_"):  # bagging: a member may see some columns alone
            values = values[:, self.ensemble.estimators_features_[self.number]]
        said: NDArray[np.generic] = self._model.predict_proba(values)
        return said

    @property
    def _model(self) -> Any:
        return self.ensemble.estimators_[self.number]


def check_ensemble(estimator: Any, n_rows: int, fit_params: dict[str, Any]) -> int:
    """Return the size of the bags on which the models of an ensemble are trained."""
    from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier  # slow to load

    settings = estimator.get_params(deep=False)
    if type(estimator) not in (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier):
        raise TypeError(
            "estimator must be a RandomForestClassifier, ExtraTreesClassifier or BaggingClassifier itself for "
            f"calibration='out-of-bag'; got {type(estimator).__name__}. Pass calibration='bootstrap' for other models."
        )
    if not settings["bootstrap"]:
        raise ValueError(
            f"estimator must draw its bags with replacement for calibration='out-of-bag'; got {estimator!r}. "
            "Pass bootstrap=True to it."
        )
    _check_drawn_alike(settings.get("class_weight"), fit_params.get("sample_weight") is not None)
    return _bag_size(settings["max_samples"], n_rows)


def _bag_size(max_samples: Any, n_rows: int) -> int:
    """Return how many rows scikit-learn draws for a bag."""
    if max_samples is None:
        return n_rows
    is_number = isinstance(max_samples, Real) and not isinstance(max_samples, bool)
    if not is_number or not 0 < float(max_samples) < np.inf:
        raise ValueError(
            "max_samples of the estimator must be None, a positive whole number of rows, or a share of them; "
            f"got {max_samples!r}."
        )
    return int(max_samples) if isinstance(max_samples, Integral) else max(1, int(float(max_samples) * n_rows))


def _check_drawn_alike(class_weight: Any, is_weighted: bool) -> None:
    """Refuse weights by which scikit-learn 1.9 draws its bags: the promise is about rows that are drawn alike."""
    if is_weighted or class_weight not in (None, "balanced_subsample"):
        name = "sample_weight" if is_weighted else f"class_weight={class_weight!r}"
        raise ValueError(
            f"estimator must draw all rows alike for calibration='out-of-bag'; with {name} it draws some more often. "
            "Leave the weights out, or pass calibration='bootstrap', where they count within the bags alone."
        )


def drawn_ensemble(estimator: Any, n_rows: int, fit_params: dict[str, Any], generator: np.random.Generator) -> Any:
    """Return the ensemble with a number of models that is drawn around the one it asks for, as the promise wants."""
    size = check_ensemble(estimator, n_rows, fit_params)
    wanted = check_bag_count(estimator.n_estimators, "n_estimators")
    return clone(estimator).set_params(n_estimators=number_of_bags(wanted, n_rows, size, generator))


def members(ensemble: Any, trained_on: NDArray[np.intp]) -> tuple[list[Member], list[Fold]]:
    """Return the models of a fitted ensemble, each with the rows that it saw and those that it did not."""
    every = np.sort(trained_on)
    bags = [trained_on[np.asarray(rows)] for rows in ensemble.estimators_samples_]
    folds = [Fold(np.setdiff1d(every, bag), bag) for bag in bags]
    return [Member(ensemble, number) for number in range(len(bags))], folds
