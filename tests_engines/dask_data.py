"""Rows for the tests of dask, and functions that its workers must be able to import."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

NAMES = ["ant", "bee", "cat", "dog"]
COLUMNS = [f"p_{name}" for name in NAMES]


def frame_of(n=6000, seed=0):
    """Distinct rows: probabilities by column, labels in texts, groups, ids and something that travels along."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(4, 0.5), size=n)
    y = (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    others = {
        "y": np.array(NAMES)[y],
        "g": generator.choice(["north", "south"], n),
        "id": [f"row {k}" for k in range(n)],
        "when": pd.date_range("2026-01-01", periods=n, freq="s"),
    }
    return pd.DataFrame(p, columns=COLUMNS).assign(**others)


def matrix_of(frame):
    return frame[COLUMNS].to_numpy()


def as_lists(matrix):
    """Rows of probabilities as a column of lists of Arrow, as pandas holds it."""
    flat, width = pa.array(matrix.ravel()), matrix.shape[1]
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, matrix.size + 1, width), pa.int32()), flat)
    return pd.arrays.ArrowExtensionArray(pa.chunked_array([lists]))


def deadly(part, place, fatal):
    """Return a partition; the process that reads it for the times in ``fatal`` is killed while it does."""
    if place is not None:
        attempt = len(list(Path(place).iterdir()))
        (Path(place) / f"{attempt} {os.getpid()}").touch(exist_ok=False)
        if attempt in fatal:
            os.kill(os.getpid(), signal.SIGKILL)
    return part


def generated(number, n):
    """Return rows of their own for each number."""
    return frame_of(n, seed=number).drop(columns="when")


def other_rows(number, place):
    """Return other rows whenever it is called."""
    attempt = len(list(Path(place).iterdir()))
    (Path(place) / f"{number} {attempt}").touch()
    return frame_of(2000, seed=attempt)
