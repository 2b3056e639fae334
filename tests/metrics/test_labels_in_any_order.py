"""Labels that become known in any order: a monitor judges rows in the order of prediction, and keeps its level.

The attack: nothing has changed, and wrong guesses are labelled sooner than right ones. Judged as they come, the labels
raise false alarms; judged in the order of prediction, they are the stream that the martingale is about.
"""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import aptset
from aptset import CoverageMonitor
from forging import forge, taken_apart

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def healthy_stream(generator, n=200, rows=600):
    """Flags of sets that cover as they should: the urn's law, by the share of misses of one calibration."""
    k = -(-9 * (n + 1) // 10)
    return generator.random(rows) >= generator.beta(n + 1 - k, k)


def by_arrival(covered, delays):
    """Numbers of the rows as their labels become known: ten predictions a day, and the days until each label."""
    return np.argsort(np.arange(len(covered)) / 10 + delays, kind="stable")


def state_of(monitor):
    return monitor.log_evidence, monitor.peak, monitor.rows, monitor.misses, monitor.alarmed_at, monitor.expected


@pytest.mark.parametrize(("wrong", "right"), [(5, 30), (10, 60), (30, 5)])
@pytest.mark.parametrize("by", ["number", "number and time", "time"])
def test_the_delay_of_a_label_changes_nothing_if_it_comes_in_time(wrong, right, by):
    """The path is that of labels that are known at once, to the last bit, so the level is the martingale's.

    The attack is real: judged as they come, the same labels alarm in more than half of the streams.
    """
    generator, false_alarms = np.random.default_rng(3), 0
    for _ in range(12):
        covered = healthy_stream(generator)
        arrival = by_arrival(covered, np.where(covered, right, wrong))
        times = np.array([START + row * DAY / 10 for row in range(600)])
        mature = 1000 if by == "number" else 70 * DAY
        at_once, monitor = (CoverageMonitor(200, mature=mature) for _ in range(2))
        at_once.update(covered)
        for rows in np.array_split(arrival, 60):
            places = {"order": rows} if "number" in by else {}
            monitor.update(covered[rows], **places, **({"time": times[rows]} if "time" in by else {}))
        if by == "time":
            assert monitor.rows < 600  # the last rows are not mature yet
            monitor.update([], time=[], now=times[-1] + 71 * DAY)
        assert state_of(monitor) == state_of(at_once)
        assert monitor.path("pyarrow").equals(at_once.path("pyarrow"))
        assert (monitor.n_waiting, monitor.unlabelled, monitor.ignored) == (0, 0, 0)
        false_alarms += CoverageMonitor(200).update(covered[arrival]).alarmed
    assert wrong > right or false_alarms >= 6


@pytest.mark.parametrize("right", [30, 80, 10**6])
def test_the_level_holds_whatever_the_delay_and_the_maturity(right):
    """Wrong guesses are labelled after 5 days, right ones after 30, 80 or never; rows are given up after 40 days.

    The law: Ville's inequality for a process that is nowhere above the martingale; at a level of 1/20 more than 36
    alarms in 300 streams have a probability below 1e-6.
    """
    generator, alarms = np.random.default_rng(4), 0
    for _ in range(300):
        covered = healthy_stream(generator, n=100, rows=900)
        arrival = by_arrival(covered, np.where(covered, right, 5))
        arrival = arrival[covered[arrival] <= (right < 10**6)]
        monitor = CoverageMonitor(100, alarm=20, mature=400)
        for rows in np.array_split(arrival, 12):
            monitor.update(covered[rows], order=rows)
        alarms += monitor.alarmed
        assert right == 30 or monitor.unlabelled > 100
    assert alarms <= 36


def test_rows_of_one_time_are_judged_in_an_order_that_does_not_see_the_outcome():
    """One batch of predictions a day, wrong guesses labelled first: the level of 1/20, as above."""
    generator, alarms, alarms_as_they_come = np.random.default_rng(5), 0, 0
    for _ in range(300):
        covered = healthy_stream(generator, n=100, rows=800)
        days = np.arange(800) // 200
        arrival = np.lexsort([covered, days])  # of a day the misses first
        monitor = CoverageMonitor(100, alarm=20, mature=2 * DAY)
        alarms += monitor.update(covered[arrival], time=days[arrival] * 86_400, now=9 * 86_400).alarmed
        alarms_as_they_come += CoverageMonitor(100, alarm=20).update(covered[arrival]).alarmed
        assert monitor.rows == 800
    assert alarms <= 36
    assert alarms_as_they_come > 150


ROWS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from(["known", "group", "nothing"])), min_size=1, max_size=80
)


@settings(deadline=None, max_examples=60)
@given(ROWS, st.sampled_from([0.1, 0.0005]))
def test_a_label_that_does_not_come_never_raises_the_evidence(rows, alpha):
    """After every row the evidence is at most that of all labels, whatever the missing ones are."""
    sizes = {0: 9999, 1: 2500, 2: 40}
    whole, monitor = (CoverageMonitor(sizes, alpha, mature=0) for _ in range(2))
    for covered, group, known in rows:
        flag = covered or (group == 2 and alpha < 0.01)  # 40 rows are too few for a miss
        whole.update(flag, group)
        monitor.update(flag if known == "known" else None, None if known == "nothing" else group)
        assert monitor.log_evidence <= whole.log_evidence + 1e-9
    assert monitor.settled == len(rows)
    assert monitor.rows + monitor.unlabelled == len(rows)


def test_the_bets_on_rows_without_labels_are_as_defined():
    """By hand: a hit at the least odds, then a miss at the largest chance, of one bettor after one release."""
    monitor = CoverageMonitor(99, 0.1, mature=0).update([None, False])
    rates, least, most = np.array([0.125, 0.15, 0.2, 0.3, 0.5]), 10 / 100, 11 / 101
    won = (1 - rates) / (1 - least) * rates / most
    steady = stats.beta(10, 90).isf(1 / 400)  # exceeded by one in 400 calibrations
    bets = np.maximum(rates, steady)
    lent = (1 - bets) / (1 - steady) * bets / steady
    evidence = [31 / 32 + factors.mean() / 32 for factors in (won, lent)]
    assert monitor.evidence == pytest.approx(evidence[0] / 2 + evidence[1] / 4, rel=1e-9)
    assert (monitor.rows, monitor.misses, monitor.unlabelled, monitor.settled) == (1, 1, 1, 2)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_any_order_any_pieces_and_a_restart_at_any_moment_are_one_stream(tmp_path_factory, data):
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    covered, groups = generator.random(70) < 0.8, generator.choice(["a", "b"], 70)
    order = generator.permutation(70)
    cuts = np.sort(generator.integers(70, size=6))
    mature = data.draw(st.sampled_from([None, 70, 30 * DAY]))
    whole, monitor = (CoverageMonitor({"a": 100, "b": 30}, mature=mature) for _ in range(2))
    whole.update(covered, groups)
    path = tmp_path_factory.mktemp("state") / "state"
    for rows in np.split(order, cuts):
        times = {"time": rows * 60.0} if isinstance(monitor.mature, timedelta) else {}
        monitor.update(covered[rows], groups[rows], order=rows, **times)
        if len(rows) and rows[0] >= monitor.settled:
            monitor.update(covered[rows[:1]], groups[rows[:1]], order=rows[:1], **{k: v[:1] for k, v in times.items()})
        monitor.save(path)
        restored = CoverageMonitor.load(path)
        assert (restored.settings, restored.n_waiting, state_of(restored)) == (
            monitor.settings,
            monitor.n_waiting,
            state_of(monitor),
        )
        monitor = restored
    assert state_of(monitor) == state_of(whole)
    assert (monitor.ignored, monitor.n_waiting) == (0, 0)


def test_what_is_told_before_its_label_is_joined_with_it():
    told = CoverageMonitor({"a": 100, "b": 50}, mature=4).update([None, None], ["a", None])
    assert (told.settled, told.n_waiting) == (0, 0)
    told.update(True, "b", order=1).update(False, "a", order=0)
    known = CoverageMonitor({"a": 100, "b": 50}, mature=4).update([False, True], ["a", "b"])
    assert state_of(told) == state_of(known)
    assert told.update([True, None, True], ["a", "b", "a"]).rows == 3  # the next predictions are 2, 3 and 4
    assert told.update(True, "b", order=3).rows == 5


def test_a_change_is_noticed_although_a_tenth_of_the_labels_never_come():
    """Misses go from 0.10 to 0.25, whatever the rows without labels hide."""
    generator = np.random.default_rng(6)
    covered = np.concatenate([generator.random(1000) < 0.9, generator.random(1500) < 0.75]).astype(object)
    covered[generator.random(2500) < 0.1] = None
    monitor = CoverageMonitor(1000, mature=0).update(covered)
    assert 1000 < monitor.alarmed_at < 2000
    assert monitor.unlabelled > 200


def test_the_steady_rates_are_exceeded_as_rarely_as_the_bets_need():
    """The law of a calibration is Beta(n + 1 - k, k): of all groups together 1 in 4 times the alarm."""
    monitor = CoverageMonitor({"a": 1000, "b": 50, "c": 3}, 0.1, alarm=50, mature=9)
    shares = [
        stats.beta(n + 1 - k, k).sf(rate) for n, k, rate in zip((1000, 50), (901, 46), monitor._rates, strict=False)
    ]
    assert shares == pytest.approx([1 / 600, 1 / 600], rel=1e-6)
    assert monitor._rates[2] == 0


def test_a_row_is_waited_for_until_it_is_mature_and_then_given_up(tmp_path):
    monitor = CoverageMonitor(100, mature=10).update([True] * 9, order=np.arange(1, 10))
    assert (monitor.rows, monitor.n_waiting, monitor.settled) == (0, 9, 0)
    assert "9 more wait for earlier ones, prediction 0 first" in monitor.sentence()
    monitor.update(True, order=10)
    assert (monitor.rows, monitor.n_waiting, monitor.unlabelled) == (10, 0, 1)
    assert "1 of 11 predictions had no label when they were mature" in monitor.sentence()
    evidence = monitor.evidence
    monitor.update([False, True], order=[0, 4])  # too late; and a label that came twice
    assert (monitor.ignored, monitor.evidence, monitor.rows) == (2, evidence, 10)
    assert "2 labels came after their predictions were settled, and were not judged" in monitor.sentence()
    monitor.save(tmp_path / "state")
    assert CoverageMonitor.load(tmp_path / "state").sentence() == monitor.sentence()
    assert monitor.update([], order=[], now=25).unlabelled == 1 + 5  # 11 to 15 are mature


def test_a_row_is_given_up_after_a_time():
    monitor = CoverageMonitor(100, mature=np.timedelta64(30, "D"))
    monitor.update([True, True], order=[1, 2], time=[START, START + 20 * DAY])
    assert monitor.rows == 0
    assert monitor.update([], time=[], now=START + 30 * DAY).rows == 2  # 0 is at least as old as 1
    assert monitor.unlabelled == 1
    by_time = CoverageMonitor(100, mature=30 * DAY).update([True, False], time=[START + 20 * DAY, START])
    assert by_time.rows == 0
    assert "2 more wait until they are mature" in by_time.sentence()
    by_time.update(True, time=START + 40 * DAY)
    assert (by_time.rows, by_time.misses) == (1, 1)
    by_time.update(True, time=START + 5 * DAY)
    assert by_time.ignored == 1
    assert "begin a new monitor with a larger mature" in by_time.sentence()


def test_columns_of_any_library_are_taken():
    frame = pd.DataFrame(
        {"held": pd.array([True, None, False], dtype="boolean"), "number": pd.array([2, 1, 0], "Int64")}
    )
    frame["asked"] = pd.date_range("2026-01-03", periods=3, freq="-1D", tz="Europe/Rome")
    by_number = CoverageMonitor(100, mature=5).update(frame["held"], order=frame["number"])
    assert (by_number.rows, by_number.n_waiting) == (1, 1)
    for times in (frame["asked"], frame["asked"].dt.tz_convert(None), frame["asked"].tolist()):
        by_time = CoverageMonitor(100, mature=pd.Timedelta(days=1)).update(frame["held"], time=times)
        assert (by_time.rows, by_time.unlabelled, by_time.n_waiting) == (1, 1, 1)


def test_days_are_midnights_of_utc():
    """A date without an hour is a date, as logs of days have them."""
    both = [CoverageMonitor(100, mature=timedelta(days=2)) for _ in range(2)]
    for monitor, day in zip(both, (date(2026, 1, 1), START), strict=True):
        monitor.update([False, None], time=[day, day + timedelta(days=1)], now=day + timedelta(days=2))
    assert [monitor.rows for monitor in both] == [1, 1]
    assert both[0].evidence == both[1].evidence


def test_the_state_does_not_grow_with_the_rows(tmp_path):
    monitor = CoverageMonitor(100, mature=50)
    sizes = []
    for start in range(0, 20_000, 500):
        rows = np.arange(start, start + 500)
        monitor.update(np.ones(500, dtype=bool)[rows % 7 > 0], order=rows[rows % 7 > 0])
        monitor.save(tmp_path / "state")
        sizes.append(len(taken_apart(tmp_path / "state")[1]["waiting_numbers"]))
    assert max(sizes) <= 50
    assert monitor.unlabelled > 2000


@pytest.mark.parametrize(
    ("mature", "calls", "words"),
    [
        (-1, [], "mature must be a whole number of predictions"),
        (True, [], "mature must be"),
        (2.5, [], "mature must be"),
        (-DAY, [], "mature must be"),
        (np.timedelta64("NaT"), [], "mature must be"),
        (5, [{"covered": [True], "order": [1.0]}], "order must be whole numbers, one for each row"),
        (5, [{"covered": [True], "order": [1, 2]}], "order must be whole numbers, one for each row"),
        (5, [{"covered": [True], "order": [-1]}], "order must count predictions"),
        (5, [{"covered": True, "order": 1_763_000_000}], "order must count predictions"),
        (5, [{"covered": [True] * 3, "order": [4, 7, 4]}], "4 is there twice"),
        (5, [{"covered": True, "order": 4}, {"covered": False, "order": 4}], "prediction 4 waits with another outcome"),
        (5, [{"covered": True, "time": START}], "time must be left out"),
        (5, [{"covered": True, "order": 3, "now": "today"}], "now must be whole numbers"),
        (DAY, [{"covered": True, "order": 3}], "time must be passed"),
        (
            DAY,
            [{"covered": True, "time": "today"}],
            "time must hold numbers .*; row 0 holds 'today', which",
        ),
        (DAY, [{"covered": [True, True], "time": [START, None]}], "time must not have missing values"),
        (DAY, [{"covered": True, "time": np.datetime64("NaT")}], "time must say when each"),
        (
            DAY,
            [{"covered": True, "time": START}, {"covered": True, "time": START, "order": 0}],
            "order must be passed in",
        ),
        (
            DAY,
            [{"covered": True, "time": START, "order": 0}, {"covered": True, "time": START}],
            "order must be passed in",
        ),
        (5, [{"covered": ["yes"]}], "covered must be True or False"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words_and_changes_nothing(mature, calls, words):
    if not calls:
        with pytest.raises(ValueError, match=words):
            CoverageMonitor(100, mature=mature)
        return
    monitor = CoverageMonitor(100, mature=mature)
    for call in calls[:-1]:
        monitor.update(**call)
    before = monitor.n_waiting, monitor.settled, dict(monitor._waiting.rows)
    with pytest.raises((ValueError, TypeError), match=words):
        monitor.update(**calls[-1])
    assert (monitor.n_waiting, monitor.settled, dict(monitor._waiting.rows)) == before


U64 = lambda *values: np.array(values, dtype=np.uint64)  # noqa: E731 - short, where there are many


@pytest.mark.parametrize(
    ("facts", "tensors"),
    [
        ({"newest": 1}, {}),
        ({"newest": 2.0}, {}),
        ({"newest": -2}, {}),
        ({"by_time": 1}, {}),
        ({"by_time": True}, {}),
        ({"in_time": True}, {}),
        ({"arrived": -1}, {}),
        ({}, {"clock": np.array([np.nan])}),
        ({}, {"clock": np.array([np.inf])}),
        ({}, {"waiting_outcomes": np.array([3])}),
        ({}, {"waiting_outcomes": np.array([-1])}),
        ({}, {"waiting_groups": np.array([-1])}),
        ({}, {"waiting_groups": np.array([7])}),
        ({}, {"waiting_numbers": U64(0)}),  # settled
        ({}, {"waiting_numbers": U64(2**64 - 1)}),
        ({}, {"waiting_numbers": U64(4, 4)}),
        ({}, {"waiting_times": np.array([1.0])}),
        ({}, {"waiting_times": np.array([np.nan])}),
        ({}, {"waiting_outcomes": np.array([True])}),
    ],
)
def test_a_forged_queue_is_refused_with_one_error(tmp_path, facts, tensors):
    path = tmp_path / "state"
    CoverageMonitor(100, mature=9).update([True, True], order=[0, 4]).save(path)
    told, held = taken_apart(path)
    forge(path, told, held)
    assert CoverageMonitor.load(path).n_waiting == 1, "what is only written anew is read"
    forge(path, {**told, **facts}, {**held, **tensors})
    with pytest.raises(ValueError, match="is no intact aptset artefact"):
        CoverageMonitor.load(path)


def test_a_prediction_that_waits_twice_is_refused(tmp_path):
    path = tmp_path / "state"
    CoverageMonitor(100, mature=9).update([True, True], order=[3, 4]).save(path)
    facts, tensors = taken_apart(path)
    forge(path, facts, {**tensors, "waiting_numbers": U64(4, 4)})
    with pytest.raises(ValueError, match="its rows that wait must be distinct predictions"):
        CoverageMonitor.load(path)


def test_a_calibration_makes_a_monitor_that_waits():
    probabilities = np.random.default_rng(0).dirichlet([1.0] * 3, size=100)
    calibration = aptset.calibrate(probabilities, probabilities.argmax(axis=1), random_state=0)
    assert calibration.monitor(0.1, mature=30 * DAY).mature == 30 * DAY
