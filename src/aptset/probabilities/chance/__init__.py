"""How the u of each row arises: from its content, from an id, or from the caller. New rows must get theirs alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.data.matrix_checks import uniforms_of
from aptset.data.setting_checks import are_all_at_once
from aptset.kernels.copies import BLOCK_ROWS
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words
from aptset.probabilities.chance.checks import (
    MANY_COPIES,
    check_both_sides,
    check_fresh,
    check_ids,
    check_one_of_two,
    refuse_default_index,
    refuse_fresh,
    warn_of_shared_chance,
)
from aptset.probabilities.chance.seeds import id_seeds

Source = Literal["content", "ids", "given"]
NewU: TypeAlias = ArrayLike | Literal["fresh"] | np.random.Generator | None  # what may come with new rows


class Draw(NamedTuple):
    """What the caller decides about the chance of some rows; None where the rows' content decides."""

    seeds: Words | None
    u: Floats | None


NO_DRAW = Draw(None, None)


@dataclass(frozen=True)
class Chance:
    """How the u of the calibration rows arose.

    Parameters
    ----------
    source : {"content", "ids", "given"}
        From the content of each row (and which copy it is), from the caller's ids, or the caller's own uniforms.
    randomized : bool
        Whether u is drawn at all; otherwise it is 1 everywhere, and the source only decides the order of ties.
    copies : float
        The share of the calibration rows that are copies of other ones.
    """

    source: Source = "content"
    randomized: bool = True
    copies: float = 0.0
    _has_warned: bool = field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, u: Any, ids: Any, randomized: bool) -> Chance:
        """Return the chance of a calibration that was passed these."""
        check_one_of_two(u, ids)
        return cls("given" if u is not None else "ids" if ids is not None else "content", randomized)

    def with_copies(self, n_copies: float, n_rows: int) -> Chance:
        """Return the same, knowing how many of the rows are copies."""
        return replace(self, copies=n_copies / n_rows)

    def calibrates(
        self, u: ArrayLike | None, ids: ArrayLike | None, n_rows: int, key: int, least_distinct: float = 0.5
    ) -> Draw:
        """Return the draw of calibration rows."""
        refuse_fresh(u, "at calibration: its rows have u of their own, copy by copy")
        return self._draw(u, check_ids(ids, n_rows, least_distinct), n_rows, key)

    def predicts(
        self,
        u: NewU,
        ids: ArrayLike | None,
        n_rows: int,
        key: int,
        is_whole: bool = True,
        stacklevel: int = 4,
    ) -> Draw:
        """Return the draw of new rows; a mixture with the calibration's that is not valid is refused."""
        if u is None and ids is None and self.source != "given":
            if is_whole and self.copies >= MANY_COPIES:
                self.warn(n_rows, stacklevel + 1)
            return NO_DRAW if self.randomized else Draw(None, np.ones(n_rows))
        check_one_of_two(u, ids)
        if check_fresh(u, self.randomized):
            return Draw(_fresh_seeds(u, n_rows), None)
        refuse_default_index(ids)
        # How many ids a piece of a table holds depends on where it was cut: that is for those who see all of it.
        draw = self._draw(u, check_ids(ids, n_rows, least_distinct=0.05 if is_whole else 0.0, fewest=100), n_rows, key)
        check_both_sides(self.source == "given", u is not None)
        return draw

    def warn(self, n_rows: int, stacklevel: int) -> None:
        """Say once that small calls share u, where calibration rows were often copies of others."""
        is_shared = n_rows < BLOCK_ROWS and self.randomized and self.copies >= MANY_COPIES
        if is_shared and not self._has_warned and not are_all_at_once():
            object.__setattr__(self, "_has_warned", True)
            warn_of_shared_chance(self.copies, n_rows, stacklevel)

    def _draw(self, u: Any, ids: NDArray[Any] | None, n_rows: int, key: int) -> Draw:
        seeds = None if ids is None else id_seeds(ids, key)
        return Draw(seeds, uniforms_of(u, n_rows, self.randomized))


BY_CONTENT = Chance()


def _fresh_seeds(u: Any, n_rows: int) -> Words:
    """Return seeds that no other call has: of the caller's generator, or of one that the system seeds."""
    generator = u if isinstance(u, np.random.Generator) else np.random.default_rng()
    return generator.integers(2**64, size=n_rows, dtype=np.uint64)


_ALL_ROWS = 2**16  # up to here every row counts; of more, one in 64 does: a fingerprint must not cost a pass


def fingerprint_step(n_rows: int) -> int:
    """Return one in how many rows a fingerprint looks at."""
    return 1 if n_rows <= _ALL_ROWS else 64


def fingerprint_of(seeds: Words, scores: Floats) -> int:
    """Return a number that tells calibration rows apart from others; of rows together it is the sum."""
    step = fingerprint_step(len(seeds))
    words = (seeds[::step], scores.view(np.uint64)[::step])
    return sum(int(word.sum(dtype=np.uint64)) for word in words) & 0xFFFFFFFFFFFFFFFF
