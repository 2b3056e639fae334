"""A classifier as the service holds it: rows by name in, answers out.

A set is that of ``ConformalClassifier.predict_set``: rows take the same road (:class:`Rule`, :class:`Fitted`), past the
checks that were made when the folder was loaded. Rows of numbers, one or many, are one matrix on that road, because a
data frame of one row costs more to look at than to predict.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from aptset import AcceptanceThreshold, PredictionSets
from aptset.calibration.request import p_values_of_one_model, sets_of_one_model
from aptset.conformal.measure import Measure
from aptset.core.levels import Level
from aptset.core.matrix import OF_ESTIMATOR
from aptset.core.row_seeds import row_seeds
from aptset.estimator.columns import NUMBERS
from aptset.estimator.decisions import check_decisions, confidence_and_u, promise_in_words
from aptset.estimator.fitted import Fitted
from aptset.estimator.fitting import Samples
from aptset.estimator.models import LabelledModel
from aptset.estimator.storage import FACTS, load_folder

_KNOWN = ("rows", "ids", "groups", "alpha", "p_values")
_LONGEST_ID = 200
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
_NUMBERS = {int, float, bool, type(None)}


class RequestError(ValueError):
    """What a client can mend: the sentence says how."""


class RowReader(Protocol):
    """How rows of a table become rows of X, where the folder says so: that of ``aptset run`` does."""

    names: Sequence[str]
    kinds: Mapping[str, str]
    id_column: str | None
    group_column: str | None

    def frame(self, table: pa.Table) -> Any:
        """Return the columns as the model takes them."""
        ...


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
class RequestRows:
    """Rows of one request: a matrix of numbers in the order of the features, or a frame."""

    X: Any
    n_rows: int
    ids: list[str | None]
    groups: list[Any] | None
    alpha: Any = None
    p_values: bool = False

    def only(self, numbers: Sequence[int]) -> RequestRows:
        """Return some of the rows."""
        X = self.X[list(numbers)] if isinstance(self.X, np.ndarray) else self.X.iloc[list(numbers)]
        groups = None if self.groups is None else [self.groups[number] for number in numbers]
        ids = [self.ids[number] for number in numbers]
        return replace(self, X=X, n_rows=len(numbers), ids=ids, groups=groups)


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
        self.classifier, self.reader = choice.loader(choice.folder, choice.trust)
        if digest_of(choice.folder) != self.name:
            raise ValueError(f"{choice.folder} was saved anew while it was loaded.")
        self.fitted: Fitted = self.classifier._fitted()
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
        if self.reader is not None or rule.groups.by_row or rule.weighing is not None:
            return None
        if any(column.kind not in NUMBERS for column in rule.columns.columns):
            return None
        if not hasattr(self.classifier, "feature_names_in_"):
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

    def _decided(self) -> tuple[AcceptanceThreshold, Measure] | None:
        """Return when to act, and the calibration of the rows that are asked about; None where nothing was learned."""
        try:
            decisions = check_decisions(self.fitted)
        except ValueError:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no row can be decided: /v1/model says so
            learned = decisions.acceptance(self.fitted.rule, decisions.is_first)
            threshold = learned.threshold(self.choice.error, self.choice.assurance)
        return threshold, decisions.of_asked(threshold, self.fitted.rule.groups)

    @cached_property
    def names(self) -> list[str]:
        """The features, by the names that rows have them under: x0, x1, ... where the model knows no names."""
        if self.reader is not None:
            return list(self.reader.names)
        named = getattr(self.classifier, "feature_names_in_", None)
        if named is not None:
            return [str(name) for name in named]
        return [f"x{number}" for number in range(getattr(self.classifier, "n_features_in_", 0))]

    @cached_property
    def kinds(self) -> dict[str, str]:
        """What each feature is: a number, a text, a date, or any of them where the folder does not say."""
        if self.reader is not None:
            return dict(self.reader.kinds)
        words = {**dict.fromkeys(NUMBERS, "number"), **dict.fromkeys(("text", "category"), "category")}
        known = {str(column.name): column.kind for column in self.fitted.rule.columns.columns}
        return {name: words.get(known.get(name, ""), "any") for name in self.names}

    @cached_property
    def id_column(self) -> str | None:
        """The key of a row that is its id."""
        named = None if self.reader is None else self.reader.id_column
        return named or (None if "id" in self.names else "id")

    @property
    def group_column(self) -> str | None:
        """The key of a row that is its group, if the folder names one."""
        return None if self.reader is None else self.reader.group_column

    @cached_property
    def _columns(self) -> Any:
        """The names of a frame of numbers; None where the model takes an array."""
        return None if not hasattr(self.classifier, "feature_names_in_") else pd.Index(self.names)

    @cached_property
    def _pick(self) -> Callable[[Any], Any]:
        return itemgetter(*self.names) if len(self.names) > 1 else lambda row: (row[self.names[0]],)

    def facts(self) -> dict[str, Any]:
        """Return what is worth knowing about the model: what it promises, its classes and its features."""
        promise = self.fitted.promise_in_words(self.level)
        said = {
            "model": self.name,
            "classes": self.classes,
            "features": [{"name": name, "kind": self.kinds[name]} for name in self.names],
            "id": self.id_column,
            "group": self.group_column,
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

    # Reading what came

    def rows_of_json(self, body: bytes) -> RequestRows:
        """Return the rows of a JSON request."""
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RequestError(f"the body must be JSON: {error}.") from error
        if not isinstance(asked, dict) or not isinstance(asked.get("rows"), list):
            raise RequestError('the body must be an object with "rows", a list of rows: {"rows": [{"feature": 1.5}]}.')
        unknown = asked.keys() - set(_KNOWN)
        if unknown:
            raise RequestError(f"the body must have no key but {', '.join(_KNOWN)}; got {sorted(unknown)[0]!r:.80}.")
        rows = asked["rows"]
        self._check_count(len(rows))
        ids, groups = self._ids_of_json(asked, rows), self._groups_of_json(asked, rows)
        return RequestRows(
            self._features_of_json(rows),
            len(rows),
            ids,
            groups,
            _checked_alpha(asked.get("alpha")),
            _flag(asked.get("p_values", False)),
        )

    def _check_count(self, n_rows: int) -> None:
        if not 1 <= n_rows <= self.choice.most_rows:
            raise RequestError(f"rows must be 1 to {self.choice.most_rows:,}; got {n_rows:,}. Send several requests.")

    def _features_of_json(self, rows: list[Any]) -> Any:
        values = [self._values(number, row) for number, row in enumerate(rows)]
        if self.reader is None and set(map(type, chain.from_iterable(values))) <= _NUMBERS:
            try:
                return np.array(values, dtype=np.float64)
            except OverflowError as error:
                raise RequestError("numbers must be within the range of a float64.") from error
        return self._frame(_table(dict(zip(self.names, zip(*values, strict=True), strict=True))))

    def _values(self, number: int, row: Any) -> Any:
        """Return the values of a row in the order of the features; columns that the model does not know are ignored."""
        if isinstance(row, dict):
            try:
                return self._pick(row)
            except KeyError as error:
                raise RequestError(
                    f"row {number} must have all features; {error.args[0]!r} is not there. Send null where a value is "
                    "missing."
                ) from error
        if isinstance(row, list) and self._columns is None and self.reader is None:
            if len(row) == len(self.names):
                return tuple(row)
            raise RequestError(f"row {number} must have {len(self.names)} values; got {len(row)}.")
        raise RequestError(f"row {number} must be an object of features by name; got {type(row).__name__}.")

    def _ids_of_json(self, asked: dict[str, Any], rows: list[Any]) -> list[str | None]:
        column = self.id_column
        given = asked.get("ids")
        if given is None:
            given = [row.get(column) if column is not None and isinstance(row, dict) else None for row in rows]
        return check_ids(given, len(rows))

    def _groups_of_json(self, asked: dict[str, Any], rows: list[Any]) -> list[Any] | None:
        given, column = asked.get("groups"), self.group_column
        if given is None and column is not None:
            given = [row.get(column) if isinstance(row, dict) else None for row in rows]
        if given is not None and (not isinstance(given, list) or len(given) != len(rows)):
            raise RequestError("groups must be a list with one group for each row.")
        return given

    def rows_of_arrow(self, body: bytes, alpha: Any, p_values: bool) -> RequestRows:
        """Return the rows of an Arrow IPC stream, whose columns go by name."""
        table = read_stream(body, self.choice.most_rows)
        self._check_count(table.num_rows)
        missing = [name for name in self.names if name not in table.column_names]
        if missing:
            raise RequestError(f"the stream must have all features as columns; {missing[0]!r} is not there.")
        ids, groups = (
            None if column is None or column not in table.column_names else table[column].to_pylist()
            for column in (self.id_column, self.group_column)
        )
        checked = check_ids([None] * table.num_rows if ids is None else ids, table.num_rows)
        columns, X = table.select(self.names), None
        if self.reader is None and all(map(_is_number, columns.schema.types)):
            X = np.column_stack([_floats(column) for column in columns.columns])
        return RequestRows(
            self._frame(columns) if X is None else X, table.num_rows, checked, groups, _checked_alpha(alpha), p_values
        )

    def _frame(self, table: pa.Table) -> Any:
        """Return columns of several kinds as the model takes them."""
        if self.reader is None:
            return pd.DataFrame({name: _series(table[name]) for name in self.names})
        try:
            return self.reader.frame(table)
        except ValueError as error:
            raise RequestError(str(error)) from error

    # Answering

    def answer(self, rows: RequestRows, ids: list[str]) -> RowAnswers:
        """Return sets and guesses of rows; the model is asked once. ``ids`` are those that u may come from."""
        level = self.level if rows.alpha is None else self.level_of(rows.alpha)
        levels = [level] if level == self.level else [level, self.level]
        samples, fitted = self._samples(rows, ids), self.fitted
        if self._of_arrays is not None and isinstance(samples.X, np.ndarray):
            fitted = self._of_arrays
        if len(fitted.models) > 1:
            return self._answer_of_folds(fitted, samples, levels, rows.p_values)
        classes = fitted.rule.classes
        under, mass = samples.under(fitted.models[0], classes), samples.mass
        common = (classes, self.classifier.allow_empty, OF_ESTIMATOR)
        sets = sets_of_one_model(fitted.held_out, under, samples.ids, levels, *common, mass)
        guesses = np.asarray(under.probabilities.argmax(axis=1), dtype=np.int64)
        answers = RowAnswers(sets[0], sets[1] if len(sets) > 1 else None, guesses)
        if rows.p_values:
            answers.p_values = p_values_of_one_model(fitted.held_out, under, samples.ids, OF_ESTIMATOR, mass)
        if self.decided is not None:
            threshold, of_asked = self.decided
            answers.act = threshold.above(*confidence_and_u(under.probabilities, samples.seeds), guesses)
            if not answers.act.all():
                (answers.ask,) = sets_of_one_model(of_asked, under, samples.ids, [level], *common)
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

    def _samples(self, rows: RequestRows, ids: list[str]) -> Samples:
        """Return what the scores of rows depend on: a matrix is hashed as it is, and given to the model by name."""
        rule, u = self.fitted.rule, "fresh" if self.source == "fresh" else None
        by_id = np.array(ids, dtype=object) if self.source == "id" else None
        X = rows.X
        if isinstance(X, np.ndarray) and self._of_arrays is None and self._columns is not None:
            X = pd.DataFrame(X, columns=self._columns)
        return self.fitted.placed(*rule.samples(X, rows.groups, u, by_id))

    def digests(self, rows: RequestRows) -> list[str]:
        """Return what tells the content of a row, and what was asked about it, from any other."""
        about = f"{rows.alpha}{rows.p_values}"
        return [f"{seed:x}{about}" for seed in row_seeds(rows.X, 0).tolist()]

    def said(self, rows: RequestRows, ids: list[str], answers: RowAnswers) -> list[bytes]:
        """Return the answer to each row as JSON."""
        alpha, classes = self.alpha if rows.alpha is None else rows.alpha, self.classes
        sets, guesses = _members(answers.sets, classes), answers.guesses.tolist()
        ask = [None] * rows.n_rows if answers.ask is None else _members(answers.ask, classes)
        act = None if answers.act is None else answers.act.tolist()
        texts = [str(label) for label in classes]
        made = []
        for row, (id_, members) in enumerate(zip(ids, sets, strict=True)):
            one = {"id": id_, "set": members, "size": len(members), "guess": classes[guesses[row]]}
            if act is not None:
                one |= {"act": act[row]} if act[row] else {"act": False, "ask": ask[row]}
            if answers.p_values is not None:
                one["p_values"] = dict(zip(texts, answers.p_values[row].tolist(), strict=True))
            source = "fresh" if self.source == "id" and rows.ids[row] is None else self.source
            made.append(orjson.dumps({**one, "alpha": alpha, "u": source, "model": self.name}))
        return made

    def judged(self, answers: RowAnswers) -> list[bytes | None]:
        """Return the sets at the level of the monitor, where they are others than those that were answered."""
        if answers.judged is None:
            return [None] * len(answers.guesses)
        return [orjson.dumps(members) for members in _members(answers.judged, self.classes)]


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


def check_ids(given: Any, n_rows: int) -> list[str | None]:
    """Return ids as texts, each once; a number and the text that spells it are the same id."""
    if not isinstance(given, list) or len(given) != n_rows:
        raise RequestError("ids must be a list with one id for each row.")
    ids = [None if one is None else id_text(one) for one in given]
    present = [one for one in ids if one is not None]
    if len(set(present)) < len(present):
        twice = next(one for one in present if present.count(one) > 1)
        raise RequestError(f"ids must name each row once; {twice!r} is there twice.")
    return ids


def id_text(value: Any) -> str:
    """Return an id as a text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | str) and not isinstance(value, bool) and 0 < len(str(value)) <= _LONGEST_ID:
        return str(value)
    raise RequestError(f"an id must be a text of 1 to {_LONGEST_ID} letters, or a whole number; got {value!r:.80}.")


def _checked_alpha(alpha: Any) -> float | None:
    if alpha is None:
        return None
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not 0 < alpha < 1:
        raise RequestError(f"alpha must be a number in (0, 1); got {alpha!r:.80}. For 90 % coverage send 0.1.")
    return float(alpha)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"p_values must be true or false; got {value!r:.80}.")
    return value


def _table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return columns as a table; one without any value holds missing numbers."""
    arrays = {}
    for name, values in columns.items():
        try:
            array = pa.array(values, from_pandas=True)
        except (pa.ArrowException, OverflowError) as error:
            raise RequestError(
                f"feature {name!r} must hold values of one kind, numbers, texts, true or false; it holds several."
            ) from error
        if pa.types.is_nested(array.type):
            raise RequestError(f"feature {name!r} must hold plain values; got a list or an object.")
        arrays[name] = array.cast(pa.float64()) if pa.types.is_null(array.type) else array
    return pa.table(arrays)


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _floats(column: Any) -> NDArray[np.float64]:
    """Return numbers as float64, missing ones as NaN."""
    numbers: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _series(column: Any) -> Any:
    """Return a column as pandas has it: numbers as floats, texts as texts, missing ones as NaN."""
    return _floats(column) if _is_number(column.type) else column.to_pandas()


def read_stream(body: bytes, most_rows: int) -> pa.Table:
    """Return the rows of an Arrow stream that a stranger sent: bounded, not compressed, and with offsets checked."""
    try:
        n_rows, messages = 0, pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
        for message in messages:
            length, is_compressed = _header(message.metadata.to_pybytes())
            n_rows += length
            if is_compressed or not 0 <= n_rows <= 2 * most_rows:  # entries of dictionaries among them
                raise RequestError(f"the stream must not be compressed, and have {most_rows:,} rows at most.")
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, struct.error) as error:
        raise RequestError(f"the body must be an Arrow IPC stream: {str(error)[:200]}.") from error
    plain = [one.cast(one.type.value_type) if pa.types.is_dictionary(one.type) else one for one in table.columns]
    return pa.table(plain, names=table.column_names)


def _header(metadata: bytes) -> tuple[int, bool]:
    """Return how many rows a batch claims, and whether it is compressed: before Arrow unpacks anything.

    The tables and fields of the flatbuffer are those of the format's Message.fbs: a Message has its type as field 1 and
    its header as field 2; a DictionaryBatch (type 2) has a RecordBatch as field 1; that has its length as field 0 and
    its compression as field 3.
    """

    def place(table: int, number: int) -> int:
        fields = table - int(struct.unpack_from("<i", metadata, table)[0])
        size = int(struct.unpack_from("<H", metadata, fields)[0])
        offset = int(struct.unpack_from("<H", metadata, fields + 4 + 2 * number)[0]) if 4 + 2 * number < size else 0
        return table + offset if offset else 0

    def inner(table: int, number: int) -> int:
        where = place(table, number)
        return where + int(struct.unpack_from("<I", metadata, where)[0]) if where else 0

    message = int(struct.unpack_from("<I", metadata, 0)[0])
    kind_at, header = place(message, 1), inner(message, 2)
    kind = metadata[kind_at] if kind_at else 0
    batch = inner(header, 1) if kind == 2 else header if kind == 3 else 0
    if not batch:
        return 0, False
    length = place(batch, 0)
    return int(struct.unpack_from("<q", metadata, length)[0]) if length else 0, place(batch, 3) > 0


def _members(sets: PredictionSets, classes: list[Any]) -> list[list[Any]]:
    """Return the labels of each set, most likely first."""
    ends, columns = sets.indptr.tolist(), sets.indices.tolist()
    labels = [classes[column] for column in columns]
    return [labels[start:stop] for start, stop in pairwise(ends)]


def _plain(label: Any) -> Any:
    """Return a label as JSON has it."""
    return label if isinstance(label, str | int | float | bool) or label is None else str(label)
