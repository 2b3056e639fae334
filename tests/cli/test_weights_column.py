"""A column of weights: calibrate, predict, report and inspect with it."""

import json

import numpy as np
import pandas as pd
import pytest

import aptset
from shell import NAMES, failure, run

COLUMNS = [f"p_{name}" for name in NAMES]


@pytest.fixture
def weighted(folder):
    """Give the files a column of weights; of the first batch of val, and of a row of new, there is none."""
    for name, seed in (("val", 0), ("new", 1)):
        frame = pd.read_parquet(folder / f"{name}.parquet")
        weights = np.random.default_rng(seed).exponential(size=len(frame)).round(3)
        weights[: 100 if name == "val" else 1] = 0
        frame["weight"] = weights
        frame.to_parquet(folder / f"{name}.parquet")
        frame.to_csv(folder / f"{name}.csv", index=False)
        matrix, labels = frame[COLUMNS].to_numpy(), [NAMES.index(label) for label in frame["y"]]
        np.savez(folder / f"{name}.npz", probabilities=matrix, y=labels, weight=weights)
    return folder


def in_memory(folder, classes=NAMES):
    old, new = (pd.read_parquet(folder / f"{name}.parquet") for name in ("val", "new"))
    calibration = aptset.calibrate(
        old[COLUMNS].to_numpy(), old["y"], classes=classes, weights=old["weight"], random_state=0
    )
    return calibration, calibration.predict_set(new[COLUMNS].to_numpy(), 0.1, weights=new["weight"])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_equal_memory(weighted, kind):
    options = ["--prefix", "p_", "--weights", "weight", "--batch-rows", 97]
    done = run("calibrate", weighted / f"val.{kind}", "--label", "y", "-o", weighted / "c.aptset", *options, "--json")
    expected, sets = in_memory(weighted)
    assert json.loads(done.stdout)["effective_size"] == pytest.approx(expected.effective_size)
    run("predict", weighted / f"new.{kind}", "-c", weighted / "c.aptset", "-o", weighted / "s.parquet", *options)
    found = pd.read_parquet(weighted / "s.parquet")
    assert [list(row) for row in found["set"]] == [row.tolist() for row in sets]
    assert "weight" in found.columns, "it travels along"


def test_an_array_of_weights_and_a_folder_of_parts(weighted):
    options = ["--weights", "weight"]
    told = run("calibrate", weighted / "val.npz", "--label", "y", "-o", weighted / "c.aptset", *options).stdout
    size = in_memory(weighted)[0].effective_size
    assert f"Calibrated on 800 rows ({size:.4g} effective), 3 classes" in told
    run("predict", weighted / "new.npz", "-c", weighted / "c.aptset", "-o", f"{weighted / 'sets'}/", *options)
    found = pd.read_parquet(next((weighted / "sets").glob("*.parquet")))
    assert found["size"].tolist() == in_memory(weighted)[1].sizes.tolist()


def test_what_is_said_of_weights(weighted):
    options = ["--prefix", "p_", "--weights", "weight"]
    run("calibrate", weighted / "val.csv", "--label", "y", "-o", weighted / "c.aptset", *options)
    facts = json.loads(run("inspect", weighted / "c.aptset", "--json").stdout)
    assert facts["weights"] == "of rows"
    assert facts["effective_size"] == pytest.approx(in_memory(weighted)[0].effective_size)
    assert facts["promise"] == "coverage >= 1 - alpha, if the weights are right"
    assert "effective size" in run("inspect", weighted / "c.aptset").stdout
    run("calibrate", weighted / "val.csv", "--label", "y", "-o", weighted / "l.aptset", *options, "--groups", "label")
    told = run("inspect", weighted / "l.aptset").stdout
    assert "coverage >= 1 - alpha in every group, if the weights are right" in told
    page = weighted / "page.html"
    run("report", weighted / "new.csv", "--label", "y", "-c", weighted / "c.aptset", "-o", page, *options)
    assert "Effective size" in page.read_text()
    auto = run(
        "calibrate", weighted / "val.csv", "--label", "y", "-o", weighted / "a.aptset", *options, "--conformity", "auto"
    )
    assert "effective" in auto.stdout


def test_one_line_about_what_is_wrong(weighted):
    calibrate = ["calibrate", weighted / "val.csv", "--label", "y", "-o", weighted / "c.aptset", "--prefix", "p_"]
    assert "must have a column 'wait'; it has" in failure(*calibrate, "--weights", "wait")
    assert "row 0, column 'y': the weight is" in failure(*calibrate, "--weights", "y")
    run(*calibrate, "--weights", "weight")
    predict = ["predict", weighted / "new.csv", "-c", weighted / "c.aptset", "-o", weighted / "s.csv", "--prefix", "p_"]
    assert "must be read with --weights COLUMN, since calibration rows had weights" in failure(*predict)
    without_prefix = predict[: predict.index("--prefix")]
    assert "must be read with --weights COLUMN" in failure(*without_prefix), "and not that the column is no label"
    report = ["report", weighted / "new.csv", "--label", "y", "-c", weighted / "c.aptset", "--prefix", "p_"]
    assert "must be read with --weights COLUMN" in failure(*report, "-o", weighted / "page.html")
    assert not (weighted / "s.csv").exists()
    run(*calibrate)
    assert "must be read without --weights, since no calibration rows" in failure(*predict, "--weights", "weight")
    frame = pd.read_csv(weighted / "val.csv")
    frame["weight"] = 0.0
    frame.to_csv(weighted / "val.csv", index=False)
    assert "weights must not be 0 for every calibration row" in failure(*calibrate, "--weights", "weight")
    frame["weight"] = -1.0
    frame.to_csv(weighted / "val.csv", index=False)
    assert "weights must be finite and at least 0; got -1.0 in row 0" in failure(*calibrate, "--weights", "weight")


def test_a_bad_weight_is_found_in_its_row_whatever_the_batch(weighted):
    calibrate = ["calibrate", weighted / "val.csv", "--label", "y", "-o", weighted / "c.aptset"]
    predict = ["predict", weighted / "new.csv", "-c", weighted / "c.aptset", "-o", weighted / "s.csv"]
    options = ["--prefix", "p_", "--weights", "weight", "--batch-rows", 97]
    run(*calibrate, *options)
    for command, name in ((calibrate, "val"), (predict, "new")):
        frame = pd.read_csv(weighted / f"{name}.csv")
        frame.loc[150, "weight"] = np.nan
        frame.to_csv(weighted / f"{name}.csv", index=False)
        assert f"Error: {weighted / name}.csv, row 150, column 'weight': the weight is missing." in failure(
            *command, *options
        )
