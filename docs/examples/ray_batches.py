"""Ray Data calibrates and predicts through batches: ``python docs/examples/ray_batches.py VALIDATION NEW SETS``.

The three are folders of parquet with columns p_... of probabilities, and y in the first. Blocks have no numbers in Ray,
so that copies of a row in several blocks share their chance: with copies, pass a column of ids.
"""

import sys
from functools import partial

import pyarrow as pa
import ray.data

from aptset.arrow import merge_states, set_maker, start_search


def state_of(table, search):
    """Return the state of a block: one row of bytes."""
    return pa.Table.from_batches(search(table))


def merged(table):
    """Return the state of several blocks."""
    return pa.Table.from_batches(merge_states(table))


def sets_of(table, make):
    """Return a block with its sets."""
    return pa.Table.from_batches(make(table), make.schema)


def calibrate(rows, **columns):
    """Find the thresholds; states are merged in eights before they come here."""
    search = start_search(rows.schema().base_schema, **columns)
    while not search.is_done:
        states = rows.map_batches(partial(state_of, search=search), batch_format="pyarrow", batch_size=None)
        states = states.map_batches(merged, batch_format="pyarrow", batch_size=8)
        search = search.advance(states.iter_batches(batch_format="pyarrow"))
    return search.calibration()


def predict(rows, calibration, **columns):
    """Return the rows with their sets, lazily."""
    make = set_maker(calibration, rows.schema().base_schema, **columns)
    return rows.map_batches(partial(sets_of, make=make), batch_format="pyarrow", batch_size=None)


def main(validation, new, sets):
    calibration = calibrate(ray.data.read_parquet(validation), labels="y", prefix="p_", random_state=0)
    print(f"{calibration}, threshold {calibration.threshold()}")
    predict(ray.data.read_parquet(new), calibration, prefix="p_").write_parquet(sets)


if __name__ == "__main__":
    main(*sys.argv[1:4])
