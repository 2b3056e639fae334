"""The models inside a fitted forest, and the rows that each of them never saw.

Kim, Xu and Barber 2020, "Predictive inference is free with the jackknife+-after-bootstrap".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from aptset.conformal.checks import check_bag_count
from aptset.conformal.fold_scores import Fold
from aptset.conformal.schemes.bootstrap import number_of_bags
from aptset.estimator.checks import check_ensemble
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
