"""Weights of rows and labels: the definition in rationals, and what must hold whatever the weights are."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import aptset
from aptset.conformal.importance import Scale
from aptset.kernels.formula import Formula
from aptset.kernels.rows import CALIBRATION, PREDICTION, Rows, all_scores_of_block
from reference import adaptive_score, exact_row, weighted_p_value, weighted_threshold

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
UGLY = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 3.0, 0.1, 0.3, 7.3, 5e-324, 1e-310, 1e-12, 1e12, 1e300, 2.0**-33, 2.0**40]),
    st.floats(0, 1e6),
)


@pytest.fixture(autouse=True)
def _small_sizes():
    """Effective sizes are small all over this file: what is said about that is tested by itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the weights leave|.* weigh more than|.* too few")
        yield


@st.composite
def dyadic_rows(draw, n, n_classes):
    """Rows of multiples of 1/64 with many ties and zeros: their scores are compared without any rounding."""
    shares = st.lists(st.sampled_from([0, 0, 16, 32, 48, 64, 5]), min_size=n_classes - 1, max_size=n_classes - 1)
    return np.array([np.diff([0, *sorted(draw(shares)), 64]) / 64 for _ in range(n)])


@st.composite
def problems(draw):
    n, m, n_classes = draw(st.integers(1, 8)), draw(st.integers(1, 4)), draw(st.integers(2, 4))

    def lists(values, size):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)))

    uniform = st.sampled_from([k / 8 for k in range(9)])
    weights = lists(UGLY, n)
    weights[draw(st.integers(0, n - 1))] += 0.5
    ratios = lists(UGLY, n_classes) + np.where(np.arange(n_classes) == 0, 0.5, 0)
    return {
        "rows": draw(dyadic_rows(n, n_classes)),
        "new": draw(dyadic_rows(m, n_classes)),
        "labels": np.append(lists(st.integers(0, n_classes - 1), n - 1), 0).astype(int),
        "u": lists(uniform, n),
        "u_new": lists(uniform, m),
        "groups": lists(st.integers(0, 1), n),
        "groups_new": lists(st.integers(0, 2), m),
        "weights": weights,
        "weights_new": lists(UGLY, m),
        "ratios": ratios,
        "alpha": draw(st.sampled_from(["0.05", "0.1", "0.25", "0.5", "0.8", "0.99999"])),
    }


def exact_scores(matrix, u, key, side):
    """Exact scores of every label; only the order of ties is taken from the library."""
    formula = Formula(aptset.Adaptive().weights)
    floats, _ = all_scores_of_block(Rows(matrix, formula, key, 1e-9, u=u, side=side).seeded(), 0, len(matrix))
    found = []
    for row, scores, uniform in zip(matrix, floats, u, strict=True):
        p, order = exact_row(row), np.lexsort((scores, -row)).tolist()
        found.append([adaptive_score(p, order, label, Fraction(uniform)) for label in range(len(row))])
    return found


def whole(scale, weights):
    """Weights as the library rounds them: that they are near the exact ones has a test of its own."""
    return [int(weight) for weight in scale.whole(np.asarray(weights, dtype=float))]


@KEYED
@given(problem=problems(), by=st.sampled_from([None, "label", "row"]), of=st.sampled_from(["rows", "labels"]))
def test_definition(path, problem, by, of):
    alpha, labels, n_classes = Fraction(problem["alpha"]), problem["labels"], problem["rows"].shape[1]
    groups = {None: None, "label": "label", "row": problem["groups"]}[by]
    by_label = of == "labels"
    extra = {"label_weights": dict(enumerate(problem["ratios"]))} if by_label else {"weights": problem["weights"]}
    calibration = aptset.calibrate(problem["rows"], labels, groups=groups, u=problem["u"], random_state=0, **extra)
    options = {"u": problem["u_new"], "groups": problem["groups_new"] if by == "row" else None}
    options["weights"] = None if by_label else problem["weights_new"]
    p_values = calibration.p_values(problem["new"], **options)
    mask = calibration.predict_mask(problem["new"], float(alpha), **options)
    sets, again = calibration.sets_and_p_values(problem["new"], float(alpha), **options)
    np.testing.assert_array_equal(sets.mask, mask)
    np.testing.assert_array_equal(again, p_values)
    two = calibration.predict_set(problem["new"], [float(alpha), 0.3], **options)
    np.testing.assert_array_equal(two[0].mask, mask)
    np.testing.assert_array_equal(two[1].mask, p_values > 0.3)

    weights = problem["ratios"][labels] if by_label else problem["weights"]
    scale = Scale.of(weights)
    own_scores = exact_scores(problem["rows"], problem["u"], calibration.key, CALIBRATION)
    own_scores = [scores[y] for scores, y in zip(own_scores, labels, strict=True)]
    new_scores = exact_scores(problem["new"], problem["u_new"], calibration.key, PREDICTION)
    weights = whole(scale, weights)
    for row, scores in enumerate(new_scores):
        for label in range(n_classes):
            group = {None: None, "label": label, "row": problem["groups_new"][row]}[by]
            of_samples = {None: [None] * len(labels), "label": labels, "row": problem["groups"]}[by]
            mine = [i for i, other in enumerate(of_samples) if other == group]
            v = whole(scale, [problem["ratios"][label] if by_label else problem["weights_new"][row]])[0]
            of_group = [own_scores[i] for i in mine], [weights[i] for i in mine]
            exact = weighted_p_value(*of_group, scores[label], v)
            threshold = weighted_threshold(*of_group, v, alpha)
            found = p_values[row, label]
            assert Fraction(repr(float(found))) >= exact
            assert found == 0 or Fraction(repr(float(np.nextafter(found, -1)))) < exact
            assert mask[row, label] == (exact > alpha) == (threshold is None or scores[label] <= threshold)
            total = sum(of_group[1])
            assert (threshold is None) == (v > alpha / (1 - alpha) * total or total == 0)


@given(st.lists(UGLY, min_size=1, max_size=6), st.lists(UGLY, min_size=1, max_size=6))
def test_whole_numbers_are_the_weights_to_2_to_the_minus_32_of_the_largest(weights, new):
    weights = np.array([*weights, 1e-3 if len(new) % 2 else 1.0])
    scale = Scale.of(weights)
    for weight, found in zip([*weights, *new], whole(scale, [*weights, *new]), strict=True):
        exact = Fraction(weight) / Fraction(scale.largest) * int(scale.steps)
        assert abs(found - exact) <= Fraction(1, 2) + exact / 2**51 or (found == 1 and exact > 0)
        assert (found > 0) == (weight > 0), "a row that may come counts itself"
    assert scale.steps >= 2**32
    assert weights.max() <= scale.largest < 2 * weights.max()


def made(n=60, m=25, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(n_classes), size=n + m)
    labels = (generator.random((n + m, 1)) > probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    weights = generator.exponential(size=n) ** 2, generator.exponential(size=m)
    return probabilities[:n], labels[:n], probabilities[n:], *weights


@pytest.mark.parametrize("groups", [None, "label", "row"])
@pytest.mark.parametrize("constant", [1, 7.3, 5e-324, 1e300])
def test_constant_weights_are_none(path, constant, groups):
    p, y, new, *_ = made()
    of_rows, of_new = np.arange(60) % 3, np.arange(25) % 4
    groups, more = (of_rows, {"groups": of_new}) if groups == "row" else (groups, {})
    plain = aptset.calibrate(p, y, groups=groups, random_state=0)
    weighted = aptset.calibrate(p, y, groups=groups, random_state=0, weights=np.full(60, constant))
    more_weighted = {**more, "weights": np.full(25, constant)}
    for alpha in (0.05, 0.1, 0.3, 0.9):
        one, other = plain.predict_set(new, alpha, **more), weighted.predict_set(new, alpha, **more_weighted)
        assert one == other
        np.testing.assert_array_equal(
            plain.predict_mask(new, alpha, **more), weighted.predict_mask(new, alpha, **more_weighted)
        )
    np.testing.assert_array_equal(plain.p_values(new, **more), weighted.p_values(new, **more_weighted))
    labels = aptset.calibrate(p, y, groups=groups, random_state=0, label_weights=dict.fromkeys(range(4), constant))
    np.testing.assert_array_equal(plain.p_values(new, **more), labels.p_values(new, **more))
    corrected = dict.fromkeys(range(4), constant)
    both = aptset.calibrate(p, y, groups=groups, random_state=0, label_weights=corrected, prior_correction=True)
    assert plain.predict_set(new, 0.1, **more) == both.predict_set(new, 0.1, **more)


@pytest.mark.parametrize("times", [1.0, 0.1, 1 / 3, 1000.0])
def test_whole_weights_are_repeated_rows(path, times):
    p, y, new, *_ = made()
    generator = np.random.default_rng(1)
    ids, u, u_new = np.arange(60), generator.random(60), generator.random(25)
    for most in (3, 7, 24) if times != 1.0 else (3, 7, 24, 31, 1000):
        repeats = generator.integers(0, most + 1, size=60)
        repeats[0] = most
        repeated = np.repeat(ids, repeats)
        plain = aptset.calibrate(p[repeated], y[repeated], u=u[repeated])
        weighted = aptset.calibrate(p, y, weights=repeats * times, u=u)
        options = {"u": u_new, "weights": np.full(25, times)}
        np.testing.assert_array_equal(plain.p_values(new, u=u_new), weighted.p_values(new, **options))
        for alpha in (0.01, 0.1, 0.2, 0.5):
            assert plain.predict_set(new, alpha, u=u_new) == weighted.predict_set(new, alpha, **options)


def test_only_ratios_of_weights_count_and_no_order():
    p, y, new, w, v = made()
    first = aptset.calibrate(p, y, weights=w, random_state=0)
    order = np.random.default_rng(0).permutation(60)
    ids = np.arange(60)
    for other, more in (
        (aptset.calibrate(p, y, weights=w * 4096, random_state=0), v * 4096),
        (aptset.calibrate(p, y, weights=w * 0.7, random_state=0), v * 0.7),
        (aptset.calibrate(p, y, weights=w * 1e-300, random_state=0), v * 1e-300),
        (aptset.calibrate(p[order], y[order], weights=w[order], random_state=0), v),
    ):
        assert first.predict_set(new, 0.1, weights=v) == other.predict_set(new, 0.1, weights=more)
        np.testing.assert_allclose(first.p_values(new, weights=v), other.p_values(new, weights=more), atol=1e-8)
    tied = aptset.calibrate(p, y, weights=w, conformity="rank", randomized=False, ids=ids, random_state=0)
    mixed = aptset.calibrate(
        p[order], y[order], weights=w[order], conformity="rank", randomized=False, ids=ids[order], random_state=0
    )
    np.testing.assert_array_equal(tied.p_values(new, weights=v), mixed.p_values(new, weights=v))


def test_a_heavy_row_gets_every_label_exactly_from_its_limit_on():
    p, y, new, *_ = made(n=9)
    calibration = aptset.calibrate(p, y, weights=np.ones(9), random_state=0)
    assert calibration.predict_mask(new[:1], 0.1, weights=[100.0]).all()
    assert calibration.predict_mask(new, 0.1, weights=np.full(25, 1.0 + 2.0**-32)).all()
    assert not calibration.predict_mask(new, 0.1, weights=np.full(25, 1.0)).all()
    assert not calibration.predict_mask(new, 0.5, weights=np.full(25, 9.0)).all()
    assert calibration.predict_mask(new, 0.5, weights=np.full(25, 9.0 + 2.0**-28)).all()
    assert calibration.predict_mask(new[:2], 0.99, weights=[1e300, 1.7e308]).all()


def test_a_row_of_its_own_weight_is_not_forgotten():
    p, y, new, *_ = made(n=99)
    calibration = aptset.calibrate(p, y, weights=np.ones(99), random_state=0)
    small, large = (calibration.predict_mask(new, 0.1, weights=np.full(25, v)).sum() for v in (0.0, 10.0))
    assert small < large


def test_a_group_never_seen_is_named():
    p, y, new, *_ = made(n=200)
    calibration = aptset.calibrate(p, y, weights=np.ones(200), groups=["a"] * 200, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        mask = calibration.predict_mask(new, 0.1, weights=np.ones(25), groups=["a"] * 24 + ["b"])
    assert mask[-1].all()
    assert ["'b' (never seen)" in str(one.message) for one in told] == [True], "and nothing of weights"
    bands = aptset.LabelBands({label: label == 3 for label in range(p.shape[1])})
    without = aptset.calibrate(p, np.where(y == 3, 0, y), weights=np.ones(200), groups=bands, random_state=0)
    with pytest.warns(
        UserWarning, match=r"True \(never seen\): at least 9 are needed, so their labels are in every set"
    ):
        assert without.predict_mask(new, 0.1, weights=np.ones(25))[:, 3].all()


@pytest.mark.parametrize("heaviest", [1.0, 1e300])
def test_the_weight_of_one_row_touches_no_other(heaviest):
    p, y, new, w, v = made()
    v[7] = heaviest
    calibration = aptset.calibrate(p, y, weights=w, random_state=0)
    together = calibration.p_values(new, weights=v, ids=np.arange(25))
    for row in range(25):
        alone = calibration.p_values(new[[row]], weights=v[[row]], ids=[row])
        np.testing.assert_array_equal(alone[0], together[row])


def test_a_known_shift_is_covered():
    """x is N(0, 1) for calibration rows and N(1, 1) for new ones; the model does not see that labels get random with x.

    Each of 300 calibrations (n = 200) judges one new row. By the theorem the number of covered rows is at least a
    Binomial(300, 0.9) in law, which is below 235 with probability 7e-10.
    """
    generator = np.random.default_rng(5)
    assert binom.cdf(234, 300, 0.9) < 1e-8
    weighted = plain = forgotten = 0
    for seed in range(300):
        x = generator.normal(np.where(np.arange(201) < 200, 0.0, 1.0))
        p = generator.dirichlet(np.full(8, 0.2), size=201)
        noise = 1 / (1 + np.exp(-3 * (x - 1)))[:, None]
        y = (generator.random((201, 1)) > ((1 - noise) * p + noise / 8).cumsum(axis=1)[:, :-1]).sum(axis=1)
        w = np.exp(x - 0.5)
        calibration = aptset.calibrate(p[:200], y[:200], weights=w[:200], random_state=seed)
        weighted += int(calibration.predict_mask(p[200:], 0.1, weights=w[200:])[0, y[200]])
        forgotten += int(calibration.predict_mask(p[200:], 0.1, weights=[0.0])[0, y[200]])
        plain += int(aptset.calibrate(p[:200], y[:200], random_state=seed).predict_mask(p[200:], 0.1)[0, y[200]])
    assert weighted >= 235
    assert plain < 235
    assert forgotten < weighted


@pytest.mark.parametrize("groups", ["label", "band", "row"])
def test_thresholds_group_by_group_are_those_of_all_at_once(limits, groups):
    """Cells are looked up in the range of their group; a group of few cells goes with the others."""
    generator = np.random.default_rng(4)
    p, y, q = (
        generator.dirichlet(np.ones(4), size=300),
        generator.integers(4, size=300),
        generator.dirichlet(np.ones(4), size=80),
    )
    w, v, of_rows = generator.gamma(1.0, size=300), generator.gamma(1.0, size=80), generator.integers(3, size=380)
    by = {"label": "label", "band": aptset.LabelBands({0: 0, 1: 1, 2: 0, 3: 1}), "row": of_rows[:300]}[groups]
    passed = {"groups": of_rows[300:] + (np.arange(80) == 7) * 5} if groups == "row" else {}
    found = []
    for few in (1, 10**9):
        limits(weighted_cells=few)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibration = aptset.calibrate(p, y, weights=w, groups=by, random_state=0)
            sets = calibration.predict_set(q, 0.2, weights=v, **passed)
            assert np.array_equal(sets.mask, calibration.p_values(q, weights=v, **passed) > 0.2)
            found.append((sets, calibration.predict_mask(q, 0.2, weights=v, **passed)))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


def test_columns_are_corrected_in_blocks_as_at_once(limits):
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    p[4] = [0.0, 0.0, 1.0]
    ratios = {0: 2.0, 1: 0.5, 2: 0.0}
    found = []
    for cells in (2**15, 7):
        limits(corrected_cells=cells)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibration = aptset.calibrate(
                p, np.arange(50) % 2, label_weights=ratios, prior_correction=True, random_state=0
            )
            found.append(calibration.p_values(p))
    assert np.array_equal(*found)
