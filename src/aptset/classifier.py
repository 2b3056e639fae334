"""The scikit-learn face: any classifier, with prediction sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import _num_samples, check_is_fitted

from aptset import fitting
from aptset.calibrations import CALIBRATIONS
from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.split import Split
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows
from aptset.rows import row_seeds
from aptset.scores import Score
from aptset.sets import PredictionSets, concatenate
from aptset.validation.estimators import check_estimator_can, check_training_data, check_union_of_classes
from aptset.validation.labels import columns_of
from aptset.validation.matrices import tolerance_of, uniforms_of
from aptset.validation.settings import (
    check_alphas,
    check_choice,
    check_conformity,
    check_generator,
    draw_key,
    warn_if_too_few,
)

_NAME = "probabilities of the estimator"


class ConformalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Give any classifier prediction sets that hold the true label with probability at least 1 - alpha.

    Parameters
    ----------
    estimator : classifier
        Anything with ``fit`` and ``predict_proba``. A fitted model wrapped in
        ``sklearn.frozen.FrozenEstimator`` is left as it is, and every row passed to ``fit`` calibrates.
    calibration : "split" or Split, default="split"
        Which rows train and which calibrate.
    conformity : {"adaptive", "homogeneous", "regularized"} or score, default="adaptive"
        How strange a label is for a row.
    alpha : float, default=0.1
        Miscoverage level of ``predict_set``; it may be overridden there.
    randomized : bool, default=True
        False takes u = 1 everywhere: never-empty sets that do not depend on chance, and cover a little more.
    allow_empty : bool, default=True
        If False, an empty set gets its most likely label, which can only raise the coverage.
    random_state : None, int or numpy random generator, optional
        Decides the split, the key of the uniforms, and every ``random_state`` of the estimator that is None.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    model_ : classifier
        The fitted clone of the estimator.
    n_calibration_ : int
        Number of calibration samples.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import aptset
    >>> X, y = load_iris(return_X_y=True)
    >>> names = load_iris().target_names[y]
    >>> classifier = aptset.ConformalClassifier(LogisticRegression(max_iter=1000), random_state=0).fit(X, names)
    >>> classifier.predict_set(X[[0, 70, 133]], alpha=0.05)
    PredictionSets: 3 rows, 3 classes, mean size 1.67
      0  {setosa}
      1  {virginica, versicolor}
      2  {virginica, versicolor}
    """

    def __init__(
        self,
        estimator: Any,
        *,
        calibration: str | Split = "split",
        conformity: str | Score = "adaptive",
        alpha: float = 0.1,
        randomized: bool = True,
        allow_empty: bool = True,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.conformity = conformity
        self.alpha = alpha
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **fit_params: Any) -> ConformalClassifier:
        """Train on some rows and calibrate on the others.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list, one entry per sample
            Whatever the estimator takes.
        y : array
            The labels: strings, numbers or booleans.
        **fit_params : dict
            Passed to the estimator's ``fit``; values with one entry per sample are cut to the rows that train.
            ``sample_weight`` therefore weighs the training only, never the calibration.

        Returns
        -------
        ConformalClassifier
            The fitted classifier itself.
        """
        check_estimator_can(self.estimator)
        check_alphas(self.alpha)
        score = check_conformity(self.conformity)
        calibration = check_choice(self.calibration, CALIBRATIONS, "folds", "calibration")
        generator = check_generator(self.random_state)
        frozen = fitting.is_frozen(self.estimator)
        X, y, classes = check_training_data(self, X, y, minimum=1 if frozen else 2)
        key = draw_key(generator)
        if frozen:
            model, held_out_rows = self.estimator, np.arange(len(y))
            classes = check_union_of_classes(np.asarray(model.classes_), classes)
        else:
            ((training_rows, held_out_rows),) = calibration.folds(len(y), generator)
            seed = None if self.random_state is None else int(generator.integers(2**63))
            model = fitting.fit_model(self.estimator, X, y, training_rows, self._route(fit_params), seed)
        held_out_X = fitting.take(X, held_out_rows)
        probabilities = fitting.probabilities_of(model, held_out_X, classes)
        rows = _make_rows(probabilities, held_out_X, score, key, None, self.randomized)
        held_out = HeldOut.score(rows, columns_of(y[held_out_rows], classes), _NAME)
        # Everything worked: only now does the object change.
        self.classes_, self.model_, self.held_out_, self.key_, self.score_ = classes, model, held_out, key, score
        self.n_calibration_ = held_out.n
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        return self

    @overload
    def predict_set(self, X: Any, alpha: float | None = ..., *, u: ArrayLike | None = ...) -> PredictionSets: ...
    @overload
    def predict_set(self, X: Any, alpha: Sequence[float], *, u: ArrayLike | None = ...) -> list[PredictionSets]: ...
    def predict_set(
        self, X: Any, alpha: Any = None, *, u: ArrayLike | None = None
    ) -> PredictionSets | list[PredictionSets]:
        """Return the prediction set of each row.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list
            The samples.
        alpha : float or sequence of float, optional
            Miscoverage level, by default the one of the constructor. For a sequence, a list with the sets of each
            level is returned.
        u : array of float in [0, 1], optional
            The uniform of each row; by default a keyed hash of the content of the row.

        Returns
        -------
        PredictionSets, or a list of them
        """
        check_is_fitted(self)
        alphas, is_sequence = check_alphas(self.alpha if alpha is None else alpha)
        pieces = [
            self.held_out_.sets(rows, alphas, self.classes_, self.allow_empty, _NAME) for rows in self._pieces(X, u)
        ]
        warn_if_too_few(self.held_out_.n, alphas)
        sets = [concatenate(list(of_level)) for of_level in zip(*pieces, strict=True)]
        return sets if is_sequence else sets[0]

    def predict_p(self, X: Any, *, u: ArrayLike | None = None) -> Floats:
        """Return the conformal p-value of every label, (rows, classes): a label is in the set iff it exceeds alpha."""
        check_is_fitted(self)
        return np.concatenate([self.held_out_.p_values(rows, _NAME) for rows in self._pieces(X, u)])

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return the probabilities of the fitted model, one column per entry of ``classes_``."""
        check_is_fitted(self)
        return fitting.probabilities_of(self.model_, X, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return labels

    def _pieces(self, X: Any, u: ArrayLike | None) -> Iterator[Rows]:
        """Yield the probabilities of X, as many rows at a time as keep the memory bounded."""
        (X,) = indexable(X)
        uniforms = uniforms_of(u, _num_samples(X), self.randomized)
        pieces = fitting.chunks(_num_samples(X), len(self.classes_))
        for rows in pieces:
            some_X = X if len(pieces) == 1 else fitting.take(X, rows)
            some_u = None if uniforms is None else uniforms[rows]
            yield _make_rows(self.predict_proba(some_X), some_X, self.score_, self.key_, some_u, randomized=True)

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        if not _routing_enabled():
            return fit_params
        routed: dict[str, Any] = process_routing(self, "fit", **fit_params).estimator.fit
        return routed

    def get_metadata_routing(self) -> MetadataRouter:
        """Pass the metadata of ``fit`` on to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _make_rows(
    probabilities: NDArray[np.generic], X: Any, score: Score, key: int, u: Floats | None, randomized: bool
) -> Rows:
    uniforms = uniforms_of(u, len(probabilities), randomized)
    return Rows(probabilities, score.weights, key, tolerance_of(probabilities), seeds=row_seeds(X, key), u=uniforms)
