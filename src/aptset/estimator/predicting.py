"""What a fitted classifier is asked: sets, p-values, probabilities, and what it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from aptset import Acceptance, Calibration, CrossCalibration, PredictionSets
from aptset.calibration.formulas import Confidence, confidence_of
from aptset.conformal.clusters import promised, refuse_guaranteed_clusters
from aptset.conformal.importance import refuse_guaranteed
from aptset.conformal.scheme import Promises, warn_no_promise
from aptset.core import validate
from aptset.core.levels import Assurance, CellLevel, Level, alpha_of, check_alphas, check_level
from aptset.core.randomization import NewU
from aptset.core.tables import Backend, library_of, make_table
from aptset.estimator.decisions import check_decisions, frame_of_rows, promise_in_words
from aptset.estimator.fitted import Fitted, mean_probabilities
from aptset.kernels.formula import Floats


class Answering(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """All that can be asked of a classifier once ``fit`` has kept what it learned."""

    @overload
    def predict_set(
        self,
        X: Any,
        alpha: float | Mapping[Any, float] | None = ...,
        *,
        groups: ArrayLike | None = ...,
        u: NewU = ...,
        ids: Any = ...,
        assurance: float | Assurance | None = ...,
    ) -> PredictionSets: ...
    @overload
    def predict_set(
        self,
        X: Any,
        alpha: Sequence[float | Mapping[Any, float]],
        *,
        groups: ArrayLike | None = ...,
        u: NewU = ...,
        ids: Any = ...,
        assurance: float | Assurance | None = ...,
    ) -> list[PredictionSets]: ...
    def predict_set(
        self,
        X: Any,
        alpha: Any = None,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        assurance: float | Assurance | None = None,
        **foreign: Any,
    ) -> PredictionSets | list[PredictionSets]:
        """Return the prediction set of each row.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list
            The samples.
        alpha : float, mapping, or sequence of them, optional
            Miscoverage level, by default the one of the constructor; with ``groups``, one level for each by name:
            ``{"malignant": 0.01, "benign": 0.1}`` with ``groups="label"``. For a sequence, a list with the sets of each
            level is returned.
        groups : array, optional
            The group of each row, where groups were passed to ``fit``; of overlapping groups a matrix or a frame.
        u : array of float in [0, 1], "fresh" or numpy Generator, optional
            The uniform of each row, where u was passed to ``fit``; by default a keyed hash of the content of the row,
            and of which copy it is in this call. With "fresh", or a generator of your own, every call draws anew: for
            small batches of rows that repeat, and have no ids. A row then has another set in the next call.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone, so that a row has the same set wherever and however often it
            comes.
        assurance : float or Assurance, optional
            With this probability the calibration at hand, and not the average one, covers at least 1 - alpha, in each
            group; by default as in the constructor. After a split only, and without weights.
        **foreign
            Keywords of other libraries: the error says what they are called here.

        Returns
        -------
        PredictionSets, or a list of them
        """
        if foreign:
            validate.refuse_foreign_keywords("predict_set", foreign)
        fitted = self._fitted()
        alphas, is_sequence = self._asked(alpha, assurance)
        levels = self._levels(alphas, fitted.promises)
        samples = fitted.placed(*fitted.rule.samples(X, groups, u, ids), alphas, levels)
        sets = [of_level.named_as(X) for of_level in fitted.sets(samples, levels, self.allow_empty, self.n_jobs)]
        return sets if is_sequence else sets[0]

    def p_values(self, X: Any, *, groups: ArrayLike | None = None, u: NewU = None, ids: Any = None) -> Floats:
        """Return the p-value of every label, (rows, classes): the share of scores at least as large as the label's own.

        A label is in ``predict_set(X, alpha)`` iff its value exceeds ``input_level(alpha)``, which is alpha unless
        ``level="guaranteed"``. (With ``allow_empty=False`` an empty set gets its most likely label on top of that.)

        After a split it is a p-value in the exact sense: that of the true label is at most t with probability at most
        t. CV+, the jackknife+ and minimax pool the scores of several models, and the probability is at most one minus
        the promise at the level t: for the jackknife+ at most 2t, so that twice the value is a p-value.
        """
        fitted = self._fitted()
        return fitted.p_values(fitted.placed(*fitted.rule.samples(X, groups, u, ids)), self.n_jobs)

    def sets_and_p_values(
        self,
        X: Any,
        alpha: float | Mapping[Any, float] | None = None,
        *,
        groups: Any = None,
        u: NewU = None,
        ids: Any = None,
        assurance: float | Assurance | None = None,
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
        sets, p_values, _ = self._answer(X, alpha, groups, u, ids, assurance)
        return sets, p_values

    def confidence(self, X: Any, *, groups: Any = None, u: NewU = None, ids: Any = None) -> Confidence:
        """Return for each row the label with the largest p-value, and how it stands out.

        ``confidence`` is 1 minus the second largest p-value, ``credibility`` the largest one. After a split a wrong
        guess with a confidence of at least 1 - e comes with probability at most e; with several folds at most one
        minus the promise at e. Neither is the probability that this guess is right: see
        :meth:`Calibration.confidence`. The parameters are those of ``p_values``.

        Examples
        --------
        >>> import aptset
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
        >>> guess, confidence, credibility = classifier.confidence(X[:2])
        >>> guess, confidence >= 0.9
        (array([0, 0]), array([ True,  True]))
        """
        fitted = self._fitted()
        samples = fitted.placed(*fitted.rule.samples(X, groups, u, ids))
        _, p_values, probabilities = fitted.answer(samples, Fraction(1, 2), True, self.n_jobs)
        return confidence_of(p_values, probabilities, self.classes_)

    def _answer(
        self, X: Any, alpha: Any, groups: Any, u: Any, ids: Any, assurance: Any = None
    ) -> tuple[PredictionSets, Floats, NDArray[np.generic]]:
        fitted = self._fitted()
        requested, level = self._level(alpha, assurance)
        samples = fitted.placed(*fitted.rule.samples(X, groups, u, ids), [requested], [level])
        sets, p_values, probabilities = fitted.answer(samples, level, self.allow_empty, self.n_jobs)
        return sets.named_as(X), p_values, probabilities

    def predict_frame(
        self,
        X: Any,
        alpha: float | Mapping[Any, float] | None = None,
        *,
        groups: Any = None,
        u: NewU = None,
        ids: Any = None,
        backend: Backend | None = None,
        assurance: float | Assurance | None = None,
    ) -> Any:
        """Return a data frame with what is worth knowing about each row, and with the index of X.

        Columns: ``prediction``, the most likely label, its ``probability`` and ``p_value``, and the ``size`` and the
        ``labels`` of the set.

        Parameters
        ----------
        X, alpha, groups, u, ids, assurance
            As in ``predict_set``.
        backend : {"pandas", "polars", "pyarrow"}, optional
            The library of the frame; by default that of X, pandas for arrays.

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
        return frame_of_rows(*self._answer(X, alpha, groups, u, ids, assurance), backend or library_of(X) or "pandas")

    def act_or_ask(
        self,
        X: Any,
        error: float | Mapping[Any, float] = 0.05,
        alpha: float | Mapping[Any, float] | None = None,
        *,
        assurance: float = 0.9,
        groups: Any = None,
        u: NewU = None,
        ids: Any = None,
        backend: Backend | None = None,
    ) -> Any:
        """Return a data frame that says for each row whether to act on the guess, or to ask a person, given a set.

        Columns: ``act``, whether to act on the ``guess``, and the ``set``: the labels that a person should look at, of
        a row that is acted on the guess alone. Of rows that are acted on at most ``error`` are wrong, with
        ``assurance``. Of the others a share of 1 - alpha has its label in its set. (Sets of :meth:`predict_set` promise
        that of all rows together, and cover fewer of the asked ones, which are the hard ones.) One half of the
        calibration rows decides when to act, and those rows of the other half that are asked calibrate the sets.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list
            The samples; each is decided by itself, so that rows may come one by one.
        error : float, or mapping from label to float, default=0.05
            The share of wrong rows that is allowed among those that are acted on; a mapping has one for each predicted
            label, and rows with other guesses are asked about.
        alpha : float, or mapping from label or group to float, optional
            The level of the sets, by default the one of the constructor, whose ``assurance`` is that of the sets.
        assurance : float, default=0.9
            The probability, over calibrations, that the error is kept.
        groups, u, ids
            As in ``predict_set``; groups concern the sets.
        backend : {"pandas", "polars", "pyarrow"}, optional
            The library of the frame, by default that of X, or pandas. One of pandas has what is promised in
            ``frame.attrs["promise"]``.

        Examples
        --------
        >>> import aptset
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = load_digits(return_X_y=True)
        >>> classifier = aptset.ConformalClassifier(LogisticRegression(max_iter=5000), random_state=0)
        >>> frame = classifier.fit(X[:1500], y[:1500]).act_or_ask(X[1500:], error=0.05, alpha=0.1)
        >>> list(frame.columns), float(frame.act.mean().round(2))
        (['act', 'guess', 'set'], 0.93)
        """
        fitted = self._fitted()
        requested, level = self._level(alpha)
        decisions = check_decisions(fitted)
        threshold = decisions.acceptance(fitted.rule, decisions.is_first).threshold(error, assurance)
        samples, values = fitted.rule.samples(X, groups, u, ids)
        of_asked = replace(fitted, held_out=decisions.of_asked(threshold, fitted.rule.groups))
        act, guesses, sets = of_asked.act(samples, threshold, level, self.allow_empty)
        if not act.all():
            of_asked.placed(samples, values, [requested], [level])  # which says if these rows are too few
        guess = self.classes_[guesses].tolist()
        several = [[label] if acted else row.tolist() for label, acted, row in zip(guess, act, sets, strict=True)]
        library = backend or library_of(X) or "pandas"
        frame = make_table({"act": act, "guess": guess, "set": several}, library, sets.named_as(X).row_names)
        if library == "pandas":
            frame.attrs["promise"] = promise_in_words(threshold, requested)
        return frame

    @property
    def acceptance_(self) -> Acceptance:
        """What all held-out rows of a split say about when to act: thresholds, batches and the curve of errors.

        It takes probabilities of the model. :meth:`act_or_ask` learns its threshold on one half of these rows.
        """
        check_is_fitted(self)
        try:
            decisions = check_decisions(self.fitted_)
        except ValueError as error:  # displays of scikit-learn ask every attribute of a fitted estimator
            raise AttributeError(str(error)) from error
        return decisions.acceptance(self.fitted_.rule)

    def p_frame(
        self, X: Any, *, groups: Any = None, u: NewU = None, ids: Any = None, backend: Backend | None = None
    ) -> Any:
        """Return :meth:`p_values` as a data frame, one column per label, with the index of X."""
        values = self.p_values(X, groups=groups, u=u, ids=ids)
        backend = backend or library_of(X) or "pandas"
        names = [label if backend == "pandas" else str(label) for label in self.classes_.tolist()]
        columns = {name: values[:, k] for k, name in enumerate(names)}
        return make_table(columns, backend, X.index if hasattr(X, "iloc") else None)

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return the probabilities of the fitted model (the mean over folds), one column per entry of ``classes_``."""
        return mean_probabilities(self._fitted().models, self.fitted_.rule.features(X), self.classes_)

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

    @overload
    def guarantee(self, alpha: float | None = ..., *, assurance: float | Assurance | None = ...) -> float: ...
    @overload
    def guarantee(
        self, alpha: Mapping[Any, float], *, assurance: float | Assurance | None = ...
    ) -> dict[Any, float]: ...
    def guarantee(self, alpha: Any = None, *, assurance: float | Assurance | None = None) -> Any:
        """Return the coverage that the theorem promises at this level, for this calibration and sample size.

        With groups it is the promise that holds in every group, and for a mapping a dictionary with the promise to
        each. With ``assurance`` it is promised of this calibration with that probability, not on average. It is about
        known labels: a new row's label is in the set, or was never seen, with this probability.
        ``unseen_label_chance_`` says about how often the latter happens; it is 0 if ``classes`` names all labels that
        may come. For folds of a splitter that may look at y nothing is proven: the number is then 0, and a warning says
        so. With weights it is about rows from where they point, if they are right, and else less by at most half their
        mean error.
        """
        check_is_fitted(self)
        promises: Promises = self.fitted_.promises
        _, level = self._level(alpha, assurance)
        warn_no_promise(promises.reason_of_nothing(level))
        coverage, clusters = promises.by_name(level), self.fitted_.held_out.clusters
        if isinstance(coverage, dict):
            return {name: promised(part, clusters) for name, part in coverage.items()}
        return promised(coverage, clusters)

    @overload
    def input_level(self, alpha: float | None = ...) -> float: ...
    @overload
    def input_level(self, alpha: Mapping[Any, float]) -> dict[Any, float]: ...
    def input_level(self, alpha: Any = None) -> Any:
        """Return the level at which calibration runs: alpha itself, or a smaller one with level="guaranteed".

        ``p_values(X) > input_level(alpha)`` is ``predict_set(X, alpha).mask``, to the last label, unless ``assurance``
        asks for larger sets. For a mapping it is a dictionary.
        """
        check_is_fitted(self)
        return alpha_of(self._level(alpha)[1])

    def _asked(self, alpha: Any, assurance: Any) -> tuple[list[Level], bool]:
        """Return the levels that were asked for, by default those of the settings, and whether they are several."""
        sure = self.assurance if assurance is None else assurance
        return check_alphas(self.alpha if alpha is None else alpha, sure)

    def _level(self, alpha: Any = None, assurance: Any = None) -> tuple[Level, Level]:
        """Return the one level that was asked for, and the input level at which calibration then runs."""
        sure = self.assurance if assurance is None else assurance
        level = check_level(self.alpha if alpha is None else alpha, sure)
        return level, self._levels([level], self.fitted_.promises)[0]

    def _levels(self, alphas: list[Level], promises: Promises) -> list[Level]:
        for level in alphas:
            if isinstance(level, CellLevel):
                promises.check_assurance(level)
        if self.level == "nominal":
            return alphas
        validate.one_of(self.level, ("nominal", "guaranteed"), "level")
        refuse_guaranteed(promises.is_weighted)
        if promises.has_clusters:
            refuse_guaranteed_clusters()
        change = promises.input_level
        return [level.mapped(change) if isinstance(level, CellLevel) else change(level) for level in alphas]

    def _fitted(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            check_is_fitted(self)  # which says so
        fitted: Fitted = self.fitted_
        return fitted if fitted.models else fitted.with_models()
