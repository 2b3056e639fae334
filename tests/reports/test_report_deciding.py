"""The panel of the report that says who decides."""

import re

import numpy as np
from sklearn.linear_model import LogisticRegression

import aptset

generator = np.random.default_rng(0)
Y = generator.integers(3, size=1800)
X = np.column_stack([2 * Y + generator.normal(size=1800), generator.normal(size=1800)])


def test_the_panel_has_what_the_rules_give():
    classifier = aptset.ConformalClassifier(LogisticRegression(), random_state=0).fit(X[:1200], Y[:1200])
    html = aptset.report(classifier, X[1200:], Y[1200:]).html
    (panel,) = re.findall(r'<section class="card" id="deciding-card">.*?</section>', html, flags=re.DOTALL)
    assert "Promised" in panel
    assert "Estimated" in panel
    rule, P = classifier.acceptance_, classifier.predict_proba(X[1200:])
    act = rule.accept(P, 0.1)
    row = next(line for line in re.findall(r"<tr>(.*?)</tr>", panel) if line.startswith("<td>10 %</td>"))
    cells = re.findall(r"<td>(.*?)</td>", row)
    assert cells[3] == f"{100 * act.mean():.4g} %"
    by_threshold = rule.threshold(0.1, 0.9).accept(P)
    assert cells[1] == f"{100 * by_threshold.mean():.4g} %"


def test_sources_without_rows_have_no_panel():
    folds = aptset.ConformalClassifier(LogisticRegression(), calibration="cv+", random_state=0).fit(X[:300], Y[:300])
    assert 'id="deciding-card"' not in aptset.report(folds, X[1200:], Y[1200:]).html
    P = folds.predict_proba(X)
    calibration = aptset.calibrate(P[300:900], Y[300:900], random_state=0)
    assert 'id="deciding-card"' not in aptset.report(calibration, P[1200:], Y[1200:]).html
