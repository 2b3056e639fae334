"""The page at its borders: dark and narrow, hostile texts, many rows, many classes."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from test_report_browser import model, same

import aptset

HOSTILE = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "\"&amp;'>", "{{ 7 * 7 }}\u2028<!--"]


def brightness(page):
    return sum(map(int, re.findall(r"\d+", page.page.evaluate("getComputedStyle(document.body).backgroundColor"))))


@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 390), ("dark", 1280), ("light", 820)])
def test_light_dark_and_narrow_without_overflow(opened, tmp_path, scheme, width):
    classifier, X, y = model()
    groups = np.where(X[:, 20] > 8, "a very long name of a group " * 3, "short")
    aptset.report(classifier, X, y, tmp_path / "r.html", groups=groups, features=X[:, 20:24])
    page = opened(tmp_path / "r.html", viewport={"width": width, "height": 844}, color_scheme=scheme)
    is_dark = brightness(page) < 200
    assert is_dark == (scheme == "dark")
    assert page.overflow() <= 0
    assert page.clipped() == []
    page.page.screenshot(path=tmp_path / "shot.png", full_page=True)
    assert (tmp_path / "shot.png").stat().st_size > 10_000
    page.page.click("#theme")
    assert (brightness(page) < 200) != is_dark
    assert page.overflow() <= 0


def test_hostile_texts_stay_texts(opened, tmp_path):
    generator = np.random.default_rng(0)
    y = generator.choice(HOSTILE, size=300)
    X = pd.DataFrame({name: generator.normal(size=300) for name in HOSTILE[:3]})
    X[HOSTILE[3]] = y[::-1]
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X.iloc[:, :3].to_numpy()[:150], y[:150])
    rows = slice(150, None)
    aptset.report(
        classifier,
        X.iloc[rows, :3].to_numpy(),
        y[rows],
        tmp_path / "r.html",
        groups=y[rows][::-1],
        features=X.iloc[rows],
        title=HOSTILE[1],
    )
    page = opened(tmp_path / "r.html")
    assert page.page.inner_text("h1") == HOSTILE[1]
    assert page.page.title() == HOSTILE[1]
    assert page.table("label").keys() == set(HOSTILE)
    assert page.table("group").keys() == set(HOSTILE)
    assert page.page.locator("img").count() == 0
    assert page.page.locator("script").count() == 2
    assert any(HOSTILE[0] in text for text in page.page.locator("#examples .row").all_inner_texts())
    assert HOSTILE[0] in page.download("#label-figure [data-does=svg]").replace("&lt;", "<").replace("&gt;", ">")


def probabilities(n, n_classes, seed):
    generator = np.random.default_rng(seed)
    chances = np.exp(2 * generator.standard_normal((n, n_classes), dtype=np.float32))
    chances /= chances.sum(axis=1, keepdims=True)
    waits = generator.standard_exponential(chances.shape, dtype=np.float32) + np.float32(1e-30)
    return chances, (chances / waits).argmax(axis=1)  # the shortest wait is a draw from the row


@pytest.mark.parametrize(
    ("n", "n_classes", "limit"), [(100_000, 10, 3_000_000), (2_000, 1000, 8_000_000), (20_000, 1000, 3_000_000)]
)
def test_many_rows_and_many_classes(opened, tmp_path, n, n_classes, limit):
    chances, y = probabilities(n, n_classes, 1)
    calibration = aptset.calibrate(*probabilities(5000, n_classes, 0), random_state=0)
    made = aptset.report(calibration, chances, y, tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < limit
    page = opened(tmp_path / "r.html")
    seconds = page.page.evaluate("performance.now()") / 1000
    assert seconds < 20, "some seconds; the bound leaves room for a busy machine"
    same(page.tiles()["coverage"], made.evaluation.coverage)
    same(page.tiles()["mean_size"], made.evaluation.mean_size)
    assert f"200 of {n:,} rows" in page.page.inner_text("#examples-card")
    page.type_alpha(0.05)
    evaluation = aptset.evaluate(calibration.predict_set(chances, 0.05), y)
    for name, found in page.tiles().items():
        same(found, getattr(evaluation, name))
    for key, row in page.table("label").items():
        same((row["coverage"], row["low"], row["high"]), evaluation.by_label[int(key)])
        same((row["size"], row["sizeLow"], row["sizeHigh"]), evaluation.size_by_label[int(key)])
    assert page.overflow() <= 0


def test_more_classes_than_sixteen_bits_count(opened, tmp_path):
    generator = np.random.default_rng(0)
    n_classes = 70_000
    p_values = np.round(generator.random((4, n_classes)) * 999 + 1) / 1000
    p_values[0] = 1.0
    sets = aptset.PredictionSets.of(p_values > 0.0005)
    aptset.report(aptset.evaluate(sets, np.zeros(4, int), alpha=0.0005, p_values=p_values), path=tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    assert page.tiles()["mean_size"][0] == n_classes
    page.type_alpha(0.5)
    assert page.tiles()["mean_size"][0] == (p_values > 0.5).sum(axis=1).mean()
