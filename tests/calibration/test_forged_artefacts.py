"""Files that somebody damaged or forged: refused by one error, and nothing of them reaches a loop."""

import json
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import save_file

import aptset
from aptset.calibration.stored_fields import hash_of
from forging import change, forge, taken_apart


def data(n=120, seed=0, n_classes=3):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(n_classes), size=n)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


P, Y = data()


def test_fuzz_truncations_and_bit_flips(tmp_path):
    """An error or the same calibration: never a crash, never other sets."""
    calibration = aptset.calibrate(P, np.array(["a", "b", "c"])[Y], classes=["a", "b", "c"], random_state=0)
    path = tmp_path / "cal.aptset"
    calibration.save(path)
    good = path.read_bytes()
    expected = calibration.predict_set(P)
    generator = np.random.default_rng(0)
    damaged = [good[:length] for length in (0, 1, 7, 8, 9, 100, len(good) // 2, len(good) - 8, len(good) - 1)]
    damaged += [good + b"x", good[8:], b"\x00" * 200]
    for place in generator.integers(len(good), size=600).tolist():
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(generator.integers(8))
        damaged.append(bytes(flipped))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        found = attempt(path)
        refused += found is None
        assert found is None or found.predict_set(P) == expected
    assert refused > 590


def attempt(path):
    """Load an artefact; None if it is refused, with the one error that names the file."""
    try:
        return aptset.load(path)
    except (ValueError, OSError) as error:
        return None if str(path) in str(error) else error


def test_newer_and_incomplete_files(tmp_path):
    path = tmp_path / "cal.aptset"
    for changes, message in [
        ({"format": 2, "library": "9.9"}, "has format 2, written by aptset 9.9.*Upgrade"),
        ({"key": None}, "incomplete .key."),
        ({"score": {"name": "os.system", "settings": {}}}, "knows no score 'os.system'"),
        ({"score": {"name": "os:system", "settings": None}}, "does not import code that a file names"),
        ({"score": {"name": 3, "settings": None}}, "no name"),
        ({"score": {"name": "adaptive", "settings": {"penalty": 1}}}, "cannot be made"),
        ({"score": {"name": "saps", "settings": {"penalty": -1}}}, "penalty must be"),
        ({"kind": "other"}, "kind of calibration that this version of aptset does not know: other"),
        ({"kind": 3}, "incomplete .kind."),
    ]:
        aptset.calibrate(P, Y).save(path)
        change(path, **changes)
        with pytest.raises(ValueError, match=message):
            aptset.load(path)
    with pytest.raises((ValueError, OSError), match="nothing"):
        aptset.load(tmp_path / "nothing")
    save_file({"scores": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="no aptset metadata"):
        aptset.load(path)


def test_content_that_no_calibration_has(tmp_path):
    """A digest that fits does not make nonsense right."""
    path = tmp_path / "cal.aptset"
    aptset.calibrate(P, Y, random_state=0).save(path)
    facts, tensors = taken_apart(path)
    scores, offsets = tensors["scores"], tensors["offsets"]
    nonsense = [
        ({}, scores[::-1].copy(), offsets),
        ({}, np.full_like(scores, np.nan), offsets),
        ({}, scores, np.array([[0, len(scores) + 5]])),
        ({}, scores, np.array([[3, len(scores)]])),
        ({"n": 7}, scores, offsets),
        ({"classes": {"values": [0, 0, 1], "objects": False}}, scores, offsets),
        ({"groups": {"kind": "odd", "names": ["all"]}}, scores, offsets),
        ({"format": 0}, scores, offsets),
        ({"key": "x"}, scores, offsets),
    ]
    for changes, some, pointers in nonsense:
        forge(path, {**facts, **changes}, {"scores": some, "offsets": pointers})
        with pytest.raises(ValueError, match="no intact aptset artefact"):
            aptset.load(path)


FORGERIES = {
    "groups by label with one name": {"groups": {"kind": "label", "names": ["all"]}},
    "groups of no kind": {"groups": {"names": ["all"]}},
    "groups that are no classes": {"groups": {"kind": "label", "names": ["x"]}},
    "penalty NaN": {"score": {"name": "regularized", "settings": {"penalty": float("nan"), "free_ranks": 1}}},
    "penalty -5": {"score": {"name": "regularized", "settings": {"penalty": -5.0, "free_ranks": 1}}},
    "penalty infinite": {"score": {"name": "regularized", "settings": {"penalty": float("inf"), "free_ranks": 1}}},
    "free ranks 1.5": {"score": {"name": "regularized", "settings": {"penalty": 0.1, "free_ranks": 1.5}}},
    "free ranks of 400 digits": {"score": {"name": "regularized", "settings": {"penalty": 0.1, "free_ranks": 10**400}}},
    "penalty true": {"score": {"name": "regularized", "settings": {"penalty": True, "free_ranks": 1}}},
    "settings left out": {"score": {"name": "regularized", "settings": {}}},
    "settings too many": {"score": {"name": "adaptive", "settings": {"x": 1}}},
    "score without a name": {"score": {"name": ["adaptive"], "settings": {}}},
    "classes alike as texts": {"classes": {"values": [1, "1", 2], "objects": False}},
    "classes alike as numbers": {"classes": {"values": [1, True, 2], "objects": True}},
    "classes cut by numpy": {"classes": {"values": ["a", "a\0", "b"], "objects": False}},
    "classes NaN": {"classes": {"values": [0.0, float("nan"), 1.0], "objects": False}},
    "classes that are lists": {"classes": {"values": [[0], [1], [2]], "objects": True}},
    "half a letter": {"classes": {"values": ["\ud800", "a", "b"], "objects": False}},
    "one class": {"classes": {"values": [0], "objects": False}},
    "columns too few": {"columns": {"values": [0, 1], "objects": False}},
    "columns alike": {"columns": {"values": [0, 0, 1], "objects": False}},
    "key 2^64": {"key": str(2**64)},
    "key in other digits": {"key": "²"},
    "key of many digits": {"key": "1" * 5000},
    "hash of other scores": {"scores_hash": "0" * 32},
    "n is true": {"n": True},
    "flag is a number": {"randomized": 1},
    "escape sequences": {"library": "1.0\x1b[2J"},
    "no time": {"created": "yesterday"},
    "unknown fact": {"temperature": 2.0},
    "u from nowhere": {"u": "dice"},
    "more copies than rows": {"copies": 1.5},
    "copies true": {"copies": True},
    "parts that are no numbers": {"parts": ["1", "²"]},
    "a part twice": {"parts": ["1", "1"]},
    "normalize is a text": {"normalize": "no"},
    "deep": {"score": {"name": "adaptive", "settings": json.loads("[" * 50 + "]" * 50)}},
    "many brackets": {"score": {"name": "adaptive", "settings": {"x": [[]] * 500}}},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_artefact_is_refused_by_the_one_error(tmp_path, name):
    """Whoever can write a file can renew its digest: every relation is checked, and nothing reaches a loop."""
    path = tmp_path / "cal.aptset"
    aptset.calibrate(P, Y, random_state=0).save(path)
    facts, tensors = taken_apart(path)
    forge(path, {**facts, **FORGERIES[name]}, tensors)
    with pytest.raises(ValueError, match=r"cal.aptset is no intact aptset artefact: .* Make it again"):
        aptset.load(path)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"format":' * 30_000, '{"format": 1, "format": 1}', '"' * 99, "9" * 9999],
    ids=lambda t: t[:9],
)
def test_text_that_no_parser_should_see(tmp_path, text):
    path = tmp_path / "cal.aptset"
    forge(path, text, {"scores": np.zeros(3), "offsets": np.array([[0, 3]])})
    with pytest.raises(ValueError, match="no intact aptset artefact"):
        aptset.load(path)


def test_offsets_whose_differences_wrap_around(tmp_path):
    path = tmp_path / "cal.aptset"
    aptset.calibrate(P, Y, groups="label", random_state=0).save(path)
    facts, tensors = taken_apart(path)
    for offsets in ([0, 2**63 - 1, -(2**63), 120], [0, -(2**62), 2**62, 120], [0, 60, 30, 120], [0, 121, 121, 120]):
        forge(path, facts, {"scores": tensors["scores"], "offsets": np.array([offsets])})
        with pytest.raises(ValueError, match="offsets must rise"):
            aptset.load(path)


def test_compiled_loops_stay_inside_of_their_arrays():
    """Even if a calibration is put together wrongly, nothing outside of its arrays is read."""
    from dataclasses import replace

    from aptset.conformal.measure import FoldScores, Measure
    from aptset.core.groups import Groups
    from aptset.kernels import engines

    if engines.chosen.name != "compiled":
        pytest.skip("the loops were not built")
    good = aptset.calibrate(P, Y, random_state=0)
    few = Measure((FoldScores(good.scores, np.array([0, 120])),), Groups("label", ("x",)))
    far = Measure((FoldScores(good.scores, np.array([0, 10**12, 10**12, 10**12])),), Groups("label", (0, 1, 2)))
    back = Measure((FoldScores(good.scores, np.array([0, 90, 30, 120])),), Groups("label", (0, 1, 2)))
    for held_out in (few, far, back):
        with pytest.raises(ValueError, match="arrays must fit together"):
            replace(good, held_out=held_out).p_values(P)


HUGE = 10**400  # JSON has no largest number


@pytest.mark.parametrize(
    "weights",
    [
        {"ratios": [HUGE, 2.0, 0.5]},
        {"ratios": [1.0, 2.0, -HUGE]},
        {"effective_size": [HUGE]},
        {"ratios": [1e999, 2, 0.5]},
    ],
)
def test_weights_that_no_float_can_hold(tmp_path, weights):
    path = tmp_path / "cal.aptset"
    aptset.calibrate(P, Y, label_weights={0: 1.0, 1: 2.0, 2: 0.5}, random_state=0).save(path)
    facts, _ = taken_apart(path)
    change(path, weights={**facts["weights"], **weights})
    with pytest.raises(ValueError, match=r"is no intact aptset artefact: its (weights|effective_size) must"):
        aptset.load(path)


def test_settings_that_no_float_can_hold_are_refused_in_words():
    for make, message in [
        (lambda: aptset.calibrate(P, Y, label_weights={0: 1, 1: HUGE, 2: 1}), "label_weights must be finite"),
        (lambda: aptset.calibrate(P, Y, conformity=aptset.Regularized(HUGE, 1)), "penalty must be a number"),
        (
            lambda: aptset.calibrate(P, Y, conformity=aptset.Tempered(aptset.Adaptive(), HUGE)),
            "power must be a multiple",
        ),
        (lambda: aptset.calibrate(P, Y).predict_set(P, alpha=HUGE), r"alpha must be in \(0, 1\)"),
        (
            lambda: aptset.calibrate(P, Y, conformity=aptset.Gridded(aptset.Adaptive(), HUGE)),
            "resolution must be a power of two",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("size", [1e308, 1e200])
def test_overlapping_scores_that_cannot_be_added(tmp_path, size):
    path, generator = tmp_path / "cal.aptset", np.random.default_rng(0)
    groups = aptset.Overlapping(generator.random((120, 2)) < 0.5)
    aptset.calibrate(P, Y, groups=groups, random_state=0).save(path)
    facts, tensors = taken_apart(path)
    for start, stop in pairwise(tensors["offsets"][0]):
        tensors["scores"][start:stop] = np.sort(generator.choice([-size, size, 1.0], stop - start))
    facts["scores_hash"] = hash_of(np.sort(tensors["scores"]))
    forge(path, facts, tensors)
    with pytest.raises(ValueError, match="is no intact aptset artefact: its overlapping scores must be small enough"):
        aptset.load(path)
    own = aptset.calibrate(P, Y, groups=groups, conformity=lambda places: size * places.own, random_state=0)
    with pytest.raises(
        ValueError, match=r"conformity must return scores between -2\^500 and 2\^500 where groups overlap"
    ):
        own.predict_set(P, groups=groups)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("small", [1e-300, 5e-324, 1e-30])
def test_no_weight_makes_a_p_value_of_0(tmp_path, small):
    """A row counts itself: its p-value is at least its own share of all weight, which is more than 0."""
    by_label = aptset.calibrate(P, Y, label_weights={0: 1.0, 1: 2.0, 2: small}, random_state=0)
    by_row = aptset.calibrate(P, Y, weights=np.where(np.arange(120) == 0, 1.0, small), random_state=0)
    far = np.eye(3) * 0.999999 + 1e-6 / 3
    for calibration, more in [(by_label, {}), (by_row, {"weights": np.full(3, small)})]:
        calibration.save(tmp_path / "cal.aptset")
        found = aptset.load(tmp_path / "cal.aptset").p_values(far / far.sum(axis=1, keepdims=True), **more)
        assert (found > 0).all()
