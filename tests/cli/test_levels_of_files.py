"""Levels, assurance, cells and confidence on the command line: the files hold what Python gives."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import aptset
from aptset.cli.main import main

generator = np.random.default_rng(0)
LABELS = ["benign", "malignant", "other"]
LEVELS = {"benign": 0.1, "malignant": 0.05, "other": 0.3}
OPTIONS = [part for name, level in LEVELS.items() for part in ("--alpha", f"{name}={level}")]
P = generator.dirichlet([1, 1, 1], size=900)
TABLE = pd.DataFrame(P, columns=[f"p_{label}" for label in LABELS])
TABLE["y"] = np.array(LABELS)[(P.cumsum(axis=1) < generator.random((900, 1))).sum(axis=1)]
TABLE["region"] = generator.choice(["north", "south"], size=900)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE[:600].to_parquet("old.parquet")
    TABLE[600:].reset_index(drop=True).to_parquet("new.parquet")
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def calibrated(groups=()):
    run("calibrate", "old.parquet", "--label", "y", "--prefix", "p_", "-o", "cal.aptset", *groups, "--quiet")
    return aptset.load("cal.aptset")


def predicted(*options):
    run("predict", "new.parquet", "-c", "cal.aptset", "-o", "sets.parquet", "--prefix", "p_", "--quiet", *options)
    return pd.read_parquet("sets.parquet")


NEW, REGIONS = P[600:], TABLE["region"].tolist()[600:]


def test_levels_of_labels(folder):
    calibration = calibrated(["--groups", "label"])
    made = predicted(*OPTIONS)
    wanted = calibration.predict_set(NEW, LEVELS)
    assert made["size"].tolist() == wanted.sizes.tolist()
    output = run("evaluate", "sets.parquet", "--label", "y", *OPTIONS)
    assert "coverage of malignant" in output
    assert "at least 0.95 was asked for" in output


def test_assurance_and_confidence(folder):
    calibration = calibrated()
    made = predicted("--assurance", "0.95", "--confidence")
    assert made["size"].tolist() == calibration.predict_set(NEW, 0.1, assurance=0.95).sizes.tolist()
    guess, confidence, credibility = calibration.confidence(NEW)
    assert made["guess"].tolist() == guess.tolist()
    np.testing.assert_array_equal(made["confidence"], confidence)
    np.testing.assert_array_equal(made["credibility"], credibility)
    run("predict", "new.parquet", "old.parquet", "-c", "cal.aptset", "-o", "many/", "--prefix", "p_", "--confidence")
    again = pd.read_parquet("many/new.parquet")
    np.testing.assert_array_equal(again["confidence"], confidence)


def test_every_label_in_every_region(folder):
    calibration = calibrated(["--groups", "region,label"])
    made = predicted("--groups", "region", *OPTIONS, "--assurance", "0.6", "--simultaneous")
    sure = aptset.Assurance(0.6, simultaneous=True)
    wanted = calibration.predict_set(NEW, LEVELS, groups=REGIONS, assurance=sure)
    assert made["size"].tolist() == wanted.sizes.tolist()
    assert "each label in each group of rows" in run("inspect", "cal.aptset")


def test_what_promises_nothing_is_refused(folder):
    calibrated()
    files = ("new.parquet", "-c", "cal.aptset", "-o", "sets.parquet", "--prefix", "p_")
    assert "groups='label'" in run("predict", *files, *OPTIONS, code=1)
    assert "not both" in run("predict", *files, "--alpha", "0.1", "--alpha", "benign=0.2", code=2)
    assert "must be a number" in run("predict", *files, "--alpha", "benign=much", code=2)
    assert "--simultaneous needs --assurance" in run("predict", *files, "--simultaneous", code=2)
    assert not (folder / "sets.parquet").exists()


def test_run_and_plan(folder):
    old = TABLE[:600].rename(columns={"y": "kind"})
    old.to_csv("table.csv", index=False)
    options = ("--target", "kind", "--model", "bayes", "--quiet")
    run("run", "table.csv", *options, "--groups", "region,label", *OPTIONS, "--out", "results")
    classifier = aptset.load("results")
    assert classifier.alpha == LEVELS
    run("predict", "table.csv", "-c", "results", "-o", "sets.parquet", "--confidence", "--quiet")
    made = pd.read_parquet("sets.parquet")
    assert set(made.columns) >= {"size", "set", "guess", "confidence", "credibility"}
    run("run", "table.csv", *options, "--assurance", "0.9", "--out", "assured")
    assert aptset.load("assured").assurance == aptset.Assurance(0.9)
    assert run("plan", "--assurance", "0.95").startswith("29 calibration rows")
