"""Tables in one file and in parts of several kinds, and what commands make of them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc

import aptset
from shell import run

COMMON = ("--prefix", "p_")
LABEL = ("--label", "y", *COMMON)


def write(frame, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if ".csv" in path.name:
        frame.to_csv(path, index=False)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), pa.Schema.from_pandas(frame, preserve_index=False)) as writer:
            writer.write_table(pa.Table.from_pandas(frame, preserve_index=False))
    else:
        frame.to_parquet(path, index=False)


def cut(frame, folder, names):
    """Write consecutive rows of a table to files of these names."""
    bounds = np.linspace(0, len(frame), len(names) + 1).astype(int)
    for name, start, stop in zip(names, bounds, bounds[1:], strict=False):
        write(frame.iloc[start:stop], folder / name)


NAMES = ["region=north/part-0.parquet", "region=north/part-1.csv.gz", "region=south/deep/part-0.arrow"]


def scores(*arguments, out, **options):
    run("calibrate", *arguments, "--label", "y", *COMMON, "-o", out, **options)
    return aptset.load(out)


def read_sets(path):
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, keep_default_na=False)
    frame["set"] = [frozenset(one.split("|") if isinstance(one, str) else one) - {""} for one in frame["set"]]
    return frame
