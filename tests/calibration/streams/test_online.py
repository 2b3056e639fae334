"""Online sets against their definition in exact numbers, row by row, and the promise for streams of an enemy."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_data import LABELS, N_CLASSES, draw, stream

import aptset
import reference
from aptset import Online
from aptset.calibration.online_state import first_scores


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


@pytest.mark.parametrize("groups", [None, "label", "bands", "row"])
@pytest.mark.parametrize("conformity", ["adaptive", "homogeneous", "margin"])
def test_without_steps_and_window_the_sets_are_those_of_the_calibration(groups, conformity):
    """To the bit, one by one or at once, copies of rows among them."""
    probabilities, labels = stream(700)
    probabilities[350:] = np.round(probabilities[350:], 1)  # few contents: many copies
    probabilities[350:] /= probabilities[350:].sum(axis=1, keepdims=True)
    of_row = np.arange(700) % 3
    bands = aptset.LabelBands(dict(zip(LABELS.tolist(), [0, 0, 1, 1], strict=True)))
    setting = of_row[:300] if groups == "row" else bands if groups == "bands" else groups
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
