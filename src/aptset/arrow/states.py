"""What one pass learns of the scores of a partition: small, mergeable in any order, one row of a record batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset import Gridded
from aptset.arrow.layout import ColumnLayout
from aptset.calibration.labelled_rows import LabelScorer
from aptset.conformal.histogram import Keys, OrderStatistics, ScoreCounts, keys_of
from aptset.core.groups import Groups

Seeds = NDArray[np.uint64]
_MOST_PARTITIONS = 2**22  # each has 2^40 numbers for its rows, which must stay below 2^63


def check_rows_found(n: int) -> None:
    """Refuse to calibrate on nothing."""
    if n == 0:
        raise ValueError("batches must have at least one row; got none.")


def check_same_rows(is_same: bool, before: int, now: int) -> None:
    """Refuse rows that are others than those of the pass before."""
    if not is_same:
        raise ValueError(
            f"batches must give the same rows in every pass; the first had {before} rows, this one has {now}"
            f"{', others' if before == now else ''}. Give back the same rows in the same partitions each time (persist "
            "or cache what is computed), or pass resolution=2**-20, which takes one pass."
        )


def check_partition(partition: Any) -> None:
    """Refuse what is no number of a partition."""
    is_number = isinstance(partition, int | np.integer) and not isinstance(partition, bool)
    if partition is not None and not (is_number and 0 <= partition < _MOST_PARTITIONS):
        raise ValueError(f"partition must be a whole number from 0 to {_MOST_PARTITIONS - 1}; got {partition!r}.")


def check_all_partitions(partitions: NDArray[np.int64], wanted: int | None) -> None:
    """Refuse to go on without some of the partitions."""
    if wanted is not None and not np.array_equal(partitions, np.arange(wanted)):
        missing = np.setdiff1d(np.arange(wanted), partitions)[:6].tolist()
        extra = np.setdiff1d(partitions, np.arange(wanted))[:6].tolist()
        raise ValueError(
            f"states must hold every one of {wanted} partitions; missing {missing}, unknown {extra}. Run the search on "
            "each of them, with its number."
        )


def check_same_search(tokens: Sequence[str], wanted: str) -> None:
    """Refuse states that were made in another pass, or for another calibration."""
    other = [token for token in tokens if token != wanted]
    if other:
        raise ValueError(
            f"states must come from this pass of this search, {wanted}; got one of {other[0]}. Run the search of this "
            "pass on every partition."
        )


def check_names_travel(names: list[Any]) -> list[Any]:
    """Return names of groups that come back from Arrow as they are: groups that do not would be counted as one."""
    try:
        is_safe = pa.array(names).to_pylist() == names
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        is_safe = False
    if not is_safe:
        raise TypeError(
            "groups must be texts, numbers below 2**63, booleans or dates to go from worker to worker; got "
            f"{names[0]!r}. Cast the column to texts."
        )
    return names


def check_cells(n_cells: int, most: int) -> None:
    """Refuse a grid that would not fit into memory."""
    if n_cells > most:
        raise ValueError(
            f"resolution must leave at most {most} points of the grid with scores, in all groups; got {n_cells}. "
            "Pass a coarser one, or leave it out: thresholds are then exact, in several passes and bounded memory."
        )


def check_grid_scores(scores: NDArray[np.float64], resolution: float | None) -> None:
    """Refuse scores that are too large to be counted in steps of a grid."""
    if resolution is not None and len(scores) and float(np.abs(scores).max()) >= 2**62 * resolution:
        raise ValueError(
            f"resolution must be coarse enough for the scores; got {resolution!r} for a score of "
            f"{float(np.abs(scores).max()):.3g}. Pass a coarser one, or leave it out."
        )


STATE_SCHEMA = pa.schema([("state", pa.binary())])
_MOST_CELLS = 2**26
KEPT_IDS = 1024  # the smallest seeds of ids: fewer tell exactly how many ids there are
_AT_A_TIME = 8
_MOST_WAITING = 2**20  # keys that wait to be counted
_WORD = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, eq=False)
class PartitionState:
    """Counts of scores, how many rows are copies, a fingerprint of all rows, and the smallest seeds of their ids.

    It knows the numbers of its partitions, where they have one: none may count twice.
    """

    token: str  # of the search and its pass
    counts: ScoreCounts
    n_copies: int
    fingerprint: int
    ids: Seeds
    partitions: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Iterable[PartitionState]) -> PartitionState:
        """Return the state of all rows of several parts; their order and grouping change nothing."""
        parts = list(parts)
        check_same_search([part.token for part in parts], parts[0].token)
        counts = ScoreCounts.joined([part.counts for part in parts])
        check_cells(len(counts.buckets), _MOST_CELLS)
        fingerprint = sum(part.fingerprint for part in parts) & _WORD
        ids = np.unique(np.concatenate([part.ids for part in parts]))[:KEPT_IDS]
        partitions = np.sort(np.concatenate([part.partitions for part in parts]))
        twice = partitions[1:][partitions[1:] == partitions[:-1]]
        if len(twice):
            raise ValueError(
                f"states must count every partition once; partition {int(twice[0])} came twice. Keep the first state "
                "of a partition where tasks are run again."
            )
        return cls(parts[0].token, counts, sum(part.n_copies for part in parts), fingerprint, ids, partitions)

    def as_batch(self) -> pa.RecordBatch:
        """Return the state as a record batch with one row of bytes."""
        return pa.record_batch({"state": pa.array([self.as_bytes()], pa.binary())}, schema=STATE_SCHEMA)

    def as_bytes(self) -> bytes:
        """Return the state as an Arrow stream of one row; neighbouring buckets are stored as gaps, and compressed."""
        counts = self.counts
        gaps = np.diff(counts.buckets, prepend=np.int64(0))
        names = check_names_travel(list(counts.names))
        row = {"names": names, "sizes": counts.sizes, "groups": counts.groups, "gaps": gaps}
        row |= {"counts": counts.counts, "ids": self.ids, "partitions": np.diff(self.partitions, prepend=np.int64(0))}
        most = -1 if counts.most is None else counts.most
        numbers = {"level": counts.level, "most": most, "copies": self.n_copies, "fingerprint": str(self.fingerprint)}
        columns = {name: pa.array([values]) for name, values in {**row, **numbers, "token": self.token}.items()}
        batch, sink = pa.record_batch(columns), pa.BufferOutputStream()
        codec = "zstd" if pa.Codec.is_available("zstd") else None
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, content: bytes) -> PartitionState:
        """Return the state that was written."""
        with pa.ipc.open_stream(content) as reader:
            batch = reader.read_next_batch()

        def array(name: str, kind: Any) -> NDArray[Any]:
            values: NDArray[Any] = batch.column(name).flatten().to_numpy(zero_copy_only=False).astype(kind)
            return values

        def number(name: str) -> Any:
            return batch.column(name)[0].as_py()

        most = number("most")
        of_buckets = array("groups", np.int32), np.cumsum(array("gaps", np.int64)), array("counts", np.int64)
        bound = None if most < 0 else most
        counts = ScoreCounts(tuple(number("names")), array("sizes", np.int64), *of_buckets, number("level"), bound)
        of_rows = number("copies"), int(number("fingerprint")), array("ids", np.uint64)
        return cls(number("token"), counts, *of_rows, np.cumsum(array("partitions", np.int64)))


def states_in(states: Any) -> Iterator[PartitionState]:
    """Yield states from record batches, tables, bytes and states, one inside another."""
    if isinstance(states, PartitionState):
        yield states
    elif isinstance(states, bytes):
        yield PartitionState.from_bytes(states)
    elif isinstance(states, pa.RecordBatch | pa.Table):
        yield from (PartitionState.from_bytes(content) for content in states.column("state").to_pylist())
    else:
        for each in states:
            yield from states_in(each)


def merge_states(batches: Any) -> Iterator[pa.RecordBatch]:
    """Yield one record batch, the merged state of all that come; none if none comes.

    It takes and gives what a search makes of a partition, so it can run anywhere between the partitions and the end, as
    often as one likes: merging is associative and commutative.
    """
    state = merged_state(batches)
    if state is not None:
        yield state.as_batch()


def merged_state(states: Any) -> PartitionState | None:
    """Return the merged state of all that come, a few at a time."""
    waiting: list[PartitionState] = []
    for state in states_in(states):
        waiting.append(state)
        if len(waiting) == _AT_A_TIME:
            waiting = [PartitionState.joined(waiting)]
    return PartitionState.joined(waiting) if waiting else None


class ScoredPiece(NamedTuple):
    """What is kept of the rows of a piece: keys in the order of their scores, their groups, and what u came from.

    ``groups`` are numbers of ``names``, those of this piece.
    """

    keys: Keys
    names: Sequence[Any]
    groups: NDArray[Any]
    n_copies: int
    fingerprint: int
    ids: Seeds


@dataclass
class Collector:
    """Gathers scores of one partition into a state; keys wait until there are many, which is sooner."""

    token: str
    most: int | None
    names: Sequence[Any]  # of groups that are known beforehand
    statistics: OrderStatistics | None  # which keys matter; None: all of them
    partition: int | None
    _parts: list[PartitionState] = field(default_factory=list)
    _waiting: list[tuple[Keys, NDArray[np.int32]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._sizes = np.zeros(len(self._numbers), dtype=np.int64)
        self._n_waiting = self._n_copies = self._fingerprint = 0
        self._ids = np.empty(0, dtype=np.uint64)

    def add(self, piece: ScoredPiece) -> None:
        """Take in the keys of some rows."""
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in piece.names]
        self._sizes = np.append(self._sizes, np.zeros(len(self._numbers) - len(self._sizes), dtype=np.int64))
        keys, own = piece.keys, np.array(numbers, dtype=np.int32)[piece.groups]
        self._sizes += np.bincount(own, minlength=len(self._sizes))
        self._n_copies += piece.n_copies
        self._fingerprint = (self._fingerprint + piece.fingerprint) & _WORD
        self._ids = np.unique(np.concatenate([self._ids, piece.ids]))[:KEPT_IDS]
        if self.statistics is not None:
            inside = self.statistics.are_wanted(keys, own)
            keys, own = keys[inside], own[inside]
        self._waiting.append((keys, own))
        self._n_waiting += len(keys)
        if self._n_waiting >= _MOST_WAITING:
            self._parts = [self._state()]

    def _state(self) -> PartitionState:
        """Return what was gathered up to now as one state."""
        keys = np.concatenate([np.empty(0, dtype=np.int64), *(keys for keys, _ in self._waiting)])
        groups = np.concatenate([np.empty(0, dtype=np.int32), *(groups for _, groups in self._waiting)])
        counts = ScoreCounts.of(keys, groups, list(self._numbers), self._sizes, self.most)
        nowhere = np.empty(0, dtype=np.int64)
        new = PartitionState(self.token, counts, self._n_copies, self._fingerprint, self._ids, nowhere)
        self._waiting, self._n_waiting, self._n_copies, self._fingerprint = [], 0, 0, 0
        self._sizes = np.zeros_like(self._sizes)
        return PartitionState.joined([*self._parts, new])

    def close(self) -> PartitionState:
        """Return the state of all rows."""
        numbers = [] if self.partition is None else [self.partition]
        return replace(self._state(), partitions=np.array(numbers, dtype=np.int64))


PARTITION_ROWS = 2**40  # rows of partition p are numbered from p times this: their copies are copies of their own


@dataclass(frozen=True)
class BatchScorer:
    """How labels are scored and grouped: by which columns, under which score, in groups of which kind."""

    layout: ColumnLayout
    scorer: LabelScorer
    kind: str
    bands: Groups | None = None  # of the labels, where the kind is "band"

    @property
    def resolution(self) -> float | None:
        """The grid that scores are on, if there is one."""
        score = self.scorer.score
        return float(score.resolution) if isinstance(score, Gridded) else None

    @property
    def names(self) -> tuple[Any, ...]:
        """The groups that are known before any row is seen."""
        if self.bands is not None:
            return tuple(range(len(self.bands.names)))
        return {"all": ("all",), "label": tuple(range(len(self.layout.classes))), "row": ()}[self.kind]

    def groups_of(self, names: tuple[Any, ...]) -> Groups:
        """Return the groups under their own names: those of labels are counted by number."""
        if self.bands is not None:
            return self.bands
        return Groups(self.kind, tuple(self.layout.classes.tolist()) if self.kind == "label" else names)

    def score(self, piece: pa.RecordBatch, first_row: int) -> ScoredPiece:
        """Score the label of each row."""
        columns = self.layout.label_columns(piece)
        scored = self.scorer.scores(self.layout.matrix(piece), columns, self.layout.id_values(piece), first_row)
        check_grid_scores(scored.scores, self.resolution)
        names, groups = self._groups(piece, columns)
        keys = keys_of(scored.scores, self.resolution)
        words = int(scored.seeds.sum(dtype=np.uint64)) + int((scored.scores + 0.0).view(np.uint64).sum(dtype=np.uint64))
        ids = scored.seeds[:0] if self.layout.ids is None else scored.seeds
        return ScoredPiece(keys, names, groups, scored.n_copies, words, ids)

    def _groups(self, piece: pa.RecordBatch, columns: NDArray[np.int64]) -> tuple[Sequence[Any], NDArray[Any]]:
        of_rows = self.layout.group_values(piece)
        if of_rows is not None:
            return of_rows
        if self.bands is not None:
            return self.names, self.bands.ids_of_labels(None, columns)
        return self.names, columns if self.kind == "label" else np.zeros(len(columns), dtype=np.int64)
