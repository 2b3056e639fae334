"""What equal rows do to coverage: run `python docs/design/simulations/copies.py`, about two minutes on one core.

Prints (1) the coverage of new rows for rows with few different contents, beside the law k/(n + 1); (2) the worst class
among saturated rows; (3) deployments that answer one row at a time, by content and by ids.
"""

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


if __name__ == "__main__":
    law()
    saturated()
    services()
