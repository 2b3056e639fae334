"""The scikit-learn face: any classifier, with prediction sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import _num_samples, check_is_fitted

from aptset import fitting
from aptset.calibrations import CALIBRATIONS
from aptset.calibrations.held_out import FoldScores, HeldOut
from aptset.calibrations.split import Fold, Scheme, Split
from aptset.calibrations.tally import chunks, p_values_of_one_model, sets_of_one_model
from aptset.groups import Groups
from aptset.kernels.formula import Floats, Weights
from aptset.rows import row_seeds
from aptset.scores import Score
from aptset.sets import PredictionSets, concatenate
from aptset.validation.estimators import (
    check_estimator_can,
    check_frozen,
    check_models_kept,
    check_training_data,
)
from aptset.validation.groups import check_group_values, check_same_kind
from aptset.validation.matrices import OF_ESTIMATOR, uniforms_of
from aptset.validation.settings import (
    check_alpha,
    check_alphas,
    check_choice,
    check_conformity,
    check_generator,
    check_option,
    check_reachable,
    draw_key,
    warn_if_too_few,
)


class ConformalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Give any classifier prediction sets that hold the true label with probability at least 1 - alpha.

    Parameters
    ----------
    estimator : classifier
        Anything with ``fit`` and ``predict_proba``. A fitted model wrapped in
        ``sklearn.frozen.FrozenEstimator`` is left as it is, and every row passed to ``fit`` calibrates.
    calibration : {"split", "cv+", "jackknife+", "minimax"} or object, default="split"
        Which rows train and which calibrate: :class:`Split`, :class:`CVPlus`, :class:`JackknifePlus`,
        :class:`Minimax`. ``guarantee`` says what each promises.
    conformity : {"adaptive", "homogeneous", "regularized"} or score, default="adaptive"
        How strange a label is for a row.
    alpha : float, default=0.1
        Miscoverage level of ``predict_set``; it may be overridden there.
    groups : None, "label", a column of X, or a callable on X, optional
        Calibrate within groups, so that the promise holds in each: "label" for every true label, else for every value
        of a column (by name in a data frame, by number in an array) or of what the callable returns for X. Groups may
        also be passed to ``fit`` and ``predict_set``.
    level : {"nominal", "guaranteed"}, default="nominal"
        "guaranteed" runs the calibration at an input level at which the theorem promises 1 - alpha; for CV+ and the
        jackknife+ that is near alpha / 2. ``input_level`` says which.
    randomized : bool, default=True
        False takes u = 1 everywhere: never-empty sets that do not depend on chance, and cover a little more.
    allow_empty : bool, default=True
        If False, an empty set gets its most likely label, which can only raise the coverage.
    n_jobs : int, optional
        How many folds are fitted at once, through joblib; results do not depend on it.
    progress : bool, default=False
        Show a bar while folds are fitted, if standard error is a terminal.
    random_state : None, int or numpy random generator, optional
        Decides the folds, the key of the uniforms, and every ``random_state`` of the estimator that is None.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    models_ : list of classifiers
        The fitted clone of the estimator for each fold.
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
    >>> classifier.guarantee(0.05)
    0.95
    """

    def __init__(
        self,
        estimator: Any,
        *,
        calibration: str | Scheme = "split",
        conformity: str | Score = "adaptive",
        alpha: float = 0.1,
        groups: str | int | Callable[[Any], Any] | None = None,
        level: Literal["nominal", "guaranteed"] = "nominal",
        randomized: bool = True,
        allow_empty: bool = True,
        n_jobs: int | None = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.conformity = conformity
        self.alpha = alpha
        self.groups = groups
        self.level = level
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.n_jobs = n_jobs
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: ArrayLike | None = None, **fit_params: Any) -> ConformalClassifier:
        """Train and calibrate.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list, one entry per sample
            Whatever the estimator takes.
        y : array
            The labels: strings, numbers or booleans.
        groups : array, optional
            The group of each row; ``predict_set`` then needs the groups of the new rows.
        **fit_params : dict
            Passed to the estimator's ``fit``; values with one entry per sample are cut to the rows that train.
            ``sample_weight`` therefore weighs the training only, never the calibration.

        Returns
        -------
        ConformalClassifier
            The fitted classifier itself.
        """
        training, scheme, score = self._prepare(X, y, groups, fit_params)
        fitted = fitting.fit_folds(training, self.n_jobs, self.progress)
        return self._keep(training, scheme, score, [model for model, _ in fitted], [fold for _, fold in fitted])

    def fit_predict_set(
        self,
        X: Any,
        y: Any,
        X_new: Any,
        alpha: Any = None,
        *,
        groups: ArrayLike | None = None,
        groups_new: ArrayLike | None = None,
        u: ArrayLike | None = None,
        **fit_params: Any,
    ) -> PredictionSets | list[PredictionSets]:
        """Train, calibrate and predict in one go: each fold's model is fitted, used and dropped.

        Memory holds one model per worker, where ``fit`` keeps one per fold: what makes the jackknife+ affordable. The
        sets are those of ``fit(X, y).predict_set(X_new)``.

        Parameters
        ----------
        X, y, groups
            As in ``fit``.
        X_new, alpha, u
            As in ``predict_set``.
        groups_new : array, optional
            The group of each new row.
        **fit_params : dict
            As in ``fit``.
        """
        alphas, is_sequence = check_alphas(self.alpha if alpha is None else alpha)
        training, scheme, score = self._prepare(X, y, groups, fit_params)
        common = (self.groups, training.groups, self.randomized, score.weights, training.samples.key)
        samples, values = _samples(X_new, u, groups_new, *common)
        folds, tally = fitting.tally_folds(
            training, len(training.folds), samples, training.classes, scheme.minimax, self.n_jobs, self.progress
        )
        self._keep(training, scheme, score, [], folds)
        levels = [self._input_level(level) for level in alphas]
        warn_if_too_few(self.held_out_.meet(values, len(samples))[1], levels, training.groups.kind != "all")
        sets = tally.sets(self.held_out_, samples.ids, levels, self.classes_, self.allow_empty)
        return sets if is_sequence else sets[0]

    def _prepare(
        self, X: Any, y: Any, passed_groups: Any, fit_params: dict[str, Any]
    ) -> tuple[fitting.Training, Scheme, Score]:
        """Check everything, draw everything random, and write nothing."""
        check_estimator_can(self.estimator)
        check_alphas(self.alpha)
        check_option(self.level, ("nominal", "guaranteed"), "level")
        score = check_conformity(self.conformity)
        scheme: Scheme = check_choice(self.calibration, CALIBRATIONS, "folds", "calibration")
        generator = check_generator(self.random_state)
        frozen = fitting.is_frozen(self.estimator)
        X, y, classes = check_training_data(self, X, y, minimum=1 if frozen else 2)
        key = draw_key(generator)
        if frozen:  # nothing to train: one fold that holds every row out
            scheme, folds = Split(), [Fold(np.arange(len(y)), np.arange(0))]
            classes = check_frozen(self.estimator, classes, fit_params)
        else:
            folds = scheme.folds(X, y, generator)
        values = check_group_values(self.groups, passed_groups, X, len(y))
        groups = Groups.of(values, self.groups, classes)
        seeds = [
            None if self.random_state is None else int(seed) for seed in generator.integers(2**63, size=len(folds))
        ]
        u = uniforms_of(None, len(y), self.randomized)
        samples = fitting.Samples(X, row_seeds(X, key), u, groups.ids(values, len(y)), score.weights, key)
        routed = self._route(fit_params)
        return fitting.Training(self.estimator, samples, y, classes, groups, folds, seeds, routed), scheme, score

    def _keep(
        self, training: fitting.Training, scheme: Scheme, score: Score, models: list[Any], folds: list[FoldScores]
    ) -> ConformalClassifier:
        """Write the fitted attributes, all at once: everything has worked."""
        self.classes_, self.models_, self.scheme_, self.score_ = training.classes, models, scheme, score
        # Both sides of the comparison must use the same rule: later changes of these settings wait for the next fit.
        self.randomized_, self.groups_ = self.randomized, self.groups
        self.held_out_ = HeldOut(tuple(folds), training.groups, scheme.minimax)
        self.key_, self.n_calibration_ = training.samples.key, self.held_out_.n
        for name in ("n_features_in_", "feature_names_in_"):
            if models and hasattr(models[0], name):
                setattr(self, name, getattr(models[0], name))
            elif hasattr(self, name):
                delattr(self, name)
        return self

    @overload
    def predict_set(
        self, X: Any, alpha: float | None = ..., *, groups: ArrayLike | None = ..., u: ArrayLike | None = ...
    ) -> PredictionSets: ...
    @overload
    def predict_set(
        self, X: Any, alpha: Sequence[float], *, groups: ArrayLike | None = ..., u: ArrayLike | None = ...
    ) -> list[PredictionSets]: ...
    def predict_set(
        self, X: Any, alpha: Any = None, *, groups: ArrayLike | None = None, u: ArrayLike | None = None
    ) -> PredictionSets | list[PredictionSets]:
        """Return the prediction set of each row.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list
            The samples.
        alpha : float or sequence of float, optional
            Miscoverage level, by default the one of the constructor. For a sequence, a list with the sets of each
            level is returned.
        groups : array, optional
            The group of each row, where groups were passed to ``fit``.
        u : array of float in [0, 1], optional
            The uniform of each row; by default a keyed hash of the content of the row.

        Returns
        -------
        PredictionSets, or a list of them
        """
        check_is_fitted(self)
        alphas, is_sequence = check_alphas(self.alpha if alpha is None else alpha)
        levels = [self._input_level(level) for level in alphas]
        samples, values = self._new_samples(X, groups, u)
        warn_if_too_few(self.held_out_.meet(values, len(samples))[1], levels, self.held_out_.groups.kind != "all")
        parts = []
        for some in self._pieces(samples):
            if len(self.models_) == 1:
                rows, common = some.under(self.models_[0], self.classes_), (levels, self.classes_, self.allow_empty)
                parts.append(sets_of_one_model(self.held_out_, rows, some.ids, *common, OF_ESTIMATOR))
            else:
                tally = self._tally(some)
                parts.append(tally.sets(self.held_out_, some.ids, levels, self.classes_, self.allow_empty))
        sets = [concatenate(list(of_level)) for of_level in zip(*parts, strict=True)]
        return sets if is_sequence else sets[0]

    def predict_p(self, X: Any, *, groups: ArrayLike | None = None, u: ArrayLike | None = None) -> Floats:
        """Return the conformal p-value of every label, (rows, classes): a label is in the set iff it exceeds alpha."""
        check_is_fitted(self)
        samples, _ = self._new_samples(X, groups, u)
        parts = []
        for some in self._pieces(samples):
            if len(self.models_) == 1:
                rows = some.under(self.models_[0], self.classes_)
                parts.append(p_values_of_one_model(self.held_out_, rows, some.ids, OF_ESTIMATOR))
            else:
                parts.append(self._tally(some).p_values(self.held_out_, some.ids))
        return np.concatenate(parts)

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return the probabilities of the fitted model (the mean over folds), one column per entry of ``classes_``."""
        check_is_fitted(self)
        check_models_kept(self.models_)
        return fitting.mean_probabilities(self.models_, X, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return labels

    def guarantee(self, alpha: float | None = None) -> float:
        """Return the coverage that the theorem promises at this level, for this calibration and sample size.

        With groups it is the promise within each group, from the theorem at the size of the smallest one.
        """
        check_is_fitted(self)
        level = self._input_level(check_alpha(self.alpha if alpha is None else alpha))
        return max(0.0, float(self.scheme_.bound(level, *self._size())))

    def input_level(self, alpha: float | None = None) -> float:
        """Return the level at which calibration runs: alpha itself, or a smaller one with level="guaranteed"."""
        check_is_fitted(self)
        return float(self._input_level(check_alpha(self.alpha if alpha is None else alpha)))

    def _size(self) -> tuple[int, int]:
        n = int(self.held_out_.sizes[self.held_out_.sizes > 0].min())
        return n, min(n, len(self.held_out_.folds))

    def _input_level(self, alpha: Fraction) -> Fraction:
        if self.level == "nominal":
            return alpha
        return check_reachable(self.scheme_.level(alpha, *self._size()), alpha, self.scheme_.name)

    def _new_samples(
        self, X: Any, groups: ArrayLike | None, u: ArrayLike | None
    ) -> tuple[fitting.Samples, list[Any] | None]:
        check_models_kept(self.models_)
        known = self.held_out_.groups
        return _samples(X, u, groups, self.groups_, known, self.randomized_, self.score_.weights, self.key_)

    def _pieces(self, samples: fitting.Samples) -> Iterator[fitting.Samples]:
        """Yield as many samples at a time as keep the memory bounded."""
        pieces = chunks(len(samples), len(self.classes_))
        yield from [samples] if len(pieces) == 1 else map(samples.some, pieces)

    def _tally(self, samples: fitting.Samples) -> Any:
        kept = list(zip(self.models_, self.held_out_.folds, strict=True))
        minimax = self.held_out_.minimax
        _, tally = fitting.tally_folds(
            kept.__getitem__, len(kept), samples, self.classes_, minimax, self.n_jobs, prefer="threads"
        )
        return tally

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        if not _routing_enabled():
            return fit_params
        routed: dict[str, Any] = process_routing(self, "fit", **fit_params).estimator.fit
        return routed

    def get_metadata_routing(self) -> MetadataRouter:
        """Pass the metadata of ``fit`` on to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        settings = str(super().__repr__(N_CHAR_MAX))
        if not hasattr(self, "held_out_"):
            return settings
        n, n_folds = self.held_out_.n, len(self.held_out_.folds)
        how = f"{self.scheme_.name}, {n} samples" + (f" in {n_folds} folds" if n_folds > 1 else "")
        return f"{settings}\n# promises coverage >= {self.guarantee():.4g} ({how}, level {self.input_level():.4g})"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            of_estimator = get_tags(self.estimator)
            tags.input_tags = of_estimator.input_tags
            if of_estimator.classifier_tags is not None:
                tags.classifier_tags.poor_score = of_estimator.classifier_tags.poor_score
        return tags


def _samples(
    X: Any,
    u: ArrayLike | None,
    passed_groups: Any,
    setting: Any,
    groups: Groups,
    randomized: bool,
    weights: Weights,
    key: int,
) -> tuple[fitting.Samples, list[Any] | None]:
    """Put together what the scores of new rows depend on, and the group of each row where there are groups."""
    (X,) = indexable(X)
    n = _num_samples(X)
    values = check_group_values(setting, passed_groups, X, n)
    check_same_kind(groups.kind, values)
    uniforms = uniforms_of(u, n, randomized)
    return fitting.Samples(X, row_seeds(X, key), uniforms, groups.ids(values, n), weights, key), values
