"""Where u comes from: content and copy, ids, the caller; and what does not fit together."""

import itertools
import warnings

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.arrow.predicting import set_maker
from aptset.kernels.rows import BLOCK_ROWS

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
        with pytest.raises(
            ValueError,
            match="u must be given both to calibration and to prediction, or to neither; calibration drew its own",
        ):
            getattr(own, verb)(P, u=u)
        with pytest.raises(ValueError, match="calibration was passed u, and none came with the new rows"):
            getattr(given, verb)(P)
    assert given.predict_set(P, u=u).sizes.sum() > 0
    folds = np.arange(300) % 3
    with pytest.raises(ValueError, match="both to calibration and to prediction"):
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


SAME = np.tile([0.5, 0.3, 0.2], (300, 1))
SHARED = r"copies of others, and .* came without ids.*Pass ids=.*u=\"fresh\".*first_row=.*randomized=False"


def made_with_copies(tmp_path):
    """Yield calibrations of one content, however they were made, and what asks them about new rows."""
    halves = [aptset.calibrate(SAME, Y, random_state=0, first_row=start) for start in (0, BLOCK_ROWS)]
    merged = halves[0].merge(halves[1])
    merged.save(tmp_path / "cal.aptset")
    logits, batches = np.log(SAME), pa.table({"p": SAME.tolist(), "y": Y, "id": np.arange(300)})
    cross = aptset.calibrate_cv(SAME, Y, np.arange(300) % 3, random_state=0)
    cross.save(tmp_path / "cross.aptset")
    for one in (
        *(halves[0], merged, aptset.load(tmp_path / "cal.aptset")),
        aptset.calibrate(SAME, Y, ids=range(300), random_state=0),
        aptset.calibrate(logits, Y, logits=True, random_state=0),
        aptset.calibrate(logits, Y, logits=True, conformity="auto", random_state=0),
        aptset.calibrate_batches(batches, labels="y", probabilities="p", random_state=0),
        aptset.calibrate_batches(batches, labels="y", probabilities="p", ids="id", random_state=0),
    ):
        yield one, one.predict_set, SAME
        yield one, one.predict_mask, SAME
    for one in (cross, aptset.load(tmp_path / "cross.aptset")):
        yield one, lambda rows, one=one, **chance: one.predict_set([rows] * 3, **chance), SAME


def test_small_calls_after_many_copies_warn_once_with_the_ways_out(tmp_path):
    for one, ask, rows in made_with_copies(tmp_path):
        one.chance.__dict__["_has_warned"] = False  # whatever asked it before
        assert one.chance.copies > 0.9
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(rows[:2], ids=["request 1", "request 2"])
            ask(rows[:2], u="fresh")
            ask(np.tile(rows, (14, 1)))
        with pytest.warns(UserWarning, match=SHARED) as caught:
            ask(rows[:2])
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ask(rows[:2])


def test_who_is_not_warned():
    few = P.copy()
    few[:6] = few[0]  # five copies among 300 rows are less than 2 %
    assert 0 < aptset.calibrate(few, Y).chance.copies < 0.02
    with pytest.warns(UserWarning, match=SHARED) as caught:
        aptset.calibrate(SAME, Y, random_state=0).predict_set(SAME[:1])
    assert caught[0].filename == __file__, "the warning points at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aptset.calibrate(few, Y).predict_set(few[:2])
        aptset.calibrate(SAME, Y, randomized=False).predict_set(SAME[:1])
        aptset.calibrate(SAME, Y).predict_set(SAME[:1], first_row=BLOCK_ROWS)
    few[6:12] = few[6]
    with pytest.warns(UserWarning, match="^3% of the calibration rows"):
        aptset.calibrate(few, Y).predict_set(few[:2])


def deployments(asked, n, m, size=2, n_deployments=50):
    """Return how many of m rows are covered in each of many deployments, which come in batches of a few equal rows."""
    generator, covered = np.random.default_rng(8), []
    for key in range(n_deployments):
        matrix = (0.94 * np.eye(3) + 0.02)[generator.integers(3, size=n + m)]
        labels = (generator.random((n + m, 1)) > np.cumsum(matrix, axis=1)).sum(axis=1)
        calibration = aptset.calibrate(matrix[:n], labels[:n], random_state=key)
        rows = [slice(start, start + size) for start in range(n, n + m, size)]
        sets = [calibration.predict_set(matrix[some], 0.1, **asked(some, key)).covers(labels[some]) for some in rows]
        covered.append(int(np.concatenate(sets).sum()))
    return np.array(covered)


@pytest.mark.parametrize("way", ["fresh", "generator", "ids", "content"])
def test_fresh_u_and_ids_cover_in_each_deployment_what_the_law_says(way):
    """Covered rows of a deployment are Beta-binomial, (m, k, n + 1 - k), if each has u of its own.

    A Kolmogorov test of the randomised ranks of 50 deployments at 1e-7. Content shares u from batch to batch, and the
    same test refutes it: whole contents are missed.
    """
    generator = np.random.default_rng(9)
    asked = {
        "fresh": lambda rows, key: {"u": "fresh"},
        "generator": lambda rows, key: {"u": generator},
        "ids": lambda rows, key: {"ids": range(rows.start, rows.stop)},
        "content": lambda rows, key: {},
    }[way]
    n, m = 400, 200
    covered = deployments(asked, n, m)
    k = aptset.conformal_rank(n, 0.1)
    law, below = stats.betabinom(m, k, n + 1 - k), np.random.default_rng(10).random(len(covered))
    ranks = law.cdf(covered - 1) + below * law.pmf(covered)
    p_value = stats.kstest(ranks, "uniform").pvalue
    assert p_value < 1e-7 if way == "content" else p_value > 1e-7


def test_fresh_u_is_another_one_in_every_call_and_on_every_face():
    one, given = aptset.calibrate(P, Y, random_state=0), aptset.calibrate(P, Y, u=np.linspace(0, 1, 300))
    cross = aptset.calibrate_cv(P, Y, np.arange(300) % 3, random_state=0)
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(P, Y)
    folds = aptset.ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0).fit(P, Y)
    fold_rows = [model.predict_proba(P) for model in folds.models_]
    for ask in (
        *(one.p_values, given.p_values, classifier.p_values, folds.p_values),
        *(lambda rows, u, of=of: of.predict_mask(rows, u=u) for of in (one, given)),
        *(lambda rows, u, of=of: of.predict_set(rows, u=u).mask for of in (one, classifier, folds)),
        *(lambda rows, u, of=of: of.sets_and_p_values(rows, u=u)[1] for of in (one, classifier)),
        lambda rows, u: cross.p_values([rows] * 3, u=u),
        lambda rows, u: folds.calibration_.p_values(fold_rows, u=u),
        lambda rows, u: predicted_batches(rows, one, u),
    ):
        assert not np.array_equal(ask(P, u="fresh"), ask(P, u="fresh"))
        first, second = np.random.default_rng(1), np.random.default_rng(1)
        np.testing.assert_array_equal(ask(P, u=first), ask(P, u=second))
        assert not np.array_equal(ask(P, u=first), ask(P, u=np.random.default_rng(1))), "a generator goes on"


def predicted_batches(rows, calibration, u):
    """Return the sizes of sets that batches bring."""
    made = aptset.predict_batches(pa.table({"p": rows.tolist()}), calibration, u=u)
    return made.read_all()["size"].to_numpy()


def test_what_fresh_u_does_not_go_with():
    one, fresh = aptset.calibrate(P, Y, random_state=0), "fresh"
    for call, message in (
        (lambda: one.predict_set(P, u=fresh, ids=range(300)), "u and ids must not both be passed"),
        (
            lambda: one.predict_set(P, u="new"),
            "u must be \"fresh\", a numpy Generator, or one uniform per row; got 'new'",
        ),
        (lambda: aptset.calibrate(P, Y, randomized=False).predict_set(P, u=fresh), "left out with randomized=False"),
        (lambda: aptset.calibrate(P, Y, u=fresh), "u must be one uniform per row, or left out, at calibration"),
        (lambda: aptset.calibrate_cv(P, Y, np.arange(300) % 3, u=np.random.default_rng(0)), "at calibration"),
        (lambda: aptset.Online(one).predict_set(P, u=fresh), "in a stream, which numbers copies from call to call"),
        (lambda: set_maker(one, pa.record_batch({"p": P.tolist()}), u=np.random.default_rng(0)), "apart"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_logits_are_hashed_and_not_their_saturated_softmax():
    """Distinct logits whose softmax is (1, 0, 0) were copies of one another: a set hung on who came before."""
    logits = np.column_stack([np.arange(900.0, 1200.0), np.zeros(300), -np.arange(300.0)])
    generator = np.random.default_rng(0)
    labels = (generator.random(300) < 0.3).astype(int)
    calibration = aptset.calibrate(logits, labels, logits=True, random_state=0)
    assert calibration.chance.copies == 0
    whole = calibration.p_values(logits, logits=True)
    assert len(np.unique(whole[:, 0])) > 200, "each row has u of its own"
    alone = [calibration.p_values(logits[row : row + 1], logits=True)[0] for row in range(300)]
    np.testing.assert_array_equal(alone, whole)
    order = generator.permutation(300)
    np.testing.assert_array_equal(calibration.p_values(logits[order], logits=True), whole[order])
    for same in (logits.astype(np.float32), np.where(logits == 0, -0.0, logits), logits.astype(int), logits.tolist()):
        np.testing.assert_array_equal(calibration.p_values(same, logits=True), whole)
    online = aptset.Online(calibration)
    np.testing.assert_array_equal(online.predict_mask(logits, logits=True), whole > 0.1)
    assert online.update(logits, labels, logits=True).rows == 300


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
    """Copies in shards that start at the same row share their randomness: that is said, and a first row of its own
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
