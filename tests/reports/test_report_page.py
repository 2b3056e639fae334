"""The page, detail by detail: rows are found, texts are Python's, nothing gets lost."""

import csv
import io
import json
import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from test_report_browser import check_rows, model
from test_report_numbers import made

import aptset
from aptset.core.levels import rank_at
from aptset.metrics.estimates import percent

WAYS = {
    "split": {},
    "by label": {"groups": "label"},
    "never empty": {"allow_empty": False},
    "CV+": {"calibration": "cv+"},
}


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
def test_the_script_says_what_python_says_at_every_level(opened, tmp_path, settings):
    classifier, X, y = model(**settings)
    y = y.copy()
    y[:3] = "never seen"
    aptset.report(classifier, X, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    for alpha in (0.1, 0.02, 0.25, 0.6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            html = aptset.report(classifier, X, y, alpha=alpha, examples=0).html
        page.type_alpha(alpha)
        for name in ("headline", "promise", "measured", "verdict", "advice"):
            assert page.page.text_content(f"#{name}") == re.search(rf'id="{name}"[^>]*>([^<]*)<', html).group(1)
        assert page.page.get_attribute("#summary", "data-kind") == re.search(r'verdict" data-kind="(\w+)"', html).group(
            1
        )


def test_numbers_are_rounded_as_in_python(opened, tmp_path):
    p_values = np.array([[0.5, 0.01]] * 29 + [[0.01, 0.5]] * 3)  # 29 of 32 are 0.90625, an exact tie
    sets = aptset.PredictionSets.of(p_values > 0.1)
    evaluation = aptset.evaluate(sets, np.zeros(32, int), alpha=0.1, p_values=p_values)
    aptset.report(evaluation, path=tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    texts = page.page.eval_on_selector_all(".tile", "ts => ts.map(t => [t.dataset.value, t.children[1].textContent])")
    assert ["0.90625", "91 %"] in texts
    shares = [(value, text) for value, text in texts if text.endswith("%")]
    others = [(value, text) for value, text in texts if not text.endswith("%")]
    assert all(text == percent(float(value), 32) for value, text in shares)
    assert all(text == ("\N{EN DASH}" if value == "NaN" else f"{float(value):.4g}") for value, text in others)
    assert page.page.inner_text("#live-coverage") == "91 %"


def test_the_rank_is_exact_where_floats_are_not(opened, tmp_path):
    wrong = [
        (n, alpha)
        for n in range(20, 400)
        for alpha in (0.05, 0.1, 0.15, 0.2, 0.3, 0.35, 0.4, 0.7)
        if math.ceil((1 - alpha) * (n + 1)) != rank_at(n, Fraction(str(alpha)))
    ]
    n, alpha = wrong[0]
    calibration, chances, y = made(n)
    aptset.report(calibration, chances, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    page.type_alpha(alpha)
    test = aptset.coverage_test(calibration.predict_set(chances, alpha).covers(y), n=n, alpha=alpha)
    law = page.page.evaluate("({...document.getElementById('summary').dataset})")
    assert [float(law["tooLow"]), float(law["tooHigh"])] == pytest.approx([test.too_low, test.too_high], rel=1e-8)


def numbers_of(page, name):
    page.page.click(f"[data-filter={name}]")
    while page.page.locator("#examples [data-does=more]").count():
        page.page.click("#examples [data-does=more]")
    return {int(row["row"]) for row in page.rows()}


def test_filters_find_every_row_of_their_kind(opened, tmp_path):
    classifier, X, y = model(alpha=0.25)
    aptset.report(classifier, X, y, tmp_path / "r.html", examples=400, groups=X[:, 20] > 8)
    page, sets = opened(tmp_path / "r.html"), classifier.predict_set(X)
    assert ((sets.sizes == 0) & ~sets.covers(y)).any()
    assert numbers_of(page, "missed") == set(np.flatnonzero(~sets.covers(y)).tolist()), "empty sets miss, too"
    assert numbers_of(page, "empty") == set(np.flatnonzero(sets.sizes == 0).tolist())
    assert numbers_of(page, "one") == set(np.flatnonzero(sets.sizes == 1).tolist())
    assert numbers_of(page, "all") == set(range(400))
    page.page.fill("#search", "Digit 7")
    holds = {row for row in range(400) if y[row] == "digit 7" or "digit 7" in sets[row].tolist()}
    assert {int(row["row"]) for row in page.rows()} <= holds
    assert numbers_of(page, "all") == holds, "true labels and labels in the set"
    page.page.fill("#search", "399")
    assert 399 in numbers_of(page, "all")


def test_sorting_by_rows_and_quoting(opened, tmp_path):
    generator = np.random.default_rng(0)
    names = np.array(['a, "b"', "a|b", "line\nbreak", "plain"])
    y = names[generator.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=400)]
    X = generator.normal(size=(400, 2))
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[:200], y[:200])
    aptset.report(classifier, X[200:], y[200:], tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    page.page.click("#label-table [data-does=sort-rows]")
    order = sorted(names, key=lambda name: -(y[200:] == name).sum())
    assert list(page.table("label")) == order
    rows = list(csv.DictReader(io.StringIO(page.download("#label-table [data-does=csv]"), newline="")))
    assert {row["name"]: int(row["rows"]) for row in rows} == {name: (y[200:] == name).sum() for name in names}
    rows = list(csv.DictReader(io.StringIO(page.download("#examples [data-does=csv]"), newline="")))
    sets = classifier.predict_set(X[200:])
    assert len(rows) == 200
    for row in rows:
        assert set(json.loads(row["labels"])) == set(sets[int(row["row"])].tolist())
        assert row["labels_left_out"] == "0"
        assert row["true_label"] == y[200 + int(row["row"])]


def test_labels_that_are_left_out_are_said(opened, tmp_path):
    calibration, chances, y = made(300, 60)
    aptset.report(calibration, chances, y, tmp_path / "r.html", alpha=0.01)
    page, sets = opened(tmp_path / "r.html"), calibration.predict_set(chances, 0.01)
    assert sets.sizes.max() > 35
    for row in csv.DictReader(io.StringIO(page.download("#examples [data-does=csv]"))):
        size, listed = int(sets.sizes[int(row["row"])]), json.loads(row["labels"])
        assert (int(row["size"]), int(row["labels_left_out"])) == (size, size - len(listed))
        assert len(listed) == min(30, size)
    assert "know these only" in page.page.inner_text("#examples-card")
    assert "The first 20 of 60" in page.page.inner_text("#label-figure")


def test_rows_of_a_page_with_tables_follow_the_level(opened, tmp_path, limits):
    classifier, X, y = model()
    limits(page_cells=10)
    aptset.report(classifier, X, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    for alpha in (0.3, 0.02, 0.1):
        page.type_alpha(alpha)
        check_rows(page, classifier.predict_set(X, alpha), y)


MOVE = "a => { const s = document.getElementById('alpha'); s.value = a; s.dispatchEvent(new Event('input')); }"


def test_the_focus_is_not_lost(opened, tmp_path):
    classifier, X, y = model()
    aptset.report(classifier, X, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html")
    moves = [
        (0.2, "#sizes [data-does=svg]"),
        (0.21, "#curve [data-does=csv]"),
        (0.22, "#label-table [data-does=sort-size]"),
    ]
    for alpha, button in moves:
        page.page.focus(button)
        page.page.evaluate(MOVE, alpha)
        page.settled(str(alpha))
        assert page.page.evaluate("b => document.activeElement === document.querySelector(b)", button)
    page.page.focus("#examples [data-does=more]")
    page.page.keyboard.press("Enter")
    assert page.page.evaluate("[...document.querySelectorAll('#examples .row')].indexOf(document.activeElement)") == 20


def test_what_is_shown_is_also_said(opened, tmp_path):
    classifier, X, y = model()
    aptset.report(classifier, X, y, tmp_path / "r.html")
    page = opened(tmp_path / "r.html").page
    for kind, text in ((".label.in:not(.true)", "(in the set)"), (".label.in.true", "(in the set, true label)")):
        said = page.locator(f"#examples {kind}:has(.name) .visually-hidden").all_text_contents()
        assert len(said) == page.locator(f"#examples {kind}:has(.name)").count()
        assert {one.strip() for one in said} == {text}
    buttons = page.eval_on_selector_all(".tools button", "bs => bs.map(b => b.ariaLabel)")
    assert None not in buttons
    assert len(set(buttons)) == len(buttons), "every button has its own name"
    page.fill("#alpha-number", "1.5")
    page.press("#alpha-number", "Enter")
    page.wait_for_selector("#alpha-number[aria-invalid=true]")
    assert "alpha must lie between 0 and 1" in page.inner_text("#alpha-error[role=alert]")
    page.fill("#alpha-number", "0.2")
    page.press("#alpha-number", "Enter")
    page.wait_for_selector("#alpha-number[aria-invalid=false]")
    assert page.inner_text("#alpha-error") == ""


def test_few_red_marks_where_all_is_well(opened, tmp_path):
    """Of 300 labels, each with its own luck: one table in 100 may have a mark."""
    generator = np.random.default_rng(5)
    y = generator.integers(300, size=12_000)
    chances = generator.dirichlet(np.ones(300), size=12_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibration = aptset.calibrate(chances[:6000], y[:6000], groups="label", random_state=0)
        aptset.report(calibration, chances[6000:], y[6000:], tmp_path / "r.html", alpha=0.2)
    page = opened(tmp_path / "r.html").page
    page.click("#label-table [data-does=all]")
    assert page.locator("#label-table tbody tr").count() == 300
    assert page.locator("#label-table tr.off").count() == 0


def test_labels_far_below_are_marked(opened, tmp_path):
    classifier, X, y = model()
    frame = pd.Series(y).where(np.arange(len(y)) % 3 > 0, "digit 3").to_numpy(dtype=object)
    aptset.report(classifier, X, frame, tmp_path / "r.html")
    marked = opened(tmp_path / "r.html").page.eval_on_selector_all("tr.off", "rows => rows.map(r => r.dataset.name)")
    assert marked == ["digit 3"]
