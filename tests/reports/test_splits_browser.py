"""The pages of audits and comparisons in a real browser."""

import csv
import io

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB
from test_report_figures import parts_of, scale_of

import aptset

HOSTILE = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>"]


def rows(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 3))
    return X, np.array(HOSTILE)[(X[:, 0] + generator.normal(size=n) > 0).astype(int)]


@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 1280)])
def test_an_audit_and_a_comparison_open(opened, tmp_path, scheme, width):
    X, y = rows()
    aptset.audit(GaussianNB(), X, y, repetitions=5, groups=y).report(tmp_path / "audit.html")
    models = {HOSTILE[0]: GaussianNB(), "guess": DummyClassifier(strategy="prior")}
    compared = aptset.compare(models, X, y, repetitions=5)
    compared.report(tmp_path / "compare.html", title=HOSTILE[1])
    for name in ("audit", "compare"):
        page = opened(tmp_path / f"{name}.html", viewport={"width": width, "height": 844}, color_scheme=scheme)
        assert page.overflow() <= 0
        assert page.clipped() == []
        assert page.page.locator("figure svg").count() >= 5
        assert page.page.locator("img").count() == 0
        page.page.click("summary")
        assert page.overflow() <= 0
        assert page.page.locator("#table tbody tr").count() > 5
        page.download("figure [data-does=svg] >> nth=0")
    assert page.page.inner_text("h1") == HOSTILE[1]
    assert compared.sentences()[0] in page.page.inner_text("#summary")
    found = list(csv.DictReader(io.StringIO(page.download("#differences [data-does=csv]"))))
    size = next(float(row["difference"]) for row in found if row["metric"] == "size")
    assert size == float(compared.difference("guess", HOSTILE[0], "size"))


def test_figures_of_splits_stand_where_their_numbers_are(opened, tmp_path):
    X, y = rows()
    found = aptset.audit(GaussianNB(), X, y, repetitions=5, calibrations=["split", "cv+"])
    found.report(tmp_path / "a.html")
    page = opened(tmp_path / "a.html")
    to_share = scale_of(page, "drift", "y")
    dots = [to_share(dot["cy"]) for dot in parts_of(page, "drift", ".dot")]
    assert dots == pytest.approx(found.drift.coverage.tolist(), abs=1e-4)
    to_share = scale_of(page, "metric-coverage", "x")
    means = [found.splits.values(name, "coverage").mean() for name in ("split", "cv+")]
    assert [to_share(dot["cx"]) for dot in parts_of(page, "metric-coverage", ".dot")] == pytest.approx(means, abs=1e-4)
    assert page.page.inner_text("#headline") == "Too few rows to contradict 90 % and 71.56 %"
    assert page.page.locator("#table th:not([scope=col])").count() == 0


def test_what_a_figure_of_splits_leaves_out_is_said(opened, tmp_path):
    X, _ = rows(400)
    y = (40 * np.random.default_rng(0).random(400)).astype(int)
    found = aptset.audit(GaussianNB(), X, y, repetitions=2, calibrations=["split", "cv+"], alpha=0.5)
    found.report(tmp_path / "a.html")
    page = opened(tmp_path / "a.html", viewport={"width": 390, "height": 844})
    parts = [row for row in found.summary() if row.part == "label" and row.metric == "coverage"]
    note = f"The lowest 20 of each candidate; {len(parts) - 40} more are in the table below."
    assert note in page.page.inner_text("#part-label")
    for figure in ("metric-coverage", "metric-size", "part-label"):
        scale_of(page, figure, "x")  # at least two ticks
