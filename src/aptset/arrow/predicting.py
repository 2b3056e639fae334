"""Predict on batches: sets beside the columns that travel along, one piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aptset import Calibration
from aptset.arrow.layout import ColumnLayout, Columns
from aptset.arrow.sources import (
    BatchSource,
    columns_of_sets,
    names_of_sets,
    of_texts,
    peeked,
    pieces,
    record_batches,
    rows_of,
)
from aptset.arrow.states import PARTITION_ROWS, check_partition
from aptset.conformal.histogram import FixedThresholds
from aptset.conformal.importance import refuse_with_weights
from aptset.core.groupings import refuse_overlapping
from aptset.core.groups import labels_decide
from aptset.core.labels import as_objects
from aptset.core.levels import Assurance, Level, check_alphas
from aptset.core.randomization import NewU
from aptset.core.row_groups import check_same_kind


@dataclass(frozen=True, eq=False)
class BatchPredictor:
    """A picklable function from batches to the same rows with their sets; :func:`set_maker` makes one.

    Columns of probabilities stay behind, all others travel along. ``schema`` is that of what comes out.
    """

    calibration: Calibration
    layout: ColumnLayout
    order: tuple[int, ...]  # where each class of the calibration stands in the layout
    levels: tuple[Level, ...]
    schema: pa.Schema
    settings: Predicting

    def __call__(self, batches: Any, partition: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition with their sets, piece by piece.

        Parameters
        ----------
        batches : iterable of record batches, or anything with ``__arrow_c_stream__``
            All rows of the partition.
        partition : int, optional
            Its number, which errors name; copies of rows in other partitions then get a chance of their own.
        """
        check_partition(partition)
        by_blocks, offset = self.layout.ids is None, (partition or 0) * PARTITION_ROWS
        for start, piece in pieces(record_batches(batches), len(self.order), by_blocks):
            with rows_of(partition, start):
                columns = self._columns(piece, offset + start if by_blocks else 0)
            if offset and by_blocks and start == 0 and self.settings.u is None:  # all rows, if they are few
                self.calibration.chance.warn(piece.num_rows)
            yield pa.record_batch(columns, schema=self.schema)

    def _columns(self, piece: pa.RecordBatch, first_row: int) -> list[pa.Array]:
        matrix, groups = self.layout.matrix(piece), self.layout.group_values(piece)
        matrix = matrix if list(self.order) == list(range(len(self.order))) else matrix[:, list(self.order)]
        by = None if groups is None else as_objects(groups[0])[groups[1]]
        of_rows = {"groups": by, "ids": self.layout.id_values(piece), "first_row": first_row}
        levels: list[Any] = list(self.levels)
        sets = self.calibration.predict_set(matrix, levels, **of_rows, **self.settings.flags)
        made = columns_of_sets(sets, self._names, self._classes)
        return [made[name] if name in made else piece.column(name) for name in self.schema.names]

    @cached_property
    def _names(self) -> list[tuple[str, str]]:
        added = self.schema.names[-2 * len(self.levels) :]
        return list(zip(added[::2], added[1::2], strict=True))

    @cached_property
    def _classes(self) -> pa.Array:
        return class_array(self.calibration)


def class_array(calibration: Calibration) -> pa.Array:
    """Return the classes as sets hold them."""
    classes = calibration.classes.tolist()
    return of_texts(classes) if all(isinstance(label, str) for label in classes) else pa.array(classes)


def set_maker(
    calibration: Calibration,
    first: pa.RecordBatch | pa.Schema,
    *,
    alpha: float | Mapping[Any, float] | Sequence[float | Mapping[Any, float]] | None = None,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    normalize: bool | None = None,
    logits: bool = False,
    allow_empty: bool | None = None,
    u: Literal["fresh"] | None = None,
    assurance: float | Assurance | None = None,
) -> BatchPredictor:
    """Return a function from batches to batches with sets, for batches with the schema of ``first``.

    The parameters are those of :func:`predict_batches`. What it returns can be pickled, and called on every partition;
    so u may be "fresh", but no generator, of which every worker would have a copy.
    """
    if not (u is None or isinstance(u, str)):  # its copies would draw the same numbers
        raise ValueError(f'u must be "fresh" or left out where partitions are worked on apart; got {u!r}.')
    columns = Columns(probabilities, prefix, groups, ids)
    settings = Predicting(
        alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty, u=u, assurance=assurance
    )
    return maker_for(calibration, first, columns, settings)


def maker_for(
    calibration: Calibration, first: pa.RecordBatch | pa.Schema, columns: Columns, settings: Predicting
) -> BatchPredictor:
    """Return a function from batches to batches with sets; only here is looked at what was given."""
    refuse_overlapping(
        calibration.held_out.groups.overlaps, "batches", "Call calibration.predict_set with their groups."
    )
    check_without_row_weights(calibration)
    levels, groups = levels_of(calibration, settings.alpha, settings.assurance), columns.groups
    schema = first if isinstance(first, pa.Schema) else first.schema
    layout = ColumnLayout.of(first, columns, len(calibration.classes))
    check_same_kind(calibration.held_out.groups.by_row, None if labels_decide(groups) else [groups] if groups else None)
    wanted, classes = calibration.classes.tolist(), layout.classes.tolist()
    check_width(layout.columns[0], len(classes) if layout.holds_lists else len(wanted), len(wanted))
    order = list(range(len(wanted))) if layout.holds_lists else check_classes_known(classes, wanted)
    kept = [name for name in schema.names if name not in set(layout.columns)]  # which travel along
    names = names_of_sets(levels, kept)
    check_room([name for pair in names for name in pair], kept)
    of_set = pa.list_(class_array(calibration).type)
    added = [field for size, labels in names for field in ((size, pa.int32()), (labels, of_set))]
    made = pa.schema([*(schema.field(name) for name in kept), *(pa.field(name, kind) for name, kind in added)])
    return BatchPredictor(calibration, layout, tuple(order), tuple(levels), made, settings)


def check_without_row_weights(calibration: Calibration) -> None:
    """Refuse a calibration that asks for a weight with every row: batches have no column for it."""
    held_out = calibration.held_out
    if held_out.has_weights and held_out.ratios is None:
        refuse_with_weights(
            "this calibration needs a weight for each row, and batches have none. Call predict_set on parts of the rows"
        )


def levels_of(calibration: Calibration, alpha: Any, assurance: Any = None) -> list[Level]:
    """Return the levels to predict at: by default those that were calibrated, or 0.1; refuse what it cannot answer."""
    held_out = calibration.held_out
    if alpha is None and isinstance(held_out, FixedThresholds):
        alpha = list(held_out.levels)
    levels = list(dict.fromkeys(check_alphas(0.1 if alpha is None else alpha, assurance)[0]))
    for level in levels:
        held_out.check_level_offered(level)
    return levels


def predict_batches(
    batches: Any,
    calibration: Calibration,
    *,
    alpha: float | Mapping[Any, float] | Sequence[float | Mapping[Any, float]] | None = None,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    normalize: bool | None = None,
    logits: bool = False,
    allow_empty: bool | None = None,
    u: Literal["fresh"] | np.random.Generator | None = None,
    assurance: float | Assurance | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of record batches with their prediction sets, worked out as they are read.

    Parameters
    ----------
    batches : table, stream, iterable of batches, or function
        As in :func:`calibrate_batches`; one look is enough.
    calibration : Calibration
        Of :func:`calibrate_batches`, :func:`calibrate` or a file.
    alpha : float, mapping, or sequence of them, optional
        The levels, as in :meth:`Calibration.predict_set`; by default those that the calibration has, or 0.1.
    probabilities, prefix, groups, ids
        The columns, as in :func:`calibrate_batches`. Columns of probabilities go by name, lists by the order of the
        classes.
    normalize, logits, allow_empty
        As in :meth:`Calibration.predict_set`.
    u : "fresh" or numpy Generator, optional
        New randomness in every call, as in :meth:`Calibration.predict_set`; by default a keyed hash of each row, and of
        which copy it is among all rows.
    assurance : float or Assurance, optional
        As in :meth:`Calibration.predict_set`.

    Returns
    -------
    pyarrow.RecordBatchReader
        Every column that holds no probabilities, then ``size`` and ``set`` (a list of labels, most likely first), with
        several levels ``size 0.1`` and ``set 0.1`` and so on. polars, duckdb and others take it as it is;
        ``read_all()`` makes a table of it.

    Examples
    --------
    >>> import aptset, pyarrow
    >>> table = pyarrow.table({"p": [[0.9, 0.1], [0.2, 0.8]] * 30, "truth": [0, 1] * 30})
    >>> calibration = aptset.calibrate_batches(table, labels="truth", resolution=2**-20, random_state=0)
    >>> aptset.predict_batches(table, calibration).read_all().column_names
    ['truth', 'size', 'set']
    """
    first, all_batches = peeked(BatchSource.of(batches).batches())
    if first is None:
        raise ValueError(
            "batches must hold at least one batch, which may be empty, since it names the columns; got none."
        )
    columns = Columns(probabilities, prefix, groups, ids)
    settings = Predicting(
        alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty, u=u, assurance=assurance
    )
    make = maker_for(calibration, first, columns, settings)
    return pa.RecordBatchReader.from_batches(make.schema, make(all_batches))


@dataclass(frozen=True, kw_only=True)
class Predicting:
    """The levels and the flags of a prediction, as they were given."""

    alpha: Any
    normalize: bool | None
    logits: bool
    allow_empty: bool | None
    u: NewU = None
    assurance: Any = None

    @property
    def flags(self) -> dict[str, Any]:
        """What :meth:`Calibration.predict_set` takes by name."""
        flags = {"normalize": self.normalize, "logits": self.logits, "allow_empty": self.allow_empty}
        return {**flags, "u": self.u}


def check_width(name: str, width: int, wanted: int) -> None:
    """Refuse lists of another length than the calibration has classes."""
    if width != wanted:
        raise ValueError(
            f"column {name!r} must hold lists with one probability for each of the {wanted} classes of the "
            f"calibration; they have {width}."
        )


def check_classes_known(known: Sequence[Any], wanted: Sequence[Any]) -> list[int]:
    """Return where each class of a calibration is among the columns of the batches."""
    where = {name: column for column, name in enumerate(known)}
    texts = {str(name): column for name, column in where.items()}
    places = [where.get(name, texts.get(str(name), -1)) for name in wanted]
    if len(known) != len(wanted) or -1 in places:
        missing = [name for name, place in zip(wanted, places, strict=True) if place < 0]
        extra = sorted(texts.keys() - {str(name) for name in wanted})
        raise ValueError(
            f"batches must have probabilities for each class of the calibration; missing {missing[:6]}, unknown "
            f"{extra[:6]}. Rename the columns, or pass prefix=... or probabilities=..."
        )
    return places


def check_room(added: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that would stand there twice."""
    taken = sorted(set(added) & set(names))
    if taken:
        raise ValueError(
            f"batches must have room for the columns {', '.join(added)}; they have {taken} already. Rename."
        )
