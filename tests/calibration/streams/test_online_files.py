"""States in files, and what is refused in words."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from stream_data import stream

import aptset
from aptset import Online
from forging import forge, taken_apart


@pytest.mark.parametrize("cut", [0, 1, 37, 80])
def test_a_stream_that_was_saved_goes_on_to_the_bit(tmp_path, cut):
    probabilities, labels = stream(300)
    probabilities[150:200] = probabilities[100:150]  # copies
    calibration = aptset.calibrate(probabilities[:60], labels[:60], random_state=0)
    calibration.save(tmp_path / "cal.aptset")

    def go_on(online, start, stop):
        for row in range(start, stop):  # asked about one by one, labels come 20 rows later
            online.predict_set(probabilities[60 + row : 61 + row])
            if row >= 20:
                online.update(probabilities[40 + row : 41 + row], labels[40 + row : 41 + row])
        return online

    whole = go_on(Online(calibration, 0.2, window=50, step=0.03), 0, 200)
    go_on(Online(calibration, 0.2, window=50, step=0.03), 0, cut).save(tmp_path / "state")
    loaded = Online.load(tmp_path / "state", aptset.load(tmp_path / "cal.aptset"))
    resumed = go_on(loaded, cut, 200)
    for name in ("level", "rows", "misses", "delay", "n_waiting", "alpha", "window", "step"):
        assert getattr(resumed, name) == getattr(whole, name), name
    whole.save(tmp_path / "one")
    resumed.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    new, _ = stream(40, seed=9)
    assert (whole.predict_mask(new) == resumed.predict_mask(new)).all()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_row_that_its_id_names_is_judged_by_what_it_was_told_last_also_after_a_restart(tmp_path, is_loaded):
    probabilities, labels = stream(110)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration)
    online.predict_set(probabilities[100:101], ids=["a"])
    online.predict_set(probabilities[101:102], ids=["b"])
    online.save(tmp_path / "state")
    online = Online.load(tmp_path / "state", calibration) if is_loaded else online
    online.update(probabilities[100:101], labels[100:101], ids=["a"])
    online.predict_set(probabilities[101:102], ids=["b"])
    assert online.n_waiting == 1
    online.update(probabilities[101:102], labels[101:102], ids=["b"])
    assert (online.n_waiting, online.delay) == (0, 0)


def test_saving_between_the_set_and_the_mask_of_the_same_rows_asks_about_them_no_more_often(tmp_path):
    probabilities, labels = stream(110)
    online = Online(aptset.calibrate(probabilities[:100], labels[:100], random_state=0))
    online.predict_set(probabilities[100:])
    online.save(tmp_path / "state")
    online.predict_mask(probabilities[100:])
    assert online.n_waiting == 10


@pytest.mark.parametrize("kind", ["all", "row", "label"])
def test_a_restart_between_any_two_calls_changes_nothing(tmp_path, kind):
    """Sets, masks, looks and labels in any order, with copies and ids: saved and loaded after every call, or never."""
    for seed in range(6):
        generator = np.random.default_rng(seed)
        probabilities, labels = stream(160, seed)
        probabilities[100:110] = probabilities[110:120]
        regions = None if kind == "all" else "label" if kind == "label" else generator.choice(["n", "s"], 160)
        of_calibration = regions[:60] if kind == "row" else "label" if kind == "label" else None
        calibration = aptset.calibrate(probabilities[:60], labels[:60], groups=of_calibration, random_state=0)
        one, other = (Online(calibration, 0.2, window=40, step=0.05) for _ in range(2))
        rows = np.arange(60, 70)
        for call in generator.choice(["set", "mask", "look", "update", "new"], size=30).tolist():
            rows = generator.integers(60, 160, size=generator.integers(1, 6)) if call == "new" else rows
            settings = {"groups": regions[rows]} if kind == "row" else {}
            settings |= {"ids": [f"row {row}" for row in rows]} if seed % 2 else {}
            settings |= {"ids": np.unique(settings["ids"], return_inverse=True)[1]} if "ids" in settings else {}
            for online in (one, other):
                if call in ("set", "mask"):
                    (online.predict_set if call == "set" else online.predict_mask)(probabilities[rows], **settings)
                elif call == "look":
                    online.predict_set(probabilities[rows], **settings, remember=False)
                elif call == "update":
                    online.update(probabilities[rows], labels[rows], **settings)
            other.save(tmp_path / "state")
            other = Online.load(tmp_path / "state", calibration)
        for name in ("level", "rows", "misses", "delay", "n_waiting"):
            assert getattr(one, name) == getattr(other, name), name


def test_a_state_does_not_grow_as_groups_times_rows_that_wait(tmp_path):
    """200 groups, 400 rows that wait, each asked about at a moment of its own: no number for each pair of them."""
    probabilities, labels = stream(2400)
    groups = np.arange(2400) % 200
    calibration = aptset.calibrate(probabilities[:1200], labels[:1200], groups=groups[:1200], random_state=0)
    online, sizes = Online(calibration, window=6), []
    for row in range(1200, 2400):
        online.predict_set(probabilities[row : row + 1], groups=groups[row : row + 1])
        if row >= 1600:
            online.update(
                probabilities[row - 400 : row - 399], labels[row - 400 : row - 399], groups=groups[[row - 400]]
            )
        if row % 100 == 99:
            online.save(tmp_path / "state")
            sizes.append((tmp_path / "state").stat().st_size)
            online = Online.load(tmp_path / "state", calibration)
    assert online.n_waiting == 400
    assert max(sizes) < 120_000  # 400 x 200 thresholds and counts alone would take 1.7 million letters
    held = sum(len(past) for past in online._state.history.past)
    assert held <= 200 + 400


def test_what_nobody_waits_for_is_forgotten():
    """One row that waits for ever does not hold on to every threshold since."""
    probabilities, labels = stream(9100)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration)
    online.predict_set(probabilities[100:101], ids=["lost"])
    for row in range(101, 9100):
        online.update(probabilities[row : row + 1], labels[row : row + 1])
    assert len(online._state.history.past[0]) < 2100
    assert online.n_waiting == 1


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.str_, np.bool_])
def test_groups_named_by_numbers_and_texts_of_numpy_are_known_again(tmp_path, kind):
    probabilities, labels = stream(100)
    groups = [kind(row % 2) for row in range(100)]
    calibration = aptset.calibrate(probabilities, labels, groups=groups, random_state=0)
    calibration.save(tmp_path / "cal.aptset")
    Online(calibration).save(tmp_path / "state")
    online = Online.load(tmp_path / "state", aptset.load(tmp_path / "cal.aptset"))
    assert online.update(probabilities, labels, groups=groups).rows == 100


def test_what_is_refused_changes_nothing(tmp_path):
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration).update(probabilities[100:150], labels[100:150])
    online.predict_set(probabilities[150:160])
    online.save(tmp_path / "before")
    bad = probabilities[150:160].copy()
    bad[7, 2] = np.nan
    for call in (
        lambda: online.predict_set(bad),
        lambda: online.predict_mask(bad),
        lambda: online.update(bad, labels[150:160]),
        lambda: online.update(probabilities[150:160], labels[150:159]),
        lambda: online.update(probabilities[150:160], ["ape"] * 10),
        lambda: online.update(probabilities[150:160], [9] * 10),
        lambda: online.update(probabilities[150:160, :3], labels[150:160]),
        lambda: online.update(probabilities[150:160], labels[150:160], groups=["a"] * 10),
        lambda: online.update(probabilities[150:160], labels[150:160], u=[0.5] * 10),
        lambda: online.update(probabilities[:0], labels[:0]),
        lambda: online.predict_set(probabilities[:0]),
        lambda: online.predict_set(probabilities[150:160], allow_empty="no"),
        lambda: online.predict_set(probabilities[150:160], remember="no"),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    online.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": 1.5}, "alpha must be in"),
        ({"window": 0}, "window must be a whole number of rows"),
        ({"window": 2.5}, "window must be a whole number of rows"),
        ({"window": True}, "window must be a whole number of rows"),
        ({"step": -0.1}, "step must be a number from 0 to 2.53"),
        ({"step": float("nan")}, "step must be a number from 0 to 2.53"),
        ({"step": 10**400}, "step must be a number from 0 to 2.53"),
        ({"step": "big"}, "step must be a number from 0 to 2.53"),
        ({"step": Decimal("sNaN")}, "step must be a number from 0 to 2.53"),
        ({"window": 10**30}, "window must be a whole number of rows"),
        ({"waiting": 0}, "waiting must be a whole number of rows"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(change, words):
    calibration = aptset.calibrate([[0.5, 0.25, 0.25]] * 20, [0] * 20)
    with pytest.raises(ValueError, match=words):
        Online(calibration, **change)


def test_only_calibrations_with_their_scores_can_move():
    probabilities, labels = stream(200)
    folds = aptset.calibrate_cv(probabilities, labels, np.arange(200) % 4)
    with pytest.raises(TypeError, match="calibration must be what"):
        Online(folds)
    table = pa.table({"a": probabilities[:, 0], "b": 1 - probabilities[:, 0], "y": np.array(["a", "b"])[labels % 2]})
    counted = aptset.calibrate_batches(table, labels="y", alpha=0.1)
    with pytest.raises(ValueError, match="calibration must have stored its scores"):
        Online(counted)


@pytest.fixture
def state(tmp_path):
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration, window=20).update(probabilities[100:150], labels[100:150])
    online.predict_set(probabilities[150:160])
    online.save(tmp_path / "state")
    return tmp_path / "state", calibration


I64, U64 = (lambda *values: np.array(values, dtype=np.int64)), (lambda n: np.zeros(n, dtype=np.uint64))


@pytest.mark.parametrize(
    ("change", "tensors"),
    [
        ({"alpha": "2"}, {}),
        ({"alpha": "1/0"}, {}),
        ({"alpha": "1" * 5000}, {}),
        ({"alpha": 0.1}, {}),
        ({"step": "-1"}, {}),
        ({"step": "1e-5"}, {}),  # a power of ten may be of any length
        ({"step": "1" + "0" * 400}, {}),
        ({"window": 0}, {}),
        ({"window": 5}, {}),
        ({"window": None}, {}),
        ({"window": True}, {}),
        ({"window": "x"}, {}),
        ({"waiting": 3}, {}),
        ({"waiting": 2**53}, {}),
        ({"block": -1}, {}),
        ({"moment": -1}, {}),
        ({"moment": 0}, {}),
        ({"last": ["", "neither"]}, {}),
        ({"last": [3, "set"]}, {}),
        ({"last": 3}, {}),
        ({"last": []}, {}),
        ({"format": 0}, {}),
        ({"more": 1}, {}),
        ({}, {"tracks": np.zeros((0, 3), dtype=np.int64)}),
        ({}, {"tracks": I64([50, 51, 0])}),
        ({}, {"tracks": I64([50, 5, 60])}),
        ({}, {"tracks": I64([50, -1, 0])}),
        ({}, {"tracks": I64([49, 5, 0])}),
        ({}, {"tracks": I64([50, 5, 0], [50, 5, 0])}),
        ({}, {"tracks": I64([2**53, 5, 0])}),
        ({}, {"recent": np.full(20, np.nan)}),
        ({}, {"recent": np.zeros(20)}),  # of another threshold than the one in force
        ({}, {"recent_counts": I64(19)}),
        ({}, {"recent_counts": I64(2**63 - 1)}),
        ({}, {"recent": np.zeros(21), "recent_counts": I64(21)}),
        ({}, {"seen": U64(4096)}),
        ({}, {"seen": I64(3)}),
        ({}, {"past_counts": I64(0)}),
        ({}, {"past_counts": I64(3)}),
        ({}, {"past_moments": I64(1, 1)}),
        ({}, {"past_moments": I64(-1, 1)}),
        ({}, {"past_moments": I64(-(2**63), 2**63 - 1)}),
        ({}, {"past_rows": I64(60, 50)}),
        ({}, {"past_thresholds": np.array([np.nan, 0.5])}),
        ({}, {"past_thresholds": np.array([0.5, 0.5])}),
        ({}, {"past_moments": I64(0), "past_thresholds": np.zeros(1)}),
        ({}, {"asked_keys": U64(3)}),
        ({}, {"asked_moments": I64(*[1] * 9, 0)}),
        ({}, {"asked_moments": I64(*[7] * 10)}),
        ({}, {"asked_moments": I64(*[-1] * 10)}),  # a moment that nobody remembers
        ({}, {"third": np.zeros(3)}),
    ],
)
def test_a_forged_state_is_refused_with_one_error(state, change, tensors):
    path, calibration = state
    facts, held = taken_apart(path)
    forge(path, facts, held)
    assert Online.load(path, calibration).rows == 50, "what is only written anew is read"
    forge(path, {**facts, **change}, {**held, **tensors})
    with pytest.raises(ValueError, match=r"state is no intact aptset artefact: .*\. Start a new stream\."):
        Online.load(path, calibration)


def test_every_flipped_byte_of_a_state_is_noticed(state):
    path, calibration = state
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    for place in generator.integers(len(whole), size=100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"state (is no intact aptset artefact|has format|has a kind of state)"):
            Online.load(path, calibration)


def test_other_files_and_other_calibrations_are_refused(state, tmp_path):
    path, calibration = state
    probabilities, labels = stream(200)
    other = aptset.calibrate(probabilities[:99], labels[:99], random_state=0)
    with pytest.raises(ValueError, match="it began with another one"):
        Online.load(path, other)
    other.save(tmp_path / "cal.aptset")
    with pytest.raises(ValueError, match=r"must be an artefact of another kind: 'split' is what aptset.load reads"):
        Online.load(tmp_path / "cal.aptset", calibration)
    with pytest.raises(ValueError, match=r"another kind: 'online' is what aptset.Online.load reads"):
        aptset.load(path)
    with pytest.raises(FileNotFoundError, match="must be a file; there is none"):
        Online.load(tmp_path / "none", calibration)
    facts, tensors = taken_apart(path)
    forge(path, {**facts, "format": 2}, tensors)
    with pytest.raises(ValueError, match=r"has format 2, .* Upgrade aptset"):
        Online.load(path, calibration)
    for content in (b"", b"[]", b'{"a": 1}', b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no intact aptset artefact: not a readable file"):
            Online.load(path, calibration)


def test_it_says_what_it_has_seen():
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration)
    assert "no row yet" in repr(online)
    assert np.isnan(online.miss_rate)
    assert online.bound() == float("inf")
    assert "of 100 rows missed" in repr(online.update(probabilities[100:], labels[100:]))
    assert Online(calibration, step=0).update(probabilities[100:], labels[100:]).bound() == float("inf")
