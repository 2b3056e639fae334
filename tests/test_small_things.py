"""Small things that a newcomer trips over: what inspect, help, install hints and the page's rows say."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.core.validate import install
from shell import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("small")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 2)).round(3)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(patient=[f"P-{i:04d}" for i in range(300)])
    frame.assign(y=np.where(x[:, 0] + generator.normal(size=300) > 0, "ill", "well")).to_csv(
        home / "t.csv", index=False
    )
    run("run", home / "t.csv", "--target", "y", "--id", "patient", "--out", home / "results")
    return home


def test_inspect_lists_the_libraries_that_the_model_uses(folder):
    text = run("inspect", folder / "results").stdout
    assert "scikit-learn" in text
    assert not any(name in text for name in ("xgboost", "lightgbm", "catboost"))


def test_inspect_leaves_out_libraries_that_earlier_folders_list(folder, monkeypatch):
    """Folders that were written before list every booster that was installed; the models say which are used."""
    from aptset.estimator import storage

    before = storage.read_folder

    def listed(path):
        facts, tensors = before(path)
        return {**facts, "versions": {**facts["versions"], "xgboost": "3.0", "lightgbm": "4.6"}}, tensors

    monkeypatch.setattr(storage, "read_folder", listed)
    text = run("inspect", folder / "results").stdout
    assert "scikit-learn" in text
    assert "xgboost" not in text
    assert re.search(r"training rows +105\n", text)


def test_the_report_counts_the_training_rows(folder):
    """Also after a load, for several models, and for one that was fitted before."""
    run("report", folder / "t.csv", "-c", folder / "results", "-o", folder / "rows.html")
    assert "<dt>Training rows</dt><dd>105</dd>" in (folder / "rows.html").read_text()
    frame = pd.read_csv(folder / "t.csv")
    X, y = frame[["a", "b"]], frame["y"]
    folds = aptset.ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0).fit(X[:203], y[:203])
    folds.save(folder / "folds")
    frozen = aptset.ConformalClassifier(FrozenEstimator(GaussianNB().fit(X[:100], y[:100]))).fit(X[100:200], y[100:200])
    for classifier, said in (
        (folds, "182 to 183 for each of 10 models"),
        (aptset.load(folder / "folds"), "182 to 183 for each of 10 models"),
        (frozen, "not known: the model was fitted before"),
    ):
        html = aptset.report(classifier, X[203:], y[203:]).html
        assert f"<dt>Training rows</dt><dd>{said}</dd>" in html


def test_a_model_with_a_routing_request_is_refused_by_one_sentence(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with sklearn.config_context(enable_metadata_routing=True):
        asked = aptset.ConformalClassifier(GaussianNB().set_fit_request(sample_weight=True), random_state=0)
        asked.fit(X, (X[:, 0] > 0).astype(int), sample_weight=np.ones(60))
        with pytest.raises(ValueError, match=r"as requests of metadata routing do .* Make the model without such"):
            asked.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_rows_of_the_report_go_by_their_ids(folder):
    run("report", folder / "t.csv", "--target", "y", "--id", "patient", "-o", folder / "r.html")
    html = (folder / "r.html").read_text()
    assert len(set(re.findall(r'"id":"(P-\d{4})"', html))) == 90
    assert re.search(r"<dt>Model</dt><dd>[^<]{1,80}</dd>", html)


def test_a_worst_slice_of_very_few_rows_is_not_shown():
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([1.0, 1.0], size=64)
    y = (generator.random(64) > chances[:, 0]).astype(int)
    calibration = aptset.calibrate(chances[:40], y[:40], random_state=0)
    few = aptset.report(calibration, chances[40:], y[40:], features=generator.normal(size=(24, 2)))
    assert len(few.evaluation.worst_slice.rows) < 10
    assert 'id="slice-card"' not in few.html


def test_help_speaks_of_use():
    assert "predict_set" in aptset.__doc__
    assert "aptset.report(" in aptset.__doc__
    assert "__init__.pyi" not in aptset.__doc__
    assert not hasattr(aptset.ConformalClassifier, "predict_p")


def test_install_hints_name_an_extra_and_a_clone():
    assert install("torch") == ("pip install 'aptset[torch]' (in a clone of the repository: pip install '.[torch]')")
    source = Path(__file__).parents[1]
    extras = tomllib.loads((source / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = "".join(path.read_text() for path in (source / "src").rglob("*.py"))
    assert {*re.findall(r"install\('(\w+)'\)", texts)} <= set(extras)
    assert "pip install 'aptset[gpu]'" not in texts
