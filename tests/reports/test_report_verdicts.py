"""What the report says, in words: no alarm that the luck of a calibration explains, no sentence that is not true."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.naive_bayes import GaussianNB
from test_report_numbers import data_of, made

import aptset
from aptset.reports import measures, words
from aptset.reports.laws import coverage_law
from aptset.reports.summarise import summarise

ALPHA = Fraction(1, 10)


def words_of(evaluation):
    return words.first_words(evaluation.evidence, evaluation.alpha, evaluation.coverage, evaluation.mean_size, 0.95)


def kind_of(report):
    return words_of(report.evaluation)["kind"]


def test_the_law_of_groups_is_the_convolution():
    laws = ((40, 30), (25, 99), (7, 5), (300, 500))
    chances = np.ones(1)
    for m, n in laws:
        k = int(np.ceil(Fraction(9, 10) * (n + 1)))
        one = betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1)) if k <= n else np.append(np.zeros(m), 1)
        chances = np.convolve(chances, one)
    below = np.cumsum(chances)
    for count in (250, 320, 335, 350, 372):
        law = coverage_law(count, laws, ALPHA)
        assert law.too_low == pytest.approx(below[count], rel=1e-9)
        assert law.too_high == pytest.approx(chances[count:].sum(), rel=1e-9)
    assert (law.low, law.high) == tuple(np.searchsorted(below, [0.025, 0.975]) / 372)
    assert not law.is_certain
    assert coverage_law(7, ((7, 5),), ALPHA).is_certain
    one = aptset.coverage_test(884, m=1000, n=500, alpha=0.1)
    found = coverage_law(884, ((1000, 500),), ALPHA)
    assert found[:4] == pytest.approx((one.low, one.high, one.too_low, one.too_high), rel=1e-9)


@pytest.mark.parametrize("groups", ["label", "row", None])
def test_valid_calibrations_are_not_called_too_low(groups):
    """A verdict speaks against a valid calibration in one of 100 cases: of 60, more than 6 have probability < 1e-5."""
    alarms = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        chances = generator.dirichlet([0.5, 0.5, 0.5], size=1650)
        y = (generator.random((1650, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        by = generator.integers(3, size=1650) if groups == "row" else None
        given = by[:150] if groups == "row" else groups
        calibration = aptset.calibrate(chances[:150], y[:150], groups=given, random_state=seed)
        report = aptset.report(calibration, chances[150:], y[150:], groups=None if by is None else by[150:], examples=0)
        alarms += kind_of(report) not in ("kept", "every")
    assert alarms <= 6


def test_no_verdict_without_the_number_of_calibration_rows():
    calibration, chances, y = made()
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    wrong = (y + 1) % 4  # however low: luck cannot be told from fault
    for labels in (y, wrong):
        evaluation = aptset.evaluate(sets, labels, alpha=0.1, p_values=p_values)
        assert words_of(evaluation)["kind"] == "unknown"
        assert words_of(evaluation)["headline"] == "No verdict"
    known = aptset.evaluate(sets, wrong, alpha=0.1, p_values=p_values, n=calibration.n)
    assert words_of(known)["kind"] == "low"


def test_without_an_exact_law_nothing_is_called_too_low():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 2))
    y = (X[:, 0] + generator.normal(size=600) > 0).astype(int)
    classifier = aptset.ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0).fit(X[:300], y[:300])
    assert kind_of(aptset.report(classifier, X[300:], y[300:])) == "agrees"
    turned = aptset.report(classifier, -X[300:], y[300:])
    assert kind_of(turned) == "below"
    assert "no exact law" in words_of(turned.evaluation)["verdict"]


def test_sets_that_are_never_empty_have_a_law_from_below_only():
    calibration, chances, y = made(allow_empty=False)
    report = aptset.report(calibration, chances, y, alpha=0.6)
    found = words_of(report.evaluation)
    law = coverage_law(report.evaluation.coverage.count, report.evaluation.evidence.origin.laws, Fraction(3, 5))
    assert report.evaluation.coverage > law.high, "filled sets cover more than the law says"
    assert found["kind"] == "kept"
    assert f"39 of 40 valid calibrations show a coverage of at least {law.low:.4g}" in found["verdict"]
    assert f"{law.high:.4g}" not in found["verdict"]
    curve = data_of(report)["curve"]
    assert set(curve["high"]) == {1.0}
    assert max(curve["low"]) < 1
    assert "lie above the lower edge of the band" in report.html
    assert "The band holds 95 of 100" not in report.html


def test_labels_that_a_calibration_within_labels_does_not_know():
    calibration, chances, y = made(groups="label")
    y = np.where(np.arange(300) < 12, 99, y)
    report = aptset.report(calibration, chances, y)
    found = words_of(report.evaluation)
    assert "on 288 test rows" in found["verdict"]
    assert " 12 test rows have labels that the calibration does not know" in found["verdict"]
    count = aptset.coverage(calibration.predict_set(chances[12:], 0.1), y[12:]).count
    sizes = np.bincount(y[12:], minlength=4)
    laws = tuple(zip(sizes.tolist(), calibration.held_out.sizes.tolist(), strict=True))
    assert report.evaluation.evidence.origin.laws == laws
    assert f"{coverage_law(count, laws, ALPHA).low:.4g}" in found["verdict"]


def test_the_interval_in_the_words_is_the_one_they_name():
    calibration, chances, y = made()
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    settings = {"alpha": 0.1, "p_values": p_values, "n": calibration.n}
    narrow = aptset.evaluate(sets, y, confidence=0.5, **settings)
    usual = aptset.evaluate(sets, y, **settings)
    assert narrow.coverage.low != usual.coverage.low
    said = [summarise(one, "t", 0, 0).page["words"]["measured"] for one in (narrow, usual)]
    assert said[0] == said[1]
    assert f"95 % interval {usual.coverage.low:.4g} to {usual.coverage.high:.4g}" in said[0]


def test_whether_sets_may_be_empty_can_be_said():
    calibration, chances, y = made(allow_empty=False)
    sets, p_values = calibration.predict_set(chances, 0.01), calibration.p_values(chances)
    assert (p_values > 0.01).any(axis=1).all(), "none was filled at this level"
    settings = {"alpha": 0.01, "p_values": p_values, "probabilities": chances}
    said = aptset.evaluate(sets, y, allow_empty=False, n=calibration.n, **settings).evidence
    for other in (0.01, 0.5, 0.8):
        assert said.covered_at(other).tolist() == calibration.predict_set(chances, other).covers(y).tolist()
    assert said.origin.is_upper_open
    assert aptset.evaluate(sets, y, **settings).evidence.most_likely is None
    filled = calibration.predict_set(chances, 0.5)
    with pytest.raises(ValueError, match=r"p_values must exceed alpha=0\.5 exactly"):
        aptset.evaluate(filled, y, alpha=0.5, p_values=p_values, probabilities=chances, allow_empty=True)
    with pytest.raises(ValueError, match="probabilities must be given for sets that are never empty"):
        aptset.evaluate(filled, y, alpha=0.5, p_values=p_values)
    emptied = calibration.predict_set(chances, 0.5, allow_empty=True)
    with pytest.raises(ValueError, match="allow_empty must be True"):
        aptset.evaluate(emptied, y, alpha=0.5, p_values=p_values, probabilities=chances, allow_empty=False)


def test_what_does_not_fit_the_p_values_is_refused():
    calibration, chances, y = made(50)
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    for n, message in ((0, "n must be at least 1"), (49, "multiples of 1 / "), (-3, "n must be at least 0")):
        with pytest.raises(ValueError, match=message):
            aptset.evaluate(sets, y, alpha=0.1, p_values=p_values, n=n)
    for given in ({"n": 50}, {"probabilities": chances}, {"allow_empty": False}):
        with pytest.raises(ValueError, match=f"p_values must be given with {next(iter(given))}"):
            aptset.evaluate(sets, y, alpha=0.1, **given)
    p_values[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"p_values must not have missing values \(NaN\); row 3 has"):
        aptset.evaluate(sets, y, alpha=0.1, p_values=p_values)


def test_p_values_travel_only_if_the_page_stays_small(monkeypatch):
    calibration, chances, y = made()
    size = sum(len(one["data"]) for one in data_of(aptset.report(calibration, chances, y))["columns"].values())
    monkeypatch.setattr(measures, "MOST_BYTES", size)
    assert data_of(aptset.report(calibration, chances, y))["mode"] == "rows"
    monkeypatch.setattr(measures, "MOST_BYTES", size - 1)
    assert data_of(aptset.report(calibration, chances, y))["mode"] == "levels"


def test_many_rows_of_ten_classes_after_a_large_calibration_stay_under_three_megabytes():
    calibration, chances, y = made(200_000, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = aptset.report(calibration, chances, y)
    assert len(page.html.encode()) < 3_000_000
