"""Calibrating on batches is calibrating on all rows, bit for bit: every score, grouping and form of the columns."""

import itertools
from fractions import Fraction
from math import ceil, inf

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aptset
from aptset.arrow import start_search
from aptset.scores import SCORES
from batch_data import NAMES, classes_of, columns_of, lists_of, rows, sets_in, table

P, Y = rows(600)
NEW, _ = rows(300, seed=1)
LABELS = [NAMES[k] for k in Y]
GROUP = np.random.default_rng(2).integers(0, 3, size=600)
ALPHAS = [0.1, 0.02, 1 / 3]
GROUPS = {"none": (None, None, None), "label": ("label", "label", None), "row": ("g", GROUP, GROUP[:300])}


def thresholds(calibration, alphas=ALPHAS):
    return [calibration.threshold(alpha) for alpha in alphas]


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("conformity", [*sorted(SCORES), "tempered", "function"])
def test_thresholds_and_sets_are_those_of_all_rows(conformity, groups):
    score = {"tempered": aptset.Tempered(aptset.Adaptive(), 0.5), "function": squared}.get(conformity, conformity)
    column, values, of_new = GROUPS[groups]
    settings = {"conformity": score, "random_state": 7, "randomized": conformity != "margin"}
    whole = aptset.calibrate(P, LABELS, classes=NAMES, groups=values, **settings)
    batched = table(P, Y, g=GROUP)
    new = table(NEW, Y[:300], g=GROUP[:300])
    for buckets in (4, 2**18):  # many passes, or one
        found = aptset.calibrate_batches(
            batched, labels="y", prefix="p_", alpha=ALPHAS, groups=column, buckets=buckets, **settings
        )
        assert thresholds(found) == thresholds(whole)
        assert found.n == 600
    made = aptset.predict_batches(new, found, prefix="p_", groups=None if groups != "row" else "g").read_all()
    expected = whole.predict_set(NEW, ALPHAS, groups=of_new)
    for alpha, sets in zip(ALPHAS, expected, strict=True):
        assert sets_in(made, f"set {alpha:g}") == lists_of(sets)
        assert made[f"size {alpha:g}"].to_pylist() == sets.sizes.tolist()
    assert found.predict_set(NEW, ALPHAS, groups=of_new) == expected
    assert np.array_equal(found.predict_mask(NEW, 0.1, groups=of_new), expected[0].mask)


def squared(places):
    return 1 - (places.own / places.total) ** 2


@pytest.mark.parametrize("form", ["columns", "list", "large_list", "fixed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_form_of_the_columns(form, dtype):
    p, y = P.astype(dtype), Y
    whole = aptset.calibrate(p, LABELS, classes=NAMES, random_state=0)
    sent = table(p, y, form)
    for source in (sent, sent.slice(0, 7).to_batches() + sent.slice(7).to_batches(max_chunksize=100)):
        found = aptset.calibrate_batches(source, labels="y", random_state=0, **columns_of(form), **classes_of(form))
        assert found.threshold() == whole.threshold()
        made = aptset.predict_batches(source, found, **columns_of(form)).read_all()
        assert made.column_names == ["row", "y", "size", "set"]
        assert made["row"].to_pylist() == list(range(600))
        assert sets_in(made) == lists_of(whole.predict_set(p))


def test_a_thousand_classes_in_a_list_column():
    p, y = rows(300, seed=3, n_classes=1000, dtype=np.float32)
    names = [f"class {k}" for k in range(1000)]
    whole = aptset.calibrate(p, y, random_state=0)
    sent = table(p, y, "list", names)
    by_name = aptset.calibrate_batches(sent, labels="y", probabilities="p", classes=names, random_state=0)
    assert by_name.threshold() == whole.threshold()
    numbered = sent.set_column(2, "y", pa.array(y.astype(np.uint16)))
    found = aptset.calibrate_batches(numbered, labels="y", probabilities="p", random_state=0)
    assert found.classes.tolist() == list(range(1000))
    made = aptset.predict_batches(numbered, found).read_all()
    assert made.schema.field("set").type == pa.list_(pa.int64())
    assert sets_in(made) == lists_of(whole.predict_set(p))


@settings(max_examples=40)
@given(
    y=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    atoms=st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=60, max_size=60),
    alpha=st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.9]),
    randomized=st.booleans(),
    buckets=st.sampled_from([2, 3, 2**18]),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_ties_atoms_and_few_rows(y, atoms, alpha, randomized, buckets, cuts):
    """The k-th smallest score, k = ceil((1 - alpha)(n + 1)), of scores that tie; infinite if there are too few."""
    p = np.array([[a, (1 - a) / 2, (1 - a) / 2] for a in atoms[: len(y)]])
    sent = table(p, y, "fixed", ["0", "1", "2"])
    edges = [0, *sorted(min(cut, len(y)) for cut in cuts), len(y)]
    batches = [sent.slice(start, stop - start) for start, stop in itertools.pairwise(edges)]
    common = {"randomized": randomized, "random_state": 0}
    found = aptset.calibrate_batches(
        batches, labels="y", probabilities="p", classes=["0", "1", "2"], alpha=alpha, buckets=buckets, **common
    )
    scores = sorted(aptset.calibrate(p, y, **common).scores.tolist())
    k = ceil((1 - Fraction(str(alpha))) * (len(y) + 1))
    assert found.threshold(alpha) == (scores[k - 1] if k <= len(y) else inf)


def test_one_pass_is_enough_for_few_different_scores_and_two_as_a_rule():
    p, y = rows(20_000, seed=4)
    sent = table(p, y)
    search = start_search(sent.schema, labels="y", prefix="p_", random_state=0, buckets=2**10)
    passes = []
    while not search.is_done:
        search = search.advance(search(sent))
        passes.append(search.passes)
    assert passes == [1, 2], "20 scores in a bucket of a thousand are 20 buckets at full length"
    atoms = start_search(sent.schema, labels="y", prefix="p_", conformity="rank", randomized=False, buckets=2**10)
    assert atoms.advance(atoms(sent)).is_done


def test_too_few_rows_make_every_label_a_member():
    found = aptset.calibrate_batches(table(P[:5], Y[:5]), labels="y", prefix="p_", random_state=0)
    assert found.threshold() == inf
    with pytest.warns(UserWarning, match="5 calibration samples are too few for alpha=0.1"):
        made = aptset.predict_batches(table(NEW, Y[:300]), found, prefix="p_").read_all()
    assert set(made["size"].to_pylist()) == {4}


def test_groups_that_are_missing_or_never_seen():
    values = [None if k == 0 else f"g{k}" for k in GROUP]
    whole = aptset.calibrate(P, LABELS, classes=NAMES, groups=values, random_state=0)
    encoded = pa.array(values).dictionary_encode()
    found = aptset.calibrate_batches(table(P, Y, g=encoded), labels="y", prefix="p_", groups="g", random_state=0)
    assert found.threshold() == whole.threshold()
    assert set(found.threshold()) == {None, "g1", "g2"}
    new = table(NEW, Y[:300], g=["elsewhere", *values[1:300]])
    with pytest.warns(UserWarning, match=r"'elsewhere' \(never seen\)"):
        made = aptset.predict_batches(new, found, prefix="p_", groups="g").read_all()
    assert made["size"][0].as_py() == 4


def test_labels_are_found_by_name_and_by_number():
    """Texts, numbers that spell a class, dictionaries, booleans: one label is one class, however it is stored."""
    expected = aptset.calibrate(P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), (Y > 1).astype(int), random_state=0)
    p = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
    base = pa.table({"0": p[:, 0], "1": p[:, 1]})
    numbers = (Y > 1).astype(int)
    for labels in (
        pa.array(numbers),
        pa.array(numbers.astype(float)),
        pa.array(numbers.astype(str)),
        pa.array(numbers.astype(str)).cast(pa.large_string()),
        pa.array(numbers.astype(str)).cast(pa.string_view()),
        pa.array(numbers.astype(str)).dictionary_encode(),
    ):
        sent = base.append_column("y", labels)
        found = aptset.calibrate_batches(sent, labels="y", probabilities=["0", "1"], random_state=0)
        assert found.threshold() == expected.threshold()
    truth = base.append_column("y", pa.array(numbers == 1))
    found = aptset.calibrate_batches(truth, labels="y", probabilities=["0", "1"], classes=[False, True], random_state=0)
    assert found.threshold() == expected.threshold()


def test_logits_and_sums():
    logits = np.log(P + 1e-9)
    whole = aptset.calibrate(logits, LABELS, classes=NAMES, logits=True, random_state=0)
    found = aptset.calibrate_batches(table(logits, Y), labels="y", prefix="p_", logits=True, random_state=0)
    assert found.threshold() == whole.threshold()
    made = aptset.predict_batches(table(logits, Y), found, prefix="p_", logits=True).read_all()
    assert sets_in(made) == lists_of(whole.predict_set(logits, logits=True))
    counts = (P * 1000).round() + 1
    whole = aptset.calibrate(counts, LABELS, classes=NAMES, normalize=True, random_state=0)
    found = aptset.calibrate_batches(table(counts, Y), labels="y", prefix="p_", normalize=True, random_state=0)
    assert found.threshold() == whole.threshold()


def test_flags_of_a_prediction_are_those_of_predict_set():
    counts = (P * 1000).round() + 1
    whole = aptset.calibrate(P, LABELS, classes=NAMES, random_state=0)
    for may_be_empty in (True, False):
        flags = {"normalize": True, "allow_empty": may_be_empty}
        made = sets_in(aptset.predict_batches(table(counts, Y), whole, alpha=0.7, prefix="p_", **flags).read_all())
        assert made == lists_of(whole.predict_set(counts, 0.7, **flags))
        assert ([] in made) == may_be_empty


def test_what_it_cannot_do_is_said():
    found = aptset.calibrate_batches(table(P, Y), labels="y", prefix="p_", alpha=[0.1, 0.2], random_state=0)
    with pytest.raises(ValueError, match=r"alpha must be a level that was calibrated, one of 0.1, 0.2; got 0.05"):
        found.predict_set(NEW, 0.05)
    for ask in (lambda: found.scores, lambda: found.p_values(NEW), lambda: found.sets_and_p_values(NEW)):
        with pytest.raises(
            ValueError, match=r"it kept the thresholds of its levels, and no scores.*resolution=2\*\*-20"
        ):
            ask()
    others = aptset.calibrate_batches(
        table(*rows(50, seed=9)), labels="y", prefix="p_", alpha=[0.1, 0.2], random_state=0
    )
    with pytest.raises(ValueError, match="cannot give what merging takes"):
        found.merge(others)
    with pytest.raises(ValueError, match="what was kept"):
        found.merge(aptset.calibrate(*rows(50, seed=9), classes=[0, 1, 2, 3], random_state=0))
    assert found.guarantee(0.1) == 0.9
    assert "600" in found._repr_html_()
