"""Reproduce a published table of prediction sets from stored logits: python docs/reference/published_tables.py FILE.

FILE is an npz with ``model|dataset|logits`` (rows x 6, one column for each answer letter) and ``model|dataset|y`` (the
number of the true letter): logits of vision-language models that the authors of VLM-Uncertainty-Bench published (MIT
licence, https://github.com/EnSec-AI/VLM-Uncertainty-Bench, as of 24c9226). Nothing is downloaded.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import aptset

ALPHA = 0.1
DATASETS = ("mmbench", "oodcv")
# Accuracy in % and mean of the sizes of LAC and "APS" sets, as printed beside the logits.
PUBLISHED = {
    "llava-v1.6-vicuna-13b": {"mmbench": ("76.75", "2.34"), "oodcv": ("72.93", "2.18")},
    "Yi-VL-6B": {"mmbench": ("75.24", "2.47"), "oodcv": ("73.91", "2.02")},
    "cogagent-vqa-hf": {"mmbench": ("74.78", "2.33"), "oodcv": ("68.57", "2.46")},
    "Qwen-VL-Chat": {"mmbench": ("71.40", "2.70"), "oodcv": ("54.22", "3.32")},
}


class Rows(NamedTuple):
    """Probabilities and labels of one model on one data set."""

    p: np.ndarray
    y: np.ndarray

    def covered(self, mask: np.ndarray, rows: np.ndarray) -> float:
        """Return the share of rows whose true label is in the set."""
        return float(mask[np.arange(len(rows)), self.y[rows]].mean())


def read(path: Path, model: str, dataset: str) -> Rows:
    """Read the logits of one model."""
    with np.load(path) as file:
        logits, y = file[f"{model}|{dataset}|logits"].astype(np.float64), file[f"{model}|{dataset}|y"].astype(np.int64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Rows(weights / weights.sum(axis=1, keepdims=True), y)


def halves(n: int, seed: int = 42) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that are tested and those that calibrate, as published."""
    order = np.random.RandomState(seed).permutation(n)
    return order[: -(-n // 2)], order[-(-n // 2) :]


def rank_of_quantile(n: int) -> int:
    """Return which smallest score ``np.quantile(scores, ceil((n + 1)(1 - alpha)) / n, method="higher")`` takes.

    It is one more than the conformal rank k: position (n - 1) k / n, counted from 0, is rounded up to k.
    """
    return int(np.ceil((n + 1) * (1 - ALPHA))) + 1


def published_lac(rows: Rows, test: np.ndarray, calibrate: np.ndarray) -> np.ndarray:
    """Return sets of 1 - p with aptset, at the rank of numpy's quantile, each with its most likely label."""
    n = len(calibrate)
    calibration = aptset.calibrate(
        rows.p[calibrate], rows.y[calibrate], conformity="lac", randomized=False, allow_empty=False, classes=range(6)
    )
    mask: np.ndarray = calibration.predict_set(rows.p[test], 1 - (rank_of_quantile(n) - 0.5) / (n + 1)).mask
    return mask


def published_aps(rows: Rows, test: np.ndarray, calibrate: np.ndarray) -> np.ndarray:
    """Return sets of the mass down to and including a label, without u, each with its most likely label.

    Equal probabilities stand with the later letter first, as in a sort that is turned round.
    """
    order = np.argsort(rows.p, axis=1, kind="stable")[:, ::-1]
    mass = np.empty_like(rows.p)
    np.put_along_axis(mass, order, np.take_along_axis(rows.p, order, axis=1).cumsum(axis=1), axis=1)
    threshold = np.sort(mass[calibrate, rows.y[calibrate]])[rank_of_quantile(len(calibrate)) - 1]
    mask: np.ndarray = mass[test] <= threshold
    mask[np.arange(len(test)), order[test, 0]] = True
    return mask


def matched(rows: Rows, test: np.ndarray, calibrate: np.ndarray, score: str) -> np.ndarray:
    """Return the sets of aptset's own score, with u on both sides, and no label that is forced."""
    of_rows = rows.p[calibrate], rows.y[calibrate]
    calibration = aptset.calibrate(*of_rows, conformity=score, random_state=0, classes=range(6))
    mask: np.ndarray = calibration.predict_set(rows.p[test], ALPHA).mask
    return mask


def printed(rows: Rows) -> tuple[str, str]:
    """Return accuracy and size as they are printed."""
    test, calibrate = halves(len(rows.y))
    accuracy = 100 * (rows.p[test].argmax(axis=1) == rows.y[test]).mean()
    sizes = [make(rows, test, calibrate).sum(axis=1).mean() for make in (published_lac, published_aps)]
    return f"{accuracy:.2f}", f"{np.mean(sizes):.2f}"


def over_splits(rows: Rows, repetitions: int) -> list[tuple[float, float]]:
    """Return mean coverage and mean size of the published APS, aptset's APS and aptset's LAC over random halves."""
    found = []
    for seed in range(repetitions):
        test, calibrate = halves(len(rows.y), seed)
        masks = [published_aps(rows, test, calibrate), *(matched(rows, test, calibrate, one) for one in ("aps", "lac"))]
        found.append([(rows.covered(mask, test), mask.sum(axis=1).mean()) for mask in masks])
    return [(float(c), float(s)) for c, s in np.mean(found, axis=0)]


def tables(path: Path, repetitions: int = 50) -> list[str]:
    """Return the lines of both tables."""
    lines = ["| model | data | accuracy, published | here | size, published | here |", "|---|---|---|---|---|---|"]
    every = {(model, data): read(path, model, data) for model in PUBLISHED for data in DATASETS}
    for (model, data), rows in every.items():
        (accuracy, size), (own_accuracy, own_size) = PUBLISHED[model][data], printed(rows)
        lines.append(f"| {model} | {data} | {accuracy} | {own_accuracy} | {size} | {own_size} |")
    lines += ["", "| model | data | published APS | aptset, APS | aptset, LAC |", "|---|---|---|---|---|"]
    for (model, data), rows in every.items():
        cells = " | ".join(f"{coverage:.3f}, {size:.2f}" for coverage, size in over_splits(rows, repetitions))
        lines.append(f"| {model} | {data} | {cells} |")
    return lines


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print("\n".join(tables(Path(sys.argv[1]))))
