"""Sets whose level follows the labels: the share of misses stays near alpha whatever the rows do."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import PredictionSets
from aptset.calibration.adaptive_level import (
    AdaptiveLevel,
    LevelSettings,
    ThresholdHistory,
    check_count,
    check_step,
    check_streamable,
    check_window,
)
from aptset.calibration.calibration import Calibration
from aptset.calibration.online_state import Numbering, State, WaitingRows, first_scores, read_state, write_state
from aptset.calibration.request import PlacedRows, Request, content_seeds, new_rows, scores_of_labels, sets_like_input
from aptset.conformal.histogram import FixedThresholds
from aptset.core import validate
from aptset.core.devices import like_input
from aptset.core.groups import Ids
from aptset.core.labels import check_labels
from aptset.core.levels import warn_if_too_few
from aptset.core.randomization import refuse_fresh
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import Rows


class Question(NamedTuple):
    """Rows with a seed each, the key by which each is found again, and the group of each (None: the label decides)."""

    rows: Rows
    keys: Words
    groups: Ids | None
    by_id: bool
    unknown: dict[Any, int]  # groups that no calibration row had

    @property
    def seeds(self) -> Words:
        """The seed of each row, as if it came now."""
        assert self.rows.seeds is not None
        return self.rows.seeds


def take_in_labels(state: State, question: Question, columns: NDArray[np.int64], numbers: NDArray[np.intp]) -> None:
    """Let a state know the labels of rows, by their columns and the numbers of their groups."""
    (_judge_call if state.waiting.is_next(question.keys) else _judge_rows)(state, question, columns, numbers)
    if not question.by_id:
        state.numbering.go_on(question.keys)
    if len(columns):
        state.history.go_on(state.levels, _met(numbers))
    if state.history.is_long(state.waiting.n_at_most):
        state.history.forget(state.waiting.moments())


def _judge_call(state: State, question: Question, columns: NDArray[np.int64], numbers: NDArray[np.intp]) -> None:
    """Judge rows of one call by what was in force when it was answered."""
    seeds, moment = state.waiting.next_rows(len(columns))
    scores = _scores(question, seeds, columns)
    state.waiting.drop_next(len(columns))
    for number in _met(numbers):
        state.levels[number].learn_batch(scores[numbers == number], state.history.to(number, moment))


def _judge_rows(state: State, question: Question, columns: NDArray[np.int64], numbers: NDArray[np.intp]) -> None:
    """Judge rows one by one, each by what was in force when it was asked about, or now if it never was."""
    asked_before, seeds = state.waiting.find(question.keys), question.seeds.copy()
    for row, waiting_row in asked_before.items():
        seeds[row] = waiting_row.asked.seed
    scores = _scores(question, seeds, columns)
    state.waiting.drop(waiting_row.number for waiting_row in asked_before.values())
    for number in _met(numbers):
        same = np.flatnonzero(numbers == number)
        issued = [
            state.history.to(number, asked_before[row].asked.moment) if row in asked_before else None
            for row in same.tolist()
        ]
        state.levels[number].learn(scores[same].tolist(), issued)


def _met(numbers: NDArray[np.intp]) -> list[int]:
    """Return the groups that are among these; those that no calibration row had teach nothing."""
    present: list[int] = np.unique(numbers[numbers >= 0]).tolist()
    return present


def _scores(question: Question, seeds: Words, columns: NDArray[np.int64]) -> Floats:
    """Return the scores of the true labels, with the chance that each row was asked about with."""
    return scores_of_labels(replace(question.rows, seeds=seeds), columns).scores


class Online:
    """Prediction sets for a stream: the level moves with every label, so that misses stay near alpha, come what may.

    After each label the level rises by ``step * alpha``, and falls by ``step`` if the set missed. A label is in the set
    iff its p-value among the last ``window`` scores exceeds the level: every label at a level of 0 and below, none from
    1 on.

    Parameters
    ----------
    calibration : Calibration
        Made by :func:`calibrate`. Its scores are the first of the window (of more than ``window`` a choice that its key
        decides). Groups have windows and levels of their own, and the promise holds in each.
    alpha : float, default=0.1
        The share of misses that is aimed at, and the first level.
    window : int or None, default=500
        How many scores are kept, the last ones. None: those of the calibration stay, and only the level moves.
    step : float, default=0.01
        How far one miss moves the level. 0 with ``window=None`` gives the sets of the calibration.
    waiting : int, default=1000000
        How many sets are remembered until their labels come.

    Attributes
    ----------
    rows, misses : int
        Rows whose labels are known, and those among them whose set missed.

    Notes
    -----
    The promise holds for any sequence of rows and labels, drifting or chosen by an enemy: after T rows the share of
    misses differs from alpha by at most (max(alpha, 1 - alpha) + step (1 + delay)) / (step T), where ``delay`` is the
    largest number of labels that came between a set and its own label: 0 if each row is asked about when the labels of
    all earlier ones are known. It is about the average. Single rows have no promise.

    A miss is a miss of the set that was given. Rows are known by their content (or their ``ids``): :meth:`update`
    looks for the oldest set that waits for such a row, and takes the threshold that was in force when it was given. A
    row that nobody asked about counts as asked about just before its label came, so ``update`` alone replays a stream.
    Asking for the set and then for the mask of the same rows, one call after the other, is asking once; a row that is
    asked about with the same id again is judged by what it was told last. With ``allow_empty=False`` a set that would
    be empty counts as a miss all the same: users see fewer misses.

    u of a row is that of its content and of which copy it is among the rows so far, as if the rows whose labels are
    known and those of the call had come in one call of :meth:`Calibration.predict_set`; with ``ids`` that of its id.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> probabilities = generator.dirichlet([1.0] * 4, size=3000)
    >>> labels = (probabilities.cumsum(axis=1) > generator.random((3000, 1))).argmax(axis=1)
    >>> labels[1500:] = generator.integers(4, size=1500)  # the model has lost its sense
    >>> calibration = aptset.calibrate(probabilities[:500], labels[:500], random_state=0)
    >>> online = aptset.Online(calibration, alpha=0.1)
    >>> for row in range(500, 3000):
    ...     sets = online.predict_set(probabilities[row : row + 1])
    ...     online = online.update(probabilities[row : row + 1], labels[row : row + 1])
    >>> round(online.miss_rate, 3), round(online.bound(), 3)
    (0.101, 0.036)
    """

    def __init__(
        self,
        calibration: Calibration,
        alpha: float = 0.1,
        window: int | None = 500,
        step: float = 0.01,
        *,
        waiting: int = 1_000_000,
    ) -> None:
        self.calibration = check_streamable(calibration)
        settings = LevelSettings(validate.alpha(alpha), check_step(step), check_window(window))
        levels = [AdaptiveLevel(settings, scores.tolist()) for scores in first_scores(calibration, settings.window)]
        most = check_count(waiting, "waiting", "1000000 is usual")
        self._state = State(settings, levels, Numbering(), WaitingRows(most), ThresholdHistory(levels))

    @property
    def alpha(self) -> float:
        """The share of misses that is aimed at."""
        return float(self._state.settings.alpha)

    @property
    def window(self) -> int | None:
        """How many scores are kept."""
        return self._state.settings.window

    @property
    def step(self) -> float:
        """How far one miss moves the level."""
        return float(self._state.settings.step)

    @property
    def rows(self) -> int:
        """Rows whose labels are known."""
        return sum(adaptive.rows for adaptive in self._state.levels)

    @property
    def misses(self) -> int:
        """Rows whose set missed the label."""
        return sum(adaptive.misses for adaptive in self._state.levels)

    @property
    def n_waiting(self) -> int:
        """Sets that were given and whose labels have not come yet."""
        return len(self._state.waiting)

    @property
    def level(self) -> Fraction | dict[Any, Fraction]:
        """The level that is in force, as an exact fraction; with groups that of each."""
        return self.calibration.held_out.groups.by_name([adaptive.level for adaptive in self._state.levels])

    @property
    def alpha_now(self) -> float | dict[Any, float]:
        """The level that is in force; with groups that of each."""
        return self.calibration.held_out.groups.by_name([float(adaptive.level) for adaptive in self._state.levels])

    @property
    def miss_rate(self) -> float | dict[Any, float]:
        """The share of misses so far, not a number before the first row; with groups that of each."""
        return self.calibration.held_out.groups.by_name(
            [adaptive.misses / adaptive.rows if adaptive.rows else nan for adaptive in self._state.levels]
        )

    @property
    def delay(self) -> int | dict[Any, int]:
        """The largest number of labels that came between a set and its own label; with groups in each."""
        return self.calibration.held_out.groups.by_name([adaptive.delay for adaptive in self._state.levels])

    def bound(self) -> float | dict[Any, float]:
        """Return how far the share of misses can be from alpha, whatever came; with groups in each."""
        return self.calibration.held_out.groups.by_name([adaptive.bound for adaptive in self._state.levels])

    def predict_set(
        self,
        probabilities: Any,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        remember: bool = True,
    ) -> PredictionSets:
        """Return the prediction set of each row, all at the level that is in force.

        The parameters are those of :meth:`Calibration.predict_set`, and ``remember``: each row is remembered until its
        label comes; False only looks, for rows that are asked about again and again.
        """
        request = Request(groups, u, ids, normalize, logits, allow_empty=allow_empty)
        question, placed, may_be_empty = self._asked(probabilities, request)
        (sets,) = placed.sets([self._state.settings.alpha], self.calibration.classes, may_be_empty)
        self._remember(question, "set", remember)
        answer: PredictionSets = sets_like_input(sets, probabilities)
        return answer

    def predict_mask(
        self,
        probabilities: Any,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        remember: bool = True,
    ) -> NDArray[np.bool_]:
        """Return the prediction sets as a boolean matrix, (rows, classes); as :meth:`predict_set` otherwise."""
        request = Request(groups, u, ids, normalize, logits, allow_empty=allow_empty)
        question, placed, may_be_empty = self._asked(probabilities, request)
        mask = placed.mask(self._state.settings.alpha, may_be_empty)
        self._remember(question, "mask", remember)
        answer: NDArray[np.bool_] = like_input(mask, probabilities)
        return answer

    def update(
        self,
        probabilities: Any,
        labels: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
    ) -> Online:
        """Take in the true labels of rows, in the order in which they became known; return self.

        Pass what was passed to :meth:`predict_set` about these rows, in any pieces and however late.
        """
        question = self._ask(probabilities, Request(groups, u, ids, normalize, logits))
        columns = check_labels(labels, self.calibration.classes, len(question.keys))
        numbers = self.calibration.held_out.groups.ids_of_labels(question.groups, columns)
        take_in_labels(self._state, question, columns, numbers)
        return self

    def _ask(self, probabilities: Any, request: Request) -> Question:
        """Check rows of a stream as the calibration checks new ones; those on a device go through the host."""
        refuse_fresh(request.u, "in a stream, which numbers copies from call to call")
        calibration = self.calibration
        rows, draw, matrix = new_rows(calibration, probabilities, request, is_whole=False, may_stay=False)
        assert isinstance(rows, Rows)  # nothing stays on a device
        of_rows, sizes = calibration.held_out.resolve_groups(request.groups, len(rows))
        unknown = {name: n for name, n in sizes.items() if n == 0 and name not in calibration.held_out.size_of_group}
        if draw.seeds is not None:
            return Question(rows, draw.seeds, of_rows, True, unknown)
        keys = content_seeds(rows, matrix)
        seeded = replace(rows, seeds=self._state.numbering.own_seeds(keys))
        return Question(seeded, keys, of_rows, False, unknown)

    def _asked(self, probabilities: Any, request: Request) -> tuple[Question, PlacedRows, bool]:
        """Return rows that sets are wanted of, also with the thresholds in force, and whether sets may be empty.

        Say if some groups were never seen.
        """
        held_out, alpha = self.calibration.held_out, self._state.settings.alpha
        may_be_empty = validate.flag(request.allow_empty, "allow_empty", self.calibration.allow_empty)
        question = self._ask(probabilities, request)
        if question.unknown:
            warn_if_too_few(question.unknown, [alpha], held_out.groups)
        known = FixedThresholds(
            groups=held_out.groups,
            group_sizes=held_out.sizes,  # at which nobody looks
            levels=(alpha,),
            values=self._state.history.thresholds[None],
        )
        return question, PlacedRows(known, question.rows, question.groups), may_be_empty

    def __repr__(self) -> str:
        settings = self._state.settings
        head = f"Online(alpha={self.alpha:g}, window={settings.window}, step={self.step:g})"
        if not self.rows:
            return f"{head}: no row yet"
        return f"{head}: {self.misses:,} of {self.rows:,} rows missed ({self.misses / self.rows:.1%})"

    def _remember(self, question: Question, form: str, remember: bool) -> None:
        if validate.flag(remember, "remember"):
            self._state.waiting.add(question.keys, question.seeds, self._state.history.moment, question.by_id, form)

    def save(self, path: str | Path) -> None:
        """Write the state to a small file, whole or not at all; :meth:`load` goes on from there, to the bit.

        The calibration is not in it: keep that with :meth:`Calibration.save`.
        """
        write_state(path, self.calibration, self._state)

    @classmethod
    def load(cls, path: str | Path, calibration: Calibration) -> Online:
        """Read a state that was saved, beside its calibration; whatever is not intact is refused with one error."""
        online = cls(calibration)
        online._state = read_state(path, calibration)
        return online
