"""The monitor bets at exact odds: its capital has mean 1 whatever the number of rows, and an alarm is rarely false."""

from fractions import Fraction
from itertools import product
from math import ceil, isclose, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset import CoverageMonitor
from forging import change, forge, taken_apart

TIMES = [Fraction(5, 4), Fraction(3, 2), 2, 3, 5]


def evidence_by_definition(flags, n, alpha):
    """The bets as they are defined, in exact numbers: (capital, chance of these flags)."""
    k = ceil((1 - alpha) * (n + 1))
    kept, capital, chance, misses = Fraction(1), [Fraction(0)] * len(TIMES), Fraction(1), 0
    for row, covered in enumerate(flags):
        if row % 32 == 0:
            released = kept / (2 * (row // 32) + 32)
            kept, capital = kept - released, [one + released / len(TIMES) for one in capital]
        expected = Fraction(n + 1 - k + misses, n + 1 + row)
        for j, times in enumerate(TIMES):
            rate = max(expected, min(times * alpha, Fraction(19, 20), 1024 * expected))
            capital[j] *= (1 - rate) / (1 - expected) if covered else rate / expected
        chance *= 1 - expected if covered else expected
        misses += not covered
    return kept + sum(capital), chance


BEGINNINGS = {
    "none": [],
    "quiet": [True] * 28,  # what comes behind ends a block, and starts the next
    "misses": ([True] * 4 + [False]) * 12,
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize(("n", "alpha"), [(19, Fraction(1, 10)), (9, Fraction(3, 10)), (4, Fraction(1, 5))])
def test_the_capital_has_mean_one_over_all_that_can_happen(n, alpha, beginning):
    """Exactly so by the definition, whatever came before; and the monitor holds what the definition says."""
    known = BEGINNINGS[beginning]
    before, chance_before = evidence_by_definition(known, n, alpha)
    mean = total = Fraction(0)
    for flags in product([True, False], repeat=7):
        evidence, chance = evidence_by_definition([*known, *flags], n, alpha)
        mean, total = mean + evidence * chance, total + chance
        assert isclose(CoverageMonitor(n, alpha).update([*known, *flags]).evidence, evidence, rel_tol=1e-12)
    assert total == chance_before
    assert mean == before * chance_before


def test_a_long_stream_holds_what_the_definition_says():
    generator = np.random.default_rng(11)
    flags = np.concatenate([generator.random(300) < 0.9, generator.random(200) < 0.4]).tolist()
    exact, _ = evidence_by_definition(flags, 50, Fraction(1, 10))
    assert exact > 10**6
    assert isclose(CoverageMonitor(50, 0.1).update(flags).log_evidence, log(exact), rel_tol=1e-12)


@given(flags=st.lists(st.booleans(), max_size=120), cut=st.integers(0, 120), alpha=st.sampled_from([0.05, 0.1, 0.5]))
def test_arrays_and_single_rows_and_saved_states_agree(tmp_path_factory, flags, cut, alpha):
    """To the bit, wherever the stream is cut."""
    whole = CoverageMonitor(50, alpha).update(flags)
    single = CoverageMonitor(50, alpha)
    for flag in flags:
        single.update(flag)
    path = tmp_path_factory.mktemp("monitor") / "state"
    CoverageMonitor(50, alpha).update(flags[:cut]).save(path)
    resumed = CoverageMonitor.load(path).update(np.array(flags[cut:], dtype=bool))
    for other in (single, resumed):
        for name in ("log_evidence", "peak", "rows", "misses", "alarmed_at", "expected"):
            assert getattr(other, name) == getattr(whole, name), name
        assert other.path("pyarrow").equals(whole.path("pyarrow"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_long_streams_in_pieces_are_the_stream_at_once(share):
    """Pieces that end anywhere, evidence that leaves the range of numbers and comes back, groups in turns."""
    generator = np.random.default_rng(5)
    flags = np.concatenate([generator.random(9000) < 0.9, generator.random(1500) < share, np.ones(9500, dtype=bool)])
    groups = generator.choice(["a", "b", "c"], size=20_000)
    flags |= groups == "c"  # whose three rows are too few for a miss
    sizes = {"a": 500, "b": 60, "c": 3}
    whole, pieces = CoverageMonitor(sizes, 0.1).update(flags, groups), CoverageMonitor(sizes, 0.1)
    for piece in np.split(np.arange(20_000), np.sort(generator.integers(20_000, size=60))):
        pieces.update(flags[piece], groups[piece])
    assert pieces.log_evidence == whole.log_evidence
    assert (pieces.peak, pieces.alarmed_at, pieces.expected) == (whole.peak, whole.alarmed_at, whole.expected)
    assert pieces.path("pyarrow").equals(whole.path("pyarrow"))
    assert whole.log_evidence > log(0.1)


def test_long_quiet_does_not_deafen():
    """A hundred thousand quiet rows delay the alarm by what a logarithm costs, not by thousands of rows."""
    generator, delays = np.random.default_rng(2), {}
    for quiet in (1_000, 100_000):
        monitor = CoverageMonitor(5000, 0.1).update(np.arange(quiet) % 10 > 0)
        assert not monitor.alarmed
        delays[quiet] = monitor.update(generator.random(2000) < 0.8).alarmed_at - quiet
    assert delays[1_000] < 300
    assert delays[100_000] < 600


def test_groups_share_one_capital_and_have_urns_of_their_own():
    """The product of bets on groups is a martingale, too: enumerated for two groups in turns."""
    mean = 0.0
    for flags in product([True, False], repeat=8):
        monitor, chance = CoverageMonitor({"a": 19, "b": 9}, 0.1), 1.0
        for row, covered in enumerate(flags):
            missed = monitor.expected["ab"[row % 2]]
            chance *= 1 - missed if covered else missed
            monitor.update(covered, "ab"[row % 2])
        mean += chance * monitor.evidence
    assert isclose(mean, 1.0, rel_tol=1e-12)
    together = CoverageMonitor({"a": 19, "b": 9}, 0.1).update([True, False, True], np.array(["a", "b", "b"]))
    assert together.expected == {"a": 2 / 21, "b": 2 / 12}


def test_alarms_are_false_as_rarely_as_promised():
    """Streams that nothing happened to reach 20 in at most 1 of 20, whenever one looks.

    The law: Ville's inequality. 300 streams of 400 rows; more than 36 alarms have a chance below 1e-6 at a rate of
    0.05.
    """
    generator, alarms = np.random.default_rng(7), 0
    for _ in range(300):
        share = generator.beta(11, 90)  # n = 100, k = 91: the miss rate of one calibration
        alarms += CoverageMonitor(100, 0.1, alarm=20).update(generator.random(400) < 1 - share).alarmed
    assert alarms <= 36


def test_a_rise_of_misses_is_noticed_and_the_alarm_stays():
    generator = np.random.default_rng(3)
    monitor = CoverageMonitor(1000, 0.1).update(generator.random(1000) < 0.9)
    assert not monitor.alarmed
    monitor.update(generator.random(1000) < 0.75)
    assert 1000 < monitor.alarmed_at < 1500
    at = monitor.alarmed_at
    assert monitor.update([True] * 3000).alarmed_at == at
    assert monitor.sentence().startswith(f"ALARM at row {at:,}:")
    assert "1 of 100 cases at most" in repr(monitor)


def test_evidence_never_overflows_nor_vanishes():
    missed, covered = (
        CoverageMonitor(1000, 0.1).update([False] * 3000),
        CoverageMonitor(1000, 0.1).update([True] * 50_000),
    )
    assert missed.evidence == float("inf") or missed.evidence > 1e100
    assert covered.log_evidence < 0  # and no logarithm of nothing
    assert len(covered.path("pyarrow")) <= 4096 + 1


def test_a_calibration_makes_its_own_monitor():
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet([1.0] * 4, size=400)
    labels = probabilities.argmax(axis=1)
    calibration = aptset.calibrate(probabilities[:200], labels[:200], random_state=0)
    sets = calibration.predict_set(probabilities[200:], 0.1)
    monitor = calibration.monitor(0.1).update(sets.covers(labels[200:]))
    assert monitor.rows == 200
    assert not monitor.alarmed
    by_label = aptset.calibrate(probabilities[:200], labels[:200], groups="label", random_state=0)
    sets = by_label.predict_set(probabilities[200:], 0.1)
    assert by_label.monitor(0.1).update(sets.covers(labels[200:]), labels[200:]).rows == 200


def test_a_figure_gives_back_its_table():
    monitor = CoverageMonitor(100, 0.1).update([True, False, True])
    axes = monitor.plot()
    assert axes.get_yscale() == "log"
    assert monitor.path("pyarrow").column_names == ["row", "evidence", "misses"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CoverageMonitor(8, 0.1), "n must be at least 9 for alpha=0.1"),
        (lambda: CoverageMonitor(100, 1.5), "alpha must be in"),
        (lambda: CoverageMonitor(100, 0.1, alarm=1), "alarm must be a number above 1"),
        (lambda: CoverageMonitor(100, 0.1, alarm=float("nan")), "alarm must be a number above 1"),
        (lambda: CoverageMonitor(10**30, 0.1), "n must be below"),
        (lambda: CoverageMonitor(2.5, 0.1), "n must be a whole number"),
        (lambda: CoverageMonitor(100, 0.1).update([1, 0]), "covered must be True or False"),
        (lambda: CoverageMonitor(100, 0.1).update([[True]]), "covered must be True or False"),
        (lambda: CoverageMonitor(100, 0.1).update([True], ["a"]), "groups must not be passed"),
        (lambda: CoverageMonitor({"a": 100}, 0.1).update([True]), "groups must be passed"),
        (lambda: CoverageMonitor({"a": 100}, 0.1).update([True], ["b"]), "got 'b' in row 0"),
        (lambda: CoverageMonitor({"a": 100}, 0.1).update([True], ["a", "a"]), "groups must have one entry per row"),
        (lambda: CoverageMonitor({"a": 100, "b": 3}, 0.1).update([True, False], ["a", "b"]), "True in row 1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_a_refused_row_changes_nothing():
    monitor = CoverageMonitor({"a": 100, "b": 3}, 0.1)
    with pytest.raises(ValueError, match="row 2"):
        monitor.update([False, True, False], ["a", "b", "b"])
    assert (monitor.rows, monitor.evidence) == (0, 1.0)


I64 = lambda *values: np.array(values, dtype=np.int64)  # noqa: E731 - short, where there are many


def capital(kept=1.0, stake=0.0, won=1.0):
    return np.array([[kept, *[stake] * 5, *[won] * 5], [1.0] + [0.0] * 5 + [1.0] * 5])


@pytest.mark.parametrize(
    ("facts", "tensors"),
    [
        ({"alpha": "2"}, {}),
        ({"alpha": "1/0"}, {}),
        ({"alpha": "1/1000"}, {}),  # no set of 100 rows can miss
        ({"alpha": "1e-1"}, {}),  # a power of ten may be of any length
        ({"alarm": None}, {}),
        ({"alarm": True}, {}),
        ({"alarm": 1.0}, {}),
        ({"alarm": float("inf")}, {}),
        ({"alarm": 10**400}, {}),
        ({"has_groups": 0}, {}),
        ({"groups": []}, {}),
        ({"groups": ["a"]}, {}),
        ({"groups": [[]], "has_groups": True}, {}),
        ({"nowhere": -1}, {}),
        ({"ignored": 2**53}, {}),
        ({"mature": -1}, {}),
        ({"mature": 10**30, "in_time": True}, {}),
        ({"alarmed_at": 9}, {}),
        ({"alarmed_at": 0}, {}),
        ({"every": 0}, {}),
        ({"log": []}, {}),
        ({"more": 1}, {}),
        ({}, {"urns": I64([100, 2, 3, 0])}),
        ({}, {"urns": I64([100, -2, -3, 0])}),
        ({}, {"urns": I64([2**53, 2, 1, 0])}),
        ({}, {"urns": I64([100, 2, 1])}),
        ({}, {"urns": np.zeros((0, 4), dtype=np.int64)}),
        ({"groups": ["a", "a"], "has_groups": True}, {"urns": I64([100, 2, 1, 0], [100, 0, 0, 0])}),
        ({}, {"capital": capital(kept=0.0)}),
        ({}, {"capital": capital(kept=1.5)}),
        ({}, {"capital": capital(stake=np.nan)}),
        ({}, {"capital": capital(stake=-0.5)}),
        ({}, {"capital": capital(won=0.0)}),
        ({}, {"capital": capital(won=np.inf)}),
        ({}, {"capital": capital()[:, 1:]}),
        ({}, {"capital": capital()[:1]}),
        ({}, {"exponents": I64(4, 0), "capital": capital()}),  # nothing to take a logarithm of
        ({}, {"exponents": I64(-1, 0)}),
        ({}, {"peak": np.array([np.inf])}),
        ({}, {"peak": np.array([-1.0])}),
        ({}, {"path": np.array([[9, 0.0, 0]])}),
        ({}, {"path": np.array([[1.5, 0.0, 0]])}),
        ({}, {"path": np.array([[1, 0.0, -1]])}),
        ({}, {"path": np.array([[1, np.nan, 0]])}),
        ({}, {"path": np.array([[1, 0.0]])}),
    ],
)
def test_a_forged_state_is_refused_with_one_error(tmp_path, facts, tensors):
    path = tmp_path / "state"
    CoverageMonitor(100, 0.1).update([True, False]).save(path)
    told, held = taken_apart(path)
    forge(path, told, held)
    assert CoverageMonitor.load(path).rows == 2, "what is only written anew is read"
    forge(path, {**told, **facts}, {**held, **tensors})
    with pytest.raises(ValueError, match=r"state is no intact aptset artefact: .*\. Start a new monitor\."):
        CoverageMonitor.load(path)


def test_a_state_without_its_alarm_is_refused(tmp_path):
    path = tmp_path / "state"
    CoverageMonitor(100, 0.1).save(path)
    facts, tensors = taken_apart(path)
    del facts["alarm"]
    forge(path, facts, tensors)
    with pytest.raises(ValueError, match=r"its metadata is incomplete \(alarm\)"):
        CoverageMonitor.load(path)


def test_every_flipped_byte_of_a_state_is_noticed(tmp_path):
    path = tmp_path / "state"
    CoverageMonitor(100, 0.1).update([True, False]).save(path)
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    for place in generator.integers(len(whole), size=100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"state (is no intact aptset artefact|has format|has a kind of state)"):
            CoverageMonitor.load(path)


def test_other_files_are_no_states(tmp_path):
    path = tmp_path / "state"
    CoverageMonitor(100, 0.1).save(path)
    change(path, format=2)
    with pytest.raises(ValueError, match=r"has format 2, .* Upgrade aptset"):
        CoverageMonitor.load(path)
    change(path, format=1, kind="online")
    with pytest.raises(
        ValueError, match=r"must be an artefact of another kind: 'online' is what aptset.Online.load reads"
    ):
        CoverageMonitor.load(path)
    change(path, kind="watch")
    with pytest.raises(ValueError, match="a kind of state that this version of aptset does not know: watch"):
        CoverageMonitor.load(path)
    for content in (b"", b"[]", b'{"a": 1}', b"\xff\x00"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no intact aptset artefact: not a readable file"):
            CoverageMonitor.load(path)


def test_groups_of_numpy_are_plain_and_missing_ones_are_one(tmp_path):
    monitor = CoverageMonitor({np.int64(3): 100, float("nan"): 50}, 0.1).update([True, False, True], [3, None, np.nan])
    monitor.save(tmp_path / "state")
    assert CoverageMonitor.load(tmp_path / "state").settings["n"] == {3: 100, None: 50}


@pytest.mark.parametrize("group", [("a", 1), b"a", float("inf")])
def test_groups_that_a_file_would_not_give_back_are_not_saved(tmp_path, group):
    monitor = CoverageMonitor({group: 100}, 0.1).update(True, group)
    with pytest.raises(TypeError, match="groups must be texts, numbers, booleans or None to be saved"):
        monitor.save(tmp_path / "state")
    assert not list(tmp_path.iterdir())


def test_a_miss_that_is_left_out_may_raise_the_evidence():
    """Not every subset of the misses has less evidence: the urn expects the more misses, the more it has seen."""
    text = "111111011111111111001110010110110110"
    misses = np.array([one == "1" for one in text])
    fewer = misses.copy()
    fewer[21] = False
    every, others = (aptset.CoverageMonitor(n=16, alpha=0.1).update(~these).evidence for these in (misses, fewer))
    assert others > 1.1 * every
