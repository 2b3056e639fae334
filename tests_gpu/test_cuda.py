"""What only a real GPU can show: many rows, little memory, streams and threads, no memory left."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from ugly_rows import same

import aptset
from aptset.kernels.cuda import Launcher
from aptset.kernels.engines.cuda_engine import CudaEngine
from aptset.kernels.tensors import TensorRows
from aptset.torch import SetLayer

MEGABYTE = 2**20


@pytest.fixture
def cuda(device):
    if device != "cuda":
        pytest.skip("this is about a CUDA device")
    return device


def many_rows(n, n_columns, seed=0):
    """Draw rows of every temperature on the device; return them and the labels."""
    generator = torch.Generator("cuda").manual_seed(seed)
    logits = torch.randn(n, n_columns, device="cuda", generator=generator)
    logits *= 0.1 + 20 * torch.rand(n, 1, device="cuda", generator=generator) ** 2
    return torch.softmax(logits, dim=1), torch.randint(n_columns, (n,), device="cuda", generator=generator)


@pytest.mark.parametrize(("n", "n_columns"), [(1_000_000, 20), (1_000_000, 7), (40_000, 1000), (300_000, 100)])
def test_many_rows_have_the_bits_of_the_host(cuda, n, n_columns):
    rows, labels = many_rows(n, n_columns)
    host, on_host = rows.cpu().numpy(), labels.cpu().numpy()
    made, expected = aptset.calibrate(rows, labels, random_state=0), aptset.calibrate(host, on_host, random_state=0)
    assert np.array_equal(made.scores, expected.scores)
    assert made.parts == expected.parts
    assert same(made.predict_mask(rows, 0.1), expected.predict_mask(host, 0.1))
    assert made.predict_set(rows, 0.05).to("cpu") == expected.predict_set(host, 0.05)
    assert same(made.p_values(rows[:100_000]), expected.p_values(host[:100_000]))


@pytest.mark.parametrize(
    ("n", "n_columns", "spread", "dtype"),
    [
        *((500_000, 7, 3.0, torch.float32), (200_000, 100, 2.0, torch.float32), (100_000, 129, 2.0, torch.float16)),
        *((30_000, 1000, 2.0, torch.float32), (30_000, 1000, 0.1, torch.float32), (30_000, 1000, 6.0, torch.float32)),
        *((30_000, 1000, 2.0, torch.float16), (30_000, 1000, 2.0, torch.bfloat16), (20_000, 100, 3.0, torch.float64)),
        (5_000, 2000, 2.0, torch.float32),
    ],
)
def test_many_rows_of_logits_have_the_bits_of_the_host(cuda, n, n_columns, spread, dtype):
    generator = torch.Generator(cuda).manual_seed(n_columns)
    logits = (torch.randn(n, n_columns, device=cuda, generator=generator) * spread).to(dtype)
    labels = torch.randint(n_columns, (n,), device=cuda, generator=generator)
    host, on_host = logits.to(torch.float64).cpu().numpy(), labels.cpu().numpy()
    for conformity in (aptset.Adaptive(), aptset.Regularized(0.01, 3), aptset.SAPS(), aptset.Homogeneous()):
        settings = {"conformity": conformity, "logits": True, "random_state": 0}
        made, expected = aptset.calibrate(logits, labels, **settings), aptset.calibrate(host, on_host, **settings)
        assert np.array_equal(made.scores, expected.scores)
        assert made.parts == expected.parts
        for alpha in (0.1, 0.4):
            found = made.predict_mask(logits, alpha, logits=True)
            assert same(found, expected.predict_mask(host, alpha, logits=True))


@pytest.mark.parametrize("n_columns", [7, 100, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("logits", [False, True])
def test_programs_made_in_haste_have_the_bits_of_the_others(cuda, monkeypatch, tmp_path, n_columns, dtype, logits):
    monkeypatch.setenv("APTSET_CACHE", str(tmp_path))
    monkeypatch.setattr(Launcher, "in_haste", True)
    rows, labels = many_rows(20_000, n_columns)
    rows = (rows.log().clamp(min=-60) if logits else rows).to(dtype)
    verbs = {
        "label_scores": lambda engine: engine.label_scores(as_rows, labels)[0],
        "mask": lambda engine: engine.mask(as_rows, thresholds[:1], 0)[0],
        "cut": lambda engine: engine.cut(as_rows, thresholds[None], 1)[2],
        "all_scores": lambda engine: engine.all_scores(as_rows)[0],
    }
    as_rows = TensorRows(rows, aptset.Adaptive().weights, 7, 0.1, logits=logits)
    thresholds = torch.tensor([0.9, 0.5], dtype=torch.float64, device=cuda)
    usual = CudaEngine.for_device(rows.device)
    for verb, work in verbs.items():
        if logits and not usual.takes_logits(rows, verb):
            continue
        engine = CudaEngine(Launcher.of(rows.device))
        in_haste = work(engine)
        assert engine.starts._hasty
        engine.starts.finish_compiling()
        usual.starts.finish_compiling()
        assert torch.equal(in_haste, work(engine))
        assert torch.equal(in_haste, work(usual))


def test_a_graph_captured_right_after_the_first_call(cuda, monkeypatch, tmp_path):
    monkeypatch.setenv("APTSET_CACHE", str(tmp_path))
    monkeypatch.setattr(Launcher, "in_haste", True)
    rows, labels = many_rows(4000, 41)
    layer = SetLayer.of(aptset.calibrate(rows, labels, random_state=0), 0.1, logits=False).to(cuda)
    static, graph = rows[:500].clone(), torch.cuda.CUDAGraph()
    layer(static)
    with torch.cuda.graph(graph):
        masks = layer(static)
    static.copy_(rows[500:1000])
    graph.replay()
    assert torch.equal(masks, layer(rows[500:1000]))


@pytest.mark.parametrize("what", ["mask", "sets", "scores", "p-values", "levels", "logits"])
def test_little_memory_beside_the_result(cuda, what):
    rows, labels = many_rows(60_000, 1000)
    calibration = aptset.calibrate(rows[:5000], labels[:5000], random_state=0)
    calls = {
        "mask": lambda: calibration.predict_mask(rows, 0.1),
        "sets": lambda: calibration.predict_set(rows, 0.5),
        "scores": lambda: aptset.calibrate(rows, labels, random_state=0).n * 0 + labels[:0],
        "p-values": lambda: calibration.p_values(rows),
        "levels": lambda: calibration.predict_set(rows, [0.5, 0.9, 0.7]),
        "logits": lambda: calibration.predict_mask(rows, 0.1, logits=True, normalize=True),
    }
    rows = rows * 3 if what == "logits" else rows
    calls[what]()  # what is kept between calls is there now
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = calls[what]()
    torch.cuda.synchronize()
    beside = torch.cuda.max_memory_allocated() - max(before, torch.cuda.memory_allocated())
    del found
    assert beside <= 64 * MEGABYTE, f"{beside / MEGABYTE:.0f} MB"


def test_streams_and_threads(cuda):
    rows, labels = many_rows(50_000, 30)
    calibration = aptset.calibrate(rows, labels, random_state=0)
    alphas = [0.05, 0.1, 0.2, 0.3]
    expected = [calibration.predict_mask(rows, alpha) for alpha in alphas]
    torch.cuda.synchronize()

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            found = calibration.predict_mask(rows, alphas[number % 4])
            torch.cuda.current_stream().synchronize()
            return torch.equal(found, expected[number % 4])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


def test_no_memory_left(cuda):
    rows, labels = many_rows(100_000, 1000)
    calibration = aptset.calibrate(rows[:2000], labels[:2000], random_state=0)
    expected = calibration.predict_mask(rows[:100], 0.1)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    full = torch.empty(free - 300 * MEGABYTE, dtype=torch.uint8, device=cuda)
    with pytest.raises(torch.OutOfMemoryError):
        calibration.p_values(rows)
    del full
    torch.cuda.empty_cache()
    assert torch.equal(calibration.predict_mask(rows[:100], 0.1), expected)
