"""Rows that belong together, and the votes of several annotators: the definition, what follows from it, and laws."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import aptset
from aptset.conformal.scheme import Promises

LEVELS = (0.05, 0.1, 0.25, 0.5)


def cases(most_rows=12):
    """Rows of three labels in eighths, with zeros and ties; their labels, clusters and groups."""
    row = st.sampled_from([(8, 0, 0), (4, 4, 0), (4, 2, 2), (6, 1, 1), (3, 3, 2), (0, 8, 0), (1, 2, 5)])
    one = st.tuples(row, st.integers(0, 2), st.integers(0, 3), st.integers(0, 1))
    return st.lists(one, min_size=1, max_size=most_rows)


def own(places):
    """A score that ties wherever probabilities do, and does not ask chance."""
    return 1 - places.own


def score(row, label):
    return 1 - Fraction(float(row[label]))


def p_value(scored, own):
    """(sum over clusters of the share of their rows at or above the score, + 1) / (clusters + 1), as it is defined."""
    clusters = {cluster for _, cluster, _ in scored}
    mass = Fraction(0)
    for cluster in clusters:
        votes = [(e, weight) for e, other, weight in scored if other == cluster]
        mass += Fraction(sum(w for e, w in votes if e >= own), sum(w for _, w in votes))
    return (mass + 1) / (len(clusters) + 1)


@pytest.mark.parametrize("kind", ["all", "label", "row"])
@settings(max_examples=40, deadline=None)
@given(rows=cases(), new=cases(4))
@pytest.mark.filterwarnings("ignore:.*too few")
def test_clusters_by_their_definition(kind, rows, new):
    P, y, clusters, groups = (list(values) for values in zip(*rows, strict=True))
    Q, _, _, new_groups = (list(values) for values in zip(*new, strict=True))
    P, Q = np.array(P) / 8, np.array(Q) / 8
    by = {"all": None, "label": "label", "row": groups}[kind]
    ask = {"groups": new_groups} if kind == "row" else {}
    common = {"conformity": own, "groups": by, "random_state": 0}
    calibration = aptset.calibrate(P, y, clusters=clusters, **common)
    assert (calibration.n, calibration.rows) == (len(set(clusters)), len(rows))
    found = calibration.p_values(Q, **ask)
    masks = {alpha: calibration.predict_mask(Q, alpha, **ask) for alpha in LEVELS}
    for i, row in enumerate(Q):
        for label in range(3):
            inside = [
                (score(P[k], y[k]), clusters[k], 1)
                for k in range(len(P))
                if kind == "all" or (y[k] == label if kind == "label" else groups[k] == new_groups[i])
            ]
            exact = p_value(inside, score(row, label))
            assert float(exact) == pytest.approx(found[i, label], abs=1e-15)
            for alpha in LEVELS:
                assert masks[alpha][i, label] == (exact > Fraction(str(alpha))), (exact, alpha)


@settings(max_examples=40, deadline=None)
@given(rows=cases(), votes=st.data(), by=st.sampled_from([None, "label"]))
@pytest.mark.filterwarnings("ignore:.*too few")
def test_votes_by_their_definition(rows, votes, by):
    P = np.array([row for row, *_ in rows]) / 8
    row = st.tuples(*[st.integers(0, 3)] * 3).filter(any)
    counts = np.array([votes.draw(row) for _ in rows])
    calibration = aptset.calibrate(P, votes=counts, conformity=own, groups=by)
    found = calibration.p_values(P)
    for i in range(len(P)):
        for label in range(3):
            answers = [(k, other) for k, other in zip(*np.nonzero(counts), strict=True) if by is None or other == label]
            inside = [(score(P[k], other), k, int(counts[k, other])) for k, other in answers]
            assert float(p_value(inside, score(P[i], label))) == pytest.approx(found[i, label], abs=1e-15)
    assert calibration.n == calibration.rows == len(P)


def data(n=300, n_clusters=40, seed=0):
    generator = np.random.default_rng(seed)
    P = generator.dirichlet([1, 1, 1], size=n)
    y = np.array([generator.choice(3, p=p) for p in P])
    return P, y, generator.integers(0, n_clusters, n), generator.dirichlet([1, 1, 1], size=200)


@pytest.mark.parametrize("groups", [None, "label"])
def test_clusters_of_one_row_and_one_vote_are_plain_to_the_bit(groups):
    P, y, _, Q = data()
    plain = aptset.calibrate(P, y, groups=groups, random_state=0)
    single = aptset.calibrate(P, y, clusters=np.arange(len(y)), groups=groups, random_state=0)
    voted = aptset.calibrate(P, votes=np.eye(3)[y], groups=groups, random_state=0)
    for other in (single, voted):
        assert np.array_equal(other.p_values(Q), plain.p_values(Q))
        assert other.threshold(0.1) == plain.threshold(0.1)
        assert other.parts == plain.parts
        assert np.array_equal(other.scores, plain.scores)


@pytest.mark.parametrize("sizes", [9, 40])  # a common multiple that is small, and one that is not
def test_clusters_are_weights_of_one_over_their_rows(sizes):
    P, y, _, Q = data(600)
    clusters = np.repeat(np.arange(600), np.arange(600) % sizes + 1)[: len(y)]
    times = np.bincount(clusters)[clusters]
    ours = aptset.calibrate(P, y, clusters=clusters, random_state=0)
    theirs = aptset.calibrate(P, y, weights=1 / times, random_state=0)
    for alpha in LEVELS:
        assert np.array_equal(ours.predict_mask(Q, alpha), theirs.predict_mask(Q, alpha, weights=np.ones(len(Q))))
        assert np.array_equal(ours.predict_mask(Q, alpha), ours.p_values(Q) > alpha)


def test_too_few_clusters_give_every_label_and_say_so():
    P, y, _, Q = data()
    calibration = aptset.calibrate(P, y, clusters=pd.Series(np.arange(len(y)) % 8, name="patient"), random_state=0)
    with pytest.warns(UserWarning, match="8 calibration patients are too few for alpha=0.1: at least 9"):
        assert calibration.predict_mask(Q, 0.1).all()


def test_a_cluster_in_both_parts_counts_once(tmp_path):
    P, y, clusters, Q = data()
    whole = aptset.calibrate(P, y, clusters=clusters, random_state=0)
    parts = [
        aptset.calibrate(P[rows], y[rows], clusters=clusters[rows], random_state=0, first_row=start)
        for rows, start in ((slice(0, 120), 0), (slice(120, None), 4096))
    ]
    merged = parts[0].merge(parts[1])
    merged.save(tmp_path / "merged.aptset")
    for one in (merged, aptset.load(tmp_path / "merged.aptset")):
        assert (one.n, one.rows) == (whole.n, whole.rows) == (40, 300)
        assert np.array_equal(one.p_values(Q), whole.p_values(Q))
        assert str(one.guarantee(0.1)) == "0.9 for a row of a new cluster"
    with pytest.raises(ValueError, match="differs in clusters"):
        merged.merge(aptset.calibrate(Q, Q.argmax(axis=1), random_state=0))


def test_votes_merge_and_are_stored(tmp_path):
    P, _, _, Q = data()
    votes = np.random.default_rng(1).multinomial(7, [0.6, 0.3, 0.1], size=len(P))
    whole = aptset.calibrate(P, votes=votes, random_state=0)
    first = aptset.calibrate(P[:99], votes=votes[:99], random_state=0)
    merged = first.merge(aptset.calibrate(P[99:], votes=pd.DataFrame(votes[99:]), random_state=0, first_row=4096))
    merged.save(tmp_path / "votes.aptset")
    for one in (merged, aptset.load(tmp_path / "votes.aptset")):
        assert np.array_equal(one.p_values(Q), whole.p_values(Q))
        assert one.n == 300
    shares = aptset.calibrate(P, votes=votes * 4, random_state=0)
    assert np.array_equal(shares.p_values(Q), whole.p_values(Q))


def test_folds_of_clusters_keep_the_theorem_with_clusters_in_the_place_of_rows(tmp_path):
    P, y, clusters, Q = data()
    calibration = aptset.calibrate_cv(P, y, clusters % 5, clusters=clusters, random_state=0)
    assert float(calibration.guarantee(0.1)) == pytest.approx(1 - 0.2 - (1 - 5 / 40) / 6)  # Barber et al. with K = 40
    calibration.save(tmp_path / "folds.aptset")
    stored = aptset.load(tmp_path / "folds.aptset")
    assert np.array_equal(stored.p_values([Q] * 5), calibration.p_values([Q] * 5))
    one_model = aptset.calibrate(P, y, clusters=clusters, random_state=0)  # the same model in every fold
    ids = [f"row {k}" for k in range(len(Q))]
    assert np.array_equal(calibration.p_values([Q] * 5, ids=ids), one_model.p_values(Q, ids=ids))
    halves = [
        aptset.calibrate_cv(P[h], y[h], clusters[h] % 5, clusters=clusters[h], random_state=0)
        for h in (slice(150), slice(150, None))
    ]
    assert np.array_equal(halves[0].merge(halves[1]).p_values([Q] * 5, ids=ids), calibration.p_values([Q] * 5, ids=ids))


def test_groups_that_share_clusters_are_alike_only_with_as_many_clusters():
    """Two folds with as many clusters in every group may hold other numbers of clusters: those are two kinds."""
    sizes = np.array([[2, 2], [2, 2]])
    together, apart = (
        Promises(aptset.CVPlus(), sizes, n_clusters=np.array(n)).groups[0].alike for n in ([2, 2], [2, 4])
    )
    assert together == ((2, 2),)
    assert apart == ((2, 1), (2, 1))


def test_refusals_say_the_way_out():
    P, y, clusters, Q = data()
    calibration = aptset.calibrate(P, y, clusters=clusters, random_state=0)
    refused = {
        "folds must hold all rows of a cluster": lambda: aptset.calibrate_cv(
            P, y, np.arange(300) % 5, clusters=clusters
        ),
        "combine='minimax'": lambda: aptset.calibrate_cv(P, y, clusters % 5, clusters=clusters, combine="minimax"),
        "weights must be left out where clusters": lambda: aptset.calibrate(
            P, y, clusters=clusters, weights=np.ones(300)
        ),
        "label_weights must be left out": lambda: aptset.calibrate(
            P, y, clusters=clusters, label_weights={0: 1, 1: 1, 2: 1}
        ),
        "clusters must not be missing; got None in row 2": lambda: aptset.calibrate(
            P[:3], y[:3], clusters=[1, 1, None]
        ),
        "clusters must be one id per row, or name a column": lambda: aptset.calibrate(P, y, clusters="patient"),
        "300 rows, but 5 entries": lambda: aptset.calibrate(P, y, clusters=clusters[:5]),
        "left out for a monitor": lambda: calibration.monitor(),
        "weights must be left out here": lambda: calibration.predict_set(Q, weights=np.ones(len(Q))),
        "without weights, clusters": lambda: aptset.Online(calibration),
        "labels must be left out where votes": lambda: aptset.calibrate(P, y, votes=np.eye(3)[y]),
        "clusters must be left out where votes": lambda: aptset.calibrate(P, votes=np.eye(3)[y], clusters=clusters),
        "row 0 has none": lambda: aptset.calibrate(P, votes=np.zeros((300, 3))),
        "got 'auto'": lambda: aptset.calibrate(P, votes=np.eye(3)[y], conformity="auto"),
        "must have one row per row": lambda: aptset.calibrate(P, votes=np.eye(3)[y][:9]),
        "overlapping groups have no promise for clusters": lambda: aptset.calibrate(
            P, y, clusters=clusters, groups=aptset.Overlapping(np.ones((300, 1), dtype=bool))
        ),
    }
    for words, call in refused.items():
        with pytest.raises((ValueError, TypeError)) as error:
            call()
        assert words in str(error.value)


def test_a_column_of_the_frame_names_the_clusters():
    P, y, clusters, Q = data()
    frame = pd.DataFrame(P, columns=[0, 1, 2]).assign(patient_id=clusters)
    named = aptset.calibrate(frame, y, clusters="patient_id", random_state=0)
    assert repr(named) == "Calibration(n=40 patients, 300 rows, 3 classes, Adaptive())"
    assert named.guarantee(0.1).about == "a row of a new patient"
    assert np.array_equal(named.p_values(Q), aptset.calibrate(P, y, clusters=clusters, random_state=0).p_values(Q))


def test_batches_are_asked_as_arrays_are():
    P, y, clusters, Q = data()
    calibration = aptset.calibrate(P, y, clusters=clusters, random_state=0)
    table = pa.table({str(k): Q[:, k] for k in range(3)})
    made = aptset.predict_batches(table, calibration, alpha=0.1).read_all()
    assert made["size"].to_pylist() == calibration.predict_set(Q, 0.1).sizes.tolist()


def test_a_chosen_score_is_chosen_on_whole_clusters():
    P, y, _, _Q = data(2000)
    clusters = np.arange(2000) // 4
    calibration = aptset.calibrate(P, y, clusters=clusters, conformity="auto", random_state=0)
    assert (calibration.n, calibration.rows) == (400, 1600)  # a fifth of 500 clusters, with all their rows, chose


def patients(generator, n):
    """Scores of the rows of patients: one in five is hard, and has few rows."""
    for _ in range(n):
        is_hard = generator.random() < 0.2
        yield 0.3 * is_hard + 0.3 * generator.random() + 0.4 * generator.random(2 if is_hard else 20)


def test_a_row_of_a_new_patient_is_covered_as_promised_and_pooled_rows_are_not():
    """K = 60, alpha = 0.1. Under the promise at least 0.9 and at most 0.9 + 2 / 61 of new patients' rows are covered: a
    binomial count of 1,000 is as far off by chance in fewer than one of 10^7 cases on either side. Pooled rows cover
    about 0.81, and at least 0.87 of 1,000 with less than that chance."""
    generator, hits = np.random.default_rng(5), {"clusters": 0, "pooled": 0}
    for _ in range(1000):
        rows = list(patients(generator, 60))
        (new,) = patients(generator, 1)
        scores, y = np.concatenate(rows), np.zeros(sum(map(len, rows)), dtype=int)
        P, clusters = np.column_stack([1 - scores, scores]), np.repeat(np.arange(60), [*map(len, rows)])
        for name, given_clusters in (("clusters", clusters), ("pooled", None)):
            calibration = aptset.calibrate(P, y, conformity="lac", randomized=False, clusters=given_clusters)
            hits[name] += bool(new[0] <= calibration.threshold(0.1))
    assert binom.ppf(1e-7, 1000, 0.9) <= hits["clusters"] <= binom.ppf(1 - 1e-7, 1000, 0.9 + 2 / 61)
    assert hits["pooled"] < 870


def test_answers_are_covered_as_promised_and_a_majority_is_not_enough():
    """Answers of random annotators about new rows, alpha = 0.1, 1,000 rows: the share of their votes in the set varies
    with the calibration by less than 0.01 (standard deviation), so that 0.9 is missed by 0.055 in one of 10^7 cases."""
    generator = np.random.default_rng(3)
    P = generator.dirichlet([0.6, 0.6, 0.6, 0.6], size=4000)
    votes = np.array([generator.multinomial(generator.integers(3, 9), p) for p in P])
    split, shares = 1000, {}
    calibrations = {
        "votes": aptset.calibrate(P[:split], votes=votes[:split], conformity="lac", random_state=0),
        "majority": aptset.calibrate(P[:split], votes[:split].argmax(axis=1), conformity="lac", random_state=0),
    }
    for name, calibration in calibrations.items():
        sets = calibration.predict_set(P[split:], 0.1)
        shares[name] = aptset.evaluate(sets, votes=votes[split:], alpha=0.1).coverage
    assert abs(shares["votes"] - 0.9) < 0.055
    assert shares["majority"] < shares["votes"] - 0.05


def test_batches_say_where_clusters_and_votes_go():
    """Batches keep counts of scores, which do not say which rows belong together."""
    for name in ("clusters", "votes"):
        with pytest.raises(TypeError, match=f"takes no {name}: batches are counted .* pass {name} to aptset.calibrate"):
            aptset.calibrate_batches([], "y", **{name: [0]})


def test_levels_of_labels_and_groups_are_judged_by_votes():
    """With one answer about each row, votes say what labels say; what goes by one label is refused."""
    P, y = np.random.default_rng(0).dirichlet(np.ones(3), 90), np.arange(90) % 3
    sets = aptset.calibrate(P, y, groups="label", random_state=0).predict_set(P, 0.2)
    regions = np.where(np.arange(90) % 2, "north", "south")
    for alpha, groups in (({0: 0.1, 1: 0.2, 2: 0.3}, None), ({"north": 0.1, "south": 0.2}, regions)):
        voted = aptset.evaluate(sets, votes=np.eye(3)[y], alpha=alpha, groups=groups)
        plain = aptset.evaluate(sets, y, alpha=alpha, groups=groups)
        assert voted.alpha == plain.alpha == alpha
        assert {name: float(one) for name, (_, one) in voted.judged.items()} == pytest.approx(
            {name: float(one) for name, (_, one) in plain.judged.items()}
        )
    for other in ("probabilities", "p_values", "X", "clusters"):
        with pytest.raises(ValueError, match=f"{other} must be left out where votes are passed"):
            aptset.evaluate(sets, votes=np.eye(3)[y], alpha=0.1, **{other: P})
