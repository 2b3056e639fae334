"""Ordered labels: both scores against their definitions, intervals at every threshold, orders, refusals, storage."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import aptset
import reference
from aptset import Ordered
from aptset.kernels.formula import Formula
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from aptset.scores.conformity import check_conformity, for_classes, formula_of
from rows_strategy import matrices, uniforms
from shell import run

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
BOTH = pytest.mark.parametrize("how", ["expanding", "central"])


def expanding_score(p, label, u):
    """The mass that joined before the label and 1 - u times its own; labels behind all mass share (1, 2]."""
    joined = [p.index(max(p))]
    while len(joined) < len(p):
        low, high = min(joined) - 1, max(joined) + 1
        takes_low = high == len(p) or (low >= 0 and p[low] >= p[high])
        joined.append(low if takes_low else high)
    before = sum(p[y] for y in joined[: joined.index(label)])
    if before < 1:
        return before + (1 - u) * p[label]
    behind = [y for place, y in enumerate(joined) if sum(p[z] for z in joined[:place]) == 1]
    return 1 + (behind.index(label) + 1 - u) / len(behind)


def central_score(p, label, u):
    """The level of the smallest central interval that meets the label; the median label -u; behind all mass (1, 2]."""
    up_to = [sum(p[: y + 1]) for y in range(len(p))]
    below = [total - mass for total, mass in zip(up_to, p, strict=True)]
    median = next(y for y in range(len(p)) if up_to[y] >= Fraction(1, 2))
    outside = [y for y in range(len(p)) if up_to[y] == 0 or below[y] == 1]
    if label in outside:
        first, last = next(y for y in range(len(p)) if p[y]), max(y for y in range(len(p)) if p[y])
        outside.sort(key=lambda y: (first - y, 0) if y < first else (y - last, 1))
        return 1 + (outside.index(label) + 1 - u) / len(outside)
    return -u if label == median else max(2 * below[label] - 1, 1 - 2 * up_to[label], 0)


DEFINITIONS = {"expanding": expanding_score, "central": central_score}


def bound(how, n_classes, columns=None):
    return for_classes(check_conformity(Ordered(how, columns)), np.arange(n_classes))


@BOTH
@KEYED
@given(matrix=matrices(max_classes=9), u=uniforms, data=st.data())
def test_score_equals_the_definition_in_any_order_of_columns(path, how, matrix, u, data):
    order = data.draw(st.permutations(range(matrix.shape[1])))
    rows = Rows(matrix, formula_of(bound(how, len(order), order)), 7, 0.05, u=np.full(len(matrix), u)).seeded()
    scores, bad = all_scores_of_block(rows, 0, len(rows))
    assert bad == -1
    for i, row in enumerate(matrix):
        p = [reference.exact_row(row)[column] for column in order]
        for place, column in enumerate(order):
            exact = DEFINITIONS[how](p, place, Fraction(u))
            assert abs(Fraction(float(scores[i, column])) - exact) <= 7 * Fraction(2, 2**53)
            one = label_scores(rows, np.full(len(matrix), column)).scores[i]
            assert one == scores[i, column], "calibration and prediction score alike"


@BOTH
@KEYED
@given(matrix=matrices(max_classes=40), u=st.one_of(st.none(), uniforms))
def test_sets_are_intervals_at_every_threshold_and_fast_is_slow(path, how, matrix, u):
    formula = formula_of(bound(how, matrix.shape[1]))
    passed = None if u is None else np.full(len(matrix), u)
    fast, slow = (
        all_scores_of_block(Rows(matrix, form, 7, 0.05, u=passed).seeded(), 0, len(matrix))[0]
        for form in (formula, Formula(None, formula.of))
    )
    np.testing.assert_array_equal(fast, slow)
    for row in fast:
        for threshold in row:
            inside = np.flatnonzero(row <= threshold)
            assert len(inside) == inside[-1] - inside[0] + 1, row


def test_expanding_at_a_row_by_hand():
    rows = Rows(np.array([[0.1, 0.2, 0.4, 0.2, 0.1]]), formula_of(bound("expanding", 5)), 7, 1e-9, u=np.ones(1))
    np.testing.assert_allclose(all_scores_of_block(rows, 0, 1)[0], [[0.8, 0.4, 0.0, 0.6, 0.9]], rtol=0, atol=1e-15)


def unimodal(n, n_classes, seed):
    """Rows with one mode and no ties: binomial shapes around a centre."""
    generator = np.random.default_rng(seed)
    distance = np.abs(np.arange(n_classes) - generator.uniform(0, n_classes - 1, (n, 1)))
    p = np.exp(-distance * generator.uniform(0.2, 2, (n, 1)))
    return p / p.sum(axis=1, keepdims=True)


def test_expanding_is_adaptive_on_rows_with_one_mode(path):
    p = unimodal(400, 9, 0)
    rows = [Rows(p, formula_of(score), 7, 1e-9).seeded() for score in (bound("expanding", 9), aptset.Adaptive())]
    ours, theirs = (all_scores_of_block(each, 0, len(p))[0] for each in rows)
    np.testing.assert_array_equal(ours, theirs)


def graded(n, seed):
    p = unimodal(n, 6, seed)
    return p, (np.random.default_rng(seed + 1).random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


P, Y = graded(400, 3)
NEW, TRUTH = graded(20_000, 5)
U = np.full(400, 0.5)
NAMES = np.array(["fine", "fair", "poor", "bad", "worse", "worst"])


@BOTH
def test_coverage_follows_the_law_and_every_set_is_an_interval(how):
    """Split coverage of 400 rows is Beta(361, 40) and 20,000 rows measure it: 6 standard deviations, 2e-9."""
    sets = aptset.calibrate(P, Y, conformity=Ordered(how), random_state=0).predict_set(NEW, 0.1)
    deviation = (0.1 * 0.9 / 402 + 0.1 * 0.9 / 20_000) ** 0.5
    assert abs(sets.covers(TRUTH).mean() - 361 / 401) < 6 * deviation
    filled = sets.sizes > 0
    lowest, highest = sets.intervals()
    widths = highest[filled].astype(int) - lowest[filled].astype(int) + 1
    np.testing.assert_array_equal(widths, sets.sizes[filled])
    assert all(end is None for end in [*lowest[~filled], *highest[~filled]])


def test_texts_need_an_order_and_it_is_taken_from_an_ordered_categorical():
    names = {"classes": NAMES, "random_state": 0}
    with pytest.raises(ValueError, match=r"order must say the order of labels .*'fine'.*from low to high"):
        aptset.calibrate(P, NAMES[Y], conformity=Ordered(), **names)
    with pytest.raises(ValueError, match="order must speak of every label"):
        aptset.calibrate(P, NAMES[Y], conformity=Ordered(order=NAMES[:-1]), **names)
    with pytest.raises(ValueError, match="'fine' more than once"):
        Ordered(order=["fine", "fine"])
    with pytest.raises(ValueError, match="how must be one of"):
        Ordered("sideways")
    expected = aptset.calibrate(P, NAMES[Y], conformity=Ordered(order=NAMES), **names).predict_set(NEW, 0.1)
    labels = pd.Series(pd.Categorical(NAMES[Y], categories=NAMES, ordered=True))
    assert aptset.calibrate(P, labels, conformity="ordered", **names).predict_set(NEW, 0.1) == expected
    assert expected.intervals(order=NAMES)[0][0] in NAMES
    with pytest.raises(ValueError, match="order must say"):
        expected.intervals()
    sorted_columns = np.argsort(NAMES)  # columns in another order than the labels: the same sets
    shuffled = aptset.calibrate(
        P[:, sorted_columns], NAMES[Y], classes=NAMES[sorted_columns], conformity=Ordered(order=NAMES), u=U
    )
    straight = aptset.calibrate(P, NAMES[Y], classes=NAMES, conformity=Ordered(order=NAMES), u=U)
    np.testing.assert_array_equal(shuffled.scores, straight.scores)


@BOTH
def test_thresholds_by_label_are_refused_and_groups_of_rows_are_not(how):
    for groups in ("label", aptset.LabelBands({label: label // 3 for label in range(6)})):
        with pytest.raises(ValueError, match="one threshold for all labels of a row"):
            aptset.calibrate(P, Y, groups=groups, conformity=Ordered(how))
    with pytest.raises(ValueError, match="one threshold for all labels of a row"):
        aptset.calibrate(P, Y, label_weights=dict.fromkeys(range(6), 1.0), conformity=Ordered(how))
    with pytest.raises(ValueError, match="one threshold for all labels of a row"):
        aptset.ConformalClassifier(LogisticRegression(), conformity=Ordered(how), groups="label").fit(P, Y)
    sets = aptset.calibrate(P, Y, groups=Y % 2, conformity=Ordered(how)).predict_set(NEW, 0.1, groups=TRUTH % 2)
    lowest, highest = sets[sets.sizes > 0].intervals()
    np.testing.assert_array_equal(highest - lowest + 1, sets.sizes[sets.sizes > 0])


def test_it_is_saved_with_its_order_and_wrapped(tmp_path):
    score = aptset.Tempered(Ordered("central", order=NAMES[::-1]), power=0.5)
    calibration = aptset.calibrate(P, NAMES[Y], classes=NAMES, conformity=score, random_state=0)
    calibration.save(tmp_path / "grades.aptset")
    loaded = aptset.load(tmp_path / "grades.aptset")
    assert loaded.predict_set(NEW, 0.1) == calibration.predict_set(NEW, 0.1)
    classifier = aptset.ConformalClassifier(LogisticRegression(), conformity=Ordered(order=NAMES), random_state=0)
    classifier.fit(P, NAMES[Y]).save(tmp_path / "folder")
    assert aptset.load(tmp_path / "folder").predict_set(NEW, 0.1) == classifier.predict_set(NEW, 0.1)


def test_folds_keep_the_guarantee_and_the_interval_holds_the_set():
    settings = {"calibration": "cv+", "conformity": Ordered("central"), "random_state": 0}
    classifier = aptset.ConformalClassifier(LogisticRegression(), **settings)
    sets = classifier.fit(P, Y).predict_set(NEW[:2000], 0.1)
    lowest, highest = sets[sets.sizes > 0].intervals()
    assert (highest - lowest + 1 >= sets.sizes[sets.sizes > 0]).all()


def test_command_line_takes_the_order(tmp_path):
    frame = pd.DataFrame(P, columns=[f"p_{name}" for name in NAMES]).assign(y=NAMES[Y])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    options = ["--label", "y", "--prefix", "p_", "-o", str(tmp_path / "cal.aptset")]
    without = run("calibrate", tmp_path / "rows.csv", *options, "--conformity", "ordered", rc=1)
    assert "order must say the order of labels" in without.output
    run("calibrate", tmp_path / "rows.csv", *options, "--conformity", "central", "--order", ",".join(NAMES))
    assert aptset.load(tmp_path / "cal.aptset").conformity.order == tuple(NAMES)
    wrong = run("calibrate", tmp_path / "rows.csv", *options, "--order", ",".join(NAMES), rc=2)
    assert "--order is for --conformity ordered" in wrong.output


def test_what_has_no_order_gives_none():
    """The order of a set of texts is another one in every process."""
    for order in (set(NAMES.tolist()), frozenset(NAMES.tolist()), dict.fromkeys(NAMES.tolist()).keys() & set(NAMES)):
        with pytest.raises(TypeError, match="order must be a list of all labels from low to high"):
            Ordered(order=order)
    assert Ordered(order=dict.fromkeys([3, 1, 2]).keys()).order == (3, 1, 2)
