"""Models from a terminal: by name, from a module, from a file."""

import json
import re
from pathlib import Path

import joblib
import pandas as pd
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.compose import make_column_transformer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import aptset
from aptset.cli.main import main
from aptset.cli.models import MODELS
from aptset.cli.options import MODEL_NAMES

pytestmark = pytest.mark.filterwarnings("ignore:a new row carries")

RUN = ("run", "patients.csv", "--target", "diagnosis", "--model", "bayes")


def test_models_come_from_everywhere(command):
    Path("mine.py").write_text(
        "from sklearn.pipeline import make_pipeline\nfrom sklearn.compose import make_column_transformer\n"
        "from sklearn.preprocessing import OneHotEncoder\nfrom sklearn.tree import DecisionTreeClassifier\n"
        "chosen = (OneHotEncoder(handle_unknown='ignore'), ['smoker', 'country'])\n"
        "pipeline = make_pipeline(make_column_transformer(chosen), DecisionTreeClassifier())\n"
    )
    done = command("run", "patients.csv", "--target", "diagnosis", "--model", "mine:pipeline", "--out", "own")
    assert (
        "Your model takes the columns as they are" in done.stdout
    )  # a constant among them: it is the model's business
    command("predict", "new.csv", "-c", "own", "-o", "s.csv")
    call = "sklearn.ensemble.ExtraTreesClassifier(n_estimators=5, max_depth=3)"
    command("run", "patients.csv", "--target", "diagnosis", "--model", call, "--out", "called")
    assert aptset.load("called").estimator[-1].n_estimators == 5
    transformer = make_column_transformer((OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["smoker"]))
    model = make_pipeline(transformer, GaussianNB())
    joblib.dump(model, "model.joblib")
    skops.io.dump(model, "model.skops")
    run = ("run", "patients.csv", "--target", "diagnosis", "--out", "file", "--model")
    assert "is a pickle, and opening a pickle runs the code" in command(*run, "model.joblib", rc=1).stderr
    first = json.loads(command(*run, "model.joblib", "--trust", "model.joblib", "--json").stdout)
    assert json.loads(command(*run, "model.skops", "--json").stdout)["estimates"] == first["estimates"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("magic", "must be one of logistic, forest,.*got 'magic'.$"),
        ("no.such:thing", "no.such:thing cannot: No module named 'no'"),
        ("sklearn.tree:Nothing", "there is no such object"),
        ("sklearn.linear_model:LinearRegression", "is a LinearRegression without predict_proba"),
        ("sklearn.tree.DecisionTreeClassifier(max_depth=open('x'))", "with plain values"),
        ("sklearn.tree.DecisionTreeClassifier(depth=3)", "cannot be made"),
        ("gone.joblib", "gone.joblib"),
    ],
)
def test_models_that_are_none(command, model, message):
    said = command("run", "patients.csv", "--target", "diagnosis", "--model", model, rc=1).stderr
    assert re.search(message, " ".join(said.split()))
    assert said.count("magic") < 2


def test_help_names_the_models():
    assert list(MODEL_NAMES) == list(MODELS)
    for name in ("run", "report", "audit", "compare"):
        said = " ".join(CliRunner().invoke(main, [name, "--help"]).output.split())
        assert "logistic, forest, boosting, bayes" in said


def test_out_of_bag_forests_take_columns_of_numbers_as_they_are(command):
    """Steps in front of a forest would be fitted on rows that its trees must not have seen."""
    forest = ("--target", "diagnosis", "--model", "sklearn.ensemble.RandomForestClassifier(n_estimators=20)")
    options = (*forest, "--calibration", "out-of-bag")
    said = command("run", "patients.csv", *options, rc=1).stderr
    assert "columns of numbers alone for --calibration out-of-bag; leave out smoker, admitted, insured (--drop)" in said
    text = command("run", "patients.csv", *options, "--features", "age", "--out", "trees").stdout
    assert "Your model takes the columns as they are: age." in text
    command("predict", "new.csv", "-c", "trees", "-o", "sets.csv")
    assert len(pd.read_csv("sets.csv")) == 60
    few = ("--features", "age", "--repetitions", 2, "--jobs", 1)
    both = ("--calibration", "split", "--out", "both")
    found = json.loads(command("compare", "patients.csv", *options, *few, *both, "--json").stdout)
    assert "out-of-bag" in found["ranking"]
    assert "out-of-bag" in command("audit", "patients.csv", *options, *few).stdout
