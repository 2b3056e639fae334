"""Rows for which somebody acts or asks: the confidence, the guess, the group and the u of each, checked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.request import NAME, make_rows, scores_of_labels
from aptset.core import validate
from aptset.core.devices import on_host
from aptset.core.groups import EVERYONE, Cells, Groups
from aptset.core.labels import as_labels, check_labels, check_length, columns_of, distinct, refuse_masked
from aptset.core.matrix import check_named_columns, check_new_probabilities, check_probabilities
from aptset.core.randomization import NO_UNIFORMS, Randomization, Uniforms
from aptset.core.row_groups import check_group_values
from aptset.core.validate import flag, warn_caller
from aptset.kernels.formula import Floats, Formula, LinearScore, normalised
from aptset.kernels.rowhash import Words, uniforms
from aptset.kernels.rows import PREDICTION, Rows, hash_rows, own_seeds

Confidence = str | Callable[[Any], Any]
By = Literal["guess", "own guess", "group", "none"]  # the most likely label, or guesses that the caller passes
OWN = "own"  # what a file says of confidences that were passed, or that a function made
CONFIDENCES = ("largest", "margin")
_BLOCK = 2**16
_FORMULA = Formula(LinearScore(own=-1.0))  # any will do: the loops check rows and hash them


class Looked(NamedTuple):
    """What is known of rows: the confidence, the column of the guess, the seed and the u of each."""

    confidence: Floats
    guesses: NDArray[np.int64] | None
    seeds: Words
    u: Floats
    n_copies: int


@dataclass(frozen=True, eq=False)
class Reading:
    """How rows are read: their confidence, guess or group, and u, the same for calibration rows and new ones."""

    confidence: Confidence
    classes: NDArray[Any] | None
    columns: NDArray[Any] | None
    groups: Groups
    by: By
    normalize: bool
    key: int
    chance: Randomization

    def matrix(self, probabilities: Any) -> NDArray[np.generic] | None:
        """Return new probabilities as a matrix; None where none came and none are needed."""
        if probabilities is None:
            if self.confidence in CONFIDENCES:
                raise ValueError(f"probabilities must be passed: confidence={self.confidence!r} comes from them.")
            return None
        if self.classes is None:
            raise ValueError("probabilities must be left out: none came when the rule was learned. Pass confidence=...")
        return check_new_probabilities(probabilities, NAME, self.classes, self.columns)

    def own_confidence(self, confidence: Any, probabilities: Any) -> Any:
        """Return the confidences that the caller gives, or their function; None for those of the probabilities."""
        if self.confidence in CONFIDENCES:
            if confidence is not None:
                raise ValueError(f"confidence must be left out: the rule was learned with {self.confidence!r}.")
            return None
        if confidence is None and not callable(self.confidence):
            raise ValueError("confidence must be passed with the new rows, since the rule was learned with your own.")
        source = self.confidence if confidence is None else confidence
        return source(probabilities) if callable(source) else source

    def check_of_rows(self, guesses: Any, groups: Any, n_rows: int) -> None:
        """Refuse guesses and groups that are not of these rows, and groups that would not be looked at."""
        if groups is not None and self.by != "group":
            raise ValueError("groups must be left out: the rule was learned without groups, and knows none.")
        for name, values in (("guesses", guesses), ("groups", groups)):
            if values is not None:
                check_length(values, n_rows, name)

    def cells(self, looked: Looked, guesses: Any, groups: Any) -> NDArray[np.integer[Any]]:
        """Return the number of each new row's group, or that of its guess; -1 for one that was never seen."""
        n_rows = len(looked.confidence)
        if self.by == "group":
            if groups is None:
                raise ValueError("groups must be passed with the new rows, since the rule was learned by group.")
            return _group_numbers(self.groups, groups, n_rows, "groups")
        if guesses is not None:
            return _guess_numbers(self.groups, guesses, self.classes, n_rows)
        if self.by == "own guess" or looked.guesses is None:
            raise ValueError("guesses must be passed with the new rows, since error has a number for each guess.")
        return looked.guesses


def look_at_new(reading: Reading, probabilities: Any, confidence: Any, draw: Uniforms | None, logits: Any) -> Looked:
    """Return what is known of new rows."""
    matrix, own = reading.matrix(probabilities), reading.own_confidence(confidence, probabilities)
    kind = reading.confidence if isinstance(reading.confidence, str) else OWN
    settings = (kind, reading.key, draw, PREDICTION, reading.normalize, flag(logits, "logits"))
    return look_at(matrix, probabilities, own, *settings)


def look_at(
    matrix: NDArray[np.generic] | None,
    probabilities: Any,
    own: Any,
    kind: str,
    key: int,
    draw: Uniforms | None,
    side: int,
    normalize: bool,
    logits: bool,
) -> Looked:
    """Return the confidence, guess and u of each row; refuse rows that are no probabilities.

    Without a draw nobody needs u.
    """
    if matrix is None:
        return _look_at_numbers(check_numbers(own, None), key, draw, side)
    rows = make_rows(matrix, probabilities, False, logits, _FORMULA, key, draw or NO_UNIFORMS, normalize, side, 0)
    assert isinstance(rows, Rows)
    guesses = np.asarray(rows.probabilities.argmax(axis=1), dtype=np.int64)
    scored = scores_of_labels(rows, guesses)
    confidence = _confidence_of(rows, kind) if own is None else check_numbers(own, len(matrix))
    u = uniforms(scored.seeds) if draw is None or draw.u is None else draw.u
    return Looked(confidence, guesses, scored.seeds, u, scored.n_copies)


def _look_at_numbers(confidence: Floats, key: int, draw: Uniforms | None, side: int) -> Looked:
    """Return what is known of rows of which only a confidence came: u is drawn from that number."""
    if draw is None or draw.u is not None:
        nothing = np.zeros(len(confidence), dtype=np.uint64)
        return Looked(confidence, None, nothing, confidence if draw is None or draw.u is None else draw.u, 0)
    keys = hash_rows(confidence[:, None], key) if draw.seeds is None else draw.seeds
    seeds = own_seeds(keys, side) if draw.seeds is None else keys
    return Looked(confidence, None, seeds, uniforms(seeds), int(np.count_nonzero(seeds != keys)))


def _confidence_of(rows: Rows, kind: str) -> Floats:
    """Return the largest probability of each row, or its lead over the second."""
    confidences = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        block = rows.probabilities[start : start + _BLOCK]
        block = normalised(block.astype(np.float64, order="C")) if rows.normalize else block
        if kind == "largest":
            confidences[start : start + _BLOCK] = block.max(axis=1)
        else:
            two = np.partition(block, -2, axis=1)[:, -2:].astype(np.float64)
            confidences[start : start + _BLOCK] = two[:, 1] - two[:, 0]
    return confidences


def check_confidence(confidence: Any, probabilities: Any) -> str:
    """Return which confidence is meant: a name, or that it is the caller's own."""
    if isinstance(confidence, str):
        if confidence not in CONFIDENCES:
            raise ValueError(
                f"confidence must be one of {list(CONFIDENCES)}, an array or a function; got {confidence!r}."
            )
        if probabilities is None:
            raise ValueError(f"probabilities must be passed: confidence={confidence!r} comes from them.")
        return confidence
    if confidence is None:
        raise TypeError(f"confidence must be one of {list(CONFIDENCES)}, an array or a function; got None.")
    return OWN


def check_matrix(
    probabilities: Any, classes: Any, labels: Any, guesses: Any
) -> tuple[NDArray[np.generic] | None, NDArray[Any] | None, NDArray[Any] | None]:
    """Return the probabilities as a matrix, the names of its columns and its classes; nothing where none came."""
    if probabilities is None:
        if classes is not None:
            raise ValueError("classes must be left out where there are no probabilities.")
        return None, None, None
    matrix, names = check_probabilities(probabilities, NAME)
    sample = labels if labels is not None else guesses if guesses is not None else np.arange(2)
    matrix, known = check_named_columns(matrix, names, classes, sample, NAME)
    return matrix, names, known


def check_numbers(confidence: Any, n_rows: int | None) -> Floats:
    """Return one finite confidence for each row."""
    refuse_masked(confidence, "confidence")
    values = np.asarray(on_host(confidence))
    if values.dtype.kind not in "fiub" or values.ndim != 1:
        raise TypeError(
            f"confidence must hold one number for each row; got dtype {values.dtype} and shape {values.shape}."
        )
    if n_rows is not None:
        check_length(values, n_rows, "confidence")
    elif len(values) == 0:
        raise ValueError("confidence must have at least one row; got none.")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"confidence must be finite; got {values[row]} in row {row}.")
    return values


def check_wrong(
    wrong: Any, labels: Any, guesses: Any, looked: Looked, known: NDArray[Any] | None, n_rows: int
) -> NDArray[np.bool_]:
    """Return which rows are wrong: as given, or those whose guess is not the label."""
    if wrong is not None:
        refuse_masked(wrong, "wrong")
        values = np.asarray(on_host(wrong))
        is_whole = values.dtype.kind in "iu" and np.isin(values, (0, 1)).all()
        if values.ndim != 1 or not (values.dtype.kind == "b" or is_whole):
            raise TypeError(f"wrong must hold True or False for each row; got {wrong!r:.80}.")
        check_length(values, n_rows, "wrong")
        return values.astype(np.bool_)
    if labels is None or (guesses is None and looked.guesses is None):
        raise ValueError(
            "labels must be passed with probabilities or guesses; or pass wrong=..., which says for each row "
            "whether its guess is wrong."
        )
    if guesses is None:
        assert known is not None
        return np.asarray(check_labels(labels, known, n_rows) != looked.guesses)
    if known is not None:
        return np.asarray(check_labels(labels, known, n_rows) != check_labels(guesses, known, n_rows, "guesses"))
    truth, guessed = as_labels(labels, "labels"), as_labels(guesses, "guesses")
    check_length(truth, n_rows, "labels")
    check_length(guessed, n_rows, "guesses")
    kinds = {"n" if labels.dtype.kind in "biuf" else labels.dtype.kind for labels in (truth, guessed)}
    if len(kinds - {"O"}) > 1:
        raise TypeError("guesses must be of the kind of the labels: numbers and texts are never equal.")
    names = distinct(truth)
    return np.asarray(columns_of(truth, names) != columns_of(guessed, names))


def cells_of(
    groups: Any, guesses: Any, looked: Looked, known: NDArray[Any] | None, n_rows: int
) -> tuple[By, Groups, NDArray[Any] | None]:
    """Return whether rows go by group or by guess, which there are, and the number of each row's."""
    if isinstance(groups, str):
        raise ValueError(
            f"groups must be an array, the group of each row; got {groups!r}. For each predicted label pass "
            "error={label: 0.05, ...} to accept or threshold."
        )
    if groups is None and guesses is None:
        if known is None:
            return "none", EVERYONE, None
        return "guess", Groups("row", tuple(known.tolist())), looked.guesses
    if groups is None and known is not None:
        by_label = Groups("row", tuple(known.tolist()))
        return "own guess", by_label, _guess_numbers(by_label, guesses, known, n_rows)
    values = check_group_values(None, guesses if groups is None else groups, None, n_rows)
    if isinstance(values, Cells):
        raise TypeError("groups must not overlap: pass the one group of each row.")
    several = Groups.of(values, None, np.empty(0))
    return "own guess" if groups is None else "group", several, several.ids(values, n_rows)


def _guess_numbers(groups: Groups, guesses: Any, classes: NDArray[Any] | None, n_rows: int) -> NDArray[np.integer[Any]]:
    """Return the number of the guess of each row: its class where classes are known, and no other label is one."""
    if classes is not None:
        return check_labels(guesses, classes, n_rows, "guesses", "")
    return _group_numbers(groups, guesses, n_rows, "guesses")


def _group_numbers(known: Groups, given: Any, n_rows: int, name: str) -> NDArray[np.integer[Any]]:
    """Return the number of the group or the guess of each new row, -1 for one that was never seen."""
    check_length(given, n_rows, name)
    ids = known.ids(check_group_values(None, given, None, n_rows), n_rows)
    assert ids is not None
    if ids.max(initial=-1) < 0:
        warn_caller(
            f"none of the {name} of these rows came when the rule was learned (it knows {list(known.names)[:6]}): "
            "every row is left to a person."
        )
    return ids


def check_exact(value: Any, name: str, way_out: str) -> Fraction:
    """Return the exact decimal of a share that the user wrote."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    validate.share(float(value) if isinstance(value, Decimal) else value, name, way_out=way_out)
    return Fraction(value) if isinstance(value, Fraction | Decimal) else Fraction(str(value))


_LEAST_ERRORS = 5  # that a batch should allow: below, its rate counts batches in which nothing is acted on


def warn_of_batches(counts: dict[str, tuple[int, int, Fraction]]) -> None:
    """Say that rows are too few for anything to be acted on, or a batch too small for its rate to mean much."""
    short = {who: (n, error) for who, (n, _, error) in counts.items() if n + 1 < 1 / error}
    if short:
        who, (n, error) = next(iter(short.items()))
        warn_caller(
            f"no row{who} can be decided: {n} rows, at least {ceil(1 / error) - 1} are needed even if none is wrong"
            + _and_more(len(short))
        )
    small = {who: (m, error) for who, (_, m, error) in counts.items() if m * error < _LEAST_ERRORS}
    if small:
        who, (m, error) = next(iter(small.items()))
        warn_caller(
            f"a batch of {m} rows{who} is small for error={float(error):g} (rows times error should be "
            f"{_LEAST_ERRORS} or more){_and_more(len(small))}: batches in which nothing is acted on count as "
            "without error, so that rows which are acted on may be wrong far more often. Collect larger batches, or "
            "use threshold(error=..., assurance=...)."
        )


def _and_more(n: int) -> str:
    return f" (and {n - 1} more groups)" if n > 1 else ""
