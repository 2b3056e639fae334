"""What is computed for the page, what is refused, and the figures for notebooks; no browser needed."""

import base64
import json
import re
import subprocess
import sys
import zlib

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import aptset
from aptset.metrics.evaluation_rows import coverage_curve
from aptset.reports.making import as_json
from aptset.reports.measures import pack
from shell import failure, run


def unpack(packed):
    width = int(packed["kind"][1])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), dtype=np.uint8)
    return planes.reshape(width, packed["length"]).T.copy().view(f"<{packed['kind']}").ravel()


def made(n=300, n_classes=4, seed=0, **settings):
    generator = np.random.default_rng(seed)
    chances = generator.dirichlet(np.full(n_classes, 0.5), size=2 * n)
    y = (generator.random((2 * n, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    calibration = aptset.calibrate(chances[:n], y[:n], random_state=0, **settings)
    return calibration, chances[n:], y[n:]


def data_of(report):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', report.html, re.S).group(1)
    return json.loads(text)


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 255]),
        np.array([0, 256]),
        np.array([2**31]),
        np.array([2**40]),
        np.array([0.1, 1 / 3]),
        np.array([], int),
    ],
)
def test_packing_loses_nothing(values):
    assert unpack(pack(values)).tolist() == values.tolist()


def test_every_p_value_is_in_the_page():
    calibration, chances, y = made()
    data = data_of(aptset.report(calibration, chances, y))
    levels, places = unpack(data["columns"]["levels"]), unpack(data["columns"]["steps"]).reshape(4, -1)
    p_values = np.sort(calibration.p_values(chances), axis=1)[:, ::-1]
    assert sorted(map(tuple, levels[places.T - 1].tolist())) == sorted(map(tuple, p_values.tolist()))


@pytest.mark.parametrize("settings", [{}, {"allow_empty": False}, {"groups": "label"}])
def test_tables_at_levels_say_the_same_as_all_p_values(limits, settings):
    calibration, chances, y = made(**settings)
    limits(page_cells=10)
    limits(measured_cells=5000)  # some rows at a time
    data = data_of(aptset.report(calibration, chances, y, alpha=0.07))
    assert data["mode"] == "levels"
    assert 0.07 in data["alphas"]
    histogram = unpack(data["columns"]["histogram"]).reshape(len(data["alphas"]), 5, 2)
    covered = unpack(data["columns"]["label_covered"]).reshape(4, -1)
    squares = unpack(data["columns"]["label_squares"]).reshape(4, -1)
    for alpha in data["alphas"][8::7]:
        at = data["alphas"].index(alpha)
        sets = calibration.predict_set(chances, alpha)
        hits = sets.covers(y)
        pairs = [np.bincount(sets.sizes[hits == hit], minlength=5) for hit in (False, True)]
        assert histogram[at].T.tolist() == [pair.tolist() for pair in pairs]
        assert covered[:, at].tolist() == [hits[y == label].sum() for label in range(4)]
        assert squares[:, at].tolist() == [(sets.sizes[y == label] ** 2).sum() for label in range(4)]


def test_evaluation_draws_the_curve_and_gives_its_table():
    calibration, chances, y = made()
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    evaluation = aptset.evaluate(sets, y, alpha=0.1, p_values=p_values, probabilities=chances, n=calibration.n)
    frame = evaluation.plot("curve").frame()
    at = np.flatnonzero(frame["nominal"] == 0.9)[0]
    assert frame["coverage"][at] == evaluation.coverage
    assert frame["low"][at] <= frame["coverage"][at] <= frame["high"][at]
    axes = evaluation.plot("curve").draw()
    assert len(axes.lines) == 2
    assert len(axes.collections) == 1
    axes.figure.clf()
    page = aptset.report(evaluation)
    assert page.evaluation is evaluation
    assert data_of(page)["laws"] == [[300, 300]]
    without = aptset.evaluate(sets, y, alpha=0.1)
    with pytest.raises(ValueError, match=r"kind .curve. needs p_values: pass p_values="):
        without.plot("curve")
    assert "low" not in coverage_curve(aptset.evaluate(sets, y, alpha=0.1, p_values=p_values).evidence)


def test_sets_that_were_filled_are_recognised():
    calibration, chances, y = made(allow_empty=False)
    alpha = 0.5
    sets, p_values = calibration.predict_set(chances, alpha), calibration.p_values(chances)
    assert (p_values <= alpha).all(axis=1).any()
    evaluation = aptset.evaluate(sets, y, alpha=alpha, p_values=p_values, probabilities=chances, n=calibration.n)
    for other in (0.1, 0.5, 0.8):
        expected = calibration.predict_set(chances, other).covers(y)
        assert evaluation.evidence.covered_at(other).tolist() == expected.tolist()
    assert evaluation.evidence.origin.is_upper_open


def test_what_is_refused():
    calibration, chances, y = made(50)
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    with pytest.raises(ValueError, match="evaluation must know the p-values"):
        aptset.report(aptset.evaluate(sets, y))
    with pytest.raises(ValueError, match=r"p_values must exceed alpha=0.2 exactly"):
        aptset.evaluate(sets, y, alpha=0.2, p_values=p_values)
    with pytest.raises(ValueError, match="alpha must be given with p_values"):
        aptset.evaluate(sets, y, p_values=p_values)
    with pytest.raises(ValueError, match=r"p_values must be a matrix of numbers \(rows, classes\) = \(50, 4\)"):
        aptset.evaluate(sets, y, alpha=0.1, p_values=p_values[:, :3])
    with pytest.raises(ValueError, match="p_values must be between 0 and 1"):
        aptset.evaluate(sets, y, alpha=0.1, p_values=p_values + 1)
    with pytest.raises(TypeError, match="source must be an Evaluation"):
        aptset.report(GaussianNB(), chances, y)
    with pytest.raises(TypeError, match="X and y must be given"):
        aptset.report(calibration, chances)
    with pytest.raises(ValueError, match=r"path must end in \.html"):
        aptset.report(calibration, chances, y, "page.pdf")
    with pytest.raises(ValueError, match="examples must be a whole number"):
        aptset.report(calibration, chances, y, examples=-1)
    evaluation = aptset.evaluate(sets, y, alpha=0.1, p_values=p_values)
    with pytest.raises(TypeError, match="X and y must be left out"):
        aptset.report(evaluation, chances, y)


def test_labels_that_no_set_can_hold_are_missed():
    calibration, chances, y = made(100)
    report = aptset.report(calibration, chances, np.where(np.arange(100) < 30, 99, y))
    assert report.evaluation.by_label[99] == 0
    assert unpack(data_of(report)["columns"]["truth"]).tolist().count(0) == 30


def test_the_same_input_gives_the_same_bytes_and_the_policy_names_its_script():
    calibration, chances, y = made()
    pages = [aptset.report(calibration, chances, y).html for _ in range(2)]
    assert pages[0] == pages[1]
    assert "unsafe" not in re.search(r'Content-Security-Policy" content="([^"]*)"', pages[0]).group(1)
    assert not re.search(r"(src|href)=[\"']?(http|//)", pages[0])


def test_json_cannot_leave_its_element():
    text = as_json({"a": "</script><!--\u2028", "b": "\ud800"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["a"] == "</script><!--\u2028"


def test_without_jinja_there_is_one_clear_error():
    code = (
        "import sys; sys.modules['jinja2'] = None; import aptset; p = [[.9, .1]] * 30; "
        "aptset.report(aptset.calibrate(p, [0] * 30), p, [0] * 30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: aptset.report needs jinja2")


def test_frames_and_missing_groups():
    calibration, chances, y = made(800)
    groups = pd.Series(["a", None, "b", float("nan")] * 200)
    features = pd.DataFrame({"x": chances[:, 0], "kind": ["p", "q"] * 400})
    report = aptset.report(calibration, chances, y, groups=groups, features=features)
    assert set(data_of(report)["names"]["group"]) == {"a", "b", "None"}
    assert re.search(r"kind is [pq] \(\d+ % of them, 50 % of all\)", report.html)
    assert report._repr_html_().startswith("<iframe srcdoc=")


def test_rows_that_cannot_be_sliced():
    generator = np.random.default_rng(0)
    words = np.array(["red apple", "green pear", "blue plum"])
    y = generator.integers(3, size=300)
    texts = words[np.where(generator.random(300) < 0.8, y, generator.integers(3, size=300))].tolist()
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    classifier = aptset.ConformalClassifier(pipeline, random_state=0).fit(texts[:150], y[:150])
    report = aptset.report(classifier, texts[150:], y[150:])
    assert report.evaluation.worst_slice is None
    assert {example["text"] for example in data_of(report)["examples"]} == set(words)
    X = generator.normal(size=(300, 2))
    X[::7, 0] = np.nan
    forest = RandomForestClassifier(5)
    gaps = aptset.report(aptset.ConformalClassifier(forest, random_state=0).fit(X[:150], y[:150]), X[150:], y[150:])
    assert gaps.evaluation.worst_slice is not None, "what is missing can be a slice"


def test_groups_of_calibration_and_guaranteed_levels():
    generator = np.random.default_rng(0)
    X, groups = generator.normal(size=(600, 2)), generator.choice(["a", "b"], size=600)
    y = (X[:, 0] + generator.normal(size=600) > 0).astype(int)
    half = slice(300, None)
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[:300], y[:300], groups=groups[:300])
    report = aptset.report(classifier, X[half], y[half], groups=groups[half], alpha=0.2)
    sets = classifier.predict_set(X[half], 0.2, groups=groups[half])
    assert report.evaluation.coverage == aptset.coverage(sets, y[half])
    sizes = classifier.fitted_.held_out.sizes.tolist()
    assert sorted(n for _, n in data_of(report)["laws"]) == sorted(sizes)
    assert sum(m for m, _ in data_of(report)["laws"]) == 300
    sure = aptset.ConformalClassifier(GaussianNB(), calibration="cv+", level="guaranteed", alpha=0.2, random_state=0)
    sure.fit(X[:300], y[:300])
    data = data_of(aptset.report(sure, X[half], y[half]))
    assert data["alpha"] == sure.input_level() < 0.2
    assert max(1 - c - s * data["alpha"] for c, s in data["losses"][0]) == pytest.approx(0.8)


def test_command_on_probabilities_and_on_a_table(folder):
    run("calibrate", folder / "val.parquet", "--label", "y", "-o", folder / "c.aptset", "--prefix", "p_")
    page = folder / "page.html"
    options = ["--label", "y", "--prefix", "p_", "-c", folder / "c.aptset", "-o", page]
    done = run("report", folder / "new.csv", *options, "--alpha", 0.2, "--json")
    assert json.loads(done.stdout)["n"] == 1200
    assert page.read_text().startswith("<!doctype html>")
    table = pd.read_parquet(folder / "new.parquet")
    table.iloc[::9, 0] = np.nan
    table.to_csv(folder / "table.csv", index=False)
    run("report", folder / "table.csv", "--target", "y", "-o", page, "--title", "A <b> title", "--groups", "note")
    assert "A &lt;b&gt; title" in page.read_text()
    assert "must end in .html" in failure("report", folder / "new.csv", *options[:-1], folder / "x.txt")


@pytest.mark.parametrize("groups", [None, "label"])
def test_the_page_says_what_a_monitor_would_have_said(groups):
    calibration, chances, y = made(groups=groups)
    page = aptset.report(calibration, chances, y, alpha=0.2).html
    covered = calibration.predict_set(chances, 0.2).covers(y)
    by_hand = calibration.monitor(0.2).update(covered, None if groups is None else y)
    words = f"{by_hand.evidence_in_words()} (100 would be an alarm)"
    assert f"<dt>Monitor along the test rows</dt><dd>{words}</dd>" in page
    assert words.startswith(f"evidence {by_hand.evidence:.3g}, {by_hand.peak:.3g} at its peak")


def test_a_monitor_is_silent_where_misses_follow_no_urn():
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([1.0, 1.0, 1.0], size=60)
    few = aptset.calibrate(chances[:5], chances[:5].argmax(axis=1), random_state=0)
    with pytest.warns(UserWarning, match="too few"):
        page = aptset.report(few, chances[5:], chances[5:].argmax(axis=1)).html
    assert "Monitor along" not in page
