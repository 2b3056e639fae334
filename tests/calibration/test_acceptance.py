"""Act or ask: the face on probabilities, confidences and files; the rules themselves are in tests/conformal."""

import warnings
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset.calibration.acceptance_threshold import automatic
from forging import forge, taken_apart

SHARED = Path(__file__).parents[3] / "shared" / "data" / "scores"
generator = np.random.default_rng(28)
CLASSES = np.array(["ant", "bee", "cow", "dog"])
P = generator.dirichlet([0.1] * 4, size=3000)
Y = CLASSES[(P.cumsum(axis=1) < generator.random((3000, 1))).sum(axis=1)]
OLD, NEW = slice(0, 2000), slice(2000, 3000)
RULE = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, random_state=0)


def literal(confidence, wrong, new, error):
    """The definition: the smallest t with (1 + w) m <= q (n + 1) r."""
    n, m, acted = len(confidence), len(new), np.zeros(len(new), dtype=bool)
    for t in sorted(set(new.tolist())):
        r, w = int((new >= t).sum()), int((wrong & (confidence >= t)).sum())
        if (1 + w) * m <= Fraction(str(error)) * (n + 1) * r:
            return new >= t
    return acted


def kept(rule):
    return [rule.confidences.tolist(), rule.u.tolist(), rule.is_wrong.tolist()]


def test_a_batch_is_the_definition_on_largest_probabilities():
    wrong = CLASSES[P[OLD].argmax(axis=1)] != Y[OLD]
    for error in (0.02, 0.05, 0.1, 0.2):
        wanted = literal(P[OLD].max(axis=1), wrong, P[NEW].max(axis=1), error)
        assert RULE.accept(P[NEW], error).tolist() == wanted.tolist()
    assert (RULE.n, RULE.n_wrong) == (2000, wrong.sum())


def test_margins_arrays_and_functions_are_confidences():
    two = np.sort(P, axis=1)[:, -2:]
    margin = two[:, 1] - two[:, 0]
    by_name = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, confidence="margin", random_state=0)
    by_array = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, confidence=margin[OLD], random_state=0)

    def function(rows):
        sorted_rows = np.sort(rows, axis=1)
        return sorted_rows[:, -1] - sorted_rows[:, -2]

    by_function = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, confidence=function, random_state=0)
    assert kept(by_name) == kept(by_array) == kept(by_function)
    assert (by_name.accept(P[NEW]) == by_array.accept(P[NEW], confidence=margin[NEW])).all()
    assert (by_name.accept(P[NEW]) == by_function.accept(P[NEW])).all()
    bare = aptset.learn_acceptance(None, Y[OLD], confidence=margin[OLD], guesses=CLASSES[P[OLD].argmax(axis=1)])
    assert (bare.accept(confidence=margin[NEW]) == by_name.accept(P[NEW])).all()
    assert (bare.is_wrong == by_name.is_wrong).all()


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(random):
    order = list(range(300))
    random.shuffle(order)
    one = aptset.learn_acceptance(P[:300], Y[:300], classes=CLASSES, random_state=0)
    two = aptset.learn_acceptance(P[order], Y[order], classes=CLASSES, random_state=0)
    assert kept(one) == kept(two)
    assert (one.accept(P[NEW], 0.1)[::-1] == two.accept(P[NEW][::-1], 0.1)).all()


def test_merged_shards_are_the_whole():
    shards = [
        aptset.learn_acceptance(P[rows], Y[rows], classes=CLASSES, random_state=0)
        for rows in (slice(700), slice(700, 2000))
    ]
    merged = shards[0].merge(shards[1])
    assert kept(merged) == kept(RULE)
    assert merged.cells.tolist() == RULE.cells.tolist()
    assert merged.threshold(0.1).value == RULE.threshold(0.1).value
    with pytest.raises(ValueError, match="count twice"):
        merged.merge(shards[0])
    other = aptset.learn_acceptance(P[NEW], Y[NEW], classes=CLASSES, random_state=1)
    with pytest.raises(ValueError, match="key"):
        RULE.merge(other)
    with pytest.raises(ValueError, match="merge the Acceptance"):
        RULE.threshold().merge(RULE.threshold())


def test_merged_groups_keep_their_rows():
    groups = np.array(["x", "y", "z"])[np.arange(2000) % 3]
    of = [
        aptset.learn_acceptance(P[s], Y[s], classes=CLASSES, groups=groups[s], random_state=0)
        for s in (slice(5), slice(5, 2000))
    ]
    whole = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, groups=groups, random_state=0)
    new = groups[:1000]
    assert (of[0].merge(of[1]).accept(P[NEW], 0.1, groups=new) == whole.accept(P[NEW], 0.1, groups=new)).all()


def test_groups_and_predicted_labels_have_rules_of_their_own():
    group = np.arange(3000) % 2
    rule = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, groups=group[OLD], random_state=0)
    act, guess = rule.accept(P[NEW], 0.1, groups=group[NEW]), P.argmax(axis=1)
    some = rule.accept(P[NEW], {1: 0.1}, groups=group[NEW])
    for one in (0, 1):
        rows = group == one
        alone = aptset.learn_acceptance(P[OLD][rows[OLD]], Y[OLD][rows[OLD]], classes=CLASSES, random_state=0)
        assert (act[rows[NEW]] == alone.accept(P[NEW][rows[NEW]], 0.1)).all()
    assert (some == act & (group[NEW] == 1)).all()
    by_label = RULE.accept(P[NEW], {"bee": 0.1, "dog": 0.2})
    for column, error in ((1, 0.1), (3, 0.2)):
        rows = guess == column
        alone = aptset.learn_acceptance(P[OLD][rows[OLD]], Y[OLD][rows[OLD]], classes=CLASSES, random_state=0)
        assert (by_label[rows[NEW]] == alone.accept(P[NEW][rows[NEW]], error)).all()
    assert not by_label[(guess[NEW] == 0) | (guess[NEW] == 2)].any()


def test_a_group_that_was_never_seen_is_asked_about():
    rule = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, groups=["a"] * 2000, random_state=0)
    groups = np.array(["a"] * 500 + ["b"] * 500)
    assert not rule.accept(P[NEW], 0.1, groups=groups)[500:].any()
    assert not rule.threshold(0.1).accept(P[NEW], groups=groups)[500:].any()
    assert rule.threshold(0.1).accept(P[NEW], groups=groups).any()


def test_a_threshold_is_at_the_rank_of_the_rule():
    for error, assurance in ((0.05, 0.9), (0.1, 0.95)):
        threshold = RULE.threshold(error, assurance)
        delta = 1 - Fraction(str(assurance))
        rank = automatic(2000, Fraction(str(error)), delta).rank(RULE.is_wrong)
        assert threshold.rows == rank > 0
        assert threshold.value == RULE.confidences[rank]
        assert threshold.share == rank / 2000
        act = threshold.accept(P[NEW])
        assert (act == (P[NEW].max(axis=1) > threshold.value)).all()
        assert [bool(threshold.accept(P[[row]])[0]) for row in range(2000, 2020)] == act[:20].tolist()
    assert RULE.threshold(0.1, method="bonferroni").rows <= RULE.threshold(0.1, method="band").rows
    assert RULE.threshold(0.1, method="sequence", start=0.5).rows >= 1000


def test_rows_at_the_threshold_itself_are_decided_by_u():
    """All confidences are equal: the share of new rows that is acted on is that of the calibration rows."""
    n = 4000
    wrong = np.arange(n) % 25 == 0
    u = generator.permutation(n) / n
    rule = aptset.learn_acceptance(confidence=np.ones(n), wrong=wrong, u=u)
    order = np.argsort(-u)
    rank = automatic(n, Fraction(1, 20), Fraction(1, 10)).rank(wrong[order])
    threshold = rule.threshold(0.05)
    assert (threshold.rows, threshold.value) == (rank, 1.0 if rank < n else -np.inf)
    new_u = generator.random(1000)
    wanted = new_u > u[order][rank] if rank < n else np.ones(1000, dtype=bool)
    assert (threshold.accept(confidence=np.ones(1000), u=new_u) == wanted).all()
    assert not rule.accept(confidence=np.full(1000, 0.5), error=0.01).any()


def test_u_of_rows_with_equal_confidence_is_drawn_from_the_row():
    blocks = np.round(P.max(axis=1), 1)
    rule = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, confidence=blocks[OLD], random_state=0)
    threshold = rule.threshold(0.1)
    act = threshold.accept(P[NEW], confidence=blocks[NEW])
    at = blocks[NEW] == threshold.value
    assert 0 < act[at].sum() < at.sum()
    assert (act == threshold.accept(P[NEW][::-1], confidence=blocks[NEW][::-1])[::-1]).all()
    assert (act[:5] == threshold.accept(P[NEW][:5], confidence=blocks[NEW][:5])).all()


def test_each_predicted_label_has_a_threshold_alone_or_all_at_once():
    each = RULE.threshold({"bee": 0.1, "dog": 0.1}, 0.9)
    together = RULE.threshold({"bee": 0.1, "dog": 0.1}, 0.9, all_at_once=True)
    guess = CLASSES[P.argmax(axis=1)]
    rows = guess[OLD] == "bee"
    alone = aptset.learn_acceptance(P[OLD][rows], Y[OLD][rows], classes=CLASSES, random_state=0)
    assert each.value["bee"] == alone.threshold(0.1, 0.9).value
    assert together.value["bee"] == alone.threshold(0.1, 0.95).value
    act = each.accept(P[NEW])
    assert act.any()
    assert set(guess[NEW][act].tolist()) <= {"bee", "dog"}
    assert "for all at once" in together.sentence()


def test_all_right_is_acted_on_and_all_wrong_is_not():
    for n in (50, 2000):
        right = aptset.learn_acceptance(P[:n], P[:n].argmax(axis=1), random_state=0)
        wrong = aptset.learn_acceptance(P[:n], (P[:n].argmax(axis=1) + 1) % 4, random_state=0)
        assert right.accept(P[NEW]).all()
        assert right.threshold().accept(P[NEW]).all()
        assert right.threshold().reason == "every row can be decided"
        assert not wrong.accept(P[NEW]).any()
        assert not wrong.threshold().accept(P[NEW]).any()


def test_too_few_rows_are_said_with_how_many_are_needed():
    """45 right rows are enough at error 0.05 and assurance 0.9: 0.95^45 = 0.0994."""
    few = aptset.learn_acceptance(P[:20], P[:20].argmax(axis=1), random_state=0)
    words = "no row can be decided: 20 rows, at least 45 are needed even if none is wrong"
    with pytest.warns(UserWarning, match=words):
        threshold = few.threshold(error=0.05, assurance=0.9)
    assert threshold.reason == words
    assert not threshold.accept(P[NEW]).any()
    assert threshold.sentence() == "No row is decided: 20 rows, at least 45 are needed even if none is wrong."
    enough = aptset.learn_acceptance(P[:45], P[:45].argmax(axis=1), random_state=0)
    assert enough.threshold(error=0.05, assurance=0.9).accept(P[NEW]).all()
    less = aptset.learn_acceptance(P[:18], P[:18].argmax(axis=1), random_state=0)
    with pytest.warns(UserWarning, match="18 rows, at least 19 are needed even if none is wrong"):
        assert not less.accept(P[NEW], 0.05).any()


def test_small_batches_are_warned_of_and_one_row_is_refused():
    with pytest.warns(UserWarning, match="a batch of 99 rows is small for error=0.05"):
        RULE.accept(P[NEW][:99], 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RULE.accept(P[NEW][:100], 0.05)
    with pytest.raises(ValueError, match=r"threshold\(error=..., assurance=...\)"):
        RULE.accept(P[NEW][:1], 0.05)


def test_own_wrong_counts():
    far = np.abs(P.argmax(axis=1) - (P.cumsum(axis=1) < 0.5).sum(axis=1)) > 1
    rule = aptset.learn_acceptance(P[OLD], wrong=far[OLD], random_state=0)
    assert rule.n_wrong == far[OLD].sum()
    assert (rule.accept(P[NEW]) == literal(P[OLD].max(axis=1), far[OLD], P[NEW].max(axis=1), 0.05)).all()


def test_frames_go_by_the_names_of_their_columns():
    frame = pd.DataFrame(P, columns=CLASSES)
    rule = aptset.learn_acceptance(frame[OLD], Y[OLD], random_state=0)
    assert kept(rule) == kept(RULE)
    assert (rule.accept(frame[CLASSES[::-1]][NEW]) == RULE.accept(P[NEW])).all()


def test_the_curve_is_an_estimate_at_every_share():
    curve = RULE.curve()
    assert list(curve.columns) == ["share", "wrong", "confidence"]
    row = curve.iloc[len(curve) // 2]
    above = RULE.confidences >= row.confidence
    assert (row.share, row.wrong) == (above.mean(), RULE.is_wrong[above].mean())
    assert curve.share.iloc[-1] == 1.0


@pytest.mark.parametrize("by", ["guess", "group", "none"])
def test_a_rule_and_a_threshold_come_back_as_they_were(tmp_path, by):
    groups = np.array([None, "é", "z"], dtype=object)[np.arange(3000) % 3]
    largest = P.max(axis=1)
    settings = {"classes": CLASSES, "random_state": 0}
    new = {}
    if by == "group":
        settings["groups"], new["groups"] = groups[OLD], groups[NEW]
    probabilities = P
    rule = aptset.learn_acceptance(probabilities[OLD], Y[OLD], **settings)
    if by == "none":
        rule = aptset.learn_acceptance(
            confidence=largest[OLD], wrong=RULE.reading.classes[P[OLD].argmax(axis=1)] != Y[OLD]
        )
        new["confidence"] = largest[NEW]
    error = {"group": {None: 0.1, "é": 0.2}, "guess": {"bee": 0.1}, "none": 0.1}[by]
    rule.save(tmp_path / "rule.aptset")
    threshold = rule.threshold(error)
    threshold.save(tmp_path / "threshold.aptset")
    again, threshold_again = aptset.load(tmp_path / "rule.aptset"), aptset.load(tmp_path / "threshold.aptset")
    rows = None if by == "none" else P[NEW]
    assert kept(again) == kept(rule)
    assert (again.accept(rows, error, **new) == rule.accept(rows, error, **new)).all()
    assert (threshold_again.accept(rows, **new) == threshold.accept(rows, **new)).all()
    assert threshold_again.value == threshold.value
    assert threshold_again.sentence() == threshold.sentence()
    assert repr(again) == repr(rule)
    assert repr(threshold_again) == repr(threshold)


def test_a_damaged_file_is_refused(tmp_path):
    RULE.save(tmp_path / "rule.aptset")
    content = bytearray((tmp_path / "rule.aptset").read_bytes())
    content[-100] ^= 1
    (tmp_path / "rule.aptset").write_bytes(content)
    with pytest.raises(ValueError, match="no intact aptset artefact"):
        aptset.load(tmp_path / "rule.aptset")


def forged(path, change_facts=None, change_tensors=None):
    """Write the file again with other facts or tensors, and a digest that fits."""
    facts, tensors = taken_apart(path)
    (change_facts or (lambda _: None))(facts)
    (change_tensors or (lambda _: None))(tensors)
    forge(path, facts, tensors)


@pytest.mark.parametrize(
    ("words", "facts", "tensors"),
    [
        ("order of confidence", None, lambda t: t.update(confidence=t["confidence"][::-1].copy())),
        ("confidences must be finite", None, lambda t: t["confidence"].__setitem__(0, np.inf)),
        ("groups must be among its names", None, lambda t: t["cells"].__setitem__(0, 9)),
        ("u must be in", None, lambda t: t["u"].__setitem__(0, 2.0)),
        ("tensor wrong", None, lambda t: t.pop("wrong")),
        ("a known one", lambda f: f.update(confidence="entropy"), None),
        ("groups must be distinct", lambda f: f.update(names=["ant"] * 4), None),
        ("have a group where", lambda f: f.update(by="none"), None),
        ("parts must be", lambda f: f.update(parts=["x"]), None),
    ],
)
def test_a_forged_rule_is_refused_by_the_one_error(tmp_path, words, facts, tensors):
    RULE.save(tmp_path / "rule.aptset")
    forged(tmp_path / "rule.aptset", facts, tensors)
    with pytest.raises(ValueError, match=f"no intact aptset artefact.*{words}"):
        aptset.load(tmp_path / "rule.aptset")


@pytest.mark.parametrize(
    ("words", "facts", "tensors"),
    [
        ("must not be missing", None, lambda t: t["value"].__setitem__(0, np.nan)),
        ("rows must be counts", None, lambda t: t["counts"].__setitem__((0, 1), 10**6)),
        ("thresholds must be of its groups", None, lambda t: t["counts"].__setitem__((0, 0), 7)),
        ("error in \\(0, 1\\)", lambda f: f.update(errors=["3/2", "1/10"]), None),
        ("assurance must be", lambda f: f.update(assurance=2.0), None),
        ("a text for each", lambda f: f.update(reasons=[]), None),
    ],
)
def test_a_forged_threshold_is_refused_by_the_one_error(tmp_path, words, facts, tensors):
    RULE.threshold({"bee": 0.1, "dog": 0.1}).save(tmp_path / "threshold.aptset")
    forged(tmp_path / "threshold.aptset", facts, tensors)
    with pytest.raises(ValueError, match=f"no intact aptset artefact.*{words}"):
        aptset.load(tmp_path / "threshold.aptset")


def refusals():
    rows = {"probabilities": P[OLD], "labels": Y[OLD], "classes": CLASSES}
    yield "clusters must be left out", {**rows, "clusters": np.arange(2000)}
    yield "confidence must be one of", {**rows, "confidence": "entropy"}
    yield "confidence must be finite", {**rows, "confidence": np.full(2000, np.nan)}
    yield "confidence must have one entry per row", {**rows, "confidence": np.ones(5)}
    yield "confidence must hold one number", {**rows, "confidence": ["a"] * 2000}
    yield "probabilities must be passed", {"labels": Y[OLD]}
    yield "labels must be passed", {"probabilities": P[OLD]}
    yield "wrong must hold True or False", {**rows, "wrong": np.full(2000, 0.5)}
    yield "wrong must have one entry", {**rows, "wrong": [True]}
    yield "groups must be an array", {**rows, "groups": "label"}
    yield "groups must have one entry", {**rows, "groups": ["a"]}
    yield "kind of the labels", {"labels": Y[OLD], "confidence": P[OLD, 0], "guesses": P[OLD].argmax(axis=1)}
    yield "guesses must be among the classes", {**rows, "guesses": ["eel"] * 2000}
    yield "sum", {**rows, "probabilities": P[OLD] * 2}
    yield "u must be in", {**rows, "u": np.full(2000, 2.0)}


@pytest.mark.parametrize(("words", "arguments"), list(refusals()), ids=[words for words, _ in refusals()])
def test_what_cannot_be_learned_is_refused(words, arguments):
    with pytest.raises((ValueError, TypeError), match=words):
        aptset.learn_acceptance(**arguments)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("error must be in", lambda: RULE.accept(P[NEW], 1.5)),
        ("error must be in", lambda: RULE.accept(P[NEW], 0)),
        ("error must be in", lambda: RULE.accept(P[NEW], "0.1")),
        ("predicted labels", lambda: RULE.accept(P[NEW], {"eel": 0.1})),
        ("it is empty", lambda: RULE.accept(P[NEW], {})),
        ("assurance must be in", lambda: RULE.threshold(assurance=1)),
        ("method must be one of", lambda: RULE.threshold(method="best")),
        ("start must be left out", lambda: RULE.threshold(start=0.5)),
        ("start must be in", lambda: RULE.threshold(method="sequence", start=2)),
        ("confidence must be left out", lambda: RULE.accept(P[NEW], confidence=P[NEW, 0])),
        ("probabilities must be passed", lambda: RULE.accept(confidence=P[NEW, 0])),
        ("one column per class", lambda: RULE.accept(P[NEW, :3])),
        ("u must be given both to calibration", lambda: RULE.threshold().accept(P[NEW], u=np.ones(1000))),
        ("all_at_once must be", lambda: RULE.threshold(all_at_once="no")),
        ("other must be an Acceptance", lambda: RULE.merge(3)),
    ],
)
def test_what_cannot_be_asked_is_refused(words, call):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def rates(confidence, wrong, n, m, error, repetitions, seed=0):
    draw, shares, acted = np.random.default_rng(seed), [], []
    for _ in range(repetitions):
        order = draw.permutation(len(confidence))
        old, new = order[:n], order[n : n + m]
        rule = aptset.learn_acceptance(confidence=confidence[old], wrong=wrong[old], random_state=0)
        act = rule.accept(confidence=confidence[new], error=error)
        shares.append(wrong[new][act].sum() / max(1, act.sum()))
        acted.append(act.sum() / (~wrong[new]).sum() if error == 0.1 else act.mean())
    return np.array(shares), np.array(acted)


@pytest.mark.skipif(not SHARED.exists(), reason="stored scores are not here")
@pytest.mark.parametrize(
    ("name", "n", "error"),
    [("imagenet", 2000, 0.05), ("imagenet", 5000, 0.1), ("cifar", 2000, 0.05), ("cifar", 1000, 0.1)],
)
def test_the_rate_on_stored_scores_is_within_four_standard_errors_of_the_error(name, n, error):
    if name == "imagenet":
        stored = np.load(SHARED / "imagenet_resnet34_guesses.npz")
        confidence, wrong = stored["confidence"], stored["label"] != stored["guess"]
    else:
        stored = np.load(SHARED / "cifar100_wideresnet16_4.npz")
        confidence = stored["predictions"].max(axis=1)
        wrong = stored["predictions"].argmax(axis=1) != stored["ground_truth"]
    shares, acted = rates(confidence, wrong, n, 5000, error, 60)
    assert shares.mean() <= error + 4 * shares.std(ddof=1) / np.sqrt(len(shares))
    assert shares.mean() > 0.8 * error
    if (name, error) == ("imagenet", 0.1):  # the share of right guesses that is acted on
        assert abs((acted * (1 - shares)).mean() - 0.80) < 0.02


def test_groups_that_would_not_be_looked_at_are_refused():
    for accept in (RULE.accept, RULE.threshold(0.1).accept):
        with pytest.raises(ValueError, match="groups must be left out"):
            accept(P[NEW], groups=["north", "south"] * 500)
        with pytest.raises(ValueError, match="guesses must have one entry per row"):
            accept(P[NEW], guesses=["bee"])


def test_guesses_of_ones_own_come_again_with_new_rows(tmp_path):
    """The most likely label is not the guess that was learned: nothing may go by it."""
    own = np.where(P.max(axis=1) < 0.6, "bee", CLASSES[P.argmax(axis=1)])
    rule = aptset.learn_acceptance(P[OLD], Y[OLD], guesses=own[OLD], classes=CLASSES, random_state=0)
    rule.save(tmp_path / "rows.aptset")
    for each in (rule, aptset.load(tmp_path / "rows.aptset")):
        for accept in (partial(each.accept, error={"bee": 0.5}), each.threshold({"bee": 0.5}).accept):
            with pytest.raises(ValueError, match="guesses must be passed"):
                accept(P[NEW])
            assert set(own[NEW][accept(P[NEW], guesses=own[NEW])]) == {"bee"}
            with pytest.raises(ValueError, match="guesses must be among the classes"):
                accept(P[NEW], guesses=P[NEW].argmax(axis=1))
    with pytest.raises(ValueError, match="differs in groups and guesses"):
        RULE.merge(rule)
    with pytest.raises(ValueError, match="guesses must be among the classes"):
        aptset.learn_acceptance(P[:2], wrong=[0, 1], guesses=["bee", "wolf"], classes=CLASSES)


def test_rows_of_unknown_groups_are_left_to_a_person_in_words():
    rule = aptset.learn_acceptance(P[OLD], Y[OLD], classes=CLASSES, groups=np.arange(2000) % 2, random_state=0)
    with pytest.warns(UserWarning, match="none of the groups .* every row is left to a person"):
        assert not rule.accept(P[NEW], 0.1, groups=(np.arange(1000) % 2).astype(str)).any()


def test_an_error_that_no_number_of_rows_can_show_is_no_crash():
    with pytest.warns(UserWarning, match="no row can be decided"):
        assert RULE.threshold(5e-324).rows == 0
