"""A score is chosen on rows that calibrate nothing, and the promise is that of any other score."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.calibration import tuning

DATA = Path(__file__).parents[3] / "shared" / "data" / "scores"


def data(n=600, n_classes=8, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.3), size=n)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


def test_the_others_calibrate_and_only_they():
    p, y = data()
    tuned = aptset.tune(p, y, random_state=3)
    assert tuned.reserved.sum() == 120
    assert tuned.calibration.n == 480
    by_hand = aptset.calibrate(p[~tuned.reserved], y[~tuned.reserved], conformity=tuned.conformity, random_state=3)
    np.testing.assert_array_equal(by_hand.scores, tuned.calibration.scores)
    again = aptset.calibrate(p, y, conformity="auto", random_state=3)
    assert again.conformity == tuned.conformity
    np.testing.assert_array_equal(again.scores, tuned.calibration.scores)


def test_rows_that_calibrate_have_no_say():
    p, y = data()
    tuned = aptset.tune(p, y, random_state=3)
    other_p, other_y = data(seed=9)
    other_p[tuned.reserved], other_y[tuned.reserved] = p[tuned.reserved], y[tuned.reserved]
    other = aptset.tune(other_p, other_y, random_state=3)
    np.testing.assert_array_equal(other.reserved, tuned.reserved)
    assert other.trials == tuned.trials
    assert other.conformity == tuned.conformity


def test_the_smallest_allowed_wins():
    p, y = data()
    tuned = aptset.tune(p, y, random_state=0)
    reference = tuned.trials[0]
    assert reference.conformity == aptset.Adaptive()
    allowed = [trial for trial in tuned.trials if trial.class_shortfall <= reference.class_shortfall + 0.01]
    assert [trial for trial in tuned.trials if trial.is_allowed] == allowed
    best = min(trial.mean_size for trial in allowed)
    assert tuned.conformity in [trial.conformity for trial in allowed if trial.mean_size == best]


def test_a_trial_by_hand():
    """Calibrate on every other reserved row, judge the rest, and the other way round: the candidate's numbers."""
    p, y = data()
    tuned = aptset.tune(p, y, candidates=["lac"], randomized=False, random_state=0)
    some_p, some_y = p[tuned.reserved], y[tuned.reserved]
    sizes, covered = np.empty(120), np.empty(120)
    for mine, others in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        scores = np.sort(1 - some_p[mine][np.arange(60), some_y[mine]])
        inside = 1 - some_p[others] <= scores[55 - 1] + 1e-12  # ceil(0.9 * 61) = 55
        sizes[others], covered[others] = inside.sum(axis=1), inside[np.arange(60), some_y[others]]
    (trial,) = tuned.trials
    assert trial.mean_size == sizes.mean()
    by_class = [max(0.0, 0.9 - covered[some_y == label].mean()) for label in np.unique(some_y)]
    assert trial.class_shortfall == pytest.approx(np.mean(by_class))


def test_coverage_after_tuning_obeys_the_beta_binomial_law():
    """Law: over m test rows after calibration on n, the count covered is Beta-binomial(m, k, n + 1 - k).

    Chi-square over 1500 repetitions in 10 bins; the p-value is above 1e-6 except once in a million.
    """
    n_all, m, alpha, repetitions = 200, 25, 0.1, 1500
    n, k = 160, aptset.conformal_rank(160, alpha)
    covered = np.empty(repetitions, dtype=int)
    for r in range(repetitions):
        p, y = data(n_all + m, 4, seed=r)
        candidates = ["aps", "lac", "topk", aptset.Tempered(aptset.SAPS(0.1), 2.0)]
        tuned = aptset.tune(p[:n_all], y[:n_all], candidates=candidates, random_state=r)
        covered[r] = tuned.calibration.predict_set(p[n_all:], alpha).covers(y[n_all:]).sum()
    law = stats.betabinom(m, k, n + 1 - k)
    edges = np.unique(law.ppf(np.linspace(0, 1, 11)[1:-1]).astype(int))
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * repetitions
    observed = np.bincount(np.searchsorted(edges, covered), minlength=len(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-6


@pytest.mark.parametrize("groups", ["label", "row"])
def test_groups(groups):
    p, y = data()
    by = np.where(p[:, 0] > 0.1, "high", "low") if groups == "row" else "label"
    tuned = aptset.tune(p, y, groups=by, random_state=0)
    rest = ~tuned.reserved
    by_hand = aptset.calibrate(
        p[rest], y[rest], conformity=tuned.conformity, groups=by[rest] if groups == "row" else by, random_state=0
    )
    assert by_hand.threshold(0.2) == tuned.calibration.threshold(0.2)


@pytest.mark.parametrize("calibration", ["split", "cv+", "minimax", "frozen"])
def test_the_classifier_sets_rows_aside(calibration):
    generator = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[generator.integers(3, size=400)]
    X = generator.normal(size=(400, 4)) + 2 * (y[:, None] == np.array(["a", "b", "c", "d"]))
    settings = {"conformity": "auto", "random_state": 0}
    if calibration == "frozen":
        model, n = FrozenEstimator(GaussianNB().fit(X[:100], y[:100])), 320
    else:
        model, n = GaussianNB(), 160 if calibration == "split" else 320
        settings["calibration"] = calibration
    classifier = aptset.ConformalClassifier(model, **settings).fit(X, y)
    assert classifier.n_calibration_ == n
    p_values = classifier.p_values(X[:50])
    np.testing.assert_array_equal(classifier.predict_set(X[:50], 0.3).mask, p_values > 0.3)
    again = aptset.ConformalClassifier(model, **settings).fit(X, y)
    assert again.conformity_ == classifier.conformity_
    np.testing.assert_array_equal(again.p_values(X[:50]), p_values)


def test_the_classifier_keeps_its_promise(monkeypatch):
    """Covered of m after split calibration on n is Beta-binomial; chi-square of 150 fits, p-value above 1e-6."""
    few = (aptset.Adaptive(), aptset.Homogeneous(), aptset.Rank())
    monkeypatch.setattr("aptset.calibration.tuning.usual_candidates", lambda: few)
    generator = np.random.default_rng(1)
    m, k = 30, aptset.conformal_rank(80, 0.2)
    covered = np.empty(150, dtype=int)
    for r in range(150):
        y = generator.integers(3, size=230)
        X = generator.normal(size=(230, 2)) + y[:, None]
        classifier = aptset.ConformalClassifier(GaussianNB(), conformity="auto", alpha=0.2, random_state=r)
        covered[r] = classifier.fit(X[:200], y[:200]).predict_set(X[200:]).covers(y[200:]).sum()
    law = stats.betabinom(m, k, 81 - k)
    edges = np.unique(law.ppf(np.linspace(0, 1, 7)[1:-1]).astype(int))
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * 150
    assert (
        stats.chisquare(np.bincount(np.searchsorted(edges, covered), minlength=len(expected)), expected).pvalue > 1e-6
    )


def test_borders():
    p, y = data(80)
    with pytest.raises(ValueError, match="share must reserve at least 18 rows"):
        aptset.tune(p, y)
    with pytest.raises(ValueError, match="share must reserve at least 18 rows"):
        aptset.calibrate(p, y, conformity="auto")
    p, y = data(200)
    for settings, message in [
        ({"alpha": 2}, "alpha must"),
        ({"share": 1.5}, "share must"),
        ({"slack": -1}, "slack must"),
        ({"candidates": ["nothing"]}, "conformity must"),
    ]:
        with pytest.raises(ValueError, match=message):
            aptset.tune(p, y, **settings)
    with pytest.raises(ValueError, match="conformity must name a score here"):
        aptset.calibrate_cv(p, y, np.arange(200) % 4, conformity="auto")
    bad = p.copy()
    bad[150, 2] = np.nan
    with pytest.raises(ValueError, match="row 150"):
        aptset.tune(bad, y)


@pytest.mark.parametrize(
    ("file", "read", "at_most"),
    [
        ("clinc150_logprob.npz", lambda f: np.exp(f["log_prob"]), 0.3),
        ("imagenet1k_effnetlite0_tinyimagenet_val_logits.npz", lambda f: softmax(f["logits"].astype(np.float32)), 0.7),
    ],
)
def test_real_scores_get_smaller_sets(file, read, at_most):
    """Sets of 150 intents and of 1000 classes shrink to less than a share of the default; the law of coverage holds."""
    if not (DATA / file).exists():
        pytest.skip(f"{DATA / file} is not there: the scores are not part of the project")
    with np.load(DATA / file) as found:
        p, y = read(found), found["y"].astype(int)
    order = np.random.default_rng(0).permutation(len(p))
    old, new = order[: len(p) // 2], order[len(p) // 2 :]
    default = aptset.calibrate(p[old], y[old], random_state=0)
    chosen = aptset.calibrate(p[old], y[old], conformity="auto", random_state=0)
    sets = chosen.predict_set(p[new], 0.1)
    assert sets.sizes.mean() < at_most * default.predict_mask(p[new], 0.1).sum(axis=1).mean()
    assert aptset.coverage_test(sets.covers(y[new]), n=chosen.n, alpha=0.1).p_value > 1e-6


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def test_rows_that_change_while_scores_are_tried_are_refused(monkeypatch):
    """They were good when they were checked; sets of rows that are bad now would decide which score is chosen."""
    masks = tuning.masks

    def spoiled(rows, thresholds):
        rows.probabilities[3] = np.nan
        return masks(rows, thresholds)

    monkeypatch.setattr(tuning, "masks", spoiled)
    p, y = data()
    with pytest.raises(ValueError, match="must be finite; got nan in row 3"):
        aptset.tune(p, y, candidates=["aps", "lac"], random_state=0)
