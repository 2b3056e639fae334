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
