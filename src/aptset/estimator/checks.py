"""What a classifier must be able to do, and the training data that goes into it."""

from __future__ import annotations

import warnings
from enum import Enum
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, assert_all_finite, check_is_fitted

from aptset.core.labels import (
    as_labels,
    check_hashable,
    columns_of,
    hashable,
    in_order,
    plain_labels,
    refuse_masked,
    some,
)
from aptset.core.tables import plain_list

_PLAIN = {"numbers": (Real, np.bool_), "texts": (str,), "bytes": (bytes,)}


def are_things(y: NDArray[Any]) -> bool:
    """Tell whether labels are dates, members of an Enum or the like: no numbers, no texts."""
    return y.dtype == object and not {_kind_of(kind) for kind in set(map(type, y.tolist()))} & _PLAIN.keys()


def check_one_kind(y: Any, name: str = "y") -> None:
    """Refuse numbers beside texts, which numpy would make texts of, and other kinds that have no order in common."""
    of_objects = getattr(getattr(y, "dtype", None), "kind", "") == "O" and getattr(y, "ndim", 1) == 1
    if not (isinstance(y, list | tuple) or of_objects):
        return
    values = plain_list(y)
    kinds = {kind: _kind_of(kind) for kind in set(map(type, values)) if kind is not type(None)}
    if len(set(kinds.values())) < 2:
        return
    known = [(row, value) for row, value in enumerate(values) if hashable(value) is not None]
    others = [one for one in known if _kind_of(type(one[1])) != _kind_of(type(known[0][1]))]
    if others:
        (row, label), (other_row, other_label) = known[0], others[0]
        raise TypeError(
            f"{name} must hold labels of one kind; got {label!r} in row {row} and {other_label!r} in row {other_row}. "
            f"Make texts of all of them, for example [str(label) for label in {name}]."
        )


def _kind_of(kind: type) -> str:
    """Return the kind of a label: a number, a text, bytes, or the name of any other type."""
    if issubclass(kind, Enum):
        return "Enum"
    return next((name for name, types in _PLAIN.items() if issubclass(kind, types)), kind.__name__)


def check_label_space(known: Any, observed: NDArray[Any]) -> NDArray[Any]:
    """Return the labels that may come, sorted: those found in the data, or those that the caller named."""
    if known is None:
        return observed
    check_one_kind(known, "classes")
    named = as_labels(known, "classes")
    check_hashable(named, "classes")
    if any(hashable(label) is None for label in named.tolist()):
        raise ValueError(f"classes must not be missing; got {some(named)}. Rows of y without a label cannot be used.")
    if len(named) < 2 or len(set(named.tolist())) != len(named):
        raise ValueError(f"classes must be at least 2 distinct labels; got {some(named)}.")
    missing = observed[columns_of(observed, named) < 0]
    if len(missing):
        raise ValueError(
            f"classes must name every label that may come; y or the fitted model has {some(missing)}, which is not in "
            f"{some(named)}. Add it, or leave classes out to take the labels from y."
        )
    return in_order(named)


def check_estimator_can(estimator: Any) -> None:
    """Refuse a model that cannot give probabilities."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(f"estimator must be a model, not its class; got the class {name}. Pass {name}().")
    for method in ("fit", "predict_proba"):
        if not hasattr(estimator, method):
            raise TypeError(
                f"estimator must be a scikit-learn classifier with {method}; got {short(estimator)}. "
                "For a model without probabilities wrap it in sklearn.calibration.CalibratedClassifierCV, "
                "or pass probabilities to aptset.calibrate."
            )


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


def short(estimator: Any) -> str:
    """Return an object on one line: pipelines take ten."""
    words = " ".join(repr(estimator).split())
    return words if len(words) <= 100 else f"{words[:99]}…"


def check_training_data(
    owner: Any, X: Any, y: Any, minimum: int, known: Any = None
) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return X with rows that can be picked, y as a 1-D array, and its sorted classes."""
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None.")
    (X,) = indexable(X)
    check_one_label_a_row(y)
    check_one_kind(y)
    y = plain_labels(y)
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "iub":
        y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    check_no_missing(y)
    if y.dtype.kind not in "iub" and not are_things(y):  # whole numbers are classes
        check_classification_targets(y)
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    if _num_samples(X) < minimum:
        raise ValueError(
            f"X must have at least {minimum} rows to train and to calibrate; got n_samples={_num_samples(X)}."
        )
    classes = in_order(y)
    if len(classes) < 2 and known is None:
        raise ValueError(f"y must hold at least 2 classes; got one class only, {classes.tolist()[0]!r}.")
    return X, y, classes


def check_one_label_a_row(y: Any) -> None:
    """Refuse a matrix of labels, masked labels, and labels of different lengths."""
    refuse_masked(y, "y")
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list | tuple) and any(isinstance(label, list | tuple | set) for label in y):
        shape = (len(y), max(len(label) if isinstance(label, list | tuple | set) else 1 for label in y))
    if shape is not None and len(shape) == 2 and shape[1] != 1:
        raise ValueError(
            f"y must be 1-D, one label per row; got shape {tuple(shape)}, several labels per row (y should be a 1d "
            "array). Fit one ConformalClassifier for each column of y."
        )


def check_no_missing(y: NDArray[Any]) -> None:
    """Refuse rows without a label."""
    if y.dtype.kind in "iubUS":
        return
    for row, label in enumerate(y.tolist()):
        if hashable(label) is None:
            raise ValueError(
                f"y must have no missing labels (Input y contains NaN); got {label!r} in row {row}. Drop such rows."
            )


def check_workers(n_jobs: Any) -> None:
    """Refuse a number of workers that nobody can be."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None, a positive whole number, or -1 for one worker per core; got {n_jobs!r}."
        )


def check_model_probabilities(model: Any, probabilities: Any, classes: NDArray[Any]) -> NDArray[np.generic]:
    """Refuse what is not one matrix of probabilities with a named column per class."""
    matrix = np.asarray(probabilities)
    if hasattr(model, "classes_") and (columns_of(np.asarray(model.classes_), classes) < 0).any():
        raise ValueError(
            f"y must hold every label that the model knows, {some(np.asarray(model.classes_))}; got {some(classes)}. "
            "Wrap a fitted model as a whole in FrozenEstimator."
        )
    if not hasattr(model, "classes_") or matrix.ndim != 2 or matrix.shape[1] != len(model.classes_):
        raise TypeError(
            f"estimator must have classes_ and give one probability per class; {type(model).__name__} gave shape "
            f"{matrix.shape}. Models with several outputs need one ConformalClassifier per output."
        )
    return matrix


def warn_unseen_labels(chance: float, alpha: Fraction) -> None:
    """Say that labels which may come were never seen, if their chance is not small beside alpha."""
    if chance > alpha / 10:
        warnings.warn(
            f"a new row carries a label that y does not hold with a chance of about {chance:.2g} (labels seen once / "
            "(rows + 1)). Such a label is in no set: the promise is about known labels. Pass classes=[...], all labels "
            "that may come, and it is about all of them.",
            stacklevel=3,
        )


def check_frozen_calibration(calibration: Any, is_split: bool) -> None:
    """Refuse folds for a model that is not fitted again: they would all have the same one."""
    if not is_split:
        raise ValueError(
            f"calibration must be 'split' for a FrozenEstimator, which is not fitted again; got {calibration!r}. Leave "
            "calibration out, and every row calibrates; or pass the model without FrozenEstimator to fit it for each "
            "fold."
        )


def check_frozen(estimator: Any, of_labels: NDArray[Any], fit_params: dict[str, Any]) -> NDArray[Any]:
    """Return the labels that a fitted model knows or that are in y, sorted."""
    check_is_fitted(estimator)
    if any(value is not None for value in fit_params.values()):
        raise TypeError(f"fit takes no {sorted(fit_params)} for a FrozenEstimator, which is not fitted again.")
    of_model = np.asarray(estimator.classes_)
    if (of_model.dtype.kind in "biuf") != (of_labels.dtype.kind in "biuf"):
        raise ValueError(
            f"y must hold labels of the kind that the fitted model knows, {some(of_model)}; got {some(of_labels)}."
        )
    return np.union1d(of_model, of_labels)


def fold_error(error: Exception, fold: int, n_folds: int) -> Exception:
    """Return the error of a fold's fit with the fold in its message, of the same type where that is possible."""
    message = f"fold {fold + 1} of {n_folds} failed, nothing was kept: {error}"
    try:
        return type(error)(message)
    except Exception:  # an exception with a constructor of its own
        return RuntimeError(f"{message} ({type(error).__name__})")


def uncloneable(estimator: Any, error: Exception) -> TypeError:
    """Return the error about a model of which no unfitted copy can be made."""
    name = type(estimator).__name__
    return TypeError(
        f"estimator must be a model that scikit-learn can clone; got {name}: {error}. A setting that the constructor "
        "changes goes to fit instead: CatBoostClassifier() with fit(X, y, cat_features=[...])."
    )


def check_models_kept(models: Any) -> None:
    """Refuse to predict after the models were dropped."""
    if not models:
        raise NotFittedError("fit_predict_set drops its models to save memory; call fit to predict later.")


def warn_constant_model(label: Any) -> None:
    """Say that a training part left nothing to learn."""
    warnings.warn(
        f"the rows that train hold the one class {label!r} only, which the estimator refuses: a constant model stands "
        "in. The sets keep their coverage; more rows give a real model.",
        stacklevel=2,
    )


def check_some_rows(n_rows: int) -> None:
    """Refuse an X without rows."""
    if n_rows == 0:
        raise ValueError("X must have at least one row; got n_samples=0.")


def check_overlap_scheme(do_overlap: bool, is_split: bool, is_auto: bool) -> None:
    """Refuse overlapping groups where several models judge a row, or a score is still to be chosen."""
    if do_overlap and not is_split:
        raise ValueError(
            "groups must not overlap here: that is known for one model only. Use calibration='split', or give each row "
            "one group."
        )
    if do_overlap and is_auto:
        raise ValueError(
            "conformity must name a score where groups overlap; got 'auto'. Choose with aptset.tune() on other rows."
        )
