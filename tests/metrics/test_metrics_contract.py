"""The table of metrics: every line of it is shown everywhere, and so is a line that somebody adds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.experiments.claims import as_markdown, listing
from aptset.experiments.designs import Cell, FigureDesign
from aptset.metrics import BREAKDOWNS, METRICS, OF_SPLITS, Breakdown, Metric, Outcome, as_estimate
from aptset.metrics.evaluate import Codes, RunningSums


def rows(n=400):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 3))
    return X, (X[:, 0] + generator.normal(size=n) > 0).astype(int) + (X[:, 1] > 1)


def sets_of(n=200, seed=0):
    generator = np.random.default_rng(seed)
    return generator.random((n, 4)) < 0.5, generator.integers(4, size=n), generator.normal(size=(n, 2))


def streamed(mask, labels, alpha=None, confidence=0.95, groups=None):
    sums, names = RunningSums(), list(range(mask.shape[1]))
    for part in np.array_split(np.arange(len(labels)), 3):
        covered = mask[part, labels[part]]
        held = set(np.flatnonzero(mask[part].any(axis=0)).tolist())
        by = None if groups is None else Codes(groups[part], ["south", None, "north", "never"])
        sums.add(mask[part].sum(axis=1), covered, held, Codes(labels[part], names), by)
    return sums.evaluation(alpha, confidence)


@pytest.fixture
def newcomer(monkeypatch):
    """A metric as a stranger writes it: a function and one line."""

    def large_rate(sets, *, confidence=0.95):
        """Return the share of sets with more than two labels."""
        outcome = Outcome.of(sets)
        return outcome.share(outcome.sizes > 2, confidence)

    metric = Metric(large_rate, "share", "lower")
    monkeypatch.setitem(METRICS, metric.name, metric)
    monkeypatch.setitem(OF_SPLITS, metric.column, metric)
    return metric


@pytest.mark.parametrize("name", METRICS)
def test_every_line_has_a_name_and_words(name):
    metric = METRICS[name]
    assert metric.name == name
    assert metric.words
    assert metric.heading[0].isupper()
    assert metric.sentence.endswith(".")
    assert not metric.sentence.startswith("Return")
    assert metric.better in ("higher", "lower")
    assert metric.unit in ("share", "labels")
    assert {"labels", "X", "sets"} & set(metric.takes)
    assert "confidence" in metric.takes


def test_names_are_distinct():
    for names in ([one.words for one in METRICS.values()], [one.heading for one in METRICS.values()]):
        assert len(set(names)) == len(METRICS)
    assert not set(BREAKDOWNS) & set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_values_lie_in_their_intervals_and_rows_have_no_order(name):
    mask, labels, X = sets_of()
    metric, order = METRICS[name], np.random.default_rng(1).permutation(len(labels))
    value = as_estimate(metric.measure(Outcome.of(mask, labels), X=X, alpha=0.4))
    assert value.low <= value <= value.high
    assert 0 <= value <= (1 if metric.unit == "share" else mask.shape[1])
    if not metric.needs_features:  # slices are found on a random part of the rows
        other = as_estimate(metric.measure(Outcome.of(mask[order], labels[order]), alpha=0.4))
        assert repr(other) == repr(value)
    wide = as_estimate(metric.measure(Outcome.of(mask, labels), X=X, alpha=0.4, confidence=0.999))
    assert wide.low <= value.low <= value.high <= wide.high


@pytest.mark.parametrize("alpha", [None, 0.3])
def test_rows_that_go_by_are_judged_by_the_same_functions(alpha, newcomer):
    mask, labels, _ = sets_of()
    found, expected = streamed(mask, labels, alpha, 0.9), aptset.evaluate(mask, labels, alpha=alpha, confidence=0.9)
    assert newcomer.name in found.overall
    for name in METRICS:
        assert repr(getattr(found, name)) == repr(getattr(expected, name)), name


def test_a_metric_that_needs_the_rows_is_left_out_where_they_have_gone_by(monkeypatch):
    def first_label(sets, labels, *, confidence=0.95):
        """Return the share of rows whose set holds the label that comes first."""
        outcome = Outcome.of(sets, labels)
        return outcome.share(outcome.sets.mask[:, 0], confidence)

    monkeypatch.setitem(METRICS, "first_label", Metric(first_label, "share", "higher", streams=False))
    mask, labels, _ = sets_of()
    assert aptset.evaluate(mask, labels).first_label == mask[:, 0].mean()
    found = streamed(mask, labels)
    assert found.first_label is None
    assert "first label" not in repr(found)


@pytest.mark.parametrize("n", [12, 40_000], ids=["sparse", "dense"])
def test_a_breakdown_is_written_once(n, limits, monkeypatch):
    """A function and a line: rows that go by, of many labels or few rows, are broken down by it as rows at once are."""

    def empty_rate_by(sets, labels, by="label", *, confidence=0.95):
        outcome = Outcome.of(sets, labels)
        parts = outcome.parts(by)
        return {part.name: outcome.share(outcome.sizes == 0, confidence, part.rows) for part in parts}

    for by in ("label", "group"):
        monkeypatch.setitem(BREAKDOWNS, f"empty_by_{by}", Breakdown(f"empty_by_{by}", empty_rate_by, "empty sets", by))
    mask, labels, _ = sets_of(n)
    codes = np.random.default_rng(1).integers(3, size=n)
    groups = [["south", None, "north"][code] for code in codes]
    limits(waiting_counts=10)  # counts are joined again and again
    found = streamed(mask, labels, 0.3, 0.9, codes)
    expected = aptset.evaluate(mask, labels, groups=groups, alpha=0.3, confidence=0.9)
    assert found.n == expected.n == n
    for name in (*METRICS, *BREAKDOWNS):
        assert repr(getattr(found, name)) == repr(getattr(expected, name)), name
    assert len(found.empty_by_group) == 3


@pytest.mark.parametrize("n", [200, 5000], ids=["few", "counted by kind"])
def test_a_breakdown_that_needs_the_rows_is_left_out_where_they_have_gone_by(n, monkeypatch):
    def first_label_by(sets, labels, by="label", *, confidence=0.95):
        outcome = Outcome.of(sets, labels)
        return {part.name: outcome.share(outcome.sets.mask[:, 0], confidence, part.rows) for part in outcome.parts(by)}

    line = Breakdown("first_by_label", first_label_by, "first label", "label", streams=False)
    monkeypatch.setitem(BREAKDOWNS, line.name, line)
    mask, labels, _ = sets_of(n)
    assert len(aptset.evaluate(mask, labels).first_by_label) == 4
    assert streamed(mask, labels).first_by_label is None


def test_an_evaluation_shows_every_metric(newcomer):
    mask, labels, X = sets_of(2000)
    found = aptset.evaluate(mask, labels, X, alpha=0.1)
    assert found.large_rate == (mask.sum(axis=1) > 2).mean()
    assert [row[0] for row in found.rows()][: len(METRICS)] == [metric.name for metric, _ in found.estimates()]
    assert set(found.to_frame()["metric"]) >= set(METRICS)
    text = repr(found)
    assert all(metric.words in text for metric in METRICS.values())
    assert set(METRICS) <= set(dir(found))
    with pytest.raises(AttributeError, match=r"has no 'large_share'; it has coverage, .*large_rate"):
        _ = found.large_share


def test_a_report_shows_every_metric(newcomer):
    X, y = rows()
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[:200], y[:200])
    page = aptset.report(classifier, X[200:], y[200:]).html
    assert all(f"<td>{metric.words}</td>" in page and metric.sentence in page for metric in METRICS.values())


def test_audits_and_comparisons_show_every_metric_of_splits(newcomer, tmp_path):
    X, y = rows()
    found = aptset.audit(GaussianNB(), X, y, repetitions=2, calibrations="split")
    assert set(found.to_frame().columns) >= set(OF_SPLITS)
    assert {row.metric for row in found.summary() if row.part == "all"} == set(OF_SPLITS)
    page = found.report(tmp_path / "audit.html").read_text()
    assert all(f'id="metric-{name}"' in page and metric.heading in page for name, metric in OF_SPLITS.items())
    assert "large rate" in repr(found)
    assert found.plot("large_rate").y_label == "share of splits"
    pair = {"a": GaussianNB(), "b": DummyClassifier()}
    other = aptset.compare(pair, X, y, repetitions=2)
    assert set(other.to_frame()["metric"]) == {row.metric for row in other.differences()} == set(OF_SPLITS)
    assert all(metric.short in repr(other) for metric in OF_SPLITS.values())
    assert other.differences().as_json()[0]["candidate"] == other.ranking[1]
    assert isinstance(float(other.difference("a", "b", "large_rate")), float)


def test_experiments_show_every_metric_of_splits(newcomer):
    written = [row for seed in range(2) for row in Cell("model2", 60, 80, "Oracle", "SC", seed).run()]
    design = FigureDesign("model2", "A title", (60,), ("Oracle",), ("SC",))
    frame = pd.DataFrame(written)
    lines = listing(design, frame, 0.1)
    assert all(np.isfinite(lines[name]).all() and f"{name}_se" in lines for name in OF_SPLITS)
    text = as_markdown(design.title, lines, 0.1)
    assert all(f" {name.replace('_', ' ')} |" in text for name in OF_SPLITS)
    earlier = listing(design, frame.drop(columns="large_rate"), 0.1)  # cells from before the line was added
    assert earlier["large_rate"].isna().all()


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_a_scorer_and_larger_is_better(name):
    X, y = rows()
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[:200], y[:200])
    value = METRICS[name].value(Outcome.of(classifier.predict_set(X[200:]), y[200:]), X=X[200:])
    assert aptset.scorer(name)(classifier, X[200:], y[200:]) == (value if METRICS[name].better == "higher" else -value)


def test_a_scorer_of_no_metric_is_refused():
    with pytest.raises(ValueError, match=r"metric must be one of \['coverage', .*'mean_size'"):
        aptset.scorer("size")
