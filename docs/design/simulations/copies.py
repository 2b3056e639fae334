"""What equal rows do to coverage: run `python docs/design/simulations/copies.py`, about two minutes on one core.

Prints (1) the coverage of new rows for rows with few different contents, beside the law k/(n + 1); (2) the worst class
among saturated rows; (3) deployments that answer one row at a time, by content and by ids; (4) a tree of 5 leaves in
batches of 2, and (5) calibrations of 8 blocks, with fresh u. With the path of an .npz file that holds a matrix of
probabilities and their labels `y`: (6) coverage of deployments in batches of 32.
"""

import sys
import warnings

import numpy as np

import aptset

ALPHA = 0.1


def constant(generator, n):
    return np.tile([0.5, 0.3, 0.2], (n, 1))


def one_hot(generator, n):
    return np.eye(3)[generator.integers(3, size=n)]


def few_valued(generator, n):
    return np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])[generator.integers(3, size=n)]


def labels_of(generator, matrix):
    """Draw labels from 0.7 p + 0.1: the model is off, as models are."""
    return (generator.random((len(matrix), 1)) > np.cumsum(0.7 * matrix + 0.1, axis=1)).sum(axis=1).clip(0, 2)


def law():
    print("rows        n    k/(n+1)  coverage (first new row, a copy beside it, 20,000 calibrations)")
    for rows in (constant, one_hot, few_valued):
        for n in (19, 99, 400):
            generator, covered = np.random.default_rng(n), np.zeros(2)
            repetitions = 20_000 if n < 400 else 5_000
            for key in range(repetitions):
                matrix = rows(generator, n + 2)
                labels = labels_of(generator, matrix)
                calibration = aptset.calibrate(matrix[:n], labels[:n], random_state=key)
                covered += calibration.predict_set(matrix[n:], ALPHA).covers(labels[n:])
            exact = aptset.conformal_rank(n, ALPHA) / (n + 1)
            first, second = covered / repetitions
            print(f"{rows.__name__:10} {n:4}  {exact:.4f}   {first:.4f}  {second:.4f}")


def saturated():
    print("\nsoftmax rounded to 3 digits, 20,000 + 20,000 rows, 10 classes: coverage, worst class, for 8 keys")
    generator = np.random.default_rng(3)
    truth = generator.integers(10, size=40_000)
    logits = generator.normal(size=(40_000, 10)) * 2
    logits[np.arange(40_000), truth] += 12
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    matrix = np.round(soft / soft.sum(axis=1, keepdims=True), 3)
    for key in range(8):
        calibration = aptset.calibrate(matrix[:20_000], truth[:20_000], normalize=True, random_state=key)
        covered = calibration.predict_set(matrix[20_000:], ALPHA).covers(truth[20_000:])
        worst = min(covered[truth[20_000:] == label].mean() for label in range(10))
        print(f"  {covered.mean():.4f}  {worst:.4f}")


def services():
    print("\none row at a time (n = 400, 300 requests, 300 deployments): deployments that cover less than 0.8")
    warnings.simplefilter("ignore")
    for rows in (constant, one_hot):
        short = np.zeros(2)
        for key in range(300):
            generator = np.random.default_rng(key)
            matrix = rows(generator, 700)
            labels = labels_of(generator, matrix)
            calibration = aptset.calibrate(matrix[:400], labels[:400], random_state=key)
            for way in (0, 1):
                # A content has one set whoever asks: ask once for each, as the first row of a call.
                ids = np.arange(300) if way else None
                if way:
                    covered = calibration.predict_set(matrix[400:], ALPHA, ids=ids).covers(labels[400:])
                else:
                    contents, which = np.unique(matrix[400:], axis=0, return_inverse=True)
                    covered = calibration.predict_mask(contents, ALPHA)[which.ravel(), labels[400:]]
                short[way] += covered.mean() < 0.8
        print(f"  {rows.__name__:10} by content {short[0] / 300:.3f}, by ids {short[1] / 300:.3f}")


def tree(n=1000, m=2000, deployments=400):
    print("\na tree of 5 leaves in batches of 2: false alarms of a monitor, and of coverage_test at 0.01")
    leaves = np.array([[0.97, 0.02, 0.01], [0.9, 0.06, 0.04], [0.1, 0.85, 0.05], [0.05, 0.15, 0.8], [0.4, 0.35, 0.25]])
    generator, alarms = np.random.default_rng(0), np.zeros((2, 2))
    for key in range(deployments):
        leaf = generator.integers(5, size=n + m)
        labels = (generator.random((n + m, 1)) > leaves[leaf].cumsum(axis=1)[:, :-1]).sum(axis=1)
        calibration = aptset.calibrate(leaves[leaf[:n]], labels[:n], random_state=key)
        pairs = np.array([[calibration.predict_mask(leaves[[a, b]], ALPHA) for b in range(5)] for a in range(5)])
        shared = pairs[leaf[n::2], leaf[n + 1 :: 2]].reshape(m, 3)
        for way, mask in enumerate((shared, calibration.predict_mask(leaves[leaf[n:]], ALPHA, u="fresh"))):
            covered = mask[np.arange(m), labels[n:]]
            alarmed = calibration.monitor(alpha=ALPHA).update(covered).alarmed
            alarms[way] += alarmed, aptset.coverage_test(covered, n=n, alpha=ALPHA).p_value < 0.01
    for way, name in enumerate(("content", "fresh")):
        print(f"  {name:8}", *(alarms[way] / deployments))


def blocks(repetitions=250, n=8 * 4096, m=40_000):
    print("\nfresh u, 8 blocks of calibration rows: contents, k/(n + 1), coverage, standard error")
    generator = np.random.default_rng(1)
    for contents in (40_960, 4096):
        likely, covered = 0.6 + 0.2 * np.arange(contents) / contents, []
        for key in range(repetitions):
            which = generator.integers(contents, size=n + m)
            labels = (generator.random(n + m) > likely[which]).astype(int)
            matrix = np.column_stack([likely, 1 - likely])[which]
            calibration = aptset.calibrate(matrix[:n], labels[:n], random_state=key)
            covered.append(calibration.predict_set(matrix[n:], ALPHA, u="fresh").covers(labels[n:]).mean())
        exact = aptset.conformal_rank(n, ALPHA) / (n + 1)
        print(f"  {contents:6}  {exact:.5f}  {np.mean(covered):.5f}  {np.std(covered) / repetitions**0.5:.5f}")


def small_batches(path):
    print("\nbatches of 32, 12 keys: lowest and highest coverage, worst label")
    held = np.load(path)
    labels, matrix = held["y"].astype(int), next(held[name] for name in held if held[name].ndim == 2)
    for kind, rows in (("rounded", matrix.round(3)), ("float16", matrix.astype(np.float16).astype(float))):
        for way in ("content", "ids", "fresh"):
            coverage, worst = np.array([_deployment(rows, labels, way, key) for key in range(12)]).T
            print(f"  {kind} {way:8} {coverage.min():.3f} {coverage.max():.3f} {worst.min():.3f}")


def _deployment(rows, labels, way, key):
    order = np.random.default_rng(key).permutation(len(labels))
    old, new = np.split(order, 2)
    calibration, covered = aptset.calibrate(rows[old], labels[old], normalize=True, random_state=key), []
    for start in range(0, len(new), 32):
        batch = new[start : start + 32]
        chance = {"content": {}, "ids": {"ids": batch}, "fresh": {"u": "fresh"}}[way]
        covered.append(calibration.predict_set(rows[batch], ALPHA, **chance).covers(labels[batch]))
    covered = np.concatenate(covered)
    return covered.mean(), min(covered[labels[new] == label].mean() for label in np.unique(labels))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of small calls: they are the point
    law()
    saturated()
    services()
    tree()
    blocks()
    for given in sys.argv[1:]:
        small_batches(given)
