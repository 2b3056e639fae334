"""Small things that a newcomer trips over: what inspect, help, install hints and the page's rows say."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
