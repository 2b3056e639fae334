"""Online sets against their definition in exact numbers, row by row, and the promise for streams of an enemy."""

import json
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
import reference
from aptset import Online
from aptset.streams.beginnings import first_scores

N_CLASSES = 3
# Rows whose sums, and u whose products, are exact in float64: scores then are the fractions of the definition. No two
# masses are equal, so their order is known.
EXACT_ROWS = np.array([[10, 5, 1], [1, 13, 2], [3, 5, 8], [2, 4, 10], [6, 3, 7]]) / 16


def draw(generator, n):
    """Exact rows with an u each, and labels that follow them roughly."""
    rows = EXACT_ROWS[generator.integers(len(EXACT_ROWS), size=n)]
    labels = (rows.cumsum(axis=1) > generator.random((n, 1))).argmax(axis=1)
    return rows, labels, generator.integers(1, 64, size=n) / 64


def exact_score(row, label, u):
    p = [Fraction(float(mass)) for mass in row]
    order = sorted(range(N_CLASSES), key=lambda y: -p[y])
    return reference.adaptive_score(p, order, label, Fraction(float(u)))


class ByDefinition:
    """Adaptive conformal inference on rolling scores, word for word, in fractions."""

    def __init__(self, scores, alpha, window, step):
        self.scores, self.window = [Fraction(float(score)) for score in scores], window
        self.alpha, self.step, self.level = alpha, step, alpha
        self.rows = self.misses = 0

    def set_of(self, row, u):
        scores = {label: exact_score(row, label, u) for label in range(N_CLASSES)}
        return {label for label, score in scores.items() if reference.in_set(self.scores, score, self.level)}

    def update(self, row, label, u, given_set):
        is_miss = label not in given_set
        self.rows, self.misses = self.rows + 1, self.misses + is_miss
        self.level += self.step * (self.alpha - is_miss)
        if self.window is not None:
            self.scores = [*self.scores, exact_score(row, label, u)][-self.window :]


def both(n, seed, alpha, window, step):
    """A stream, and the same by definition."""
    generator = np.random.default_rng(seed)
    rows, labels, u = draw(generator, max(n, 1))
    calibration = aptset.calibrate(rows, labels, u=u, random_state=0)
    (scores,) = first_scores(calibration, window)
    scores = scores if window is None else scores[-window:]
    return generator, Online(calibration, alpha, window, step), ByDefinition(scores, alpha, window, step)


SETTINGS = st.tuples(
    st.sampled_from([Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1, 10**9)]),
    st.sampled_from([None, 1, 2, 7, 30]),
    st.sampled_from([Fraction(0), Fraction(1, 100), Fraction(1, 7), Fraction(1, 2), Fraction(3)]),
)


@given(settings=SETTINGS, n=st.integers(1, 20), seed=st.integers(0, 2**20))
def test_sets_and_levels_are_those_of_the_definition(settings, n, seed):
    generator, online, literal = both(n, seed, *settings)
    rows, labels, u = draw(generator, 40)
    for row, label, uniform in zip(rows, labels, u, strict=True):
        given_set = literal.set_of(row, uniform)
        assert set(online.predict_set(row[None], u=[uniform])[0].tolist()) == given_set
        online.update(row[None], [label], u=[uniform])
        literal.update(row, label, uniform, given_set)
        assert (online.level, online.rows, online.misses) == (literal.level, literal.rows, literal.misses)
    assert online.delay == 0


@given(settings=SETTINGS, n=st.integers(1, 20), seed=st.integers(0, 2**20), pieces=st.lists(st.integers(1, 9)))
def test_labels_that_come_late_are_judged_by_the_sets_that_were_given(settings, n, seed, pieces):
    """Rows are asked about in pieces of any size, and their labels come in other pieces, later, in order."""
    generator, online, literal = both(n, seed, *settings)
    rows, _, u = draw(generator, 40)
    labels = generator.integers(N_CLASSES, size=40)
    given_sets, asked, known, delay = [], 0, 0, 0
    versions = []
    for turn, size in enumerate([*pieces, 40, 40]):
        if turn % 2 == 0 and asked < 40:
            mine = slice(asked, min(40, asked + size))
            found = online.predict_set(rows[mine], u=u[mine])
            literal_sets = [literal.set_of(row, uniform) for row, uniform in zip(rows[mine], u[mine], strict=True)]
            assert [set(labels_in.tolist()) for labels_in in found] == literal_sets
            given_sets += literal_sets
            versions += [known] * len(literal_sets)
            asked += len(literal_sets)
        elif known < asked:
            mine = slice(known, min(asked, known + size))
            online.update(rows[mine], labels[mine], u=u[mine])
            for row in range(mine.start, mine.stop):
                delay = max(delay, row - versions[row])
                literal.update(rows[row], labels[row], u[row], given_sets[row])
            known = mine.stop
        assert (online.level, online.rows, online.misses) == (literal.level, literal.rows, literal.misses)
        assert online.n_waiting == asked - known
    assert online.delay == delay


def stream(n, seed=0, n_classes=4):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet([1.0] * n_classes, size=n)
    return probabilities, (probabilities.cumsum(axis=1) > generator.random((n, 1))).argmax(axis=1)


def test_rows_that_nobody_asked_about_are_asked_about_just_before_their_labels():
    probabilities, labels = stream(1200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    at_once, single = (
        Online(calibration, window=150).update(probabilities[100:], labels[100:]),
        Online(calibration, window=150),
    )
    for row in range(100, 1200):
        single.predict_mask(probabilities[row : row + 1])
        single.update(probabilities[row : row + 1], labels[row : row + 1])
    assert (at_once.level, at_once.misses, at_once.delay) == (single.level, single.misses, 0)
    new, _ = stream(50, seed=1)
    assert (at_once.predict_mask(new) == single.predict_mask(new)).all()


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("wants_miss", [True, False, None])
@pytest.mark.parametrize(("alpha", "step"), [(0.1, 0.05), (0.5, 0.3), (0.05, 0.9)])
def test_the_promise_holds_against_an_enemy_who_sees_the_sets(batch, wants_miss, alpha, step):
    """Exactly so, after every row: labels outside the set wherever there is one, or inside, or in turns of 100."""
    probabilities, labels = stream(900, n_classes=3)
    calibration = aptset.calibrate(probabilities[:60], labels[:60], random_state=0)
    online = Online(calibration, alpha, window=40, step=step)
    exact_alpha, exact_step = Fraction(str(alpha)), Fraction(str(step))
    for start in range(60, 900, batch):
        mine = probabilities[start : start + batch]
        mask = online.predict_mask(mine)
        outside = (start // 100) % 2 == 0 if wants_miss is None else wants_miss
        online.update(mine, (~mask if outside else mask).argmax(axis=1))
        gap = abs(Fraction(online.misses, online.rows) - exact_alpha)
        slack = max(exact_alpha, 1 - exact_alpha) + exact_step * (1 + online.delay)
        assert gap <= slack / (exact_step * online.rows)
        assert online.bound() == float(slack / (exact_step * online.rows))
    assert online.delay == batch - 1


def test_the_promise_is_hardly_too_modest():
    """Labels that are in as long as any is, until the level is 1: the share of misses goes nearly as far as it may."""
    rows = np.repeat([[0.5, 0.25, 0.25]], 300, axis=0)
    calibration = aptset.calibrate(rows[:50], [0] * 50, u=[0.5] * 50)
    online = Online(calibration, 0.1, step=0.05)
    reached = []
    for row in range(50, 300):
        mask = online.predict_mask(rows[row : row + 1], u=[1.0])
        assert mask.any() == (online.level < 1)
        online.update(rows[row : row + 1], [0], u=[1.0])
        reached.append(abs(online.miss_rate - 0.1) / online.bound())
    assert 0.94 < max(reached) <= 1


def test_without_the_delay_the_promise_would_be_too_much():
    """An enemy with batches of 50 goes beyond what rows one by one are promised: the delay is in the bound for that."""
    probabilities, labels = stream(400, n_classes=3)
    calibration = aptset.calibrate(probabilities[:60], labels[:60], random_state=0)
    online = Online(calibration, 0.1, window=40, step=0.5)
    worst = 0.0
    for start in range(0, 400, 50):
        mask = online.predict_mask(probabilities[start : start + 50])
        online.update(probabilities[start : start + 50], (~mask).argmax(axis=1))
        worst = max(worst, abs(online.miss_rate - 0.1) * 0.5 * online.rows)
        assert abs(online.miss_rate - 0.1) <= online.bound()
    assert worst > 0.9 + 0.5


LABELS = np.array(["ape", "bee", "cat", "dog"])


@pytest.mark.parametrize("groups", [None, "label", "row"])
@pytest.mark.parametrize("conformity", ["adaptive", "homogeneous", "margin"])
def test_without_steps_and_window_the_sets_are_those_of_the_calibration(groups, conformity):
    """To the bit, one by one or at once, copies of rows among them."""
    probabilities, labels = stream(700)
    probabilities[350:] = np.round(probabilities[350:], 1)  # few contents: many copies
    probabilities[350:] /= probabilities[350:].sum(axis=1, keepdims=True)
    of_row = np.arange(700) % 3
    setting = of_row[:300] if groups == "row" else groups
    calibration = aptset.calibrate(
        probabilities[:300], LABELS[labels[:300]], classes=LABELS, groups=setting, conformity=conformity, random_state=1
    )
    new, truth = probabilities[300:], LABELS[labels[300:]]
    extra = {"groups": of_row[300:]} if groups == "row" else {}
    expected = calibration.predict_set(new, 0.1, **extra)
    at_once = Online(calibration, 0.1, window=None, step=0).predict_set(new, **extra)
    assert (at_once.indptr == expected.indptr).all()
    assert (at_once.indices == expected.indices).all()
    single, covered = Online(calibration, 0.1, window=None, step=0), expected.covers(truth)
    for row in range(400):
        one = {name: values[row : row + 1] for name, values in extra.items()}
        assert (single.predict_set(new[row : row + 1], **one)[0] == expected[row]).all(), row
        single.update(new[row : row + 1], truth[row : row + 1], **one)
    assert single.misses == (~covered).sum()


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
    go_on(Online(calibration, 0.2, window=50, step=0.03), 0, cut).save(tmp_path / "state.json")
    loaded = Online.load(tmp_path / "state.json", aptset.load(tmp_path / "cal.aptset"))
    resumed = go_on(loaded, cut, 200)
    for name in ("level", "rows", "misses", "delay", "n_waiting", "alpha", "window", "step"):
        assert getattr(resumed, name) == getattr(whole, name), name
    whole.save(tmp_path / "one.json")
    resumed.save(tmp_path / "other.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()
    new, _ = stream(40, seed=9)
    assert (whole.predict_mask(new) == resumed.predict_mask(new)).all()


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


def test_after_a_change_misses_return_to_alpha_and_those_of_the_calibration_do_not():
    """Labels are guesses from row 1,000 on. 0.1 is promised; with seed 0 the last 1,000 rows show it."""
    probabilities, labels = stream(3500)
    labels[1500:] = np.random.default_rng(1).integers(4, size=2000)
    calibration = aptset.calibrate(probabilities[:500], labels[:500], random_state=0)
    online, missed = Online(calibration, 0.1), []
    for row in range(500, 3500):
        mine = slice(row, row + 1)
        missed.append(not online.predict_mask(probabilities[mine])[0, labels[row]])
        online.update(probabilities[mine], labels[mine])
    assert online.misses == sum(missed)
    still = ~calibration.predict_set(probabilities[2500:], 0.1).covers(labels[2500:])
    assert abs(np.mean(missed[2000:]) - 0.1) < 0.03 < 0.1 < still.mean()


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


def test_what_is_refused_changes_nothing(tmp_path):
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration).update(probabilities[100:150], labels[100:150])
    online.predict_set(probabilities[150:160])
    online.save(tmp_path / "before.json")
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
    online.save(tmp_path / "after.json")
    assert (tmp_path / "before.json").read_bytes() == (tmp_path / "after.json").read_bytes()


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": 1.5}, "alpha must be in"),
        ({"window": 0}, "window must be a whole number of rows"),
        ({"window": 2.5}, "window must be a whole number of rows"),
        ({"window": True}, "window must be a whole number of rows"),
        ({"step": -0.1}, "step must be a number, 0 or above"),
        ({"step": float("nan")}, "step must be a number, 0 or above"),
        ({"step": "big"}, "step must be a number, 0 or above"),
        ({"step": Decimal("sNaN")}, "step must be a number, 0 or above"),
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
    with pytest.raises(ValueError, match="calibration must have kept its scores"):
        Online(counted)


@pytest.fixture
def state(tmp_path):
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration, window=20).update(probabilities[100:150], labels[100:150])
    online.predict_set(probabilities[150:160])
    online.save(tmp_path / "state.json")
    return tmp_path / "state.json", calibration


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": "2"},
        {"alpha": "1/0"},
        {"step": "-1"},
        {"window": 0},
        {"window": 5},
        {"window": "x"},
        {"waiting": 3},
        {"tracks": []},
        {"tracks": [[1, 2, 0, ""]]},
        {"tracks": [[50, 5, 0, "AAAA"]]},
        {"tracks": [[50, 5, 60, ""]]},
        {"block": -1},
        {"seen": "!"},
        {"seen": "A" * 4 * 16384},
        {"moments": []},
        {"is_last_now": False, "moments": [["", ""]]},
        {"asked": {"keys": "", "seeds": "", "moments": ""}},
        {"asked": 3},
    ],
)
def test_a_forged_state_is_refused_with_one_error(state, change):
    path, calibration = state
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    with pytest.raises(ValueError, match="is damaged"):
        Online.load(path, calibration)


def test_other_files_and_other_calibrations_are_refused(state, tmp_path):
    path, calibration = state
    probabilities, labels = stream(200)
    other = aptset.calibrate(probabilities[:99], labels[:99], random_state=0)
    with pytest.raises(ValueError, match="it began with another one"):
        Online.load(path, other)
    for content in (b"", b"[]", b'{"a": 1}', b"\xff"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not the state of a stream"):
            Online.load(path, calibration)
    path.write_text('{"aptset": "online", "format": 2}')
    with pytest.raises(ValueError, match="reads format 1"):
        Online.load(path, calibration)


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


def test_it_says_what_it_has_seen():
    probabilities, labels = stream(200)
    calibration = aptset.calibrate(probabilities[:100], labels[:100], random_state=0)
    online = Online(calibration)
    assert "no row yet" in repr(online)
    assert np.isnan(online.miss_rate)
    assert online.bound() == float("inf")
    assert "of 100 rows missed" in repr(online.update(probabilities[100:], labels[100:]))
    assert Online(calibration, step=0).update(probabilities[100:], labels[100:]).bound() == float("inf")
