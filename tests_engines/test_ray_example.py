"""The example of Ray in docs/examples, run as a user would; Ray is large, and no extra: pip install 'ray[data]'."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask_data import frame_of

import aptset

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "ray_batches.py"


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'ray[data]'")
def test_blocks_of_ray_give_the_sets_of_one_process(tmp_path):
    table = pa.Table.from_pandas(frame_of(6000, 0), preserve_index=False)
    (tmp_path / "rows").mkdir()
    for number in range(4):
        pq.write_table(table.slice(1500 * number, 1500), tmp_path / "rows" / f"{number}.parquet")
    command = [sys.executable, str(EXAMPLE), *(str(tmp_path / name) for name in ("rows", "rows", "sets"))]
    subprocess.run(command, check=True, timeout=900)
    whole = aptset.calibrate_batches(table, labels="y", prefix="p_", random_state=0)
    expected = aptset.predict_batches(table, whole, prefix="p_").read_all().sort_by("id")
    made = pq.read_table(tmp_path / "sets").sort_by("id")
    assert made["set"].to_pylist() == expected["set"].to_pylist()
    assert made.column_names == expected.column_names
