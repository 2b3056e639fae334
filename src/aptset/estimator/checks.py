"""What a classifier must be able to do, and the training data that goes into it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, assert_all_finite, check_is_fitted

from aptset.conformal import CALIBRATIONS
from aptset.core import validate
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
from aptset.core.row_groups import plural
from aptset.core.tables import plain_list
from aptset.core.validate import warn_caller

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
    others = [pair for pair in known if _kind_of(type(pair[1])) != _kind_of(type(known[0][1]))]
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


def is_frozen(estimator: Any) -> bool:
    """Tell whether the model is fitted already and must stay as it is."""
    return isinstance(estimator, FrozenEstimator)


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


def check_workers(n_jobs: Any) -> None:
    """Refuse a number of workers that nobody can be."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None, a positive whole number, or -1 for one worker per core; got {n_jobs!r}."
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


def warn_trained_anew(estimator: Any) -> None:
    """Say that a model which was fitted before is trained anew, on some of the rows only."""
    if any(is_frozen(part) for part in estimator.get_params().values()):
        return  # a part of it is fitted: what is wrong with that is said where it is trained
    try:
        if get_tags(estimator).requires_fit:
            check_is_fitted(estimator)
            warn_caller(
                "estimator is fitted, and a copy of it is trained anew on some of these rows. To keep the fitted "
                "model, pass sklearn.frozen.FrozenEstimator(estimator): every row of fit then calibrates. To train it "
                "anew without this warning, pass sklearn.base.clone(estimator)."
            )
    except (NotFittedError, TypeError, AttributeError):
        return


def check_calibrations(calibrations: Any) -> list[Any]:
    """Return several calibrations, by their names or as schemes with settings of their own."""
    chosen = [calibrations] if isinstance(calibrations, str) or not isinstance(calibrations, Sequence) else calibrations
    for calibration in chosen:
        if isinstance(calibration, str) and calibration not in CALIBRATIONS:
            raise ValueError(f"calibrations must be among {', '.join(sorted(CALIBRATIONS))}; got {calibration!r}.")
    if len(chosen) == 0 or len({str(calibration) for calibration in chosen}) != len(chosen):
        raise ValueError(f"calibrations must be at least one, each once; got {calibrations!r}.")
    return list(chosen)


def check_test_share(share: Any, n_rows: int, what: str = "row") -> tuple[float, int]:
    """Return the share of the rows, or clusters, that test, and their number."""
    n_test = round(validate.share(share, "test_share", "the share of the rows that test") * n_rows)
    if n_test < 1 or n_rows - n_test < 2:
        raise ValueError(
            f"test_share must leave a {what} to test and two to train and calibrate; got {share} of {n_rows} "
            f"{plural(what)}."
        )
    return float(share), n_test
