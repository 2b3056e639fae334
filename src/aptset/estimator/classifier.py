"""The scikit-learn face: any classifier, with prediction sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Self

from numpy.typing import ArrayLike
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing

from aptset import LabelBands, PredictionSets
from aptset.conformal.scheme import Scheme
from aptset.core.labels import as_labels, check_length, columns_of
from aptset.core.levels import Assurance, check_level, strictest
from aptset.core.randomization import NewU
from aptset.core.tables import html_note
from aptset.core.validate import answers_foreign_keywords, warn_caller
from aptset.estimator.checks import are_things
from aptset.estimator.fitted import Fitted
from aptset.estimator.learning import fit, fit_and_predict, prepare
from aptset.estimator.predicting import Answering
from aptset.estimator.state import STATE, flat_scheme, flat_score, flatten, full_scheme, full_score, rebuild
from aptset.estimator.storage import save_classifier
from aptset.scores import Conformity

_LEARNED = ("fitted_", "classes_", "models_", "n_calibration_", "unseen_label_chance_", "conformity_")


def warn_unseen_labels(chance: float, alpha: Fraction) -> None:
    """Say that labels which may come were never seen, if their chance is not small beside alpha."""
    if chance > alpha / 10:
        warn_caller(
            f"a new row carries a label that y does not hold with a probability of about {chance:.2g} (labels "
            "seen once / (rows + 1)). No set can hold such a label: the guarantee is about known labels. "
            "Pass classes=[...], all labels that may come, and it is about all of them."
        )


class ConformalClassifier(Answering):
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
        (:class:`OutOfBag`, for forests), "full" (:class:`Full`, for neighbours), or one with settings of its own.
        ``guarantee`` says what each promises.
    conformity : str, score or function of :class:`Places`, default="adaptive"
        How strange a label is for a row: "adaptive" ("aps"), "homogeneous" ("lac", "thr"), "regularized" ("raps"),
        "saps", "margin", "rank" ("topk"), a score with settings of its own, or any function. "auto" sets a fifth of the
        rows aside (4,000 at most, drawn by ``random_state``) and chooses on them as :func:`tune` does, under models
        trained on them out of fold; they neither train nor calibrate what is kept, so the promise stands. It pays with
        many rows; with few, a score that is named has smaller sets (docs/choosing.md has numbers).
    alpha : float or mapping, default=0.1
        Miscoverage level of ``predict_set``, or one for each label or group by name; it may be overridden there.
    groups : None, "label", LabelBands, a column of X, a callable on X, or a pair, optional
        Calibrate within groups, so that the promise holds in each: "label" for every true label, :class:`LabelBands`
        for bands of labels that are rare by themselves, else for every value of a column (by name in a data frame, by
        number in an array) or of what the callable returns for X. A pair is both: ``("region", "label")`` for every
        label in every region. Groups may also be passed to ``fit`` and
        ``predict_set``.
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
        How many folds are fitted at once, through joblib; results do not depend on it. Within
        ``joblib.parallel_config("dask")`` the workers of a cluster fit them, and get the data once.
    progress : bool, default=False
        Show a bar while folds are fitted, on terminals and in notebooks.
    random_state : None, int or numpy random generator, optional
        Decides the folds, the key of the uniforms, and every ``random_state`` of the estimator that is None.
    classes : array, optional
        All labels that may come, seen in y or not: the promise is then about all of them. By default the labels in y
        (and those that a frozen model knows), and the promise is about these; ``fit`` warns if others may well come.
    fold_seeds : {"common", "own"}, default="common"
        Whether the models of all folds get the same seed for every ``random_state`` of the estimator that is None, as
        in the authors' code, or each its own. With own seeds the models differ more, and sets are larger.
    weights : callable on X, optional
        For new rows that come from elsewhere: how many times as likely each row is there as here, up to a constant. It
        is asked about the rows of ``fit`` and about new rows, and must look at each row alone. The promise then is
        about rows from there, if the weights are right: 1 - alpha after a split, 1 - 2 alpha for the jackknife+; for
        CV+ none is known, other calibrations and ``level="guaranteed"`` are refused.
    assurance : float or Assurance, optional
        0.95, for instance: with this probability the calibration at hand, and not the average one, covers at least
        1 - alpha of new rows, in each group. After a split only, and without weights. ``predict_set`` takes another.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    models_ : list of classifiers
        The fitted clone of the estimator for each fold; where rows are left out by formula, what stands for it.
    fit_times_ : dict
        How often a model was fitted ("fits") and how the models of all folds came to be ("road"). The jackknife+ needs
        one fit, and two to compare with, for KNeighborsClassifier, GaussianNB, MultinomialNB, BernoulliNB,
        LinearDiscriminantAnalysis and QuadraticDiscriminantAnalysis with settings for which leaving a row out has an
        exact formula; else the road says why each row took a fit.
    n_calibration_ : int
        Number of calibration samples; of clusters, where rows belong together.
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

    @answers_foreign_keywords
    def __init__(
        self,
        estimator: Any,
        *,
        calibration: str | Scheme = "split",
        conformity: Conformity = "adaptive",
        alpha: float | Mapping[Any, float] = 0.1,
        groups: str | int | LabelBands | Callable[[Any], Any] | tuple[Any, Any] | None = None,
        level: Literal["nominal", "guaranteed"] = "nominal",
        randomized: bool = True,
        allow_empty: bool = True,
        n_jobs: int | None = None,
        progress: bool = False,
        random_state: Any = None,
        classes: Any = None,
        fold_seeds: Literal["common", "own"] = "common",
        weights: Callable[[Any], Any] | None = None,
        assurance: float | Assurance | None = None,
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
        self.weights = weights
        self.assurance = assurance

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        clusters: Any = None,
        **fit_params: Any,
    ) -> ConformalClassifier:
        """Train and calibrate.

        Parameters
        ----------
        X : array, sparse matrix, data frame or list, one entry per sample
            Whatever the estimator takes.
        y : array
            The labels: strings, numbers or booleans.
        groups : array or Overlapping, optional
            The group of each row, or the groups that it is in; ``predict_set`` then needs those of the new rows.
        u : array of float in [0, 1], optional
            The uniform of each row; by default a keyed hash of the content of the row and of which copy it is, where
            equal rows come more than once. Whoever passes it here must pass it with the new rows as well.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone. A text names a column of the data frame X, which stays among
            the features (pass ``ids=X.pop("name")`` to take it out); an index that names the rows is passed as
            ``ids=X.index``.
        clusters : array or name of a column, optional
            For rows that belong together, such as images of one patient: the id of each row's cluster, as in
            :func:`calibrate`. A text names a column of the data frame X, which does not go to the estimator. No cluster
            trains and calibrates the same model: splits and folds are made of whole clusters.
        **fit_params : dict
            Passed to the estimator's ``fit``; values with one entry per sample are cut to the rows that train.
            ``sample_weight`` therefore weighs the training only, never the calibration.

        Returns
        -------
        ConformalClassifier
            The fitted classifier itself.
        """
        alpha = check_level(self.alpha, self.assurance)
        rule, training, promises = prepare(self, X, y, groups, u, ids, self._route(fit_params), clusters)
        self._levels([alpha], promises)  # a promise that cannot be kept is refused before anything is fitted
        warn_unseen_labels(rule.unseen_label_chance, strictest([alpha]))
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
        u_new: NewU = None,
        ids: Any = None,
        ids_new: Any = None,
        assurance: float | Assurance | None = None,
        clusters: Any = None,
        **fit_params: Any,
    ) -> PredictionSets | list[PredictionSets]:
        """Train, calibrate and predict in one go: each fold's model is fitted, used and dropped.

        Memory holds one model per worker, where ``fit`` keeps one per fold: what makes the jackknife+ affordable. The
        sets are those of ``fit(X, y).predict_set(X_new)``.

        Parameters
        ----------
        X, y, groups, u, ids, clusters
            As in ``fit``.
        X_new, alpha, assurance
            As in ``predict_set``.
        groups_new, u_new, ids_new
            The same for the new rows, as in ``predict_set``.
        **fit_params : dict
            As in ``fit``.
        """
        alphas, is_sequence = self._asked(alpha, assurance)
        rule, training, promises = prepare(self, X, y, groups, u, ids, self._route(fit_params), clusters)
        levels = self._levels(alphas, promises)
        warn_unseen_labels(rule.unseen_label_chance, strictest(alphas))
        new = rule.samples(X_new, groups_new, u_new, ids_new)
        fitted, sets = fit_and_predict(rule, training, new, levels, self.allow_empty, self.n_jobs, self.progress)
        self._keep(fitted)
        fitted.placed(*new, alphas, levels)  # which says if calibration samples are too few
        return sets if is_sequence else sets[0]

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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is guessed right; labels may be of any kind that ``fit`` takes.

        Examples
        --------
        >>> import aptset
        >>> from datetime import date
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, days = [[0.0], [0.1], [3.0], [3.1]] * 5, [date(2024, 1, 1)] * 2 + [date(2024, 1, 2)] * 2
        >>> aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, days * 5).score(X, days * 5)
        1.0
        """
        from sklearn.metrics import accuracy_score  # slow to load

        guesses, labels = self.predict(X), y
        if are_things(guesses):  # scikit-learn measures numbers and texts alone
            labels = as_labels(y, "y")
            check_length(labels, len(guesses), "y")
            guesses, labels = (columns_of(named, self.classes_) for named in (guesses, labels))
        return float(accuracy_score(labels, guesses, sample_weight=sample_weight))

    def _keep(self, fitted: Fitted) -> Self:
        """Write the fitted attributes, all at once: everything has worked."""
        self.fitted_, self.classes_, self.models_ = fitted, fitted.rule.classes, fitted.models
        self.n_calibration_, self.unseen_label_chance_ = fitted.held_out.n, fitted.rule.unseen_label_chance
        self.conformity_ = fitted.rule.score
        if fitted.fit_times is not None:  # what was read from a file was fitted elsewhere
            self.fit_times_ = fitted.fit_times
        for name in ("n_features_in_", "feature_names_in_"):
            if fitted.models and hasattr(fitted.models[0], name):
                setattr(self, name, getattr(fitted.models[0], name))
            elif hasattr(self, name):
                delattr(self, name)
        names = fitted.rule.columns.names_as_array
        if names is not None and fitted.models:
            self.feature_names_in_ = names
        return self

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        if not _routing_enabled():
            return fit_params
        routed: dict[str, Any] = process_routing(self, "fit", **fit_params).estimator.fit
        return routed

    def get_metadata_routing(self) -> MetadataRouter:
        """Pass the metadata of ``fit`` on to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add_self_request(self).add(estimator=self.estimator, method_mapping=mapping)

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
        state.setdefault("assurance", None)  # which older versions did not have
        super().__setstate__(state)
        if learned is not None:
            self._keep(rebuild(learned))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        settings = str(super().__repr__(N_CHAR_MAX))
        if not hasattr(self, "fitted_"):
            return settings
        try:
            promise = self.fitted_.promise_in_words(self._level()[1])
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
