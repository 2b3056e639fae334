"""Sets as nodes of a tree of labels: written with whole nodes, or widened to the smallest superset of a few nodes.

A superset of a set keeps its guarantee. The smallest one of at most b nodes is the optimum of a dynamic programme over
the tree, which is worked out for many rows at once. In every array below, an entry is a node of a row; its key is the
number of the row times the number of nodes, plus the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.labels import as_labels
from aptset.core.tables import Backend, Lists, make_table_with_lists
from aptset.core.taxonomy import Taxonomy, Tree
from aptset.kernels.long_arrays import pointers_of
from aptset.sets import PredictionSets
from aptset.sets.rows import as_text

Numbers = NDArray[np.int64]
Counts = NDArray[np.int32]
_FAR = 2**29  # more labels than there are: so few nodes cannot hold the set
_CELLS_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False, repr=False)
class RolledUp(Sequence[NDArray[Any]]):
    """Sets written as nodes of a tree of labels; made by :meth:`PredictionSets.roll_up`.

    Row i is the array of its nodes, in the order of the tree; an empty set has none. Whatever is measured of it, by
    ``covers``, ``sizes`` or :func:`evaluate`, is about the labels below the nodes: a node may stand for many labels, so
    the number of nodes says nothing about how much a set leaves open.

    Attributes
    ----------
    nodes : PredictionSets
        The nodes of each row.
    at_most : int or None
        How many there are at most.

    Examples
    --------
    >>> import aptset
    >>> taxonomy = aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree", "fir": "tree"})
    >>> sets = aptset.PredictionSets.of([["owl", "finch", "oak"], ["oak"]], ["fir", "finch", "oak", "owl"])
    >>> rolled = sets.roll_up(taxonomy)
    >>> rolled
    RolledUp: 2 rows, 2 labels on average
      0  {bird, oak}
      1  {oak}
    >>> rolled.sizes, rolled.leaves[0]
    (array([3, 1]), array(['owl', 'finch', 'oak'], dtype='<U5'))
    """

    nodes: PredictionSets
    at_most: int | None
    _sets: PredictionSets
    _tree: Tree

    @property
    def sizes(self) -> Numbers:
        """The number of labels below the nodes of each row."""
        total = np.concatenate([[0], np.cumsum(self._tree.size[self.nodes.indices])])
        return np.asarray(total[self.nodes.indptr[1:]] - total[self.nodes.indptr[:-1]])

    @cached_property
    def leaves(self) -> PredictionSets:
        """The labels below the nodes, as sets: those of the set itself first, and then those that came with nodes."""
        own, sizes = self._sets.sizes, self.sizes
        indptr = pointers_of(sizes)
        columns = np.empty(int(indptr[-1]), dtype=np.int32)
        columns[_runs(indptr[:-1], own)] = self._sets.indices
        wider = np.flatnonzero(sizes > own)
        step = max(1, _CELLS_AT_ONCE // len(self._sets.classes))
        for start in range(0, len(wider), step):
            rows = wider[start : start + step]
            columns[_runs((indptr[:-1] + own)[rows], (sizes - own)[rows])] = self._others(rows)
        leaves = PredictionSets.trusted(indptr, columns, self._sets.classes)
        return leaves.named(self._sets.row_names, self._sets._library)

    def _others(self, rows: Numbers) -> Numbers:
        """Return the labels below the nodes of some rows that are not of the set itself, in the order of the tree."""
        tree, n_classes = self._tree, len(self._sets.classes)
        nodes, sets = self.nodes[rows], self._sets[rows]
        steps = np.zeros((len(rows), n_classes + 1), dtype=np.int8)
        row, node = np.repeat(np.arange(len(rows)), nodes.sizes), nodes.indices
        steps[row, tree.first[node]] += 1  # no two nodes of a row start, or end, at one label
        steps[row, tree.first[node] + tree.size[node]] -= 1
        below = np.cumsum(steps[:, :-1], axis=1, dtype=np.int8).view(np.bool_)
        below[np.repeat(np.arange(len(rows)), sets.sizes), np.argsort(tree.classes)[sets.indices]] = False
        return tree.classes[np.flatnonzero(below) % n_classes]

    def covers(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Tell for each row whether the label is below one of the nodes."""
        return self.leaves.covers(labels)

    def to_frame(self, backend: Backend | None = None) -> Any:
        """Return a data frame with columns ``size``, the number of labels, and ``nodes``, as of the sets themselves."""
        library = backend or self._sets._library
        lists = Lists(self.nodes.indptr, self.nodes.indices, self.nodes.classes)
        return make_table_with_lists({"size": self.sizes}, "nodes", lists, library, self._sets.row_names)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, row: Any) -> Any:
        """Nodes of one row, or of several rows."""
        return self.nodes[row]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter(self.nodes)

    def __repr__(self) -> str:
        most = "" if self.at_most is None else f"at most {self.at_most} node{'s' * (self.at_most != 1)}, "
        mean = f"{most}{self.sizes.mean():.3g} labels on average" if len(self) else "no rows"
        return as_text(self.nodes, f"RolledUp: {len(self)} row{'s' * (len(self) != 1)}, {mean}")


def _runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return whole numbers from each start on, so many of each."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) + np.repeat(starts - ends + lengths, lengths)


def roll_up(sets: PredictionSets, taxonomy: Any, at_most: int | None) -> RolledUp:
    """Return sets as nodes of a tree: with whole nodes, or at most so many."""
    if not isinstance(taxonomy, Taxonomy):
        raise TypeError(f"taxonomy must be an aptset.Taxonomy; got {type(taxonomy).__name__}. Pass Taxonomy({{...}}).")
    most = None if at_most is None else validate.whole(at_most, "at_most", 1, "a whole number of nodes, at least 1")
    tree = taxonomy.tree_of(sets.classes)
    n_nodes = len(tree.names)
    members = np.repeat(np.arange(len(sets)), sets.sizes) * n_nodes + tree.of_class[sets.indices]
    members.sort(kind="stable")  # rows are in order: soon done
    keys = _whole_nodes(tree, members)
    if most is not None:
        has_many = np.bincount(keys // n_nodes, minlength=len(sets)) > most
        step = max(1, _CELLS_AT_ONCE // (most + 1))  # members that are looked at together, and at least one row
        block = np.cumsum(np.where(has_many, sets.sizes, 0)) // step
        wide = members[has_many[members // n_nodes]]
        starts = np.flatnonzero(np.diff(block[wide // n_nodes], prepend=-1))
        blocks = np.split(wide, starts[1:]) if len(starts) else []
        widened = [_fewest_leaves(tree, block, most) for block in blocks]
        keys = np.sort(np.concatenate([keys[~has_many[keys // n_nodes]], *widened]))
    indptr = pointers_of(np.bincount(keys // n_nodes, minlength=len(sets)))
    nodes = PredictionSets.trusted(indptr, (keys % n_nodes).astype(np.int32), as_labels(tree.names, "nodes"))
    return RolledUp(nodes, most, sets, tree)


def _whole_nodes(tree: Tree, keys: Numbers) -> Numbers:
    """Return the largest nodes of which every label is in the set, for the members of sets."""
    times, kept = np.ones(len(keys), dtype=np.int64), []
    depths = tree.depth[keys % len(tree.names)]
    parents, sums = keys[:0], times[:0]
    for depth in range(int(tree.depth.max()), -1, -1):
        here = np.concatenate([keys[depths == depth], parents])
        order = np.argsort(here, kind="stable")  # two runs in order: soon done
        here, counts = here[order], np.concatenate([times[: len(here) - len(sums)], sums])[order]
        if depth == 0:
            kept.append(here)
            break
        above = _above(tree, here)
        starts = np.flatnonzero(np.diff(above, prepend=-1))
        total = np.add.reduceat(counts, starts) if len(starts) else counts
        is_whole = total == tree.size[above[starts] % len(tree.names)]
        kept.append(here[~np.repeat(is_whole, np.diff(starts, append=len(here)))])
        parents, sums = above[starts][is_whole], total[is_whole]
    keys = np.sort(np.concatenate(kept))
    return keys - keys % len(tree.names) + tree.lowest[keys % len(tree.names)]


def _above(tree: Tree, keys: Numbers) -> Numbers:
    """Return the parents of entries; those of one depth that are in order have parents in order."""
    nodes = keys % len(tree.names)
    return keys - nodes + tree.parent[nodes]


class _Level(NamedTuple):
    """The entries of one depth, by row and then in the order of the tree, and what the programme knows of them.

    ``best[:, j]`` is the least number of labels below at most j nodes that hold the members below the entry's node,
    ``onward[:, j]`` the same for the entry and its later siblings together. ``first`` and ``children`` say where its
    children are among the entries of the next depth, and how many there are.
    """

    keys: Numbers
    best: Counts
    onward: Counts
    first: Numbers
    children: Numbers


def _fewest_leaves(tree: Tree, members: Numbers, most: int) -> Numbers:
    """Return the nodes of each row, at most so many, that hold its members and the fewest labels.

    Ties: fewer nodes, then more of them below the earlier children.
    """
    levels: list[_Level] = []
    depths = tree.depth[members % len(tree.names)]
    for depth in range(int(tree.depth.max()), -1, -1):
        levels.append(_level(tree, members[depths == depth], levels[-1] if levels else None, most))
    levels.reverse()
    entry = np.arange(len(levels[0].keys))
    budget = np.argmax(levels[0].best == levels[0].best[:, -1:], axis=1)
    chosen = []
    for level, below in zip(levels, [*levels[1:], levels[-1]], strict=True):
        is_told = (level.children[entry] == 0) | ((level.children[entry] > 1) & (budget == 1))
        chosen.append(level.keys[entry[is_told]])
        entry, budget = _shared_out(level, below, entry[~is_told], budget[~is_told])
    return np.concatenate(chosen)


def _level(tree: Tree, leaves: Numbers, below: _Level | None, most: int) -> _Level:
    """Return the entries of a depth: members that are leaves there, and the parents of the entries below."""
    above = leaves[:0] if below is None else _above(tree, below.keys)
    starts = np.flatnonzero(np.diff(above, prepend=-1))
    best = np.ones((len(leaves) + len(starts), most + 1), dtype=np.int32)
    if below is not None:
        whole = tree.size[above[starts] % len(tree.names)].astype(np.int32)
        best[len(leaves) :] = np.minimum(whole[:, None], below.onward[starts])
    best[:, 0] = _FAR
    none = np.zeros(len(leaves), dtype=np.int64)
    keys, first = np.concatenate([leaves, above[starts]]), np.concatenate([none, starts])
    children = np.concatenate([none, np.diff(starts, append=len(above))])
    order = np.argsort(keys, kind="stable")  # two runs in order: soon done
    keys, best = keys[order], best[order]
    return _Level(keys, best, _onward(_above(tree, keys), best), first[order], children[order])


def _onward(above: Numbers, best: Counts) -> Counts:
    """Return the least number of labels for each entry and its later siblings together, by the number of nodes."""
    most = best.shape[1] - 1
    ends = np.flatnonzero(np.diff(above, append=-2))
    counts = np.diff(ends, prepend=-1)
    later = np.repeat(ends, counts) - np.arange(len(above))  # siblings that come after
    onward = np.where(later[:, None] == 0, best, np.int32(_FAR))
    for number in range(1, min(most, int(counts.max(initial=0)))):  # each child takes a node: more do not fit
        entry = np.flatnonzero(later == number)
        sums = np.full((len(entry), most + 1), _FAR, dtype=np.int32)
        for taken in range(1, most + 1):
            others = best[entry, taken][:, None] + onward[entry + 1, : most + 1 - taken]
            np.minimum(sums[:, taken:], others, out=sums[:, taken:])
        onward[entry] = sums
    return onward


def _shared_out(level: _Level, below: _Level, entry: Numbers, budget: Numbers) -> tuple[Numbers, Numbers]:
    """Return the children of entries, and how many nodes each of them has: as many as are of use to the first ones."""
    first, count, left = level.first[entry], level.children[entry], budget.copy()
    entries, budgets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for number in range(int(count.max(initial=0))):
        has = np.flatnonzero(count > number)
        child, total = first[has] + number, left[has]
        is_last = count[has] == number + 1
        after = np.minimum(child + 1, len(below.keys) - 1)
        taken = total.copy()
        for nodes in range(1, int(total.max(initial=0))):
            rest = np.maximum(total - nodes, 0)
            fits = below.best[child, nodes] + below.onward[after, rest] == below.onward[child, total]
            taken[~is_last & (nodes < total) & fits] = nodes
        left[has] -= taken
        entries.append(child)
        budgets.append(taken)
    return np.concatenate(entries), np.concatenate(budgets)
