"""--bands and --counts: from small files about labels to a calibration, a run, a report and a monitor."""

import json
from pathlib import Path

import pandas as pd
import pytest

import aptset
from shell import NAMES, failure, run

COUNTS = {"cat": 500, "dög": 40, 'fox "red", old': 3}
BANDS = {"cat": "pets", "dög": "pets", 'fox "red", old': "wild"}


@pytest.fixture
def tables(folder):
    """Write bands and counts as JSON and as CSV, beside files of probabilities."""
    for name, content in (("counts", COUNTS), ("bands", BANDS)):
        (folder / f"{name}.json").write_text(json.dumps(content))
        pd.DataFrame({"label": list(content), name: list(content.values())}).to_csv(folder / f"{name}.csv", index=False)
    return folder


def calibrate(folder, *more, call=run, **options):
    common = ("calibrate", folder / "val.parquet", "--label", "y", "--prefix", "p_", "-o", folder / "cal.aptset")
    return call(*common, *more, **options)


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_calibrations_from_files_are_those_of_python(tables, ending):
    frame = pd.read_parquet(tables / "val.parquet")
    p, y = frame[[f"p_{name}" for name in NAMES]].to_numpy(), frame["y"]
    new = pd.read_parquet(tables / "new.parquet")[[f"p_{name}" for name in NAMES]].to_numpy()
    score, by_counts = aptset.Prevalence(COUNTS), aptset.LabelBands.by_prevalence(COUNTS, 2, n_calibration=800)
    counts = ("--counts", tables / f"counts.{ending}")
    for options, settings in (
        (("--bands", tables / f"bands.{ending}"), {"groups": aptset.LabelBands(BANDS)}),
        (("--bands", "2", *counts), {"groups": by_counts}),
        (("--conformity", "prevalence", *counts), {"conformity": score}),
        (("--conformity", "pas", "--bands", "2", *counts), {"conformity": score, "groups": by_counts}),
    ):
        calibrate(tables, *options)
        found = aptset.load(tables / "cal.aptset")
        expected = aptset.calibrate(p, y, classes=NAMES, random_state=0, **settings)
        assert found.threshold(0.1) == expected.threshold(0.1)
        assert found.predict_set(new, 0.1) == expected.predict_set(new, 0.1)


def test_predict_inspect_report_and_monitor(tables):
    calibrate(tables, "--bands", tables / "bands.json", "--conformity", "prevalence", "--counts", tables / "counts.csv")
    cal = ("-c", tables / "cal.aptset")
    told = run("inspect", tables / "cal.aptset").output
    assert "bands of labels (pets:" in told
    assert "prevalence(counts=3, labels=3)" in told
    new = (tables / "new.parquet", "--prefix", "p_")
    run("predict", *new, *cal, "-o", tables / "sets.parquet")
    page = tables / "page.html"
    run("report", *new, "--label", "y", *cal, "-o", page)
    assert "within every band of labels, 2 of them" in page.read_text(encoding="utf-8")
    seen = json.loads(run("monitor", tables / "sets.parquet", "--label", "y", *cal, "--json").stdout)
    sets = pd.read_parquet(tables / "sets.parquet")
    covered = [label in held for label, held in zip(sets["y"], sets["set"], strict=True)]
    by_hand = (
        aptset.load(tables / "cal.aptset").monitor(0.1).update(covered, groups=[BANDS[label] for label in sets["y"]])
    )
    assert (seen["rows"], seen["log_evidence"]) == (1200, by_hand.log_evidence)


def test_a_run_on_a_table(command):
    labels = pd.read_csv("patients.csv", dtype=str)["diagnosis"].dropna().unique()
    pd.DataFrame({"label": labels, "band": ["often", *["rare"] * (len(labels) - 1)]}).to_csv("bands.csv", index=False)
    command("run", "patients.csv", "--target", "diagnosis", "--bands", "bands.csv", "--out", "results")
    found = json.loads(Path("results/evaluation.json").read_text())
    assert {row["group"] for row in found["estimates"] if row["metric"] == "by_group"} == {"often", "rare"}
    assert aptset.load("results").groups.of(labels[:2]) == ["often", "rare"]
    command("predict", "new.csv", "-c", "results", "-o", "sets.csv")


def test_what_is_refused(tables):
    def refused(*more):
        return calibrate(tables, *more, rc=2).stderr

    assert "--bands 4 needs --counts FILE" in refused("--bands", "4")
    assert "--conformity prevalence needs --counts FILE" in refused("--conformity", "prevalence")
    assert "--counts is for" in refused("--counts", tables / "counts.csv")
    assert "cannot both be given" in refused("--bands", tables / "bands.csv", "--groups", "label")
    (tables / "few.json").write_text('{"cat": "pets"}')
    assert "LabelBands must speak of every label" in calibrate(tables, "--bands", tables / "few.json", call=failure)
    for content, words in (("[1]", "an object of JSON"), ("{", "must be JSON"), ('{"cat": 0.5}', "whole number")):
        (tables / "bad.json").write_text(content)
        assert words in calibrate(tables, "--bands", tables / "bad.json", call=failure)
    (tables / "bad.csv").write_text("label,count\ncat,x\n")
    counts = ("--bands", "2", "--counts", tables / "bad.csv")
    assert "whole numbers of training rows; got 'x' for 'cat'" in calibrate(tables, *counts, call=failure)
    (tables / "bad.csv").write_text("label,count\ncat,1\ncat,2\n")
    assert "each label once" in calibrate(tables, *counts, call=failure)
    (tables / "bad.csv").write_text("label\ncat\n")
    assert "two columns" in calibrate(tables, *counts, call=failure)
