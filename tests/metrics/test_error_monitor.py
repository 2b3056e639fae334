"""A bet against the claim that rows which are acted on are seldom wrong."""

from itertools import product

import numpy as np
import pytest

import aptset


def test_evidence_is_fair_at_the_error_and_falls_below_it():
    """The mean over all outcomes of 8 rows, each with its probability, is 1 at the error and less below."""
    for rate, wanted in ((0.2, 1.0), (0.1, None)):
        mean = 0.0
        for outcomes in product([True, False], repeat=8):
            chance = np.prod([rate if wrong else 1 - rate for wrong in outcomes])
            mean += chance * aptset.ErrorMonitor(error=0.2).update(list(outcomes)).evidence
        assert mean == pytest.approx(1.0, abs=1e-12) if wanted else mean < 1.0


def test_one_by_one_and_at_once_are_the_same():
    wrong = np.random.default_rng(0).random(300) < 0.1
    at_once, single = aptset.ErrorMonitor(0.05).update(wrong), aptset.ErrorMonitor(0.05)
    for one in wrong.tolist():
        single.update(one)
    assert single.log_evidence == at_once.log_evidence
    assert (at_once.rows, at_once.misses) == (300, wrong.sum())


def test_more_errors_than_allowed_raise_an_alarm_and_fewer_do_not():
    generator = np.random.default_rng(1)
    assert aptset.ErrorMonitor(0.05).update(generator.random(2000) < 0.15).alarmed
    assert not aptset.ErrorMonitor(0.05).update(generator.random(2000) < 0.03).alarmed


def test_alarms_at_the_error_itself_are_rare():
    """Each of 200 alarms with probability 0.01 at most: 13 or more have probability 1e-7."""
    generator = np.random.default_rng(2)
    alarms = sum(aptset.ErrorMonitor(0.1).update(generator.random(1500) < 0.1).alarmed for _ in range(200))
    assert alarms < 13


def test_rows_without_labels_never_raise_the_evidence():
    wrong = np.random.default_rng(3).random(200) < 0.2
    known = aptset.ErrorMonitor(0.05, mature=0).update(wrong, order=np.arange(200))
    some = [None if row % 3 == 0 else bool(one) for row, one in enumerate(wrong)]
    hidden = aptset.ErrorMonitor(0.05, mature=0).update(np.array(some, dtype=object), order=np.arange(200))
    assert hidden.log_evidence <= known.log_evidence
    assert hidden.unlabelled > 0


def test_a_saved_monitor_goes_on_and_is_no_other(tmp_path):
    monitor = aptset.ErrorMonitor(0.05, alarm=50).update([False] * 40 + [True])
    monitor.save(tmp_path / "m.aptset")
    again = aptset.ErrorMonitor.load(tmp_path / "m.aptset")
    assert again.settings == monitor.settings == {"error": 0.05, "alarm": 50.0, "mature": None}
    assert again.update([True] * 9).log_evidence == monitor.update([True] * 9).log_evidence
    assert repr(again) == repr(monitor)
    with pytest.raises(ValueError, match="another class"):
        aptset.CoverageMonitor.load(tmp_path / "m.aptset")


@pytest.mark.parametrize("error", [0, 1, "0.1", None])
def test_an_error_is_a_share(error):
    with pytest.raises(ValueError, match="error must be in"):
        aptset.ErrorMonitor(error)
    with pytest.raises(TypeError, match="wrong must be True or False"):
        aptset.ErrorMonitor().update([0.5])
