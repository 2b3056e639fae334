"""Where u comes from: content and copy, ids, the caller; and what does not fit together."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

import aptset
from aptset.kernels.copies import BLOCK_ROWS

P = np.random.default_rng(0).dirichlet([1, 1, 1], size=300)
Y = np.array([np.random.default_rng(i).choice(3, p=row) for i, row in enumerate(P)])


def coverage_of_law(covered, n, alpha):
    """p-value of the number covered among new rows of many calibrations, each with one new row: binomial."""
    k = aptset.conformal_rank(n, alpha)
    return stats.binomtest(int(covered.sum()), len(covered), k / (n + 1)).pvalue


ROWS = {
    "constant": lambda generator, n: np.tile([0.5, 0.3, 0.2], (n, 1)),
    "one-hot": lambda generator, n: np.eye(3)[generator.integers(3, size=n)],
    "few-valued": lambda generator, n: np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])[
        generator.integers(3, size=n)
    ],
}


@pytest.mark.parametrize("kind", sorted(ROWS))
@pytest.mark.parametrize("n", [19, 99])
def test_rows_with_copies_follow_the_law(kind, n):
    """Coverage of one new row per calibration is k / (n + 1) up to 1 / (n + 1), where it ties with its own content.

    4,000 calibrations a case, six cases: a binomial test on either side of that range at 1e-8 each.
    """
    generator, covered, alpha = np.random.default_rng(5), [], 0.1
    for key in range(4000):
        matrix = ROWS[kind](generator, n + 2)
        labels = (generator.random((n + 2, 1)) > np.cumsum(0.7 * matrix + 0.1, axis=1)).sum(axis=1).clip(0, 2)
        calibration = aptset.calibrate(matrix[:n], labels[:n], random_state=key)
        covered.append(calibration.predict_set(matrix[n:], alpha).covers(labels[n:])[1])
    k = aptset.conformal_rank(n, alpha)
    low = stats.binomtest(sum(covered), len(covered), k / (n + 1), alternative="less").pvalue
    high = stats.binomtest(sum(covered), len(covered), (k + 1) / (n + 1), alternative="greater").pvalue
    assert min(low, high) > 1e-8, f"{np.mean(covered):.4f} for {k / (n + 1):.4f}"


def test_saturated_rows_cover_every_class():
    """Softmax outputs rounded to 3 digits, most of them (1, 0, ...): no class falls out as a whole.

    The worst of 10 classes over 8 keys was 0.52 when equal rows shared u. Here about 0.9 of 2,000 rows a class are
    covered; 0.85 is seven standard deviations away.
    """
    generator = np.random.default_rng(3)
    truth = generator.integers(10, size=40_000)
    logits = generator.normal(size=(40_000, 10)) * 2
    logits[np.arange(40_000), truth] += 12
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    matrix = np.round(soft / soft.sum(axis=1, keepdims=True), 3)
    for key in range(4):
        calibration = aptset.calibrate(matrix[:20_000], truth[:20_000], normalize=True, random_state=key)
        assert calibration.chance.copies > 0.3
        covered = calibration.predict_set(matrix[20_000:], 0.1).covers(truth[20_000:])
        by_class = [covered[truth[20_000:] == label].mean() for label in range(10)]
        assert min(by_class) > 0.85
        assert abs(covered.mean() - 0.9) < 0.02


def test_distinct_rows_keep_their_sets_in_any_batch_and_order():
    calibration = aptset.calibrate(P, Y, random_state=0)
    whole = calibration.predict_mask(P)
    order = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(calibration.predict_mask(P[order]), whole[order])
    np.testing.assert_array_equal(calibration.predict_mask(P[17:18]), whole[17:18])
    twice = calibration.predict_mask(np.concatenate([P, P]))
    np.testing.assert_array_equal(twice[:300], whole, err_msg="the first copy is the row itself")
    assert (twice[300:] != whole).any(), "the second copies have chances of their own"


def test_pieces_of_whole_blocks_are_the_whole():
    generator = np.random.default_rng(2)
    matrix = np.eye(3)[generator.integers(3, size=3 * BLOCK_ROWS + 100)] * 0.5 + 1 / 6
    labels = generator.integers(3, size=len(matrix))
    whole = aptset.calibrate(matrix, labels, random_state=0)
    cuts = [0, BLOCK_ROWS, 3 * BLOCK_ROWS, len(matrix)]
    parts = [
        aptset.calibrate(matrix[a:b], labels[a:b], random_state=0, first_row=a) for a, b in itertools.pairwise(cuts)
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    np.testing.assert_array_equal(merged.scores, whole.scores)
    assert merged.chance.copies == pytest.approx(whole.chance.copies)
    expected = whole.p_values(matrix)
    pieces = [merged.p_values(matrix[a:b], first_row=a) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)
    with pytest.raises(ValueError, match=r"first_row must be a multiple of 4096.*got 10"):
        whole.predict_set(matrix, first_row=10)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b"] * 150, "ids must tell rows apart; got 2 different ids for 300 rows"),
        ([None, *range(299)], "ids must not be missing; got None in row 0"),
        ([*np.arange(299.0), np.nan], "ids must not be missing; got nan in row 299"),
        (range(5), "ids must have one entry per row"),
        ("name", "ids must be one id per row, or name a column of a data frame; got 'name'"),
        ([[1, 2]] * 300, "ids must"),
    ],
)
def test_ids_that_are_none_are_refused(ids, message):
    for call in (
        lambda: aptset.calibrate(P, Y, ids=ids),
        lambda: aptset.calibrate(P, Y).predict_set(P, ids=ids),
        lambda: aptset.calibrate_cv(P, Y, np.arange(300) % 3, ids=ids),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_one_sided_uniforms_are_refused():
    u = np.random.default_rng(4).random(300)
    own, given = aptset.calibrate(P, Y, random_state=0), aptset.calibrate(P, Y, u=u, random_state=0)
    for verb in ("predict_set", "predict_mask", "p_values"):
        with pytest.raises(ValueError, match="u must be given on both sides or on none; calibration drew its own"):
            getattr(own, verb)(P, u=u)
        with pytest.raises(ValueError, match="calibration was passed u, and none came with the new rows"):
            getattr(given, verb)(P)
    assert given.predict_set(P, u=u).sizes.sum() > 0
    folds = np.arange(300) % 3
    with pytest.raises(ValueError, match="both sides"):
        aptset.calibrate_cv(P, Y, folds).predict_set([P] * 3, u=u)
    with pytest.raises(ValueError, match="u and ids must not both be passed"):
        aptset.calibrate(P, Y, u=u, ids=range(300))
    with pytest.raises(ValueError, match="differs in where u comes from"):
        own.merge(given)


def test_cross_calibration_uses_one_function_of_the_row_on_both_sides():
    """With equal models in all folds, rows that calibrated get under every fold the u that they had."""
    calibration = aptset.calibrate_cv(P, Y, np.arange(300) % 3, random_state=0)
    split = aptset.calibrate(P, Y, random_state=0)
    np.testing.assert_array_equal(calibration.p_values([P] * 3), split.p_values(P))
    # u differs from fold to fold with the models: permuting the folds' models permutes nothing else.
    other = np.random.default_rng(8).dirichlet([1, 1, 1], size=300)
    mixed = calibration.p_values([P, other, P])
    assert not np.array_equal(mixed, calibration.p_values([other, P, P]))


def test_single_rows_after_many_copies_warn_with_the_ways_out():
    matrix = np.tile([0.5, 0.3, 0.2], (300, 1))
    calibration = aptset.calibrate(matrix, Y, random_state=0)
    assert calibration.chance.copies == pytest.approx(299 / 300)
    with pytest.warns(UserWarning, match=r"copies of others.*Pass ids=.*randomized=False") as caught:
        calibration.predict_set(matrix[:1])
    assert caught[0].filename == __file__, "the warning points at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibration.predict_set(matrix[:1], ids=["request 1"])
        calibration.predict_set(matrix[:2])
        aptset.calibrate(matrix, Y, randomized=False).predict_set(matrix[:1])
        aptset.calibrate(P, Y).predict_set(P[:1])


def test_the_same_rows_are_not_merged_twice(tmp_path):
    one, other = (aptset.calibrate(P[rows], Y[rows], random_state=0) for rows in (slice(150), slice(150, 300)))
    both = one.merge(other)
    assert both.n == 300
    for again in (one, other, both):
        with pytest.raises(ValueError, match="would count twice"):
            both.merge(again)
    with pytest.raises(ValueError, match="would count twice"):
        one.merge(aptset.calibrate(P[:150], Y[:150], random_state=0))
    both.save(tmp_path / "both.aptset")
    with pytest.raises(ValueError, match="would count twice"):
        aptset.load(tmp_path / "both.aptset").merge(one)


def test_normalize_is_remembered(tmp_path):
    calibration = aptset.calibrate(3 * P, Y, normalize=True, random_state=0)
    expected = calibration.predict_set(3 * P, normalize=True)
    assert calibration.predict_set(3 * P) == expected
    calibration.save(tmp_path / "cal.aptset")
    assert aptset.load(tmp_path / "cal.aptset").predict_set(3 * P) == expected
    with pytest.raises(ValueError, match="sum to 1"):
        calibration.predict_set(3 * P, normalize=False)
    folds = aptset.calibrate_cv(3 * P, Y, np.arange(300) % 3, normalize=True, random_state=0)
    assert folds.predict_set([3 * P] * 3).sizes.sum() > 0


def test_labels_with_groups_come_by_raw_probability():
    """Members closer than 2^-36 stood in the order of the columns."""
    matrix = np.tile([0.25, 0.25 + 2.0**-40, 0.5 - 2.0**-40], (60, 1))
    calibration = aptset.calibrate(matrix, np.arange(60) % 3, groups="label", random_state=0)
    sets = calibration.predict_set(matrix[:50], 0.05)
    assert [row.tolist() for row in sets if len(row) == 3], "some sets hold every label"
    assert all(row.tolist() == [2, 1, 0] for row in sets if len(row) == 3)


def test_merged_shards_have_chances_of_their_own():
    """Copies in shards that start at the same row share their chance: that is said, and a first row of its own
    helps."""
    matrix, shards = [[0.95, 0.05]] * 100, range(4)
    labels = [(np.random.default_rng(i).random(100) > 0.95).astype(int) for i in shards]
    same = [aptset.calibrate(matrix, y, random_state=0) for y in labels]
    with pytest.warns(UserWarning, match=r"start at the same row.*first_row of its own"):
        same[0].merge(same[1])
    own = [aptset.calibrate(matrix, y, random_state=0, first_row=i * BLOCK_ROWS) for i, y in enumerate(labels)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged = own[0].merge(own[1]).merge(own[2]).merge(own[3])
    assert len(np.unique(merged.scores)) > 390
    assert merged.first_rows == tuple(i * BLOCK_ROWS for i in shards)


def test_the_whole_is_not_merged_with_its_parts():
    whole, one, other = (
        aptset.calibrate(P[s], Y[s], random_state=0) for s in (slice(300), slice(150), slice(150, 300))
    )
    with pytest.raises(ValueError, match="would count twice"):
        one.merge(other).merge(whole)


def test_one_number_is_no_uniform_per_row():
    with pytest.raises(ValueError, match=r"u must hold one uniform per row.*got the number 1.0"):
        aptset.calibrate(P, Y, u=1.0)


def test_honest_shards_that_are_equal_are_refused_with_a_true_sentence_and_its_ways_out_work():
    """Two different pieces of a table of few values: nobody can tell them from one piece that came twice."""
    matrix, y = [[0.7, 0.3], [0.4, 0.6]] * 50, [0, 1] * 50
    one, other = (aptset.calibrate(matrix, y, random_state=0) for _ in range(2))
    with pytest.raises(ValueError, match=r"same content, labels and u\. If they are the same shard.*If they are other"):
        one.merge(other)
    later = aptset.calibrate(matrix, y, random_state=0, first_row=BLOCK_ROWS)
    named = [aptset.calibrate(matrix, y, random_state=0, ids=np.arange(100) + 100 * i) for i in range(2)]
    assert one.merge(later).n == named[0].merge(named[1]).n == 200
