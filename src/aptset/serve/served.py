"""A classifier as the service holds it: rows by name in, answers out.

A set is that of ``ConformalClassifier.predict_set``: rows take the same road (:class:`Rule`, :class:`Fitted`), past the
checks that were made when the folder was loaded. Rows of numbers, one or many, are one matrix on that road, because a
data frame of one row costs more to look at than to predict.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from aptset import AcceptanceThreshold, PredictionSets
from aptset.core.levels import Level
from aptset.core.row_seeds import row_seeds
from aptset.estimator.columns import NUMBERS
from aptset.estimator.decisions import check_decisions, confidence_and_u, promise_in_words
from aptset.estimator.fitted import Fitted
from aptset.estimator.fitting import Samples
from aptset.estimator.models import LabelledModel
from aptset.estimator.storage import FACTS, load_folder
from aptset.serve.requests import ARROW, JSON, RequestFeatures, RequestRows, RowReader

_OF_NUMBERS = tuple(
    f"sklearn.{name}."
    for name in (
        "discriminant_analysis",
        "ensemble",
        "linear_model",
        "naive_bayes",
        "neighbors",
        "neural_network",
        "preprocessing._data",
        "svm",
        "tree",
    )
)
Loader = Callable[[Path, Sequence[str]], tuple[Any, RowReader | None]]


def load_plain(folder: Path, trust: Sequence[str]) -> tuple[Any, RowReader | None]:
    """Return the classifier of a folder that was saved from Python."""
    return load_folder(folder, trust=list(trust))[0], None


@dataclass(frozen=True)
class Choice:
    """What the service was started with, as far as answers depend on it."""

    folder: Path
    trust: tuple[str, ...] = ()
    u: str = "id"
    alpha: Any = None
    error: Any = 0.05
    assurance: float = 0.9
    most_rows: int = 10_000
    loader: Loader = load_plain


@dataclass
class RowAnswers:
    """What the model says about rows; ``judged`` are the sets at the level of the monitor."""

    sets: PredictionSets
    judged: PredictionSets | None
    guesses: NDArray[np.int64]
    act: NDArray[np.bool_] | None = None
    ask: PredictionSets | None = None
    p_values: NDArray[np.float64] | None = None
    sizes: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = (self.sets if self.judged is None else self.judged).sizes


class ServedModel:
    """The classifier of a folder, ready to answer."""

    def __init__(self, choice: Choice) -> None:
        self.choice, self.name = choice, digest_of(choice.folder)
        self.classifier, reader = choice.loader(choice.folder, choice.trust)
        if digest_of(choice.folder) != self.name:
            raise ValueError(f"{choice.folder} was saved anew while it was loaded.")
        self.fitted: Fitted = self.classifier._fitted()
        self.features = self._features(reader)
        self._of_arrays = self._without_names()
        self.classes: list[Any] = [_plain(label) for label in self.classifier.classes_.tolist()]
        self.alpha = self.classifier.alpha if choice.alpha is None else choice.alpha
        self.level = self._level(self.alpha)
        self.source = self._check_source()
        self.level_of = lru_cache(maxsize=64)(self._level)
        self.decided = self._decided()

    def _without_names(self) -> Fitted | None:
        """Return what takes rows of numbers without a frame around them; None where the models look at names."""
        rule = self.fitted.rule
        if self.features.reader is not None or rule.groups.by_row or rule.importance is not None:
            return None
        if any(column.kind not in NUMBERS for column in rule.columns.columns):
            return None
        if self.features.takes_lists:
            return self.fitted
        twins = [nameless(model) for model in self.fitted.models]
        return None if any(twin is None for twin in twins) else replace(self.fitted, models=twins)

    def _level(self, alpha: Any) -> Level:
        level: Level = self.classifier._level(alpha)[1]
        return level

    def _check_source(self) -> str:
        """Return what u comes from; refuse what the calibration does not allow."""
        chance = self.fitted.rule.chance
        if chance.source == "given" and self.choice.u != "fresh":
            raise ValueError(
                f"--u must be fresh for {self.choice.folder}, which was calibrated with uniforms of its own; got "
                f"{self.choice.u}."
            )
        return self.choice.u if chance.randomized else "none"

    def _decided(self) -> tuple[AcceptanceThreshold, Fitted] | None:
        """Return when to act, and what is calibrated on rows that are asked about; None where nothing was learned."""
        try:
            decisions = check_decisions(self.fitted)
        except ValueError:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no row can be decided: /v1/model says so
            learned = decisions.acceptance(self.fitted.rule, decisions.is_first)
            threshold = learned.threshold(self.choice.error, self.choice.assurance)
        return threshold, replace(self.fitted, held_out=decisions.of_asked(threshold, self.fitted.rule.groups))

    def _features(self, reader: RowReader | None) -> RequestFeatures:
        """Return the features, by the names that rows have them under: x0, x1, ... where the model knows no names."""
        if reader is not None:
            names, id_column, group_column = list(reader.names), reader.id_column, reader.group_column
        else:
            n_features = getattr(self.classifier, "n_features_in_", 0)
            numbered = [f"x{number}" for number in range(n_features)]
            names = [str(name) for name in getattr(self.classifier, "feature_names_in_", numbered)]
            id_column = group_column = None
        takes_lists = reader is None and not hasattr(self.classifier, "feature_names_in_")
        id_column = id_column or (None if "id" in names else "id")
        return RequestFeatures(names, id_column, group_column, takes_lists, self.choice.most_rows, reader)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """What each feature is: a number, a text, a date, or any of them where the folder does not say."""
        if self.features.reader is not None:
            return dict(self.features.reader.kinds)
        words = {**dict.fromkeys(NUMBERS, "number"), **dict.fromkeys(("text", "category"), "category")}
        known = {str(column.name): column.kind for column in self.fitted.rule.columns.columns}
        return {name: words.get(known.get(name, ""), "any") for name in self.features.names}

    @cached_property
    def _columns(self) -> Any:
        """The names of a frame of numbers; None where the model takes an array."""
        return None if self.features.takes_lists else pd.Index(self.features.names)

    def facts(self) -> dict[str, Any]:
        """Return what is worth knowing about the model: what it promises, its classes and its features."""
        promise = self.fitted.promise_in_words(self.level)
        said = {
            "model": self.name,
            "classes": self.classes,
            "features": [{"name": name, "kind": self.kinds[name]} for name in self.features.names],
            "id": self.features.id_column,
            "group": self.features.group_column,
            "alpha": self.alpha,
            "u": self.source,
            "guarantee": f"{self.fitted.in_words()}: {promise}",
            "n": self.fitted.held_out.n,
            "score": repr(self.fitted.rule.score),
            "scheme": self.fitted.rule.scheme.name,
        }
        if self.decided is not None:
            asked, _ = self.classifier._level(self.alpha)
            said["act_or_ask"] = promise_in_words(self.decided[0], getattr(asked, "strictest", asked))
        return said

    def answer(self, rows: RequestRows, ids: list[str] | None) -> RowAnswers:
        """Return sets and guesses of rows; the model is asked once. ``ids`` are what u comes from, if it may."""
        level = self.level if rows.alpha is None else self.level_of(rows.alpha)
        levels = [level] if level == self.level else [level, self.level]
        samples, fitted = self._samples(rows, ids), self.fitted
        if self._of_arrays is not None and isinstance(samples.X, np.ndarray):
            fitted = self._of_arrays
        if len(fitted.models) > 1:
            return self._answer_of_folds(fitted, samples, levels, rows.p_values)
        empty, said = self.classifier.allow_empty, samples.under(fitted.models[0], fitted.rule.classes)
        sets = fitted.sets_of(samples, said, levels, empty)
        guesses = np.asarray(said.probabilities.argmax(axis=1), dtype=np.int64)
        answers = RowAnswers(sets[0], sets[1] if len(sets) > 1 else None, guesses)
        if rows.p_values:
            answers.p_values = fitted.p_values_of(samples, said)
        if self.decided is not None:
            threshold, of_asked = self.decided
            answers.act = threshold.above(*confidence_and_u(said.probabilities, samples.seeds), guesses)
            if not answers.act.all():
                (answers.ask,) = of_asked.sets_of(replace(samples, mass=None), said, [level], empty)
        return answers

    def _answer_of_folds(
        self, fitted: Fitted, samples: Samples, levels: list[Level], with_p_values: bool
    ) -> RowAnswers:
        """Return the answers of several models together."""
        empty, jobs = self.classifier.allow_empty, self.classifier.n_jobs
        sets, p_values, probabilities = fitted.answer(samples, levels[0], empty, jobs)
        judged = fitted.sets(samples, levels[1:], empty, jobs)[0] if len(levels) > 1 else None
        guesses = np.asarray(np.asarray(probabilities).argmax(axis=1), dtype=np.int64)
        return RowAnswers(sets, judged, guesses, p_values=p_values if with_p_values else None)

    def _samples(self, rows: RequestRows, ids: list[str] | None) -> Samples:
        """Return what the scores of rows depend on: a matrix is hashed as it is, and given to the model by name."""
        rule, by_id = self.fitted.rule, self.source == "id" and ids is not None
        u = "fresh" if self.source == "fresh" or (self.source == "id" and ids is None) else None
        X = rows.X
        if isinstance(X, np.ndarray) and self._of_arrays is None and self._columns is not None:
            X = pd.DataFrame(X, columns=self._columns)
        return self.fitted.placed(*rule.samples(X, rows.groups, u, np.array(ids, dtype=object) if by_id else None))

    def digests(self, rows: RequestRows) -> list[str]:
        """Return what tells the content of a row, and what was asked about it, from any other."""
        about = f"{rows.alpha}{rows.p_values}"
        return [f"{seed:x}{about}" for seed in row_seeds(rows.X, 0).tolist()]

    def said(self, rows: RequestRows, ids: list[str], answers: RowAnswers) -> list[bytes]:
        """Return the answer to each row as JSON."""
        classes, guesses = self.classes, answers.guesses.tolist()
        made: list[dict[str, Any]] = [
            {"id": id_, "set": members, "size": len(members), "guess": classes[guess]}
            for id_, members, guess in zip(ids, self.members(answers.sets), guesses, strict=True)
        ]
        if answers.act is not None:
            ask = [None] * rows.n_rows if answers.ask is None else self.members(answers.ask)
            for one, is_acted, members in zip(made, answers.act.tolist(), ask, strict=True):
                one |= {"act": True} if is_acted else {"act": False, "ask": members}
        if answers.p_values is not None:
            texts = [str(label) for label in classes]
            for one, of_labels in zip(made, answers.p_values.tolist(), strict=True):
                one["p_values"] = dict(zip(texts, of_labels, strict=True))
        by_client, fresh = (
            self._tail(rows, self.source),
            self._tail(rows, "fresh" if self.source == "id" else self.source),
        )
        tails = (fresh if id_ is None else by_client for id_ in rows.ids)
        return [orjson.dumps(one)[:-1] + tail for one, tail in zip(made, tails, strict=True)]

    def _tail(self, rows: RequestRows, source: str) -> bytes:
        """Return what all answers of a request end with."""
        alpha = self.alpha if rows.alpha is None else rows.alpha
        said = {"alpha": alpha, "u": source, "model": self.name}
        return b"," + orjson.dumps(said, option=orjson.OPT_NON_STR_KEYS)[1:]

    def members(self, sets: PredictionSets) -> list[list[Any]]:
        """Return the labels of each set, most likely first."""
        labels = [self.classes[column] for column in sets.indices.tolist()]
        return [labels[start:stop] for start, stop in pairwise(sets.indptr.tolist())]


def nameless(model: Any) -> Any:
    """Return a twin of a fitted model that takes an array as the model takes a frame of numbers; None if none is known.

    scikit-learn turns such a frame into an array, and compares the names: for one row that takes five times as long as
    a prediction. Here the columns were put in their order before. Only estimators that do nothing else with a frame
    are known to have such a twin; none that holds others, looks at columns by name, or has categories.
    """
    if isinstance(model, LabelledModel):
        inner = nameless(model.model)
        return None if inner is None else LabelledModel(inner, model.labels)
    if type(model) is Pipeline and model.memory is None:
        steps = [(name, nameless(step)) for name, step in model.steps]
        return None if any(step is None for _, step in steps) else Pipeline(steps)
    is_known = f"{type(model).__module__}.".startswith(_OF_NUMBERS) and hasattr(model, "get_params")
    settings = model.get_params(deep=False).values() if is_known else ()
    if not is_known or any(hasattr(value, "fit") for value in settings) or hasattr(model, "_sklearn_output_config"):
        return None
    if getattr(model, "is_categorical_", None) is not None:
        return None
    twin = object.__new__(type(model))
    twin.__dict__.update({name: value for name, value in vars(model).items() if name != "feature_names_in_"})
    return twin


def digest_of(folder: Path) -> str:
    """Return what tells this classifier from any other."""
    try:
        return blake2b((folder / FACTS).read_bytes(), digest_size=8).hexdigest()
    except OSError as error:
        raise FileNotFoundError(f"{folder} must be the folder of a classifier; it holds no {FACTS}.") from error


def version_of(folder: Path) -> tuple[int, int, int]:
    """Return what changes whenever the classifier in a folder does; told at once."""
    status = (folder / FACTS).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _plain(label: Any) -> Any:
    """Return a label as JSON has it."""
    return label if isinstance(label, str | int | float | bool) or label is None else str(label)


_KINDS: dict[str, Any] = {
    "number": {"type": ["number", "null"]},
    "category": {"type": ["string", "number", "boolean", "null"]},
    "date": {"type": ["string", "null"], "description": "a date such as 2024-12-31"},
    "text": {"type": ["string", "null"]},
    "any": {"type": ["number", "string", "boolean", "null"]},
}


def openapi_of(served: ServedModel) -> dict[str, Any]:
    """Return the description of the service, with the features and classes of the model (OpenAPI 3.1)."""
    label: dict[str, Any] = {"enum": served.classes}
    features = {name: _KINDS[served.kinds[name]] for name in served.features.names}
    more = {served.features.id_column: {"type": ["string", "integer", "null"]}} if served.features.id_column else {}
    more |= {served.features.group_column: {}} if served.features.group_column else {}
    row = {"type": "object", "properties": {**more, **features}, "required": served.features.names}
    asked = {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {
            "rows": {"type": "array", "items": row, "minItems": 1, "maxItems": served.choice.most_rows},
            "ids": {"type": "array", "items": {"type": ["string", "integer", "null"]}},
            "groups": {"type": "array"},
            "alpha": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "p_values": {"type": "boolean"},
        },
    }
    of_row = {
        "id": {"type": "string"},
        "set": {"type": "array", "items": label},
        "size": {"type": "integer"},
        "guess": label,
        "act": {"type": "boolean"},
        "ask": {"type": "array", "items": label},
        "p_values": {"type": "object", "additionalProperties": {"type": "number"}},
        "alpha": {"type": "number"},
        "u": {"enum": ["id", "content", "fresh", "none"]},
        "model": {"type": "string"},
    }
    answered = {"type": "object", "properties": {"answers": {"type": "array", "items": {"properties": of_row}}}}
    one = {"type": "object", "required": ["id", "label"], "properties": {"id": {}, "label": {}}}
    several = {"type": "object", "properties": {"feedback": {"type": "array", "items": one}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Prediction sets", "version": served.name, "description": served.facts()["guarantee"]},
        "paths": {
            "/v1/sets": {"post": _operation("Prediction sets of rows", answered, {JSON: asked, ARROW: {}})},
            "/v1/feedback": {"post": _operation("True labels of rows", {}, {JSON: {"oneOf": [one, several]}})},
            "/v1/model": {"get": _operation("What the model promises", {})},
            "/v1/monitor": {"get": _operation("Whether the promise is kept", {})},
            "/health": {"get": _operation("Whether the process answers", {})},
            "/ready": {"get": _operation("Whether there is a model", {})},
            "/metrics": {"get": _operation("Numbers for Prometheus", {})},
        },
    }


def _operation(summary: str, answer: dict[str, Any], bodies: dict[str, Any] | None = None) -> dict[str, Any]:
    problem = {"description": "One sentence", "content": {"application/problem+json": {"schema": {"type": "object"}}}}
    responses = {"200": {"description": summary, "content": {JSON: {"schema": answer}}}, "default": problem}
    said: dict[str, Any] = {"summary": summary, "responses": responses}
    if bodies:
        content = {kind: {"schema": schema} for kind, schema in bodies.items()}
        said["requestBody"] = {"required": True, "content": content}
    return said
