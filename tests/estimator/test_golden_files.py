"""Format 1 is read by every later version: files that were written once, and what they must still say."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris
from sklearn.exceptions import InconsistentVersionWarning

import aptset
from aptset.cli.main import main
from golden.make import decisions, states

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
OF_FOLDS = json.loads((GOLDEN / "expected-folds.json").read_text(encoding="utf-8"))
# The promise is about the folder; the models inside are scikit-learn's, which warns of other versions of itself.
pytestmark = pytest.mark.filterwarnings(f"ignore::{InconsistentVersionWarning.__module__}.InconsistentVersionWarning")


@pytest.mark.parametrize("kind", ["split", "cv", "label", "bootstrap"])
def test_classifiers_of_format_1(kind):
    X, _ = load_iris(return_X_y=True)
    classifier, wanted = aptset.load(GOLDEN / f"classifier-1-{kind}"), EXPECTED[kind]
    assert classifier.classes_.tolist() == wanted["classes"]
    assert classifier.guarantee() == wanted["promise"]
    sets = classifier.predict_set(X[1::2], ids=np.arange(75))
    assert [row.tolist() for row in sets] == wanted["sets"]


def test_calibrations_of_format_1():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
    calibration = aptset.load(GOLDEN / "calibration-1.aptset")
    sets = calibration.predict_set(P[200:], ids=np.arange(200))
    assert [row.tolist() for row in sets] == EXPECTED["calibration"]


@pytest.mark.parametrize("kind", ["cv", "bootstrap"])
def test_calibrations_of_several_folds_of_format_1(kind):
    calibration, wanted = aptset.load(GOLDEN / f"calibration-1-{kind}.aptset"), OF_FOLDS[kind]
    assert calibration.classes.tolist() == wanted["classes"]
    assert calibration.guarantee() == wanted["promise"]
    said = np.random.default_rng(0).dirichlet(np.ones(3), size=(len(calibration.folds), 50)).round(6)
    sets = calibration.predict_set(said, ids=np.arange(50), normalize=True)
    assert [row.tolist() for row in sets] == wanted["sets"]


def test_streams_and_monitors_of_format_1_go_on():
    online = aptset.Online.load(GOLDEN / "online-1.aptset", aptset.load(GOLDEN / "calibration-1.aptset"))
    wanted = json.loads((GOLDEN / "expected-states.json").read_text(encoding="utf-8"))
    assert states(online, aptset.CoverageMonitor.load(GOLDEN / "monitor-1.aptset")) == wanted


def test_rows_for_decisions_of_format_1():
    files = (GOLDEN / "acceptance-1.aptset", GOLDEN / "acceptance-threshold-1.aptset")
    wanted = json.loads((GOLDEN / "expected-acceptance.json").read_text(encoding="utf-8"))
    assert decisions(*map(aptset.load, files)) == wanted


def test_a_run_of_format_1_predicts_raw_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    wanted = pd.read_csv(GOLDEN / "run-1.csv")
    wanted.drop(columns=["size", "set"]).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "sets.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = ["predict", tmp_path / "new.csv", "-c", GOLDEN / "run-1", "-o", out]
        done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    assert pd.read_csv(out)["set"].tolist() == wanted["set"].tolist()
