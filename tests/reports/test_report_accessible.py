"""axe-core looks at the page in chromium, light and dark, on a phone too; odd data still read well."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import aptset

AXE = Path(__file__).parents[2] / ".axe" / "package" / "axe.min.js"


def rows(n, classes, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(classes, 0.5), size=n)
    y = np.array([generator.choice(classes, p=row) for row in p])
    return p, y


def table_report(path):
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(400, 2)), columns=["age", "weight"])
    y = np.where(X["age"] + generator.normal(size=400) > 0, "yes", "no")
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[:200], y[:200])
    return aptset.report(classifier, X[200:], y[200:], path, groups=np.where(X["weight"][200:] > 0, "a", "b"))


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}])
def test_axe_finds_nothing(opened, tmp_path, options):
    if not AXE.exists() and not os.environ.get("CI"):  # there it must not go unnoticed
        pytest.skip("axe-core is missing, so accessibility is not checked: make browser fetches it from npm")
    table_report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html", **options)
    page.page.evaluate(AXE.read_text())
    found = page.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []


def test_the_top_says_how_good_the_model_is_and_the_end_who_made_the_page(opened, tmp_path):
    made = table_report(tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    assert "The most likely label alone is right in" in page.page.inner_text("#measured")
    assert f"{100 * float(made.evaluation.coverage):.4g} %" in page.page.inner_text("#measured")
    assert "Made with aptset 0.1.0, 20" in page.page.inner_text("footer")
    other = aptset.report(made.evaluation, title="the same data").html
    digest = page.page.inner_text("footer").split("data ")[1][:12]
    assert f"data {digest}" in other


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["one row", "one class in the rows", "all missed", "1000 classes", "without X"])
def test_odd_data_still_read_well(opened, tmp_path, kind):
    p, y = rows(300, 1000 if kind == "1000 classes" else 3)
    calibration = aptset.calibrate(p[:200], y[:200], random_state=0)
    new, truth = p[200:], y[200:]
    if kind == "one row":
        new, truth = new[:1], truth[:1]
    if kind == "one class in the rows":
        new, truth = new[truth == 0], truth[truth == 0]
    if kind == "all missed":
        truth = new.argmin(axis=1)
    aptset.report(calibration, new, truth, tmp_path / "r.html")
    for width in (360, 1200):
        page = opened(tmp_path / "r.html", viewport={"width": width, "height": 800})
        assert page.overflow() <= 0
        text = page.page.inner_text("main")
        for word in ("NaN", "undefined", "Infinity", "null"):
            assert word not in text
    if kind == "without X":
        boxes = page.page.eval_on_selector_all(
            ".grid > .card", "cards => cards.map(c => c.getBoundingClientRect().right)"
        )
        right = page.page.evaluate("document.querySelector('.grid').getBoundingClientRect().right")
        assert abs(boxes[-1] - right) < 2, "no empty half-row"


def test_the_table_by_label_scrolls_on_a_phone(opened, tmp_path):
    p, y = rows(300, 4)
    names = np.array([f"a label with a rather long name, number {k}" for k in range(4)])
    calibration = aptset.calibrate(p[:200], names[y[:200]], classes=names, random_state=0)
    aptset.report(calibration, p[200:], names[y[200:]], tmp_path / "r.html")
    page = opened(tmp_path / "r.html", viewport={"width": 360, "height": 740})
    box = page.page.evaluate(
        "(() => { const b = document.querySelector('#label-table .scroll'); return [b.scrollWidth, b.clientWidth]; })()"
    )
    assert box[0] > box[1]
    assert page.overflow() <= 0
