"""The score over the prevalence: its definition, equal prevalence, where it is kept, and rare labels of real scores."""

import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aptset
import reference
from aptset import LabelBands, Prevalence
from aptset.kernels.membership import select
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from aptset.scores.conformity import check_conformity, for_classes, formula_of
from rows_strategy import matrices, uniforms

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
SCORES = Path(__file__).parents[3] / "shared" / "data" / "scores"


def definition(p, order, label, u, counts):
    """1 - p_y pi_min / pi_y with pi from counts plus one, equal ones spread over 2^-32."""
    if p[label] == 0:
        return reference.without_mass(p, order, label, u)
    factor = Fraction(min(counts) + 1, counts[label] + 1)
    return 1 - p[label] * factor + Fraction(1, 2**32) * (u - 1)


@KEYED
@given(matrix=matrices(max_classes=8), u=uniforms, data=st.data())
def test_score_equals_the_definition(path, matrix, u, data):
    counts = data.draw(st.lists(st.integers(0, 10**6), min_size=matrix.shape[1], max_size=matrix.shape[1]))
    score = for_classes(check_conformity(Prevalence(dict(enumerate(counts)))), np.arange(len(counts)))
    rows = Rows(matrix, formula_of(score), 7, 0.05, u=np.full(len(matrix), u)).seeded()
    scores, bad = all_scores_of_block(rows, 0, len(rows))
    assert bad == -1
    pointers, members = select(rows, np.full((1, 1, 1), np.inf)).sets[0]
    for i, order in enumerate(np.split(members, pointers[1:-1])):
        p = reference.exact_row(matrix[i])
        for label in range(len(p)):
            exact = definition(p, order.tolist(), label, Fraction(u), counts)
            assert abs(Fraction(float(scores[i, label])) - exact) <= 7 * Fraction(2, 2**53)
            one = label_scores(rows, np.full(len(matrix), label)).scores[i]
            assert one == scores[i, label], "calibration and prediction score alike"


def rows_with_labels(n, seed):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet([0.9, 0.3, 0.3, 0.1, 0.05], size=n)
    p[generator.random((n, 5)) < 0.1] = 0  # some zeros, and ties among them
    p[:, 0] += 1e-3
    p /= p.sum(axis=1, keepdims=True)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


P, Y = rows_with_labels(300, 0)
NEW, _ = rows_with_labels(80, 1)
COUNTS = {0: 900, 1: 250, 2: 250, 3: 60, 4: 0}


@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize(
    "around", [lambda score: score, lambda score: aptset.Tempered(score, 0.5)], ids=["", "tempered"]
)
def test_equal_prevalence_is_homogeneous(path, randomized, around):
    common = {"random_state": 0, "randomized": randomized}
    mine = aptset.calibrate(P, Y, conformity=around(Prevalence(dict.fromkeys(range(5), 12))), **common)
    other = aptset.calibrate(P, Y, conformity=around(aptset.Homogeneous()), **common)
    np.testing.assert_array_equal(mine.scores, other.scores)
    assert mine.predict_set(NEW, [0.1, 0.4]) == other.predict_set(NEW, [0.1, 0.4])
    np.testing.assert_array_equal(mine.predict_mask(NEW), other.predict_mask(NEW))
    np.testing.assert_array_equal(mine.p_values(NEW), other.p_values(NEW))


def test_sets_are_p_values_and_columns_go_by_label():
    score = Prevalence(COUNTS)
    calibration = aptset.calibrate(P, Y, conformity=score, random_state=0)
    p_values = calibration.p_values(NEW)
    for alpha in (0.05, 0.1, 0.5):
        np.testing.assert_array_equal(calibration.predict_set(NEW, alpha).mask, p_values > alpha)
    order = [3, 0, 4, 2, 1]
    turned = aptset.calibrate(P[:, order], Y, classes=order, conformity=score, ids=np.arange(300), random_state=0)
    straight = aptset.calibrate(P, Y, conformity=score, ids=np.arange(300), random_state=0)
    mine = turned.predict_mask(NEW[:, order], ids=np.arange(80))
    np.testing.assert_array_equal(mine, straight.predict_mask(NEW, ids=np.arange(80))[:, order])
    in_a_table = straight.conformity.counts
    assert list(in_a_table) == [0, 1, 2, 3, 4]


def test_saved_merged_and_in_a_classifier(tmp_path):
    for score in (
        Prevalence(COUNTS),
        aptset.Gridded(Prevalence(COUNTS), 2**-20),
        aptset.Tempered(Prevalence(COUNTS), 0.5),
    ):
        bands = LabelBands.by_prevalence(COUNTS, 2)
        whole = aptset.calibrate(P, Y, conformity=score, groups=bands, random_state=0)
        whole.save(tmp_path / "cal.aptset")
        loaded = aptset.load(tmp_path / "cal.aptset")
        assert loaded.conformity == whole.conformity
        assert loaded.predict_set(NEW) == whole.predict_set(NEW)
        parts = [
            aptset.calibrate(P[some], Y[some], conformity=score, groups=bands, random_state=0)
            for some in (slice(100), slice(100, None))
        ]
        np.testing.assert_array_equal(parts[0].merge(parts[1]).scores, whole.scores)
    with pytest.raises(ValueError, match="differs in score"):
        parts[0].merge(
            aptset.calibrate(P[100:], Y[100:], conformity=Prevalence({**COUNTS, 4: 1}), groups=bands, random_state=0)
        )
    from sklearn.datasets import load_iris
    from sklearn.naive_bayes import GaussianNB

    X, y = load_iris(return_X_y=True)
    classifier = aptset.ConformalClassifier(
        GaussianNB(), conformity=Prevalence({2: 5, 0: 90, 1: 30}), random_state=0
    ).fit(X, y)
    classifier.save(tmp_path / "folder")
    sets = classifier.predict_set(X)
    assert (
        aptset.load(tmp_path / "folder").predict_set(X) == pickle.loads(pickle.dumps(classifier)).predict_set(X) == sets
    )


@pytest.mark.parametrize(
    ("counts", "error", "words"),
    [
        ([1, 2], TypeError, "dictionary from each label to its number of training rows; got list"),
        ({}, ValueError, "empty"),
        ({0: 0.5}, ValueError, "whole numbers of training rows, 0 or more; got 0.5 for the label 0"),
        ({0: -1}, ValueError, "0 or more; got -1"),
    ],
)
def test_counts_that_are_refused(counts, error, words):
    with pytest.raises(error, match=words):
        Prevalence(counts)


def test_a_label_without_a_count_is_refused():
    with pytest.raises(ValueError, match=r"counts must speak of every label; \[4\] are not in it.*Pass 0 for a label"):
        aptset.calibrate(P, Y, conformity=Prevalence({0: 1, 1: 1, 2: 1, 3: 1}))
    with pytest.raises(ValueError, match=r"pass aptset\.Prevalence\(collections\.Counter\(y_train\)\)"):
        aptset.calibrate(P, Y, conformity="prevalence")


@pytest.fixture(scope="module")
def long_tail():
    """Make a long tail of the 200 classes that occur among real scores: prevalence from 1 to 1/50."""
    file = SCORES / "imagenet1k_effnetlite0_tinyimagenet_val_logits.npz"
    if not file.exists():
        pytest.skip(f"{file} is not there: the scores are not part of the project")
    with np.load(file) as data:
        logits, y = data["logits"][400:].astype(np.float64), data["y"][400:].astype(int)
    names, y = np.unique(y, return_inverse=True)
    generator = np.random.default_rng(0)
    share = 50.0 ** -generator.permutation(np.linspace(0, 1, len(names)))
    weights = share * np.exp(logits[:, names] - logits[:, names].max(axis=1, keepdims=True))
    p = weights / weights.sum(axis=1, keepdims=True)
    test = np.concatenate([generator.permutation(np.flatnonzero(y == label))[:20] for label in range(len(names))])
    rest = np.setdiff1d(np.arange(len(y)), test)
    kept = rest[generator.random(len(rest)) < share[y[rest]]]
    counts = dict(enumerate((1300 * share).astype(int).tolist()))
    return p, y, kept, test, counts


def test_rare_labels_of_real_scores(long_tail):
    """Macro coverage rises from about 0.84 to about 0.9, with sets that grow by less than two thirds.

    What is compared are two scores on the same 4,000 test rows. No law: the margins are several times what other
    seeds move.
    """
    p, y, kept, test, counts = long_tail
    settings = {
        "plain": {"conformity": "lac"},
        "prevalence": {"conformity": Prevalence(counts)},
        "bands": {"conformity": "lac", "groups": LabelBands.by_prevalence(counts, 4, n_calibration=len(kept))},
    }
    found = {}
    for name, each in settings.items():
        calibration = aptset.calibrate(p[kept], y[kept], random_state=0, **each)
        sets = calibration.predict_set(p[test], 0.1)
        found[name] = float(aptset.macro_coverage(sets, y[test])), float(sets.sizes.mean())
    assert found["plain"][0] < 0.87
    for name in ("prevalence", "bands"):
        assert found[name][0] > 0.875
        assert found[name][1] < 5 / 3 * found["plain"][1]


def test_macro_coverage_is_largest_with_posteriors_of_the_counted_proportions_and_not_with_balanced_ones():
    """Law: with posteriors under the proportions of ``counts`` no sets of a mean size have a larger macro coverage.

    (Neyman and Pearson: a label is in where p(x | y) / p(x) = p_y / pi_y is large.) What a model with
    class_weight="balanced" says knows no proportions, and plain lac is then the better one. Sets of three labels on
    average; both differences are more than ten times the standard error of a difference over 20,000 rows, 0.003.
    """
    generator = np.random.default_rng(0)
    n_labels, n = 20, 20_000
    share = 0.02 ** np.linspace(0, 1, n_labels)
    share /= share.sum()
    places, y = generator.normal(size=(n_labels, 6)), generator.choice(n_labels, 2 * n, p=share)
    seen = places[y] + 1.2 * generator.normal(size=(2 * n, 6))
    likelihood = np.exp(-((seen[:, None, :] - places) ** 2).sum(axis=2) / 2.88)
    counts = dict(enumerate(np.rint(100_000 * share).astype(int).tolist()))
    macro = {}
    for world, weights in (("counted", likelihood * share), ("balanced", likelihood)):
        p = weights / weights.sum(axis=1, keepdims=True)
        for name, score in (("lac", "lac"), ("prevalence", Prevalence(counts))):
            p_values = aptset.calibrate(p[:n], y[:n], conformity=score, random_state=0).p_values(p[n:])
            sets = p_values > np.quantile(p_values, 1 - 3 / n_labels)
            macro[world, name] = float(aptset.macro_coverage(sets, y[n:]))
            assert sets.sum(axis=1).mean() == pytest.approx(3, abs=0.01)
    assert macro["counted", "prevalence"] > macro["counted", "lac"] + 0.03
    assert macro["balanced", "lac"] > macro["balanced", "prevalence"] + 0.03


class Flipped(Prevalence):
    """Score the other way round."""

    def of(self, places):
        return -super().of(places)


def test_a_score_made_of_it_is_asked_itself():
    counts = {k: k for k in range(5)}
    plain, flipped = (
        aptset.calibrate(P, Y, conformity=score(counts), random_state=0) for score in (Prevalence, Flipped)
    )
    np.testing.assert_array_equal(flipped.scores, -plain.scores[::-1])
