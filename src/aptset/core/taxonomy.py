"""Trees of labels: nodes above labels, for sets that are shown, widened or calibrated by nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.labels import (
    as_labels,
    as_objects,
    check_hashable,
    check_label_table,
    hashable,
    numbered,
    plain_value,
    refuse_other_kind,
    some,
)
from aptset.core.matrix import check_named_columns, check_probabilities
from aptset.core.tables import is_table, iterate_columns, library_of, make_table, names_of_columns, plain_list
from aptset.kernels.formula import Floats

_CELLS_AT_ONCE = 2**22
_NO_NAMES = (list, tuple, dict, set, np.ndarray)
_PAIRS = "Pass {'cat': 'animal', 'car': 'thing'}, for instance."


class Tree(NamedTuple):
    """The nodes of a taxonomy that have classes below them, each before its children; those of the classes are leaves.

    Attributes
    ----------
    names : list
        The name of each node; the first one is the root.
    parent, depth, size : array of int
        The parent of each node (-1 for the root), its distance from the root, and the number of classes below it.
    of_class : array of int
        The leaf of each class.
    classes : array of int
        The classes in the order of the tree; those below a node stand together.
    first : array of int
        Where the classes below each node start in ``classes``.
    """

    names: list[Any]
    parent: NDArray[np.int64]
    depth: NDArray[np.int64]
    size: NDArray[np.int64]
    of_class: NDArray[np.int64]
    classes: NDArray[np.int64]
    first: NDArray[np.int64]

    @property
    def lowest(self) -> NDArray[np.int64]:
        """The lowest node with the same classes below it: another one where a node has one child."""
        lowest = np.arange(len(self.names))
        for node in range(len(self.names) - 1, 0, -1):
            if self.size[node] == self.size[self.parent[node]]:
                lowest[self.parent[node]] = lowest[node]
        return lowest

    def at_depth(self, depth: int) -> NDArray[np.int64]:
        """Return the node of each class at a depth: the class itself where that is not as deep."""
        nodes = self.of_class.copy()
        while (self.depth[nodes] > depth).any():
            nodes = np.where(self.depth[nodes] > depth, self.parent[nodes], nodes)
        return nodes


def _check_parents(parents: Any) -> dict[Any, Any]:
    """Return the parent of each node in plain values, None for one that has none."""
    if is_table(parents):
        raise TypeError("parents must be a dictionary from each label to its parent; got a data frame. Use from_table.")
    check_label_table(parents, "parents", "its parent", _PAIRS)
    odd = next((name for pair in parents.items() for name in pair if isinstance(name, _NO_NAMES)), None)
    if odd is not None:
        raise TypeError(f"parents must be texts, numbers or other plain values; got {odd!r}. {_PAIRS}")
    if any(hashable(label) is None for label in parents):
        raise ValueError("parents must not have a missing label. " + _PAIRS)
    return {plain_value(label): plain_value(hashable(parent)) for label, parent in parents.items()}


def _check_pairs(pairs: Iterable[tuple[Any, Any]], name: str, way_out: str) -> dict[Any, Any]:
    """Return the parent of each node of pairs; refuse a node that has two."""
    parents: dict[Any, Any] = {}
    for child, parent in pairs:
        node, above = plain_value(hashable(child)), plain_value(hashable(parent))
        known = parents.setdefault(node, above)
        if known != above:
            raise ValueError(f"{name} must give each label one parent; {node!r} has {known!r} and {above!r}. {way_out}")
    return parents


class Taxonomy:
    """A tree of labels, such as species below genera below families.

    ``sets.roll_up(taxonomy)`` writes a set with whole nodes, ``sets.roll_up(taxonomy, at_most=3)`` widens it to at most
    three nodes, ``collapse`` adds up probabilities to calibrate on nodes, and :meth:`LabelBands.from_taxonomy` promises
    coverage within each node. The tree must be fixed without a look at the calibration rows: one that is learned from
    their errors breaks the guarantee.

    Labels are the leaves of the tree. A label that has labels below it is refused where sets come in: give it a leaf of
    its own, ``{"bird, no finer": "bird"}``. Labels that never come may be in the tree; every label of the sets must be.

    Parameters
    ----------
    parents : mapping
        The parent of each label and of each inner node: ``{"finch": "bird", "bird": "animal"}``. None, or no entry, for
        a node at the top. A single node at the top is the root of the tree.
    root : str, default="all labels"
        What the root is called where several nodes are at the top.

    Examples
    --------
    >>> import aptset
    >>> taxonomy = aptset.Taxonomy({"finch": "bird", "owl": "bird", "cat": "mammal", "bird": None, "mammal": None})
    >>> taxonomy
    Taxonomy(3 labels, 3 nodes above them, depth 2)
    >>> sets = aptset.PredictionSets.of([["owl", "finch"], ["cat", "owl"]], ["cat", "finch", "owl"])
    >>> sets.roll_up(taxonomy)
    RolledUp: 2 rows, 2 labels on average
      0  {bird}
      1  {owl, cat}
    """

    def __init__(self, parents: Mapping[Any, Any], *, root: Any = "all labels") -> None:
        self.parents = _check_parents(parents)
        nodes = dict.fromkeys(node for pair in self.parents.items() for node in pair if node is not None)
        children: dict[Any, list[Any]] = {node: [] for node in nodes}
        for node, parent in self.parents.items():
            if parent is not None:
                children[parent].append(node)
        tops = [node for node in nodes if self.parents.get(node) is None]
        self._refuse_cycles(children, tops)
        if len(tops) > 1 or not children[tops[0]]:
            if root in children:
                raise ValueError(f"root must be a name of its own; {root!r} is a node already. Pass root=...")
            children = {root: tops, **children}
            tops = [root]
        self.root, self._children = tops[0], children

    def _refuse_cycles(self, children: dict[Any, list[Any]], tops: list[Any]) -> None:
        """Refuse nodes that are above themselves."""
        below = list(tops)
        for node in below:  # grows as it goes
            below += children[node]
        if len(below) == len(children):
            return
        node = next(node for node in children if node not in set(below))
        path = [node]
        while self.parents[path[-1]] not in path:
            path.append(self.parents[path[-1]])
        circle = [*path[path.index(self.parents[path[-1]]) :], self.parents[path[-1]]]
        raise ValueError(
            f"parents must be a tree; {' -> '.join(map(repr, circle))} goes round in a circle. Labels and nodes above "
            "them need names of their own: 'group 1', not 1, above the label 1."
        )

    @classmethod
    def from_table(cls, table: Any, *, root: Any = "all labels") -> Taxonomy:
        """Return the tree of a table of two columns, labels (or nodes) and the parent of each.

        Parameters
        ----------
        table : data frame or dictionary of two columns
            Rows may repeat. A missing parent stands for none.
        root : str, default="all labels"
            As in :class:`Taxonomy`.

        Examples
        --------
        >>> import aptset
        >>> aptset.Taxonomy.from_table({"label": ["finch", "oak"], "parent": ["bird", "tree"]}).nodes(depth=1)
        ['bird', 'tree']
        """
        if not is_table(table) and not isinstance(table, Mapping):
            raise TypeError(f"table must be a data frame or a dictionary of columns; got {type(table).__name__}.")
        names = names_of_columns(table) if is_table(table) else list(table)
        if len(names) != 2:
            raise ValueError(
                f"table must have two columns, labels and parents; got {names}. Pass table[[label, parent]]."
            )
        columns: Iterable[Any] = iterate_columns(table) if is_table(table) else table.values()
        if isinstance(table, Mapping) and any(isinstance(column, str) for column in columns):
            raise TypeError(
                "table must be a dictionary of two columns; this one has texts. Pass it to Taxonomy itself."
            )
        labels, parents = (plain_list(column) for column in columns)
        if len(labels) != len(parents):
            raise ValueError(
                f"table must have columns of one length; got {len(labels)} labels, {len(parents)} parents."
            )
        return cls(_check_pairs(zip(labels, parents, strict=True), "table", "Keep one of the rows."), root=root)

    @classmethod
    def from_paths(
        cls, paths: Any, separator: str = "/", *, labels: str = "last", root: Any = "all labels"
    ) -> Taxonomy:
        """Return the tree of paths from the top to each label, such as "animal/bird/finch".

        Parameters
        ----------
        paths : array
            A path for each label, or for each row; they may repeat. Texts, or tuples of names.
        separator : str, default="/"
            What stands between the names of a text.
        labels : {"last", "whole"}, default="last"
            Whether labels are the last names of the paths, "finch", or the whole paths. Nodes are then called
            "animal/bird", so that two of them may have one last name.
        root : str, default="all labels"
            As in :class:`Taxonomy`.

        Examples
        --------
        >>> import aptset
        >>> taxonomy = aptset.Taxonomy.from_paths(["animal/bird/finch", "animal/mammal/cat", "plant/oak"])
        >>> taxonomy.labels, taxonomy.nodes(depth=2)
        (['finch', 'cat', 'oak'], ['bird', 'mammal', 'oak'])
        """
        validate.one_of(labels, ("last", "whole"), "labels")
        if isinstance(paths, str) or not hasattr(paths, "__iter__"):
            raise TypeError(f"paths must be a list of paths such as 'animal/bird/finch'; got {paths!r}.")
        if not isinstance(separator, str) or not separator:
            raise ValueError(f"separator must be a text that is not empty; got {separator!r}.")
        pairs: list[tuple[Any, Any]] = []
        for path in dict.fromkeys(_check_path(path, row) for row, path in enumerate(plain_list(paths))):
            steps = tuple(path.split(separator)) if isinstance(path, str) else path
            if not steps or any(step in ("", None) for step in steps):
                raise ValueError(
                    f"paths must have a name at every step; got {path!r}. Remove {separator!r} at its ends."
                )
            if labels == "whole":
                steps = tuple(separator.join(map(str, steps[:length])) for length in range(1, len(steps) + 1))
            pairs += zip(steps, (None, *steps), strict=False)
        way_out = "Pass labels='whole' if these are different nodes." if labels == "last" else ""
        return cls(_check_pairs(pairs, "paths", way_out), root=root)

    @cached_property
    def _nodes(self) -> dict[Any, int]:
        """The depth of each node, in the order of the tree: each node before its children."""
        depths, waiting = {}, [(self.root, 0)]
        while waiting:
            node, depth = waiting.pop()
            depths[node] = depth
            waiting += [(child, depth + 1) for child in reversed(self._children[node])]
        return depths

    @property
    def labels(self) -> list[Any]:
        """The labels, in the order of the tree."""
        return [node for node in self._nodes if not self._children[node]]

    def nodes(self, depth: int = 1, classes: ArrayLike | None = None) -> list[Any]:
        """Return the nodes at a depth below the root, as :meth:`collapse` has them; labels that are not as deep, too.

        ``classes`` are the labels of the probabilities, if these are not all labels of the tree.

        Examples
        --------
        >>> import aptset
        >>> aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree"}).nodes()
        ['bird', 'tree']
        """
        tree = self.tree_of(as_objects(self.labels) if classes is None else as_labels(classes, "classes"))
        return [tree.names[node] for node in np.unique(tree.at_depth(_check_depth(depth))).tolist()]

    def tree_of(self, classes: NDArray[Any]) -> Tree:
        """Return the part of the tree above these classes; refuse a class that is no leaf of it."""
        known = self._check_classes(classes)
        column = {label: number for number, label in enumerate(known)}
        size: dict[Any, int] = {}
        for node in reversed(self._nodes):
            size[node] = int(node in column) + sum(size[child] for child in self._children[node])
        names = [node for node in self._nodes if size[node]]
        number = {node: place for place, node in enumerate(names)}
        above = {child: node for node in names for child in self._children[node]}
        in_order = [column[node] for node in names if node in column]
        of_class = np.empty(len(known), dtype=np.int64)
        of_class[in_order] = [number[node] for node in names if node in column]
        first = np.cumsum([0, *(node in column for node in names)])[:-1]
        parent = [-1, *(number[above[node]] for node in names[1:])]
        depth, sizes = (np.array([table[node] for node in names]) for table in (self._nodes, size))
        return Tree(names, np.array(parent), depth, sizes, of_class, np.array(in_order), first)

    def _check_classes(self, classes: NDArray[Any]) -> list[Any]:
        """Return classes in plain values; each must be a leaf."""
        check_hashable(classes, "classes")
        plain = [plain_value(label) for label in classes.tolist()]
        unknown = [label for label in plain if label not in self._children]
        if len(unknown) == len(plain):
            refuse_other_kind(classes, as_objects(self.labels), "classes")
        if unknown:
            raise ValueError(
                f"taxonomy must have every label; {some(as_objects(unknown))} are not in it, which has "
                f"{some(as_objects(self.labels))}. Give each of them a parent."
            )
        inner = next((label for label in plain if self._children[label]), None)
        if inner is not None:
            raise ValueError(
                f"taxonomy must have labels as leaves; the label {inner!r} has {self._children[inner][0]!r} below it. "
                f"Give it a leaf of its own: rename the label to '{inner}, no finer', below {inner!r}, for instance."
            )
        return plain

    def at_depth(self, labels: ArrayLike, depth: int = 1) -> NDArray[Any]:
        """Return the node above each label at a depth: what to calibrate :meth:`collapse` with.

        Examples
        --------
        >>> import aptset
        >>> aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree"}).at_depth(["owl", "oak"]).tolist()
        ['bird', 'tree']
        """
        level, (names, number) = _check_depth(depth), numbered(as_labels(labels, "labels"))
        if not len(names):
            return names
        tree = self.tree_of(names)
        return as_labels([tree.names[node] for node in tree.at_depth(level).tolist()], "nodes")[number]

    def collapse(self, P: Any, depth: int = 1, classes: ArrayLike | None = None) -> Any:
        """Return the probabilities of the nodes at a depth: those of the labels below each, added up.

        Calibrated with ``at_depth(labels)``, any method makes sets of nodes; the promise is then about the node. The
        columns are ``nodes(depth, classes)``.

        Parameters
        ----------
        P : array or data frame, shape (rows, classes)
            Probabilities of labels. The columns of a data frame are named by their labels.
        depth : int, default=1
            How far below the root; labels that are not as deep stay as they are.
        classes : array, optional
            The label of each column, such as ``model.classes_``; by default the column numbers.

        Returns
        -------
        array, or a data frame where P is one

        Examples
        --------
        >>> import aptset
        >>> taxonomy = aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree"})
        >>> taxonomy.collapse([[0.5, 0.25, 0.25]], classes=["finch", "oak", "owl"])
        array([[0.75, 0.25]])
        """
        matrix, columns = check_probabilities(P, "P")
        matrix, known = check_named_columns(matrix, columns, classes, [], "P")
        tree = self.tree_of(known)
        of_class = tree.at_depth(_check_depth(depth))
        nodes, starts = np.unique(of_class[tree.classes], return_index=True)
        sums = np.empty((len(matrix), len(nodes)))
        step = max(1, _CELLS_AT_ONCE // matrix.shape[1])
        for row in range(0, len(matrix), step):
            shares = _check_shares(matrix[row : row + step].astype(np.float64), row)
            sums[row : row + step] = np.add.reduceat(shares[:, tree.classes], starts, axis=1)
        if not is_table(P):
            return sums
        named = {tree.names[node]: sums[:, place] for place, node in enumerate(nodes.tolist())}
        return make_table(named, library_of(P) or "pandas", P.index if hasattr(P, "iloc") else None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and list(self._nodes.items()) == list(other._nodes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._nodes.items()))

    def __repr__(self) -> str:
        n_labels, depth = len(self.labels), max(self._nodes.values())
        return f"Taxonomy({n_labels} labels, {len(self._nodes) - n_labels} nodes above them, depth {depth})"


def _check_path(path: Any, row: int) -> Any:
    """Return a path as a text or a tuple."""
    if isinstance(path, str):
        return path
    if not isinstance(path, list | tuple):
        raise TypeError(f"paths must be texts or tuples of names; got {path!r} in row {row}.")
    check_hashable(as_objects(list(path)), "paths")
    return tuple(plain_value(hashable(step)) for step in path)


def _check_depth(depth: Any) -> int:
    return validate.whole(depth, "depth", 1, "a whole number, at least 1: 1 is right below the root")


def _check_shares(rows: Floats, first: int) -> Floats:
    """Return probabilities on the grid on which sums are exact, whatever their order; refuse what is none."""
    wrong = ~((rows >= 0) & (rows < np.inf))
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"P must hold probabilities, at least 0; got {rows[row, column]} in row {first + row}, column {column}. If "
            "these are logits, apply softmax first: logits of labels do not add up to those of nodes."
        )
    return (rows + 2.0) - 2.0
