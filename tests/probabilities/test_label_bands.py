"""Bands of labels: the definition in exact numbers, one band and one band per label, and what is kept of them."""

import copy
import json
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy.stats import betabinom

import aptset
import reference
from aptset import LabelBands
from aptset.kernels.places import Rows, all_scores_of_block
from aptset.probabilities.artefacts import _digest, read
from aptset.scores.conformity import formula_of
from rows_strategy import matrices

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
SCORES = ["adaptive", "homogeneous", "saps", aptset.Tempered(aptset.Adaptive(), 0.5), lambda places: 1 - places.own]


def rows_with_labels(n, n_classes=6, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(0.4 * np.arange(1, n_classes + 1), size=n)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


P, Y = rows_with_labels(500)
NEW, _ = rows_with_labels(90, seed=1)
NEW[3] = NEW[4] = NEW[5]  # copies have a chance of their own
BANDS = LabelBands({0: "rare", 1: "rare", 2: "some", 3: "rare", 4: "often", 5: "often"})


def same(one, other, new=NEW, **of_rows):
    """Compare all that two calibrations answer, to the last bit."""
    for alpha in (0.07, 0.3, [0.1, 0.2, 0.5]):
        assert one.predict_set(new, alpha, **of_rows) == other.predict_set(new, alpha, **of_rows)
    np.testing.assert_array_equal(one.predict_mask(new, 0.2, **of_rows), other.predict_mask(new, 0.2, **of_rows))
    np.testing.assert_array_equal(one.p_values(new, **of_rows), other.p_values(new, **of_rows))
    filled = [each.predict_set(new, 0.9, allow_empty=False, **of_rows) for each in (one, other)]
    assert filled[0] == filled[1]
    both = [each.sets_and_p_values(new, 0.2, **of_rows) for each in (one, other)]
    assert both[0][0] == both[1][0]
    np.testing.assert_array_equal(both[0][1], both[1][1])


@pytest.mark.parametrize("score", SCORES, ids=lambda score: getattr(score, "__name__", str(score)).strip("<>"))
def test_one_band_is_no_groups_and_a_band_per_label_is_groups_by_label(path, score):
    common = {"conformity": score, "random_state": 0}
    same(
        aptset.calibrate(P, Y, groups=LabelBands(dict.fromkeys(range(6), "x")), **common),
        aptset.calibrate(P, Y, **common),
    )
    each = aptset.calibrate(P, Y, groups=LabelBands({label: f"band {9 - label}" for label in range(6)}), **common)
    by_label = aptset.calibrate(P, Y, groups="label", **common)
    same(each, by_label)
    assert list(each.threshold(0.1).values()) == list(by_label.threshold(0.1).values())


@pytest.mark.parametrize("combine", ["plus", "minimax"])
def test_the_same_with_folds(path, combine):
    folds, three = np.arange(500) % 3, [NEW, NEW[::-1], (NEW + NEW[::-1]) / 2]
    u = np.random.default_rng(0).random(90)

    def made(groups):
        found = aptset.calibrate_cv(
            P, Y, folds, combine=combine, groups=groups, u=np.linspace(0, 1, 500), random_state=0
        )
        return found.predict_set(three, 0.2, u=u), found.p_values(three, u=u)

    for bands, groups in ((dict.fromkeys(range(6), 1), None), ({label: -label for label in range(6)}, "label")):
        (sets, p_values), (others, other_p_values) = made(LabelBands(bands)), made(groups)
        assert sets == others
        np.testing.assert_array_equal(p_values, other_p_values)
    sets, p_values = made(BANDS)
    np.testing.assert_array_equal(sets.mask, p_values > 0.2)
    assert (p_values != made(None)[1]).any()


@KEYED
@given(
    matrix=matrices(max_rows=8, max_classes=6),
    new=st.integers(1, 4),
    name=st.sampled_from(["adaptive", "homogeneous", "rank"]),
    data=st.data(),
)
def test_membership_is_the_definition_within_the_band(path, matrix, new, name, data):
    """Literally: fewer than (1 - alpha)(n + 1) scores of the label's band are below its own."""
    n_classes, draw = matrix.shape[1], data.draw
    band_of = draw(st.lists(st.integers(0, 2), min_size=n_classes, max_size=n_classes))
    labels = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=len(matrix), max_size=len(matrix))))
    alpha = draw(st.sampled_from(["0.1", "0.25", "0.5", "0.8"]))
    u, v = np.linspace(0, 1, len(matrix)), np.linspace(1, 0, new)
    calibration = aptset.calibrate(
        matrix,
        labels,
        conformity=name,
        groups=LabelBands(dict(enumerate(band_of))),
        u=u,
        random_state=0,
        normalize=True,
    )
    rows = np.resize(matrix, (new, n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: some bands hold every label
        mask = calibration.predict_mask(rows, float(alpha), u=v)
        sets = calibration.predict_set(rows, float(alpha), u=v)
    p_values = calibration.p_values(rows, u=v)
    formula = formula_of(calibration.conformity)

    def scores_of(values, chance):
        return all_scores_of_block(
            Rows(values, formula, calibration.key, 1.0, None, chance, True).seeded(), 0, len(values)
        )[0]

    known, found = scores_of(matrix, u), scores_of(rows, v)
    for row in range(new):
        for label in range(n_classes):
            mine = [known[i, y] for i, y in enumerate(labels) if band_of[y] == band_of[label]]
            expected = reference.in_set(mine, found[row, label], Fraction(alpha))
            at_least = 1 + sum(score >= found[row, label] for score in mine)
            assert mask[row, label] == sets.mask[row, label] == expected
            assert p_values[row, label] == pytest.approx(at_least / (len(mine) + 1), rel=1e-15)
            assert (p_values[row, label] > float(alpha)) == expected


def test_every_band_is_covered_as_promised():
    """Law: covered rows of a band, after calibration on n of it, are Beta-binomial(n + 1 - k, k).

    400 calibrations: the mean over them lies within 5.2 standard errors of its law, false alarm rate 2e-7 for each of
    three bands.
    """
    totals = {band: [0.0, 0.0, 0.0] for band in ("rare", "some", "often")}
    of_label = np.array(BANDS.of(range(6)))
    p, y = rows_with_labels(400 * 200, seed=7)
    for start in range(0, 400 * 200, 200):
        calibration_rows, test = slice(start, start + 120), slice(start + 120, start + 200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a band without enough rows has an infinite threshold, and no law here
            found = aptset.calibrate(p[calibration_rows], y[calibration_rows], groups=BANDS, random_state=start)
            covered = found.predict_mask(p[test], 0.2)[np.arange(80), y[test]]
        for band, sums in totals.items():
            n, rows = int((of_label[y[calibration_rows]] == band).sum()), of_label[y[test]] == band
            k = reference.rank(n, Fraction(1, 5))
            if k <= n and rows.any():
                law = betabinom(int(rows.sum()), k, n + 1 - k)
                sums[0] += covered[rows].sum() - law.mean()
                sums[1] += law.var()
                sums[2] += covered[rows].sum()
    for difference, variance, hits in totals.values():
        assert hits > 1000
        assert abs(difference) < 5.2 * variance**0.5


def test_thresholds_names_and_warnings():
    calibration = aptset.calibrate(P, Y, groups=BANDS, random_state=0)
    assert list(calibration.threshold(0.1)) == ["rare", "some", "often"]
    with pytest.warns(
        UserWarning, match=r"bands of labels with too few .* 'some' \(68\).*their labels are in every set"
    ):
        mask = calibration.predict_mask(NEW, 0.006)
    assert mask[:, 2].all()
    with pytest.raises(ValueError, match="groups must be left out"):
        calibration.predict_set(NEW, groups=["a"] * 90)


def test_saved_merged_copied(tmp_path):
    common = {"groups": BANDS, "random_state": 0, "conformity": "raps"}
    whole = aptset.calibrate(P, Y, **common)
    whole.save(tmp_path / "cal.aptset")
    same(aptset.load(tmp_path / "cal.aptset"), whole)
    same(copy.deepcopy(whole), whole)
    same(pickle.loads(pickle.dumps(whole)), whole)
    first, second = aptset.calibrate(P[:200], Y[:200], **common), aptset.calibrate(P[200:], Y[200:], **common)
    same(first.merge(second), whole)
    other = aptset.calibrate(P[200:], Y[200:], **{**common, "groups": LabelBands({i: i % 2 for i in range(6)})})
    with pytest.raises(ValueError, match="differs in bands of labels"):
        first.merge(other)
    with pytest.raises(ValueError, match="differs in kind of groups, bands of labels"):
        first.merge(aptset.calibrate(P[200:], Y[200:], **{**common, "groups": "label"}))


def test_tuned_with_bands():
    tuned = aptset.tune(
        P, Y, candidates=["aps", "lac", aptset.Prevalence(dict.fromkeys(range(6), 3))], groups=BANDS, random_state=0
    )
    rest = ~tuned.reserved
    again = aptset.calibrate(
        P[rest], Y[rest], conformity=tuned.conformity, groups=BANDS, ids=np.arange(500)[rest], random_state=0
    )
    assert tuned.calibration.held_out.groups == again.held_out.groups
    assert tuned.calibration.held_out.sizes.tolist() == again.held_out.sizes.tolist()


def test_bands_by_prevalence():
    counts = {"a": 400, "b": 400, "c": 100, "d": 90, "e": 6, "f": 4}
    assert LabelBands.by_prevalence(counts, 3).bands == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 2, "f": 2}
    alone = LabelBands.by_prevalence(counts, 3, n_calibration=9000)
    assert alone.bands == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3, "f": 3}  # 10 of 1000 expect exactly 90 of 9000
    assert set(LabelBands.by_prevalence(counts, 3, n_calibration=8999).bands.values()) == {1, 2}
    assert set(LabelBands.by_prevalence(counts, 3, n_calibration=9000, alpha=0.09).bands.values()) == {1, 2}
    assert set(LabelBands.by_prevalence({"a": 8, "b": 6, "c": 4}, 3, n_calibration=200).bands.values()) == {1}
    labels = [label for label, count in counts.items() for _ in range(count)]
    for passed in (labels, np.array(labels), pd.Series(labels), np.array(labels, dtype=object)):
        assert LabelBands.by_prevalence(passed, 3) == LabelBands.by_prevalence(counts, 3)
    assert LabelBands.by_prevalence({1: 5, 2: 5}, 9, n_calibration=10**6).bands == {1: 1, 2: 2}
    assert LabelBands.by_prevalence({1: 0, 2: 0}, 9, n_calibration=10**6).bands == {1: 1, 2: 1}, "none expects a row"


@given(
    counts=st.lists(st.integers(0, 300), min_size=1, max_size=12).filter(any),
    n_bands=st.integers(1, 6),
    n_calibration=st.integers(1, 2000),
)
def test_bands_by_prevalence_keep_their_rules(counts, n_bands, n_calibration):
    bands = LabelBands.by_prevalence(dict(enumerate(counts)), n_bands, n_calibration=n_calibration).bands
    members = {band: [counts[label] for label in bands if bands[label] == band] for band in set(bands.values())}
    assert sorted(members) == list(range(1, len(members) + 1))
    assert len(members) <= n_bands
    for band in range(1, len(members)):
        assert min(members[band]) >= max(members[band + 1])
    if len(members) > 1:
        for times in members.values():
            assert Fraction(sum(times), sum(counts)) * n_calibration >= 90


@pytest.mark.parametrize(
    ("bands", "error", "words"),
    [
        ([("a", 1)], TypeError, "dictionary from each label to its band; got list"),
        (pd.Series({"a": 1}), TypeError, "dictionary"),
        ({}, ValueError, "empty"),
        ({"a": None}, ValueError, "bands must not be missing"),
        ({"a": [1]}, TypeError, "plain values"),
        ({float("nan"): 1}, ValueError, "missing label"),
    ],
)
def test_bands_that_are_refused(bands, error, words):
    with pytest.raises(error, match=words):
        LabelBands(bands)


def test_what_else_is_refused():
    with pytest.raises(ValueError, match=r"LabelBands must speak of every label; \[2, 3, 4, 5\] are not in it"):
        aptset.calibrate(P, Y, groups=LabelBands({0: 1, 1: 1}))
    with pytest.raises(TypeError, match=r"counts\.to_dict\(\)"):
        LabelBands.by_prevalence(pd.Series(Y).value_counts())
    for counts in ({"a": 0.5}, {"a": -1}, {"a": True}):
        with pytest.raises(ValueError, match="whole numbers of training rows"):
            LabelBands.by_prevalence(counts)
    with pytest.raises(ValueError, match="n_bands must be a whole number"):
        LabelBands.by_prevalence({"a": 1}, 0)
    with pytest.raises(ValueError, match="n_calibration must be"):
        LabelBands.by_prevalence({"a": 1}, n_calibration=0)


def test_in_a_classifier(tmp_path):
    from sklearn.base import clone
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    X, y = load_digits(return_X_y=True)
    names = np.array(list("abcdefghij"))[y]
    bands = LabelBands({label: label in "aei" for label in "abcdefghij"})
    for calibration in ("split", aptset.CVPlus(3), aptset.Bootstrap(10)):
        classifier = clone(
            aptset.ConformalClassifier(GaussianNB(), calibration=calibration, groups=bands, random_state=0)
        )
        sets = classifier.fit(X[:900], names[:900]).predict_set(X[900:])
        np.testing.assert_array_equal(sets.mask, classifier.p_values(X[900:]) > 0.1)
        assert classifier.fit_predict_set(X[:900], names[:900], X[900:]) == sets
        classifier.fit(X[:900], names[:900]).save(tmp_path / "folder")
        loaded = aptset.load(tmp_path / "folder")
        assert loaded.groups == bands
        assert loaded.predict_set(X[900:]) == pickle.loads(pickle.dumps(classifier)).predict_set(X[900:]) == sets
    assert classifier.calibration_.held_out.groups.names == (True, False)
    with pytest.raises(TypeError, match="speaks of labels, not of rows"):
        aptset.ConformalClassifier(GaussianNB()).fit(X, names, groups=bands)
    plain = aptset.ConformalClassifier(GaussianNB(), groups=bands, random_state=0)
    order = np.random.default_rng(0).permutation(len(X))[:600]
    audit = aptset.audit(plain, X[order], names[order], repetitions=2)
    assert {row.name for row in audit.summary() if row.part == "group"} == {"True", "False"}
    other = aptset.compare({"bands": plain, "plain": GaussianNB()}, X[order], names[order], repetitions=2)
    assert "macro" in repr(other)
    page = aptset.report(classifier, X[900:1200], names[900:1200]).html
    assert "within every band of labels, 2 of them" in page


def test_in_batches_and_in_the_monitor(tmp_path):
    import pyarrow as pa

    names = [f"p_{label}" for label in range(6)]
    table = pa.table({**dict(zip(names, P.T, strict=True)), "y": Y})
    bands = LabelBands({str(label): band for label, band in BANDS.bands.items()})
    plain = aptset.calibrate(P, Y.astype(str), classes=list("012345"), groups=bands, random_state=0)
    found = aptset.calibrate_batches(table, labels="y", prefix="p_", groups=bands, alpha=[0.1, 0.3], random_state=0)
    assert found.threshold(0.3) == plain.threshold(0.3)
    assert found.predict_set(NEW, [0.1, 0.3]) == plain.predict_set(NEW, [0.1, 0.3])
    grid = aptset.calibrate_batches(table, labels="y", prefix="p_", groups=bands, resolution=2**-20, random_state=0)
    kept = aptset.calibrate(
        P,
        Y.astype(str),
        classes=list("012345"),
        conformity=aptset.Gridded(aptset.Adaptive(), 2**-20),
        groups=bands,
        random_state=0,
    )
    np.testing.assert_array_equal(grid.p_values(NEW), kept.p_values(NEW))
    for each in (found, grid):
        each.save(tmp_path / "counts.aptset")
        assert aptset.load(tmp_path / "counts.aptset").predict_set(NEW, 0.1) == each.predict_set(NEW, 0.1)
    monitor = plain.monitor(0.1)
    labels = Y[:50].astype(str)
    monitor.update(plain.predict_set(P[:50], 0.1, ids=np.arange(50)).covers(labels), groups=bands.of(labels))
    assert monitor.rows == 50


def forged(path, **changes):
    facts, tensors = read(path)
    text = json.dumps({**facts, **changes}, sort_keys=True)
    save_file(load_file(path), path, metadata={"aptset": text, "digest": _digest(text, tensors)})


def test_forged_bands_are_refused(tmp_path):
    path = tmp_path / "cal.aptset"
    kept = aptset.calibrate(
        P, Y, groups=BANDS, conformity=aptset.Prevalence(dict.fromkeys(range(6), 1)), random_state=0
    )
    kept.save(path)
    names, bands = list(kept.held_out.groups.names), list(kept.held_out.groups.bands)
    for wrong in (
        [0] * 6,
        bands[:-1],
        [*bands[:-1], 7],
        [*bands[:-1], -1],
        [float(b) for b in bands],
        "012",
        bands[::-1],
    ):
        kept.save(path)
        forged(path, groups={"kind": "band", "names": names, "bands": wrong})
        with pytest.raises(ValueError, match="its bands must number the 3 bands of its 6 classes"):
            aptset.load(path)
    for groups in ({"kind": "band", "names": names}, {"kind": "row", "names": names, "bands": bands}):
        kept.save(path)
        forged(path, groups=groups)
        with pytest.raises(ValueError, match="its groups must be of kind"):
            aptset.load(path)
    labels = list(range(6))
    for stored in (
        {"labels": labels[:5], "counts": [1] * 5},
        {"labels": labels, "counts": [1] * 5},
        {"labels": labels, "counts": [-1] * 6},
        {"labels": [0] * 6, "counts": [1] * 6},
        {"labels": [[0]] * 6, "counts": [1] * 6},
        {"labels": labels},
        {},
        None,
    ):
        kept.save(path)
        forged(path, score={"name": "prevalence", "settings": stored})
        with pytest.raises(ValueError, match="is no intact aptset artefact"):
            aptset.load(path)
