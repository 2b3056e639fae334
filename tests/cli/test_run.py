"""`aptset run` on a table."""

import json

import numpy as np
import pandas as pd
import pytest

import aptset
from shell import failure, run, write


@pytest.mark.parametrize(
    ("model", "calibration", "groups"),
    [
        ("logistic", "split", None),
        ("bayes", "cv+", "kind"),
        ("tree", "minimax", "label"),
        ("sklearn.dummy:DummyClassifier", "split", None),
    ],
)
def test_run_on_a_table(tmp_path, model, calibration, groups):
    generator = np.random.default_rng(0)
    n = 60
    x = generator.normal(size=n)
    frame = pd.DataFrame(
        {"x": np.where(generator.random(n) < 0.1, np.nan, x), "kind": generator.choice(["u", "v", None], size=n)}
    )
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(3, size=n), unit="D")
    frame["flag"] = generator.random(n) < 0.5
    frame["none"] = np.nan
    frame["target"] = np.where(x + generator.normal(size=n) > 0, "ja", "nein ☃")
    path, out = tmp_path / "t.csv", tmp_path / "out"
    frame.to_csv(path, index=False)
    options = ["--model", model, "--calibration", calibration, "--out", out, "--alpha", 0.2]
    done = run("run", path, "--target", "target", *options, *(["--groups", groups] if groups else []))
    for words in ("Promised: coverage of at least", "Measured: coverage ", "sets.parquet"):
        assert words in done.stdout
    sets = pd.read_parquet(out / "sets.parquet")
    judged = json.loads((out / "evaluation.json").read_text())
    assert len(sets) == judged["n"] == 18
    covered = [label in row for label, row in zip(sets["target"], sets["set"], strict=True)]
    assert judged["estimates"][0]["value"] == pytest.approx(np.mean(covered))
    assert aptset.load(out).classes_.tolist() == ["ja", "nein ☃"]


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_trained(tmp_path):
    table, taken = write(tmp_path, "x,y\n" + "1,a\n2,b\n" * 20), tmp_path / "taken"
    taken.write_text("mine")
    for arguments in (["--out", taken], [table, "--target", "y", "--out", taken / "folder"]):
        assert "must be a folder;" in failure("run", *arguments)
    assert taken.read_text() == "mine"


def test_run_says_what_is_wrong(tmp_path):
    path = write(tmp_path, "a,b,y\n1,2,u\n2,3,v\n3,4,\n" + "1,1,u\n" * 30)
    assert "row 2, column 'y': the label is missing" in failure("run", path, "--target", "y", cwd=tmp_path)
    path = write(tmp_path, "a,b,y\n" + "1,2,u\n2,3,v\n" * 20)
    assert "--model must be one of" in failure("run", path, "--target", "y", "--model", "magic", cwd=tmp_path)
    assert "no.such:thing cannot: No module named 'no'" in failure(
        "run", path, "--target", "y", "--model", "no.such:thing", cwd=tmp_path
    )
    assert "must have a column 'c'" in failure("run", path, "--target", "y", "--groups", "c", cwd=tmp_path)
    assert not (tmp_path / "aptset-run").exists()
