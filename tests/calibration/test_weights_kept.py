"""Weights on disk, merged, warned of and refused: what surrounds the definition."""

import warnings

import numpy as np
import pyarrow
import pytest
from safetensors import safe_open
from scipy.special import ndtr, ndtri
from sklearn.naive_bayes import GaussianNB

import aptset
from forging import forge, taken_apart

generator = np.random.default_rng(3)
P = generator.dirichlet(np.ones(3), size=600)
Y = (generator.random((600, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
W = generator.exponential(size=600) + np.where(np.arange(600) < 300, 0, 9)  # two halves with scales of their own
NEW, V = P[:40][::-1], generator.exponential(size=40)
GROUPS = np.where(np.arange(600) % 3 > 0, "a", "b")
RATIOS = {0: 0.1, 1: 2.5, 2: 1.0}
KINDS = {
    "rows": ({"weights": W}, {"weights": V}),
    "labels": ({"label_weights": RATIOS}, {}),
    "corrected": ({"label_weights": RATIOS, "prior_correction": True}, {}),
    "rows in groups": ({"weights": W, "groups": GROUPS}, {"weights": V, "groups": GROUPS[:40]}),
    "rows in labels": ({"weights": W, "groups": "label"}, {"weights": V}),
    "labels in groups": ({"label_weights": RATIOS, "groups": GROUPS}, {"groups": GROUPS[:40]}),
}


@pytest.fixture(autouse=True)
def _small_sizes():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the weights leave|.* weigh more than")
        yield


def some(settings, rows):
    return {name: value[rows] if isinstance(value, np.ndarray) else value for name, value in settings.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_merged_as_if_calibrated_at_once(kind, tmp_path):
    settings, options = KINDS[kind]
    whole = aptset.calibrate(P, Y, random_state=0, **settings)
    halves = [
        aptset.calibrate(P[rows], Y[rows], random_state=0, **some(settings, rows))
        for rows in (slice(0, 300), slice(300, 600))
    ]
    whole.save(tmp_path / "cal.aptset")
    expected = whole.p_values(NEW, **options)
    for other in (aptset.load(tmp_path / "cal.aptset"), halves[0].merge(halves[1]), halves[1].merge(halves[0])):
        np.testing.assert_array_equal(other.p_values(NEW, **options), expected)
        assert other.predict_set(NEW, 0.1, **options) == whole.predict_set(NEW, 0.1, **options)
        assert other.effective_size == pytest.approx(whole.effective_size)
        assert repr(other) == repr(whole)
    mixed = np.random.default_rng(0).permutation(600)
    shuffled = aptset.calibrate(P[mixed], Y[mixed], random_state=0, **some(settings, mixed))
    np.testing.assert_array_equal(shuffled.p_values(NEW, **options), expected)


def test_the_order_of_rows_leaves_no_trace_in_the_file(tmp_path):
    mixed = np.random.default_rng(0).permutation(600)
    for name, rows in (("one", np.arange(600)), ("other", mixed)):
        found = aptset.calibrate(P[rows], Y[rows], conformity="rank", randomized=False, weights=W[rows], random_state=0)
        found.save(tmp_path / name)
    one, other = (safe_open(tmp_path / name, framework="np").get_tensor("weights") for name in ("one", "other"))
    assert len(set(found.scores)) < 5, "scores tie, so that weights decide their order"
    np.testing.assert_array_equal(one, other)


def test_effective_size_is_the_square_of_the_sum_over_the_sum_of_squares():
    calibration = aptset.calibrate(P, Y, weights=W)
    assert calibration.effective_size == pytest.approx(W.sum() ** 2 / (W**2).sum())
    assert aptset.calibrate(P, Y).effective_size == 600
    of_groups = aptset.calibrate(P, Y, weights=W, groups=GROUPS).effective_size
    for name in "ab":
        mine = W[name == GROUPS]
        assert of_groups[name] == pytest.approx(mine.sum() ** 2 / (mine**2).sum())
    assert aptset.calibrate(P, Y, weights=np.where(Y == 0, 0.0, 1.0), groups="label").effective_size[0] == 0
    assert f"{calibration.effective_size:.4g} effective" in repr(calibration)
    assert "effective size" in calibration._repr_html_()


def test_folds_with_weights_are_kept_and_merged(tmp_path):
    folds = np.arange(600) % 3
    fold_rows = [NEW, NEW[::-1].copy(), NEW]
    whole = aptset.calibrate_cv(P, Y, folds, weights=W, random_state=0)
    parts = [
        aptset.calibrate_cv(P[rows], Y[rows], folds[rows], weights=W[rows], random_state=0)
        for rows in (slice(0, 300), slice(300, 600))
    ]
    whole.save(tmp_path / "cal.aptset")
    expected = whole.p_values(fold_rows, weights=V)
    for other in (aptset.load(tmp_path / "cal.aptset"), parts[0].merge(parts[1])):
        np.testing.assert_array_equal(other.p_values(fold_rows, weights=V), expected)
    mask = whole.predict_set(fold_rows, 0.1, weights=V).mask
    np.testing.assert_array_equal(mask, expected > 0.1)


def test_without_weights_the_file_has_none(tmp_path):
    aptset.calibrate(P, Y).save(tmp_path / "cal.aptset")
    facts, tensors = taken_apart(tmp_path / "cal.aptset")
    assert tensors.keys() == {"scores", "offsets"}
    assert facts["weights"] is None


FORGED = {
    "negative": (lambda facts, tensors: tensors.update(weights=-tensors["weights"]), "finite, at least 0"),
    "none": (lambda facts, tensors: tensors.update(weights=tensors["weights"] * 0), "not all 0"),
    "nan": (lambda facts, tensors: tensors.update(weights=tensors["weights"] * np.nan), "finite"),
    "few": (lambda facts, tensors: tensors.update(weights=tensors["weights"][:-1]), "must hold a tensor weights"),
    "missing": (lambda facts, tensors: tensors.pop("weights"), "weights must be there"),
    "unsaid": (lambda facts, tensors: facts.update(weights=None), "weights must be there"),
    "size": (lambda facts, tensors: facts["weights"].update(effective_size=[600.0]), "effective_size"),
    "ratios": (lambda facts, tensors: facts["weights"].update(ratios=[1.0, 2.0]), "one ratio for each"),
    "others": (lambda facts, tensors: facts["weights"].update(ratios=[1.0, 2.0, 3.0]), "those of its weights"),
    "correction": (lambda facts, tensors: facts["weights"].update(prior_correction=True), "must have ratios"),
    "keys": (lambda facts, tensors: facts["weights"].update(more=1), "must have ratios, prior_correction"),
}


@pytest.mark.parametrize("how", FORGED)
def test_forged_weights_are_refused(how, tmp_path):
    path = tmp_path / "cal.aptset"
    aptset.calibrate(P, Y, weights=W).save(path)
    facts, tensors = taken_apart(path)
    FORGED[how][0](facts, tensors)
    forge(path, facts, tensors)
    with pytest.raises(ValueError, match=f"no intact aptset artefact: .*{FORGED[how][1]}"):
        aptset.load(path)


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        (W[:-1], ValueError, "weights must have one entry per row: 600 rows, but 599"),
        (-W, ValueError, "weights must be finite and at least 0; got -.* in row 0"),
        (np.where(np.arange(600) == 7, np.nan, W), ValueError, "got nan in row 7"),
        (np.where(np.arange(600) == 7, np.inf, W), ValueError, "got inf in row 7"),
        (W * 0, ValueError, "weights must not be 0 for every calibration row"),
        (W[:, None], ValueError, "weights must be 1-D"),
        (2.0, ValueError, "weights must be 1-D"),
        (["heavy"] * 600, TypeError, "weights must hold numbers"),
        (np.ones(600, dtype=bool), TypeError, "weights must hold numbers"),
        (np.ma.masked_less(W, 1), ValueError, "masked"),
    ],
)
def test_weights_that_are_none(weights, error, match):
    with pytest.raises(error, match=match):
        aptset.calibrate(P, Y, weights=weights)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"label_weights": {0: 1.0, 1: 1.0}}, ValueError, "must name every class; 2 is missing"),
        ({"label_weights": {**RATIOS, 3: 1.0}}, ValueError, "must name classes only; got 3"),
        ({"label_weights": {**RATIOS, 2: -1.0}}, ValueError, "finite and at least 0; got -1.0 for 2"),
        ({"label_weights": {**RATIOS, 2: np.nan}}, ValueError, "got nan for 2"),
        ({"label_weights": {**RATIOS, 2: "1"}}, ValueError, "got '1' for 2"),
        ({"label_weights": [1.0, 2.0, 3.0]}, TypeError, "must map each label to its ratio"),
        ({"label_weights": dict.fromkeys(range(3), 0.0)}, ValueError, "label_weights must not be 0 for every"),
        ({"label_weights": RATIOS, "weights": W}, ValueError, "must not both be passed"),
        ({"prior_correction": True}, ValueError, "prior_correction must come with label_weights"),
        ({"weights": W, "prior_correction": True}, ValueError, "prior_correction must come with label_weights"),
        ({"label_weights": RATIOS, "prior_correction": "no"}, TypeError, "prior_correction must be True or False"),
    ],
)
def test_settings_that_do_not_fit(settings, error, match):
    with pytest.raises(error, match=match):
        aptset.calibrate(P, Y, **settings)


@pytest.mark.parametrize("verb", ["predict_set", "predict_mask", "p_values", "sets_and_p_values"])
def test_weights_come_on_both_sides_or_on_none(verb):
    by_row, by_label, plain = (
        aptset.calibrate(P, Y, **settings) for settings in ({"weights": W}, {"label_weights": RATIOS}, {})
    )
    with pytest.raises(ValueError, match=r"must be passed with the new rows, since calibration was done with weights"):
        getattr(by_row, verb)(NEW)
    with pytest.raises(ValueError, match="must be left out here, since calibration was done with label_weights"):
        getattr(by_label, verb)(NEW, weights=V)
    with pytest.raises(ValueError, match="must be left out here, since calibration was done without weights"):
        getattr(plain, verb)(NEW, weights=V)
    with pytest.raises(ValueError, match="weights must have one entry per row: 40 rows, but 39"):
        getattr(by_row, verb)(NEW, weights=V[1:])


def test_what_knows_nothing_of_weights_says_so():
    calibration = aptset.calibrate(P, Y, weights=W, random_state=0)
    with pytest.raises(ValueError, match="a monitor counts misses by a law"):
        calibration.monitor()
    with pytest.raises(ValueError, match="with weights every row has its own"):
        calibration.threshold()
    with pytest.raises(ValueError, match=r"it differs in .*weights"):
        calibration.merge(aptset.calibrate(P[::2], Y[::2], random_state=0))
    with pytest.raises(ValueError, match="it differs in weights"):
        calibration.merge(aptset.calibrate(P[::2], Y[::2], label_weights=RATIOS, random_state=0))
    with pytest.raises(ValueError, match="got combine='minimax'"):
        aptset.calibrate_cv(P, Y, np.arange(600) % 3, weights=W, combine="minimax")
    by_label = aptset.calibrate(P, Y, label_weights=RATIOS, random_state=0).threshold(0.1)
    assert list(by_label) == [0, 1, 2]
    assert by_label[0] <= by_label[2] <= by_label[1]


def test_few_effective_samples_and_heavy_rows_are_told(recwarn):
    warnings.resetwarnings()
    light = aptset.calibrate(P, Y, weights=np.ones(600), random_state=0)
    light.predict_set(NEW, 0.1, weights=np.ones(40))
    assert not recwarn.list
    light.predict_set(NEW, 0.01, weights=np.ones(40))
    assert "effective size of 600 calibration samples. With fewer than 990 at alpha=0.01" in str(recwarn.pop().message)
    light.predict_mask(NEW, 0.1, weights=np.where(np.arange(40) < 4, 67.0, 1.0))
    told = recwarn.pop()
    assert "10% of the rows weigh more than alpha / (1 - alpha)" in str(told.message)
    assert told.filename == __file__
    assert not recwarn.list
    light.predict_mask(NEW, 0.25, weights=np.full(40, 200.0))  # exactly alpha / (1 - alpha) of 600
    assert not recwarn.list
    in_groups = aptset.calibrate(P, Y, weights=np.where(Y == 0, W, 1.0), groups=GROUPS, random_state=0)
    in_groups.sets_and_p_values(NEW, 0.05, weights=np.ones(40), groups=["a"] * 40)
    assert "of group 'a'" in str(recwarn.pop().message)


def test_guarantee_of_splits_and_folds():
    assert aptset.calibrate(P, Y, weights=W).guarantee(0.1) == 0.9
    alone = aptset.calibrate_cv(P[:50], Y[:50], np.arange(50), weights=W[:50])
    assert alone.guarantee(0.1) == 0.8
    with pytest.warns(UserWarning, match="no theorem is known for folds of several rows with weights"):
        assert aptset.calibrate_cv(P, Y, np.arange(600) % 3, weights=W).guarantee(0.1) == 0


def test_rows_that_a_correction_makes_equal_stay_different_rows():
    """u comes from the probabilities as they came: with one ratio above 0 the corrected rows are all alike."""
    one_left = {"label_weights": {0: 0.0, 1: 1.0, 2: 0.0}, "prior_correction": True, "random_state": 0}
    generator = np.random.default_rng(0)
    p, y, new = generator.dirichlet(np.ones(3), size=500), np.full(500, 1), generator.dirichlet(np.ones(3), size=400)
    calibration = aptset.calibrate(p, y, **one_left)
    assert calibration.chance.copies == 0
    sets = [calibration.predict_set(new[row : row + 1], 0.5).sizes[0] for row in range(400)]
    assert 100 < np.count_nonzero(sets) < 300, "rows one by one share no u: about half of the sets are empty"
    assert sets == calibration.predict_set(new, 0.5).sizes.tolist()


def test_prior_correction_multiplies_columns_on_both_sides():
    factors = np.array([RATIOS[label] for label in range(3)])
    corrected = P * factors / (P * factors).sum(axis=1, keepdims=True)
    ids = np.arange(600)
    by_hand = aptset.calibrate(corrected, Y, label_weights=RATIOS, ids=ids, random_state=0)
    found = aptset.calibrate(P, Y, label_weights=RATIOS, prior_correction=True, ids=ids, random_state=0)
    np.testing.assert_allclose(found.scores, by_hand.scores, atol=1e-12)
    fresh = generator.dirichlet(np.ones(3), size=40)  # no score of theirs ties with one that rounding moved
    new = fresh * factors / (fresh * factors).sum(axis=1, keepdims=True)
    one, other = found.p_values(fresh, ids=ids[:40]), by_hand.p_values(new, ids=ids[:40])
    np.testing.assert_array_equal(one, other)
    nothing_left = aptset.calibrate(P, Y, label_weights={0: 0.0, 1: 1.0, 2: 1.0}, prior_correction=True)
    assert nothing_left.predict_mask([[1.0, 0.0, 0.0]], 0.1).shape == (1, 3)
    with pytest.raises(ValueError, match=r"rows that sum to 1 .*row 1 sums to 0\.9"):
        found.predict_set([[0.5, 0.25, 0.25], [0.5, 0.25, 0.15]])
    with pytest.raises(ValueError, match="must be at least 0"):
        found.predict_set([[0.5, 0.75, -0.25], [0.5, 0.25, 0.25]])


def test_label_groups_cover_every_label_whatever_the_ratios():
    """Within a label all weights are the same: label_weights change nothing there."""
    plain = aptset.calibrate(P, Y, groups="label", random_state=0)
    weighted = aptset.calibrate(P, Y, groups="label", label_weights={0: 3.0, 1: 0.2, 2: 1e-9}, random_state=0)
    np.testing.assert_array_equal(plain.p_values(NEW)[:, :2], weighted.p_values(NEW)[:, :2])


def test_a_chosen_score_takes_its_rows_out_of_the_weights():
    found = aptset.calibrate(P, Y, conformity="auto", weights=W, random_state=0)
    assert found.n < 600
    assert len(found.held_out.folds[0].weights) == found.n
    assert set(found.held_out.folds[0].weights) < set(W)


def test_batches_take_weights_of_labels_and_refuse_those_of_rows():
    table = pyarrow.table({"p": list(NEW)})
    by_label = aptset.calibrate(P, Y, label_weights=RATIOS, random_state=0)
    found = aptset.predict_batches(table, by_label, alpha=0.1).read_all()
    assert found["size"].to_pylist() == by_label.predict_set(NEW, 0.1).sizes.tolist()
    with pytest.raises(ValueError, match="needs a weight for each row, and batches have none"):
        aptset.predict_batches(table, aptset.calibrate(P, Y, weights=W))


def test_a_report_shows_the_effective_size_and_gives_no_verdict():
    page = aptset.report(aptset.calibrate(P, Y, weights=W, random_state=0), NEW, Y[:40][::-1], weights=V)
    assert "Effective size" in page.html
    assert "No verdict: with weights it is not known how much of a difference is chance" in page.html
    with pytest.raises(ValueError, match="weights must be passed with the new rows"):
        aptset.report(aptset.calibrate(P, Y, weights=W), NEW, Y[:40])
    by_label = aptset.report(aptset.calibrate(P, Y, label_weights=RATIOS, random_state=0), NEW, Y[:40])
    assert "Effective size" in by_label.html


def test_an_audit_refuses_what_points_elsewhere():
    classifier = aptset.ConformalClassifier(GaussianNB(), weights=lambda some: np.ones(len(some)))
    with pytest.raises(ValueError, match="weights are for test rows of another distribution"):
        aptset.audit(classifier, P, Y, repetitions=2)


def spread_beside_the_law(hardness):
    """Return the standard deviation of coverage over 300 calibrations, over that of Beta at their effective size.

    New rows have x from N(1, 1), calibration rows from N(0, 1): weights are exp(x). Scores are uniform where they
    calibrate and have the correlation ``hardness`` with x before that, so the coverage of a threshold is known.
    """
    draws, coverages, sizes = np.random.default_rng(2), [], []
    grid = np.linspace(0, 1, 4001)[:-1]
    for _ in range(300):
        x = draws.normal(size=500)
        scores = ndtr(hardness * x + np.sqrt(1 - hardness**2) * draws.normal(size=500))
        p, new = (np.column_stack([1 - values, values]) for values in (scores, grid))
        one = aptset.calibrate(p, np.zeros(500, dtype=int), weights=np.exp(x), conformity="lac", random_state=0)
        inside = one.predict_mask(new, 0.1, weights=np.full(len(new), np.e))[:, 0]
        coverages.append(ndtr(ndtri(grid[inside].max()) - hardness))
        sizes.append(one.effective_size)
    return np.std(coverages) / np.sqrt(0.09 / (np.mean(sizes) + 2))


def test_the_effective_size_is_right_for_weights_beside_the_scores_and_too_large_where_heavy_rows_are_hard():
    """A standard deviation of 300 values has a standard error of 4 %: five of them on either side of 1.02 and 1.42."""
    assert spread_beside_the_law(0.0) == pytest.approx(1.02, abs=0.21)
    assert spread_beside_the_law(0.5) > 1.42 - 0.29
