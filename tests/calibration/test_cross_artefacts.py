"""Calibrations of several folds as files: they come back whole, or not at all."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.cli.main import main
from forging import forge, taken_apart

generator = np.random.default_rng(0)
P = generator.dirichlet(np.ones(3), size=120)
Y = (generator.random((120, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
FOLDS = np.arange(120) % 4
NEW = [generator.dirichlet(np.ones(3), size=30) for _ in range(4)]
IDS = np.arange(30)
X, LABELS = make_classification(120, n_features=6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)


def kept(calibration):
    """All that a calibration knows, to be compared bit by bit."""
    scores = [fold.scores.tobytes() for fold in calibration.held_out.folds]
    offsets = [fold.offsets.tolist() for fold in calibration.held_out.folds]
    model_mask = calibration.held_out.model_mask
    return (
        scores,
        offsets,
        None if model_mask is None else model_mask.tolist(),
        calibration.folds.tolist(),
        calibration.parts,
    )


@pytest.mark.parametrize("names", [[0, 1, 2, 3], ["a", "b", "c", "☃"], [0.5, 1.5, 2.5, 3.5]], ids=str)
@pytest.mark.parametrize("groups", [None, "label", "rows"])
@pytest.mark.parametrize("combine", ["plus", "minimax"])
def test_round_trip(tmp_path, combine, groups, names):
    by = np.where(P[:, 0] > 0.3, "x", "y") if groups == "rows" else groups
    options = {"combine": combine, "groups": by, "conformity": aptset.Regularized(0.1, 2), "allow_empty": False}
    folds = np.array(names)[FOLDS]
    made = aptset.calibrate_cv(P, Y, folds, random_state=5, **options)
    made.save(tmp_path / "cal.aptset")
    again = aptset.load(tmp_path / "cal.aptset")
    more = {"groups": ["x"] * 30} if groups == "rows" else {}
    assert repr(again) == repr(made)
    assert kept(again) == kept(made)
    assert (again.scheme, again.chance, again.key) == (made.scheme, made.chance, made.key)
    assert again.predict_set(NEW, [0.2, 0.4], **more) == made.predict_set(NEW, [0.2, 0.4], **more)
    np.testing.assert_array_equal(again.p_values(NEW, **more), made.p_values(NEW, **more))
    assert again.guarantee(0.2) == made.guarantee(0.2)
    by_name = dict(zip(names, NEW, strict=True))
    assert again.predict_set(by_name, 0.2, **more) == made.predict_set(NEW, 0.2, **more)


@pytest.mark.parametrize(
    "calibration",
    ["cv+", "jackknife+", "minimax", aptset.Bootstrap(12), "out-of-bag", aptset.CVPlus(splitter=KFold(5))],
    ids=str,
)
def test_what_a_classifier_calibrated_can_be_saved(tmp_path, calibration):
    """The door of a fitted classifier leads to a file, from which its sets come without it."""
    model = RandomForestClassifier(12) if calibration == "out-of-bag" else GaussianNB()
    classifier = aptset.ConformalClassifier(model, calibration=calibration, random_state=0)
    classifier.fit(X[:60], LABELS[:60], ids=IDS.tolist() + list(range(100, 130)))
    classifier.calibration_.save(tmp_path / "cal.aptset")
    again = aptset.load(tmp_path / "cal.aptset")
    said = [probabilities(model, X[90:], classifier.classes_) for model in classifier.models_]
    assert again.predict_set(said, 0.2, ids=IDS) == classifier.predict_set(X[90:], 0.2, ids=IDS)
    np.testing.assert_array_equal(again.p_values(said, ids=IDS), classifier.p_values(X[90:], ids=IDS))
    assert again.guarantee(0.1) == classifier.guarantee(0.1)
    assert kept(again) == kept(classifier.calibration_)


def probabilities(model, rows, classes):
    from aptset.estimator.fitting import probabilities_of

    return probabilities_of(model, rows, classes)


def test_folds_that_looked_at_the_labels_promise_nothing_from_a_file_either(tmp_path):
    scheme = aptset.CVPlus(splitter=StratifiedKFold(4))
    classifier = aptset.ConformalClassifier(GaussianNB(), calibration=scheme, random_state=0).fit(X, LABELS)
    for name in ("once", "twice"):
        made = classifier.calibration_ if name == "once" else aptset.load(tmp_path / "once")
        made.save(tmp_path / name)
        again = aptset.load(tmp_path / name)
        with pytest.warns(UserWarning, match="StratifiedKFold may look at the data"):
            assert again.guarantee() == 0
        assert "0" in again._repr_html_()
    with pytest.raises(TypeError, match="must have its splitter"):
        again.scheme.folds(X, LABELS, np.random.default_rng(0))
    shown = CliRunner().invoke(main, ["inspect", str(tmp_path / "once")])
    assert "none, StratifiedKFold may look" in shown.output


def test_a_scheme_of_the_users_own_is_refused_before_anything_is_written(tmp_path):
    @dataclass(frozen=True)
    class Own(aptset.CVPlus):
        pass

    made = replace(aptset.calibrate_cv(P, Y, FOLDS), scheme=Own())
    with pytest.raises(TypeError, match="calibration must be one of the library's to be saved"):
        made.save(tmp_path / "cal.aptset")
    dates = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")[FOLDS % 2]
    with pytest.raises(TypeError, match="labels, groups and folds must be texts"):
        aptset.calibrate_cv(P, Y, dates).save(tmp_path / "cal.aptset")
    assert not list(tmp_path.iterdir())


def test_commands_name_it_and_say_why_they_cannot_ask_it(tmp_path):
    path, table = tmp_path / "cal.aptset", tmp_path / "new.csv"
    aptset.calibrate_cv(P, Y, FOLDS, groups="label", random_state=0).save(path)
    shown = CliRunner().invoke(main, ["inspect", str(path), "--json"])
    facts = json.loads(shown.output)
    assert (facts["calibration"], facts["folds"], facts["n"]) == ("CV+", 4, 120)
    assert facts["promise"] == f"coverage >= {aptset.load(path).guarantee(0.1):.4g} at alpha = 0.1 in every group"
    table.write_text("0,1,2\n0.5,0.25,0.25\n")
    done = CliRunner().invoke(main, ["predict", str(table), "-c", str(path), "-o", str(tmp_path / "sets.csv")])
    assert done.exit_code != 0
    assert "must hold the calibration of one model" in done.output
    assert not (tmp_path / "sets.csv").exists()


FORGERIES = {
    "no scheme": {"scheme": {}},
    "a scheme of one fold": {"scheme": {"name": "split", "settings": {}, "caveat": ""}},
    "a scheme whose models judge together": {"scheme": {"name": "bootstrap", "settings": {}, "caveat": ""}},
    "a caveat of two lines": {"scheme": {"name": "cv+", "settings": {}, "caveat": "a\nb"}},
    "a caveat that is a number": {"scheme": {"name": "cv+", "settings": {}, "caveat": 3}},
    "a setting that is a list": {"scheme": {"name": "cv+", "settings": {"n_folds": [3]}, "caveat": ""}},
    "a splitter that is a text": {"scheme": {"name": "cv+", "settings": {"splitter": "os"}, "caveat": ""}},
    "settings that are a list": {"scheme": {"name": "cv+", "settings": [], "caveat": ""}},
    "a fold too few": {"folds": {"values": [0, 1, 2], "objects": False}},
    "a fold twice": {"folds": {"values": [0, 1, 2, 2], "objects": False}},
    "folds without values": {"folds": {}},
    "folds that are lists": {"folds": {"values": [[0], [1], [2], [3]], "objects": True}},
    "facts of the other kind": {"first_rows": ["0"]},
    "hash of other scores": {"scores_hash": "0" * 32},
    "one fold more in n": {"n": 121},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("cross") / "cal.aptset"
    aptset.calibrate_cv(P, Y, FOLDS, groups="label", random_state=0).save(path)
    return path


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_facts_are_refused_by_the_one_error(tmp_path, saved, name):
    facts, tensors = taken_apart(saved)
    forge(tmp_path / "cal.aptset", {**facts, **FORGERIES[name]}, tensors)
    with pytest.raises(ValueError, match=r"cal.aptset is no intact aptset artefact: .* Make it again"):
        aptset.load(tmp_path / "cal.aptset")


def test_what_a_later_version_may_have_written_says_so(tmp_path, saved):
    facts, tensors = taken_apart(saved)
    for changes, message in [
        ({"scheme": {"name": "cv++", "settings": {}, "caveat": ""}}, r"a scheme that this version.*not know: cv\+\+"),
        ({"scheme": {"name": "cv+", "settings": {"x": 1}, "caveat": ""}}, "a setting of its scheme 'cv"),
        ({"kind": "cross2"}, "a kind of calibration that this version of aptset does not know: cross2"),
        ({"format": 2}, "has format 2"),
    ]:
        forge(tmp_path / "c", {**facts, **changes}, tensors)
        with pytest.raises(ValueError, match=message):
            aptset.load(tmp_path / "c")


def test_forged_tensors_never_reach_a_loop(tmp_path, saved):
    facts, tensors = taken_apart(saved)
    scores, offsets = tensors["scores"], tensors["offsets"]
    empty, wrapped = offsets.copy(), offsets.copy()
    empty[0], wrapped[0, 1:3] = 0, (2**63 - 1, -(2**63))
    high, around = offsets.copy(), offsets.copy()
    high[:, -1], around[:, -1] = 2**62, (2**63 - 1, 2**63 - 1, len(scores) + 1, 1)
    around[:, 1:-1] = 0  # and their sum wraps around to the number of scores
    for forged in [
        {"scores": scores[::-1].copy(), "offsets": offsets},
        {"scores": scores * np.nan, "offsets": offsets},
        {"scores": scores, "offsets": offsets[0]},
        {"scores": scores, "offsets": offsets[:3].copy()},
        {"scores": scores, "offsets": offsets[:, :-1].copy()},
        {"scores": scores, "offsets": empty},
        {"scores": scores, "offsets": wrapped},
        {"scores": scores, "offsets": high},
        {"scores": scores, "offsets": around},
        {"scores": scores, "offsets": offsets, "judges": np.ones((4, 4), dtype=bool)},
        {"scores": scores, "offsets": offsets, "judges": np.ones((4, 3), dtype=bool)},
        {"scores": scores, "offsets": offsets, "judges": np.ones((4, 4))},
    ]:
        forge(tmp_path / "c", facts, forged)
        with pytest.raises(ValueError, match="no intact aptset artefact"):
            aptset.load(tmp_path / "c")


def test_a_fold_without_a_score_is_none(tmp_path):
    path = tmp_path / "cal.aptset"
    aptset.calibrate_cv(P, Y, FOLDS, random_state=0).save(path)
    facts, tensors = taken_apart(path)
    forge(path, facts, {"scores": np.sort(tensors["scores"]), "offsets": np.array([[0, 0], [0, 60], [0, 30], [0, 30]])})
    with pytest.raises(ValueError, match="each of its folds must hold a score"):
        aptset.load(path)
    forge(path, facts, {"scores": np.sort(tensors["scores"]), "offsets": np.array([[0, 30]] * 4)})
    assert aptset.load(path).n == 120, "it is the empty fold that was refused"


def test_every_tensor_is_in_the_digest(tmp_path):
    path = tmp_path / "cal.aptset"
    classifier = aptset.ConformalClassifier(GaussianNB(), calibration=aptset.Bootstrap(12), random_state=0)
    classifier.fit(X, LABELS).calibration_.save(path)
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
    for name, tensor in load_file(path).items():
        changed = tensor.copy()
        changed.flat[-1] = not changed.flat[-1] if name == "judges" else changed.flat[-1] ^ 1 if name == "digest" else 9
        save_file({**load_file(path), name: changed}, tmp_path / name, metadata=metadata)
        with pytest.raises(ValueError, match="does not match its digest"):
            aptset.load(tmp_path / name)


def test_truncations_and_bit_flips(tmp_path, saved):
    """An error or the same calibration: never a crash, never other sets."""
    good, path = saved.read_bytes(), tmp_path / "cal.aptset"
    expected, refused = aptset.load(saved).predict_set(NEW, 0.2), 0
    draw = np.random.default_rng(0)
    damaged = [good[:length] for length in (0, 7, 8, 100, len(good) // 2, len(good) - 1)]
    for place in draw.integers(len(good), size=150).tolist():
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(draw.integers(8))
        damaged.append(bytes(flipped))
    for content in damaged:
        path.write_bytes(content)
        try:
            assert aptset.load(path).predict_set(NEW, 0.2) == expected
        except (ValueError, OSError) as error:
            refused += str(path) in str(error)
    assert refused > 150
    assert load_file(saved).keys() == {"scores", "offsets", "digest"}
