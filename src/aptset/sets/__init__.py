"""Prediction sets as frozen, compressed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core.labels import (
    are_columns,
    as_labels,
    check_length,
    columns_at_once,
    columns_of,
    distinct,
    known_columns,
)
from aptset.core.tables import (
    Backend,
    Display,
    Lists,
    bars_of,
    is_table,
    library_of,
    make_table_with_lists,
    plain_list,
    read_lists,
)
from aptset.kernels.blocks import sizes_of
from aptset.kernels.long_arrays import Judged, holding, judged, pointers_of
from aptset.kernels.membership import LazyMembers
from aptset.sets.rows import (
    Intervals,
    as_html,
    as_text,
    check_label_rows,
    check_mask,
    check_pointers,
    check_row_index,
    check_set_classes,
    check_table_of_sets,
    compressed,
    in_one,
    intervals_of,
    refuse_nested_mask,
    refuse_repeated,
)

if TYPE_CHECKING:
    from aptset.core.taxonomy import Taxonomy
    from aptset.kernels.engines.interface import Columns
    from aptset.sets.rolled_up import RolledUp


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets(Sequence[NDArray[Any]]):
    """One set of labels per row, most likely label first.

    Rows are stored compressed: row i holds ``classes[indices[indptr[i]:indptr[i + 1]]]``, so a million small sets over
    a thousand classes take a few megabytes. Large sets are put in order when that is first asked for: ``sizes``,
    ``covers``, ``mask`` and evaluations never do. Until then the probabilities of their labels are kept beside them.

    Parameters
    ----------
    indptr : array of int, shape (rows + 1,)
        Where each row starts in ``indices``.
    indices : array of int
        Positions in ``classes``, one row after the other.
    classes : array
        The labels.
    row_names : pandas Index, optional
        The names of the rows, where they come from a pandas frame: ``to_frame`` keeps them.

    Examples
    --------
    >>> import aptset
    >>> sets = aptset.oracle_sets([[0.3, 0.6, 0.1], [0.02, 0.08, 0.9]], alpha=0.1, classes=["a", "b", "c"])
    >>> sets
    PredictionSets: 2 rows, 3 classes, mean size 1.5
      0  {b, a}
      1  {c}
    >>> sets[0]
    array(['b', 'a'], dtype='<U1')
    >>> sets.covers(["c", "c"])
    array([False,  True])
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    classes: NDArray[Any]
    row_names: Any = None
    _library: ClassVar[Backend] = "pandas"  # of frames that are made of them

    def __post_init__(self) -> None:
        classes = check_set_classes(self.classes)
        indptr, indices = check_pointers(self.indptr, self.indices, len(classes))
        self._freeze(indptr=indptr, indices=indices, classes=classes)

    def _freeze(self, **arrays: NDArray[Any]) -> None:
        for name, values in arrays.items():
            view = values.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @classmethod
    def trusted(
        cls, indptr: NDArray[np.int64], indices: NDArray[np.int32] | LazyMembers, classes: NDArray[Any]
    ) -> PredictionSets:
        """Make sets from arrays that the kernels just made: no check, no copy. Labels may be put in order later."""
        sets = object.__new__(cls)
        if isinstance(indices, LazyMembers):
            sets._freeze(indptr=indptr, classes=classes)
            object.__setattr__(sets, "_lazy", indices)
        else:
            sets._freeze(indptr=indptr, indices=indices, classes=classes)
        return sets

    def named(self, row_names: Any, library: Backend) -> PredictionSets:
        """Name the rows of sets that were just made, and note the library of the frame that they were made for."""
        object.__setattr__(self, "row_names", row_names)
        object.__setattr__(self, "_library", library)
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Put the labels in order when ``indices`` are first asked for."""
            lazy = self.__dict__.get("_lazy")
            if name != "indices" or lazy is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._freeze(indices=lazy.in_order())
            return self.indices

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the labels in order."""
        return {"indices": self.indices, **{name: value for name, value in self.__dict__.items() if name != "_lazy"}}

    def _in_any_order(self) -> Columns:
        """Return the members of the rows, for what does not depend on their order."""
        lazy = self.__dict__.get("_lazy")
        return self.indices if lazy is None else lazy.in_any_order()

    @classmethod
    def of(cls, sets: Any, classes: ArrayLike | None = None) -> PredictionSets:
        """Return sets given as PredictionSets, as a boolean mask, or as lists of labels (the classes that occur)."""
        if isinstance(sets, PredictionSets):
            return sets
        leaves = getattr(sets, "leaves", None)
        if isinstance(leaves, PredictionSets):
            return leaves  # of what was rolled up: nodes are no labels
        if is_table(sets):
            matrix, names = check_table_of_sets(sets)
            return cls.from_frame(sets, names) if matrix is None else cls.from_mask(matrix, names)
        if isinstance(sets, np.ndarray) and (sets.dtype == np.bool_ or sets.ndim == 2):
            return cls.from_mask(sets, classes)
        rows = check_label_rows(sets)
        refuse_nested_mask(rows)
        known = distinct(in_one(rows)) if classes is None else classes
        return cls.from_labels(rows, known)

    @classmethod
    def from_mask(cls, mask: ArrayLike, classes: ArrayLike | None = None) -> PredictionSets:
        """Make sets from a boolean matrix (rows, classes); labels then stand in the order of the classes."""
        members, names = check_mask(mask, classes)
        indptr = pointers_of(members.sum(axis=1))
        return cls.trusted(indptr, np.nonzero(members)[1].astype(np.int32), names)

    @classmethod
    def from_labels(cls, labels: Iterable[ArrayLike], classes: ArrayLike) -> PredictionSets:
        """Make sets from the labels of each row, as :meth:`labels` gives them."""
        rows, names = check_label_rows(labels), check_set_classes(classes)
        return cls(*compressed(rows, names), names)

    @classmethod
    def from_frame(cls, frame: Any, classes: ArrayLike) -> PredictionSets:
        """Make sets from a data frame with a column ``labels``, as :meth:`to_frame` gives it."""
        names = check_set_classes(classes)
        at_once = partial(columns_at_once, classes=names, kind=np.int32)
        lists = read_lists(frame["labels"], partial(columns_of, classes=names), at_once)
        if lists is None or (columns_of(lists.names, names) < 0).any():  # which says what is wrong
            return cls.from_labels(plain_list(frame["labels"]), classes)
        refuse_repeated(lists.pointers, lists.positions, len(names))
        return cls.trusted(lists.pointers, lists.positions, names)

    def named_as(self, rows: Any) -> PredictionSets:
        """Return the same sets with the names of the rows that they were made for, and the library of their frame."""
        library = None if type(rows) is np.ndarray else library_of(rows)
        if library is None or len(rows) != len(self):
            return self
        lazy = self.__dict__.get("_lazy")
        sets = PredictionSets.trusted(self.indptr, self.indices if lazy is None else lazy, self.classes)
        return sets.named(rows.index if hasattr(rows, "iloc") else None, library)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of labels in each set."""
        return sizes_of(self.indptr)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The sets as a dense boolean matrix (rows, classes)."""
        dense = np.zeros((len(self), len(self.classes)), dtype=np.bool_)
        dense[np.repeat(np.arange(len(self)), self.sizes), self._in_any_order()] = True
        return dense

    def labels(self) -> list[NDArray[Any]]:
        """Return the sets as a list of label arrays, most likely first."""
        return list(self)

    def covers(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Tell for each row whether the set holds the given label (never, for a label outside the classes).

        Labels of a type that no class can equal, numbers where classes are texts, are refused.
        """
        return holding(self.indptr, self._in_any_order(), self._columns_of(labels))

    def judged(self, labels: ArrayLike, most_kinds: int) -> Judged:
        """Tell also sizes and, if that takes no more than so many, the number of rows of each label, size, and so."""
        columns, n_classes = self._columns_of(labels), len(self.classes)
        sizes = n_classes + 1 if 2 * n_classes * (n_classes + 1) <= most_kinds else 0
        return judged(self.indptr, self._in_any_order(), columns, n_classes, sizes)

    def _columns_of(self, labels: ArrayLike) -> NDArray[np.int64]:
        """Return the position of each row's label in the classes, or a number that is none."""
        wanted = as_labels(labels, "labels")
        check_length(wanted, len(self), "labels")
        return wanted if wanted.dtype == np.int64 and are_columns(self.classes) else known_columns(wanted, self.classes)

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return a data frame with columns ``size`` and ``labels`` (a list per row).

        In pandas it has the index of the frame that the sets were made for: ``X.join(sets.to_frame())`` fits.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            The library of the frame, which must be installed; by default that of the rows, pandas for arrays.
        """
        lists = Lists(self.indptr, self.indices, self.classes)
        return make_table_with_lists({"size": self.sizes}, "labels", lists, backend or self._library, self.row_names)

    def intervals(self, order: Any = None) -> Intervals:
        """Return the lowest and the highest label of every set, for labels that have an order.

        The interval between them is the set itself where the score is :class:`aptset.Ordered` and one model judges;
        it holds the set wherever a set has gaps, so the guarantee holds for it, too.

        Parameters
        ----------
        order : sequence of labels, optional
            All labels, from low to high. Numbers are in order by themselves.

        Returns
        -------
        Intervals
            ``lowest`` and ``highest``, an array each; None for an empty set.

        Examples
        --------
        >>> import aptset
        >>> sets = aptset.PredictionSets.from_mask([[True, True, False], [False, True, True]], [1, 2, 3])
        >>> sets.intervals().highest
        array([2, 3])
        """
        return intervals_of(self, order)

    def roll_up(self, taxonomy: Taxonomy, at_most: int | None = None) -> RolledUp:
        """Return every set as nodes of a tree of labels.

        Without ``at_most`` the sets stay what they are, and whole nodes are named where every label below them is in
        the set. With it, every set becomes the smallest superset that so many nodes can name: the guarantee holds, and
        coverage can only grow. Ties go to fewer nodes, then to more of them in the earlier branches of the tree.

        Parameters
        ----------
        taxonomy : Taxonomy
            The tree, in which every label of the sets is a leaf.
        at_most : int, optional
            The largest number of nodes of a set. One is rarely of use: labels from two branches make it the root.

        Returns
        -------
        RolledUp
            The nodes of each row, and ``leaves``, the labels below them.

        Examples
        --------
        >>> import aptset
        >>> taxonomy = aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree", "fir": "tree", "ant": "insect"})
        >>> sets = aptset.PredictionSets.of([["owl", "finch", "oak"]], ["ant", "fir", "finch", "oak", "owl"])
        >>> sets.roll_up(taxonomy, at_most=2)
        RolledUp: 1 row, at most 2 nodes, 3 labels on average
          0  {bird, oak}
        >>> sets.roll_up(taxonomy, at_most=1)[0]
        array(['all labels'], dtype='<U10')
        """
        from aptset.sets.rolled_up import roll_up  # it is made of sets

        return roll_up(self, taxonomy, at_most)

    def plot(self, kind: str = "sizes", labels: ArrayLike | None = None, **options: Any) -> Display:
        """Return a figure; ``.draw()`` draws it, ``.frame()`` gives its table back, and notebooks show it by itself.

        Parameters
        ----------
        kind : str, default="sizes"
            What to draw: "sizes", the share of sets of each size, needs nothing else. With the true labels also
            "by_label" (coverage by class), "by_size", "by_group", "reliability", "curve" (coverage against level) and
            all that :meth:`Evaluation.plot` lists.
        labels : array, optional
            The true labels.
        **options
            What :func:`evaluate` takes besides: ``alpha``, ``groups``, ``probabilities``, ``p_values``.

        Examples
        --------
        >>> import aptset
        >>> sets = aptset.PredictionSets.of([["a"], ["a", "b"], ["b"]])
        >>> sets.plot().frame()[["size", "share of sets"]]
           size  share of sets
        0     1       0.666667
        1     2       0.333333
        >>> sets.plot("by_label", ["a", "b", "a"]).title
        'Coverage by label'
        """
        import aptset  # by its public names: what is measured stands above sets

        if labels is not None:
            return aptset.evaluate(self, labels, **options).plot(kind)
        if kind != "sizes":
            raise ValueError(f"kind {kind!r} needs the true labels: sets.plot({kind!r}, y). Without them: 'sizes'.")
        return bars_of(aptset.size_distribution(self), "share of sets", "size")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, row: int | np.integer[Any]) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, row: slice | ArrayLike) -> PredictionSets: ...
    def __getitem__(self, row: Any) -> Any:
        """Labels of one row, or the sets of several (a slice, row numbers, or a boolean per row)."""
        rows = check_row_index(row, len(self))
        if np.ndim(rows) == 0:
            return self.classes[self.indices[self.indptr[rows] : self.indptr[rows + 1]]]
        sizes = self.sizes[rows]
        indptr = pointers_of(sizes)
        position = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], sizes)
        sets = PredictionSets.trusted(indptr, self.indices[position], self.classes)
        return sets.named(None if self.row_names is None else self.row_names[rows], self._library)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        members, pointers = self.classes[self.indices], self.indptr.tolist()
        return (members[start:stop] for start, stop in pairwise(pointers))

    def __contains__(self, labels: object) -> bool:
        return self.count(labels) > 0

    def count(self, labels: Any) -> int:
        """Count the rows whose set is exactly these labels, in this order."""
        return len(self._rows_with(labels))

    def index(self, labels: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first row whose set is exactly these labels, in this order."""
        first, last, _ = slice(start, stop).indices(len(self))
        for row in self._rows_with(labels).tolist():
            if first <= row < last:
                return int(row)
        raise ValueError(f"no row has the set {labels!r}")

    def _rows_with(self, labels: Any) -> NDArray[np.intp]:
        """Return the rows whose set is exactly these labels, in this order; none for what is no list of labels."""
        try:
            columns = columns_of(as_labels(labels, "labels"), self.classes)
        except (TypeError, ValueError):
            return np.empty(0, dtype=np.intp)
        rows = np.flatnonzero(self.sizes == len(columns))
        for place, column in enumerate(columns.tolist()):
            rows = rows[self.indices[self.indptr[rows] + place] == column]
        return rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PredictionSets):
            return NotImplemented
        pairs = ((self.indptr, other.indptr), (self.indices, other.indices), (self.classes, other.classes))
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]  # equal by content, so not hashable

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
