"""How a layer is calibrated: loaders, models, what is refused, several processes."""

import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
import torch
from ranks import calibrate, shard
from torch import multiprocessing, nn

import aptset
from aptset.torch import SetLayer, calibrating

X = torch.randn(400, 4, generator=torch.Generator().manual_seed(0)) * 2
Y = X.argmax(dim=1)
BATCHES = [(X[:150], Y[:150]), (X[150:], Y[150:])]


class Odd(nn.Module):
    """A model with modes of its own in its parts, and an output like those of transformers."""

    def __init__(self):
        super().__init__()
        self.frozen, self.dropout = nn.BatchNorm1d(4).eval(), nn.Dropout(0.5)
        self.modes = []

    def forward(self, x):
        self.modes.append((self.training, self.dropout.training, torch.is_grad_enabled()))
        self.logits = self.dropout(self.frozen(x))
        return self


@pytest.mark.parametrize("weighed", [{"weights": np.ones(400)}, {"label_weights": dict.fromkeys(range(4), 1.0)}])
def test_a_calibration_with_weights_is_no_layer(weighed):
    calibration = aptset.calibrate(torch.softmax(X, dim=1), Y, **weighed)
    with pytest.raises(ValueError, match="a layer has thresholds that are the same for all rows"):
        SetLayer.of(calibration)


def test_the_model_is_left_as_it_was():
    model = Odd().train()
    model.frozen.eval()
    SetLayer.calibrate(model, BATCHES, random_state=0)
    assert model.modes == [(False, False, False)] * 2
    assert (model.training, model.dropout.training, model.frozen.training) == (True, True, False)
    assert torch.is_grad_enabled()
    with pytest.raises(ValueError, match="labels must be among"):
        SetLayer.calibrate(model, [(X, Y + 1)])
    assert (model.training, model.dropout.training, model.frozen.training) == (True, True, False)


@pytest.mark.parametrize(
    ("model", "batches", "words"),
    [
        (nn.Identity(), [], "loader must give at least one batch"),
        (nn.Identity(), [X], "pairs.*batch 0 is a Tensor"),
        (nn.Identity(), [BATCHES[0], (X, Y, Y)], "pairs.*batch 1 is a tuple with 3 parts"),
        (nn.Identity(), [(X, Y[:7])], "one label per row; batch 0 has 7 labels.*400 rows"),
        (nn.Flatten(0), BATCHES, r"logits of shape \(rows, classes\); batch 0 gave shape \(600,\)"),
        (lambda x: "no", BATCHES, "batch 0 gave a str"),
        (nn.Softmax(dim=1), BATCHES, "Drop logits=True"),
        (nn.Identity(), [(X, Y - 1)], "labels must be among the classes.*got -1"),
        (nn.Identity(), [(X * torch.nan, Y)], "row 0"),
        (nn.Identity(), [(X, ["cat"] * 400)], "labels as column numbers; batch 0 has list"),
        (nn.Identity(), [(X, Y[:, None])], "labels must be 1-D"),
    ],
    ids=["empty", "no pair", "three", "labels", "flat", "text", "softmax", "unknown", "missing", "names", "columns"],
)
def test_what_a_loader_must_give(model, batches, words):
    with pytest.raises((ValueError, TypeError), match=words):
        SetLayer.calibrate(model, batches)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 1.5}, "alpha must be in"),
        ({"groups": "row"}, "groups must be None or 'label' in a layer"),
        ({"conformity": lambda places: places.own}, "must have weights to be used in a layer"),
        ({"conformity": "auto"}, "conformity must name a score"),
        ({"classes": ["a"]}, "classes must name each of the 4 columns"),
        ({"random_state": -1}, "random_state"),
        ({"progress": "yes"}, "progress must be True or False"),
    ],
)
def test_settings_that_a_layer_cannot_have(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        SetLayer.calibrate(nn.Identity(), BATCHES, **settings)


def test_calibrations_that_cannot_be_a_layer():
    p, y = torch.softmax(X, dim=1), Y
    with pytest.raises(ValueError, match="groups must be None or 'label' in a layer"):
        SetLayer.of(aptset.calibrate(p, y, groups=Y))
    with pytest.raises(ValueError, match="must draw its own u"):
        SetLayer.of(aptset.calibrate(p, y, u=np.random.default_rng(0).random(400)))
    with pytest.warns(UserWarning, match="too few for alpha=0.001") as caught:
        SetLayer.of(aptset.calibrate(p, y), 0.001)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="too few for alpha=0.001") as caught:
        SetLayer.calibrate(nn.Identity(), BATCHES, alpha=0.001)
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="n_classes must be"):
        SetLayer(1)
    layer = SetLayer.of(aptset.calibrate(p, y, random_state=0))
    with pytest.raises(ValueError, match=r"shape \(rows, 4\).*got \(400, 3\)"):
        layer(X[:, :3])
    assert repr(layer) == "SetLayer(4 classes, alpha=0.1, Adaptive())"


def test_names_of_classes_are_for_people():
    layer = SetLayer.calibrate(nn.Identity(), BATCHES, classes=list("abcd"), random_state=0)
    assert layer.sets(torch.tensor([[9.0, 0.0, 0.0, 0.0]]))[0].tolist() in (["a"], [])
    assert layer.calibration.classes.tolist() == list("abcd")


def test_long_loaders_are_calibrated_in_chunks(monkeypatch):
    """Outputs are held for a bounded number of rows; copies are those of all rows together."""
    logits = X[torch.randint(0, 400, (9500,), generator=torch.Generator().manual_seed(1))]
    labels = logits.argmax(dim=1)
    batches = list(zip(logits.split(777), labels.split(777), strict=True))
    monkeypatch.setattr(calibrating, "_CHUNK_ROWS", 4096)
    layer = SetLayer.calibrate(nn.Identity(), batches, random_state=7)
    seed = int(np.random.default_rng(7).integers(2**63))
    at_once = aptset.calibrate(logits, labels, logits=True, random_state=seed)
    assert np.array_equal(layer.calibration.scores, at_once.scores)
    assert sum(layer.calibration.parts) % 2**64 == sum(at_once.parts)
    assert layer.calibration.first_rows == (0, 4096, 8192)
    assert layer.calibration.chance.copies == pytest.approx(at_once.chance.copies, rel=1e-12)


class Noted:
    """A bar that remembers what it was told."""

    made: ClassVar[list] = []

    def __init__(self, total, label, enabled, unit):
        self.told, self.closed = [total, label, enabled], False
        self.made.append(self)

    def advance(self, units):
        self.told.append(units)

    def close(self):
        self.closed = True


def test_a_bar_shows_how_far_it_is(monkeypatch):
    monkeypatch.setattr(calibrating, "Bar", Noted)
    SetLayer.calibrate(nn.Identity(), BATCHES)
    SetLayer.calibrate(nn.Identity(), iter(BATCHES), progress=False)
    with pytest.raises(ValueError, match="labels must be among"):
        SetLayer.calibrate(nn.Identity(), [(X, Y + 1)])
    assert [bar.told for bar in Noted.made[:2]] == [[2, "calibrating", True, 1, 1], [None, "calibrating", False, 1, 1]]
    assert all(bar.closed for bar in Noted.made)


@pytest.mark.filterwarnings("ignore")  # torch's own
def test_whoever_loads_an_exported_model_needs_torch_alone(tmp_path):
    layer = SetLayer.calibrate(nn.Identity(), BATCHES, conformity="raps", random_state=0)
    rows = {0: torch.export.Dim("rows", min=1)}
    torch.export.save(torch.export.export(nn.Sequential(layer), (X,), dynamic_shapes=(rows,)), tmp_path / "model.pt2")
    torch.save((X[:50], layer(X[:50])), tmp_path / "pair.pt")
    code = f"""
import sys, torch
x, mask = torch.load({str(tmp_path / "pair.pt")!r})
assert torch.equal(torch.export.load({str(tmp_path / "model.pt2")!r}).module()(x), mask)
assert "aptset" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def run_ranks(folder, fails):
    multiprocessing.spawn(calibrate, args=(2, str(folder), fails), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_ranks_calibrate_their_shards_and_agree(tmp_path):
    one, other = run_ranks(tmp_path, fails=False)
    assert one.keys() == other.keys()
    for name in ("threshold_bits", "key", "settings", "scores"):
        assert torch.equal(one[name], other[name]), name
    assert one["n"] == other["n"] == 650
    assert one["warnings"] == other["warnings"], "each rank says the same"
    assert all("a layer sees no ids" in words for words in one["warnings"]), "nothing about equal shards"
    # The same as both shards on one process, each with rows numbered from a place of its own; the first rank's key.
    seed = int(np.random.default_rng(5).integers(2**63))
    first, second = (
        aptset.calibrate(*shard(rank), logits=True, random_state=seed, first_row=rank * 2**40) for rank in range(2)
    )
    assert np.array_equal(one["scores"].numpy(), first.merge(second).scores)
    assert len(one["scores"].unique()) > 600, "copies on different ranks must not share their randomness"


def test_all_ranks_fail_if_one_does(tmp_path):
    for words in run_ranks(tmp_path, fails=True):
        assert "calibration failed on 1 of 2 ranks; rank 1: ValueError: labels must be among the classes" in words
