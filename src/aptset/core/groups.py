"""Group ids: none, by label, or by something known about the row. Calibration happens within each group.

To add a grouping, write a function of X that returns one value per row, from that row alone, and put it into
:data:`GROUPINGS`.

Mondrian conformal prediction: Vovk, Gammerman and Shafer 2005, "Algorithmic learning in a random world".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import Coded, hashable, plain_value
from aptset.kernels.engines.interface import columns_in

Value = TypeVar("Value")
Ids = NDArray[np.int32]
GroupValues = list[Any] | NDArray[Any] | Coded  # of rows; whole numbers may come as an array


class CellKind(NamedTuple):
    """A kind of cells: what decides in which cell a label of a row is, what people are told, and what a file holds."""

    by_row: bool  # a row brings a value, its group
    by_label: bool  # labels of one row may be in different cells
    each: str  # what has a level of its own
    within: str  # where the promise holds; {n} is the number of cells
    several: str  # what may have too few samples
    effect: str  # of too few samples
    stored: frozenset[str] = frozenset({"kind", "names"})  # what a file says of the groups
    with_rows: str = "pair"  # the kind of cells that labels make within groups of rows


_OF_ROWS = ("groups", "so every label is in their sets. Calibrate on more samples of these groups or raise alpha.")

OF_PAIRS = frozenset({"kind", "names", "bands", "rows", "labels"})  # what a file says of cells of rows and labels
_BANDS_IN_GROUPS = CellKind(  # a "pair" whose labels share cells
    *(True, True, "band of labels of every group", "within every band of labels of every group"),
    "bands of labels in groups",
    "so their labels are in every set of their groups. Calibrate on more samples of these bands, or join bands.",
    OF_PAIRS,
)

# What decides about cells, by the name that files and pages have for it.
KINDS = {
    "all": CellKind(
        *(False, False, "", "one promise for all rows", ""),
        "so every set holds every label. Calibrate on more samples or raise alpha.",
    ),
    "label": CellKind(
        *(False, True, "label", "within every true label", "labels"),
        "so they are in every set. Calibrate on more samples of these labels or raise alpha.",
    ),
    "band": CellKind(
        *(False, True, "band of labels", "within every band of labels, {n} of them", "bands of labels"),
        "so their labels are in every set. Calibrate on more samples of these bands, or join bands.",
        frozenset({"kind", "names", "bands"}),
    ),
    "row": CellKind(True, False, "group", "within every group", *_OF_ROWS),
    "pair": CellKind(
        *(True, True, "label of every group", "within every true label of every group", "labels of groups"),
        "so they are in every set of their groups. Calibrate on more samples of them, or raise alpha.",
        OF_PAIRS,
    ),
    "overlap": CellKind(
        *(True, False, "group", "within every group", *_OF_ROWS),
        frozenset({"kind", "names", "groups", "frame", "is_flag"}),
    ),
}
_NUMBERING = Lock()  # combinations of groups are numbered as they are met, by one thread at a time

# What ``groups=`` takes by name, besides the columns of X; None: the label decides, which no function of X knows.
GROUPINGS: dict[str, Callable[[Any], Any] | None] = {"label": None}


class Overlap(NamedTuple):
    """The groups that overlap, by name; and the columns of the frame that they come from, with which are of flags."""

    names: tuple[Any, ...]
    frame: tuple[Any, ...] | None = None
    is_flag: tuple[bool, ...] = ()


@dataclass(frozen=True, eq=False)
class Cells(Coded):
    """For each row the names of the groups that it is in; ``given`` is what they were read from."""

    overlap: Overlap
    given: Any = None


@dataclass(frozen=True)
class Groups:
    """The groups that calibration knows, and where the group of a label comes from.

    ``kind`` is a name of :data:`KINDS`: "all" (one group), "label" (each label is a group), "band" (labels share
    groups), "row" (a value that comes with the row), "pair" (that value, and the label or its band), "overlap" (each
    name is a combination of groups that overlap), or one that somebody added. Where labels share groups, ``bands`` has
    the number of the group of each; where rows and labels both decide, ``rows`` has the values of rows, and the cells
    of each stand together.
    """

    kind: str
    names: tuple[Any, ...]
    bands: tuple[int, ...] | None = None
    overlap: Overlap | None = None
    rows: tuple[Any, ...] | None = field(default=None, repr=False)  # names hold them; streams go by this text

    @classmethod
    def of(cls, values: Iterable[Any] | None, setting: Any, classes: NDArray[Any]) -> Groups:
        """Return the groups that occur among the values (in order of first appearance), or the labels, or one group."""
        if values is None and setting is None:
            return EVERYONE
        if is_pair(setting):
            return pairs_of(cls.of(values, None, classes), cls.of(None, setting[1], classes), len(classes))
        if isinstance(values, Cells):
            return cls("overlap", tuple(values.distinct()), overlap=values.overlap)
        if values is not None:
            plain = values.tolist() if isinstance(values, np.ndarray) else values
            several = plain.distinct() if isinstance(plain, Coded) else some_of_each(plain)
            return cls("row", tuple(dict.fromkeys(_plain_name(value) for value in several)))
        if groups_labels(setting):
            groups: Groups = setting.groups_of(classes)
            return groups
        by_label = is_grouping(setting) and GROUPINGS[setting] is None
        return cls("label", tuple(classes.tolist())) if by_label else EVERYONE

    @cached_property
    def is_one(self) -> bool:
        """Whether there is one cell, for all labels of all rows."""
        return not self.by_row and not self.by_label

    @cached_property
    def by_row(self) -> bool:
        """Whether rows bring a group, which decides alone or with the label."""
        return KINDS[self.kind].by_row

    @cached_property
    def by_label(self) -> bool:
        """Whether labels of one row may fall into different groups."""
        return KINDS[self.kind].by_label

    @cached_property
    def words(self) -> CellKind:
        """What people are told of these cells."""
        is_of_bands = self.kind == "pair" and self.of_columns is not None
        return _BANDS_IN_GROUPS if is_of_bands else KINDS[self.kind]

    @property
    def by_both(self) -> bool:
        """Whether the group of a row and the label decide together."""
        return self.by_row and self.by_label

    @property
    def by_label_alone(self) -> bool:
        """Whether the label decides, and rows bring nothing."""
        return self.by_label and not self.by_row

    @property
    def overlaps(self) -> bool:
        """Whether a row may be in several groups."""
        return self.overlap is not None

    @property
    def of_rows(self) -> tuple[Any, ...]:
        """The groups that rows bring, where they do."""
        return self.names if self.rows is None else self.rows

    def ids(self, values: GroupValues | None, n_rows: int) -> Ids | None:
        """Return the id of each row: -1 for a value never seen, zeros without groups, None where the label decides."""
        if self.by_label_alone:
            return None
        if values is None:
            return of_one_group(n_rows, np.int32)
        if isinstance(values, Cells):
            return self._combinations(values)
        table = {name: number for number, name in enumerate(self.of_rows)}
        if isinstance(values, np.ndarray):
            return _look_up(values, table)
        if isinstance(values, Coded):  # each different value is looked at once
            ids = [table.get(hashable(value), -1) for value in values.values]
            return np.take(np.array(ids, dtype=np.int32), values.codes)
        return np.fromiter((table.get(hashable(value), -1) for value in values), dtype=np.int32, count=n_rows)

    def _combinations(self, cells: Cells) -> Ids:
        """Return the number of each row's combination, new ones behind those of calibration; -1 for unknown groups."""
        known = set(self.overlap.names if self.overlap else ())
        with _NUMBERING:
            for cell in cells.distinct():
                if cell not in self._numbers and known.issuperset(cell):
                    self._numbers[cell] = len(self._numbers)
            numbers = [self._numbers.get(cell, -1) for cell in cells.values]
        return np.take(np.array(numbers, dtype=np.int32), cells.codes)

    @property
    def combinations(self) -> list[Any]:
        """The combinations of overlapping groups that were met, by their numbers; those of calibration first."""
        with _NUMBERING:
            return list(self._numbers)

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.names)}

    def ids_of_labels(self, ids: Ids | None, columns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the group of each calibration sample from the ids of its row and the column of its true label."""
        if self.is_one:
            return of_one_group(len(columns), np.intp)
        if self.rows is not None and ids is not None:
            return ids.astype(np.intp) * self.n_by_label + np.array(self.bands, dtype=np.intp)[columns]
        if ids is None and self.of_columns is not None:
            return self.of_columns[columns]
        return (columns if ids is None else ids).astype(np.intp, copy=False)

    @cached_property
    def of_columns(self) -> NDArray[np.intp] | None:
        """The group of each label, where labels share groups; None where each has its own."""
        is_own = self.bands is None or self.bands == tuple(range(self.n_by_label or len(self.names)))
        return None if is_own else np.array(self.bands, dtype=np.intp)

    @property
    def n_by_label(self) -> int:
        """How many cells the labels make within each group of rows; 0 where not both decide."""
        return 0 if self.rows is None else len(self.names) // len(self.rows)

    def by_name(self, values: Sequence[Value]) -> Value | dict[Any, Value]:
        """Return the value of the only cell, or a dictionary with that of each; what follows the last is left out."""
        return values[0] if self.is_one else dict(zip(self.names, values, strict=False))

    def index(self, ids: Ids | None) -> NDArray[np.integer[Any]]:
        """Return the cell of every label of every row, -1 for one never seen: it broadcasts to (rows, labels).

        It is (1, 1) where there is one cell, (rows, 1) where rows have groups, (1, labels) where labels decide, and
        (rows, labels) where both do.
        """
        if ids is None:
            return np.arange(len(self.names))[None, :] if self.of_columns is None else self.of_columns[None, :]
        if self.rows is not None:
            cells = ids[:, None] * np.int32(self.n_by_label) + np.array(self.bands, dtype=np.int32)
            return np.where(ids[:, None] < 0, np.int32(-1), cells)
        return ONE_CELL if self.is_one else ids[:, None]

    def present(self, ids: Ids | None) -> Iterable[int]:
        """Return the cells that labels of rows are in, upward."""
        if ids is None:
            return range(len(self.names))
        of_rows = (np.flatnonzero(np.bincount(ids + 1)[1:]) if len(ids) else ids).tolist()
        if self.rows is None:
            return of_rows
        step = self.n_by_label
        return [cell for row in of_rows for cell in range(row * step, (row + 1) * step)]

    def where(self, cell: int, ids: Ids | None) -> Any:
        """Return what picks the labels of a cell out of a matrix (rows, labels); -1 is the cell never seen."""
        if ids is None:
            return np.s_[:, columns_in(cell, self.of_columns)]
        if self.rows is None or cell < 0:
            return np.flatnonzero(ids == cell)
        row, label = divmod(cell, self.n_by_label)
        return np.ix_(np.flatnonzero(ids == row), np.flatnonzero(np.array(self.bands) == label))

    def by_key(self, values: Mapping[Any, Value], name: str) -> list[Value]:
        """Return the value of each cell from a mapping of their names; a cell of a label in a group goes by its label.

        ``name`` is the argument that the mapping came as.
        """
        if self.is_one or self.overlaps:
            why = "groups overlap" if self.overlaps else "one threshold serves all rows"
            raise ValueError(
                f"{name} must be one number here, since {why}: a level of its own for a label or a group "
                "would have no guarantee. Calibrate with groups='label' for levels of labels, with "
                "LabelBands for levels of bands, or with the group of each row for levels of groups."
            )
        by_label = self.rows is not None and not any(cell in values for cell in self.names)
        keys = [cell[1] for cell in self.names] if by_label else list(self.names)
        missing = [key for key in keys if key not in values]
        what = self.words.each
        if missing:
            hint = " For levels of labels calibrate with groups='label'." if not self.by_label else ""
            raise ValueError(
                f"{name} must name the level of every {what}; {missing[0]!r} is missing, and {list(values)[:8]} came. "
                f"The names are {_shown(keys)}.{hint}"
            )
        unknown = [key for key in values if key not in set(keys)]
        if unknown and self.by_label:  # a group of rows may have no calibration row yet
            raise ValueError(
                f"{name} must name nothing but the levels of each {what}; got {unknown[0]!r}, and the names are "
                f"{_shown(keys)}."
            )
        return [values[key] for key in keys]


def _shown(keys: Sequence[Any]) -> str:
    """Show the first few names, each once."""
    names = list(dict.fromkeys(keys))
    return f"[{', '.join(map(repr, names[:6]))}{', ...' if len(names) > 6 else ''}]"


def flat_groups(groups: Groups) -> dict[str, Any]:
    """Return groups as lists and texts; a combination of groups that overlap as a text of 0 and 1."""
    fields: dict[str, Any] = {"kind": groups.kind, "names": list(groups.names)}
    if groups.bands is not None:
        fields["bands"] = list(groups.bands)
    if groups.rows is not None:
        labels = [label for _, label in groups.names[: groups.n_by_label]]
        fields |= {"names": list(range(len(groups.names))), "rows": list(groups.rows), "labels": labels}
    if groups.overlap is not None:
        group_names, frame, is_flag = groups.overlap
        fields["names"] = ["".join("01"[name in cell] for name in group_names) for cell in map(set, groups.names)]
        fields |= {
            "groups": list(group_names),
            "frame": None if frame is None else list(frame),
            "is_flag": list(is_flag),
        }
    return fields


def full_groups(stored: dict[str, Any]) -> Groups:
    """Return the groups that were flattened."""
    kind, names, bands = stored["kind"], stored["names"], stored.get("bands")
    if "rows" in stored:
        cells = tuple((row, label) for row in stored["rows"] for label in stored["labels"])
        return Groups(kind, cells, tuple(stored["bands"]), rows=tuple(stored["rows"]))
    if "groups" not in stored:
        return Groups(kind, tuple(names), None if bands is None else tuple(bands))
    group_names, frame = tuple(stored["groups"]), stored["frame"]
    cells = tuple(tuple(name for name, flag in zip(group_names, text, strict=True) if flag == "1") for text in names)
    overlap = Overlap(group_names, None if frame is None else tuple(frame), tuple(stored["is_flag"]))
    return Groups(kind, cells, overlap=overlap)


def some_of_each(values: Iterable[Any]) -> Iterable[Any]:
    """Return the distinct values, in order of first appearance; all of them where some cannot be looked up."""
    try:
        return dict.fromkeys(values)
    except TypeError:
        return values


def _plain_name(value: Any) -> Any:
    """Return the name of a group as a file gives it back: numbers and texts of numpy are Python's."""
    is_simple = isinstance(value, np.generic) and value.dtype.kind in "biufU"
    return hashable(plain_value(value) if is_simple else value)


_NARROW = 2**20


def _look_up(values: NDArray[Any], table: dict[Any, int]) -> Ids:
    """Return the id of each of an array of whole numbers."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= _NARROW:
        return np.fromiter((table.get(value, -1) for value in values.tolist()), dtype=np.int32, count=len(values))
    ids = np.array([table.get(value, -1) for value in range(low, high + 1)], dtype=np.int32)
    return ids[values.astype(np.int64) - low]


def is_grouping(setting: Any) -> bool:
    """Tell whether a setting of groups is the name of a grouping, and not a column."""
    return isinstance(setting, str) and setting in GROUPINGS


def is_pair(setting: Any) -> bool:
    """Tell whether a setting is of both: the group of a row and its label, as in ``groups=("region", "label")``."""
    return isinstance(setting, tuple) and len(setting) == 2 and labels_decide(setting[1])


def pairs_of(rows: Groups, labels: Groups, n_classes: int) -> Groups:
    """Return a cell for every label, or band of labels, in every group of rows."""
    if rows.overlaps or rows.by_label or not rows.by_row:
        raise ValueError("groups of rows and labels at once must have one group for each row: they must not overlap.")
    bands = tuple(range(n_classes)) if labels.bands is None else labels.bands
    cells = tuple((row, label) for row in rows.names for label in labels.names)
    return Groups(KINDS[labels.kind].with_rows, cells, bands, rows=rows.names)


def groups_labels(setting: Any) -> bool:
    """Tell whether a setting of groups says which labels share a group, as :class:`aptset.LabelBands` does."""
    return hasattr(setting, "groups_of")


def groups_overlap(passed: Any) -> bool:
    """Tell whether groups came as :class:`aptset.Overlapping`; a frame may have a column that is called "cells"."""
    return isinstance(getattr(passed, "cells", None), Cells)


def labels_decide(setting: Any) -> bool:
    """Tell whether a setting of groups names no column of rows: the label decides the group."""
    return groups_labels(setting) or is_grouping(setting)


EVERYONE = Groups("all", ("all",))
ONE_CELL = np.zeros((1, 1), dtype=np.int32)
ONE_CELL.flags.writeable = False


def of_one_group(n_rows: int, kind: type[Any]) -> NDArray[Any]:
    """Return zeros, the id of each row where all are in one group: one of them, which is read again and again."""
    return np.broadcast_to(np.zeros(1, dtype=kind), n_rows)
