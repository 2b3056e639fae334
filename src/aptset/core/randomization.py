"""How the u of each row arises: from its content, from an id, or from the caller. New rows must get theirs alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core.devices import is_on_device, is_tensor, on_host
from aptset.core.labels import as_objects, check_length, coded_array, refuse_masked
from aptset.core.matrix import check_u
from aptset.core.row_seeds import id_seeds
from aptset.core.tables import column_values, is_table, names_of_columns, plain_list
from aptset.core.validate import warn_caller
from aptset.kernels.blocks import over_blocks
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import BLOCK_ROWS as BLOCK_ROWS  # rows among which copies are told apart

MANY_COPIES = 0.02  # of the calibration rows: from here on, small calls without ids are worth a warning
_NOT_RANDOMIZED = "u must be left out with randomized=False, which uses u = 1 everywhere; drop one of the two."
_FEWEST_ROWS = 20  # below this many rows nobody can tell an id from a group


def check_one_of_two(u: Any, ids: Any) -> None:
    """Refuse uniforms beside ids."""
    if u is not None and ids is not None:
        raise ValueError("u and ids must not both be passed: u comes from the ids then. Leave one of the two out.")


def check_both_sides(was_given: bool, is_given: bool) -> None:
    """Refuse uniforms that are the caller's on one side only: the coverage would be lost."""
    if is_given and not was_given:
        raise ValueError(
            "u must be given both to calibration and to prediction, or to neither; calibration drew its own "
            "u, and one came with the new rows. Leave u out here (pass ids=... to choose what it is drawn "
            "from), or pass u=... when you calibrate as well."
        )
    if was_given and not is_given:
        raise ValueError(
            "u must be given both to calibration and to prediction, or to neither; calibration was passed u, "
            "and none came with the new rows. Pass u=... here, independent uniforms or u='fresh', or "
            "calibrate again without u."
        )


def column_or_values(ids: Any, table: Any, name: str = "ids") -> Any:
    """Return the ids themselves, or the column of a data frame that a text names."""
    if not isinstance(ids, str):
        return ids
    values = column_values(table, ids) if is_table(table) else None
    if values is None:
        where = f"The columns are {names_of_columns(table)}." if is_table(table) else "There is no data frame."
        raise ValueError(
            f"{name} must be one id per row, or name a column of a data frame; got {ids!r}. {where} For the index of a "
            f"data frame pass {name}=frame.index."
        )
    return values


def check_ids(
    ids: Any,
    n_rows: int,
    least_distinct: float,
    fewest: int = _FEWEST_ROWS,
    name: str = "ids",
    way_out: str = "Give every row an id of its own.",
) -> NDArray[Any] | None:
    """Return the ids as an array; refuse missing ones and, from so many rows on, a column that is hardly an id."""
    if ids is None:
        return None
    refuse_masked(ids, name)
    ids = np.asarray(on_host(ids)) if is_tensor(ids) or is_on_device(ids) else ids
    values = ids if isinstance(ids, np.ndarray) and ids.dtype != object else as_objects(plain_list(ids))
    if values.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one id per row; got shape {values.shape}.")
    check_length(values, n_rows, name)
    odd = next((v for v in values if isinstance(v, list | dict | set)), None) if values.dtype == object else None
    if odd is not None:
        raise TypeError(f"{name} must hold one number, text or other plain value per row; got {odd!r}.")
    missing = _missing(values)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(f"{name} must not be missing; got {values[row]!r} in row {row}. {way_out}")
    if n_rows >= fewest and least_distinct > 0:
        refuse_few_ids(_count_distinct(values), n_rows, least_distinct)
    return values


def refuse_few_ids(n_distinct: int, n_rows: int, least_distinct: float = 0.5) -> None:
    """Refuse a column that is hardly an id."""
    if n_distinct < least_distinct * n_rows and n_rows >= _FEWEST_ROWS:
        raise ValueError(
            f"ids must tell rows apart; got {n_distinct} different ids for {n_rows} rows. Rows with the same "
            "id share their randomness: whole groups would be covered or missed together. Pass a column that "
            "names the row, or leave ids out."
        )


def _count_distinct(ids: NDArray[Any]) -> int:
    if ids.dtype.kind in "US":
        return len(coded_array(ids).values)
    if ids.dtype.kind not in "iu":
        return len(set(ids.tolist()))
    upward = np.sort(ids)  # ten times quicker than np.unique, which hashes whole numbers
    return int(np.count_nonzero(upward[1:] != upward[:-1])) + min(1, len(ids))


def _missing(ids: NDArray[Any]) -> NDArray[np.bool_]:
    if ids.dtype.kind in "fcmM":
        return np.asarray(np.isnan(ids) if ids.dtype.kind in "fc" else np.isnat(ids))
    if ids.dtype != object:
        return np.zeros(len(ids), dtype=np.bool_)
    return np.array([value is None or _is_not_itself(value) for value in ids], dtype=np.bool_)


def _is_not_itself(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA is neither equal nor different
        return True


def refuse_default_index(ids: Any) -> None:
    """Refuse the numbers that pandas gives the rows of every frame: the first row of every call would be one row."""
    if type(ids).__name__ == "RangeIndex" and ids.name is None and ids.start == 0:
        raise ValueError(
            "ids must name the row wherever it comes; got the default index of a data frame, which starts at 0 in "
            "every call. Pass a column that names it, or an index of your own (frame.set_index(...).index)."
        )


def warn_of_equal_shards(copies: float, by_ids_alone: bool = False) -> None:
    """Say that copies in two shards share their chance."""
    if copies >= MANY_COPIES:
        way_out = "" if by_ids_alone else "a first_row of its own (multiples of 4096), or with "
        warn_caller(
            f"{copies:.0%} of the rows are copies of others, and both calibrations start at the same row: "
            "copies in different shards share their randomness, and coverage varies more than n suggests. "
            f"Calibrate each shard with {way_out}ids=...."
        )


def warn_of_shared_chance(copies: float, n_rows: int) -> None:
    """Say that equal rows of different small calls share one u, where calibration rows were often copies."""
    rows = "a single row" if n_rows == 1 else f"{n_rows:,} rows"
    warn_caller(
        f"{copies:.0%} of the calibration rows are copies of others, and {rows} came without ids: the first "
        "of equal rows has the same u in every call. Over many small calls such rows are covered or missed "
        'together, and coverage varies far more than n suggests. Pass ids=... (one per row), or u="fresh" '
        "for new randomness in every call; pass first_row=... with pieces of one long table; or calibrate "
        "with randomized=False."
    )


def check_fresh(u: Any, randomized: bool) -> bool:
    """Tell whether new rows ask for randomness of their own; refuse a text that says something else."""
    if isinstance(u, str) and u != "fresh":
        raise ValueError(f'u must be "fresh", a numpy Generator, or one uniform per row; got {u!r}.')
    is_fresh = isinstance(u, str | np.random.Generator)
    if is_fresh and not randomized:
        raise ValueError(_NOT_RANDOMIZED)
    return is_fresh


def refuse_fresh(u: Any, why: str) -> None:
    """Refuse fresh randomness where it has no place."""
    if isinstance(u, str | np.random.Generator):
        raise ValueError(f"u must be one uniform per row, or left out, {why}; got {u!r}.")


def check_first_row(first_row: Any) -> int:
    """Return the number of the first row of a piece of a longer table."""
    is_number = isinstance(first_row, int | np.integer) and not isinstance(first_row, bool)
    if not is_number or first_row < 0 or first_row % BLOCK_ROWS:
        raise ValueError(
            f"first_row must be a multiple of {BLOCK_ROWS}, the number of the first row of a piece; got {first_row!r}. "
            f"Cut long tables into pieces of a multiple of {BLOCK_ROWS} rows."
        )
    return int(first_row)


_ALL_AT_ONCE: ContextVar[bool] = ContextVar("all_at_once", default=False)


@contextmanager
def all_at_once() -> Iterator[None]:
    """Work on rows that come in this one call, as a test set does: each of their copies has u of its own."""
    before = _ALL_AT_ONCE.set(True)
    try:
        yield
    finally:
        _ALL_AT_ONCE.reset(before)


Source = Literal["content", "ids", "given"]
NewU: TypeAlias = ArrayLike | Literal["fresh"] | np.random.Generator | None  # what may come with new rows


class Uniforms(NamedTuple):
    """What the caller decides about the chance of some rows; None where the rows' content decides."""

    seeds: Words | None
    u: Floats | None


NO_UNIFORMS = Uniforms(None, None)


@dataclass(frozen=True)
class Randomization:
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
    def of(cls, u: Any, ids: Any, randomized: bool) -> Randomization:
        """Return the chance of a calibration that was passed these."""
        check_one_of_two(u, ids)
        return cls("given" if u is not None else "ids" if ids is not None else "content", randomized)

    def with_copies(self, n_copies: float, n_rows: int) -> Randomization:
        """Return the same, knowing how many of the rows are copies."""
        return replace(self, copies=n_copies / n_rows)

    def calibrates(
        self, u: ArrayLike | None, ids: ArrayLike | None, n_rows: int, key: int, least_distinct: float = 0.5
    ) -> Uniforms:
        """Return the draw of calibration rows."""
        if u is None and ids is None:
            return NO_UNIFORMS if self.randomized else Uniforms(None, np.ones(n_rows))
        refuse_fresh(u, "at calibration: its rows have u of their own, copy by copy")
        return self._draw(u, check_ids(ids, n_rows, least_distinct), n_rows, key)

    def predicts(
        self,
        u: NewU,
        ids: ArrayLike | None,
        n_rows: int,
        key: int,
        is_whole: bool = True,
    ) -> Uniforms:
        """Return the draw of new rows; a mixture with the calibration's that is not valid is refused."""
        if u is None and ids is None and self.source != "given":
            if is_whole and self.copies >= MANY_COPIES:
                self.warn(n_rows)
            return NO_UNIFORMS if self.randomized else Uniforms(None, np.ones(n_rows))
        check_one_of_two(u, ids)
        if check_fresh(u, self.randomized):
            return Uniforms(_fresh_seeds(u, n_rows), None)
        refuse_default_index(ids)
        # How many ids a piece of a table holds depends on where it was cut: that is for those who see all of it.
        draw = self._draw(u, check_ids(ids, n_rows, least_distinct=0.05 if is_whole else 0.0, fewest=100), n_rows, key)
        check_both_sides(self.source == "given", u is not None)
        return draw

    def warn(self, n_rows: int) -> None:
        """Say once that small calls share u, where calibration rows were often copies of others."""
        is_shared = n_rows < BLOCK_ROWS and self.randomized and self.copies >= MANY_COPIES
        if is_shared and not self._has_warned and not _ALL_AT_ONCE.get():
            object.__setattr__(self, "_has_warned", True)
            warn_of_shared_chance(self.copies, n_rows)

    def _draw(self, u: Any, ids: NDArray[Any] | None, n_rows: int, key: int) -> Uniforms:
        uniforms = check_u(u, n_rows, may_be_one=False)
        if uniforms is not None and not self.randomized:
            raise ValueError(_NOT_RANDOMIZED)
        seeds = None if ids is None else id_seeds(ids, key)
        return Uniforms(seeds, uniforms if self.randomized else np.ones(n_rows))


BY_CONTENT = Randomization()


def _fresh_seeds(u: Any, n_rows: int) -> Words:
    """Return seeds that no other call has: of the caller's generator, or of one that the system seeds."""
    generator = u if isinstance(u, np.random.Generator) else np.random.default_rng()
    return generator.integers(2**64, size=n_rows, dtype=np.uint64)


_WORDS_AT_ONCE = 2**13  # each of them far from the next
_ALL_ROWS = 2**16  # up to here every row counts; of more, one in 64 does: a fingerprint must not cost a pass


def fingerprint_step(n_rows: int) -> int:
    """Return one in how many rows a fingerprint looks at."""
    return 1 if n_rows <= _ALL_ROWS else 64


def fingerprint_of(seeds: Words, scores: Floats) -> int:
    """Return a number that tells calibration rows apart from others; of rows together it is the sum."""
    if len(seeds) <= _WORDS_AT_ONCE:
        return (int(seeds.sum(dtype=np.uint64)) + int(scores.view(np.uint64).sum(dtype=np.uint64))) % 2**64
    step = fingerprint_step(len(seeds))
    words = (seeds[::step], scores.view(np.uint64)[::step])

    def add_up(start: int, stop: int) -> int:
        return sum(int(word[start:stop].sum(dtype=np.uint64)) for word in words)

    return sum(over_blocks(len(words[0]), _WORDS_AT_ONCE, add_up)) & 0xFFFFFFFFFFFFFFFF
