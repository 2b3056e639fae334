"""Odd values of every argument: one clear error that names it, or the right answer; never a guess."""

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import aptset

P = np.random.default_rng(0).dirichlet(np.ones(3), size=40)
Y = P.argmax(axis=1)
NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("value", ["no", 1, 0, None, "False", 1.0])
def test_flags_are_true_or_false(value, tmp_path):
    for name in ("randomized", "allow_empty", "normalize", "logits"):
        with pytest.raises(TypeError, match=f"{name} must be True or False; got {value!r}"):
            aptset.calibrate(P, Y, **{name: value})
        if name != "logits":
            with pytest.raises(TypeError, match=f"{name} must be True or False"):
                aptset.calibrate_cv(P, Y, np.arange(40) % 4, **{name: value})
    calibration = aptset.calibrate(P, Y)
    for name in ("normalize", "logits") if value is not None else ("logits",):
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            calibration.predict_set(P, **{name: value})
    for name in ("randomized", "allow_empty", "progress"):
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            aptset.ConformalClassifier(GaussianNB(), **{name: value}).fit(P, Y)
    if value is not None:
        with pytest.raises(TypeError, match=r"allow_empty must be True or False"):
            calibration.predict_set(P, allow_empty=value)


def test_flags_of_numpy_are_saved_as_what_load_reads(tmp_path):
    made = aptset.calibrate(P, Y, randomized=np.bool_(False), allow_empty=np.bool_(True), random_state=0)
    made.save(tmp_path / "c")
    assert aptset.load(tmp_path / "c").randomized is False


def test_masked_entries_are_not_there():
    masked = np.ma.array(Y, mask=Y == 1)
    u = np.ma.array(np.full(40, 0.5), mask=Y == 1)
    calls = {
        "labels": lambda: aptset.calibrate(P, masked),
        "u": lambda: aptset.calibrate(P, Y, u=u),
        "classes": lambda: aptset.calibrate(P, Y, classes=np.ma.array([0, 1, 2], mask=[0, 0, 1])),
        "folds": lambda: aptset.calibrate_cv(P, Y, masked),
        "y": lambda: aptset.ConformalClassifier(GaussianNB()).fit(P, masked),
        "mask": lambda: aptset.PredictionSets.from_mask(np.ma.array(P > 0.3, mask=P > 0.5)),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name} must have no masked entries"):
            call()
    with pytest.raises(ValueError, match=r"u must have no masked"):
        aptset.calibrate(P, Y).predict_set(P, u=u)
    aptset.calibrate(P, np.ma.array(Y), u=np.ma.array(np.full(40, 0.5)))  # nothing is masked


def test_a_data_frame_never_goes_by_position():
    frame = pd.DataFrame(P, columns=["x", "y", "z"])
    with pytest.raises(
        ValueError, match=r"must have the columns \['a', 'b', 'c'\], the classes; got \['x'.*pass an array"
    ):
        aptset.calibrate(frame, np.array(NAMES)[Y], classes=NAMES)
    shuffled = pd.DataFrame(P, columns=NAMES)[["c", "a", "b"]]
    by_name = aptset.calibrate(shuffled, np.array(NAMES)[Y], classes=NAMES, random_state=0)
    assert by_name.scores.tolist() == aptset.calibrate(P, Y, random_state=0).scores.tolist()


def test_groups_that_are_none():
    for groups in (5, 2.5, b"x"):
        with pytest.raises(TypeError, match=f"groups must be None, 'label' or 1-D, .* got {groups!r}"):
            aptset.calibrate(P, Y, groups=groups)
    with pytest.raises(TypeError, match=r"groups must hold one plain value per row"):
        aptset.calibrate(P, Y, groups=[bytearray(b"x")] * 40)
    odd = aptset.calibrate(P, Y, groups=[Decimal("sNaN"), None] * 20)
    assert odd.held_out.groups.names == (None,), "a signalling NaN is missing, like any NaN"


def test_values_that_cannot_be_looked_up():
    objects = np.empty(3, dtype=object)
    objects[:] = [[1], [2], [3]]
    with pytest.raises(TypeError, match=r"classes must be texts, .* got \[1\] in row 0"):
        aptset.calibrate(P, Y, classes=objects)
    labels = np.empty(40, dtype=object)
    labels[:] = [{"k": 1}] * 40
    with pytest.raises(TypeError, match=r"labels must be texts, .* got {'k': 1} in row 0"):
        aptset.calibrate(P, labels)
    with pytest.raises(TypeError, match=r"labels must be texts"):
        aptset.calibrate(P, [Decimal("sNaN")] * 40)
    with pytest.raises(ValueError, match=r"labels must be 1-D, one label per row; got rows of different lengths"):
        aptset.calibrate(P, [[0], [1, 2]] * 20)


def test_missing_labels_and_classes():
    for classes in ([0.0, np.nan, 1.0], [None, pd.NA, "a"], ["a", "b", Decimal("NaN")]):
        with pytest.raises(ValueError, match=r"classes must not be missing"):
            aptset.calibrate(P, Y, classes=classes)
    for labels in (pd.array([True, None] * 20, dtype="boolean"), pd.array([0, None] * 20, dtype="Int64")):
        with pytest.raises(ValueError, match=r"labels must be among the classes .* got (<NA>|nan) in row 1"):
            aptset.calibrate(P, labels)
    frame = pd.DataFrame({"a": pd.array([True, None], dtype="boolean"), "b": pd.array([False, True], dtype="boolean")})
    with pytest.raises(ValueError, match=r"must be finite; got nan in row 1, column 0"):
        aptset.calibrate(frame, ["a", "b"])


def test_large_whole_numbers_are_not_rounded():
    near = [2**53, 2**53 + 1, 2**53 + 2]
    labels = np.array([near[k] for k in Y], dtype=np.uint64)
    for classes in (np.array(near, dtype=np.int64), near):
        found = aptset.calibrate(P, labels, classes=classes, random_state=0)
        assert found.scores.tolist() == aptset.calibrate(P, Y, random_state=0).scores.tolist()
    with pytest.raises(ValueError, match=r"got 9007199254740995 in row 0"):
        aptset.calibrate(P, np.full(40, 2**53 + 3, dtype=np.uint64), classes=np.array(near, dtype=np.int64))
    with pytest.raises(ValueError, match=r"among the classes"):
        aptset.calibrate(P, np.full(40, 2**53 + 1), classes=np.array([2.0**53, 2.0**53 + 2, 2.0**53 + 4]))


def test_texts_that_end_in_a_zero_are_not_cut(tmp_path):
    with pytest.raises(ValueError, match=r"got 'b\\x00' in row 0"):
        aptset.calibrate(P, ["b\0"] * 40, classes=NAMES)
    made = aptset.calibrate(P, ["b\0"] * 40, classes=["b", "b\0", "c"], random_state=0)
    made.save(tmp_path / "c")
    assert aptset.load(tmp_path / "c").classes.tolist() == ["b", "b\0", "c"]
    assert made.scores.tolist() == aptset.calibrate(P, [1] * 40, random_state=0).scores.tolist()


def test_levels_that_signal():
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\); got sNaN"):
        aptset.calibrate(P, Y).predict_set(P, Decimal("sNaN"))
    for alpha, within in ((1e-300, 0.01), (0.1, 1e-30)):
        with pytest.raises(ValueError, match=r"alpha must be .* fewer than 2.50 calibration samples"):
            aptset.calibration_size(alpha, within)


def test_labels_of_a_classifier():
    X = P
    model = aptset.ConformalClassifier(GaussianNB())
    with pytest.raises(
        TypeError, match=r"estimator must be a model, not its class; got the class GaussianNB. Pass GaussianNB\(\)"
    ):
        aptset.ConformalClassifier(GaussianNB).fit(X, Y)
    for y in (np.where(Y == 1, np.nan, Y), np.array([*Y[:-1], None], dtype=object), pd.Series([0, 1, None, 1] * 10)):
        with pytest.raises(ValueError, match=r"y must have no missing labels .* in row"):
            model.fit(X, y)
    for y in (np.eye(3, dtype=int)[Y], [[0, 1], [1]] * 20, pd.DataFrame({"a": Y, "b": Y})):
        with pytest.raises(
            ValueError, match=r"y must be 1-D, one label per row; got shape .* one ConformalClassifier for each"
        ):
            model.fit(X, y)
    with pytest.raises(ValueError, match=r"n_jobs must be None, a positive whole number"):
        aptset.ConformalClassifier(GaussianNB(), n_jobs=0).fit(X, Y)


LOGITS = np.random.default_rng(1).normal(size=(40, 3)) * 4


def test_logits_are_recognised_and_taken_on_request():
    softmax = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    message = "These look like logits: apply softmax, or pass logits=True"
    calibration = aptset.calibrate(LOGITS, Y, logits=True, random_state=0)
    for call in (
        lambda: aptset.calibrate(LOGITS, Y),
        lambda: calibration.predict_set(LOGITS),
        lambda: aptset.calibrate(np.log(P), Y),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    fixed = {"u": np.full(40, 0.5)}
    of_logits, of_softmax = aptset.calibrate(LOGITS, Y, logits=True, **fixed), aptset.calibrate(softmax, Y, **fixed)
    np.testing.assert_allclose(of_logits.scores, of_softmax.scores, rtol=1e-12)
    found = of_logits.predict_set(LOGITS, 0.2, logits=True, **fixed)
    assert found == of_logits.predict_set(softmax, 0.2, **fixed)
    huge = of_logits.p_values([[1e308, -1e308, -np.inf]], logits=True, u=[0.5])
    assert np.isfinite(huge).all()
    for call in (lambda: aptset.calibrate(P, Y, logits=True), lambda: calibration.predict_mask(P, logits=True)):
        with pytest.raises(ValueError, match=r"every row sums to 1 already. Drop logits=True"):
            call()
    one_broken = P.copy()
    one_broken[3, 0] = -0.5
    with pytest.raises(ValueError, match=r"Correct such rows first"):
        aptset.calibrate(one_broken, Y)


class Tensor:
    """Stands in for a tensor of torch: on a device, with gradients, in a type that numpy does not have."""

    def __init__(self, values, state=("gradient", "device", "bfloat16")):
        self.values, self.state, self.shape = np.asarray(values), state, np.shape(values)
        self.dtype = "torch.bfloat16" if "bfloat16" in state else "torch.float32"

    def without(self, name):
        return Tensor(self.values, tuple(part for part in self.state if part != name))

    def detach(self):
        return self.without("gradient")

    def cpu(self):
        return self.without("device")

    def float(self):
        return self.without("bfloat16")

    def __array__(self, dtype=None, copy=None):
        if self.state:
            raise RuntimeError(f"cannot become an array with {self.state}")
        return self.values.astype(np.float32 if self.values.dtype.kind == "f" else self.values.dtype)


def test_tensors_of_any_device_and_type():
    u = np.full(40, 0.5)
    expected = aptset.calibrate(P.astype(np.float32), Y, u=u)
    made = aptset.calibrate(Tensor(P), Tensor(Y, ("device",)), u=Tensor(u))
    assert made.scores.tolist() == expected.scores.tolist()
    assert made.predict_set(Tensor(P), u=Tensor(u)) == expected.predict_set(P.astype(np.float32), u=u)


def test_rough_tensors_are_taken_on_every_road():
    """Rows of bfloat16 sum to 1 within 0.02; a road that forgets what they came as refuses them."""
    rough = Tensor(P * 1.01)
    cross = aptset.calibrate_cv(rough, Y, np.arange(40) % 4, random_state=0)
    assert cross.predict_set([rough] * 4).sizes.sum() > 0
    assert aptset.adaptive_scores(rough, Y).shape == (40,)
    assert len(aptset.oracle_sets(rough, 0.1)) == 40
    assert aptset.label_ratios(rough, Y, rough).keys() == set(Y)
    assert aptset.calibrate(rough, Y).predict_mask(rough).shape == P.shape
    with pytest.raises(ValueError, match=r"fold 0 must have rows that sum to 1 \(within 0\.02 for bfloat16\)"):
        cross.predict_set([Tensor(P * 1.1)] * 4)


@pytest.mark.parametrize(
    ("package", "code", "words"),
    [
        ("pandas", "aptset.PredictionSets.of([['a']]).to_frame()", "pip install 'aptset[frames]'"),
        ("pyarrow", "aptset.PredictionSets.of([['a']]).to_frame('pyarrow')", "pip install 'aptset[cli]'"),
        ("polars", "aptset.PredictionSets.of([['a']]).to_frame('polars')", "pip install polars"),
        ("matplotlib", "aptset.evaluate([['a'], ['b']], ['a', 'b']).plot().draw()", "pip install 'aptset[plots]'"),
        ("onnx", "import aptset.onnx", "pip install 'aptset[onnx]'"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package, code, words):
    hide = (
        "import importlib.util as u\nreal = u.find_spec\n"
        f"u.find_spec = lambda name, *more: None if name == {package!r} else real(name, *more)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{hide}import aptset\n{code}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert words in done.stderr
