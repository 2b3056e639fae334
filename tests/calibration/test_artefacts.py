"""Artefacts: they come back whole, or not at all."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import aptset


def data(n=120, seed=0, n_classes=3):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(n_classes), size=n)
    return p, (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)


P, Y = data()
NAMES = {
    "strings": ["ant", "bee", "naïve ☃"],
    "ints": [3, -1, 7],
    "floats": [0.5, 1.0, -2.0],
    "mixed": [1, "one", None],
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("groups", [None, "label", "rows"])
@pytest.mark.parametrize("conformity", ["adaptive", "homogeneous", aptset.Regularized(0.1, 2)], ids=str)
def test_round_trip(tmp_path, kind, groups, conformity):
    names = NAMES[kind]
    by = np.where(P[:, 0] > 0.3, "x", "y") if groups == "rows" else groups
    options = {"classes": names, "groups": by, "conformity": conformity, "randomized": kind != "ints"}
    calibration = aptset.calibrate(P, [names[k] for k in Y], random_state=5, allow_empty=False, **options)
    calibration.save(tmp_path / "cal.aptset")
    again = aptset.load(tmp_path / "cal.aptset")
    new, _ = data(seed=1)
    more = {"groups": ["x"] * len(new)} if groups == "rows" else {}
    assert again.predict_set(new, [0.2, 0.4], **more) == calibration.predict_set(new, [0.2, 0.4], **more)
    assert type(again.classes.tolist()[0]) is type(names[0])
    assert repr(again) == repr(calibration)
    assert again.threshold(0.2) == calibration.threshold(0.2)


def test_column_names_survive(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(P, columns=["a", "b", "c"])
    aptset.calibrate(frame[["b", "c", "a"]], np.array(["a", "b", "c"])[Y], random_state=0).save(tmp_path / "c")
    again = aptset.load(tmp_path / "c")
    assert again.columns.tolist() == ["b", "c", "a"]
    assert again.predict_set(frame[["c", "a", "b"]]) == again.predict_set(frame)


def test_labels_and_scores_that_cannot_be_written(tmp_path):
    dates = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], dtype="datetime64[D]").astype(object)
    with pytest.raises(TypeError, match="must be texts, numbers"):
        aptset.calibrate(P, dates[Y], classes=dates).save(tmp_path / "c")

    class Own:
        weights = aptset.Adaptive().weights

    with pytest.raises(TypeError, match="to be saved"):
        aptset.calibrate(P, Y, conformity=Own()).save(tmp_path / "c")
    assert not list(tmp_path.iterdir()), "nothing is half-written"


def test_merged_shards_are_the_whole():
    whole = aptset.calibrate(P, Y, random_state=3)
    parts = [aptset.calibrate(P[some], Y[some], random_state=3) for some in np.array_split(np.arange(120), 4)]
    merged = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    np.testing.assert_array_equal(merged.scores, whole.scores)
    assert merged.n == 120
    assert merged.predict_set(P) == whole.predict_set(P)
    for groups in ("label", np.where(P[:, 0] > 0.3, "x", "y")):
        some = [groups, groups] if isinstance(groups, str) else [groups[:50], groups[50:]]
        new = {} if isinstance(groups, str) else {"groups": groups}
        whole = aptset.calibrate(P, Y, groups=groups, random_state=3)
        left, right = (
            aptset.calibrate(P[rows], Y[rows], groups=of, random_state=3)
            for rows, of in zip((slice(50), slice(50, None)), some, strict=True)
        )
        assert left.merge(right).predict_set(P, 0.3, **new) == whole.predict_set(P, 0.3, **new)


def test_only_like_calibrations_merge():
    one = aptset.calibrate(P, Y, random_state=3)
    others = {
        "key": aptset.calibrate(P, Y, random_state=4),
        "score": aptset.calibrate(P, Y, random_state=3, conformity="homogeneous"),
        "randomized": aptset.calibrate(P, Y, random_state=3, randomized=False),
        "classes": aptset.calibrate(P, Y + 1, classes=[1, 2, 3], random_state=3),
        "kind of groups": aptset.calibrate(P, Y, groups="label", random_state=3),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"differs in .*{name}"):
            one.merge(other)


def test_a_kill_while_writing_leaves_the_old_file(tmp_path):
    """Kill -9 a process that saves again and again, many times over: the file is always whole."""
    path = tmp_path / "cal.aptset"
    aptset.calibrate(P, Y, random_state=0).save(path)
    code = (
        "import sys, numpy as np, aptset\n"
        "p = np.random.default_rng(0).dirichlet(np.ones(3), size=200_000)\n"
        "c = aptset.calibrate(p, p.argmax(axis=1), random_state=0)\n"
        "print('ready', flush=True)\n"
        "while True: c.save(sys.argv[1])\n"
    )
    sizes = set()
    for delay in (0.0, 0.003, 0.01, 0.02, 0.05):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        subprocess.run(["sleep", str(delay)], check=True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        sizes.add(aptset.load(path).n)
    assert sizes <= {120, 200_000}


def test_texts_that_no_file_can_hold(tmp_path):
    with pytest.raises(TypeError, match="must be texts, numbers"):
        aptset.calibrate(P, Y, groups=["\ud800"] * 120).save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_merge_is_linear_in_the_groups():
    """16 times the groups: far less than 16 x 16 times the time."""
    from dataclasses import replace
    from time import process_time

    seconds = []
    for n in (5_000, 80_000):
        p = np.random.default_rng(0).dirichlet(np.ones(2), size=n)
        made = aptset.calibrate(p, p.argmax(axis=1), groups=np.arange(n), random_state=0)
        start = process_time()
        assert made.merge(replace(made, parts=())).n == 2 * n
        seconds.append(process_time() - start)
    assert seconds[1] < 80 * max(seconds[0], 0.005), seconds
