"""The search for thresholds: one object that goes to the workers, makes states there, and learns from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from aptset.arrow.checks import rows_of
from aptset.arrow.scoring import PARTITION_ROWS, BatchScorer
from aptset.arrow.sources import pieces, record_batches
from aptset.arrow.state_checks import (
    check_all_partitions,
    check_is_done,
    check_partition,
    check_rows_found,
    check_same_rows,
    check_same_search,
    check_state,
)
from aptset.arrow.states import KEPT_IDS, Collector, PartitionState, merged_state
from aptset.calibration.calibration import Calibration
from aptset.conformal.histogram import FixedThresholds, Histogram, OrderStatistics
from aptset.conformal.measure import Thresholds
from aptset.core.randomization import refuse_few_ids

_FEWEST = 16  # buckets for each that is looked into: every pass then gains bits, however many there are


@dataclass(frozen=True, eq=False)
class ThresholdSearch:
    """A picklable function from the batches of a partition to a batch with its state; :func:`start_search` makes one.

    Run it on every partition, give all states (or what :func:`merge_states` made of them) to :meth:`advance`, and go on
    with the search that it returns until :attr:`is_done`. Then :meth:`calibration` has the thresholds: bit for bit
    those of :func:`aptset.calibrate` on all rows.
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
            collector.add(*scored)
        return collector.close()

    @property
    def token(self) -> str:
        """What states of this pass are called."""
        return f"{self.scoring.key:016x}/{self.passes + 1}"

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
        state = check_state(merged_state(states))
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
        check_is_done(self.is_done, self.passes)
        assert self.first is not None
        scoring, counts, n = self.scoring, self.first.counts, int(self.first.counts.sizes.sum())
        groups, chance = scoring.groups_of(counts.names), scoring.chance.with_copies(self.first.n_copies, n)
        if self.statistics is None:
            assert scoring.resolution is not None
            held_out: Thresholds = Histogram(counts, groups, scoring.resolution)
        else:
            found = self.statistics.found
            held_out = FixedThresholds(groups=groups, group_sizes=counts.sizes, levels=self.levels, found=found)
        columns = None if scoring.layout.holds_lists else np.array(scoring.layout.columns)
        of_rows = (scoring.layout.classes, scoring.conformity, scoring.key, chance, self.allow_empty, columns)
        return Calibration(held_out, *of_rows, scoring.normalize, (self.first.fingerprint,))

    @property
    def _names(self) -> tuple[Any, ...]:
        return self.scoring.names if self.statistics is None else self.statistics.names

    @property
    def _most(self) -> int | None:
        if self.scoring.resolution is not None:
            return None
        looked_into = len(self.scoring.names) if self.statistics is None else self.statistics.n_buckets
        return max(self.buckets, _FEWEST * looked_into)
