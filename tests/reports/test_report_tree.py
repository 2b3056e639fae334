"""A tree of labels on the page: every row that is shown has its set with whole nodes, at any level."""

import csv
import io
import json

import numpy as np
import pytest

import aptset

GROUPS = {f"label {k}": f"group {k // 3}" for k in range(12)} | {f"group {k}": f"half {k // 2}" for k in range(4)}


@pytest.fixture(scope="module")
def judged():
    generator = np.random.default_rng(0)
    P = generator.dirichlet(np.full(12, 0.4), size=400)
    columns = (generator.random((400, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
    classes = np.array(sorted(f"label {k}" for k in range(12)))
    return aptset.calibrate(P[:200], classes[columns[:200]], classes=classes, random_state=0), P, classes[columns]


def test_the_page_writes_sets_with_whole_nodes_at_any_level(judged, opened, tmp_path):
    calibration, P, labels = judged
    taxonomy, ids = aptset.Taxonomy(GROUPS), np.arange(200)
    page = tmp_path / "page.html"
    aptset.report(calibration, P[200:], labels[200:], page, taxonomy=taxonomy, examples=20, ids=ids)
    shown = opened(page)
    for alpha in (0.1, 0.3, 0.01):
        shown.type_alpha(alpha)
        rolled = calibration.predict_set(P[200:], alpha=alpha, ids=ids).roll_up(taxonomy)
        take = "rows => rows.map(r => [r.dataset.row, r.querySelector('.nodes')?.textContent || ''])"
        texts = dict(shown.page.eval_on_selector_all("#examples .row", take))
        assert len(texts) == 20
        for row, text in texts.items():
            nodes = rolled[int(row)].tolist()
            assert text == (f"in the tree: {', '.join(nodes)}" if nodes else "")
    lines = list(csv.DictReader(io.StringIO(shown.download("#examples [data-does=csv]"))))
    assert {line["row"]: json.loads(line["nodes"]) for line in lines} == {
        row: rolled[int(row)].tolist() for row in texts
    }
    shown.page.fill("#search", "half 0")
    kept = {int(row["row"]) for row in shown.rows()}
    assert kept == {int(row) for row in texts if "half 0" in rolled[int(row)].tolist()}


def test_a_page_without_a_tree_says_nothing_about_one(judged):
    calibration, P, labels = judged
    html = aptset.report(calibration, P[200:], labels[200:]).html
    assert '"tree":null' in html
    assert "Tree of labels" not in html
    with pytest.raises(TypeError, match=r"taxonomy must be an aptset.Taxonomy; got dict"):
        aptset.report(calibration, P[200:], labels[200:], taxonomy=GROUPS)
    with pytest.raises(ValueError, match="taxonomy must have every label"):
        aptset.report(calibration, P[200:], labels[200:], taxonomy=aptset.Taxonomy({"label 1": "group 1"}))
    assert json.loads(html[html.index('id="data">') + 10 : html.index("</script>", html.index('id="data">'))])
