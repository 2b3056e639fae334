import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import settings

from aptset.kernels import engines
from shell import NAMES, table

# Fixed examples: a red run can be repeated, and a green suite stays green. Which lines run is known after a few.
EXAMPLES = int(os.environ.get("APTSET_EXAMPLES", "150"))
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=EXAMPLES)
settings.load_profile("fixed")

LESSER = ("baseline", "v3")  # loops for lesser machines than this one


@pytest.fixture(params=["compiled", *LESSER, *sorted(engines.ENGINES.keys() - {"compiled"})])
def path(request, monkeypatch):
    """Run a test once on every engine of the kernels, and on the compiled loops for lesser machines."""
    assert "compiled" in engines.ENGINES, "the extension was not built: is there a C compiler?"
    is_lesser = request.param in LESSER
    engine = engines.ENGINES["compiled" if is_lesser else request.param]
    monkeypatch.setattr(engines, "chosen", engine)
    if not is_lesser:
        yield request.param
        return
    try:
        engine.loops.use_level(request.param)
    except ValueError as error:
        pytest.skip(str(error))
    yield request.param
    engine.loops.use_level("")


# Limits of the library's loops and pages, each by one name: the only place that knows where they stand.
LIMITS = {
    "block_cells": "aptset.kernels.blocks.BLOCK_CELLS",
    "chunk_cells": "aptset.conformal.aggregation.CHUNK_CELLS",
    "coarse_bins": "aptset.metrics.worst_slice._COARSE",
    "corrected_cells": "aptset.calibration.weights._CORRECTED_CELLS",
    "few_cells": "aptset.kernels.engines.compiled_engine._FEW_CELLS",
    "grid_cells": "aptset.arrow.states._MOST_CELLS",
    "kept_from": "aptset.experiments.datasets._KEPT_FROM",
    "many_members": "aptset.kernels.engines.compiled_engine._MANY",
    "marks": "aptset.cli.evaluation_jobs._MOST_MARKS",
    "measured_cells": "aptset.reports.measures._CELLS_AT_ONCE",
    "neighbour_cells": "aptset.estimator.leave_one_out._CELLS",
    "page_bytes": "aptset.reports.measures.MOST_BYTES",
    "page_cells": "aptset.reports.measures.MOST_CELLS",
    "ratio_cells": "aptset.calibration.weights._BLOCK_CELLS",
    "read_in_place": "aptset.kernels.blocks.READ_IN_PLACE",
    "rolled_up_cells": "aptset.sets.rolled_up._CELLS_AT_ONCE",
    "row_group": "aptset.arrow.formats.parquet._LONG_GROUP",
    "softmax_cells": "aptset.kernels.rows._BLOCK_CELLS",
    "temporary_names": "aptset.core.files._MOST_NAMES",
    "text_block": "aptset.arrow.formats.delimited._BLOCK",
    "waiting_counts": "aptset.metrics.evaluate._LONG",
    "waiting_keys": "aptset.arrow.states._MOST_WAITING",
    "weighted_cells": "aptset.conformal.importance._FEW_CELLS",
}


@pytest.fixture
def limits(monkeypatch):
    """Give a function that sets limits for one test, so that few rows make many blocks: ``limits(block_cells=60)``."""

    def set_limits(**values):
        for name, value in values.items():
            monkeypatch.setattr(LIMITS[name], value)

    return set_limits


# What keeps Debian's chromium quiet and working as root, without a display.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser():
    """Start Debian's chromium once: a process has one loop of events, whoever opens pages."""
    found = next((shutil.which(name) for name in ("chromium", "chromium-browser") if shutil.which(name)), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is missing: the report cannot be tested. Install it: apt-get install chromium")
        pytest.skip("chromium is missing, so the page is not opened: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Write files of probabilities of every kind, once: val to calibrate on, new to predict."""
    folder = tmp_path_factory.mktemp("files")
    for name, n, seed in (("val", 800, 0), ("new", 1200, 1)):
        frame = table(n, seed)
        frame.to_parquet(folder / f"{name}.parquet", row_group_size=150)
        frame.to_csv(folder / f"{name}.csv", index=False, lineterminator="\r\n")
        frame.to_csv(folder / f"{name}.csv.gz", index=False)
        with pa.ipc.new_file(str(folder / f"{name}.arrow"), pa.Schema.from_pandas(frame)) as writer:
            writer.write_table(pa.Table.from_pandas(frame), max_chunksize=100)
        matrix = frame.iloc[:, :3].to_numpy()
        np.savez(folder / f"{name}.npz", probabilities=matrix, y=[NAMES.index(label) for label in frame["y"]])
        np.save(folder / f"{name}_logits.npy", np.log(matrix + 1e-12).astype(np.float32))
        np.save(folder / f"{name}_labels.npy", [NAMES.index(label) for label in frame["y"]])
    return folder


@pytest.fixture
def folder(files, tmp_path):
    """Hold a copy of these files, for a test to write beside."""
    return shutil.copytree(files, tmp_path, dirs_exist_ok=True)
