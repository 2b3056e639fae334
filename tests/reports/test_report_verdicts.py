"""What the report says, in words: no alarm that the luck of a calibration explains, no sentence that is not true."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from test_report_numbers import data_of, made

import aptset
from aptset.metrics.coverage_distribution import coverage_law
from aptset.metrics.estimates import percent
from aptset.reports import summarise, words
from aptset.reports.sources import evaluation_of

ALPHA = Fraction(1, 10)


def words_of(evaluation):
    return words.first_words(evaluation)


def judged(source, X, y, groups=None):
    """The evaluation that a report is made from, without the page."""
    return evaluation_of(source, X, y, groups, None, None, 0, lambda share: None, u=None, ids=None)


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
        found = judged(calibration, chances[150:], y[150:], None if by is None else by[150:])
        alarms += words_of(found).state not in ("agrees", "few") and words_of(found).kind != "every"
    assert alarms <= 6


def test_no_verdict_without_the_number_of_calibration_rows():
    calibration, chances, y = made()
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    wrong = (y + 1) % 4  # however low: luck cannot be told from fault
    for labels in (y, wrong):
        evaluation = aptset.evaluate(sets, labels, alpha=0.1, p_values=p_values)
        assert words_of(evaluation).kind == "unknown"
        assert words_of(evaluation).headline == "No verdict"
    known = aptset.evaluate(sets, wrong, alpha=0.1, p_values=p_values, n=calibration.n)
    assert words_of(known).kind == "low"


def test_a_label_far_below_stands_at_the_top():
    """Marginal calibration, one class much harder: amber, and named; calibrated within labels and broken: red."""
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([0.3, 0.3, 0.3], size=2000)
    y = (generator.random((2000, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    worse = chances.copy()
    worse[y == 2] = generator.dirichlet([1, 1, 0.3], size=(y == 2).sum())
    calibration = aptset.calibrate(worse[:1000], y[:1000], random_state=0)
    report = aptset.report(calibration, worse[1000:], y[1000:])
    found = summarise(report.evaluation, "t", 0, 0).page["words"]
    covered = report.evaluation.by_label[2]
    assert found.kind == "uneven"
    assert found.parts[0] == f"class 2: {percent(covered, covered.n)} of {covered.n:,} rows, less than chance allows"
    assert "1 % level for all 3 classes and groups" in found.parts[-1]
    assert "allows it" in found.parts[-1]
    within = aptset.calibrate(chances[:1000], y[:1000], groups="label", random_state=0)
    found = summarise(aptset.report(within, worse[1000:], y[1000:]).evaluation, "t", 0, 0).page["words"]
    assert found.kind.startswith("low")
    assert found.parts[-1].endswith("The promise was made within every class.")


def test_labels_of_a_valid_calibration_are_not_named():
    """Labels that are scored alike, few calibration rows: of 40 reports, more than 6 with any have chance < 1e-6."""
    named = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        chances = generator.dirichlet([0.5] * 4, size=1540)
        y = (generator.random((1540, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        calibration = aptset.calibrate(chances[:40], y[:40], random_state=seed)
        found = judged(calibration, chances[40:], y[40:], y[40:] % 2)
        named += bool(summarise(found, "t", 0, 0).page["words"].parts)
    assert named <= 6


def test_the_verdict_says_why_it_agrees_where_the_interval_does_not():
    seen = set()
    for seed in range(40):
        _, chances, y = made(2000, seed=seed)
        few = aptset.calibrate(chances[:60], y[:60], random_state=0)
        evaluation = judged(few, chances[60:], y[60:])
        coverage, found = evaluation.coverage, words_of(evaluation)
        excludes = not coverage.low <= 0.9 <= coverage.high
        assert ("The 95 % interval lies" in found.verdict) == (excludes and found.kind == "few")
        assert found.kind != "kept", "60 calibration rows are too few to agree with anything"
        if excludes and found.kind == "few":
            seen.add("below" if coverage.high < 0.9 else "above")
            assert f"The 95 % interval lies {'below' if coverage.high < 0.9 else 'above'} 90 %." in found.verdict
    assert seen == {"below", "above"}


def test_sets_that_are_never_empty_have_a_law_from_below_only():
    calibration, chances, y = made(allow_empty=False)
    report = aptset.report(calibration, chances, y, alpha=0.6)
    found = words_of(report.evaluation)
    law = coverage_law(report.evaluation.coverage.count, report.evaluation.evidence.origin.laws, Fraction(3, 5))
    assert report.evaluation.coverage > law.high, "filled sets cover more than the law says"
    assert found.state in ("agrees", "few")
    assert f"lets the measured coverage fall to {percent(law.low, 300)}; it is lower in 1 of 40 cases" in found.verdict
    assert percent(law.high, 300) not in found.verdict
    curve = data_of(report)["curve"]
    assert set(curve["high"]) == {1.0}
    assert max(curve["low"]) < 1
    assert "lie above the lower edge of the band at every level" in report.html
    assert "within the band" not in report.html


def test_labels_that_a_calibration_within_labels_does_not_know():
    calibration, chances, y = made(groups="label")
    y = np.where(np.arange(300) < 12, 99, y)
    report = aptset.report(calibration, chances, y)
    found = words_of(report.evaluation)
    assert "and 288 test rows" in found.verdict
    assert " 12 test rows have labels that the calibration does not know" in found.verdict
    count = aptset.coverage(calibration.predict_set(chances[12:], 0.1), y[12:]).count
    sizes = np.bincount(y[12:], minlength=4)
    laws = tuple(zip(sizes.tolist(), calibration.held_out.sizes.tolist(), strict=True))
    assert report.evaluation.evidence.origin.laws == laws
    assert f"between {percent(coverage_law(count, laws, ALPHA).low, 288)} and " in found.verdict


def test_the_interval_in_the_words_is_the_one_they_name():
    calibration, chances, y = made()
    sets, p_values = calibration.predict_set(chances, 0.1), calibration.p_values(chances)
    settings = {"alpha": 0.1, "p_values": p_values, "n": calibration.n}
    narrow = aptset.evaluate(sets, y, confidence=0.5, **settings)
    usual = aptset.evaluate(sets, y, **settings)
    assert narrow.coverage.low != usual.coverage.low
    said = [summarise(one, "t", 0, 0).page["words"].measured for one in (narrow, usual)]
    assert said[0] == said[1]
    ends = (percent(usual.coverage.low, 300), percent(usual.coverage.high, 300))
    assert "95 % interval {} to {}".format(*ends) in said[0]


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
    for given in ({"n": 50}, {"allow_empty": False}):
        with pytest.raises(ValueError, match=f"p_values must be given with {next(iter(given))}"):
            aptset.evaluate(sets, y, alpha=0.1, **given)
    p_values[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"p_values must not have missing values \(NaN\); row 3 has"):
        aptset.evaluate(sets, y, alpha=0.1, p_values=p_values)


def test_p_values_travel_only_if_the_page_stays_small(limits):
    calibration, chances, y = made()
    size = sum(len(one["data"]) for one in data_of(aptset.report(calibration, chances, y))["columns"].values())
    limits(page_bytes=size)
    assert data_of(aptset.report(calibration, chances, y))["mode"] == "rows"
    limits(page_bytes=size - 1)
    assert data_of(aptset.report(calibration, chances, y))["mode"] == "levels"


def test_many_rows_of_ten_classes_after_a_large_calibration_stay_under_three_megabytes():
    calibration, chances, y = made(200_000, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = aptset.report(calibration, chances, y)
    assert len(page.html.encode()) < 3_000_000
