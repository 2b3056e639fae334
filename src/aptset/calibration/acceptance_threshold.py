"""One threshold of confidence for rows that come one by one: those above it are acted on (docs/design/0024)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibration.acceptance_rows import Reading, check_numbers, look_at_new
from aptset.calibration.request import take_ids
from aptset.core.randomization import NewU
from aptset.kernels.formula import Floats

ALL = ("all rows",)  # the key of a threshold that is for all: no group has it, since names are plain values


class Level(NamedTuple):
    """A threshold of one group: rows above (value, u) are acted on, so many of n calibration rows, so many wrong."""

    value: float
    u: float
    rows: int
    n: int
    n_wrong: int
    error: Fraction
    reason: str
    is_short: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class AcceptanceThreshold:
    """One threshold: new rows above it are acted on, whenever they come. Made by :meth:`Acceptance.threshold`.

    With a number of errors for each guess or group, ``value``, ``u``, ``rows``, ``share`` and ``reason`` are
    dictionaries.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> confidence = np.linspace(0, 1, 400)
    >>> rule = aptset.learn_acceptance(confidence=confidence, wrong=confidence < 0.25, random_state=0)
    >>> threshold = rule.threshold(error=0.05, assurance=0.9)
    >>> threshold
    AcceptanceThreshold(above 0.22807017543859648: 308 of 400 rows, error=0.05, assurance=0.9)
    >>> threshold.accept(confidence=[0.9, 0.1])
    array([ True, False])
    """

    reading: Reading
    assurance: float
    all_at_once: bool
    levels: Mapping[Any, Level]

    def _each(self, look: Callable[[Level], Any]) -> Any:
        several = {group: look(level) for group, level in self.levels.items()}
        return several[ALL] if self.is_one else several

    @property
    def is_one(self) -> bool:
        """Whether one threshold is for all rows."""
        return self.levels.keys() == {ALL}

    @property
    def value(self) -> float | dict[Any, float]:
        """The confidence above which rows are acted on: minus infinity for all of them, infinity for none."""
        each: float | dict[Any, float] = self._each(lambda level: level.value)
        return each

    @property
    def u(self) -> float | dict[Any, float]:
        """Rows at the threshold itself are acted on if their u is above this one."""
        each: float | dict[Any, float] = self._each(lambda level: level.u)
        return each

    @property
    def rows(self) -> int | dict[Any, int]:
        """How many of the calibration rows are above the threshold."""
        each: int | dict[Any, int] = self._each(lambda level: level.rows)
        return each

    @property
    def share(self) -> float | dict[Any, float]:
        """The share of the calibration rows that are above the threshold: an estimate of what will be decided."""
        each: float | dict[Any, float] = self._each(lambda level: level.rows / max(1, level.n))
        return each

    @property
    def error(self) -> float | dict[Any, float]:
        """The share of wrong rows that is allowed among those that are acted on."""
        each: float | dict[Any, float] = self._each(lambda level: float(level.error))
        return each

    @property
    def reason(self) -> str | dict[Any, str]:
        """What can be decided, or why nothing can."""
        each: str | dict[Any, str] = self._each(lambda level: level.reason)
        return each

    def accept(
        self,
        probabilities: Any = None,
        *,
        confidence: Any = None,
        guesses: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        logits: bool = False,
        u: NewU = None,
        ids: Any = None,
    ) -> NDArray[np.bool_]:
        """Return which rows are acted on; one row or many, each by itself.

        The parameters are those of :meth:`Acceptance.accept`; u and ids are those of :meth:`Calibration.predict_set`,
        and decide rows whose confidence is the threshold itself.
        """
        reading = self.reading
        if ids is not None:
            probabilities, ids = take_ids(probabilities, ids)
        matrix = reading.matrix(probabilities)
        own = reading.own_confidence(confidence, probabilities)
        n_rows = len(matrix) if matrix is not None else len(check_numbers(own, None))
        reading.check_of_rows(guesses, groups, n_rows)
        draw = reading.chance.predicts(u, ids, n_rows, reading.key)
        looked = look_at_new(reading, probabilities, confidence, draw, logits)
        cells = None if self.is_one else reading.cells(looked, guesses, groups)
        return self.above(looked.confidence, looked.u, cells)

    def above(self, confidence: Floats, u: Floats, cells: NDArray[np.integer[Any]] | None) -> NDArray[np.bool_]:
        """Return which rows are above the threshold, that of their group or guess if each has its own."""
        if self.is_one or cells is None:
            return _above(confidence, u, self.levels[ALL])
        act = np.zeros(len(confidence), dtype=np.bool_)
        for name, level in self.levels.items():
            rows = np.flatnonzero(cells == self.reading.groups.names.index(name))
            act[rows] = _above(confidence[rows], u[rows], level)
        return act

    def merge(self, other: Any) -> AcceptanceThreshold:
        """Refuse: thresholds of two calibrations have no common one."""
        raise ValueError("thresholds cannot be merged: merge the Acceptance of each shard, and take its threshold.")

    def sentence(self) -> str:
        """Return what is decided and what is promised, in words."""
        words = []
        for group, level in self.levels.items():
            of_whom = "" if self.is_one else f" of {group!r}"
            if level.rows == 0:
                words.append(f"No row{of_whom} is decided: {level.reason.partition(': ')[2]}.")
                continue
            each = f"with {self.assurance:.4g} confidence{' for all at once' if self.all_at_once else ''}"
            words.append(
                f"About {level.rows / level.n:.0%} of rows{of_whom} are decided; at most {float(level.error):.4g} of "
                f"these are wrong ({each})."
            )
        return " ".join(words)

    def __repr__(self) -> str:
        if not self.is_one:
            return f"AcceptanceThreshold({len(self.levels)} groups, assurance={self.assurance:g})"
        (level,) = self.levels.values()
        what = f"above {level.value!r}: {level.rows} of {level.n} rows"
        return f"AcceptanceThreshold({what}, error={float(level.error):g}, assurance={self.assurance:g})"

    def save(self, path: str | Path) -> None:
        """Write the threshold to one file that :func:`load` reads; a confidence of your own must be passed again."""
        from aptset.calibration.stored_acceptance import write_threshold

        write_threshold(path, self)


def _above(confidence: Floats, u: Floats, level: Level) -> NDArray[np.bool_]:
    act: NDArray[np.bool_] = (confidence > level.value) | ((confidence == level.value) & (u > level.u))
    return act
