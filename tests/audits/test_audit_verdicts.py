"""What audits say: verdicts on the rows they are about, drift along the order asked for, plain sentences."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from test_audit_chances import ALPHA, Broken, drifting, rows

import aptset
from aptset.audits.compare import Comparison, rank
from aptset.audits.dataset import RandomSplit, check_times, prepare
from aptset.audits.results import SplitResult, Splits, TestedRows
from aptset.audits.verdicts import judge, look_for_drift
from aptset.metrics.exchangeability import new_labels_test


@pytest.mark.filterwarnings("ignore:(groups|labels) with too few")
def test_labels_that_no_training_row_has_are_left_out_of_the_law_and_counted():
    X, y = rows(500)
    y = y.astype(object)
    y[:60] = [f"only {number}" for number in range(60)]  # each once: in the test rows no set can hold it
    order = np.random.default_rng(2).permutation(500)
    classifier = aptset.ConformalClassifier(GaussianNB(), groups="label", alpha=0.1)
    found = aptset.audit(classifier, X[order], y[order].astype(str), repetitions=20)
    (verdict,) = found.verdicts.values()
    overall = found.splits.of("as given")
    judged = [sum(m for m, _ in row.laws) for row in overall]
    assert verdict.left_out == sum(row.rows for row in overall) - sum(judged) > 100
    assert float(verdict.coverage) == pytest.approx(
        np.mean([row.covered / m for row, m in zip(overall, judged, strict=True)])
    )
    assert verdict.low <= verdict.coverage <= verdict.high, "coverage, band and chance are about the same rows"
    assert float(verdict.coverage_of_all) == pytest.approx(np.mean([row.metrics["coverage"] for row in overall]))
    assert not verdict.kept, "over all rows the promise is broken"
    assert f"{verdict.left_out:,} of 3,000 test rows have labels that no training row has" in verdict.sentence()


def test_the_chance_is_the_lower_tail():
    one = [SplitResult("a", 0, rows=5, covered=3, promise=0.8, laws=[(5, 9)])]
    tail = stats.betabinom(5, 8, 2).cdf(3)
    verdict = judge(one, Fraction(1, 5), 0.3)
    assert verdict.chance == pytest.approx(tail)
    assert (verdict.low, verdict.high) == pytest.approx(stats.betabinom(5, 8, 2).ppf([0.025, 0.975]) / 5)


@pytest.mark.parametrize(("shares", "kept"), [([0.5, 0.52, 0.48], False), ([0.8, 0.82, 0.9], True)])
def test_without_a_law_the_interval_is_compared_with_the_bound(shares, kept):
    splits = [SplitResult("a", 0, rows=100, covered=round(100 * share), promise=0.8, laws=None) for share in shares]
    verdict = judge(splits, ALPHA, 0.3)
    assert verdict.kept == kept
    assert ("LESS than the promised 80 %" in verdict.sentence()) == (not kept)
    assert verdict.coverage.low >= 0
    assert verdict.coverage.high <= 1


def test_a_time_that_is_always_the_same_has_no_order():
    X, y = drifting()
    found = aptset.audit(GaussianNB(), X, y, repetitions=10, calibrations="split", time=np.zeros(len(y)))
    assert not found.drift.warning
    assert check_times([3, 1, 2], 3, np.random.default_rng(0))[0].tolist() == [2, 0, 1]
    places, _ = check_times([1, 0, 1, 0], 4, np.random.default_rng(0))
    assert sorted(places[[1, 3]]) == [0, 1]


def test_the_last_split_follows_the_times():
    X, y = rows(50)
    times = np.random.default_rng(1).permutation(50)
    data, _ = prepare(X, y, None, times, 0.3)
    train, test = RandomSplit(data, "a", None, -1, 0).split()
    assert sorted(data.position[test]) == list(range(35, 50))
    assert sorted(data.position[train]) == list(range(35))
    where = np.argsort(times)[data.position]  # the row that each stands for
    assert np.array_equal(data.X, X[where])
    assert np.array_equal(data.y, y[where])


def test_drift_draws_what_the_sets_cover():
    """Never-empty sets cover more rows than have a p-value above alpha."""
    X, y = rows(300)
    classifier = aptset.ConformalClassifier(GaussianNB(), alpha=0.6, allow_empty=False)
    found = aptset.audit(classifier, X, y, repetitions=5)
    covered, times = np.zeros(300), np.zeros(300)
    place = prepare(X, y, None, None, 0.3)[0].position
    for row in found.splits.tested("as given"):
        covered[row.rows] += row.hits
        times[row.rows] += 1
    assert sum(sum(row.hits) for row in found.splits.tested("as given")) == sum(
        row.covered for row in found.splits.of("as given")
    )
    seen = np.argsort(place)
    seen = seen[times[seen] > 0]
    pieces = [piece.mean() for piece in np.array_split(covered[seen] / times[seen], 10)]
    assert found.drift.coverage == pytest.approx(pieces)


def test_the_luck_of_a_split_is_taken_out_before_rows_are_compared():
    """Splits that test the first rows only, with higher p-values throughout, are no drift: their mean is their luck."""
    spread = np.random.default_rng(0).normal(scale=0.01, size=(40, 50))
    splits = [
        TestedRows(list(range(start, start + 50)), (level + spread[i]).tolist(), [1] * 50)
        for i, (start, level) in enumerate([(0, 0.8), (50, 0.2)] * 20)
    ]
    last = SplitResult("a", -1, rows=10, covered=9, promise=0.9, laws=None)
    data, _ = prepare(*rows(100), None, None, 0.3)
    data = replace(data, position=np.arange(100))
    found = look_for_drift(splits, last, data, ALPHA, np.random.default_rng(0))
    assert found.p_order > 0.01


def test_what_a_finished_split_is_used_again_for():
    X, y = rows(60)
    data, _ = prepare(X, y, None, None, 0.3)
    one = RandomSplit(data, "a", aptset.ConformalClassifier(GaussianNB()), 1, 7)
    others = [
        replace(one, model=aptset.ConformalClassifier(GaussianNB(), alpha=0.2)),
        replace(one, model=aptset.ConformalClassifier(LogisticRegression())),
        replace(one, seed=8),
        replace(one, repetition=2),
        replace(one, candidate="b"),
        replace(one, keeps="p_values"),
        replace(one, pool=replace(data, X=X + 1)),
    ]
    assert len({one.key, *(other.key for other in others)}) == 8
    assert replace(one, model=aptset.ConformalClassifier(GaussianNB())).key == one.key


def test_every_split_has_its_own_model_seed():
    X, y = rows(60)
    data, _ = prepare(X, y, None, None, 0.3)
    data = replace(data, features=None)
    seen = []

    class Remembering(aptset.ConformalClassifier):
        def fit(self, X, y, **more):
            seen.append(self.random_state)
            return super().fit(X, y, **more)

    for seed, repetition in ((0, 0), (0, 1), (1, 0), (0, 0)):
        RandomSplit(data, "a", Remembering(GaussianNB()), repetition, seed).run()
    assert len(set(seen)) == 3
    assert seen[0] == seen[3]


def splits_of(sizes, covered, rows_of_test=100):
    """Results of some candidates: the mean size and the number covered of each split."""
    found = []
    for name in sizes:
        for number, (size, count) in enumerate(zip(sizes[name], covered[name], strict=True)):
            first, misses = number * rows_of_test, rows_of_test - count
            numbers, hits = list(range(first, first + rows_of_test)), [1] * count + [0] * misses
            metrics = {"coverage": count / rows_of_test, "worst_slice": count / 200}
            metrics |= {"size": size, "size_given_coverage": size}
            facts = {"rows": rows_of_test, "covered": count, "promise": 0.9, "laws": [(rows_of_test, 10_000)]}
            tested = TestedRows(numbers, [size] * rows_of_test, hits)
            found.append(SplitResult(name, number, **facts, metrics=metrics, tested=tested))
    return Splits(list(sizes), found, 0.3, len(next(iter(sizes.values()))))


def comparison(sizes, covered):
    splits = splits_of(sizes, covered)
    verdicts = {name: judge(splits.of(name), ALPHA, 0.3) for name in sizes}
    return Comparison(splits, verdicts, rank(splits, verdicts), 0.1, 300, 100)


def test_a_smaller_candidate_that_breaks_the_promise_is_not_the_best():
    sizes = {"cheat": [1.0, 1.1, 1.0], "good": [2.0, 2.1, 2.0], "large": [3.0, 3.1, 3.0]}
    found = comparison(sizes, {"cheat": [60, 61, 62], "good": [90, 91, 89], "large": [91, 90, 89]})
    assert found.ranking == ["good", "large", "cheat"]
    assert found.headline() == "good has the smallest sets of those that agree with the promise"
    large, cheat = found.sentences()
    assert large.startswith("good's sets are 1.00 labels smaller on average than large's")
    assert "without a clear difference in coverage" in large
    assert cheat == "cheat does not keep the promise (coverage 0.610); good agrees with it (0.900)."
    none = comparison({"a": [1.0, 1.1], "b": [2.0, 2.1]}, {"a": [60, 61], "b": [50, 49]})
    assert none.headline() == "No candidate keeps the promise"


@pytest.mark.parametrize(("counts", "way"), [([80, 81, 80], "lower"), ([99, 98, 99], "higher"), ([90, 89, 91], "same")])
def test_sentences_say_which_way_slices_and_coverage_differ(counts, way):
    sizes = {"a": [1.0, 1.1, 1.0], "b": [2.0, 2.1, 2.0]}
    found = comparison(sizes, {"a": [90, 91, 89], "b": counts})
    found = replace(found, ranking=["a", "b"], verdicts=dict.fromkeys(sizes, found.verdicts["a"]))
    (sentence,) = found.sentences()
    assert f"worst-slice coverage of b is {'about the same' if way == 'same' else way} (" in sentence
    assert ("without a clear difference in coverage" in sentence) == (way == "same")


def test_candidates_of_different_levels_are_refused():
    models = {"a": aptset.ConformalClassifier(GaussianNB(), alpha=0.2), "b": GaussianNB()}
    with pytest.raises(ValueError, match=r"the same alpha.*a has 0.2, b has 0.1. Pass alpha="):
        aptset.compare(models, *rows(60), repetitions=2)
    assert aptset.compare(models, *rows(60), repetitions=2, alpha=0.3).alpha == 0.3


def test_all_candidates_are_printed_and_what_is_left_out_is_said():
    X, y = rows(300)
    groups = [number % 40 for number in range(300)]
    found = aptset.audit(GaussianNB(), X, y, repetitions=2, groups=groups, calibrations=["split", "cv+"])
    text = repr(found)
    for name in ("split", "cv+"):
        assert f"{name}: size given coverage" in text
        assert f"{name}: 23 more, with higher coverage, in summary()" in text


def test_intervals_of_coverage_are_shares_and_groups_keep_apart():
    X, y = rows(60)
    found = aptset.audit(GaussianNB(), X, y, repetitions=2, groups=[1, "1"] * 30, calibrations="split")
    groups = [row for row in found.summary() if row.part == "group"]
    assert {row.name for row in groups} == {"1", "'1'"}
    shares = [row for row in found.summary() if row.metric in ("coverage", "worst_slice")]
    assert all(0 <= row.low <= row.high <= 1 for row in shares)


def test_a_broken_candidate_loses_however_small_its_sets():
    models = {"broken": Broken(GaussianNB()), "bayes": aptset.ConformalClassifier(GaussianNB())}
    found = aptset.compare(models, *rows(), repetitions=10)
    assert found.ranking == ["bayes", "broken"]
    assert found.splits.values("broken", "size").mean() < found.splits.values("bayes", "size").mean()
    assert found.headline() == "bayes has the smallest sets of those that agree with the promise"


def test_a_table_sorted_by_its_label_is_found_with_a_promise_for_every_label():
    X, y = rows(300)
    order = np.argsort(y, kind="stable")
    classifier = aptset.ConformalClassifier(GaussianNB(), groups="label", alpha=0.2)
    with pytest.warns(UserWarning, match="do not look exchangeable"):
        found = aptset.audit(classifier, X[order], y[order], repetitions=5, test_share=0.1)
    assert found.drift.p_last <= 0.005


def test_new_labels_among_the_last_rows_are_counted_against_reorderings():
    labels = np.array([0, 0, 1, 1, 2])
    exact = np.mean([any(label not in order[:-2] for label in order[-2:]) for order in permutations(labels.tolist())])
    found = new_labels_test(labels, 2, np.random.default_rng(0), permutations=20_000)
    # One of the last two rows has a new label; of reorderings as many have so. 5 standard deviations of a share.
    assert abs(found - exact) < 5 * (0.25 / 20_000) ** 0.5 + 1e-4
