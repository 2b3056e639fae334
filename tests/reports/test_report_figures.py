"""Figures stand where their numbers are."""

import itertools

import numpy as np
import pytest
from test_report_browser import model

import aptset

TAKE = """parts => parts.map(p => ({
    tag: p.tagName, text: p.textContent, ...Object.fromEntries([...p.attributes].map(a => [a.name, a.value]))}))"""


def parts_of(page, figure, kind):
    return page.page.eval_on_selector_all(f"#{figure} svg {kind}", TAKE)


def is_tick(line, text):
    return line.get("class") == "axis" and text["tag"] == "text"


def in_words(text):
    """Return the number that a tick stands for: a share is written in percent."""
    return float(text.removesuffix(" %")) / (100 if text.endswith(" %") else 1)


def scale_of(page, figure, way):
    """Return how places along an axis become numbers, from the ticks that are drawn: a line, then its number."""
    drawn = parts_of(page, figure, "> *")
    pairs = [
        (float(line[f"{way}1"]), in_words(text["text"]))
        for line, text in itertools.pairwise(drawn)
        if is_tick(line, text)
    ]
    (first, low), (last, high) = pairs[0], pairs[-1]
    assert len(pairs) >= 2
    return lambda place: low + (float(place) - first) * (high - low) / (last - first)


def test_figures_stand_where_their_numbers_are(opened, tmp_path):
    classifier, X, y = model()
    made_of = aptset.report(classifier, X, y, tmp_path / "r.html", groups=X[:, 20] > 8)
    page, evaluation = opened(tmp_path / "r.html"), made_of.evaluation
    for figure in ("curve", "sizes", "bysize", "label-figure", "group-figure"):
        ticks = [
            text["text"] for line, text in itertools.pairwise(parts_of(page, figure, "> *")) if is_tick(line, text)
        ]
        assert all(tick.endswith(" %") for tick in ticks), figure
    metrics = page.page.eval_on_selector_all(
        "#metrics-card tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    shares = {words: value for words, value, *_ in metrics}
    assert shares["coverage"] == f"{100 * float(evaluation.coverage):.4g} %"
    assert shares["mean size"] == f"{float(evaluation.mean_size):.4g}"
    to_share = scale_of(page, "sizes", "y")
    bars = parts_of(page, "sizes", "g .bar")
    heights = [to_share(bar["y"]) - to_share(float(bar["y"]) + float(bar["height"])) for bar in bars]
    assert heights == pytest.approx([one.count / 400 for one in evaluation.by_size.values()], abs=1e-4)
    missed = [
        to_share(bar["y"]) - to_share(float(bar["y"]) + float(bar["height"]))
        for bar in parts_of(page, "sizes", "g .miss")
    ]
    assert missed == pytest.approx([(one.n - one.count) / 400 for one in evaluation.by_size.values()], abs=1e-4)
    needed = aptset.coverage_by(evaluation.evidence.sets, y, evaluation.evidence.needed.of_row)
    to_share, known = scale_of(page, "bysize", "y"), list(needed.values())
    assert [to_share(dot["cy"]) for dot in parts_of(page, "bysize", ".dot")] == pytest.approx(known, abs=1e-4)
    ends = [(to_share(line["y1"]), to_share(line["y2"])) for line in parts_of(page, "bysize", ".whisker")]
    assert np.array(ends) == pytest.approx(np.array([(v.low, v.high) for v in known]), abs=1e-4)
    for name, expected in (("label", evaluation.by_label), ("group", evaluation.by_group)):
        to_share, names = scale_of(page, f"{name}-figure", "x"), list(page.table(name))
        values = {str(key): value for key, value in expected.items()}
        dots = [to_share(dot["cx"]) for dot in parts_of(page, f"{name}-figure", ".dot")]
        assert dots == pytest.approx([values[key] for key in names], abs=1e-4)


def test_the_curve_and_its_band_stand_where_their_numbers_are(opened, tmp_path):
    classifier, X, y = model()
    frame = aptset.report(classifier, X, y, tmp_path / "r.html").evaluation.plot("curve").frame()
    page = opened(tmp_path / "r.html")
    to_share = scale_of(page, "curve", "y")

    def heights(points):
        return np.array([to_share(point.split(",")[1]) for point in points.split()])

    (band,), (curve,) = parts_of(page, "curve", ".band"), parts_of(page, "curve", "polyline.curve")
    found = heights(band["points"])
    assert found[:100] == pytest.approx(frame["low"].to_numpy(), abs=1e-3)
    assert found[100:][::-1] == pytest.approx(frame["high"].to_numpy(), abs=1e-3)
    assert heights(curve["points"]) == pytest.approx(frame["coverage"].to_numpy(), abs=1e-3)
    (dot,) = parts_of(page, "curve", ".dot")
    assert to_share(dot["cy"]) == pytest.approx(page.tiles()["coverage"][0], abs=1e-4)


def test_coverage_by_difficulty_is_that_of_python_at_every_level(opened, tmp_path, limits):
    """The rows of each difficulty stay the same when the level moves; without probabilities sizes take their place."""
    classifier, X, y = model()
    made_of = aptset.report(classifier, X, y, tmp_path / "r.html")
    limits(page_cells=0)
    aptset.report(classifier, X, y, tmp_path / "tables.html")
    by = made_of.evaluation.evidence.needed.of_row
    for name in ("r.html", "tables.html"):
        page = opened(tmp_path / name)
        for alpha in (0.1, 0.3):
            page.type_alpha(alpha)
            known = aptset.coverage_by(classifier.predict_set(X, alpha), y, by)
            lines = page.download("#bysize [data-does=csv]").split()
            assert lines[0] == "labels_needed,rows,covered,low,high"
            assert [line.split(",")[:3] for line in lines[1:]] == [
                [str(size), str(value.n), str(value.count)] for size, value in known.items()
            ]
    sets, p_values = classifier.sets_and_p_values(X)
    bare = aptset.evaluate(sets, y, alpha=0.1, p_values=p_values)
    aptset.report(bare, path=tmp_path / "bare.html")
    page = opened(tmp_path / "bare.html")
    to_share, known = scale_of(page, "bysize", "y"), [v for size, v in bare.by_size.items() if size]
    assert [to_share(dot["cy"]) for dot in parts_of(page, "bysize", ".dot")] == pytest.approx(known, abs=1e-4)
    assert "even with a perfect model" in page.page.inner_text("#bysize-card")
