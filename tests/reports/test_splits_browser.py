"""The pages of audits and comparisons in a real browser."""

import csv
import io

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

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
