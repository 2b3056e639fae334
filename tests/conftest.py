import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import settings

from aptset.kernels import engines
from shell import NAMES, table

# Fixed examples: a red run can be repeated, and a green suite stays green.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=150)
settings.load_profile("fixed")

LEVELS = ("baseline", "v3")  # loops for lesser machines than this one


@pytest.fixture(params=["compiled", *LEVELS, *sorted(engines.ENGINES.keys() - {"compiled"})])
def path(request, monkeypatch):
    """Run a test once on every engine of the kernels, and on the compiled loops for lesser machines."""
    assert "compiled" in engines.ENGINES, "the extension was not built: is there a C compiler?"
    is_level = request.param in LEVELS
    engine = engines.ENGINES["compiled" if is_level else request.param]
    monkeypatch.setattr(engines, "chosen", engine)
    if not is_level:
        yield request.param
        return
    try:
        engine.loops.use_level(request.param)
    except ValueError as error:
        pytest.skip(str(error))
    yield request.param
    engine.loops.use_level("")


@pytest.fixture
def folder(tmp_path):
    """Hold files of probabilities of every kind: val to calibrate on, new to predict."""
    for name, n, seed in (("val", 800, 0), ("new", 1200, 1)):
        frame = table(n, seed)
        frame.to_parquet(tmp_path / f"{name}.parquet", row_group_size=150)
        frame.to_csv(tmp_path / f"{name}.csv", index=False, lineterminator="\r\n")
        frame.to_csv(tmp_path / f"{name}.csv.gz", index=False)
        with pa.ipc.new_file(str(tmp_path / f"{name}.arrow"), pa.Schema.from_pandas(frame)) as writer:
            writer.write_table(pa.Table.from_pandas(frame), max_chunksize=100)
        matrix = frame.iloc[:, :3].to_numpy()
        np.savez(tmp_path / f"{name}.npz", probabilities=matrix, y=[NAMES.index(label) for label in frame["y"]])
        np.save(tmp_path / f"{name}_logits.npy", np.log(matrix + 1e-12).astype(np.float32))
        np.save(tmp_path / f"{name}_labels.npy", [NAMES.index(label) for label in frame["y"]])
    return tmp_path
