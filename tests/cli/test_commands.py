"""Each command on real files; where the process itself is the point, in one of its own."""

import json
import os
import resource
import signal
import subprocess
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aptset
from shell import APTSET, NAMES, failure, run, write


def in_memory(folder, alpha=0.1):
    old, new = (pd.read_parquet(folder / f"{name}.parquet") for name in ("val", "new"))
    columns = [f"p_{name}" for name in NAMES]
    calibration = aptset.calibrate(old[columns].to_numpy(), old["y"], classes=NAMES, random_state=0)
    return calibration.predict_set(new[columns].to_numpy(), alpha)


KINDS = ["parquet", "csv", "csv.gz", "arrow"]


@pytest.mark.parametrize(("kind", "batch_rows"), [("parquet", 1), *((k, n) for k in KINDS for n in (97, 65536))])
def test_streamed_equals_in_memory(folder, kind, batch_rows):
    options = ["--prefix", "p_", "--batch-rows", batch_rows]
    run("calibrate", folder / f"val.{kind}", "--label", "y", "-o", folder / "cal.aptset", *options)
    run("predict", folder / f"new.{kind}", "-c", folder / "cal.aptset", "-o", folder / "sets.parquet", *options)
    found = pd.read_parquet(folder / "sets.parquet")
    expected = in_memory(folder)
    assert [list(row) for row in found["set"]] == [row.tolist() for row in expected]
    assert found["size"].tolist() == expected.sizes.tolist()
    truth = pd.read_parquet(folder / "new.parquet")
    assert found["id"].astype(int).tolist() == truth["id"].tolist(), "row ids travel along"
    assert found["note"].isna().tolist() == truth["note"].isna().tolist()
    assert found["note"].dropna().tolist() == truth["note"].dropna().tolist()


def test_from_standard_input_to_csv_and_back(folder):
    run("calibrate", folder / "val.csv", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    text = (folder / "new.csv").read_bytes().decode()
    done = run(
        "predict", "-", "-c", folder / "c.aptset", "-o", folder / "s.csv", "--prefix", "p_", "--json", input=text
    )
    summary = json.loads(done.stdout)
    assert summary["rows"] == 1200
    run("predict", folder / "new.csv", "-c", folder / "c.aptset", "-o", folder / "s.parquet", "--prefix", "p_")
    judged = [
        json.loads(run("evaluate", folder / name, "--label", "y", "--json").stdout) for name in ("s.csv", "s.parquet")
    ]
    assert judged[0] == judged[1]
    covered = in_memory(folder).covers(pd.read_parquet(folder / "new.parquet")["y"])
    assert judged[0]["estimates"][0]["value"] == pytest.approx(covered.mean())
    text = run("evaluate", folder / "s.parquet", "--label", "y", "--alpha", 0.1, "--groups", "note").stdout
    assert "lowest coverage by group" in text


def test_matrices_and_logits(folder):
    run("calibrate", folder / "val.npz", "--label", "y", "-o", folder / "a.aptset")
    run("predict", folder / "new.npz", "-c", folder / "a.aptset", "-o", folder / "a.parquet", "--label", "y")
    labels = folder / "val_labels.npy"
    run("calibrate", folder / "val_logits.npy", "--logits", "--label", labels, "-o", folder / "b.aptset")
    run("predict", folder / "new_logits.npy", "--logits", "-c", folder / "b.aptset", "-o", folder / "b.parquet")
    sizes = [pd.read_parquet(folder / f"{name}.parquet")["size"].mean() for name in "ab"]
    assert sizes[0] == pytest.approx(in_memory(folder).sizes.mean())
    assert sizes[1] == pytest.approx(sizes[0], abs=0.1)


def test_groups(folder):
    common = ["--prefix", "p_", "--groups", "note"]
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "g.aptset", *common)
    assert json.loads(run("inspect", folder / "g.aptset", "--json").stdout)["groups"]["kind"] == "row"
    run("predict", folder / "new.parquet", "-c", folder / "g.aptset", "-o", folder / "g.parquet", *common)
    failure("predict", folder / "new.parquet", "-c", folder / "g.aptset", "-o", folder / "h.parquet", "--prefix", "p_")
    assert not (folder / "h.parquet").exists()
    run(
        "calibrate",
        folder / "val.parquet",
        "--label",
        "y",
        "-o",
        folder / "l.aptset",
        "--prefix",
        "p_",
        "--groups",
        "label",
    )
    facts = json.loads(run("inspect", folder / "l.aptset", "--json").stdout)
    assert facts["groups"]["sizes"].keys() == set(NAMES)
    assert "in every group" in facts["promise"]


def test_inspect_and_plan(folder):
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_", "--quiet")
    text = run("inspect", folder / "c.aptset").stdout
    for words in ("adaptive", "800", "coverage >= 1 - alpha", "created", "scores hash"):
        assert words in text
    assert json.loads(run("plan", "--within", 0.05, "--json").stdout)["n"] == int(aptset.calibration_size(0.1, 0.05))
    assert "calibration rows keep the coverage" in run("plan").stdout
    assert "_APTSET_COMPLETE" in run("completion", "bash").stdout


def test_bad_files_get_one_line(folder):
    def calibrate(path, *more):
        return failure("calibrate", path, "--label", "y", "-o", folder / "x.aptset", "--prefix", "p_", *more)

    header = "p_a,p_b,y\n"
    assert "bad.csv, row 1 cannot be read" in calibrate(write(folder, header + "0.5,0.5,a\n0.4,abc,b\n"))
    assert "bad.csv, row 1 cannot be read" in calibrate(write(folder, header + "0.5,0.5,a\n0.4,0.6\n"))
    assert "row 1 sums to 0.8. Pass --normalize" in calibrate(write(folder, header + "0.5,0.5,a\n0.4,0.4,b\n"))
    assert "got nan in row 1, column 1" in calibrate(write(folder, header + "0.5,0.5,a\n0.4,,b\n"))
    assert "row 0, column 'y': the label is 'z'" in calibrate(write(folder, header + "0.5,0.5,z\n"))
    assert "the label is missing" in calibrate(write(folder, header + "0.5,0.5,\n"))
    assert "header only" in calibrate(write(folder, header))
    assert "cannot be read" in calibrate(write(folder, ""))
    assert "must have a column 'y'" in calibrate(write(folder, "p_a,p_b\n0.5,0.5\n"))
    assert "at least 2 columns that start with 'p_'" in calibrate(write(folder, "a,b,y\n0.5,0.5,a\n"))
    assert "there is none of that name" in calibrate(folder / "none.csv")
    (folder / "bad.txt").write_text("x")
    assert "must end in one of" in calibrate(folder / "bad.txt")
    (folder / "bad.parquet").write_bytes(b"PAR1 nonsense")
    assert "bad.parquet" in calibrate(folder / "bad.parquet")
    (folder / "bad.npz").write_bytes(b"PK nonsense")
    assert "bad.npz" in failure("calibrate", folder / "bad.npz", "--label", "y", "-o", folder / "x.aptset")
    assert "conformity must be one of" in calibrate(folder / "val.csv", "--conformity", "apps")
    assert not (folder / "x.aptset").exists()
    run(
        "calibrate",
        write(folder, header + "2,2,a\n1,3,b\n"),
        "--label",
        "y",
        "-o",
        folder / "x.aptset",
        "--prefix",
        "p_",
        "--normalize",
    )


def test_bad_predictions_and_usage(folder):
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    other = write(folder, "p_a,p_b,p_c\n0.2,0.3,0.5\n")
    out = ["-c", folder / "c.aptset", "-o", folder / "s.parquet", "--prefix", "p_"]
    assert "missing ['cat'" in failure("predict", other, *out)
    assert "alpha must be in (0, 1)" in failure("predict", folder / "new.csv", *out, "--alpha", 1.5)
    (folder / "broken.aptset").write_bytes((folder / "c.aptset").read_bytes()[:-9])
    assert "no intact aptset artefact" in failure("inspect", folder / "broken.aptset")
    assert "must have a column 'z'" in failure("run", folder / "val.csv", "--target", "z")
    assert "bad.csv" in failure("run", write(folder, ""), "--target", "y")
    assert not (folder / "s.parquet").exists()
    assert not list(folder.glob(".*tmp")), "nothing is left behind"
    for arguments in (["calibrate"], ["predict", "x"], ["nonsense"], ["run", "x.csv"], ["plan", "--alpha", "x"]):
        assert run(*arguments, rc=2).stderr.startswith("Usage:")
    done = subprocess.run(
        [APTSET, "--debug", "inspect", folder / "broken.aptset"], capture_output=True, text=True, check=False
    )
    assert "Traceback" in done.stderr


@contextmanager
def largest_file(n_bytes):
    """Let no file grow larger; Python itself ignores the signal that comes with it."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def test_a_disk_that_fills_up(folder):
    """A limit on the size of files stands in for a full disk: one line, the old file stays, nothing is left behind."""
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    before, listing = (folder / "c.aptset").read_bytes(), sorted(folder.iterdir())

    out = ["--prefix", "p_", "-o"]
    calibrate = ["calibrate", folder / "new.parquet", "--label", "y", *out, folder / "c.aptset"]
    predict = ["predict", folder / "new.parquet", "-c", folder / "c.aptset", *out, folder / "s.parquet"]
    for arguments in (calibrate, predict):
        with largest_file(2000):
            failure(*arguments)
    assert (folder / "c.aptset").read_bytes() == before
    assert sorted(folder.iterdir()) == listing


def test_folders_that_cannot_be_written(folder):
    for out in ("/proc/nothing/c.aptset", folder / "val.csv" / "c.aptset", folder / "no" / "such" / "c.aptset"):
        assert "c.aptset" in failure("calibrate", folder / "val.csv", "--label", "y", "-o", out, "--prefix", "p_")


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Peak memory on 16 times as many rows: some 24 MiB more for the scores, and no copy of the file (64 MiB)."""
    generator = np.random.default_rng(0)
    peaks = []
    for n in (50_000, 800_000):
        p = generator.dirichlet(np.ones(10), size=50_000).astype(np.float32)
        schema, path = None, tmp_path / f"{n}.parquet"
        for _ in range(n // 50_000):
            part = pa.table(
                {**{f"p_{k}": p[:, k] for k in range(10)}, "y": generator.integers(10, size=50_000).astype(str)}
            )
            schema = schema or pq.ParquetWriter(path, part.schema)
            schema.write_table(part)
        schema.close()
        out = tmp_path / "c.aptset"
        for arguments in (
            ["calibrate", path, "--label", "y", "-o", out],
            ["predict", path, "-c", out, "-o", tmp_path / "s.parquet"],
        ):
            process = subprocess.Popen([APTSET, *map(str, arguments), "--prefix", "p_", "--quiet"])
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
            assert status == 0
            peaks.append(usage.ru_maxrss / 1024)
    assert peaks[2] - peaks[0] < 60
    assert peaks[3] - peaks[1] < 60


def test_a_score_of_ones_own(folder):
    (folder / "mine.py").write_text("def score(places):\n    return places.rank - places.u\n")
    options = ["--prefix", "p_"]
    start = ["calibrate", "val.csv", "--label", "y", "-o", "own.aptset", *options]
    run(*start, "--conformity", "mine:score", cwd=folder)
    run("calibrate", "val.csv", "--label", "y", "-o", "rank.aptset", "--conformity", "topk", *options, cwd=folder)
    ask = ["predict", "new.csv", "-c", "own.aptset", "-o", "own.parquet", *options]
    assert "does not import code that a file names" in failure(*ask, cwd=folder)
    run(*ask, "--trust", "mine", cwd=folder)
    run("predict", "new.csv", "-c", "rank.aptset", "-o", "rank.parquet", *options, cwd=folder)
    own, rank = (pd.read_parquet(folder / f"{name}.parquet")["set"] for name in ("own", "rank"))
    assert [list(row) for row in own] == [list(row) for row in rank]
    assert "mine:score" in run("inspect", "own.aptset", cwd=folder).stdout
    assert "does not define" in failure(*start, "--conformity", "mine:other", cwd=folder)
    assert "cannot be imported" in failure(*start, "--conformity", "nowhere:score", cwd=folder)


def test_a_score_that_is_chosen(folder):
    run("calibrate", folder / "val.csv", "--label", "y", "-o", folder / "c", "--prefix", "p_", "--conformity", "auto")
    old = pd.read_parquet(folder / "val.parquet")
    matrix = old[[f"p_{name}" for name in NAMES]].to_numpy()
    expected = aptset.calibrate(matrix, old["y"], classes=NAMES, conformity="auto", random_state=0)
    found = aptset.load(folder / "c")
    assert found.conformity == expected.conformity
    np.testing.assert_array_equal(found.scores, expected.scores)
