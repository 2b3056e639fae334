"""Engines for tensors give the bits of numpy's engine: scores, masks, sets, p-values, hashes, copies."""

import numpy as np
import pytest
import torch
from ugly_rows import DTYPES, as_tensor, labels_for, same, ugly_rows

from aptset import Regularized
from aptset.kernels import engines
from aptset.kernels.counting import Calibrated, index_of, p_values_of_rows
from aptset.kernels.engines import torch_engine
from aptset.kernels.formula import First, Formula, LinearScore, broken_rule
from aptset.kernels.membership import cut, in_order, masks, select
from aptset.kernels.rows import CALIBRATION, PREDICTION, Rows, all_scores_of_block, hash_rows, label_scores
from aptset.kernels.tensors import TensorRows, engine_for
from aptset.scores import SCORES

KEY = 0xF234567890ABCDEF  # with the upper bit, which int64 takes for a sign
ODD = LinearScore(
    above=1.0, own=1.0, own_u=-1.0, constant=-0.3, u=-0.1, rank=0.7, free_ranks=2, rank_u=1.0, behind=False
)
FIRST = LinearScore(top=1.0, rank=0.3, free_ranks=1.0, behind=False, first=First(own=1.0, own_u=-1.0, u=-0.05))
WEIGHTS = {name: score().weights for name, score in SCORES.items()}
WEIGHTS |= {"heavy": Regularized(0.1, 0).weights, "odd": ODD, "first": FIRST}


class Pair:
    """The same rows for numpy and for a device."""

    def __init__(self, matrix, weights, device, tolerance=2e-2, seeds=None, u=None, side=PREDICTION, first_row=0):
        common = {"key": KEY, "tolerance": tolerance, "side": side, "first_row": first_row}
        self.rows = Rows(matrix, Formula(weights), seeds=seeds, u=u, **common)
        bits = None if seeds is None else as_tensor(seeds.view(np.int64), device)
        mine = None if u is None else as_tensor(u, device)
        self.tensor = TensorRows(as_tensor(matrix, device), weights, seeds=bits, u=mine, **common)
        self.engine = engine_for(self.tensor.probabilities)
        self.device = device
        self.scores, bad = all_scores_of_block(self.rows.seeded(), 0, len(matrix))
        assert bad == -1


@pytest.fixture(autouse=True)
def by_the_definition(monkeypatch):
    """Compare with numpy's engine, whatever is installed."""
    monkeypatch.setattr(engines, "chosen", engines.NUMPY)


@pytest.fixture(params=[2, 3, 10, 37, 100, 1000, 3000])
def n_columns(request, device):
    scores = {1000: ("adaptive", "saps", "rank"), 3000: ("adaptive",)}.get(request.param, WEIGHTS)
    if device == "cpu" and not any(name in request.node.name for name in scores):
        pytest.skip("wide rows under every score are for a GPU")
    return request.param


def some_thresholds(pair, n, seed=0):
    """Scores of calibration rows, where ties are decided, their neighbours, and the ends."""
    generator = np.random.default_rng(seed)
    picked = generator.choice(pair.scores.ravel(), size=n)
    return np.array([*picked, np.nextafter(picked[0], -9), np.nextafter(picked[0], 9), -9.0, np.inf])


def test_the_weights_are_ones_that_engines_may_take():
    assert [broken_rule(weights) for weights in WEIGHTS.values()] == [None] * len(WEIGHTS)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores(device, n_columns, name, dtype):
    matrix = ugly_rows(n_columns, n_rows=6 if n_columns > 100 else 24, dtype=DTYPES[dtype])
    pair = Pair(matrix, WEIGHTS[name], device, side=CALIBRATION)
    found, bad = pair.engine.all_scores(pair.tensor)
    assert int(bad) == -1
    assert same(found, pair.scores)
    labels = labels_for(matrix)
    expected = label_scores(pair.rows, labels)
    scores, seeds, n_copies, bad = pair.engine.label_scores(pair.tensor, as_tensor(labels, device))
    assert same(scores, expected.scores)
    assert same(seeds, expected.seeds.view(np.int64))
    assert (int(n_copies), int(bad)) == (expected.n_copies, -1)
    assert expected.n_copies >= 14, "copies must be met"


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("min_size", [0, 1])
def test_masks_and_sets(device, n_columns, name, min_size):
    matrix = ugly_rows(n_columns, n_rows=6 if n_columns > 100 else 24, dtype=np.float32)
    pair = Pair(matrix, WEIGHTS[name], device)
    thresholds = some_thresholds(pair, 3)
    for threshold in thresholds:
        found, bad = pair.engine.mask(pair.tensor, as_tensor(np.array([threshold]), device), min_size)
        assert found.dtype == torch.bool
        assert int(bad) == -1
        assert same(found, masks(pair.rows, np.array([[threshold]]), min_size)[0])
    of_rows = np.random.default_rng(1).choice(thresholds, size=(len(matrix), 4))
    found, _ = pair.engine.mask(pair.tensor, as_tensor(of_rows[:, 0].copy(), device), min_size)
    assert same(found, masks(pair.rows, of_rows[:, :1], min_size)[0])
    for wanted in (thresholds[None, :], of_rows):
        expected = cut(pair.rows, wanted, min_size)
        sizes, longest, members, bad = pair.engine.cut(pair.tensor, as_tensor(wanted.copy(), device), min_size)
        assert int(bad) == -1
        assert same(sizes, expected.sizes)
        assert same(longest, expected.longest)
        assert same(members, in_order(expected.members))


@pytest.mark.parametrize("n_columns", [10, 100, 1000, 2000])
def test_dust_that_the_grid_rounds_one_way_moves_no_set(device, n_columns):
    generator = np.random.default_rng(n_columns)
    most = 2.0 ** generator.integers(4, 12, size=(12, 1))
    matrix = ((np.floor(most * (1 + 0.5 * generator.random((12, n_columns)))) + 0.55) * 2.0**-51).astype(np.float32)
    matrix[np.arange(12), generator.integers(0, n_columns, size=12)] = 1.0
    pair = Pair(matrix, WEIGHTS["adaptive"], device, u=np.zeros(12))
    for threshold in generator.choice(pair.scores.ravel(), size=24):
        found, _ = pair.engine.mask(pair.tensor, as_tensor(np.array([threshold]), device), 0)
        assert same(found, masks(pair.rows, np.array([[threshold]]), 0)[0])


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("min_size", [0, 1])
def test_a_threshold_for_each_label(device, n_columns, name, min_size):
    matrix = ugly_rows(n_columns, n_rows=6 if n_columns > 100 else 24)
    pair = Pair(matrix, WEIGHTS[name], device)
    thresholds = np.random.default_rng(2).choice(some_thresholds(pair, 9), size=n_columns)
    found, _ = pair.engine.mask_by_label(pair.tensor, as_tensor(thresholds, device), min_size)
    assert same(found, masks(pair.rows, thresholds[None], min_size)[0])
    pointers, expected = select(pair.rows, thresholds[None, None], min_size).sets[0]
    sizes, members, bad = pair.engine.cut_by_label(pair.tensor, as_tensor(thresholds, device), min_size)
    assert int(bad) == -1
    assert same(sizes, np.diff(pointers))
    assert same(members, expected)


def calibrated(scores, n_groups, seed):
    """Scores in groups of any size, some of them empty."""
    generator = np.random.default_rng(seed)
    offsets = np.sort(np.append(generator.integers(0, len(scores) + 1, size=n_groups - 1), [0, len(scores)]))
    parts = np.split(generator.permutation(scores), offsets[1:-1])
    ordered = np.concatenate([np.sort(part) for part in parts])
    return Calibrated(ordered, offsets.astype(np.int64), index_of(ordered, offsets))


@pytest.mark.parametrize("name", ["adaptive", "rank", "margin"])
def test_p_values(device, n_columns, name):
    matrix = ugly_rows(n_columns, n_rows=6 if n_columns > 100 else 24)
    pair = Pair(matrix, WEIGHTS[name], device)
    scores = np.random.default_rng(3).choice(pair.scores.ravel(), size=400)
    groups = np.random.default_rng(4).integers(-1, 5, size=len(matrix)).astype(np.int32)
    for known, of_rows in (
        (calibrated(scores, 1, 0), np.zeros(len(matrix), dtype=np.int32)),
        (calibrated(scores, 5, 1), groups),
        (calibrated(scores, n_columns, 2), None),
    ):
        on_device = None if of_rows is None else as_tensor(of_rows, device)
        for _ in range(2):  # the second time from what was kept
            found, bad = pair.engine.p_values(pair.tensor, known, on_device)
            assert int(bad) == -1
            assert same(found, p_values_of_rows(pair.rows, known, of_rows)[0])


@pytest.mark.parametrize("name", ["adaptive", "regularized", "saps"])
def test_seeds_and_u_of_the_caller(device, name):
    matrix = ugly_rows(10)
    generator = np.random.default_rng(5)
    seeds = generator.integers(2**64, size=len(matrix), dtype=np.uint64)
    u = generator.choice([0.0, -0.0, 0.25, 0.5, 1.0, 2.0**-53], size=len(matrix))
    for some in ({"seeds": seeds}, {"u": u}, {"seeds": seeds, "u": u}):
        pair = Pair(matrix, WEIGHTS[name], device, **some)
        assert same(pair.engine.all_scores(pair.tensor)[0], pair.scores)
        threshold = np.array([pair.scores[3, 4]])
        found, _ = pair.engine.mask(pair.tensor, as_tensor(threshold, device), 0)
        assert same(found, pair.scores <= threshold)


def test_rows_beyond_a_block_of_copies(device):
    """Copies are counted within blocks of 4,096 rows, wherever the first row stands; memory is bounded by pieces."""
    few = np.random.default_rng(6).dirichlet(np.ones(5), size=900)
    matrix = few[np.random.default_rng(7).integers(0, 900, size=13_000)]
    for first_row, side in ((0, PREDICTION), (8192, CALIBRATION), (2**40, PREDICTION)):
        pair = Pair(matrix, WEIGHTS["adaptive"], device, first_row=first_row, side=side)
        labels = labels_for(matrix)
        expected = label_scores(pair.rows, labels)
        scores, seeds, n_copies, _ = pair.engine.label_scores(pair.tensor, as_tensor(labels, device))
        assert same(scores, expected.scores)
        assert same(seeds, expected.seeds.view(np.int64))
        assert int(n_copies) == expected.n_copies


@pytest.mark.parametrize("n_columns", [40_000, 100_000])
def test_very_wide_rows(device, n_columns):
    matrix = ugly_rows(n_columns, n_rows=1, dtype=np.float32)[:8]
    pair = Pair(matrix, WEIGHTS["adaptive"], device)
    threshold = np.array([pair.scores[0, 3]])
    assert same(pair.engine.all_scores(pair.tensor)[0], pair.scores)
    assert same(pair.engine.mask(pair.tensor, as_tensor(threshold, device), 0)[0], pair.scores <= threshold)
    expected = cut(pair.rows, threshold[None], 0)
    assert same(pair.engine.cut(pair.tensor, as_tensor(threshold[None], device), 0)[2], in_order(expected.members))


def test_pieces_are_invisible(device, monkeypatch):
    matrix = ugly_rows(9, n_rows=900, dtype=np.float32)
    assert len(matrix) > 3000
    pair = Pair(np.concatenate([matrix, matrix]), WEIGHTS["adaptive"], device)
    thresholds = as_tensor(np.array([[0.3, 0.9]]), device)
    whole = torch_engine.TORCH.cut(pair.tensor, thresholds, 1)
    monkeypatch.setattr(torch_engine, "_BLOCK_CELLS", 1000)
    monkeypatch.setattr(torch_engine, "_SEEDED_ROWS", 4096)
    for one, other in zip(whole, torch_engine.TORCH.cut(pair.tensor, thresholds, 1), strict=True):
        assert torch.equal(one, other)
    assert same(whole[0], cut(pair.rows, np.array([[0.3, 0.9]]), 1).sizes)


def test_hashes_of_any_numbers(device):
    values = np.random.default_rng(8).normal(size=(50, 7))
    values[0, :5] = [np.nan, -np.nan, np.inf, -0.0, 5e-324]
    values[1, 1:3] = [-np.inf, 1e308]
    for kind in (np.float64, np.float32):
        matrix = values.astype(kind) if kind is np.float64 else np.clip(values, -1e30, 1e30).astype(kind)
        tensor = as_tensor(matrix, device)
        assert same(engine_for(tensor).hash_rows(tensor, KEY), hash_rows(matrix, KEY).view(np.int64))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1e-3, 2.5, 0.5])
def test_the_first_bad_row(device, wrong):
    matrix = ugly_rows(6, n_rows=300)
    for rows in ([3], [len(matrix) - 1, 700], [0, 1]):
        bad = matrix.copy()
        bad[rows, 2] = wrong if wrong != 0.5 else bad[rows, 2] + 0.5
        tensor = TensorRows(as_tensor(bad, device), WEIGHTS["adaptive"], KEY, 1e-5)
        engine, one = engine_for(tensor.probabilities), as_tensor(np.ones(1), device)
        labels = as_tensor(np.zeros(len(bad), dtype=np.int64), device)
        groups = as_tensor(np.zeros(len(bad), dtype=np.int32), device)
        known = calibrated(np.linspace(0, 1, 9), 1, 0)
        of_labels = one.expand(6).contiguous()
        found = [
            engine.label_scores(tensor, labels),
            engine.all_scores(tensor),
            engine.mask(tensor, one, 0),
            engine.mask_by_label(tensor, of_labels, 0),
            engine.cut(tensor, one[None], 0),
            engine.cut_by_label(tensor, of_labels, 0),
            engine.p_values(tensor, known, groups),
        ]
        assert [int(answer[-1]) for answer in found] == [min(rows)] * 7
