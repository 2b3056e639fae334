"""What scikit-learn asks of any estimator: metadata, tags, state and words, for one that keeps a ``Fitted``."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import check_is_fitted

from aptset.conformal.guarantees import Promises
from aptset.conformal.weight_checks import refuse_guaranteed
from aptset.core.labels import as_labels, check_length, columns_of
from aptset.core.tables import html_note
from aptset.core.validate import check_alpha, check_option
from aptset.estimator.checks import are_things
from aptset.estimator.fitted import Fitted
from aptset.estimator.storage import STATE, flat_scheme, flat_score, flatten, full_scheme, full_score, rebuild

_LEARNED = ("fitted_", "classes_", "models_", "n_calibration_", "unseen_label_chance_", "conformity_")


class Conventions(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with the settings of ``ConformalClassifier``, as scikit-learn sees it."""

    def _keep(self, fitted: Fitted) -> Self:
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

    def _levels(self, alphas: list[Fraction], promises: Promises) -> list[Fraction]:
        level = check_option(self.level, ("nominal", "guaranteed"), "level")
        if level == "nominal":
            return alphas
        refuse_guaranteed(promises.is_weighted)
        return [promises.input_level(alpha) for alpha in alphas]

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
