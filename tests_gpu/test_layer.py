"""A layer gives the masks of its calibration: eager, compiled, exported, moved, halved, saved and loaded."""

import copy
import os
import shutil

import numpy as np
import pytest
import torch
from torch import nn
from ugly_rows import labels_for, same, ugly_rows

import aptset
from aptset.torch import SetLayer, TensorSets

K = 6
GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(700, K, generator=GENERATOR) * 3
CHANCE = torch.rand(700, K, generator=GENERATOR)
LABELS = (LOGITS - torch.log(-torch.log(CHANCE))).argmax(dim=1)  # drawn by the softmax of the logits
NEW = torch.randn(90, K, generator=GENERATOR) * 3
STEEP = torch.tensor([[50.0, -800.0, 0.0, 0.0, -900.0, -torch.inf]])
NEW = torch.cat([NEW, NEW[:20], NEW[:20], torch.zeros(4, K), STEEP])
ROUGH = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)  # torch's

SETTINGS = {
    "plain": {},
    "levels": {"alpha": [0.1, 0.3, 0.02]},
    "by label": {"groups": "label", "alpha": [0.2, 0.4]},
    "raps": {"conformity": aptset.Regularized(0.1, 1)},
    "saps": {"conformity": "saps", "allow_empty": False, "alpha": 0.5},
    "margin": {"conformity": "margin"},
    "tempered": {"conformity": aptset.Tempered(aptset.Adaptive(), 0.71875)},
    "not random": {"randomized": False},
    "normalize": {"normalize": True},
}


def layer_for(device, **settings):
    batches = [(LOGITS[start : start + 200], LABELS[start : start + 200]) for start in range(0, 700, 200)]
    where = nn.Linear(K, K, bias=False).to(device)
    nn.init.eye_(where.weight)  # so that there is a model on the device
    return SetLayer.calibrate(where, batches, random_state=3, **settings)


def expected(layer, logits):
    masks = [layer.calibration.predict_mask(logits, float(alpha), logits=True) for alpha in layer.alphas]
    return torch.stack(masks) if layer.threshold_bits.shape[0] > 1 else masks[0]


@pytest.fixture(params=SETTINGS)
def layer(request, device):
    return layer_for(device, **SETTINGS[request.param])


def test_masks_and_sets_are_those_of_the_calibration(layer, device):
    new = NEW.to(device)
    found = layer(new)
    assert (found.dtype, found.device.type) == (torch.bool, device)
    assert torch.equal(found, expected(layer, new))
    assert layer(new[:0]).shape == found[..., :0, :].shape
    sets = layer.sets(new)
    none = layer.sets(new[:0])
    assert len(none[0] if isinstance(none, list) else none) == 0
    for one, alpha in zip(sets if isinstance(sets, list) else [sets], layer.alphas, strict=True):
        wanted = layer.calibration.predict_set(new, float(alpha), logits=True)
        assert isinstance(one, TensorSets) == (device == "cuda")
        assert (one.to("cpu") if device == "cuda" else one) == wanted.to("cpu")


def test_calibrating_in_batches_is_calibrating_at_once(layer, device):
    at_once = aptset.calibrate(
        LOGITS.to(device),
        LABELS,
        logits=True,
        random_state=int(np.random.default_rng(3).integers(2**63)),
        conformity=layer.conformity,
        groups="label" if layer.by_label else None,
        randomized=layer.randomized,
        allow_empty=layer.allow_empty,
        normalize=layer.normalize,
    )
    assert np.array_equal(layer.calibration.scores, at_once.scores)
    assert layer.calibration.parts == at_once.parts


def exported(layer, rows):
    some = {"inputs": {0: torch.export.Dim("rows", min=1, max=2**31)}}
    return torch.export.export(layer, (rows,), dynamic_shapes=some).module()


def check_graph(graph, layer, new):
    """Compare a graph with the layer, also on rows that no set can be right about."""
    bad = new.clone()
    bad[[30, 40], 1] = torch.tensor([torch.nan, torch.inf], device=new.device)
    for some in (new, new[:7]):
        assert torch.equal(graph(some), layer(some))
    masks = graph(bad)
    assert masks[..., [30, 40], :].all(), "a graph cannot raise: such a set holds every label"
    is_good = bad.isfinite().all(dim=1) | (bad == -torch.inf).any(dim=1)
    assert torch.equal(masks[..., is_good, :], layer(new)[..., is_good, :])
    with pytest.raises(ValueError, match=r"inputs must be finite.*row 30"):
        layer(bad)


@ROUGH
@pytest.mark.parametrize("name", ["by label", "saps", "tempered", "not random"])
def test_an_exported_graph_gives_the_same(device, name):
    layer = layer_for(device, **SETTINGS[name])
    graph = exported(layer, NEW.to(device))
    check_graph(graph, layer, NEW.to(device))
    assert torch.equal(graph(NEW[5:6].to(device)), layer(NEW[5:6].to(device)))


@ROUGH
def test_a_compiled_graph_gives_the_same(device):
    torch.compiler.reset()
    layer = layer_for(device, **SETTINGS["levels"])
    check_graph(torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True), layer, NEW.to(device))


@ROUGH
def test_copies_in_a_graph(device):
    """Copies are counted in blocks of 4,096 rows of a batch, in a graph, too."""
    layer = layer_for(device)
    many = NEW.to(device)[torch.randint(0, len(NEW), (9000,), generator=torch.Generator().manual_seed(1)).to(device)]
    assert torch.equal(exported(layer, NEW.to(device))(many), layer(many))
    assert torch.equal(layer(many), layer.calibration.predict_mask(many, 0.1, logits=True))


@ROUGH
def test_saturated_logits_are_told_apart(device):
    """Distinct logits with the softmax (1, 0, 0): u comes from the logits, in any batch, in a graph, on the host."""
    logits = torch.stack([torch.arange(900.0, 1200.0), torch.zeros(300), -torch.arange(300.0)], dim=1).to(device)
    labels = (torch.rand(300, generator=torch.Generator().manual_seed(0)) < 0.3).long()
    layer = SetLayer.calibrate(nn.Identity(), [(logits, labels)], random_state=0)
    masks = layer(logits)
    assert layer.calibration.chance.copies == 0
    assert 10 < masks[:, 1].sum() < 290, "each row has u of its own"
    assert torch.equal(torch.cat([layer(logits[row : row + 1]) for row in range(300)]), masks)
    assert torch.equal(exported(layer, logits)(logits), masks)
    for rows in (logits.cpu(), logits.cpu().numpy(), logits.cpu().to(torch.float64)):
        on_host = layer.calibration.predict_mask(rows, 0.1, logits=True)
        assert torch.equal(torch.as_tensor(on_host), masks.cpu())


def test_a_layer_of_many_copies_warns(device):
    logits, labels = torch.tensor([[2.0, 1.0, 0.0]] * 60, device=device), torch.zeros(60, dtype=torch.int64)
    with pytest.warns(UserWarning, match='98% of the calibration rows are copies.*u="fresh".*randomized=False'):
        layer = SetLayer.calibrate(nn.Identity(), [(logits, labels)], random_state=0)
    first, second = (layer.calibration.predict_mask(logits, logits=True, u="fresh") for _ in range(2))
    assert not torch.equal(first, second)


def rounded_products_in_sums(graph):
    """List float64 products that may be rounded and go into a sum: compilers join the two, with one rounding."""
    found = []
    for node in graph.nodes:
        if str(node.target).split(".")[1:2] not in (["add"], ["sub"]):
            continue
        for term in node.args:
            if not str(getattr(term, "target", "")).startswith("aten.mul") or term.meta["val"].dtype != torch.float64:
                continue
            one, other = term.args
            is_exact = other in (-1.0, 0.0, 1.0, 2.0) or (one is other and "sub" in str(one))  # halves of a root's bits
            found += [] if is_exact else [str(term)]
    return found


@ROUGH
@pytest.mark.parametrize("name", ["levels", "raps", "saps", "margin", "tempered", "normalize"])
def test_no_compiler_of_graphs_can_change_a_bit(name):
    """By joining a product with a sum, or by taking a product with the number of a column for an index of 32 bits."""
    graph = torch.export.export(layer_for("cpu", **SETTINGS[name]), (NEW,)).run_decompositions().graph
    assert rounded_products_in_sums(graph) == []
    for node in graph.nodes:
        if str(node.target).startswith("aten.mul") and node.meta["val"].dtype == torch.int64:
            assert not any("arange" in str(factor) for factor in node.args), node


def wide_layer(k, device, dtype=torch.float32, **settings):
    """Return a layer for k classes and logits of that type."""
    generator = torch.Generator().manual_seed(k)
    logits = (torch.randn(3000, k, generator=generator) * 3).to(dtype)
    labels = torch.distributions.Categorical(logits=logits.float()).sample()
    calibration = aptset.calibrate(logits.to(device), labels, logits=True, random_state=1, **settings)
    return SetLayer.of(calibration, 0.1).to(device), (torch.randn(5000, k, generator=generator) * 3).to(device, dtype)


@pytest.fixture
def compilers(device):
    """Skip where nothing compiles graphs; forget what was compiled."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("torch.compile needs a C compiler, and there is none here")
    torch.compiler.reset()
    yield device
    torch.compiler.reset()


ON_HOST = ((6, torch.float32), (100, torch.float16), (1000, torch.bfloat16))


@ROUGH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("k", [6, 100, 1000])
def test_compiled_by_inductor(compilers, k, dtype):
    """Every cell is that of the eager layer, in batches of any size, alone and behind a network."""
    if (compilers == "cpu" or os.environ.get("APTSET_KERNELS") == "torch") and (k, dtype) not in ON_HOST:
        pytest.skip("compilers take long: some of them are enough here")
    layer, rows = wide_layer(k, compilers, dtype)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for some in (rows, rows[:777], rows[:1]):
        assert torch.equal(compiled(some), layer(some))
    network = nn.Linear(k, k, bias=False).to(compilers, dtype)
    nn.init.eye_(network.weight)  # the network itself may round otherwise where it is compiled
    both = nn.Sequential(network, layer)
    with torch.inference_mode():
        assert torch.equal(torch.compile(both, fullgraph=True)(rows), both(rows))


@ROUGH
@pytest.mark.parametrize("name", ["levels", "by label", "tempered", "normalize", "not random"])
def test_settings_compiled_by_inductor(compilers, name):
    layer = layer_for(compilers, **SETTINGS[name])
    check_graph(torch.compile(layer, fullgraph=True, dynamic=True), layer, NEW.to(compilers))


@ROUGH
def test_a_compiled_layer_is_one_operator(compilers):
    layer, graphs = layer_for(compilers), []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.compile(layer, backend=keep, fullgraph=True)(NEW.to(compilers))
    (graph,) = graphs
    assert [str(node.target) for node in graph.graph.nodes if "aptset" in str(node.target)] == [
        "aptset.set_masks.default"
    ]


@ROUGH
def test_an_exported_graph_needs_no_aptset(device):
    graph = torch.export.export(layer_for(device), (NEW.to(device),)).graph
    assert not [node for node in graph.nodes if "aptset" in str(node.target)]


@ROUGH
def test_the_operator_keeps_the_rules_of_torch(device):
    layer = layer_for(device)
    settings = (layer._flat, layer.power, 1e-5, True, False, True, 0)
    tensors = (NEW.to(device), layer.threshold_bits, layer.key)
    utilities = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.aptset.set_masks.default, (*tensors, *settings), test_utils=utilities)


@ROUGH
@pytest.mark.parametrize("k", [6, 100, 1000])
def test_graphs_of_cuda_hold_the_layer(compilers, k):
    """No call waits for the device: one that is captured gives the sets of what is in its inputs when it is played."""
    if compilers == "cpu" or os.environ.get("APTSET_KERNELS") == "torch":
        pytest.skip("this is about the kernels: operations of torch are not promised to be captured")
    layer, rows = wide_layer(k, compilers)
    compiled, other = torch.compile(layer, fullgraph=True, mode="reduce-overhead"), rows.flip(0) * 0.5
    for some in (rows, rows, other, rows):
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.equal(compiled(some), layer(some))
    static, graph = rows.clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        masks = layer(static)
    for some in (other, rows):
        static.copy_(some)
        graph.replay()
        assert torch.equal(masks, layer(some))


def test_modes_of_torch(device):
    layer, new = layer_for(device), NEW[:-1].to(device)
    expected = layer(new)
    with torch.inference_mode():
        assert torch.equal(layer(new), expected)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.equal(layer(new), expected), "nothing is cast"
        half = nn.Linear(K, K).to(device)(new)
        assert torch.equal(layer(half), layer.calibration.predict_mask(half, 0.1, logits=True))
    assert torch.equal(layer(new.clone().requires_grad_()), expected)
    if device == "cuda" or not torch.cuda.is_available():  # where there is one, it takes the rows to a CUDA device
        assert torch.equal(nn.DataParallel(layer)(new), expected)


def test_probabilities_of_every_type(device):
    matrix = ugly_rows(K, n_rows=40)
    calibration = aptset.calibrate(matrix, labels_for(matrix), random_state=0)
    layer = SetLayer.of(calibration, 0.1, logits=False).to(device)
    for kind in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        rows = torch.from_numpy(matrix).to(kind).to(device)
        assert torch.equal(layer(rows), calibration.predict_mask(rows, 0.1))
    assert same(layer(torch.from_numpy(matrix).to(device)), calibration.predict_mask(matrix, 0.1))
    with pytest.raises(ValueError, match="rows that sum to 1"):
        layer(torch.from_numpy(matrix).to(device) * 2)


def test_inputs_on_another_device_are_refused(device):
    layer = SetLayer(K).to("meta" if device == "cpu" else "cpu")
    with pytest.raises(ValueError, match=f"inputs must be on the device of the layer.*got {device}.*layer.to"):
        layer(NEW.to(device))


def test_states(layer, device, tmp_path):
    new, sequence = NEW.to(device), [float(alpha) for alpha in layer.alphas]
    settings = {"conformity": layer.conformity, "groups": "label" if layer.by_label else None}
    settings |= {name: getattr(layer, name) for name in ("randomized", "allow_empty", "normalize", "logits")}
    fresh = SetLayer(K, sequence if len(sequence) > 1 else sequence[0], **settings).to(device)
    assert fresh(new).all(), "before calibration every set holds every label"
    torch.save(nn.Sequential(nn.Identity(), layer).state_dict(), tmp_path / "state.pt")
    nn.Sequential(nn.Identity(), fresh).load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(fresh(new), layer(new))
    another = settings | {"conformity": aptset.Regularized(0.77)}
    other = SetLayer(K, sequence if len(sequence) > 1 else sequence[0], **another)
    before = other.state_dict()["threshold_bits"].clone()
    with pytest.raises(RuntimeError, match="another conformity"):
        other.load_state_dict(layer.state_dict())
    assert torch.equal(other.state_dict()["threshold_bits"], before), "nothing is half loaded"


def test_no_cast_touches_the_thresholds(device):
    layer = layer_for(device, alpha=[0.1, 0.2])
    before = layer.thresholds.clone()
    model = nn.Sequential(nn.Linear(K, K), layer).to(device)
    for cast in (model.half, model.bfloat16, model.float, lambda: model.to(torch.float16), model.double):
        cast()
        assert torch.equal(layer.thresholds, before)
    half = model.half()
    rough = NEW[:-1].to(device).half()  # a product with infinity is no number
    assert torch.equal(half(rough), expected(layer, half[0](rough)))
    assert torch.equal(copy.deepcopy(layer)(NEW.to(device)), layer(NEW.to(device)))
    assert not list(layer.parameters()), "there is nothing to train"
