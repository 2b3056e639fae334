"""Is coverage even, in one number: the definition, the level of its test, what it sees, and where it is shown."""

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import aptset
from aptset.metrics import METRICS, ON_REQUEST


def sets_of(covered):
    """Return sets of two labels, and true labels, of which those rows are covered."""
    return np.column_stack([covered, ~covered]), np.zeros(len(covered), dtype=int)


def rows(n, chances=0.9, seed=0, features=3):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, features))
    chance = chances(X) if callable(chances) else chances
    return X, *sets_of(generator.random(n) < chance)


class Spy(ClassifierMixin, BaseEstimator):
    """Takes the number of the row for its only feature, and writes down what it saw; its guesses are eighths."""

    seen = []  # noqa: RUF012

    def fit(self, X, y):
        self.classes_, self.rows_ = np.unique(y), X[:, 0].astype(int)
        return self

    def predict_proba(self, X):
        share = (7 + X[:, 0].astype(int) % 2) / 8  # below and above 0.9: 7/8 and 1
        Spy.seen.append((set(self.rows_.tolist()), X[:, 0].astype(int).tolist(), share.tolist()))
        return np.column_stack([1 - share, share])


@pytest.mark.parametrize("n", [50, 173, 400])
def test_each_block_is_judged_by_a_model_of_the_rows_before_it(n):
    Spy.seen = []
    _, sets, truth = rows(n, 0.8)
    found = aptset.coverage_unevenness(sets, truth, np.arange(n)[:, None], 0.1, estimator=Spy(), random_state=3)
    assert len(Spy.seen) == 8
    trained = Spy.seen[0][0]
    assert len(trained) == round(0.2 * n)
    sides = {-1: Fraction(0), 1: Fraction(0)}
    for before, block, shares in Spy.seen:
        assert before == trained
        assert not before & set(block)
        trained = trained | set(block)
        for row, share in zip(block, shares, strict=True):
            side = 1 if Fraction(share) > Fraction(9, 10) else -1
            sides[side] += side * (int(sets[row, 0]) - Fraction(9, 10)) / (n - round(0.2 * n))
    assert trained == set(range(n))
    assert abs(found - float(sides[-1] + sides[1])) < 1e-12
    assert abs(found.under - float(sides[-1])) < 1e-12
    assert abs(found.over - float(sides[1])) < 1e-12
    assert found.n == n - round(0.2 * n)


def test_the_interval_z_and_the_chance_come_from_one_standard_error():
    X, sets, truth = rows(400, lambda X: np.where(X[:, 0] > 0, 0.8, 1.0))
    found = aptset.coverage_unevenness(sets, truth, X, 0.1, estimator=GaussianNB(), confidence=0.9)
    assert abs(found.z - found / found.standard_error) < 1e-12
    assert abs(found.chance - norm.sf(found.z)) < 1e-12
    assert abs(found.high - (found + norm.ppf(0.95) * found.standard_error)) < 1e-12
    assert abs((found - found.low) - (found.high - found)) < 1e-12
    assert abs(found - (found.over + found.under)) < 1e-12
    copy = pickle.loads(pickle.dumps(found))
    assert repr(copy) == repr(found)
    assert repr(copy.over) == repr(found.over)
    assert "GaussianNB" in repr(found)
    again = aptset.coverage_unevenness(sets, truth, X, 0.1, estimator=GaussianNB(), confidence=0.9)
    assert repr(again) == repr(found)


@pytest.mark.parametrize("model", [GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)], ids=str)
def test_even_coverage_raises_no_more_alarms_than_allowed(model):
    """60 samples with coverage 0.9 everywhere, at 5 %.

    If each raises an alarm with 0.065 at the most, more than 16 come in less than one of 10^6 cases (binomial); the
    mean of 60 values of z, normal if the level is kept, exceeds 0.65 in less than one of 10^6. The level to two digits
    is in docs/design/simulations/unevenness.py: 0.055 and 0.051, with standard errors of 0.007.
    """
    values = []
    for seed in range(60):
        X, sets, truth = rows(300, seed=seed)
        values.append(aptset.coverage_unevenness(sets, truth, X, 0.1, estimator=model, random_state=seed))
    assert sum(value.is_more_than_chance for value in values) <= 16
    assert abs(np.mean([value.z for value in values])) < 0.65


def test_uneven_coverage_is_seen_and_its_parts_are_told_apart():
    """True values: 0.16 of the rows at 0.7, the others at 0.938: under and over 0.032 each, of which a part is seen."""
    X, sets, truth = rows(4000, lambda X: np.where(X[:, 0] > 1, 0.7, 0.938))
    found = aptset.coverage_unevenness(sets, truth, X, 0.1)
    assert found.chance < 1e-6
    assert 0.03 < found < 0.08
    assert 0.015 < found.under < 0.045
    assert 0.015 < found.over < 0.045
    assert found.model == "gradient boosting"
    over = aptset.coverage_unevenness(*sets_of(np.ones(4000, dtype=bool)), X, 0.1)
    assert over == over.over == pytest.approx(0.1)
    assert over.under == 0


def test_rows_without_a_miss_say_little_where_few_are_expected():
    X = np.random.default_rng(0).normal(size=(150, 2))
    assert not aptset.coverage_unevenness(*sets_of(np.ones(150, dtype=bool)), X, 0.01).is_more_than_chance
    few = aptset.coverage_unevenness(*sets_of(np.ones(49, dtype=bool)), X[:49], 0.01)
    assert np.isnan(few)
    assert repr(few) == "none (n=49)"


def test_labels_and_rows_with_levels_of_their_own_are_held_to_them():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1000, 2))
    truth = (X[:, 0] > 0).astype(int)
    covered = generator.random(1000) < np.where(truth == 1, 0.95, 0.7)
    sets = np.zeros((1000, 2), dtype=bool)
    sets[np.arange(1000), truth] = covered
    levels = {0: 0.3, 1: 0.05}
    model = {"estimator": DecisionTreeClassifier(max_depth=2, random_state=0)}
    own = aptset.coverage_unevenness(sets, truth, X, levels, **model)
    assert own.chance > 0.01
    assert aptset.coverage_unevenness(sets, truth, X, 0.175, **model).chance < 1e-6
    each = aptset.coverage_unevenness(sets, truth, X, [levels[label] for label in truth.tolist()], **model)
    assert repr(each) == repr(own)
    texts = np.array(["south", "north"])[truth].tolist()
    by_group = {"south": 0.3, "north": 0.05}
    named = aptset.evaluate(sets, truth, X, texts, alpha=by_group, extra_metrics=["coverage_unevenness"])
    assert named.coverage_unevenness.chance > 0.01
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(ValueError, match=r"estimator could not be fitted on X.*whose fit takes weights"):
        aptset.coverage_unevenness(sets, truth, X, levels, estimator=pipeline)


def test_rows_of_one_cluster_are_never_on_both_sides():
    """Copies know each other's misses: by rows that is unevenness, by clusters it is none."""
    X, sets, truth = rows(300)
    copies = np.repeat(np.arange(300), 8)
    settings = {"alpha": 0.1, "extra_metrics": "coverage_unevenness"}
    by_row = aptset.evaluate(sets[copies], truth[copies], X[copies], **settings).coverage_unevenness
    own = aptset.evaluate(sets[copies], truth[copies], X[copies], clusters=copies, **settings).coverage_unevenness
    assert by_row.chance < 1e-4
    assert own.chance > 0.01
    assert own.n == 240


def test_texts_and_gaps_are_read_and_what_cannot_be_is_refused_in_words():
    X, sets, truth = rows(600, lambda X: np.where(X[:, 0] > 0.5, 0.6, 0.98))
    frame = pd.DataFrame(
        {"where": np.where(X[:, 0] > 0.5, "south", "north"), "x": np.where(X[:, 1] > 1, np.nan, X[:, 1])}
    )
    frame.loc[::7, "where"] = None
    measure = aptset.coverage_unevenness
    named = measure(sets, truth, frame.assign(name=[f"row {row}" for row in range(600)]), 0.1)
    assert named.left_out == ("name (600 different values)",)
    assert "left out: name" in repr(named)
    assert measure(sets, truth, frame, 0.1).chance < 1e-6
    assert measure(sets, truth, X.tolist(), 0.1).chance < 1e-6
    assert measure(sets, truth, csr_array(X), 0.1, estimator=LogisticRegression()).model == "LogisticRegression"
    bad = [
        (lambda: measure(sets, truth, frame, 0.1, estimator=LogisticRegression()), "could not be fitted on X: .*Leave"),
        (lambda: measure(sets, truth, csr_array(X), 0.1), "X must be dense for the default estimator.*Logistic"),
        (lambda: measure(sets, truth, X), "alpha must be given"),
        (lambda: measure(sets, truth, X, 1.5), "alpha must be in"),
        (lambda: measure(sets, truth, X, [0.1, 0.2]), "alpha must have one entry per row: 600 rows, but 2"),
        (lambda: measure(sets, truth, X, {1: 0.1}), "alpha must name the level of every label"),
        (lambda: measure(sets, truth, X[1:], 0.1), "X must have one row per set"),
        (lambda: measure(sets, truth, X[1:], 0.1, estimator=GaussianNB()), "X must have one entry per row"),
        (lambda: measure(sets, truth, np.full((600, 1), np.inf), 0.1), "X must be finite"),
        (lambda: measure(sets, truth, X, 0.1, estimator=StandardScaler()), "estimator must have fit and predict_proba"),
        (lambda: measure(sets, truth, X, 0.1, confidence=2), "confidence must be"),
    ]
    for made, words in bad:
        with pytest.raises((TypeError, ValueError), match=words):
            made()


def test_it_is_measured_where_it_is_named_and_nowhere_else(tmp_path):
    X, sets, truth = rows(300)
    assert aptset.evaluate(sets, truth, X, alpha=0.1).coverage_unevenness is None
    found = aptset.evaluate(sets, truth, X, alpha=0.1, extra_metrics="coverage_unevenness")
    expected = aptset.coverage_unevenness(sets, truth, X, 0.1)
    assert repr(found.coverage_unevenness) == repr(expected)
    assert f"unevenness of coverage       {expected!r}" in repr(found)
    assert "coverage_unevenness" in found.to_frame()["metric"].tolist()
    assert not set(ON_REQUEST) & set(METRICS)
    for wrong in ({"extra_metrics": "size"}, {"X": None}, {"alpha": None}):
        settings = {"X": X, "alpha": 0.1, "extra_metrics": ["coverage_unevenness"], **wrong}
        with pytest.raises(ValueError, match=r"extra_metrics must be one of|come with X|alpha must be given"):
            aptset.evaluate(sets, truth, **settings)


def test_reports_audits_and_comparisons_show_it_on_request(tmp_path):
    X, _, _ = rows(500)
    y = (X[:, 0] + np.random.default_rng(1).normal(size=500) > 0).astype(int)
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[:200], y[:200])
    page = aptset.report(classifier, X[200:], y[200:], extra_metrics="coverage_unevenness")
    assert "<td>unevenness of coverage</td>" in page.html
    assert "; gradient boosting.</td>" in page.html
    sets = classifier.predict_set(X[200:])
    assert repr(page.evaluation.coverage_unevenness) == repr(aptset.coverage_unevenness(sets, y[200:], X[200:], 0.1))
    assert "unevenness" not in aptset.report(classifier, X[200:], y[200:]).html
    settings = {"repetitions": 2, "extra_metrics": ["coverage_unevenness"]}
    audit = aptset.audit(GaussianNB(), X, y, calibrations="split", **settings)
    assert np.isfinite(audit.to_frame()["coverage_unevenness"]).all()
    assert "coverage unevenness" in repr(audit)
    assert 'id="metric-coverage_unevenness"' in audit.report(tmp_path / "audit.html").read_text()
    assert audit.plot("coverage_unevenness").y_label == "share of splits"
    other = aptset.compare({"a": GaussianNB(), "b": LogisticRegression()}, X, y, **settings)
    assert " uneven" in repr(other)
    assert "coverage_unevenness" in other.to_frame()["metric"].tolist()
    assert isinstance(float(other.difference("a", "b", "coverage_unevenness")), float)
    with pytest.raises(ValueError, match="extra_metrics must be one of"):
        aptset.audit(GaussianNB(), X, y, extra_metrics="size")
