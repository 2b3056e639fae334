"""Where reports come from: calibrations of several folds, frames, and what the command refuses."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from test_report_numbers import data_of, made

import aptset
from shell import failure, run


@pytest.mark.parametrize("combine", ["plus", "minimax"])
def test_a_calibration_of_several_folds_can_be_reported(combine):
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([1, 1, 1], size=300)
    y = (generator.random((300, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    calibration = aptset.calibrate_cv(chances, y, np.arange(300) % 5, combine=combine, random_state=0)
    new = [generator.dirichlet([1, 1, 1], size=80) for _ in range(5)]
    truth = generator.integers(3, size=80)
    report = aptset.report(calibration, (one for one in new), truth, alpha=0.2)
    sets = calibration.predict_set(new, 0.2)
    assert report.evaluation.coverage == aptset.coverage(sets, truth)
    assert data_of(report)["laws"] is None
    losses = data_of(report)["losses"]
    assert min(max(1 - c - s * 0.2 for c, s in lines) for lines in losses) == pytest.approx(calibration.guarantee(0.2))
    assert report.evaluation.evidence.probabilities == pytest.approx(np.mean(new, axis=0))


@pytest.mark.parametrize("n", [42, 90, 126, 200])
def test_sets_with_assurance_are_those_of_the_calibration(n):
    generator = np.random.default_rng(n)
    chances, new = generator.dirichlet([0.5, 0.5, 0.5], size=n), generator.dirichlet([0.5, 0.5, 0.5], size=2000)
    calibration = aptset.calibrate(chances, generator.integers(3, size=n), random_state=0)
    sets, truth = calibration.predict_set(new, 0.1, assurance=0.9), generator.integers(3, size=2000)
    report = aptset.report(calibration, new, truth, alpha=0.1, assurance=0.9)
    assert report.evaluation.mean_size == aptset.mean_size(sets)
    assert report.evaluation.coverage == aptset.coverage(sets, truth)


def test_probabilities_of_a_frame_go_by_name():
    calibration, chances, y = made()
    by_name = aptset.calibrate(pd.DataFrame(chances), y, random_state=0)
    report = aptset.report(by_name, pd.DataFrame(chances)[[2, 0, 3, 1]], y)
    assert np.array_equal(report.evaluation.evidence.probabilities, chances)
    assert calibration.classes.tolist() == by_name.classes.tolist()


def test_groups_of_the_wrong_length_are_named():
    with pytest.raises(ValueError, match="groups must have one entry per row"):
        aptset.evaluate(np.ones((3, 2), bool), [0, 1, 0], groups=[1])


def test_options_that_would_be_ignored_are_refused(folder):
    table = folder / "new.csv"
    refused = [
        (["--model", "forest", "--target", "y"], "--model needs a FILE"),
        (["--logits"], "--logits needs a FILE"),
        (["-c", "cv+"], "-c needs a FILE"),
        ([table, "--label", "y"], "--label needs -c ARTEFACT"),
        ([table, "--label", "y", "-c", "x", "--model", "tree"], "--model is for a table"),
        ([table, "--target", "y", "--label", "y"], "--label is for a FILE of probabilities"),
        ([table, "--target", "y", "--logits"], "--logits is for a FILE of probabilities"),
        ([table, "--target", "y", "--prefix", "p_"], "--prefix is for a FILE of probabilities"),
        ([table], "FILE needs --target COLUMN"),
    ]
    for options, message in refused:
        assert message in " ".join(run("report", *options, rc=2).stderr.split())


def test_a_page_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path):
    calibration, chances, y = made(30)
    blocked = tmp_path / "no"
    blocked.mkdir()
    target = blocked / ("x" * 251 + ".html")  # one byte more than a file name may have
    with pytest.raises(OSError, match="must be a name of at most 255 bytes"):
        aptset.report(calibration, chances, y, target)


def test_a_column_that_is_called_label_is_a_group(tmp_path):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"a": generator.normal(size=80), "label": ["u", "v"] * 40})
    frame["y"] = np.where(frame["a"] + generator.normal(size=80) > 0, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--target", "y", "--repetitions", 2, "--jobs", 1, "-o", tmp_path / "out", "--model", "bayes"]
    text = run("audit", tmp_path / "t.csv", *options, "--groups", "label").stdout
    assert "coverage of group u" in text
    frame.drop(columns="label").to_csv(tmp_path / "t.csv", index=False)
    assert "must have a column 'label'" in failure("audit", tmp_path / "t.csv", *options, "--groups", "label")


@pytest.mark.parametrize("missing", ["jinja2", "pandas"])
def test_what_is_missing_is_said_before_the_work(tmp_path, missing):
    pd.DataFrame({"a": range(40), "y": ["u", "v"] * 20}).to_csv(tmp_path / "t.csv", index=False)
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from aptset.cli.main import main; "
        f"main(['audit', {str(tmp_path / 't.csv')!r}, '--target', 'y', '-o', {str(tmp_path / 'out')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert missing in done.stderr
    assert "pip install 'aptset[" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_demo_needs_no_file(tmp_path):
    done = run("report", "-o", tmp_path / "r.html", "--json", "--alpha", 0.2)
    assert json.loads(done.stdout)["alpha"] == 0.2
