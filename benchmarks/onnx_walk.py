"""Every score, u, grouping and type against every kind of row: cells of the ONNX graph that differ from predict_mask.

``python -m benchmarks.onnx_walk [ROWS [CLASSES [OPTIMISATIONS [SCORES [OPSET]]]]]`` runs all of it, or some.
``python -m benchmarks.onnx_walk time`` prints how long one row takes in onnxruntime.
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
_BLOCK, _PIECE = 4096, 10_000


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
    if kind == "peaked":  # as a classifier has them: most sets are short, and some are not
        logits = generator.normal(scale=2.0, size=(n_rows, n_classes))
        logits[np.arange(n_rows), generator.integers(n_classes, size=n_rows)] += 1.5 * np.log(n_classes)
        rows = np.exp(logits - logits.max(axis=1, keepdims=True))
        return rows / rows.sum(axis=1, keepdims=True)
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
            outputs = [entry.name for entry in session.get_outputs()]
            given = dict(zip(outputs, session.run(outputs, {name: piece}), strict=True))
            differing += int((given["mask"] != expected).sum()) + int((given["sizes"] != expected.sum(axis=2)).sum())
            differing += int((~given["valid"]).sum())
            if "order" in given:
                differing += int((np.sort(given["order"], axis=1) != np.arange(rows.shape[1])).sum())
    return differing


def many_rows(n_rows, n_classes, dtype, generator):
    """Return mixed rows, made piece by piece."""
    rows = np.empty((n_rows, n_classes), dtype=dtype)
    for start in range(0, n_rows, _PIECE):
        rows[start : start + _PIECE] = mixed_rows(min(_PIECE, n_rows - start), n_classes, dtype, generator)
    return rows


def short_rows(n_rows, n_classes, dtype, generator):
    """Return peaked rows; every eighth has ties, and every eighth many labels without mass."""
    rows = rows_of("peaked", n_rows, n_classes, generator)
    rows[::8] = np.round(rows[::8], 4)
    rows[1::8] = np.where(rows[1::8] < 1e-3, 0.0, rows[1::8])
    return (rows / rows.sum(axis=1, keepdims=True)).astype(dtype)


def walk(n_rows, classes, optimisations, folder, scores=SCORES, opset=18):
    """Yield each configuration and the number of its differing cells.

    The calibration rows are among the new ones: their scores stand exactly at thresholds. Of many classes, graphs
    without an order are walked, too, on rows whose sets are short, some at a time.
    """
    for n_classes, kind in product(classes, ("float32", "float64")):
        generator = np.random.default_rng(n_classes)
        rows = many_rows(n_rows, n_classes, kind, generator)
        short = short_rows(max(n_rows // 10, CALIBRATION_ROWS), n_classes, kind, generator)
        for score, randomized, groups in product(scores, (True, False), (None, "label")):
            configuration = (n_classes, kind, score, randomized, groups)
            step = 4 * _BLOCK if n_classes < 100 else _BLOCK
            calibration = calibrated(rows[:CALIBRATION_ROWS], score, randomized, groups, generator)
            sessions = sessions_of(calibration, optimisations, folder, dtype=kind, opset=opset)
            yield (*configuration, len(rows)), differing_cells(calibration, sessions, rows, step=step)
            if n_classes > 64:
                calibration = calibrated(short[:CALIBRATION_ROWS], score, randomized, groups, generator)
                sessions = sessions_of(calibration, optimisations, folder, dtype=kind, opset=opset, order=False)
                yield (*configuration, len(short), "no order"), differing_cells(calibration, sessions, short, step=3)


def sessions_of(calibration, optimisations, folder, **exported):
    model = aptset.onnx.export(calibration, Path(folder) / "sets.onnx", ALPHAS, **exported)
    return [session_of(model, optimisation) for optimisation in optimisations]


def microseconds(session, rows):
    """Return how long one row takes, in the mean over rows: of each twenty the best of thirty rounds.

    Every row is another one: a processor learns the way through the sort of one row by heart.
    """
    (name,) = (entry.name for entry in session.get_inputs())
    best = []
    for start in range(0, len(rows), 20):
        fed, times = [{name: row[None]} for row in rows[start : start + 20]], []
        for _ in range(30):
            began = time.perf_counter()
            for given in fed:
                session.run(None, given)
            times.append((time.perf_counter() - began) / len(fed) * 1e6)
        best.append(min(times))
    return float(np.mean(best))


def print_times(folder):
    """Print how long one row takes, by the settings of the page: one level, float32, a session on one thread."""
    for n_classes, opset, order in product((10, 1000), (18, 26), (True, False)):
        generator = np.random.default_rng(0)
        rows = rows_of("peaked", 5000, n_classes, generator).astype(np.float32)
        calibration = calibrated(rows, "adaptive", True, None, generator)
        asked = {"dtype": "float32", "opset": opset, "order": order}
        session = session_of(aptset.onnx.export(calibration, Path(folder) / "sets.onnx", 0.1, **asked))
        short = rows[calibration.predict_mask(rows, 0.1).sum(axis=1) < 30]
        kinds = {"short": short, "any": rows, "tied": rows_of("tied", 200, n_classes, generator).astype(np.float32)}
        times = (f"{kind} {microseconds(session, of_kind[:200]):.1f}" for kind, of_kind in kinds.items())
        print(f"{n_classes} classes, opset {opset}, order={order}: microseconds of rows", *times, flush=True)


def print_walk(folder):
    defaults = ["100000", "10,1000", ",".join(OPTIMISATIONS), ",".join(SCORES), "18"]
    n_rows, classes, optimisations, scores, opset = [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]]
    asked = ([int(number) for number in classes.split(",")], optimisations.split(","))
    total = 0
    for configuration, differing in walk(int(n_rows), *asked, folder, scores.split(","), int(opset)):
        print(*configuration, f"rows, {differing} cells differ", flush=True)
        total += differing
    print(f"{total} cells differ in all")


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        print_times(temporary) if sys.argv[1:] == ["time"] else print_walk(temporary)
