"""Act or ask: on which rows a guess may be acted on, and for which a person is asked.

A batch is decided by Benjamini-Hochberg on conformal p-values (Jin and Candès 2023), a stream by one threshold; both
are in :mod:`aptset.calibration.acceptance_threshold`, with their proofs in docs/design/0024.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibration.acceptance_rows import (
    CONFIDENCES,
    OWN,
    Reading,
    cells_of,
    check_confidence,
    check_exact,
    check_matrix,
    check_numbers,
    check_wrong,
    look_at,
    look_at_new,
    warn_of_batches,
)
from aptset.calibration.acceptance_threshold import (
    ALL,
    AcceptanceThreshold,
    Boundary,
    Level,
    automatic,
    band,
    batch_bound,
    bonferroni,
    sequence,
)
from aptset.calibration.merging import check_same
from aptset.calibration.request import take_ids
from aptset.core import validate
from aptset.core.groups import Groups
from aptset.core.randomization import Randomization, fingerprint_of
from aptset.core.tables import Display
from aptset.core.validate import draw_key, flag, number, one_of, warn_caller
from aptset.kernels.formula import Floats
from aptset.kernels.rows import CALIBRATION

_METHODS: dict[str, Callable[..., Boundary]] = {
    "auto": automatic,
    "band": band,
    "sequence": sequence,
    "bonferroni": bonferroni,
}


def learn_acceptance(
    probabilities: Any = None,
    labels: ArrayLike | None = None,
    *,
    confidence: Any = "largest",
    guesses: ArrayLike | None = None,
    wrong: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    clusters: Any = None,
    classes: ArrayLike | None = None,
    normalize: bool = False,
    logits: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
) -> Acceptance:
    """Learn from labelled rows which guesses may be acted on, and which need a person.

    Parameters
    ----------
    probabilities : array, tensor or data frame, shape (rows, classes), optional
        Of rows that no model was trained on. May be left out where ``confidence`` is an array, and ``wrong``, or
        ``guesses`` and labels, say which rows are wrong.
    labels : array, shape (rows,), optional
        The true label of each row; may be left out where ``wrong`` is passed.
    confidence : {"largest", "margin"}, array or function, default="largest"
        How sure the model is: the largest probability, its lead over the second, a number for each row, or a function
        that makes these numbers of the probabilities. Any number will do, as long as it was fixed before these labels
        were seen: choosing a confidence by looking at them breaks the promise.
    guesses : array, shape (rows,), optional
        The guess of each row; by default its most likely label.
    wrong : array of bool, optional
        Which rows count as wrong; by default those whose guess is not the label. Any event of a row and its label will
        do, such as more than one grade off.
    groups : array, shape (rows,), optional
        The group of each row: the promise then holds within each. New rows must bring theirs.
    clusters : None
        Rows that belong together are not independent, and no promise is known for them: pass one row of each.
    classes, normalize, logits, u, ids, random_state
        As in :func:`calibrate`. u only orders rows of equal confidence.

    Returns
    -------
    Acceptance

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> P = generator.dirichlet([0.2] * 4, size=3000)
    >>> y = (P.cumsum(axis=1) < generator.random((3000, 1))).sum(axis=1)
    >>> rule = aptset.learn_acceptance(P[:2000], y[:2000], random_state=0)
    >>> rule
    Acceptance(n=2000, 529 wrong, confidence='largest')
    >>> act = rule.accept(P[2000:], error=0.05)
    >>> float(act.mean().round(2)), float((P[2000:].argmax(axis=1) != y[2000:])[act].mean().round(3))
    (0.32, 0.031)
    """
    if clusters is not None:
        raise ValueError(
            "clusters must be left out: rows of one cluster are not independent, and no promise is known for them. "
            "Pass one row of each cluster, chosen without looking at the labels."
        )
    divide, soft = flag(normalize, "normalize"), flag(logits, "logits")
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    kind = check_confidence(confidence, probabilities)
    matrix, names, known = check_matrix(probabilities, classes, labels, guesses)
    given = confidence(probabilities) if callable(confidence) else None if kind in CONFIDENCES else confidence
    n_rows = len(matrix) if matrix is not None else len(check_numbers(given, None))
    key, chance = draw_key(validate.generator(random_state)), Randomization.of(u, ids, True)
    draw = chance.calibrates(u, ids, n_rows, key)
    looked = look_at(matrix, probabilities, given, kind, key, draw, CALIBRATION, divide, soft)
    is_wrong = check_wrong(wrong, labels, guesses, looked, known, n_rows)
    by, of_rows, cells = cells_of(groups, guesses, looked, known, n_rows)
    of_kind = confidence if callable(confidence) else kind
    chance = chance.with_copies(looked.n_copies, n_rows)
    reading = Reading(of_kind, known, names, of_rows, by, divide, key, chance)
    fingerprint = fingerprint_of(looked.seeds, looked.confidence)
    return Acceptance.of(reading, looked.confidence, looked.u, is_wrong, cells, (fingerprint,))


@dataclass(frozen=True, eq=False, repr=False)
class Acceptance:
    """Confidences of labelled rows and which guesses were wrong: what decides whether a new guess is acted on.

    Made by :func:`learn_acceptance`, or read by :func:`load`. Rows are kept by confidence, the most confident first.

    Attributes
    ----------
    confidences, u : array
        The confidence of each row, and the uniform that orders rows of equal confidence.
    is_wrong : array of bool
        Whether the guess of each row was wrong.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> confidence = np.linspace(0, 1, 400)
    >>> rule = aptset.learn_acceptance(confidence=confidence, wrong=confidence < 0.25, random_state=0)
    >>> rule.n, rule.n_wrong
    (400, 100)
    >>> int(rule.accept(confidence=confidence, error=0.05).sum())
    314
    >>> rule.threshold(error=0.05, assurance=0.9).rows
    308
    """

    reading: Reading
    confidences: Floats
    u: Floats
    is_wrong: NDArray[np.bool_]
    cells: NDArray[np.int32] | None
    parts: tuple[int, ...]

    @classmethod
    def of(
        cls, reading: Reading, confidences: Floats, u: Floats, is_wrong: Any, cells: Any, parts: tuple[int, ...]
    ) -> Acceptance:
        """Keep rows in the order of (confidence, u), largest first."""
        order = np.lexsort((u, confidences))[::-1]
        of_cells = None if cells is None else cells[order].astype(np.int32)
        return cls(reading, confidences[order], u[order], is_wrong[order], of_cells, parts)

    @property
    def n(self) -> int:
        """Number of labelled rows."""
        return len(self.confidences)

    @property
    def n_wrong(self) -> int:
        """Number of rows whose guess is wrong."""
        return int(np.count_nonzero(self.is_wrong))

    def __repr__(self) -> str:
        shown = self.reading.confidence if isinstance(self.reading.confidence, str) else OWN
        return f"Acceptance(n={self.n}, {self.n_wrong} wrong, confidence={shown!r})"

    def accept(
        self,
        probabilities: Any = None,
        error: float | Mapping[Any, float] = 0.05,
        *,
        confidence: Any = None,
        guesses: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        logits: bool = False,
    ) -> NDArray[np.bool_]:
        """Return which rows of a batch may be acted on: on average over batches, at most ``error`` of these are wrong.

        The batch is part of the promise: all of its rows come in one call, and ``error`` is chosen beforehand. A batch
        in which nothing is acted on counts as one without errors, so that small batches promise little.

        Parameters
        ----------
        probabilities : array, tensor or data frame, shape (rows, classes), optional
            All rows of the batch; left out where confidences are your own and there are none.
        error : float, or mapping from guess or group to float, default=0.05
            The share of wrong rows among those that are acted on. With groups it is promised in each. A mapping has a
            number for each predicted label (or group), and all others are left to a person.
        confidence, guesses, groups : array, optional
            Of the new rows, as they were passed to :func:`learn_acceptance`.
        logits : bool, default=False
            As in :func:`calibrate`.

        Returns
        -------
        array of bool
        """
        looked = look_at_new(self.reading, probabilities, confidence, None, logits)
        n_rows = len(looked.confidence)
        self.reading.check_of_rows(guesses, groups, n_rows)
        if n_rows == 1:
            raise ValueError(
                "accept must get a batch of rows; got one row, for which the guarantee would say very "
                "little. Use threshold(error=..., assurance=...).accept(row) for rows one by one."
            )
        budgets, wrong_rows = self._budgets(error), self.confidences[self.is_wrong]
        if budgets.keys() == {None}:
            warn_of_batches({"": (self.n, n_rows, budgets[None])})
            return looked.confidence > batch_bound(wrong_rows, self.n, looked.confidence, budgets[None])
        cells, own = self.reading.cells(looked, guesses, groups), self._own_cells()
        act, counts = np.zeros(n_rows, dtype=np.bool_), dict[str, tuple[int, int, Fraction]]()
        for cell, of_cell in budgets.items():
            rows = np.flatnonzero(cells == cell)
            own_rows, name = own == cell, self.reading.groups.names[cell or 0]
            n, new = int(np.count_nonzero(own_rows)), looked.confidence[rows]
            act[rows] = new > batch_bound(wrong_rows[own_rows[self.is_wrong]], n, new, of_cell)
            if len(rows):
                counts[f" of {name!r}"] = (n, len(rows), of_cell)
        warn_of_batches(counts)
        return act

    def above_in_batch(self, confidence: Floats, error: float) -> NDArray[np.bool_]:
        """Return which rows of a batch are acted on, given their confidences; without a word about small batches."""
        wrong_rows, level = self.confidences[self.is_wrong], check_exact(error, "error", "")
        return np.asarray(confidence > batch_bound(wrong_rows, self.n, confidence, level))

    def threshold(
        self,
        error: float | Mapping[Any, float] = 0.05,
        assurance: float = 0.9,
        *,
        method: str = "auto",
        start: float | None = None,
        all_at_once: bool = False,
    ) -> AcceptanceThreshold:
        """Return one threshold for rows that come one by one: with ``assurance``, at most ``error`` above it are wrong.

        The promise is about this threshold: of all calibrations, a share of ``assurance`` at least gives one that lets
        through at most ``error`` wrong rows, or nothing. Rows must be independent, and ``error`` and ``assurance``
        chosen beforehand.

        Parameters
        ----------
        error : float, or mapping from guess or group to float, default=0.05
            As in :meth:`accept`.
        assurance : float, default=0.9
            The probability, over calibrations, with which the promise holds.
        method : {"auto", "band", "sequence", "bonferroni"}, default="auto"
            A band over ranks, a fixed sequence of ranks, each rank at an equal share of 1 - assurance, or "auto": a
            band where n times error is below 40, and else a sequence with a band beside it.
        start : float, optional
            With ``method="sequence"``: the share of most confident rows at which it starts, by default 0.2.
        all_at_once : bool, default=False
            With several groups or guesses: whether the assurance is for all of them together, or for each.

        Returns
        -------
        AcceptanceThreshold
        """
        make = _METHODS[one_of(method, tuple(_METHODS), "method")]
        delta = 1 - check_exact(assurance, "assurance", "For 90 % pass assurance=0.9.")
        options = []
        if start is not None:
            if method != "sequence":
                raise ValueError(f"start must be left out with method={method!r}. Pass method='sequence'.")
            number(start, "start", "in (0, 1], a share of the rows", lambda part: 0 < part <= 1)
            options = [Fraction(str(start))]
        budgets, own = self._budgets(error), self._own_cells()
        of_each = delta / len(budgets) if flag(all_at_once, "all_at_once") else delta
        levels, names = dict[Any, Level](), self.reading.groups.names
        for cell, of_cell in budgets.items():
            rows = slice(None) if cell is None else np.flatnonzero(own == cell)
            of_rows = (self.confidences[rows], self.u[rows], self.is_wrong[rows])
            levels[ALL if cell is None else names[cell]] = Level.of(*of_rows, of_cell, make, (of_each, *options))
        needed = [level.reason for level in levels.values() if level.is_short]
        if needed:
            several = "" if levels.keys() == {ALL} else f" (in {len(needed)} of {len(levels)} groups)"
            warn_caller(needed[0] + several)
        return AcceptanceThreshold(self.reading, float(1 - delta), bool(all_at_once), levels)

    def curve(self, backend: Any = "pandas") -> Any:
        """Return a table of the share of rows that are acted on and the share of these that are wrong: estimates.

        Nothing is promised of a threshold that is read from it: :meth:`threshold` and :meth:`accept` promise.
        """
        return self.plot_data().frame(backend)

    def plot_data(self) -> Display:
        """Return the figure of the curve, with its table; of many rows, some hundreds."""
        ends = np.flatnonzero(np.diff(self.confidences, append=-inf))
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, min(len(ends), 500)).astype(np.int64))]
        shares = (ends + 1) / self.n
        wrong = np.cumsum(self.is_wrong)[ends] / (ends + 1)
        columns = {"share": shares, "wrong": wrong, "confidence": self.confidences[ends]}
        return Display(columns, "line", "Estimated, not promised", "share acted on", "share of these that is wrong")

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve into matplotlib axes."""
        return self.plot_data().draw(ax)

    def merge(self, other: Acceptance) -> Acceptance:
        """Join with rows that were learned elsewhere: as if all had been learned at once.

        Both must have been made with the same settings and the same integer ``random_state``.
        """
        if not isinstance(other, Acceptance):
            raise TypeError(f"other must be an Acceptance, too; got {type(other).__name__}.")
        first, second = self.reading, other.reading
        same = {
            "confidence": first.confidence == second.confidence,
            "classes": np.array_equal(np.asarray(first.classes), np.asarray(second.classes)),
            "groups and guesses": first.by == second.by,
            "key (random_state)": first.key == second.key,
            "where u comes from (u, ids)": first.chance.source == second.chance.source,
            "normalize": first.normalize == second.normalize,
        }
        check_same(same, "have been learned in the same way", "Learn")
        if {*self.parts} & {*other.parts}:
            raise ValueError("other must have other rows: these are here already, and would count twice.")
        names = tuple(dict.fromkeys(first.groups.names + second.groups.names))
        groups, cells = first.groups, None
        if self.cells is not None and other.cells is not None:
            groups = Groups("row", names)
            places = np.array([names.index(name) for name in second.groups.names])
            cells = np.concatenate([self.cells, places[other.cells]])
        n_copies = first.chance.copies * self.n + second.chance.copies * other.n
        reading = replace(first, groups=groups, chance=first.chance.with_copies(n_copies, self.n + other.n))
        columns = ((rule.confidences, rule.u, rule.is_wrong) for rule in (self, other))
        c, u, is_wrong = map(np.concatenate, zip(*columns, strict=True))
        return Acceptance.of(reading, c, u, is_wrong, cells, self.parts + other.parts)

    def save(self, path: str | Path) -> None:
        """Write the rows to one file that :func:`load` reads; a confidence of your own must be passed again then."""
        from aptset.calibration.stored_acceptance import write_acceptance

        write_acceptance(path, self)

    def _own_cells(self) -> NDArray[np.int32]:
        return np.zeros(self.n, dtype=np.int32) if self.cells is None else self.cells

    def _budgets(self, error: Any) -> dict[int | None, Fraction]:
        """Return the error of each group, by number, or the one of all rows under None."""
        names = self.reading.groups.names
        if not isinstance(error, Mapping):
            share = check_exact(error, "error", "For at most 5 % pass error=0.05.")
            return dict.fromkeys(range(len(names)), share) if self.reading.by == "group" else {None: share}
        if self.reading.by == "none":
            raise ValueError("error must be one number: neither guesses nor groups came when the rule was learned.")
        numbers = {name: cell for cell, name in enumerate(names)}
        unknown = [name for name in error if name not in numbers]
        if unknown or not error:
            what = f"got {unknown[0]!r}" if unknown else "it is empty"
            each = "groups" if self.reading.by == "group" else "predicted labels"
            raise ValueError(f"error must have a number for some of the {each} {list(names)[:6]}; {what}.")
        return {numbers[key]: check_exact(share, "error", "It is the share for each.") for key, share in error.items()}


def load_acceptance(path: str | Path) -> Acceptance | AcceptanceThreshold:
    """Read a rule or a threshold that was saved; whatever is not intact is refused with one error."""
    from aptset.calibration.stored_acceptance import STORE, read_reading, stored_levels

    facts, tensors = STORE.read(path)
    reading = read_reading(path, facts)
    if facts["kind"] == "acceptance":
        of_rows = (tensors["confidence"], tensors["u"], tensors["wrong"], tensors.get("cells"))
        return Acceptance(reading, *of_rows, tuple(map(int, facts["parts"])))
    return AcceptanceThreshold(reading, facts["assurance"], facts["all_at_once"], stored_levels(facts, tensors))
