"""A classifier on disk: the same sets after a journey, one clear error for whatever is not intact, and no pickle."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import skops.io
from click.testing import CliRunner
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import aptset
from aptset.cli.main import main
from aptset.estimator.storage import FACTS
from forging import forge, taken_apart

X, codes = load_iris(return_X_y=True)
names = load_iris().target_names[codes]
SETTINGS = {
    "split": {},
    "cv+": {"calibration": "cv+", "level": "guaranteed"},
    "jackknife+": {"calibration": "jackknife+"},
    "minimax": {"calibration": aptset.Minimax(10), "conformity": "raps"},
    "by label": {"groups": "label", "conformity": aptset.Regularized(penalty=0.2), "allow_empty": False},
    "by column": {"groups": 3, "randomized": False, "calibration": aptset.Split(share=0.3)},
    "known labels": {"classes": np.array(["setosa", "versicolor", "virginica", "yet to come"]), "alpha": 0.2},
    "bootstrap": {"calibration": aptset.Bootstrap(12)},
    "splitter": {"calibration": aptset.CVPlus(splitter=KFold(5))},
}


def fitted(y=names, estimator=None, **settings):
    return aptset.ConformalClassifier(
        GaussianNB() if estimator is None else estimator, **{"random_state": 0, **settings}
    ).fit(X, y)


@pytest.mark.filterwarnings("ignore:(groups|labels) with too few")
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_classifier_comes_back_as_it_was(kind, tmp_path):
    classifier = fitted(**SETTINGS[kind])
    classifier.save(tmp_path)
    found = aptset.load(tmp_path)
    assert found.predict_set(X) == classifier.predict_set(X)
    assert np.array_equal(found.p_values(X), classifier.p_values(X))
    assert found.guarantee() == classifier.guarantee()
    assert repr(found) == repr(classifier)
    assert found.n_features_in_ == 4
    again = found.fit(X, names)  # the settings are all there: it is trained as before
    assert np.array_equal(again.p_values(X), classifier.p_values(X))


@pytest.mark.parametrize("y", [codes, codes * 5 - 3, codes > 0, names.astype(object), codes.astype(float)])
def test_labels_of_every_kind_come_back(y, tmp_path):
    classifier = fitted(y)
    classifier.save(tmp_path)
    found = aptset.load(tmp_path)
    assert found.classes_.tolist() == classifier.classes_.tolist()
    assert [type(label) for label in found.classes_.tolist()] == [type(label) for label in classifier.classes_.tolist()]
    assert found.predict(X).tolist() == classifier.predict(X).tolist()


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(3), HistGradientBoostingClassifier(max_iter=3), KNeighborsClassifier()]
)
def test_models_of_scikit_learn_need_no_trust(model, tmp_path):
    classifier = fitted(estimator=model)
    classifier.save(tmp_path)
    assert aptset.load(tmp_path).predict_set(X) == classifier.predict_set(X)


def test_the_trees_of_a_forest_travel_as_one_forest(tmp_path):
    classifier = fitted(estimator=RandomForestClassifier(12), calibration="out-of-bag")
    classifier.save(tmp_path)
    assert np.array_equal(aptset.load(tmp_path).p_values(X), classifier.p_values(X))
    assert np.array_equal(pickle.loads(pickle.dumps(classifier)).p_values(X), classifier.p_values(X))
    asked = skops.io.get_untrusted_types(data=skops.io.dumps(classifier))
    assert [name for name in asked if "aptset" in name] == ["aptset.estimator.classifier.ConformalClassifier"]


def test_a_frozen_model_travels_too(tmp_path):
    classifier = fitted(estimator=FrozenEstimator(GaussianNB().fit(X, names)))
    classifier.save(tmp_path)
    assert aptset.load(tmp_path).predict_set(X) == classifier.predict_set(X)


@pytest.mark.parametrize("kind", ["split", "cv+", "minimax", "by label"])
def test_skops_asks_for_one_name_of_ours(kind):
    content = skops.io.dumps(fitted(**SETTINGS[kind]))
    asked = skops.io.get_untrusted_types(data=content)
    assert asked == ["aptset.estimator.classifier.ConformalClassifier"]
    assert skops.io.loads(content, trusted=asked).predict_set(X) == fitted(**SETTINGS[kind]).predict_set(X)


def test_pickles_and_copies_hold_the_same(tmp_path):
    classifier = fitted(conformity=_own_score)
    assert np.array_equal(pickle.loads(pickle.dumps(classifier)).p_values(X), classifier.p_values(X))
    unfitted = pickle.loads(pickle.dumps(aptset.ConformalClassifier(GaussianNB(), calibration=aptset.CVPlus(5))))
    assert unfitted.calibration == aptset.CVPlus(5)
    assert not hasattr(unfitted, "fitted_")


def _own_score(places):
    return 1 - places.own


def test_a_score_of_ones_own_is_named_not_run(tmp_path):
    classifier = fitted(conformity=_own_score)
    classifier.save(tmp_path)
    with pytest.raises(ValueError, match="does not import code that a file names"):
        aptset.load(tmp_path)
    found = aptset.load(tmp_path, scores={f"{__name__}:_own_score": _own_score})
    assert found.predict_set(X) == classifier.predict_set(X)


class OwnModel(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def test_a_model_of_ones_own_must_be_trusted(tmp_path):
    fitted(estimator=OwnModel()).save(tmp_path)
    name = f"{__name__}.OwnModel"
    with pytest.raises(ValueError, match=rf"holds {name}, which are not known to be safe.*--trust {name}"):
        aptset.load(tmp_path)
    assert len(aptset.load(tmp_path, trust=[name]).predict_set(X)) == 150
    assert len(aptset.load(tmp_path, trust=name).predict_set(X)) == 150
    with pytest.raises(ValueError, match="not known to be safe"):  # a module holds all that it imports
        aptset.load(tmp_path, trust=__name__)


def test_what_cannot_be_saved_is_named_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"groups must be a text.*Pass the groups to fit"):
        fitted(groups=lambda X: X[:, 0] > 5).save(tmp_path / "f")
    classifier = aptset.ConformalClassifier(GaussianNB(), calibration="jackknife+", random_state=0)
    classifier.fit_predict_set(X, names, X[:2])
    with pytest.raises(ValueError, match="drops its models"):
        classifier.save(tmp_path / "f")
    assert not (tmp_path / "f").exists()
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/f"):
        with pytest.raises(NotADirectoryError, match=r"must be a folder; .*file is a file\. Name another"):
            fitted().save(tmp_path / name)


def test_saving_anew_replaces_the_old_one(tmp_path):
    fitted().save(tmp_path)
    for name in ("notes.txt", "models-old.skops", "scores-2024.safetensors"):
        (tmp_path / name).write_text("mine")
    fitted(random_state=1).save(tmp_path)
    assert len(os.listdir(tmp_path)) == 5  # two files, and those that are not ours
    assert (tmp_path / "models-old.skops").read_text() == "mine"
    assert aptset.load(tmp_path).predict_set(X) == fitted(random_state=1).predict_set(X)


def test_every_flipped_byte_is_noticed(tmp_path):
    fitted().save(tmp_path)
    generator = np.random.default_rng(0)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for place in generator.integers(len(whole), size=40):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(ValueError, match=r"no intact aptset artefact|Upgrade aptset"):
                aptset.load(tmp_path)
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match="no intact aptset artefact"):
            aptset.load(tmp_path)
        path.write_bytes(whole)
    assert len(aptset.load(tmp_path).predict_set(X)) == 150


def forge_folder(folder, change):
    facts, tensors = taken_apart(folder / FACTS)
    change(facts)
    forge(folder / FACTS, facts, tensors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts.update(format=2, library="9.0"), "format 2, written by aptset 9.0.*Upgrade aptset"),
        (lambda facts: facts.update(kind="regressor"), "a kind that this version of aptset does not know: regressor"),
        (lambda facts: facts["scheme"].update(name="magic"), "a scheme that this version.*magic.*Upgrade"),
        (lambda facts: facts["settings"].update(colour="red"), "a setting that this version.*colour.*Upgrade"),
        (lambda facts: facts.update(extra=1), "its metadata says 'extra', which this version does not understand"),
        (lambda facts: facts["score"].update(name="magic"), "knows no score 'magic'"),
        (lambda facts: facts["score"]["settings"].update(power=3), "score 'adaptive' cannot be made"),
        (lambda facts: facts.update(key="-1"), "its key"),
        (lambda facts: facts.pop("n"), r"incomplete \(n\)"),
        (lambda facts: facts.update(n=5), "a tensor scores of type F64"),
        (lambda facts: facts["classes"]["values"].pop(), "labels must be among the classes"),
        (lambda facts: facts["groups"].update(names=["all", "b"]), "a tensor offsets of type I64"),
        (lambda facts: facts["models"].update(name="../../x.skops"), "names no file of models"),
        (lambda facts: facts["models"].update(digest=0), "does not match its digest"),
        (lambda facts: facts.update(scores_hash="0"), "scores_hash must be that of its scores"),
        (
            lambda facts: facts["groups"].update(kind="odd"),
            "groups must be of kind all, label, band, row, pair or overlap",
        ),
        (lambda facts: facts["groups"].update(names=3), "groups must have names"),
        (lambda facts: facts.update(score={}), "score has no name or no settings"),
        (lambda facts: facts.update(copies=7), r"share of copies must be in \[0, 1\]"),
        (lambda facts: facts.update(unseen_label_chance=float("nan")), r"unseen_label_chance must be in"),
        (lambda facts: facts["settings"].update(estimator="os"), "a setting that this version.*estimator"),
    ],
)
def test_forged_and_newer_folders_get_one_clear_error(change, message, tmp_path):
    fitted().save(tmp_path)
    forge_folder(tmp_path, change)
    with pytest.raises(ValueError, match=message):
        aptset.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "rc"),
    [
        (lambda facts: facts.update(groups={}), 1),
        (lambda facts: facts.update(score={}), 1),
        (lambda facts: facts.update(table={"a": 1}), 1),
        (lambda facts: facts["settings"].pop("alpha"), 0),  # a later version may have another default
    ],
)
def test_inspect_says_in_one_line_what_is_wrong_with_a_folder(change, rc, tmp_path):
    fitted().save(tmp_path)
    forge_folder(tmp_path, change)
    done = CliRunner().invoke(main, ["inspect", str(tmp_path)])
    assert done.exit_code == rc
    assert "KeyError" not in done.output
    assert len(done.output.splitlines()) == 1 or rc == 0


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must be the folder of a classifier; it holds no classifier.aptset"):
        aptset.load(tmp_path)


def test_a_fresh_process_predicts_the_same(tmp_path):
    classifier = fitted(calibration="cv+")
    classifier.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    load = "import sys, numpy, aptset; sets = aptset.load(sys.argv[1]).predict_set(numpy.load(sys.argv[2]))"
    code = f"{load}; print(sets.sizes.tolist())"
    arguments = [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "X.npy")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == classifier.predict_set(X).sizes.tolist()
