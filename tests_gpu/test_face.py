"""A calibration answers tensors as it answers arrays, to the last bit, and where the tensors lie."""

import warnings
from dataclasses import replace
from importlib import metadata

import numpy as np
import pytest
import torch
from ugly_rows import as_tensor, labels_for, same, ugly_rows

import aptset
from aptset.calibration import device_rows, tensors
from aptset.core import devices
from aptset.kernels.engines.torch_rows import TORCH
from aptset.kernels.formula import Formula
from aptset.kernels.membership import masks
from aptset.kernels.rows import CALIBRATION, PREDICTION, Rows, label_scores
from aptset.kernels.softmax import exponential
from aptset.torch import TensorSets

P = ugly_rows(7, n_rows=60)
Y = labels_for(P)
NEW = ugly_rows(7, n_rows=40, seed=1)
GROUPS, NEW_GROUPS = np.arange(len(P)) % 3, np.arange(len(NEW)) % 4  # the last group was never seen
U, NEW_U = np.random.default_rng(0).random(len(P)), np.random.default_rng(1).random(len(NEW))
WEIGHTS, NEW_WEIGHTS = 0.5 + U, 0.5 + NEW_U
RATIOS = {label: 1.0 + label for label in range(7)}


def squared(places):
    """Score by a function alone: it goes through the host."""
    return 1.0 - (places.own / places.total) ** 2


# Settings of the calibration, and what then comes with the new rows.
CASES = {
    "plain": ({}, {}),
    "lac": ({"conformity": "lac"}, {}),
    "raps": ({"conformity": aptset.Regularized(0.1, 2)}, {}),
    "saps": ({"conformity": "saps"}, {}),
    "margin": ({"conformity": "margin"}, {}),
    "rank": ({"conformity": "topk"}, {}),
    "tempered": ({"conformity": aptset.Tempered(aptset.Adaptive(), 0.71875)}, {}),
    "sharper": ({"conformity": aptset.Tempered(aptset.SAPS(0.1), 2.5)}, {}),
    "function": ({"conformity": squared}, {}),
    "auto": ({"conformity": "auto"}, {}),
    "by label": ({"groups": "label"}, {}),
    "by band": ({"groups": aptset.LabelBands({0: "a", 1: "b", 2: "a", 3: "c", 4: "b", 5: "a", 6: "c"})}, {}),
    "one band": ({"groups": aptset.LabelBands(dict.fromkeys(range(7), 1))}, {}),
    "prevalence": ({"conformity": aptset.Prevalence({label: 3**label for label in range(7)})}, {}),
    "by row": ({"groups": GROUPS}, {"groups": NEW_GROUPS}),
    "not random": ({"randomized": False}, {}),
    "never empty": ({"allow_empty": False}, {}),
    "filled": ({}, {"allow_empty": False}),
    "ids": ({"ids": np.arange(len(P))}, {"ids": 10_000 + np.arange(len(NEW))}),
    "u": ({"u": U}, {"u": NEW_U}),
    "normalize": ({"normalize": True}, {}),
    "both": ({"normalize": True, "conformity": aptset.Tempered(aptset.Regularized(), 1.25), "groups": "label"}, {}),
    "weights": ({"weights": WEIGHTS}, {"weights": NEW_WEIGHTS}),
    "weights by label": ({"weights": WEIGHTS, "groups": "label"}, {"weights": NEW_WEIGHTS}),
    "label weights": ({"label_weights": RATIOS, "prior_correction": True}, {}),
    "pieces": ({"first_row": 4096}, {"first_row": 8192}),
}
ALPHAS = [0.1, 0.02, 0.3, 0.1]


@pytest.fixture(params=CASES)
def case(request):
    return request.param


def scaled(matrix, settings):
    """Return rows that need to be normalised, where they will be."""
    return matrix * (1.0 + np.arange(len(matrix)) % 7)[:, None] if settings.get("normalize") else matrix


def moved(arguments, device):
    """Let everything that comes with the rows be tensors, too."""
    arrays = {name: as_tensor(value, device) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    return arguments | arrays


@pytest.fixture
def pair(case, device):
    """Calibrate on arrays and on tensors; return both, the new rows twice, and what goes with them."""
    settings, asked = CASES[case]
    arrays = aptset.calibrate(scaled(P, settings), Y, random_state=5, **settings)
    rows = as_tensor(scaled(P, settings), device)
    made = aptset.calibrate(rows, as_tensor(Y, device), random_state=5, **moved(settings, device))
    new = scaled(NEW, settings)
    return arrays, made, new, as_tensor(new, device), asked, moved(asked, device)


@pytest.mark.filterwarnings("ignore:.*too few:UserWarning", "ignore:the weights leave|.* weigh more than:UserWarning")
def test_everything_is_the_same(pair, device):
    arrays, made, new, tensor, asked, on_device = pair
    assert np.array_equal(made.scores, arrays.scores)
    assert (made.parts, made.chance, made.first_rows) == (arrays.parts, arrays.chance, arrays.first_rows)
    of_p = {name: value for name, value in asked.items() if name != "allow_empty"}
    of_p_on_device = {name: value for name, value in on_device.items() if name != "allow_empty"}
    for calibration in (arrays, made):  # one made here serves there, and the other way round
        for alpha in ALPHAS[:3]:
            mask = calibration.predict_mask(tensor, alpha, **on_device)
            assert same(mask, arrays.predict_mask(new, alpha, **asked))
            assert (mask.device.type, mask.dtype) == (device, torch.bool)
        p_values = calibration.p_values(tensor, **of_p_on_device)
        assert same(p_values, arrays.p_values(new, **of_p))
        assert p_values.device.type == device
        expected = arrays.predict_set(new, ALPHAS, **asked)
        for found, wanted in zip(calibration.predict_set(tensor, ALPHAS, **on_device), expected, strict=True):
            assert isinstance(found, TensorSets)
            assert found.indices.device.type == device
            assert found.to("cpu") == wanted
        sets, p_values = calibration.sets_and_p_values(tensor, 0.1, **on_device)
        assert sets.to("cpu") == expected[0]
        assert same(p_values, arrays.p_values(new, **of_p))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool])
def test_types_are_widened(device, kind):
    matrix = torch.from_numpy(P if kind.is_floating_point else np.eye(7)[Y]).to(kind)
    wide = matrix.to(torch.float64).numpy()
    made = aptset.calibrate(matrix.to(device), Y, random_state=0)
    rows = Rows(wide, Formula(aptset.Adaptive().weights), made.key, 2e-2, side=CALIBRATION)
    assert np.array_equal(made.scores, np.sort(label_scores(rows, Y).scores))
    expected, _ = masks(replace(rows, side=PREDICTION), np.array([[made.threshold(0.1)]]))
    assert same(made.predict_mask(matrix.to(device), 0.1), expected)


def test_tensors_in_any_layout(device):
    calibration = aptset.calibrate(P, Y, random_state=0)
    wide = as_tensor(np.repeat(NEW, 2, axis=1), device)
    views = {"columns": as_tensor(np.asfortranarray(NEW).T.copy(), device).T, "steps": wide[:, ::2]}
    views["gradients"] = as_tensor(NEW, device).requires_grad_()
    for view in views.values():
        assert same(calibration.predict_mask(view, 0.2), calibration.predict_mask(NEW, 0.2))
        assert same(calibration.p_values(view), calibration.p_values(NEW))
        assert calibration.predict_set(view, 0.2).to("cpu") == calibration.predict_set(NEW, 0.2)
    one = calibration.predict_set(as_tensor(NEW[:1], device), 0.2, ids=["a"])
    assert one.to("cpu") == calibration.predict_set(NEW[:1], 0.2, ids=["a"])


def test_pieces_are_invisible(device, monkeypatch):
    """Rows that are prepared, or that come with thresholds of their own, are worked on in pieces."""
    many = np.concatenate([NEW] * 60)
    groups = np.arange(len(many)) % 3
    score = aptset.Tempered(aptset.Adaptive(), 0.5)
    calibration = aptset.calibrate(P, Y, groups=GROUPS, conformity=score, random_state=0)
    plain = aptset.calibrate(P, Y, groups=GROUPS, random_state=0)
    monkeypatch.setattr(device_rows, "_PREPARED_CELLS", 5000)
    monkeypatch.setattr(device_rows, "_SEEDED_ROWS", 4096)
    monkeypatch.setattr(tensors, "MOST_ROWS", 4096)
    monkeypatch.setattr(tensors, "_TAKEN_CELLS", 700)
    tensor = as_tensor(many, device)
    assert len(many) > 8192
    for one in (calibration, plain):
        assert same(one.predict_mask(tensor, 0.2, groups=groups), one.predict_mask(many, 0.2, groups=groups))
        assert same(one.p_values(tensor, groups=groups), one.p_values(many, groups=groups))
        found = one.predict_set(tensor, [0.1, 0.4], groups=groups)
        assert [some.to("cpu") for some in found] == one.predict_set(many, [0.1, 0.4], groups=groups)
    again = aptset.calibrate(tensor, labels_for(many), conformity=score, random_state=0)
    assert again.parts == aptset.calibrate(many, labels_for(many), conformity=score, random_state=0).parts


def test_logits(device):
    """The softmax has the same bits on every device, so all of the sets have."""
    logits = np.random.default_rng(0).normal(size=(len(Y), 7)).astype(np.float32) * 4
    logits[0, :3] = [-np.inf, 800.0, -800.0]
    logits[1:5] = logits[0]
    for settings in ({}, {"normalize": True, "groups": "label"}):
        made = aptset.calibrate(as_tensor(logits, device), Y, logits=True, random_state=0, **settings)
        expected = aptset.calibrate(logits, Y, logits=True, random_state=0, **settings)
        assert np.array_equal(made.scores, expected.scores)
        for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            tensor = torch.from_numpy(logits).to(kind)
            wide, there = tensor.to(torch.float64).numpy(), tensor.to(device)
            found = made.predict_mask(there, 0.2, logits=True)
            assert same(found, expected.predict_mask(wide, 0.2, logits=True))
            assert same(made.p_values(there, logits=True), expected.p_values(wide, logits=True))


def test_exponential_and_root_are_near_and_exact(device):
    values = -np.random.default_rng(0).random(20_000) * 750
    found = exponential(as_tensor(values, device), TORCH).cpu().numpy()
    assert np.array_equal(found, exponential(values))
    expected = np.where(values < -708, 0.0, np.exp(values))
    np.testing.assert_allclose(found, expected, rtol=4 * 2.0**-53, atol=0)
    x = np.random.default_rng(1).random(200_000) ** 5
    x = np.concatenate([x, x * 1e-290, x * 1e-315, 2.0 ** -np.arange(1074.0), [0.0, 1.0, 5e-324]])
    assert same(TORCH.sqrt(as_tensor(x, device)), np.sqrt(x))  # IEEE says to the last bit


WRONG = {
    "missing": (5, np.nan),
    "negative": (9, -0.5),
    "infinite": (11, np.inf),
    "no sum of 1": (0, 0.7),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("settings", [{}, {"normalize": True}, {"conformity": aptset.Tempered(aptset.Adaptive(), 0.5)}])
def test_bad_rows_are_explained_alike(device, wrong, settings):
    row, value = WRONG[wrong]
    bad = P.copy()
    bad[row, 3] = value
    if settings.get("normalize") and wrong == "no sum of 1":
        pytest.skip("such a row is divided by its sum")
    with pytest.raises(ValueError, match=f"row {row}") as of_arrays:
        aptset.calibrate(bad, Y, **settings)
    calibration = aptset.calibrate(P, Y, random_state=0, **settings)
    tensor = as_tensor(bad, device)
    for call in (
        lambda: aptset.calibrate(tensor, Y, **settings),
        lambda: calibration.predict_set(tensor),
        lambda: calibration.predict_mask(tensor),
        lambda: calibration.p_values(tensor),
    ):
        with pytest.raises(ValueError, match=f"row {row}") as of_tensors:
            call()
        assert str(of_tensors.value) == str(of_arrays.value)


def words(call, *arguments, **asked):
    """Return the words of an error."""
    with pytest.raises((ValueError, TypeError)) as error:
        call(*arguments, **asked)
    return str(error.value)


def test_errors_are_those_of_arrays(device):
    calibration = aptset.calibrate(P, Y, random_state=0)
    for wrong in (NEW[:0], NEW[0], NEW[:, :1], NEW[:, :5], NEW.astype(complex), NEW * 20 - 3):
        tensor = as_tensor(np.ascontiguousarray(wrong), device)
        assert words(calibration.predict_mask, tensor) == words(calibration.predict_mask, wrong)
    asked = [{"alpha": 1.5}, {"u": NEW_U}, {"first_row": 7}, {"groups": NEW_GROUPS}, {"logits": "no"}, {"ids": "x"}]
    for some in (*asked, {"logits": True}):
        tensor = as_tensor(NEW, device)
        assert words(calibration.predict_set, tensor, **some) == words(calibration.predict_set, NEW, **some)
    with pytest.raises(TypeError, match=r"dense matrix.*to_dense"):
        calibration.predict_mask(as_tensor(NEW, device).to_sparse())
    with pytest.raises(ValueError, match=r"within 0.02 for bfloat16"):
        calibration.predict_mask((as_tensor(NEW, device) * 1.1).to(torch.bfloat16))
    with pytest.raises(ValueError, match="labels must be among the classes"):
        aptset.calibrate(as_tensor(P, device), as_tensor(Y + 3, device))


def test_warnings_point_at_the_caller(device):
    calibration = aptset.calibrate(as_tensor(P[:5], device), Y[:5], random_state=0)
    for call in (calibration.predict_set, calibration.predict_mask):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(as_tensor(NEW, device), 0.01)
        assert [one.filename for one in caught] == [__file__]
        assert "too few" in str(caught[0].message)


def test_sets_on_a_device(device):
    letters = np.array(list("abcdefg"))
    calibration = aptset.calibrate(P, letters[Y], classes=letters, random_state=0)
    sets, expected = calibration.predict_set(as_tensor(NEW, device)), calibration.predict_set(NEW)
    names = letters[labels_for(NEW)]
    assert len(sets) == len(NEW)
    assert same(sets.sizes, expected.sizes)
    assert same(sets.mask, expected.mask)
    assert same(sets.covers(names), expected.covers(names))
    assert not sets.covers(["z"] * len(NEW)).any()
    about = f"{len(NEW)} rows, 7 classes, mean size {expected.sizes.mean():.3g}"
    assert repr(sets) == f"TensorSets: {about}, on {sets.device}"
    with pytest.raises(ValueError, match="one entry per row"):
        sets.covers(names[:3])
    numbered = aptset.calibrate(P, Y, random_state=0).predict_set(as_tensor(NEW, device))
    assert same(numbered.covers(as_tensor(labels_for(NEW), device)), expected.covers(names))
    assert not numbered.covers(torch.full((len(NEW),), 99, device=device)).any()
    with pytest.raises(AttributeError):
        sets.indptr = None


class Foreign:
    """An array of another library on a device, as DLPack shows it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_arrays_of_other_libraries(device, monkeypatch):
    if device == "cpu":
        monkeypatch.setattr(devices, "_CUDA", (1,))
    calibration = aptset.calibrate(Foreign(as_tensor(P, device)), Foreign(as_tensor(Y, device)), random_state=0)
    assert np.array_equal(calibration.scores, aptset.calibrate(P, Y, random_state=0).scores)
    found = calibration.predict_mask(Foreign(as_tensor(NEW, device)), 0.1)
    assert found.device.type == device
    assert same(found, calibration.predict_mask(NEW, 0.1))


def test_artefacts_know_no_device(device, tmp_path):
    pytest.importorskip("safetensors")
    pytest.importorskip("sklearn")
    if not list(metadata.Distribution.discover(name="aptset")):
        pytest.skip("aptset is not installed here, so files cannot say which version wrote them")
    aptset.calibrate(as_tensor(P, device), Y, random_state=0).save(tmp_path / "there")
    aptset.calibrate(P, Y, random_state=0).save(tmp_path / "here")
    there, here = aptset.load(tmp_path / "there"), aptset.load(tmp_path / "here")
    assert np.array_equal(there.scores, here.scores)
    assert (there.key, there.parts, there.chance, there.first_rows) == (
        here.key,
        here.parts,
        here.chance,
        here.first_rows,
    )
    assert same(there.predict_mask(as_tensor(NEW, device)), here.predict_mask(NEW))


def test_groups_that_overlap(device):
    """Thresholds by row, for rows in several groups; there are no p-values."""
    flags, new = (np.arange(n)[:, None] % [2, 3] == 0 for n in (len(P), len(NEW)))
    groups = aptset.Overlapping(flags)
    made = aptset.calibrate(as_tensor(P, device), torch.tensor(Y), groups=groups, random_state=0)
    expected = aptset.calibrate(P, Y, groups=groups, random_state=0)
    rows = as_tensor(NEW, device)
    assert same(made.predict_mask(rows, 0.2, groups=torch.tensor(new)), expected.predict_mask(NEW, 0.2, groups=new))
    alphas = [0.2, 0.3]
    found, wanted = made.predict_set(rows, alphas, groups=new), expected.predict_set(NEW, alphas, groups=new)
    assert all(same(mine.mask, theirs.mask) for mine, theirs in zip(found, wanted, strict=True))
