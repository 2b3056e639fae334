"""Which set a label is held against, which chance a row has, whose window and level."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_data import LABELS, draw, stream

import aptset
from aptset import Online
from aptset.calibration.online_state import first_scores


def test_copies_get_the_chance_that_they_would_have_in_one_call():
    """Across blocks of 4,096 rows, in pieces of any size; the chance of copies is spread, as it is in one call."""
    content = np.array([[0.5, 0.25, 0.25]])
    rows = np.repeat(content, 9000, axis=0)
    labels = np.zeros(9000, dtype=int)
    calibration = aptset.calibrate(rows[:500], labels[:500], random_state=3)
    expected = calibration.predict_mask(rows, 0.3)
    online, start = Online(calibration, 0.3, window=None, step=0), 0
    for size in (1, 1, 50, 4000, 100, 4000, 1, 847):
        piece = slice(start, start + size)
        assert (online.predict_mask(rows[piece]) == expected[piece]).all()
        online.update(rows[piece], labels[piece])
        start += size
    assert 0.2 < (~expected[:, 0]).mean() < 0.4


@given(seed=st.integers(0, 2**20), pieces=st.lists(st.integers(1, 9), max_size=30))
def test_what_counts_as_a_miss_is_what_users_saw(seed, pieces):
    """Few contents, so copies everywhere: rows are asked about in pieces, and labels come in order, in other pieces."""
    generator = np.random.default_rng(seed)
    rows, labels, _ = draw(generator, 160)
    calibration = aptset.calibrate(rows[:60], labels[:60], random_state=seed)
    online, covered, known = Online(calibration, 0.3, window=30, step=0.2), [], 0
    for turn, size in enumerate([*pieces, 100, 100]):
        asked = len(covered)
        if turn % 2 == 0 and asked < 100:
            covered += online.predict_set(rows[60 + asked :][:size]).covers(labels[60 + asked :][:size]).tolist()
        elif turn % 2 and known < asked:
            mine = slice(60 + known, 60 + min(asked, known + size))
            online.update(rows[mine], labels[mine])
            known = min(asked, known + size)
        assert online.misses == known - sum(covered[:known])


def test_a_window_begins_with_scores_from_everywhere():
    """Of 1,000 scores 100: a draw without replacement, whose mean rank has a deviation of 0.027; 0.16 is 6 of these."""
    probabilities, labels = stream(1000)
    choices = set()
    for key in range(10):
        calibration = aptset.calibrate(probabilities, labels, random_state=key)
        (scores,) = first_scores(calibration, 100)
        ranks = np.searchsorted(calibration.scores, scores) / 1000
        assert abs(ranks.mean() - 0.5) < 0.16
        assert len(np.unique(ranks)) == 100
        choices.add(tuple(ranks.tolist()))
    assert len(choices) == 10
    (scores,) = first_scores(calibration, 5000)
    assert (np.sort(scores) == calibration.scores).all()


def test_a_set_and_its_mask_are_one_question_and_looking_is_none():
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration)
    for _ in range(3):
        online.predict_set(probabilities[100:110])
        online.predict_mask(probabilities[100:110])
        online.predict_set(probabilities[104:106], remember=False)
        online.predict_mask(probabilities[104:106], remember=False)
        online.update(probabilities[100:110], labels[100:110])
        assert (online.n_waiting, online.delay) == (0, 9)
    online.predict_set(probabilities[100:101])
    online.predict_set(probabilities[100:101])  # two rows with one content: two labels will come
    assert online.n_waiting == 2


def test_ids_name_rows_whatever_their_order():
    probabilities, labels = stream(400)
    ids = np.arange(1000, 1400)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], ids=ids[:100], random_state=0)
    online = Online(calibration, 0.1, window=50, step=0.2)
    sets = online.predict_set(probabilities[100:], ids=ids[100:])
    missed = ~sets.covers(labels[100:])
    order = np.random.default_rng(0).permutation(300)
    for piece in np.split(order, [1, 40, 250]):
        online.update(probabilities[100 + piece], labels[100 + piece], ids=ids[100 + piece])
    assert (online.misses, online.n_waiting) == (missed.sum(), 0)
    row = probabilities[100:101]
    first = online.predict_mask(row, ids=["x"])
    online.update(probabilities[200:230], np.full(30, 0))
    last = online.predict_mask(row, ids=["x"])  # the same row again: what it was told last counts
    before, label = online.misses, int((first != last)[0].argmax())
    online.update(row, [label], ids=["x"])
    assert online.misses - before == (not last[0, label])
    assert online.n_waiting == 0


def test_a_row_that_is_asked_about_again_by_its_id_is_judged_by_its_last_set():
    """Also where its first question is the oldest of all, and labels come in order."""
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration, 0.3, window=50, step=0.5)
    online.predict_mask(probabilities[100:101], ids=["a"])
    first = online.predict_mask(probabilities[101:102], ids=["b"])
    online.update(probabilities[100:101], [int(probabilities[100].argmin())], ids=["a"])  # the level falls by a half
    last = online.predict_mask(probabilities[101:102], ids=["b"])
    label = int((first != last)[0].argmax())
    assert (first[0, label], last[0, label]) == (False, True)
    before = online.misses
    online.update(probabilities[101:102], [label], ids=["b"])
    assert (online.misses, online.n_waiting) == (before, 0)


def test_many_equal_rows_wait_in_a_queue():
    rows = np.repeat([[0.5, 0.25, 0.25]], 3000, axis=0)
    labels = np.random.default_rng(0).integers(3, size=3000)
    calibration = aptset.calibrate(rows[:500], labels[:500], random_state=0)
    online = Online(calibration, 0.2, step=0.05)
    missed = [~online.predict_set(rows[500:1500]).covers(labels[500:1500])]
    missed.append(~online.predict_set(rows[1500:]).covers(labels[1500:]))
    online.update(rows[500:2500], labels[500:2500]).update(rows[2500:], labels[2500:])
    assert (online.misses, online.n_waiting) == (np.concatenate(missed).sum(), 0)


@pytest.mark.parametrize("kind", ["row", "label"])
def test_groups_have_windows_and_levels_of_their_own(kind):
    """Rows of one group do not move the others: each is a stream by itself, and its promise holds."""
    probabilities, labels = stream(1500)
    of_row = np.array(["north", "south"])[np.random.default_rng(4).integers(2, size=1500)]
    setting = of_row[:400] if kind == "row" else "label"
    calibration = aptset.calibrate(probabilities[:400], labels[:400], groups=setting, random_state=0)
    online = Online(calibration, 0.1, window=60, step=0.05)
    extra = {"groups": of_row[400:]} if kind == "row" else {}
    online.update(probabilities[400:], labels[400:], **extra)
    of_group = of_row if kind == "row" else labels
    for name, level in online.level.items():
        mine = np.flatnonzero(of_group[400:] == name) + 400
        alone = Online(calibration, 0.1, window=60, step=0.05)
        alone.update(probabilities[mine], labels[mine], **({"groups": of_row[mine]} if kind == "row" else {}))
        assert alone.level[name] == level
        assert abs(online.miss_rate[name] - 0.1) <= online.bound()[name]
    assert online.rows == 1100
    assert set(online.alpha_now) == set(online.delay) == set(np.unique(of_group).tolist())


def test_a_group_that_no_calibration_row_had_gets_every_label_and_teaches_nothing():
    probabilities, labels = stream(60)
    calibration = aptset.calibrate(probabilities[:40], labels[:40], groups=["a"] * 40, random_state=0)
    online = Online(calibration, 0.1)
    with pytest.warns(UserWarning, match="'z' \\(never seen\\)"):
        assert online.predict_mask(probabilities[40:42], groups=["z", "z"]).all()
    assert online.update(probabilities[40:42], labels[40:42], groups=["z", "z"]).rows == 0
    assert online.level == {"a": Fraction(1, 10)}


def test_sets_that_are_never_empty_do_not_fool_the_level():
    """The label that fills an empty set is a gift to the user; the level moves as if the set were empty."""
    probabilities, _ = stream(900)
    labels = probabilities.argmax(axis=1)  # every filled set holds the truth
    filled = aptset.calibrate(probabilities[:100], labels[:100], allow_empty=False, random_state=0)
    plain = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    one, other = Online(filled, 0.3), Online(plain, 0.3)
    for row in range(100, 900):
        mine = slice(row, row + 1)
        assert len(one.predict_set(probabilities[mine])[0])
        other.predict_set(probabilities[mine])
        one.update(probabilities[mine], labels[mine])
        other.update(probabilities[mine], labels[mine])
    assert one.level == other.level
    assert abs(one.miss_rate - 0.3) <= one.bound()


def test_frames_go_by_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    probabilities, labels = stream(200)
    table = pandas.DataFrame(probabilities, columns=LABELS, index=[f"row {i}" for i in range(200)])
    calibration = aptset.calibrate(table[:100], LABELS[labels[:100]], random_state=0)
    online, plain = Online(calibration), Online(calibration)
    turned = table[100:][LABELS[::-1].tolist()]
    sets = online.predict_set(turned)
    assert sets.to_frame().index.tolist() == turned.index.tolist()
    assert (sets.mask == plain.predict_mask(probabilities[100:])).all()
    online.update(turned, pandas.Series(LABELS[labels[100:]]))
    assert online.level == plain.update(probabilities[100:], LABELS[labels[100:]]).level


def test_few_scores_wait_for_a_level_that_they_can_serve():
    """A window shorter than 1/alpha: every label, until the level has risen far enough; then misses come."""
    probabilities, labels = stream(2000)
    calibration = aptset.calibrate(probabilities[:5], labels[:5], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        online = Online(calibration, 0.1, window=5, step=0.05)
        assert online.predict_mask(probabilities[5:6]).all()
        online.update(probabilities[5:], labels[5:])
    assert abs(online.miss_rate - 0.1) <= online.bound() < 0.02


def test_sets_that_wait_for_ever_are_forgotten_in_words():
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration, waiting=20)
    online.predict_set(probabilities[100:120])
    with pytest.warns(UserWarning, match="more than 20 sets wait"):
        online.predict_set(probabilities[120:125])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        online.predict_set(probabilities[125:130])
    assert online.n_waiting == 20
    online.update(probabilities[100:130], labels[100:130])
    assert (online.n_waiting, online.rows) == (0, 30)
