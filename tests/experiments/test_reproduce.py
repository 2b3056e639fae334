"""`aptset reproduce`, from its command to its files."""

import os
import signal
import subprocess
import time

import pandas as pd
import pyarrow.parquet as pq
import pytest

from aptset.experiments.designs import DESIGNS, JACKKNIFE_LIMIT, Selection, cells_of
from shell import APTSET, failure, run

FEW = ("--repetitions", "2", "--boxes", "Oracle", "--methods", "SC,HCC,CV+,JK+", "--jobs", "1")


def times(folder):
    return {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.json")}


def test_a_figure_from_start_to_end(tmp_path):
    done = run("reproduce", "fig1", *FEW, "--out", tmp_path)
    names = ["results.parquet", "fig1.md", "fig1.csv", "fig1.png", "fig1.svg", "claims.md"]
    assert done.stdout == f"Written to {tmp_path}: {', '.join(names)}\n"
    assert done.stderr == ""
    frame = pd.read_parquet(tmp_path / "results.parquet")
    assert set(frame["method"]) == {"SC", "HCC", "CV+", "JK+", "oracle"}
    assert set(frame["condition"]) == {"all", "X1=-8", "X1=1"}
    assert b'"repetitions": 2' in pq.read_schema(tmp_path / "results.parquet").metadata[b"aptset"]
    assert '"scikit-learn"' in frame["versions"].iloc[0]
    assert "model1, n=1000, Oracle: coverage of JK+" in (tmp_path / "claims.md").read_text()
    before, picture = times(tmp_path), (tmp_path / "fig1.svg").read_bytes()
    run("reproduce", "fig1", *FEW, "--out", tmp_path)
    assert times(tmp_path) == before, "a restart redoes nothing"
    assert (tmp_path / "fig1.svg").read_bytes() == picture
    run("reproduce", "fig1", "figS4", "--draw-only", "--repetitions", "5", "--out", tmp_path)
    assert times(tmp_path) == before, "drawing computes nothing"
    assert not (tmp_path / "figS4.png").exists()


def test_a_run_that_is_killed_goes_on(tmp_path):
    command = ["reproduce", "figS4", *FEW[:1], "6", *FEW[2:-1], "2", "--out", str(tmp_path)]
    first = subprocess.Popen([APTSET, *command], start_new_session=True)
    while len(times(tmp_path)) < 4:
        assert first.poll() is None
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = times(tmp_path)
    assert not (tmp_path / "claims.md").exists()
    run(*command)
    assert len(times(tmp_path)) == 18 > len(before)
    assert before.items() <= times(tmp_path).items()


def test_a_damaged_result_is_named(tmp_path):
    few = ("--repetitions", "2", "--boxes", "Oracle", "--methods", "SC", "--jobs", "1", "--out", tmp_path)
    run("reproduce", "fig1", *few)
    path = sorted(times(tmp_path))[0]
    path.write_bytes(path.read_bytes()[:50])
    done = run("reproduce", "fig1", *few)
    assert done.stderr == f"Warning: {path} is damaged and is computed again; every other result is kept.\n"


def test_bad_input_is_one_line(tmp_path):
    out = ("--out", tmp_path / "out")
    assert "experiments must be among fig1, fig2, fig3, figS1" in failure("reproduce", "fig9", *out)
    assert "boxes must be among Oracle, NNet, SVC, RFC; got 'SVM'" in failure(
        "reproduce", "fig1", "--boxes", "SVM", *out
    )
    assert "methods must be among SC, HCC" in failure("reproduce", "fig1", "--methods", "APS", *out)
    assert "sizes must be positive whole numbers; got 'x'" in failure("reproduce", "fig1", "--sizes", "x", *out)
    assert "nothing is left with boxes=('NNet',)" in failure("reproduce", "fig1", "--boxes", "NNet", *out)
    assert "repetitions must be a positive" in failure("reproduce", "fig1", "--repetitions", "0", *out)
    assert "-1 is not in the range" in run("reproduce", "fig1", "--seed", "-1", *out, rc=2).stderr
    assert "alpha must be in (0, 1)" in failure("reproduce", "fig1", "--alpha", "2", *out)
    assert not (tmp_path / "out").exists(), "nothing was written"
    (tmp_path / "file").touch()
    assert "must be a folder that can be written" in failure("reproduce", "fig1", "--out", tmp_path / "file")
    assert "must hold finished results to draw" in failure("reproduce", "fig1", "--draw-only", *out)
    assert not (tmp_path / "out").exists()


def test_data_that_cannot_be_had_are_missed_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("APTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    fast = ("--methods", "SC", "--repetitions", "1", "--data", tmp_path, "--out", tmp_path / "out")
    told = failure("reproduce", "fig2", *fast)
    assert "data set 'mice' must come from a local folder, the cache or OpenML" in told
    assert not list((tmp_path / "out" / "cells").iterdir())


def test_a_missing_package_is_named_before_anything_runs(tmp_path, monkeypatch):
    from aptset.experiments import baselines as checks
    from aptset.experiments.reproduce import reproduce

    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "torch" else object())
    told = r"CQC needs torch: pip install 'aptset\[network\]' .in a clone[^,]*, or leave it out: --methods SC,.*,CQC-RF"
    with pytest.raises(ImportError, match=told):
        reproduce(["fig1"], Selection(1), tmp_path)


ON_MODELS, ON_DATA = {"SC", "CV+", "JK+", "CQC", "HCC", "oracle"}, {"SC", "CV+", "JK+", "CQC", "CQC-RF", "HCC"}
SIMULATED, REAL, SIZES = {"Oracle", "SVC", "RFC"}, {"NNet", "SVC", "RFC"}, (500, 1000, 5000, 10_000)


@pytest.mark.parametrize(
    ("name", "data", "sizes", "boxes", "methods", "conditions"),
    [
        ("fig1", "model1", (1000,), SIMULATED, ON_MODELS, ()),
        ("fig2", "mice", (500,), REAL, ON_DATA, ()),
        ("fig3", "mnist", (10_000,), REAL, ON_DATA, ()),
        ("figS1", "model1", (10_000,), SIMULATED, ON_MODELS, ("X1=-8", "X1=1")),
        ("figS3", "model2", (10_000,), SIMULATED, ON_MODELS, ("X1=-1", "X1=1")),
        ("figS4", "model2", (1000,), SIMULATED, ON_MODELS, ("X1=-1", "X1=1")),
        ("tableS1", "mice", (500, 1000), REAL, ON_DATA, ()),
        ("tableS2", "mnist", SIZES, REAL, ON_DATA, ()),
        ("tableS3", "fashion", SIZES, REAL, ON_DATA, ()),
        ("tableS4", "cifar10", SIZES, REAL, ON_DATA, ()),
    ],
)
def test_designs_are_the_papers(name, data, sizes, boxes, methods, conditions):
    design = DESIGNS[name]
    assert (design.data, design.n_train, design.conditions) == (data, sizes, conditions)
    assert (set(design.boxes), set(design.methods)) == (boxes, methods)
    assert design.is_table == name.startswith("table")
    assert design.by_label_of == ("NNet" if name == "fig3" else None)


def test_cells_behind_the_designs():
    assert len(DESIGNS) == 10
    cells = cells_of(DESIGNS.values(), Selection(3), 0.1, 0, None)
    combinations = {(c.data, c.n_train, c.n_test, c.box, c.family) for c in cells}
    assert len(cells) == 3 * len(combinations), "designs share cells"
    jackknife = {c for c in combinations if c[4] == "JK+"}
    assert max(c[1] for c in jackknife) == JACKKNIFE_LIMIT
    assert {c[3] for c in jackknife if c[0] in ("model1", "model2")} == {"Oracle", "SVC"}
    assert {c[1:3] for c in combinations if c[0] == "mice"} == {(500, 580), (1000, 80)}
    assert {c[2] for c in combinations if c[0] != "mice"} == {5000}


def test_a_second_command_adds_to_the_first(tmp_path):
    few = ("--repetitions", "2", "--boxes", "Oracle", "--jobs", "1", "--out", tmp_path)
    run("reproduce", "fig1", "--methods", "SC,CV+", *few)
    run("reproduce", "figS4", "--methods", "SC", *few)
    frame = pd.read_parquet(tmp_path / "results.parquet")
    assert set(frame["data"]) == {"model1", "model2"}
    page = (tmp_path / "claims.md").read_text()
    assert "model1, n=1000, Oracle: coverage of CV+" in page
    assert "model2, n=1000, Oracle: coverage of SC" in page
    done = run("reproduce", "fig1", "fig2", "--draw-only", *few)
    assert done.stderr == "Warning: no finished result belongs to fig2: nothing is drawn.\n"
