"""Every score, u, grouping and type against every kind of row: cells of the ONNX graph that differ from predict_mask.

``python -m benchmarks.onnx_walk [ROWS [CLASSES [OPTIMISATIONS [SCORES]]]]`` runs all of it, or some: 100,000 rows each,
and prints how long one row takes in onnxruntime.
"""

import sys
import time
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime

import aptset
import aptset.onnx

SCORES = ("adaptive", "regularized", "homogeneous", "saps", "rank", "margin")
KINDS = ("smooth", "tied", "zero", "denormal", "negative zero", "edges")
OPTIMISATIONS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
ALPHAS = [0.05, 0.1, 0.3]
CALIBRATION_ROWS = 2000
_BLOCK = 4096


def rows_of(kind, n_rows, n_classes, generator):
    """Return probabilities with ties, labels without mass, numbers below the normal ones, or negative zeros."""
    if kind == "tied":
        counts = generator.integers(1, 4, size=(n_rows, n_classes)).astype(np.float64)
        return counts / counts.sum(axis=1, keepdims=True)
    if kind == "edges":  # powers of two, and their neighbours
        powers = 2.0 ** -generator.integers(1, 60, size=(n_rows, n_classes)).astype(np.float64)
        rows = np.nextafter(powers, generator.choice([0.0, 1.0, 2.0], size=powers.shape) * powers)
        rows[np.arange(n_rows), generator.integers(n_classes, size=n_rows)] = 0.0
        rows[:, 0] = np.maximum(1.0 - rows[:, 1:].sum(axis=1), 0.0)
        return np.where(rows.sum(axis=1, keepdims=True) < 1.0 + 1e-9, rows, np.eye(n_classes)[:1])
    rows = generator.dirichlet(np.full(n_classes, 0.5), size=n_rows)
    if kind == "smooth":
        return rows
    without = generator.random((n_rows, n_classes)) < 0.6
    without[np.arange(n_rows), generator.integers(n_classes, size=n_rows)] = False
    rows[without] = 0.0
    total = rows.sum(axis=1, keepdims=True)
    rows = np.divide(rows, total, out=np.full_like(rows, 1.0 / n_classes), where=total > 0)
    if kind == "denormal":
        tiny = generator.choice([5e-324, 1e-310, 2e-310, 2.0**-1022, 1e-45, 1e-40, 2.0**-52, 2.0**-51], size=rows.shape)
        rows = np.where(rows == 0.0, tiny, rows)
    if kind == "negative zero":
        rows = np.where((rows == 0.0) & (generator.random(rows.shape) < 0.5), -0.0, rows)
    return rows


def mixed_rows(n_rows, n_classes, dtype, generator, kinds=KINDS):
    """Return rows of all kinds in random order, some of them copies of others."""
    share = -(-n_rows // len(kinds))
    rows = np.concatenate([rows_of(kind, share, n_classes, generator) for kind in kinds])
    rows = rows[generator.permutation(len(rows))][:n_rows]
    copies = generator.integers(n_rows, size=n_rows // 50)
    rows[copies] = rows[(copies + generator.integers(1, 100, size=len(copies))) % n_rows]
    return np.ascontiguousarray(rows.astype(dtype))


def calibrated(rows, score, randomized, groups, generator):
    """Return a calibration on rows with labels that follow their probabilities."""
    mass = np.cumsum(rows.astype(np.float64), axis=1)
    labels = (mass < generator.random((len(rows), 1)) * mass[:, -1:]).sum(axis=1)
    names = np.arange(rows.shape[1])
    return aptset.calibrate(
        rows, labels, conformity=score, randomized=randomized, groups=groups, classes=names, random_state=0
    )


def session_of(model, optimisation="all"):
    """Return a session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = OPTIMISATIONS[optimisation]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def differing_cells(calibration, sessions, rows, alphas=ALPHAS, step=_BLOCK, **asked):
    """Return how many cells of any session differ from predict_mask; rows come in pieces, as the memory has it."""
    differing = 0
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        expected = np.array([calibration.predict_mask(piece, alpha, **asked) for alpha in alphas])
        for session in sessions:
            (name,) = (entry.name for entry in session.get_inputs())
            mask, order, sizes, valid = session.run(["mask", "order", "sizes", "valid"], {name: piece})
            differing += int((mask != expected).sum()) + int((sizes != expected.sum(axis=2)).sum())
            differing += int((~valid).sum()) + int((np.sort(order, axis=1) != np.arange(order.shape[1])).sum())
    return differing


def microseconds(session, row):
    """Return how long one row takes: the median, and the first per cent, of runs of twenty."""
    (name,) = (entry.name for entry in session.get_inputs())
    times = []
    for _ in range(500):
        start = time.perf_counter()
        for _ in range(20):
            session.run(None, {name: row})
        times.append((time.perf_counter() - start) / 20 * 1e6)
    return float(np.median(times)), float(np.percentile(times, 1))


def walk(n_rows, classes, optimisations, folder, scores=SCORES, timed=True):
    """Yield each configuration and the number of its differing cells.

    The calibration rows are among the new ones: their scores stand exactly at thresholds.
    """
    for n_classes, kind in product(classes, ("float32", "float64")):
        generator = np.random.default_rng(n_classes)
        rows = mixed_rows(n_rows, n_classes, kind, generator)
        for score, randomized, groups in product(scores, (True, False), (None, "label")):
            calibration = calibrated(rows[:CALIBRATION_ROWS], score, randomized, groups, generator)
            model = aptset.onnx.export(calibration, Path(folder) / "sets.onnx", ALPHAS, dtype=kind)
            sessions = [session_of(model, optimisation) for optimisation in optimisations]
            step = 4 * _BLOCK if n_classes < 100 else _BLOCK
            yield (n_classes, kind, score, randomized, groups), differing_cells(calibration, sessions, rows, step=step)
            if timed and score == "adaptive" and groups is None:
                print_times(sessions[-1], n_classes, kind, generator)


def print_times(session, n_classes, kind, generator):
    for row in ("smooth", "tied"):
        median, best = microseconds(session, rows_of(row, 1, n_classes, generator).astype(kind))
        print(f"one {row} row of {n_classes} classes in {kind}: {median:.0f} microseconds, {best:.0f} at best")


def main():
    defaults = ["100000", "10,1000", ",".join(OPTIMISATIONS), ",".join(SCORES)]
    n_rows, classes, optimisations, scores = [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]]
    total = 0
    asked = ([int(number) for number in classes.split(",")], optimisations.split(","))
    with TemporaryDirectory() as folder:
        for configuration, differing in walk(int(n_rows), *asked, folder, scores.split(",")):
            print(*configuration, f"{n_rows} rows, {differing} cells differ", flush=True)
            total += differing
    print(f"{total} cells differ in all")


if __name__ == "__main__":
    main()
