"""The page in a real browser: its numbers are Python's, its buttons work, hostile texts stay texts."""

import csv
import io
import json
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.metrics.coverage_distribution import folds_chance
from aptset.metrics.estimates import percent

ALPHAS = [0.001, 0.005, 0.02, 0.05, 0.1, 0.123, 0.2, 1 / 3, 0.5, 0.85, 1e-7]
SETTINGS = {
    "split": {},
    "split, never empty": {"allow_empty": False},
    "CV+": {"calibration": "cv+"},
    "minimax, without chance": {"calibration": aptset.Minimax(5), "randomized": False},
    "by label": {"groups": "label"},
    "homogeneous": {"conformity": "homogeneous"},
}


def digits(n_test=400):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], np.array([f"digit {d}" for d in y[order]])
    return X[n_test:], y[n_test:], X[:n_test], y[:n_test]


def model(**settings):
    X, y, X_test, y_test = digits()
    return aptset.ConformalClassifier(GaussianNB(), random_state=0, **settings).fit(X, y), X_test, y_test


def same(found, estimate):
    """The value to the last digit, the interval to nine."""
    value, low, high = found
    assert value == float(estimate) or (math.isnan(value) and math.isnan(estimate))
    if not math.isnan(value):
        assert (low, high) == pytest.approx((estimate.low, estimate.high), rel=1e-9, abs=1e-12)


def judge(classifier, X, y, alpha, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few rows for the smallest levels
        sets = classifier.predict_set(X, alpha)
    return aptset.evaluate(sets, y, alpha=alpha, **more), sets


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_numbers_are_those_of_python_at_every_level(opened, tmp_path, settings):
    classifier, X, y = model(**settings)
    groups = np.where(X.sum(axis=1) > 310, "much ink", "little ink")
    made = aptset.report(classifier, X, y, tmp_path / "r.html", groups=groups, features=X[:, 20:24])
    page = opened(tmp_path / "r.html")
    for alpha in ALPHAS:
        page.type_alpha(alpha)
        evaluation, sets = judge(classifier, X, y, alpha, groups=groups)
        for name, found in page.tiles().items():
            same(found, getattr(evaluation, name))
        for name, coverage, size in (("label", "by_label", "size_by_label"), ("group", "by_group", "size_by_group")):
            table = page.table(name)
            assert table.keys() == getattr(evaluation, coverage).keys()
            for key, row in table.items():
                same((row["coverage"], row["low"], row["high"]), getattr(evaluation, coverage)[key])
                same((row["size"], row["sizeLow"], row["sizeHigh"]), getattr(evaluation, size)[key])
        counts = {size: (evaluation.sizes[size].count, share.count) for size, share in evaluation.by_size.items()}
        assert page.sizes() == counts
        check_rows(page, sets, y)
        worst = made.evaluation.worst_slice.rows
        share = page.page.evaluate("({...document.getElementById('slice').dataset})")
        assert (int(share["covered"]), int(share["rows"])) == (sets.covers(y)[worst].sum(), len(worst))


def check_rows(page, sets, y):
    """The sets of the rows that are shown are the classifier's."""
    covered = sets.covers(y)
    rows = page.rows()
    assert len(rows) == 20
    for row in rows:
        number = int(row["row"])
        assert set(row["labels"]) == set(sets[number].tolist())
        assert (int(row["size"]), row["covered"]) == (sets.sizes[number], str(bool(covered[number])).lower())


FOLDED = {
    "CV+": {"calibration": "cv+"},
    "CV+ by label": {"calibration": aptset.CVPlus(3), "groups": "label"},
    "small folds": {"calibration": aptset.CVPlus(200)},
}


@pytest.mark.parametrize("settings", FOLDED.values(), ids=FOLDED)
def test_the_verdict_on_folds_is_that_of_python(opened, tmp_path, settings):
    classifier, X, y = model(**settings)
    made = aptset.report(classifier, X, np.where(np.arange(len(y)) % 3, y, y[::-1]), tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    origin = made.evaluation.evidence.origin
    opening = page.page.inner_text("#summary")
    for alpha in (0.05, 0.3, 0.7):
        page.slide(alpha) if alpha <= 0.5 else page.type_alpha(alpha)
        chance = folds_chance(origin.folds, Fraction(str(alpha)))
        said = page.page.evaluate("document.getElementById('summary').dataset.chance")
        assert said == "null" if chance is None else float(said) == pytest.approx(chance, rel=1e-8)
    page.page.click("#reset")
    page.settled("0.1")
    assert page.page.inner_text("#summary") == opening, "the script says what Python wrote"
    assert page.page.evaluate("document.getElementById('summary').dataset.kind").startswith("low")


def test_labels_far_below_are_named_by_script_and_python_alike(opened, tmp_path):
    classifier, X, y = model()
    hard = np.array(["digit 3" if name == "digit 8" else name for name in y])  # half of these threes are eights
    aptset.report(classifier, X, hard, tmp_path / "r.html", groups=np.arange(len(y)) % 2)
    page = opened(tmp_path / "r.html")
    opening = page.page.inner_text("#summary")
    assert re.search(r"class digit 3: \d[\d.]* % of", opening)
    assert "less than chance allows" in opening
    page.slide(0.4)
    page.page.click("#reset")
    page.settled("0.1")
    assert page.page.inner_text("#summary") == opening
    assert page.page.locator("#label-table tr.off").count() == 1
    page.type_alpha(1e-7)
    assert page.page.locator("#parts-row").is_hidden()


def test_slider_and_verdict(opened, tmp_path):
    classifier, X, y = model()
    aptset.report(classifier, X, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    opening = page.page.inner_text("#summary")
    for alpha in (0.014, 0.05, 0.3, 0.499):
        page.slide(alpha)
        evaluation, sets = judge(classifier, X, y, alpha)
        assert page.tiles()["coverage"][0] == evaluation.coverage
        test = aptset.coverage_test(sets.covers(y), n=classifier.n_calibration_, alpha=alpha)
        law = page.page.evaluate("({...document.getElementById('summary').dataset})")
        assert [float(law["tooLow"]), float(law["tooHigh"])] == pytest.approx([test.too_low, test.too_high], rel=1e-8)
        assert percent(test.low, 400) in page.page.inner_text("#verdict")
        assert percent(test.high, 400) in page.page.inner_text("#verdict")
        assert f"at least {100 * (1 - alpha):.4g} %." in page.page.inner_text("#promise")
    page.page.click("#reset")
    page.settled("0.1")
    assert page.page.inner_text("#summary") == opening, "the script says what Python wrote"
    page.type_alpha(1e-7)
    assert "every set holds every label" in page.page.inner_text("#verdict")
    page.page.fill("#alpha-number", "1.5")
    page.page.press("#alpha-number", "Enter")
    page.page.wait_for_selector("#alpha-number[aria-invalid=true]")


def test_verdict_of_test_rows_from_elsewhere(opened, tmp_path):
    classifier, X, y = model()
    wrong = np.roll(X, 3, axis=1)
    aptset.report(classifier, wrong, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    assert page.page.get_attribute("#summary", "data-kind") == "low"
    assert "Look for a distribution shift" in page.page.inner_text("#verdict")


def test_filters_and_search(opened, tmp_path):
    classifier, X, y = model(alpha=0.25)
    frame = pd.DataFrame({"ink": X.sum(axis=1), "word": np.where(X[:, 20] > 8, "heavy", "light")})
    aptset.report(classifier, X, y, tmp_path / "r.html", features=frame)
    page = opened(tmp_path / "r.html")
    assert len(page.rows()) == 20
    sets = classifier.predict_set(X)
    rules = {
        "empty": lambda row: row["size"] == "0",
        "one": lambda row: row["size"] == "1",
        "large": lambda row: int(row["size"]) > 2 * sets.sizes.mean(),
        "missed": lambda row: row["covered"] == "false",
    }
    for name, rule in rules.items():
        page.page.click(f"[data-filter={name}]")
        shown = page.rows()
        assert shown
        assert all(map(rule, shown))
        assert page.page.get_attribute(f"[data-filter={name}]", "aria-pressed") == "true"
    page.page.click("[data-filter=all]")
    page.page.click("#examples [data-does=more]")
    assert page.page.locator("#examples .row").count() == 60
    page.page.fill("#search", "HEAVY")
    texts = page.page.locator("#examples .row").all_inner_texts()
    assert texts
    assert all("word = heavy" in text for text in texts)
    page.page.fill("#search", "no such thing")
    assert page.page.inner_text("#shown") == "0 shown"


def test_sorting_by_mouse_and_keyboard(opened, tmp_path):
    classifier, X, y = model()
    aptset.report(classifier, X, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    assert [row["coverage"] for row in page.table("label").values()] == sorted(
        row["coverage"] for row in page.table("label").values()
    )
    page.page.click("#label-table [data-does=sort-name]")
    assert list(page.table("label")) == [f"digit {d}" for d in range(10)]
    page.page.focus("#label-table [data-does=sort-size]")
    for signs in (-1, 1):
        page.page.keyboard.press("Enter")  # the focus stays where it was
        sizes = [signs * row["size"] for row in page.table("label").values()]
        assert sizes == sorted(sizes)
    assert page.page.get_attribute("th:has([data-does=sort-size])", "aria-sort") == "ascending"
    page.page.focus("#alpha")
    page.page.keyboard.press("ArrowRight")
    assert page.settled("0.101") == 0.101
    unnamed = "inputs => inputs.filter(i => !i.labels.length && !i.ariaLabel).length"
    assert page.page.eval_on_selector_all("input", unnamed) == 0


def test_downloads_and_copies(opened, tmp_path):
    classifier, X, y = model()
    aptset.report(classifier, X, y, tmp_path / "r.html", groups=y)
    page = opened(tmp_path / "r.html", permissions=["clipboard-read", "clipboard-write"])
    for figure in ("curve", "sizes", "bysize", "label-figure", "group-figure"):
        picture = ElementTree.fromstring(page.download(f"#{figure} [data-does=svg]"))
        assert picture.tag == "{http://www.w3.org/2000/svg}svg"
        assert not any("var(" in value for part in picture.iter() for value in part.attrib.values()), "stands alone"
        assert any(part.get("fill", "none").startswith("rgb") for part in picture.iter())
    text = page.download("#label-table [data-does=csv]")
    rows = list(csv.DictReader(io.StringIO(text)))
    expected = aptset.evaluate(classifier.predict_set(X), y).by_label
    assert {row["name"]: float(row["coverage"]) for row in rows} == {k: float(v) for k, v in expected.items()}
    page.page.click("#label-table [data-does=copy]")
    page.page.wait_for_selector("text=Copied")
    assert page.page.evaluate("navigator.clipboard.readText()").split() == text.split()
    rows = csv.DictReader(io.StringIO(page.download("#examples [data-does=csv]")))
    sets = classifier.predict_set(X)
    assert all(set(json.loads(row["labels"])) == set(sets[int(row["row"])].tolist()) for row in rows)
    curve = list(csv.DictReader(io.StringIO(page.download("#curve [data-does=csv]"))))
    sets = classifier.predict_set(X, [float(row["nominal"]) for row in curve if row["nominal"] == "0.5"])
    assert [float(row["coverage"]) for row in curve if row["nominal"] == "0.5"] == [sets[0].covers(y).mean()]
