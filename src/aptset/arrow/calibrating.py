"""Calibrate on batches: one process, any number of rows, bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from aptset import Calibration, LabelBands
from aptset.arrow.layout import ColumnLayout, Columns, check_column
from aptset.arrow.sources import BatchSource, peeked, pieces, record_batches, rows_of
from aptset.arrow.states import (
    KEPT_IDS,
    PARTITION_ROWS,
    BatchScorer,
    Collector,
    PartitionState,
    check_all_partitions,
    check_partition,
    check_rows_found,
    check_same_rows,
    check_same_search,
    merged_state,
)
from aptset.calibration.labelled_rows import Conformity as Conformity
from aptset.calibration.labelled_rows import LabelScorer, score_on_grid
from aptset.conformal.histogram import FixedThresholds, Histogram, OrderStatistics
from aptset.conformal.thresholds import Thresholds
from aptset.core import validate
from aptset.core.groupings import refuse_overlapping
from aptset.core.groups import groups_labels, groups_overlap, is_grouping, is_pair
from aptset.core.levels import check_alphas
from aptset.core.randomization import refuse_few_ids
from aptset.core.validate import answers_foreign_keywords

_FEWEST = 16  # buckets for each that is looked into: every pass then gains bits, however many there are


@dataclass(frozen=True, eq=False)
class ThresholdSearch:
    """A picklable function from the batches of a partition to a batch with its state; :func:`start_search` makes one.

    Run it on every partition, give all states (or what :func:`merge_states` made of them) to :meth:`advance`, and go on
    with the search that it returns until :attr:`is_done`. Then :meth:`calibration` has the thresholds: bit for bit
    those of :func:`aptset.calibrate` on all rows, where rows differ or have ids. (Copies of a row get a u each by where
    they stand in their partition, so that theirs depends on the partitions.)
    """

    scoring: BatchScorer
    levels: tuple[Fraction, ...]
    buckets: int
    allow_empty: bool
    statistics: OrderStatistics | None = None
    first: PartitionState | None = (
        None  # the state of the first pass, without its buckets unless they are what is wanted
    )
    passes: int = 0

    def __call__(self, batches: Any, partition: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield one batch, the state of the rows of one partition.

        Parameters
        ----------
        batches : iterable of record batches, or anything with ``__arrow_c_stream__``
            All rows of the partition, in the same order in every pass.
        partition : int, optional
            Its number, which errors name; copies of rows in other partitions then get a chance of their own.
        """
        yield self.state_of(batches, partition).as_batch()

    def state_of(self, batches: Any, partition: int | None = None) -> PartitionState:
        """Return the state of the rows of one partition."""
        check_partition(partition)
        collector = Collector(self.token, self._most, self._names, self.statistics, partition)
        offset = (partition or 0) * PARTITION_ROWS
        layout = self.scoring.layout
        for start, piece in pieces(record_batches(batches), len(layout.classes), layout.ids is None):
            with rows_of(partition, start):
                scored = self.scoring.score(piece, offset + start if layout.ids is None else 0)
            collector.add(scored)
        return collector.close()

    @property
    def token(self) -> str:
        """What states of this pass are called."""
        return f"{self.scoring.scorer.key:016x}/{self.passes + 1}"

    @property
    def is_done(self) -> bool:
        """Whether every threshold is known."""
        return self.passes > 0 and (self.statistics is None or not self.statistics.wanted)

    def advance(self, states: Any, n_partitions: int | None = None) -> ThresholdSearch:
        """Return the search of the next pass.

        Parameters
        ----------
        states : iterable of record batches, bytes or both
            The states of all partitions, or what :func:`merge_states` made of some of them, in any order.
        n_partitions : int, optional
            How many partitions there are: it is then an error if one of the numbers 0, 1, ... is missing. One that
            comes twice always is.
        """
        state = merged_state(states)
        if state is None:
            raise ValueError("states must hold the state of every partition; got none. Run the search on each of them.")
        check_all_partitions(state.partitions, n_partitions)
        check_same_search([state.token], self.token)
        n = int(state.counts.sizes.sum())
        if self.first is None or self.statistics is None:
            return self._after_first(state, n)
        before, now = self.first.counts, state.counts
        is_same = before.names == now.names and np.array_equal(before.sizes, now.sizes)
        is_same = is_same and self.first.fingerprint == state.fingerprint
        check_same_rows(is_same, int(before.sizes.sum()), n)
        return replace(self, statistics=self.statistics.narrowed(now), passes=self.passes + 1)

    def _after_first(self, state: PartitionState, n: int) -> ThresholdSearch:
        check_rows_found(n)
        if self.scoring.layout.ids is not None and len(state.ids) < KEPT_IDS:
            refuse_few_ids(len(state.ids), n)
        if self.scoring.resolution is not None:
            return replace(self, first=state, passes=1)
        statistics = OrderStatistics.of(state.counts, self.levels)
        nothing = np.empty(0, dtype=np.int64)
        small = replace(state.counts, groups=nothing.astype(np.int32), buckets=nothing, counts=nothing)
        return replace(self, first=replace(state, counts=small), statistics=statistics, passes=1)

    def calibration(self) -> Calibration:
        """Return the calibration, when the search is done."""
        if not self.is_done:
            raise ValueError(
                f"thresholds must be known before there is a calibration; after {self.passes} passes some are not. Run "
                "the search on every partition again, and advance it, until is_done."
            )
        assert self.first is not None
        scoring, counts, n = self.scoring, self.first.counts, int(self.first.counts.sizes.sum())
        scorer, groups = scoring.scorer, scoring.groups_of(counts.names)
        if self.statistics is None:
            assert scoring.resolution is not None
            held_out: Thresholds = Histogram(counts, groups, scoring.resolution)
        else:
            values = self.statistics.values
            held_out = FixedThresholds(groups=groups, group_sizes=counts.sizes, levels=self.levels, values=values)
        columns = None if scoring.layout.holds_lists else np.array(scoring.layout.columns)
        chance = scorer.chance.with_copies(self.first.n_copies, n)
        of_rows = (scoring.layout.classes, scorer.score, scorer.key, chance, self.allow_empty, columns)
        return Calibration(held_out, *of_rows, scorer.normalize, (self.first.fingerprint,))

    @property
    def _names(self) -> tuple[Any, ...]:
        return self.scoring.names if self.statistics is None else self.statistics.names

    @property
    def _most(self) -> int | None:
        if self.scoring.resolution is not None:
            return None
        looked_into = len(self.scoring.names) if self.statistics is None else self.statistics.n_buckets
        return max(self.buckets, _FEWEST * looked_into)


@answers_foreign_keywords
def calibrate_batches(
    batches: Any,
    *,
    labels: str,
    alpha: float | Sequence[float] = 0.1,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    classes: ArrayLike | None = None,
    groups: str | LabelBands | None = None,
    ids: str | None = None,
    conformity: Conformity = "adaptive",
    resolution: float | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    random_state: Any = None,
    buckets: int = 2**18,
) -> Calibration:
    """Calibrate on record batches of Arrow, without keeping the scores: thresholds are exact at any number of rows.

    Scores are counted by their bits. Up to ``buckets`` different scores one pass is enough; of more, the bucket that
    holds a threshold is looked into again, in two passes as a rule and three at 10^12 rows. Thresholds and sets are
    those of :func:`calibrate` on all rows, bit for bit.

    Parameters
    ----------
    batches : table, stream, iterable of batches, or function
        Anything with ``__arrow_c_stream__`` (a table of pyarrow, a frame of polars or pandas, a relation of duckdb), an
        iterable of record batches, or a function without arguments that returns one of these. An iterator or a reader
        can be looked through once: if that is not enough, one error says so.
    labels : str
        The column of true labels. Texts stand for classes by name; numbers also for classes whose name spells them.
    alpha : float or sequence of float, default=0.1
        The levels whose thresholds are wanted. The calibration knows no others, unless ``resolution`` is given.
    probabilities : str or sequence of str, optional
        The columns of probabilities, one for each class, or the one column of lists (of fixed size or not, float16 to
        float64). By default the only column of lists of floats, or else every column of numbers that is nothing else.
    prefix : str, optional
        What the names of the columns of probabilities start with; the class is the rest of the name.
    classes : array, optional
        The class of each column, or of each place of a list: by default the names of the columns, or 0, 1, ....
    groups : None, "label", LabelBands or str, optional
        Calibrate within groups: "label" for every true label, :class:`LabelBands` for bands of labels, else the column
        with the group of each row.
    ids : str, optional
        The column with an id for each row: u then comes from the id alone. Without it u comes from the content of a
        row, and for copies of a row from where they stand among the batches.
    conformity : str, score or function of :class:`Places`, default="adaptive"
        How strange a label is for a row, as in :func:`calibrate`; "auto" is not possible here.
    resolution : float, optional
        A power of two such as ``2**-20``: scores are rounded up to multiples of it, on both sides (:class:`Gridded`).
        One pass is then enough at any n, the calibration answers every level and p-values, can be merged, and its file
        stays small: a few bytes for each point of the grid.
    randomized, allow_empty, normalize, logits, random_state
        As in :func:`calibrate`.
    buckets : int, default=2**18
        How many buckets are kept in memory in a pass; more need fewer passes.

    Returns
    -------
    Calibration
        Without ``resolution`` it has no scores, hence no p-values and no levels but those of ``alpha``.

    Examples
    --------
    >>> import aptset, pyarrow
    >>> probabilities = {"cat": [0.9, 0.2, 0.6] * 40, "dog": [0.1, 0.8, 0.4] * 40}
    >>> table = pyarrow.table({**probabilities, "truth": ["cat", "dog", "dog"] * 40})
    >>> calibration = aptset.calibrate_batches(table, labels="truth", alpha=[0.1, 0.2], random_state=0)
    >>> calibration
    Calibration(n=120, 2 classes, Adaptive())
    >>> same = aptset.calibrate(table.select(["cat", "dog"]), table["truth"], random_state=0)
    >>> calibration.threshold(0.1) == same.threshold(0.1)
    True
    """
    source = BatchSource.of(batches)
    first, all_batches = peeked(source.batches())
    check_rows_found(0 if first is None else 1)
    columns = Columns(probabilities, prefix, groups, ids, labels, classes)
    settings = Calibrating(
        alpha, conformity, resolution, randomized, allow_empty, normalize, logits, random_state, buckets
    )
    search = search_for(first, columns, settings)
    search = search.advance(search.state_of(all_batches))
    while not search.is_done:
        search = search.advance(search.state_of(source.batches(is_again=True)))
    return search.calibration()


def start_search(
    first: pa.RecordBatch | pa.Schema,
    *,
    labels: str,
    alpha: float | Sequence[float] = 0.1,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    classes: ArrayLike | None = None,
    groups: str | LabelBands | None = None,
    ids: str | None = None,
    conformity: Conformity = "adaptive",
    resolution: float | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    random_state: Any = None,
    buckets: int = 2**18,
) -> ThresholdSearch:
    """Return the first pass of a search for thresholds, for batches with the schema of ``first``.

    The parameters are those of :func:`calibrate_batches`, which does with it what a cluster does on its partitions.

    Examples
    --------
    Two partitions; ``map`` stands for a cluster:

    >>> import numpy as np, pyarrow as pa, aptset
    >>> from aptset.arrow import set_maker, start_search
    >>> p = np.random.default_rng(0).dirichlet([3, 2, 1], size=400)
    >>> table = pa.table({"a": p[:, 0], "b": p[:, 1], "c": p[:, 2], "y": np.array(list("abc"))[p.argmax(axis=1)]})
    >>> partitions = [table[:250], table[250:]]
    >>> search = start_search(table.schema, labels="y", random_state=0)
    >>> while not search.is_done:
    ...     states = map(search, partitions, range(2))
    ...     search = search.advance((batch for state in states for batch in state), n_partitions=2)
    >>> calibration = search.calibration()
    >>> calibration.threshold() == aptset.calibrate(p, table["y"], classes=["a", "b", "c"], random_state=0).threshold()
    True
    >>> make = set_maker(calibration, table.schema, probabilities=["a", "b", "c"])
    >>> sum(batch.num_rows for number in range(2) for batch in make(partitions[number], number))
    400
    """
    columns = Columns(probabilities, prefix, groups, ids, labels, classes)
    settings = Calibrating(
        alpha, conformity, resolution, randomized, allow_empty, normalize, logits, random_state, buckets
    )
    return search_for(first, columns, settings)


def plain_levels(alpha: Any) -> tuple[Fraction, ...]:
    """Return every alpha that is asked for: those of labels or groups are looked up when sets are made."""
    levels: list[Fraction] = []
    for level in check_alphas(alpha)[0]:
        if isinstance(level, Fraction):
            levels.append(level)
        elif level.assurance is not None or isinstance(level.alpha, Fraction):
            raise ValueError(f"alpha must be without assurance where only thresholds are kept; got {level}.")
        else:
            levels += [part for _, part in level.alpha]
    return tuple(dict.fromkeys(levels))


def search_for(first: pa.RecordBatch | pa.Schema, columns: Columns, settings: Calibrating) -> ThresholdSearch:
    """Return the first pass of a search; only here is looked at what was given."""
    score = score_on_grid(settings.conformity, settings.resolution)
    schema = first if isinstance(first, pa.Schema) else first.schema
    check_column(schema.names, columns.labels, "labels")
    groups = columns.groups
    if is_pair(groups):
        raise ValueError(
            f"groups must be a column or 'label' for batches, not both at once; got {groups!r}. Use aptset.calibrate, "
            "or `aptset calibrate` for files."
        )
    refuse_overlapping(groups_overlap(groups), "batches", "Use aptset.calibrate.")
    bands: Any = groups if groups_labels(groups) else None
    layout = ColumnLayout.of(first, columns)
    kind = "band" if bands is not None else "all" if groups is None else "label" if is_grouping(groups) else "row"
    scorer = LabelScorer.of(score, layout.classes, kind in ("label", "band"), columns.ids, settings)
    scoring = BatchScorer(layout, scorer, kind, None if bands is None else bands.groups_of(layout.classes))
    levels, rule = plain_levels(settings.alpha), "a whole number from 2 to 2**26"
    buckets = validate.whole(settings.buckets, "buckets", 2, rule, 2**26, "The default is 2**18.")
    return ThresholdSearch(scoring, levels, buckets, validate.flag(settings.allow_empty, "allow_empty"))


@dataclass(frozen=True)
class Calibrating:
    """The levels, the score and the flags of a calibration, as they were given."""

    alpha: float | Sequence[float]
    conformity: Conformity
    resolution: float | None
    randomized: bool
    allow_empty: bool
    normalize: bool
    logits: bool
    random_state: Any
    buckets: int
