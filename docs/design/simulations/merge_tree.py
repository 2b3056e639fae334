"""A trillion rows on paper, and a merge tree with failures and stragglers.

Run: ``python docs/design/simulations/merge_tree.py`` (half a minute).

The first part runs the search of the library on counts that are drawn instead of counted, for uniform scores. The
second plays a cluster: partitions take a lognormal time, tasks fail, a task that is late is started twice, and the
first answer counts.
"""

import heapq
from fractions import Fraction

import numpy as np
import pyarrow as pa

from aptset.arrow import merge_states, start_search
from aptset.arrow.states import PartitionState
from aptset.conformal.histogram import OrderStatistics, ScoreCounts, keys_of

BUCKETS = 2**18
FEW = 2**21  # scores up to here are drawn one by one
BITS = 52  # of the fraction of a float64


def spread(n, cells, generator):
    """Draw how many of n scores fall into each of some cells that are equally likely."""
    if n > FEW:
        return generator.multinomial(n, np.full(cells, 1 / cells))
    return np.bincount(generator.integers(cells, size=n), minlength=cells)


def first_pass(n, generator):
    """Count n uniform scores: half of them are above 1/2, a quarter above 1/4, and so on."""
    below = np.arange(1, 61)
    of_binades = generator.multinomial(n, np.append(2.0**-below, 2.0**-60))[:-1]

    def filled(bits):  # buckets that are expected to hold a score
        return (2**bits * -np.expm1(-of_binades / 2**bits)).sum()

    bits = next(bits for bits in range(BITS, -1, -1) if filled(bits) <= BUCKETS)
    if n <= FEW:
        return counted(keys_of(generator.random(n), None), n)
    starts = keys_of(2.0**-below, None) >> (BITS - bits)
    parts = [spread(count, 2**bits, generator) for count in of_binades]
    cells = [(start + np.flatnonzero(part), part[part > 0]) for start, part in zip(starts, parts, strict=True)][::-1]
    buckets, counts = (np.concatenate(columns) for columns in zip(*cells, strict=True))
    return ScoreCounts(
        ("all",), np.array([counts.sum()]), np.zeros(len(buckets), np.int32), buckets, counts, BITS - bits, BUCKETS
    )


def next_pass(inside, n_inside, n, generator):
    """Count the scores of one bucket, in which all values are equally likely."""
    low, high = inside.bounds(0)
    if n_inside <= FEW:
        return counted(generator.integers(low, high, size=n_inside, endpoint=True), n)
    level = max(0, inside.level - BUCKETS.bit_length() + 1)
    counts = spread(n_inside, 1 << (inside.level - level), generator)
    met = np.flatnonzero(counts)
    buckets = (low >> level) + met
    return ScoreCounts(("all",), np.array([n]), np.zeros(len(met), np.int32), buckets, counts[met], level, BUCKETS)


def counted(keys, n):
    return ScoreCounts.of(keys, np.zeros(len(keys), np.int32), ["all"], np.array([n]), BUCKETS)


def search(n, generator):
    """Return the bytes of the state of each pass, and how far the threshold is from the quantile of the law."""
    counts = first_pass(n, generator)
    found, sizes = OrderStatistics.of(counts, [Fraction(1, 10)]), []
    while True:
        sizes.append(len(PartitionState("", counts, 0, 0, np.empty(0, np.uint64), np.arange(10_000)).as_bytes()))
        if not found.wanted:
            return sizes, float(found.found[0, 0]) - 0.9
        (one,) = found.wanted
        n_inside = int(counts.counts[np.searchsorted(counts.buckets, one.inside.number)])
        counts = next_pass(one.inside, n_inside, n, generator)
        found = found.narrowed(counts)


def play(n_parts, n_workers, failing, straggling, twice, generator):
    """Return the time of a pass, in times of the ideal, and how many tasks were run for each partition."""
    queue, done, free, now, runs = list(range(n_parts)), set(), n_workers, 0.0, 0
    running, started = [], {}
    while len(done) < n_parts:
        while free and queue:
            part = queue.pop()
            long = generator.lognormal(0, 0.3) * (10 if generator.random() < straggling else 1)
            heapq.heappush(running, (now + long, runs, part, bool(generator.random() < failing)))
            started.setdefault(part, now)
            free, runs = free - 1, runs + 1
        if free and twice and not queue:  # nothing is left to start: start what is late a second time
            late = [part for _, _, part, _ in running if part not in done and now - started[part] > 2]
            queue = list(dict.fromkeys(part for part in late if sum(p == part for _, _, p, _ in running) < 2))
            if queue:
                continue
        now, _, part, fails = heapq.heappop(running)
        free += 1
        if fails and part not in done:
            queue.append(part)
        elif not fails:
            done.add(part)
    return now / (n_parts * np.exp(0.045) / n_workers), runs / n_parts


def one_result(generator):
    """Merge states in random trees, some partitions answered twice: the same thresholds, or a refusal."""
    p = generator.dirichlet(np.full(5, 0.5), size=20_000)
    y = (generator.random((20_000, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    parts = [pa.table({"p": p[k::16].tolist(), "y": y[k::16]}) for k in range(16)]
    thresholds, refused, passes = set(), 0, 0
    for _ in range(30):
        current = start_search(parts[0].schema, labels="y", classes=range(5), random_state=0, buckets=2**9)
        while not current.is_done:
            answers = {}
            for number in generator.permutation(np.repeat(np.arange(16), 2)).tolist():  # every task runs twice
                answers.setdefault(number, list(current(parts[number], number)))  # and the first answer counts
            states = list(answers.values())
            while len(states) > 2:
                generator.shuffle(states)
                states = [list(merge_states(states[:2])), *states[2:]]
            for wrong in ([*states, answers[0]], states[:1]):  # a state twice, a branch of the tree lost
                try:
                    current.advance(wrong, n_partitions=16)
                except ValueError:
                    refused += 1
            current = current.advance(states, n_partitions=16)
            passes += 1
        thresholds.add(current.calibration().threshold())
    return thresholds, refused, passes


def main():
    """Print the tables."""
    generator = np.random.default_rng(0)
    for n in (10**6, 10**8, 10**9, 10**10, 10**12, 10**14):
        sizes, off = search(n, generator)
        states = ", ".join(f"{size / 1e6:.2f}" for size in sizes)
        print(f"n = {n:.0e}: {len(sizes)} passes, states of {states} MB; {off / (0.09 / n) ** 0.5:+.1f} deviations off")
    for failing, straggling in ((0, 0), (0.01, 0), (0.1, 0), (0, 0.01), (0.05, 0.01)):
        for twice in (False, True):
            runs = [play(2000, 100, failing, straggling, twice, generator) for _ in range(20)]
            time, tasks = np.mean(runs, axis=0)
            words = (
                f"{failing:.0%} fail, {straggling:.0%} take 10 times as long, late ones {'twice' if twice else 'once'}"
            )
            print(f"{words}: {time:.2f} times the ideal, {tasks:.2f} tasks a partition")
    thresholds, refused, passes = one_result(generator)
    wrong = f"{refused} of {2 * passes} trees that count twice or lose a branch refused"
    print(f"30 random trees: {len(thresholds)} threshold; {wrong}")


if __name__ == "__main__":
    main()
