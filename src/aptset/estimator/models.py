"""Models inside a fold: which ones a scheme can take; they are trained on 0, 1, ..., and users see their own labels."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import validate_data

from aptset.conformal.measure import Fold
from aptset.conformal.scheme import Scheme, is_full, opens_ensemble
from aptset.conformal.schemes.bootstrap import check_bag_count, number_of_bags
from aptset.core.labels import columns_of, in_order

# Settings that name labels by value, in scikit-learn and in libraries that keep to its manners.
_OF_LABELS = ("class_weight", "class_weights", "sampling_strategy", "constant", "classes", "class_names")


class LabelledModel(BaseEstimator):  # type: ignore[misc]
    """A model that was trained on 0, 1, ... instead of the user's labels; all else is what the model itself has.

    Parameters
    ----------
    model : classifier
        The fitted model.
    labels : array
        The user's label for each number.
    """

    def __init__(self, model: Any, labels: NDArray[Any]) -> None:
        self.model = model
        self.labels = labels

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that the model was trained on."""
        return self.labels[np.asarray(self.model.classes_).astype(np.intp)]

    def predict_proba(self, X: Any) -> Any:
        """Return one column for each entry of ``classes_``.

        A network may have outputs for labels that no row of its fold carries. Nothing trained them: they are left out.
        """
        returned, n_labels = self.model.predict_proba(X), len(self.labels)
        if np.ndim(returned) != 2 or np.shape(returned)[1] <= n_labels:
            return returned
        known = np.asarray(returned)[:, :n_labels]
        total = known.sum(axis=1, keepdims=True)
        return np.where(total > 0, known / np.where(total > 0, total, 1), 1 / n_labels)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the model's guess, as the user's label."""
        return self.labels[np.asarray(self.model.predict(X)).astype(np.intp).ravel()]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("model", "labels"):  # not there yet while a copy is made
            raise AttributeError(name)
        return getattr(self.model, name)


class Encoding:
    """The labels of the rows that train a model, in order, and the number of each."""

    def __init__(self, y: NDArray[Any]) -> None:
        self.labels = in_order(y)
        self.plain = self.labels.dtype.kind in "iu" and bool(np.array_equal(self.labels, np.arange(len(self.labels))))
        self.y: NDArray[Any] = y if self.plain else columns_of(y, self.labels)

    def settle(self, model: Any) -> None:
        """Put numbers into the settings of a model that name labels."""
        if self.plain:
            return
        for name, value in model.get_params(deep=True).items():
            if name.rpartition("__")[2] in _OF_LABELS:
                self._settle(model, name, value)

    def _settle(self, model: Any, name: str, value: Any) -> None:
        if isinstance(value, dict):
            codes = self.codes(list(value)).tolist()
            known = {code: of_label for code, of_label in zip(codes, value.values(), strict=True) if code >= 0}
            model.set_params(**{name: known})
        elif isinstance(value, list | tuple | np.ndarray) and name.rpartition("__")[2] in ("classes", "class_names"):
            model.set_params(**{name: [code for code in self.codes(list(value)).tolist() if code >= 0]})
        elif name.endswith("constant") and np.ndim(value) == 0 and value is not None:
            (code,) = self.codes([value]).tolist()
            if code >= 0:
                model.set_params(**{name: code})

    def fit_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return what is passed to fit, with numbers for the labels of rows that a model is watched on."""
        if self.plain:
            return params
        return {name: self._watched(value) if name.endswith("eval_set") else value for name, value in params.items()}

    def _watched(self, value: Any) -> Any:
        """Return pairs of X and y with numbers for y; labels that do not train are left out."""
        if isinstance(value, list):
            return [self._watched(pair) for pair in value]
        if not isinstance(value, tuple) or len(value) != 2:
            return value  # something of a library's own
        from sklearn.utils import _safe_indexing

        X, y = value
        codes = self.codes(list(y))
        known = np.flatnonzero(codes >= 0)
        return (X if len(known) == len(codes) else _safe_indexing(X, known)), codes[known]

    def codes(self, labels: list[Any]) -> NDArray[np.int64]:
        """Return the number of each label, -1 for one that does not train."""
        of_objects = np.empty(len(labels), dtype=object)
        of_objects[:] = labels
        return columns_of(of_objects, self.labels)

    def decoded(self, model: Any, has_more_outputs: bool = False) -> Any:
        """Return a fitted model that speaks of the user's labels; one that knew them by itself stays as it is."""
        if (self.plain and not has_more_outputs) or not hasattr(model, "classes_"):
            return model
        numbers = set(range(len(self.labels)))
        return LabelledModel(model, self.labels) if set(np.asarray(model.classes_).tolist()) <= numbers else model


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
        probabilities: NDArray[np.generic] = self._model.predict_proba(values)
        return probabilities

    @property
    def _model(self) -> Any:
        return self.ensemble.estimators_[self.number]


def members(ensemble: Any, trained_on: NDArray[np.intp]) -> tuple[list[Member], list[Fold]]:
    """Return the models of a fitted ensemble, each with the rows that it saw and those that it did not."""
    rows_of_all = np.sort(trained_on)
    bags = [trained_on[np.asarray(rows)] for rows in ensemble.estimators_samples_]
    folds = [Fold(np.setdiff1d(rows_of_all, bag), bag) for bag in bags]
    return [Member(ensemble, number) for number in range(len(bags))], folds


def estimator_for(
    scheme: Scheme, estimator: Any, n_rows: int, fit_params: dict[str, Any], generator: np.random.Generator
) -> Any:
    """Return the estimator as a scheme fits it; refuse one that it cannot take."""
    if is_full(scheme):
        check_full_model(estimator, n_rows, fit_params)
    return drawn_ensemble(estimator, n_rows, fit_params, generator) if opens_ensemble(scheme) else estimator


def check_full_model(estimator: Any, n_rows: int, fit_params: dict[str, Any]) -> None:
    """Refuse models for which a new row and label would need fits of their own."""
    from sklearn.neighbors import KNeighborsClassifier  # slow to load

    from aptset.estimator.full_conformal import POWERS, KernelDensityClassifier  # which knows this module

    if type(estimator) not in (KNeighborsClassifier, KernelDensityClassifier):
        raise TypeError(
            "estimator must be a KNeighborsClassifier or aptset.KernelDensityClassifier itself for calibration='full'; "
            f"got {type(estimator).__name__}. Every other model would be fitted again for each new row, label and "
            "training row: pass calibration='jackknife+' or 'split'."
        )
    if any(value is not None for value in fit_params.values()):
        raise TypeError(f"fit takes no {sorted(fit_params)} for calibration='full': all rows count alike.")
    if isinstance(estimator, KNeighborsClassifier):
        _check_neighbours(estimator, n_rows, sorted(POWERS))


def _check_neighbours(estimator: Any, n_rows: int, metrics: list[str]) -> None:
    """Refuse neighbours whose votes are no exact ratios, or whose distances are not of a known metric."""
    if estimator.weights != "uniform":
        raise ValueError(
            f"weights of the estimator must be 'uniform' for calibration='full', where votes are exact ratios; got "
            f"{estimator.weights!r}. For votes that fall with the distance take aptset.KernelDensityClassifier."
        )
    if estimator.metric not in (*metrics, "minkowski") or estimator.metric_params:
        raise ValueError(
            f"metric of the estimator must be one of {metrics} or 'minkowski' for calibration='full'; got "
            f"{estimator.metric!r}."
        )
    if estimator.n_neighbors > n_rows:
        raise ValueError(
            f"n_neighbors of the estimator must be at most the number of rows, {n_rows}; got {estimator.n_neighbors}."
        )


def drawn_ensemble(estimator: Any, n_rows: int, fit_params: dict[str, Any], generator: np.random.Generator) -> Any:
    """Return the ensemble with a number of models that is drawn around the one it asks for, as the promise wants."""
    size = check_ensemble(estimator, n_rows, fit_params)
    wanted = check_bag_count(estimator.n_estimators, "n_estimators")
    return clone(estimator).set_params(n_estimators=number_of_bags(wanted, n_rows, size, generator))


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
