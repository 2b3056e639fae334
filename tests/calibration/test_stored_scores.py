"""Scores in artefacts: by name, never as code, and never imported because a file says so."""

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

import aptset
from aptset.scores import SCORES
from aptset.scores.conformity import find_score

P = np.random.default_rng(0).dirichlet(np.ones(3), size=60)
Y = np.arange(60) % 3
HERE = __name__


def squared(places):
    return 1 - (places.own / places.total) ** 2


@dataclass(frozen=True)
class Powered:
    power: float = 2.0

    def of(self, places):
        return 1 - (places.own / places.total) ** self.power


@dataclass(frozen=True)
class Holding:
    table: frozenset = frozenset({1, 2})

    def of(self, places):
        return places.rank


@dataclass(frozen=True)
class Adjacent:
    """Looks at the neighbours of a label, in an order that the columns need not have."""

    order: tuple
    columns: tuple = ()

    def for_classes(self, classes):
        return replace(self, columns=tuple(classes.tolist().index(label) for label in self.order))

    def of(self, places):
        columns = list(self.columns)
        padded = np.pad(places.own[:, columns], ((0, 0), (1, 1)))
        scores = np.empty(places.own.shape)
        scores[:, columns] = 1 - (padded[:, 1:-1] + (padded[:, :-2] + padded[:, 2:]) / 2) / places.total
        return scores - 2.0**-32 * (1 - places.u)


class Plain:
    def of(self, places):
        return places.above


PLAIN = Plain()


def saved(tmp_path, score):
    calibration = aptset.calibrate(P, Y, conformity=score, random_state=0)
    calibration.save(tmp_path / "c")
    return calibration, tmp_path / "c"


@pytest.mark.parametrize(
    "score",
    [
        *(make() for make in SCORES.values()),
        aptset.Regularized(np.float32(0.25), np.int64(3)),
        aptset.SAPS(1),
        aptset.Tempered(aptset.SAPS(0.5), 0.75),
    ],
    ids=str,
)
def test_scores_of_the_library_come_back(tmp_path, score):
    calibration, path = saved(tmp_path, score)
    again = aptset.load(path)
    assert again.conformity == calibration.conformity
    assert again.predict_set(P, 0.3) == calibration.predict_set(P, 0.3)


@pytest.mark.parametrize(
    ("score", "name", "held"),
    [(squared, "squared", squared), (Powered(0.5), "Powered", Powered), (PLAIN, "PLAIN", PLAIN)],
)
@pytest.mark.parametrize("tempered", [False, True])
def test_scores_of_ones_own_come_back_when_asked_for(tmp_path, score, name, held, tempered):
    calibration, path = saved(tmp_path, aptset.Tempered(score, 0.5) if tempered else score)
    with pytest.raises(ValueError, match="does not import code that a file names"):
        aptset.load(path)
    for how in ({"scores": {f"{HERE}:{name}": held}}, {"trust": [HERE]}, {"trust": HERE}):
        again = aptset.load(path, **how)
        assert again.conformity == calibration.conformity
        assert again.predict_set(P, 0.3) == calibration.predict_set(P, 0.3)
    with pytest.raises(ValueError, match=f"scores must hold '{HERE}:{name}'"):
        aptset.load(path, scores={"other:thing": held}, trust=["other"])


@pytest.mark.parametrize("around", [lambda score: score, lambda score: aptset.Gridded(score, 2**-10)])
def test_a_score_that_knows_an_order_of_labels_is_saved_with_it(tmp_path, around):
    """Tuples are settings, too, and ``for_classes`` tells a score which column each label has."""
    labels = np.array(["high", "low", "medium"])[Y]
    score = around(Adjacent(("low", "medium", "high")))
    calibration = aptset.calibrate(P, labels, conformity=score, classes=["high", "low", "medium"], random_state=0)
    assert getattr(calibration.conformity, "score", calibration.conformity).columns == (1, 2, 0)
    calibration.save(tmp_path / "c")
    again = aptset.load(tmp_path / "c", trust=[HERE])
    assert again.conformity == calibration.conformity
    assert again.predict_set(P, 0.3) == calibration.predict_set(P, 0.3)


def test_settings_are_those_of_the_file(tmp_path):
    calibration, path = saved(tmp_path, Powered(0.5))
    for held in (Powered, Powered(3.0)):
        assert aptset.load(path, scores={f"{HERE}:Powered": held}).conformity == calibration.conformity


@pytest.mark.parametrize(
    "score",
    [
        {"name": f"{HERE}:subprocess.Popen", "settings": {"args": ["touch", "mark"]}},
        {"name": f"{HERE}:subprocess.call", "settings": None},
        {"name": f"{HERE}:sys.exit", "settings": None},
        {"name": f"{HERE}:P", "settings": None},
        {"name": f"{HERE}:Powered.of.nothing", "settings": {}},
    ],
)
def test_a_trusted_module_is_trusted_with_its_own_scores_only(tmp_path, score, monkeypatch):
    """A file cannot reach through a module to what it imported."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="does not define"):
        find_score("file", score, trust=[HERE])
    assert not (tmp_path / "mark").exists()


def test_what_has_no_name_is_not_saved(tmp_path):
    def inner(places):
        return places.rank

    for score in (lambda places: places.rank, inner, Plain(), Holding(), aptset.Tempered(inner, 0.5)):
        with pytest.raises(TypeError, match="conformity must have a name to be saved"):
            saved(tmp_path, score)
    assert not list(tmp_path.iterdir()), "nothing is half-written"


def test_nothing_is_imported(tmp_path):
    """A module that would leave a mark is named in the file; opening the file leaves none."""
    (tmp_path / "marking.py").write_text(
        "import pathlib\npathlib.Path('mark').touch()\ndef score(places):\n    return places.rank - places.u\n"
    )
    make = (
        "import marking, aptset, numpy as np\n"
        "p = np.random.default_rng(0).dirichlet([1, 1], size=30)\n"
        "aptset.calibrate(p, p.argmax(axis=1), conformity=marking.score).save('c')\n"
    )
    read = "import aptset\ntry:\n    aptset.load('c')\nexcept ValueError as error:\n    print(error)\n"
    trusting = "import aptset\nprint(aptset.load('c', trust=['marking']))\n"
    gone = "import aptset\nprint(aptset.load('c', trust=['marking']))\n"

    def run(code):
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run(make).returncode == 0
    (tmp_path / "mark").unlink()
    assert "trust=['marking']" in run(read).stdout
    assert not (tmp_path / "mark").exists()
    assert "Calibration(n=30, 2 classes, score)" in run(trusting).stdout
    assert (tmp_path / "mark").exists()
    (tmp_path / "marking.py").write_text("")
    assert "does not define (any more)" in run(gone).stderr
    (tmp_path / "marking.py").unlink()
    assert "cannot be imported" in run(gone).stderr
