"""All results as one tidy table: a row for each cell, method and condition, with settings and versions in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from aptset.experiments.cells import FAMILY_OF
from aptset.running.runner import Done
from aptset.running.versions import versions
from aptset.running.writing import atomic_write

if TYPE_CHECKING:
    import pandas as pd

KEYS = ["data", "n_train", "n_test", "box", "method", "repetition", "condition"]


def as_frame(done: Iterable[Done], alpha: float, seed: int) -> pd.DataFrame:
    """Return the rows of finished cells at a level and a seed, with the seconds that each took and its versions."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for found in done:
        told = {"seconds": found.seconds, "versions": json.dumps(found.versions)}
        rows.extend({**row, **told} for row in found.rows if (row["alpha"], row["seed"]) == (alpha, seed))
    if not rows:
        return pd.DataFrame()
    frame = pd.DataFrame(rows).sort_values(KEYS, ignore_index=True)
    frame["versions"] = frame["versions"].astype("category")
    return frame


def write_results(path: Path, frame: pd.DataFrame, settings: dict[str, object]) -> None:
    """Write one parquet file; the settings of the run and the versions are in its metadata too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    told = {b"aptset": json.dumps({"settings": settings, "versions": versions()}).encode()}
    with atomic_write(path) as file:
        pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **told}), file)


def seconds_of(frame: pd.DataFrame) -> float:
    """Return how long the cells took in all, each counted once."""
    families = frame.assign(family=frame["method"].map(FAMILY_OF))
    cells = families.drop_duplicates(["data", "n_train", "n_test", "box", "family", "repetition"])
    return float(cells["seconds"].sum())
