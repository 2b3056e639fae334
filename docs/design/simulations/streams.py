"""Streams: run `python docs/design/simulations/streams.py`, about three minutes on one core.

Prints (1) how many rows the monitor needs to notice that misses went from 0.10 to 0.20, after quiet of several lengths;
(2) how often it alarms when nothing happens; (3) the same where misses are labelled sooner than hits, and what labels
that never come cost; (4) coverage and size of online sets around an abrupt change.
"""

import numpy as np

import aptset

ALPHA = 0.1


def miss_rate(generator, n):
    """The miss rate of one calibration on n rows, a draw from its Beta law."""
    k = aptset.conformal_rank(n, ALPHA)
    return generator.beta(n + 1 - k, k)


def delays():
    print("rows until the alarm, misses 0.10 more (median, nine of ten streams; 100 streams; alarmed before)")
    for n in (200, 1_000, 5_000):
        for quiet in (1_000, 10_000, 100_000):
            generator, found, early = np.random.default_rng(n + quiet), [], 0
            for _ in range(100):
                rate = miss_rate(generator, n)
                monitor = aptset.CoverageMonitor(n, ALPHA).update(generator.random(quiet) >= rate)
                if monitor.alarmed:
                    early += 1
                    continue
                monitor.update(generator.random(20_000) >= rate + 0.1)
                found.append(monitor.alarmed_at - quiet if monitor.alarmed else np.inf)
            middle, most = np.quantile(found, [0.5, 0.9])
            print(f"  n = {n:5,}, quiet {quiet:7,}: {middle:5.0f}  {most:5.0f}  ({early})")


def false_alarms():
    print("\nstreams of 10,000 rows to which nothing happened: share that alarmed (1,000 streams)")
    for n in (200, 1_000, 5_000):
        for alarm in (20, 100):
            generator, found = np.random.default_rng(n + alarm), 0
            for _ in range(1000):
                covered = generator.random(10_000) >= miss_rate(generator, n)
                found += aptset.CoverageMonitor(n, ALPHA, alarm).update(covered).alarmed
            print(f"  n = {n:5,}, alarm {alarm:3}: {found / 1000:.4f}")


def delayed_labels():
    print("\nmisses labelled after 5 days, hits after 30, 20 rows a day: share of 200 healthy streams that alarmed")
    generator, as_they_come, alarms = np.random.default_rng(1), 0, {1_000: 0, 200: 0}
    for _ in range(200):
        covered = generator.random(5_000) >= miss_rate(generator, 1_000)
        arrival = np.argsort(np.arange(5_000) / 20 + np.where(covered, 30, 5), kind="stable")
        as_they_come += aptset.CoverageMonitor(1_000, ALPHA).update(covered[arrival]).alarmed
        for mature in (1_000, 200):
            monitor = aptset.CoverageMonitor(1_000, ALPHA, mature=mature)
            for numbers in np.array_split(arrival, 100):
                monitor.update(covered[numbers], order=numbers)
            alarms[mature] += monitor.alarmed
    shares = [number / 200 for number in (as_they_come, *alarms.values())]
    print("  as they come {:.3f}, in order {:.3f}, in order with the hits given up {:.3f}".format(*shares))


def lost_labels():
    print("\nrows until the alarm, misses 0.10 more, where a share of labels is lost (median, nine of ten; 40 streams)")
    for n, quiet in ((1_000, 1_000), (5_000, 1_000), (5_000, 10_000)):
        for share in (0.0, 0.02, 0.1, 0.2):
            generator, found = np.random.default_rng(n + quiet), []
            for _ in range(40):
                rates = np.repeat(miss_rate(generator, n) + np.array([0, 0.1]), [quiet, 3_000])
                covered = (generator.random(quiet + 3_000) >= rates).astype(object)
                covered[generator.random(quiet + 3_000) < share] = None
                monitor = aptset.CoverageMonitor(n, ALPHA, mature=0).update(covered)
                found.append(monitor.alarmed_at - quiet if monitor.alarmed else np.inf)
            middle, most = np.quantile(found, [0.5, 0.9], method="higher")
            print(f"  n = {n:5,}, quiet {quiet:6,}, lost {share:.2f}: {middle:5.0f}  {most:5.0f}")


def drifting(generator, n_before, n_after, n_classes=6):
    """Rows of a model that is right at first; then a third of the labels are anybody's guess."""
    n = n_before + n_after
    rows = generator.dirichlet([0.3] * n_classes, size=n)
    labels = (rows.cumsum(axis=1) > generator.random((n, 1))).argmax(axis=1)
    lost = (np.arange(n) >= n_before) & (generator.random(n) < 1 / 3)
    return rows, np.where(lost, generator.integers(n_classes, size=n), labels)


def one_stream(generator, window, step):
    """Whether each set covered, and its size, for rows 500 .. 3,500 of which the first 500 calibrate."""
    rows, labels = drifting(generator, 2_000, 1_500)
    calibration = aptset.calibrate(rows[:500], labels[:500], random_state=0)
    online, covered, sizes = aptset.Online(calibration, ALPHA, window, step), [], []
    for row in range(500, 3_500):
        mask = online.predict_mask(rows[row : row + 1])
        covered.append(mask[0, labels[row]])
        sizes.append(mask.sum())
        online.update(rows[row : row + 1], labels[row : row + 1])
    return np.array(covered), np.array(sizes)


def online():
    print(
        "\ncoverage before the change, in the first 300 rows after it, later, worst 200 rows; size later (20 streams)"
    )
    for name, window, step in (
        ("static", None, 0),
        ("window 500", 500, 0),
        ("step 0.01", None, 0.01),
        ("both", 500, 0.01),
        ("step 0.05", None, 0.05),
    ):
        found = []
        for seed in range(20):
            covered, sizes = one_stream(np.random.default_rng(seed), window, step)
            worst = np.convolve(covered, np.ones(200) / 200, "valid").min()
            later = slice(1_800, None)
            found.append(
                [covered[:1_500].mean(), covered[1_500:1_800].mean(), covered[later].mean(), worst, sizes[later].mean()]
            )
        print(f"  {name:10}", "  ".join(f"{value:.3f}" for value in np.mean(found, axis=0)))


if __name__ == "__main__":
    delays()
    false_alarms()
    delayed_labels()
    lost_labels()
    online()
