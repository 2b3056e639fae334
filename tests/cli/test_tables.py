"""A messy table from a terminal: columns in words, a model folder, dialects, and messages."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import aptset
from shell import messy

pytestmark = pytest.mark.filterwarnings("ignore:a new row carries")

RUN = ("run", "patients.csv", "--target", "diagnosis", "--model", "bayes")


def test_the_columns_are_told_in_words(command):
    text = command(*RUN).stdout
    assert re.search(r"numbers +age \(\d+ missing\)", text)
    assert re.search(r"categories smoker \(3, \d+ missing\), insured \(2\)", text)
    assert "dates      admitted (year first, " in text
    assert "left out   patient_id: numbers every row, as an id does" in text
    assert "left out   notes: a text of 300 different values (--keep-text uses its words)" in text
    assert "left out   country: is the same in every row" in text
    assert "aptset predict NEW.csv -c aptset-run -o sets.csv" in text
    assert re.search(r"most likely label is right in \d+ % of the test rows", text)


def test_what_the_user_says_about_columns_is_done(command):
    def columns(*options):
        found = json.loads(command(*RUN, *options, "--json").stdout)["columns"]
        return {column["name"] for column in found if not column["left_out"]}

    assert columns() == {"age", "smoker", "admitted", "insured"}
    assert columns("--drop", "age", "--drop", "smoker") == {"admitted", "insured"}
    assert columns("--features", "age", "--features", "patient_id") == {"age", "patient_id"}
    assert columns("--keep-text") == {"age", "smoker", "admitted", "insured", "notes"}
    assert "must have a column 'agee'" in command(*RUN, "--drop", "agee", rc=1).stderr


def test_raw_rows_in_a_fresh_process_get_the_sets_of_run(command, tmp_path):
    command(*RUN, "--out", "model")
    written = pd.read_parquet("model/sets.parquet")
    lines = Path("patients.csv").read_text().splitlines()
    Path("test.csv").write_text("\n".join([lines[0], *(lines[row + 1] for row in written["row"])]) + "\n")
    arguments = [sys.executable, "-m", "aptset", "predict", "test.csv", "-c", "model", "-o", "again.parquet"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "90 sets" in done.stdout
    again = pd.read_parquet("again.parquet")
    assert again["set"].map(tuple).tolist() == written["set"].map(tuple).tolist()
    assert again["diagnosis"].tolist() == written["diagnosis"].tolist()
    assert again.columns.tolist() == [*lines[0].split(","), "size", "set"]


def test_a_folder_loads_in_python_and_takes_a_frame(command):
    command(*RUN, "--out", "model", "--calibration", "cv+")
    command("predict", "new.csv", "-c", "model", "-o", "sets.parquet")
    sets = aptset.load("model").predict_set(pd.read_csv("new.csv")[["age", "smoker", "admitted", "insured"]])
    assert len(sets) == 60
    assert {"gesund", "mild", "schwer é"} <= set(aptset.load("model").classes_)


def test_predict_writes_to_standard_output_and_evaluate_reads_standard_input(command):
    command(*RUN, "--out", "model")
    done = command("predict", "new.csv", "-c", "model", "-o", "-")
    assert done.stdout.splitlines()[0].endswith(',"size","set"')
    assert len(done.stdout.splitlines()) == 61
    assert "60 sets" in done.stderr
    Path("sets.csv").write_text(done.stdout)
    judged = subprocess.run(
        [sys.executable, "-m", "aptset", "evaluate", "-", "--label", "diagnosis"],
        input=done.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Evaluation of 60 prediction sets" in judged.stdout
    report = command("report", "new.csv", "-c", "model", "-o", "page.html").stdout
    assert "Written: page.html" in report


def test_several_levels(command):
    text = command(*RUN, "--out", "model", "--alpha", 0.05, "--alpha", 0.2).stdout
    assert "(asked for: 95 %)" in text
    assert "(asked for: 80 %)" in text
    written = pd.read_parquet("model/sets.parquet")
    assert (written["size 0.05"] >= written["size 0.2"]).all()
    assert json.loads(Path("model/evaluation.json").read_text())["others"][0]["alpha"] == 0.2
    command("predict", "new.csv", "-c", "model", "-o", "sets.csv", "--alpha", 0.3, "--alpha", 0.1)
    assert {"set 0.3", "set 0.1", "size 0.3"} <= set(pd.read_csv("sets.csv").columns)
    judged = command("evaluate", "sets.csv", "--label", "diagnosis", "--alpha", "0.3").stdout
    assert "at alpha=0.3" in judged


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (("--conformity", "lac"), {"conformity": "lac"}),
        (("--deterministic",), {"randomized": False}),
        (("--level", "guaranteed", "--calibration", "cv+"), {"level": "guaranteed", "calibration": "cv+"}),
        (("--groups", "label", "--alpha", "0.3"), {"groups": "label", "alpha": 0.3}),
    ],
)
def test_settings_reach_the_classifier(command, options, settings):
    command(*RUN, "--out", "model", *options)
    found = aptset.load("model").get_params(deep=False)
    assert {name: found[name] for name in settings} == settings


@pytest.mark.parametrize(
    ("encoding", "sep", "decimal"), [("utf-16", ";", ","), ("utf-8", ";", ","), ("utf-8", "\t", ".")]
)
def test_other_dialects_are_found_and_named(command, encoding, sep, decimal):
    plain = command(*RUN, "--json").stdout
    messy(300).to_csv("patients.csv", index=False, sep=sep, encoding=encoding, decimal=decimal)
    done = command(*RUN, "--json")
    assert f"read as {encoding.upper()}" in done.stderr
    assert json.loads(done.stdout)["estimates"] == json.loads(plain)["estimates"]


def test_other_alphabets_are_named_by_the_user(command):
    messy(300).replace("früher ☃", "früher").to_csv("patients.csv", index=False, sep="|", encoding="latin-1")
    assert "--encoding" in command(*RUN, "--sep", "|", rc=1).stderr
    command(*RUN, "--sep", "|", "--encoding", "latin-1")
    assert "schwer é" in aptset.load("aptset-run").classes_
    assert "--encoding must be one that Python knows" in command(*RUN, "--encoding", "klingon", rc=1).stderr
    messy(300).to_parquet("patients.parquet")
    wrong = command("run", "patients.parquet", "--target", "diagnosis", "--sep", ";", rc=1).stderr
    assert "--sep is for CSV files; patients.parquet is not one" in wrong


def test_a_target_that_measures_is_refused(command):
    assert re.search(
        r"--target age must hold class labels; it holds \d+ different numbers, as in a regression problem",
        command("run", "patients.csv", "--target", "age", rc=1).stderr,
    )
    frame = messy(300)
    frame["grade"] = np.arange(300) % 7  # numbers that name are fine
    frame.to_csv("patients.csv", index=False)
    command("run", "patients.csv", "--target", "grade", "--model", "bayes")


def test_the_kind_of_file_does_not_matter(command):
    command(*RUN, "--out", "model")
    new = messy(40, seed=1)
    new["admitted"], new["insured"] = pd.to_datetime(new["admitted"]), new["insured"] == "true"
    new.to_parquet("new.parquet")
    messy(40, seed=1).to_csv("new.csv", index=False)
    for ending in ("csv", "parquet"):
        command("predict", f"new.{ending}", "-c", "model", "-o", f"of-{ending}.parquet")
    found = [pd.read_parquet(f"of-{ending}.parquet")["set"].map(tuple).tolist() for ending in ("csv", "parquet")]
    assert found[0] == found[1]


def test_new_rows_that_do_not_fit_are_named(command):
    command(*RUN, "--out", "model")
    new = messy(20, seed=1)
    new.drop(columns=["age", "smoker"]).to_csv("less.csv", index=False)
    said = command("predict", "less.csv", "-c", "model", "-o", "s.csv", rc=1).stderr
    assert "missing: age, smoker" in said
    new.assign(age="old").to_csv("texts.csv", index=False)
    assert (
        "texts.csv, row 0 cannot be read" in command("predict", "texts.csv", "-c", "model", "-o", "s.csv", rc=1).stderr
    )
    new.assign(age="old").to_parquet("texts.parquet")
    said = command("predict", "texts.parquet", "-c", "model", "-o", "s.csv", rc=1).stderr
    assert "column 'age' must hold numbers" in said
    new.assign(admitted="yesterday").to_csv("dates.csv", index=False)
    said = command("predict", "dates.csv", "-c", "model", "-o", "s.csv", rc=1).stderr
    assert "column 'admitted', row 0: must be a date, written as year first; got 'yesterday'" in said
    new.drop(columns=["diagnosis", "notes"]).to_csv("enough.csv", index=False)  # what was left out is not asked for
    command("predict", "enough.csv", "-c", "model", "-o", "s.csv")
    assert not Path(".s.csv.0.tmp").exists()


def test_options_of_the_other_kind_are_refused(command):
    command(*RUN, "--out", "model")
    assert (
        "--prefix is for" in command("predict", "new.csv", "-c", "model", "-o", "s.csv", "--prefix", "p", rc=2).stderr
    )
    assert "--model needs a TABLE" in command("run", "--model", "forest", rc=2).stderr
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(np.eye(40), np.arange(40) % 2)
    classifier.save("python")
    said = command("predict", "new.csv", "-c", "python", "-o", "s.csv", rc=1).stderr
    assert "it was saved from Python" in said


def test_settings_are_compared_and_one_is_recommended(command):
    options = ("--target", "diagnosis", "--model", "bayes", "--repetitions", 3, "--jobs", 1)
    two = ("--conformity", "adaptive", "--conformity", "lac", "--randomized", "both")
    found = json.loads(command("compare", "patients.csv", *options, *two, "--json").stdout)
    assert set(found["ranking"]) == {f"{a}/{b}" for a in ("adaptive", "lac") for b in ("randomized", "deterministic")}
    assert found["recommended"] in found["ranking"]
    shares = ("--share", 0.3, "--share", 0.5, "--out", "shares")
    text = command("compare", "patients.csv", *options, *shares).stdout
    assert re.search(r"Recommended: share 0\.[35]: it agrees with the promise", text)
    said = command("compare", "patients.csv", *options, rc=2).stderr
    assert "compare needs two candidates" in said
    assert "aptset audit" in said


def test_audits_take_settings_and_several_levels(command):
    options = ("--target", "diagnosis", "--model", "bayes", "--repetitions", 2, "--jobs", 1, "--calibration", "split")
    levels = ("--alpha", 0.1, "--alpha", 0.2)
    found = json.loads(command("audit", "patients.csv", *options, *levels, "--conformity", "lac", "--json").stdout)
    assert list(found["levels"]) == ["0.1", "0.2"]
    assert Path("aptset-audit/alpha-0.2/audit.html").exists()


def test_inspect_speaks_of_folders_and_sorts_numbers(command):
    frame = messy(300)
    frame["grade"] = np.arange(300) % 12
    frame.to_csv("patients.csv", index=False)
    command("run", "patients.csv", "--target", "grade", "--model", "bayes", "--groups", "label", "--out", "model")
    text = command("inspect", "model").stdout
    assert re.search(r"classes +0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n", text)
    assert "{" not in text
    assert re.search(r"target +grade", text)
    assert json.loads(command("inspect", "model", "--json").stdout)["alpha"] == 0.1


def test_very_small_p_values_are_not_zero():
    from aptset.metrics.estimates import in_p

    assert [in_p(value) for value in (0.0, 9e-5, 1e-4, 0.03)] == ["p < 0.0001", "p < 0.0001", "p = 0.0001", "p = 0.03"]
