"""Levels: assurance, one alpha for each cell, cells of group and label, confidence. Definitions in exact rationals."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aptset
from aptset.core.levels import _misses_by_first_bits
from aptset.kernels.counting import ratios

LABELS = ("benign", "malignant", "other")
LEVELS = {"benign": 0.1, "malignant": 0.01, "other": 0.3}


def rank_by_definition(n, alpha, delta):
    """Return the least k with P(Bin(n, 1 - alpha) >= k) <= delta."""
    tail, k = Fraction(0), n + 1
    while k > 0:
        tail += comb(n, k - 1) * (1 - alpha) ** (k - 1) * alpha ** (n - k + 1)
        if tail > delta:
            break
        k -= 1
    return k


def rows(seed, n, n_classes=3, groups=("north", "south")):
    """Return probabilities, labels drawn from them, and groups."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(n_classes), size=n)
    y = (p.cumsum(axis=1) < generator.random((n, 1))).sum(axis=1)
    return p, np.array(LABELS)[y], np.array(groups)[generator.integers(len(groups), size=n)]


P, Y, REGIONS = rows(0, 900)
NEW, TRUTH, NEW_REGIONS = rows(1, 300)


def calibrated(groups=None, **settings):
    return aptset.calibrate(P, Y, classes=LABELS, groups=groups, random_state=0, **settings)


TABLE = {
    (0.1, 0.95): (49, 96, 188, 462, 916, 4536),
    (0.1, 0.9): (49, 95, 186, 460, 913, 4528),
    (0.05, 0.95): (51, 99, 196, 484, 962, 4776),
}


@pytest.mark.parametrize(("asked", "ranks"), TABLE.items())
def test_ranks_of_the_table(asked, ranks):
    alpha, assurance = asked
    sizes = (50, 100, 200, 500, 1000, 5000)
    assert tuple(aptset.conformal_rank(n, alpha, assurance) for n in sizes) == ranks


def test_smallest_sizes():
    sizes = {0.1: (22, 29, 44), 0.05: (45, 59, 90), 0.01: (230, 299, 459)}
    for alpha, wanted in sizes.items():
        found = [aptset.calibration_size(alpha, assurance=sure) for sure in (0.9, 0.95, 0.99)]
        assert tuple(found) == wanted
        for n, sure in zip(found, (0.9, 0.95, 0.99), strict=True):
            assert aptset.conformal_rank(int(n), alpha, sure) == n
            assert aptset.conformal_rank(int(n) - 1, alpha, sure) == n  # one more than there are: every label is in
    assert aptset.calibration_size(0.19, assurance=0.19) == 1  # P(no miss) = 0.81 is the risk itself


fractions = st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=50)


@given(st.integers(0, 60), fractions, fractions)
@settings(max_examples=150, deadline=None)
def test_the_rank_is_the_definition(n, alpha, assurance):
    assert aptset.conformal_rank(n, alpha, assurance) == rank_by_definition(n, alpha, 1 - assurance)


@given(st.integers(501, 3000), fractions, fractions)
@settings(max_examples=20, deadline=None)
def test_first_bits_decide_as_whole_sums_do(n, alpha, risk):
    decided = _misses_by_first_bits(n, alpha, risk)
    covered, missed, below = alpha.denominator - alpha.numerator, alpha.numerator, 0
    term, total, misses = covered**n, alpha.denominator**n, 0
    while (below := below + term) * risk.denominator <= risk.numerator * total:
        term = term * (n - misses) * missed // ((misses + 1) * covered)
        misses += 1
    assert decided in (misses, None)


def test_a_tie_with_the_risk_is_decided_by_whole_sums():
    # P(Bin(n, 1/2) <= (n - 1) / 2) is 1/2 exactly for odd n: within the risk of 1/2.
    assert _misses_by_first_bits(10_001, Fraction(1, 2), Fraction(1, 2)) is None
    assert aptset.conformal_rank(10_001, 0.5, 0.5) == 5001


def test_assured_sets_are_p_values_above_their_level():
    calibration = calibrated()
    rank, n = calibration.ranks(0.1, assurance=0.95), calibration.n
    p_values = calibration.p_values(NEW)
    level = float(ratios(np.array([n + 1 - rank]), np.array([n + 1]))[0])
    sets = calibration.predict_set(NEW, 0.1, assurance=0.95)
    np.testing.assert_array_equal(sets.mask, p_values > level)
    np.testing.assert_array_equal(sets.mask, calibration.predict_mask(NEW, 0.1, assurance=0.95))
    assert sets == calibration.sets_and_p_values(NEW, 0.1, assurance=0.95)[0]
    assert (sets.mask >= calibration.predict_mask(NEW, 0.1)).all()
    assert calibration.threshold(0.1, assurance=0.95) == calibration.scores[rank - 1]


def test_all_groups_at_once_take_the_root():
    both = aptset.Assurance(0.81, simultaneous=True)  # whose root over two groups is 0.9, exactly
    calibration = calibrated(REGIONS)
    sizes = calibration.held_out.size_of_group
    wanted = {name: rank_by_definition(n, Fraction(1, 10), Fraction(1, 10)) for name, n in sizes.items()}
    assert calibration.ranks(0.1, assurance=both) == wanted
    assert calibration.ranks(0.1, assurance=0.9) == wanted
    three = aptset.Assurance(0.95, simultaneous=True).risk(3)
    assert (1 - three) ** 3 >= Fraction("0.95") > (1 - three - Fraction(1, 10**50)) ** 3 - Fraction(1, 10**40)


def test_this_calibration_keeps_its_promise():
    """At n = 100 a share of at most 0.05 of calibrations covers less than 0.9.

    Coverage is Beta(96, 5); 1,500 calibrations below it are Bin(1500, p), p <= 0.0237: more than 75 come with a
    probability below 1e-6. Plain ranks are below in 0.451 of calibrations: fewer than 560 with one below 1e-6.
    """
    generator = np.random.default_rng(0)
    ordered = np.sort(generator.random((1500, 100)), axis=1)
    assured, plain = (aptset.conformal_rank(100, 0.1, sure) for sure in (0.95, None))
    assert (ordered[:, assured - 1] < 0.9).sum() <= 75
    assert (ordered[:, plain - 1] < 0.9).sum() >= 560


def test_too_few_rows_name_the_rows_needed():
    calibration = aptset.calibrate(P[:28], Y[:28], classes=LABELS, random_state=0)
    with pytest.warns(UserWarning, match="28 calibration samples are too few.*assurance=0.95.*at least 29"):
        sets = calibration.predict_set(NEW, 0.1, assurance=0.95)
    assert sets.mask.all()


FOLDS = aptset.calibrate_cv(P, Y, np.arange(900) % 5, classes=LABELS, groups="label", random_state=0)
REFUSED = {
    "folds": lambda: FOLDS.predict_set([NEW] * 5, 0.1, assurance=0.9),
    "guarantee of folds": lambda: FOLDS.guarantee(0.1, assurance=0.9),
    "weights": lambda: calibrated(weights=np.ones(900)).predict_set(NEW, 0.1, weights=np.ones(300), assurance=0.9),
    "overlapping": lambda: calibrated(aptset.Overlapping(REGIONS[:, None] == "north")).predict_set(
        NEW, 0.1, groups=NEW_REGIONS[:, None] == "north", assurance=0.9
    ),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED)
def test_without_a_law_assurance_is_refused_with_the_way_out(ask):
    with pytest.raises(ValueError, match=r"assurance must be left out here.*split"):
        ask()


@pytest.mark.parametrize("assurance", [0, 1, 1.5, -0.1, float("nan"), "high", True])
def test_odd_assurances_are_refused(assurance):
    with pytest.raises((TypeError, ValueError), match="assurance must be a number in"):
        aptset.conformal_rank(100, 0.1, assurance)


LABEL_LEVELS = np.array([LEVELS[label] for label in LABELS])


def test_each_label_has_its_own_level():
    calibration = calibrated("label")
    p_values = calibration.p_values(NEW)
    sets = calibration.predict_set(NEW, LEVELS)
    np.testing.assert_array_equal(sets.mask, p_values > LABEL_LEVELS)
    np.testing.assert_array_equal(sets.mask, calibration.predict_mask(NEW, LEVELS))
    several = calibration.predict_set(NEW, [LEVELS, 0.2])
    assert several == [sets, calibration.predict_set(NEW, 0.2)]
    assert calibration.guarantee(LEVELS) == {"benign": 0.9, "malignant": 0.99, "other": 0.7}
    assert calibration.threshold(LEVELS)["other"] == calibration.threshold(0.3)["other"]


def test_levels_of_groups_bands_and_folds():
    by_region, levels = calibrated(REGIONS), {"north": 0.05, "south": 0.25, "west": 0.5}
    own = np.array([levels[name] for name in NEW_REGIONS])[:, None]
    mask = by_region.predict_mask(NEW, levels, groups=NEW_REGIONS)
    np.testing.assert_array_equal(mask, by_region.p_values(NEW, groups=NEW_REGIONS) > own)
    bands = aptset.LabelBands({"benign": "calm", "other": "calm", "malignant": "urgent"})
    of_bands = calibrated(bands)
    mask = of_bands.predict_mask(NEW, {"urgent": 0.05, "calm": 0.2})
    np.testing.assert_array_equal(mask, of_bands.p_values(NEW) > [0.2, 0.05, 0.2])
    mask = FOLDS.predict_mask([NEW] * 5, LEVELS)
    np.testing.assert_array_equal(mask, FOLDS.p_values([NEW] * 5) > LABEL_LEVELS)
    promised = FOLDS.guarantee(LEVELS)
    assert {name: promised[name] == FOLDS.guarantee(part) for name, part in LEVELS.items()}.keys() == promised.keys()
    assert all(promised[name] <= 1 - part and promised[name] >= 1 - 2 * part - 0.1 for name, part in LEVELS.items())


def test_levels_and_weights():
    weights = np.where(REGIONS == "north", 1.0, 3.0)
    calibration = calibrated("label", weights=weights)
    new = np.where(NEW_REGIONS == "north", 1.0, 3.0)
    levels = {"benign": 0.1, "malignant": 0.2, "other": 0.3}
    mask = calibration.predict_mask(NEW, levels, weights=new)
    np.testing.assert_array_equal(mask, calibration.p_values(NEW, weights=new) > [0.1, 0.2, 0.3])


WRONG = {
    "no groups": (None, LEVELS, "one number here.*groups='label'"),
    "missing": ("label", {"benign": 0.1, "other": 0.1}, "'malignant' is missing"),
    "unknown": ("label", {**LEVELS, "odd": 0.1}, "got 'odd'"),
    "no number": ("label", {**LEVELS, "other": 1.5}, "alpha of 'other' must be a number"),
    "nothing": ("label", {}, "empty mapping"),
    "groups of rows": (REGIONS, LEVELS, "'north' is missing.*groups='label'|'south' is missing.*groups='label'"),
}


@pytest.mark.parametrize(("groups", "alpha", "words"), WRONG.values(), ids=WRONG)
def test_levels_that_promise_nothing_are_refused(groups, alpha, words):
    passed = {"groups": NEW_REGIONS} if groups is REGIONS else {}
    with pytest.raises(ValueError, match=words):
        calibrated(groups).predict_set(NEW, alpha, **passed)


def test_labels_with_too_few_rows_are_named_with_rows_and_needed():
    calibration = aptset.calibrate(P[:60], Y[:60], classes=LABELS, groups="label", random_state=0)
    n = calibration.held_out.size_of_group
    levels = {"benign": 0.01, "malignant": 0.02, "other": 0.3}
    words = rf"'benign' \({n['benign']} of 99\), 'malignant' \({n['malignant']} of 49\)"
    with pytest.warns(UserWarning, match=words):
        mask = calibration.predict_mask(NEW, levels)
    assert mask[:, :2].all()


def test_each_label_is_covered_at_its_own_level():
    """Levels .05, .2, .4 on 40 calibrations of 60 rows a label and 60 new ones: misses by label in all 2,400 rows.

    Coverage of a label is 1 - alpha or more on average. Given a calibration its misses are binomial with a Beta(.)
    probability: the standard error of the share over all is below 0.0115 (Beta variance 0.0039 / 40 plus 0.24 / 2400);
    5.5 of them are 0.063, a probability below 1e-6.
    """
    alphas, misses = {"benign": 0.05, "malignant": 0.2, "other": 0.4}, dict.fromkeys(LABELS, 0)
    for seed in range(40):
        p, y, _ = rows(1000 + seed, 600)
        picked = np.concatenate([np.flatnonzero(y == label)[:120] for label in LABELS])
        half = np.concatenate([np.arange(60) + 120 * k for k in range(3)])
        is_old = np.isin(np.arange(360), half)
        old, new = picked[is_old], picked[~is_old]
        calibration = aptset.calibrate(p[old], y[old], classes=LABELS, groups="label", random_state=seed)
        covered = calibration.predict_set(p[new], alphas).covers(y[new])
        for label in LABELS:
            misses[label] += int((~covered[y[new] == label]).sum())
    for label, alpha in alphas.items():
        assert misses[label] / 2400 <= alpha + 0.063
        assert misses[label] / 2400 >= alpha - 1 / 61 - 0.063


def test_evaluate_judges_each_label_against_its_own_level():
    calibration = calibrated("label")
    sets = calibration.predict_set(NEW, LEVELS)
    evaluation = aptset.evaluate(sets, TRUTH, alpha=LEVELS)
    covered = sets.covers(TRUTH)
    shares = {label: covered[label == TRUTH].mean() for label in LABELS}
    gap = np.mean([abs(shares[label] - (1 - LEVELS[label])) for label in LABELS])
    assert float(evaluation.coverage_gap) == pytest.approx(gap)
    assert {name: asked for name, (asked, _) in evaluation.judged.items()} == {n: 1 - a for n, a in LEVELS.items()}
    short = {label: shares[label] - (1 - LEVELS[label]) for label in LABELS}
    assert evaluation.lowest()[0] == min(short, key=short.get)
    assert "at least 0.99 was asked for" in repr(evaluation)
    by_group = aptset.evaluate(sets, TRUTH, groups=NEW_REGIONS, alpha={"north": 0.1, "south": 0.2})
    assert set(by_group.judged) == {"north", "south"}
    with pytest.raises(ValueError, match="'malignant' is missing"):
        aptset.evaluate(sets, TRUTH, alpha={"benign": 0.1, "other": 0.1})


def test_every_label_in_every_group_is_a_cell_of_its_own():
    both = calibrated((REGIONS, "label"))
    p_values = both.p_values(NEW, groups=NEW_REGIONS)
    for region in ("north", "south"):
        of_calibration, of_new = region == REGIONS, region == NEW_REGIONS
        u, new_u = np.linspace(0, 1, 900), np.linspace(0, 1, 300)
        alone = aptset.calibrate(
            P[of_calibration], Y[of_calibration], classes=LABELS, groups="label", random_state=0, u=u[of_calibration]
        )
        together = calibrated((REGIONS, "label"), u=u)
        wanted = alone.p_values(NEW[of_new], u=new_u[of_new])
        found = together.p_values(NEW, groups=NEW_REGIONS, u=new_u)[of_new]
        np.testing.assert_array_equal(found, wanted)
        assert together.ranks(0.1)[region, "other"] == alone.ranks(0.1)["other"]
    for alpha in (0.1, {"benign": 0.1, "malignant": 0.02, "other": 0.3}):
        level = alpha if isinstance(alpha, float) else np.array([alpha[label] for label in LABELS])
        sets = both.predict_set(NEW, alpha, groups=NEW_REGIONS)
        np.testing.assert_array_equal(sets.mask, p_values > level)
        np.testing.assert_array_equal(sets.mask, both.predict_mask(NEW, alpha, groups=NEW_REGIONS))
    own = {cell: 0.1 + 0.01 * place for place, cell in enumerate(both.held_out.groups.names)}
    mask = both.predict_mask(NEW, own, groups=NEW_REGIONS)
    levels = np.array([[own[region, label] for label in LABELS] for region in NEW_REGIONS])
    np.testing.assert_array_equal(mask, p_values > levels)


def test_cells_merge_save_load_and_never_seen(tmp_path):
    whole = calibrated((REGIONS, "label"), ids=np.arange(900))
    first, second = (
        aptset.calibrate(
            P[part], Y[part], classes=LABELS, groups=(REGIONS[part], "label"), random_state=0, ids=np.arange(900)[part]
        )
        for part in (slice(0, 400), slice(400, 900))
    )
    merged = first.merge(second)
    assert merged.ranks(0.1) == whole.ranks(0.1)
    ids = np.arange(1000, 1300)
    wanted = whole.predict_mask(NEW, LEVELS | {"malignant": 0.05}, groups=NEW_REGIONS, ids=ids)
    merged.save(tmp_path / "cal.aptset")
    for other in (merged, aptset.load(tmp_path / "cal.aptset")):
        found = other.predict_mask(NEW, LEVELS | {"malignant": 0.05}, groups=NEW_REGIONS, ids=ids)
        np.testing.assert_array_equal(found, wanted)
    with pytest.warns(UserWarning, match="labels of groups.*'west' .never seen"):
        assert whole.predict_mask(NEW[:3], 0.1, groups=["west"] * 3, ids=ids[:3]).all()
    assert (whole.p_values(NEW[:3], groups=["west"] * 3, ids=ids[:3]) == 1).all()
    with pytest.raises(ValueError, match="groups must be passed"):
        whole.predict_set(NEW)


@pytest.mark.parametrize("by_label", ["label", aptset.LabelBands({"benign": 0, "other": 0, "malignant": 1})])
def test_cells_merge_though_shards_have_other_groups(by_label):
    """Groups of rows come in another order, or not at all, in each shard; labels are the same in all."""
    regions = np.repeat(["east", "north", "south"], 300)
    shards = [
        aptset.calibrate(
            P[part], Y[part], classes=LABELS, groups=(regions[part], by_label), random_state=0, ids=np.arange(900)[part]
        )
        for part in (slice(500, 900), slice(200, 500), slice(0, 200))
    ]
    whole = calibrated((regions, by_label), ids=np.arange(900))
    merged = shards[0].merge(shards[1]).merge(shards[2])
    assert merged.ranks(0.1) == whole.ranks(0.1)
    new = {"groups": np.array(["east", "north", "south"])[np.arange(300) % 3], "ids": np.arange(1000, 1300)}
    np.testing.assert_array_equal(merged.p_values(NEW, **new), whole.p_values(NEW, **new))
    of_numbers = aptset.calibrate(
        P, Y, classes=LABELS, groups=([1] * 900, by_label), random_state=0, ids=np.arange(900)
    )
    with pytest.raises(ValueError, match="kind of names of groups"):
        merged.merge(of_numbers)


def test_cells_of_groups_and_bands_with_folds_and_weights():
    bands = aptset.LabelBands({"benign": "calm", "other": "calm", "malignant": "urgent"})
    folds = aptset.calibrate_cv(P, Y, np.arange(900) % 3, classes=LABELS, groups=(REGIONS, bands), random_state=0)
    p_values = folds.p_values([NEW] * 3, groups=NEW_REGIONS)
    np.testing.assert_array_equal(folds.predict_mask([NEW] * 3, 0.1, groups=NEW_REGIONS), p_values > 0.1)
    assert set(folds.guarantee({"calm": 0.1, "urgent": 0.05})) == set(product(("north", "south"), ("calm", "urgent")))
    weighted = calibrated((REGIONS, bands), weights=np.ones(900))
    plain = calibrated((REGIONS, bands))
    found = weighted.predict_mask(NEW, 0.2, groups=NEW_REGIONS, weights=np.ones(300))
    np.testing.assert_array_equal(found, plain.predict_mask(NEW, 0.2, groups=NEW_REGIONS))


def exact_confidence(p_values, probabilities):
    """Return guess, confidence and credibility of one row, by their definition."""
    best = max(p_values)
    guess = max((k for k, p in enumerate(p_values) if p == best), key=lambda k: (probabilities[k], -k))
    second = max((p for k, p in enumerate(p_values) if k != guess), default=0.0)
    return guess, 1 - second, best


coarse = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)


@given(st.lists(coarse, min_size=1, max_size=12), st.lists(coarse, min_size=1, max_size=5), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_confidence_and_levels_with_ties_and_zeros(old, new, label):
    old, new = (np.array(part, dtype=float) for part in (old, new))
    labels = np.where(np.arange(len(old)) % 2, label, 0)
    calibration = aptset.calibrate(old, labels, classes=[0, 1, 2], groups="label", random_state=0, normalize=True)
    p_values = calibration.p_values(new)
    guess, confidence, credibility = calibration.confidence(new)
    for row in range(len(new)):
        wanted = exact_confidence(p_values[row].tolist(), new[row].tolist())
        assert (guess[row], confidence[row], credibility[row]) == wanted
    with pytest.warns(UserWarning, match="too few calibration samples"):
        mask = calibration.predict_mask(new, {0: 0.05, 1: 0.3, 2: 0.6})
    np.testing.assert_array_equal(mask, p_values > [0.05, 0.3, 0.6])


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_confidence_says_how_large_sets_are(alpha):
    calibration = calibrated()
    sizes = calibration.predict_set(NEW, alpha).sizes
    guess, confidence, credibility = calibration.confidence(NEW)
    np.testing.assert_array_equal(sizes <= 1, confidence >= 1 - alpha)
    np.testing.assert_array_equal(sizes == 0, credibility <= alpha)
    ones = sizes == 1
    assert [row[0] for row in calibration.predict_set(NEW, alpha)[ones]] == guess[ones].tolist()
    of_folds = FOLDS.confidence([NEW] * 5)
    np.testing.assert_array_equal(FOLDS.predict_set([NEW] * 5, alpha).sizes <= 1, of_folds.confidence >= 1 - alpha)


def test_a_confident_guess_is_wrong_as_rarely_as_promised():
    """P(wrong and confidence >= 0.8) <= 0.2: over 8,000 rows after 2,000, above 0.26 with a probability below 1e-6."""
    p, y, _ = rows(5, 10_000)
    calibration = aptset.calibrate(p[:2000], y[:2000], classes=LABELS, random_state=0)
    guess, confidence, credibility = calibration.confidence(p[2000:])
    assert np.mean((guess != y[2000:]) & (confidence >= 0.8)) <= 0.26
    assert np.mean(credibility <= 0.2) <= 0.26


def test_batches_give_the_sets_of_arrays():
    pyarrow = pytest.importorskip("pyarrow")
    calibration = calibrated("label")
    table = pyarrow.table({label: NEW[:, k] for k, label in enumerate(LABELS)})
    for alpha, sure in (
        (LEVELS, None),
        (0.1, 0.95),
        (LEVELS | {"malignant": 0.05}, aptset.Assurance(0.9, simultaneous=True)),
    ):
        made = aptset.predict_batches(table, calibration, alpha=alpha, assurance=sure).read_all()
        assert made["size"].to_pylist() == calibration.predict_set(NEW, alpha, assurance=sure).sizes.tolist()
    both = calibrated((REGIONS, "label"))
    table = table.append_column("region", pyarrow.array(NEW_REGIONS.tolist()))
    made = aptset.predict_batches(table, both, alpha=0.1, groups="region").read_all()
    assert made["size"].to_pylist() == both.predict_set(NEW, 0.1, groups=NEW_REGIONS).sizes.tolist()
    calibrating = table.append_column("truth", pyarrow.array(TRUTH.tolist()))
    of_batches = {"labels": "truth", "probabilities": list(LABELS), "random_state": 0}
    exact = aptset.calibrate_batches(calibrating, alpha=LEVELS, groups="label", **of_batches)
    same = aptset.calibrate(NEW, TRUTH, classes=LABELS, groups="label", random_state=0)
    np.testing.assert_array_equal(exact.predict_mask(P, LEVELS), same.predict_mask(P, LEVELS))
    with pytest.raises(ValueError, match="alpha must be a level that was calibrated"):
        exact.predict_mask(P, 0.1, assurance=0.9)
    grid = aptset.calibrate_batches(calibrating, groups="label", resolution=2**-20, **of_batches)
    np.testing.assert_array_equal(grid.predict_mask(P, LEVELS), grid.p_values(P) > LABEL_LEVELS)
    assert grid.ranks(0.1, assurance=0.9) == same.ranks(0.1, assurance=0.9)
    with pytest.raises(ValueError, match="not both at once"):
        aptset.calibrate_batches(calibrating, groups=("region", "label"), **of_batches)


def test_dask_gives_the_sets_of_arrays():
    dask_array = pytest.importorskip("dask.array")
    of_dask = pytest.importorskip("aptset.dask")
    calibration = calibrated("label")
    for alpha, sure in ((LEVELS, None), (0.1, 0.95)):
        rows = dask_array.from_array(NEW, chunks=(100, 3))
        parts = of_dask.predict_set(rows, calibration, alpha=alpha, assurance=sure)
        wanted = calibration.predict_set(NEW, alpha, assurance=sure)
        assert parts["size"].compute().tolist() == wanted.sizes.tolist()


def test_cells_that_are_named_the_other_way_round_are_refused_in_words():
    for groups in (("label", REGIONS), [REGIONS, "label"], (REGIONS, REGIONS)):
        with pytest.raises(ValueError, match="groups must have one entry per row: 900 rows, but 2 entries came"):
            calibrated(groups)
