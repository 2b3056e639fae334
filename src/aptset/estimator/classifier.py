"""The scikit-learn face: any classifier, with prediction sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import check_is_fitted

from aptset.calibrations.checks import warn_no_promise
from aptset.calibrations.promises import Promises
from aptset.calibrations.scheme import Scheme
from aptset.estimator.checks import warn_unseen_labels
from aptset.estimator.conformal import fit, fit_and_predict, prepare
from aptset.estimator.fitted import Fitted
from aptset.estimator.fitting import mean_probabilities
from aptset.estimator.frames import frame_of_rows
from aptset.estimator.saving import save_classifier
from aptset.estimator.state import STATE, flat_scheme, flat_score, flatten, full_scheme, full_score, rebuild
from aptset.kernels.formula import Floats
from aptset.probabilities.calibration import Calibration
from aptset.probabilities.cross import CrossCalibration
from aptset.rich import html_note
from aptset.scores import Places, Score
from aptset.sets import PredictionSets
from aptset.tables import Backend, make_table
from aptset.validation.settings import (
    check_alpha,
    check_alphas,
    check_option,
    warn_if_too_few,
)

_LEARNED = ("fitted_", "classes_", "models_", "n_calibration_", "unseen_label_chance_", "conformity_")


class ConformalClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Give any classifier prediction sets that hold the true label with probability at least 1 - alpha.

    Parameters
    ----------
    estimator : classifier
        Anything with ``fit`` and ``predict_proba``. A fitted model wrapped in
        ``sklearn.frozen.FrozenEstimator`` is left as it is, and every row passed to ``fit`` calibrates: it goes with
        ``calibration="split"`` only.
    calibration : str or object, default="split"
        Which rows train and which calibrate: "split" (:class:`Split`), "cv+" (:class:`CVPlus`), "jackknife+"
        (:class:`JackknifePlus`), "minimax" (:class:`Minimax`), "bootstrap" (:class:`Bootstrap`), "out-of-bag"
        (:class:`OutOfBag`, for forests), or one with settings of its own. ``guarantee`` says what each promises.
    conformity : str, score or function of :class:`Places`, default="adaptive"
        How strange a label is for a row: "adaptive" ("aps"), "homogeneous" ("lac", "thr"), "regularized" ("raps"),
        "saps", "margin", "rank" ("topk"), a score with settings of its own, or any function. "auto" sets a fifth of the
        rows aside (4,000 at most, drawn by ``random_state``) and chooses on them as :func:`tune` does, under models
        trained on them out of fold; they neither train nor calibrate what is kept, so the promise stands.
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
        False takes u = 1 everywhere: chance only orders equal probabilities. Sets cover as promised, or far more
        where scores tie: with confident probabilities most scores are 0, and the coverage is that of the most likely
        label. With the adaptive score under one model (a split) no set is empty.
    allow_empty : bool, default=True
        If False, an empty set gets its most likely label, which can only raise the coverage.
    n_jobs : int, optional
        How many folds are fitted at once, through joblib; results do not depend on it.
    progress : bool, default=False
        Show a bar while folds are fitted, if standard error is a terminal.
    random_state : None, int or numpy random generator, optional
        Decides the folds, the key of the uniforms, and every ``random_state`` of the estimator that is None.
    classes : array, optional
        All labels that may come, seen in y or not: the promise is then about all of them. By default the labels in y
        (and those that a frozen model knows), and the promise is about these; ``fit`` warns if others may well come.
    fold_seeds : {"common", "own"}, default="common"
        Whether the models of all folds get the same seed for every ``random_state`` of the estimator that is None, as
        in the authors' code, or each its own. With own seeds the models differ more, and sets are larger.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    models_ : list of classifiers
        The fitted clone of the estimator for each fold.
    n_calibration_ : int
        Number of calibration samples.
    conformity_ : score
        The score that was calibrated: what a name stands for, or what "auto" chose.
    unseen_label_chance_ : float
        About the chance that a new row carries a label that is not in ``classes_``: (labels seen once) / (rows + 1), a
        frozen model's labels apart; 0 if ``classes`` was given.
    calibration_ : Calibration or CrossCalibration
        What was calibrated, apart from the models: to be asked with probabilities of the same models, and saved; after
        a split also to be merged.
    fitted_ : Fitted
        Everything that was learned, as one value.

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
        conformity: str | Score | Callable[[Places], Any] = "adaptive",
        alpha: float = 0.1,
        groups: str | int | Callable[[Any], Any] | None = None,
        level: Literal["nominal", "guaranteed"] = "nominal",
        randomized: bool = True,
        allow_empty: bool = True,
        n_jobs: int | None = None,
        progress: bool = False,
        random_state: Any = None,
        classes: Any = None,
        fold_seeds: Literal["common", "own"] = "common",
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
        self.classes = classes
        self.fold_seeds = fold_seeds

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        **fit_params: Any,
    ) -> ConformalClassifier:
        """Train and calibrate.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list, one entry per sample
            Whatever the estimator takes.
        y : array
            The labels: strings, numbers or booleans.
        groups : array, optional
            The group of each row; ``predict_set`` then needs the groups of the new rows.
        u : array of float in [0, 1], optional
            The uniform of each row; by default a keyed hash of the content of the row and of which copy it is, where
            equal rows come more than once. Whoever passes it here must pass it with the new rows as well.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone. A text names a column of the data frame X, which stays among
            the features (pass ``ids=X.pop("name")`` to take it out); an index that names the rows is passed as
            ``ids=X.index``.
        **fit_params : dict
            Passed to the estimator's ``fit``; values with one entry per sample are cut to the rows that train.
            ``sample_weight`` therefore weighs the training only, never the calibration.

        Returns
        -------
        ConformalClassifier
            The fitted classifier itself.
        """
        alpha = check_alpha(self.alpha)
        rule, training, promises = prepare(self, X, y, groups, u, ids, self._route(fit_params))
        self._levels([alpha], promises)  # a promise that cannot be kept is refused before anything is fitted
        warn_unseen_labels(rule.unseen_label_chance, alpha)
        return self._keep(fit(rule, training, self.n_jobs, self.progress))

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
        u_new: ArrayLike | None = None,
        ids: Any = None,
        ids_new: Any = None,
        **fit_params: Any,
    ) -> PredictionSets | list[PredictionSets]:
        """Train, calibrate and predict in one go: each fold's model is fitted, used and dropped.

        Memory holds one model per worker, where ``fit`` keeps one per fold: what makes the jackknife+ affordable. The
        sets are those of ``fit(X, y).predict_set(X_new)``.

        Parameters
        ----------
        X, y, groups, u, ids
            As in ``fit``.
        X_new, alpha
            As in ``predict_set``.
        groups_new, u_new, ids_new
            The same for the new rows, as in ``predict_set``.
        **fit_params : dict
            As in ``fit``.
        """
        alphas, is_sequence = check_alphas(self.alpha if alpha is None else alpha)
        rule, training, promises = prepare(self, X, y, groups, u, ids, self._route(fit_params))
        levels = self._levels(alphas, promises)
        warn_unseen_labels(rule.unseen_label_chance, min(alphas))
        samples, values = rule.samples(X_new, groups_new, u_new, ids_new)
        fitted, sets = fit_and_predict(rule, training, samples, levels, self.allow_empty, self.n_jobs, self.progress)
        self._keep(fitted)
        met = fitted.held_out.meet(values, len(samples))[1]
        warn_if_too_few(met, alphas, rule.groups.kind != "all", levels=levels)
        return sets if is_sequence else sets[0]

    def _keep(self, fitted: Fitted) -> ConformalClassifier:
        """Write the fitted attributes, all at once: everything has worked."""
        self.fitted_, self.classes_, self.models_ = fitted, fitted.rule.classes, fitted.models
        self.n_calibration_, self.unseen_label_chance_ = fitted.held_out.n, fitted.rule.unseen_label_chance
        self.conformity_ = fitted.rule.score
        for name in ("n_features_in_", "feature_names_in_"):
            if fitted.models and hasattr(fitted.models[0], name):
                setattr(self, name, getattr(fitted.models[0], name))
            elif hasattr(self, name):
                delattr(self, name)
        return self

    @overload
    def predict_set(
        self,
        X: Any,
        alpha: float | None = ...,
        *,
        groups: ArrayLike | None = ...,
        u: ArrayLike | None = ...,
        ids: Any = ...,
    ) -> PredictionSets: ...
    @overload
    def predict_set(
        self,
        X: Any,
        alpha: Sequence[float],
        *,
        groups: ArrayLike | None = ...,
        u: ArrayLike | None = ...,
        ids: Any = ...,
    ) -> list[PredictionSets]: ...
    def predict_set(
        self,
        X: Any,
        alpha: Any = None,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
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
            The uniform of each row, where u was passed to ``fit``; by default a keyed hash of the content of the row.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone, so that a row has the same set wherever and however often it
            comes.

        Returns
        -------
        PredictionSets, or a list of them
        """
        fitted = self._fitted()
        alphas, is_sequence = check_alphas(self.alpha if alpha is None else alpha)
        levels = self._levels(alphas, fitted.promises)
        samples, values = fitted.rule.samples(X, groups, u, ids)
        met = fitted.held_out.meet(values, len(samples))[1]
        warn_if_too_few(met, alphas, fitted.rule.groups.kind != "all", levels=levels)
        sets = [some.named_as(X) for some in fitted.sets(samples, levels, self.allow_empty, self.n_jobs)]
        return sets if is_sequence else sets[0]

    def p_values(
        self, X: Any, *, groups: ArrayLike | None = None, u: ArrayLike | None = None, ids: Any = None
    ) -> Floats:
        """Return the p-value of every label, (rows, classes): the share of scores at least as large as the label's own.

        A label is in ``predict_set(X, alpha)`` iff its value exceeds ``input_level(alpha)``, which is alpha unless
        ``level="guaranteed"``. (With ``allow_empty=False`` an empty set gets its most likely label on top of that.)

        After a split it is a p-value in the exact sense: that of the true label is at most t with probability at most
        t. CV+, the jackknife+ and minimax pool the scores of several models, and the probability is at most one minus
        the promise at the level t: for the jackknife+ at most 2t, so that twice the value is a p-value.
        """
        fitted = self._fitted()
        samples, _ = fitted.rule.samples(X, groups, u, ids)
        return fitted.p_values(samples, self.n_jobs)

    def predict_p(self, X: Any, **options: Any) -> Floats:
        """Return :meth:`p_values`, which is its name now; the old one goes after 0.1."""
        warnings.warn("predict_p is now called p_values; the old name goes after 0.1.", FutureWarning, stacklevel=2)
        return self.p_values(X, **options)

    def sets_and_p_values(
        self, X: Any, alpha: float | None = None, *, groups: Any = None, u: Any = None, ids: Any = None
    ) -> tuple[PredictionSets, Floats]:
        """Return what :meth:`predict_set` and :meth:`p_values` return, and ask the models once.

        The parameters are those of ``predict_set``.

        Examples
        --------
        >>> import aptset
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
        >>> sets, p_values = classifier.sets_and_p_values(X, alpha=0.1)
        >>> bool((sets.mask == (p_values > 0.1)).all())
        True
        """
        sets, p_values, _ = self._answer(X, alpha, groups, u, ids)
        return sets, p_values

    def _answer(
        self, X: Any, alpha: float | None, groups: Any, u: Any, ids: Any
    ) -> tuple[PredictionSets, Floats, NDArray[np.generic]]:
        fitted, asked = self._fitted(), check_alpha(self.alpha if alpha is None else alpha)
        (level,) = self._levels([asked], fitted.promises)
        samples, values = fitted.rule.samples(X, groups, u, ids)
        met = fitted.held_out.meet(values, len(samples))[1]
        warn_if_too_few(met, [asked], fitted.rule.groups.kind != "all", levels=[level])
        sets, p_values, probabilities = fitted.answer(samples, level, self.allow_empty, self.n_jobs)
        return sets.named_as(X), p_values, probabilities

    def predict_frame(
        self,
        X: Any,
        alpha: float | None = None,
        *,
        groups: Any = None,
        u: Any = None,
        ids: Any = None,
        backend: Backend = "pandas",
    ) -> Any:
        """Return a data frame with what is worth knowing about each row, and with the index of X.

        Columns: ``prediction``, the most likely label, its ``probability`` and ``p_value``, and the ``size`` and the
        ``labels`` of the set.

        Parameters
        ----------
        X, alpha, groups, u, ids
            As in ``predict_set``.
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the frame.

        Examples
        --------
        >>> import aptset, pandas as pd
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X = pd.DataFrame({"x": [0.0, 0.1, 0.9, 1.0] * 20})
        >>> y = ["low", "low", "high", "high"] * 20
        >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
        >>> classifier.predict_frame(X.iloc[[3, 4]], ids=["a", "b"])[["prediction", "size"]]
          prediction  size
        3       high     1
        4        low     1
        """
        return frame_of_rows(*self._answer(X, alpha, groups, u, ids), backend)

    def p_frame(
        self, X: Any, *, groups: Any = None, u: Any = None, ids: Any = None, backend: Backend = "pandas"
    ) -> Any:
        """Return :meth:`p_values` as a data frame, one column per label, with the index of X."""
        values = self.p_values(X, groups=groups, u=u, ids=ids)
        names = [label if backend == "pandas" else str(label) for label in self.classes_.tolist()]
        columns = {name: values[:, k] for k, name in enumerate(names)}
        return make_table(columns, backend, X.index if hasattr(X, "iloc") else None)

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return the probabilities of the fitted model (the mean over folds), one column per entry of ``classes_``."""
        return mean_probabilities(self._fitted().models, X, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        labels: NDArray[Any] = self._fitted().rule.classes[np.argmax(self.predict_proba(X), axis=1)]
        return labels

    @property
    def calibration_(self) -> Calibration | CrossCalibration:
        """What was calibrated, for people who have the probabilities of the models at hand.

        After a split it is a :class:`Calibration`, after several folds a :class:`CrossCalibration` that takes the
        probabilities of each model in ``models_``. With ``ids`` in ``fit`` its sets are those of the classifier.
        Otherwise the classifier draws u from X, which a calibration never sees: a :class:`Calibration` draws its own
        from the probabilities, so that a set near the threshold may differ, and a :class:`CrossCalibration` asks for u.
        """
        check_is_fitted(self)
        fitted: Fitted = self.fitted_
        return fitted.calibration(self.allow_empty)

    def guarantee(self, alpha: float | None = None) -> float:
        """Return the coverage that the theorem promises at this level, for this calibration and sample size.

        With groups it is the promise that holds in every group. It is about known labels: a new row's label is in the
        set, or was never seen, with this probability. ``unseen_label_chance_`` says about how often the latter happens;
        it is 0 if ``classes`` names all labels that may come. For folds of a splitter that may look at y nothing is
        proven: the number is then 0, and a warning says so.
        """
        check_is_fitted(self)
        promises: Promises = self.fitted_.promises
        (level,) = self._levels([check_alpha(self.alpha if alpha is None else alpha)], promises)
        warn_no_promise(promises.reason_of_nothing(level))
        return float(promises.coverage(level))

    def input_level(self, alpha: float | None = None) -> float:
        """Return the level at which calibration runs: alpha itself, or a smaller one with level="guaranteed".

        ``p_values(X) > input_level(alpha)`` is ``predict_set(X, alpha).mask``, to the last label.
        """
        check_is_fitted(self)
        (level,) = self._levels([check_alpha(self.alpha if alpha is None else alpha)], self.fitted_.promises)
        return float(level)

    def _levels(self, alphas: list[Fraction], promises: Promises) -> list[Fraction]:
        level = check_option(self.level, ("nominal", "guaranteed"), "level")
        return alphas if level == "nominal" else [promises.level(alpha) for alpha in alphas]

    def _fitted(self) -> Fitted:
        check_is_fitted(self)
        fitted: Fitted = self.fitted_.with_models()
        return fitted

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        if not _routing_enabled():
            return fit_params
        routed: dict[str, Any] = process_routing(self, "fit", **fit_params).estimator.fit
        return routed

    def get_metadata_routing(self) -> MetadataRouter:
        """Pass the metadata of ``fit`` on to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

    def save(self, folder: str | Path) -> None:
        """Write a folder from which :func:`load` makes the classifier again: models in skops format, and no pickle.

        Format 1 is read by every later version of aptset. The models are those of scikit-learn and other libraries:
        they open with the version that wrote them, and mostly with later ones.

        Parameters
        ----------
        folder : path
            Made if it is not there. A classifier that was saved there before is replaced, at once or not at all.

        Examples
        --------
        >>> import aptset, tempfile
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     classifier.save(folder)
        ...     sets = aptset.load(folder).predict_set(X)
        >>> sets == classifier.predict_set(X)
        True
        """
        self._fitted()
        save_classifier(self, Path(folder))

    def __getstate__(self) -> dict[str, Any]:
        """Return settings and what was learned as plain values: skops then asks for this class alone."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "fitted_" in state:
            for name in _LEARNED:
                state.pop(name, None)
            state[STATE] = flatten(self.fitted_)
        state["calibration"], state["conformity"] = flat_scheme(self.calibration), flat_score(self.conformity)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        learned = state.pop(STATE, None)
        state["calibration"] = full_scheme(state["calibration"], "this state")
        state["conformity"] = full_score(state["conformity"], "this state")
        super().__setstate__(state)
        if learned is not None:
            self._keep(rebuild(learned))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        settings = str(super().__repr__(N_CHAR_MAX))
        if not hasattr(self, "fitted_"):
            return settings
        try:
            (level,) = self._levels([check_alpha(self.alpha)], self.fitted_.promises)
            promise = self.fitted_.promise_in_words(level)
        except (TypeError, ValueError) as error:  # settings changed since fit: show them all the same
            promise = str(error)
        return f"{settings}\n# {self.fitted_.in_words()}: {promise}"

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, and below it what is promised."""
        diagram = str(super()._html_repr())
        if not hasattr(self, "fitted_"):
            return diagram
        return diagram + html_note(repr(self).rpartition("\n# ")[2])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            of_estimator = get_tags(self.estimator)
            tags.input_tags = of_estimator.input_tags
            if of_estimator.classifier_tags is not None:
                tags.classifier_tags.poor_score = of_estimator.classifier_tags.poor_score
        return tags
