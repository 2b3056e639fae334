"""Attacks on artefacts of every kind: forged with a digest that fits, or damaged byte by byte."""

import json
import tempfile
import warnings
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.calibration.storage import STORE
from aptset.calibration.stored_fields import hash_of
from aptset.estimator.storage import FACTS
from forging import forge, taken_apart
from fuzz.odd_facts import JSON, PATHS

FOLDER = Path(tempfile.mkdtemp(prefix="aptset-fuzz-"))
REFUSED = "is no intact aptset artefact: "


def _bases():
    """Artefacts of every kind, as facts and tensors."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(4), size=60)
    y = generator.integers(4, size=60)
    settings = [
        {},
        {"groups": "label", "classes": ["a", "b", "c", "☃"]},
        {"groups": np.array(["x", "y", None], dtype=object)[y % 3], "conformity": aptset.Regularized(0.1, 2)},
        {"classes": [1, "one", None, 2.5], "conformity": "homogeneous", "randomized": False},
        {"weights": generator.exponential(size=60)},
        {"label_weights": {0: 0.5, 1: 1.0, 2: 3.0, 3: 1e-300}, "prior_correction": True},
        {"groups": aptset.Overlapping(generator.random((60, 3)) < 0.5)},
    ]
    found = []
    for number, more in enumerate(settings):
        labels = [more["classes"][k] for k in y] if "classes" in more else y
        path = FOLDER / f"base{number}"
        aptset.calibrate(p, labels, random_state=0, **more).save(path)
        found.append(STORE.read(path))
    several = aptset.ConformalClassifier(GaussianNB(), calibration=aptset.Bootstrap(10), random_state=0).fit(p, y)
    for calibration in (aptset.calibrate_cv(p, y, y[::-1] % 3, groups="label", random_state=0), several.calibration_):
        path = FOLDER / f"base{len(found)}"
        calibration.save(path)
        found.append(STORE.read(path))
    return found


BASES = _bases()
TENSOR_EDITS = st.sampled_from(
    [
        *["none"] * 30,
        "reverse",
        "nan",
        "inf",
        "huge",
        "shorter",
        "longer",
        "empty",
        "float32",
        "2-D",
        "swap",
        "third",
        "judges",
        "all huge",
        "weights: huge",
        "weights: tiny",
        "weights: none",
        "weights: shorter",
        "weights: negative",
    ]
)
OFFSETS = (
    st.none()
    | st.none()
    | st.none()
    | st.lists(st.sampled_from([0, 1, 30, 59, 60, 61, -1, 2**31, 2**62, -(2**63), 2**63 - 1]), max_size=6)
)
ARTEFACT = st.tuples(
    st.integers(0, len(BASES) - 1),
    st.lists(st.tuples(PATHS, st.sampled_from(["set", "drop"]), JSON), max_size=3),
    TENSOR_EDITS,
    OFFSETS,
    st.sampled_from(
        [*[None] * 40, "[" * 5000, '{"a":' * 200, "nul", "", "[1, 2", '{"format": 1, "format": 1}', '"x', "9" * 5000]
    ),
)


def check_artefact(attack):
    """A forged artefact with a digest that fits is refused by the one error, or it is a calibration that works."""
    base, edits, tensor_edit, offsets, text = attack
    facts, tensors = BASES[base]
    facts = json.loads(json.dumps(facts))
    for path, how, value in edits:
        _edit(facts, path, how, value)
    tensors = _edit_tensors(dict(tensors), tensor_edit, offsets)
    if tensor_edit != "none":
        _renew(facts, tensors)
    written = json.dumps(facts, sort_keys=True) if text is None else text
    file = FOLDER / "forged"
    forge(file, written, tensors)
    try:
        calibration = aptset.load(file)
    except ValueError as error:
        return refused(error)
    _use(calibration, file)
    return True


def refused(error):
    """Tell that an artefact was refused, by no other than the one error."""
    assert any(words in str(error) for words in (REFUSED, "Upgrade aptset", "an artefact of another kind")), error
    return False


def _edit(facts, path, how, value):
    for step in path[:-1]:
        try:
            facts = facts[step]
        except (KeyError, IndexError, TypeError):
            return
    last = path[-1]
    fits = isinstance(facts, dict) and isinstance(last, str)
    fits = fits or (isinstance(facts, list) and isinstance(last, int) and last < len(facts))
    if not fits:
        return
    if how == "set":
        facts[last] = value
    elif isinstance(facts, list) or last in facts:
        del facts[last]


def _renew(facts, tensors):
    """Let the hash of scores and the effective size be those of the tensors, as somebody who forges them would."""
    facts["scores_hash"] = hash_of(np.sort(tensors["scores"].ravel()))
    if isinstance(facts.get("weights"), dict) and "weights" in tensors:
        weights = tensors["weights"] / (tensors["weights"].max() or 1.0)
        facts["weights"]["effective_size"] = [weights.sum() ** 2 / ((weights**2).sum() or 1.0)]


def _edit_tensors(tensors, edit, offsets):
    scores = tensors["scores"].copy()
    changed = {
        "reverse": lambda: scores[::-1].copy(),
        "nan": lambda: np.append(scores[:-1], np.nan),
        "inf": lambda: np.append(scores[:-1], np.inf),
        "huge": lambda: np.append(scores[:-1], 1e308),
        "all huge": lambda: np.sort(np.random.default_rng(0).choice([-1e308, 1e308, 1.0], len(scores))),
        "shorter": lambda: scores[:-1].copy(),
        "longer": lambda: np.append(scores, scores[-1]),
        "empty": lambda: scores[:0].copy(),
        "float32": lambda: scores.astype(np.float32),
        "2-D": lambda: scores[:, None].copy(),
    }
    tensors["scores"] = changed.get(edit, lambda: scores)()
    if offsets is not None:
        rows = len(offsets) == tensors["offsets"].shape[1]
        tensors["offsets"] = np.array([offsets] * len(tensors["offsets"]) if rows else offsets, dtype=np.int64)
    if edit == "swap":
        tensors["offsets"], tensors["scores"] = tensors["scores"], tensors["offsets"]
    if edit == "judges":
        tensors["judges"] = tensors["judges"][:, ::-1].copy() if "judges" in tensors else np.ones((3, 3), dtype=bool)
    if edit.startswith("weights") and "weights" in tensors:
        weights = tensors["weights"].copy()
        edits = {"huge": 1e308, "tiny": 5e-324, "none": 0.0, "negative": -1.0}
        weights[: len(weights) // 2] = edits.get(edit.partition(": ")[2], weights[0])
        tensors["weights"] = weights[:-1] if edit.endswith("shorter") else weights
    if edit == "third":
        tensors["third"] = np.zeros(3)
    return tensors


def _use(calibration, file):
    """Whatever loads must work, on every path into the loops, and come back from disk as it is."""
    n_classes = len(calibration.classes)
    if n_classes > 200:
        return
    new = np.random.default_rng(1).dirichlet(np.ones(n_classes), size=9)
    kind, weighted = calibration.held_out.groups.kind, calibration.held_out.is_weighted
    by_row = kind == "row"
    more = {"groups": [*calibration.held_out.groups.names, "never seen", None][:9] * 9} if by_row else {}
    more = {name: values[:9] for name, values in more.items()}
    more |= {"u": np.full(9, 0.5)} if calibration.chance.source == "given" and calibration.chance.randomized else {}
    if kind == "overlap":
        more["groups"] = _overlapping(calibration.held_out.groups.overlap)
    if weighted and calibration.held_out.ratios is None:
        more["weights"] = np.geomspace(1e-300, 1e300, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (_use_folds if hasattr(calibration, "folds") else _use_rows)(calibration, new, more)
    calibration.save(file)
    assert repr(aptset.load(file)) == repr(calibration)


def _overlapping(overlap):
    flags = np.random.default_rng(2).random((9, len(overlap.names))) < 0.5
    if overlap.frame is None:
        return aptset.Overlapping(flags)
    return aptset.Overlapping(pd.DataFrame({name: [False] * 9 for name in overlap.frame}))


def _use_rows(calibration, new, more):
    sets, mask = calibration.predict_set(new, 0.3, **more), calibration.predict_mask(new, 0.3, **more)
    assert sets.mask.tolist() == mask.tolist()
    if calibration.held_out.groups.kind == "overlap":
        return
    p_values, ratios = calibration.p_values(new, **more), getattr(calibration.held_out, "ratios", None)
    assert ((p_values > 0) | (ratios == 0 if ratios is not None else False)).all()
    assert (p_values <= 1).all()
    if not calibration.held_out.is_weighted:
        calibration.threshold(0.3)
    assert calibration.merge(replace(calibration, parts=())).n == 2 * calibration.n


def _use_folds(calibration, new, more):
    said = [new] * len(calibration.folds)
    p_values = calibration.p_values(said, **more)
    assert ((p_values > 0) & (p_values <= 1)).all()
    if calibration.allow_empty:
        assert calibration.predict_set(said, 0.3, **more).mask.tolist() == (p_values > 0.3).tolist()
    assert 0 <= calibration.guarantee(0.3) <= 1


BYTES = st.tuples(
    st.integers(0, len(BASES) - 1),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=4),
    st.none() | st.integers(0, 3000),
)


def check_bytes(attack):
    """A damaged artefact is refused, or it is the one that it was."""
    base, changes, length = attack
    good = (FOLDER / f"base{base}").read_bytes()
    content = bytearray(good if length is None else good[: length % (len(good) + 1)])
    for place, value in changes:
        if content:
            content[place % len(content)] = value
    file = FOLDER / "damaged"
    file.write_bytes(content)
    try:
        found = aptset.load(file)
    except ValueError as error:
        return refused(error)
    assert found.held_out.scores.tolist() == aptset.load(FOLDER / f"base{base}").held_out.scores.tolist()
    return True


def _states():
    """Folders of classifiers, streams and monitors: their files, and what loads and uses them."""
    generator = np.random.default_rng(0)
    p, y = generator.dirichlet(np.ones(4), size=200), generator.integers(4, size=200)
    found = []
    for number, scheme in enumerate(("split", aptset.Bootstrap(10))):
        folder = FOLDER / f"classifier{number}"
        aptset.ConformalClassifier(GaussianNB(), calibration=scheme, random_state=0).fit(p, y).save(folder)
        found.append((folder / FACTS, lambda path: aptset.load(path.parent), lambda made: _use_classifier(made, p[:9])))
    for number, groups in enumerate((None, "label")):
        calibration = aptset.calibrate(p[:100], y[:100], groups=groups, random_state=0)
        online = aptset.Online(calibration, window=20).update(p[100:150], y[100:150])
        for start in (150, 160, 170):  # asked about, with labels of others in between
            online.predict_set(p[start : start + 10])
            online.update(p[100 + start % 50 : 104 + start % 50], y[:4])
        online.save(FOLDER / f"online{number}")
        load = partial(aptset.Online.load, calibration=calibration)
        found.append(
            (FOLDER / f"online{number}", load, lambda made: made.update(p[150:180], y[150:180]).predict_set(p))
        )
    outcomes = generator.random(60) < 0.8
    for number, (settings, rows) in enumerate(
        [
            ({"n": 100}, {}),
            ({"n": {"a": 50, None: 40}}, {"groups": ["a", None] * 30}),
            ({"n": 100, "mature": 90}, {"order": np.arange(60) * 2}),
            ({"n": 100, "mature": timedelta(seconds=30)}, {"time": np.arange(60.0)}),
        ]
    ):
        path = FOLDER / f"monitor{number}"
        aptset.CoverageMonitor(**settings).update(outcomes, **rows).save(path)
        found.append((path, aptset.CoverageMonitor.load, lambda made: made.save(FOLDER / "again") or made.sentence()))
    return [(*taken_apart(path), path, load, use) for path, load, use in found]


def _use_classifier(classifier, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            classifier.predict_set(rows)
        except (ValueError, TypeError) as error:  # a setting that is refused when it is used, as one of the caller's
            assert "must" in str(error), error  # noqa: PT017 - it may as well be right


STATES = _states()
NUMBERS = [0, 1, -1, 2, 3, 59, 60, 2**31, 2**53, 2**62, -(2**63), 2**63 - 1, 0.5, -5.0, 1e308, np.nan, np.inf, -np.inf]
STATE = st.tuples(
    st.integers(0, len(STATES) - 1),
    st.lists(st.tuples(st.integers(0, 40), JSON | st.sampled_from(["1/10", "1/3", "0", "1/0", "drop"])), max_size=2),
    st.lists(
        st.tuples(
            st.integers(0, 20),
            st.sampled_from(["shorter", "longer", "empty", "2-D", "other type", "drop", *["a number"] * 6]),
            st.integers(0, 70),
            st.sampled_from(NUMBERS),
        ),
        max_size=2,
    ),
)


def check_state(attack):
    """A forged classifier, stream or monitor is refused by the one error, or it is one that works."""
    base, edits, tensor_edits = attack
    facts, tensors, path, load, use = STATES[base]
    facts, tensors = json.loads(json.dumps(facts)), dict(tensors)
    for number, value in edits:
        name = sorted(facts)[number % len(facts)]
        facts |= {name: value}
        if value == "drop":
            del facts[name]
    for number, how, place, value in tensor_edits:
        _edit_tensor(tensors, sorted(STATES[base][1])[number % len(STATES[base][1])], how, place, value)
    if "scores" in tensors and "scores_hash" in facts:
        facts["scores_hash"] = hash_of(np.sort(tensors["scores"].ravel()))
    forge(path, facts, tensors)
    try:
        made = load(path)
    except ValueError as error:
        another = "it began with another one" in str(error) or "does not import code that" in str(error)
        return False if another else refused(error)
    use(made)
    return True


def _edit_tensor(tensors, name, how, place, value):
    values = tensors.pop(name, np.zeros(1)).copy()
    if how == "a number" and values.size:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values.flat[place % values.size] = np.array(value).astype(values.dtype)
    changed = {
        "shorter": lambda: values[:-1],
        "longer": lambda: np.concatenate([values, values[-1:]]),
        "empty": lambda: values[:0],
        "2-D": lambda: values[None],
        "other type": lambda: values.astype(np.float32),
    }
    if how != "drop":
        tensors[name] = changed.get(how, lambda: values)()
