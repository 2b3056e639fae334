"""The source of the CUDA kernels, run on a processor with lanes as fibers, gives the bits of the other engines.

What a device alone can show is tested in ``tests_gpu``.
"""

import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from emulated.launcher import Emulator

import aptset
from aptset import SAPS, Adaptive, Homogeneous, Margin, Rank, Regularized
from aptset.calibration import device_rows, tensors
from aptset.core import devices
from aptset.kernels import membership as cuts
from aptset.kernels.counting import Calibrated, index_of, p_values_of_rows
from aptset.kernels.cuda import jobs
from aptset.kernels.cuda.jobs import layout_of
from aptset.kernels.engines.cuda_engine import CudaEngine
from aptset.kernels.formula import Formula
from aptset.kernels.rows import (
    CALIBRATION,
    PREDICTION,
    Rows,
    all_scores_of_block,
    hash_rows,
    label_scores,
    own_seeds,
    softmax_by_blocks,
)
from aptset.kernels.tensors import TensorRows

KEY, TOLERANCE = 0xF234567890ABCDEF, 2e-2
KINDS = ("random", "peaked", "flat", "tied", "equal", "zeros", "tiny", "copies")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    assert shutil.which("g++"), "the kernels are built with g++: install it"
    return CudaEngine(Emulator(tmp_path_factory.mktemp("kernels"), multiprocessors=2))


def rows_of(kind, n, k, seed=0):
    """Draw rows of one kind, as float64."""
    draw = np.random.default_rng([seed, k])
    logits = draw.normal(size=(n, k)) * {"peaked": 9, "flat": 0.1, "tiny": 40}.get(kind, 2)
    if kind == "tied":
        logits = np.round(logits)
    elif kind == "equal":
        logits[:] = 0.0
    elif kind == "zeros":
        logits[draw.random((n, k)) < 0.5] = -1000.0
    elif kind == "copies":
        logits = logits[draw.integers(0, 3, size=n)]
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = weights / weights.sum(axis=1, keepdims=True)
    if kind == "zeros":
        p[p == 0.0] = -0.0  # hashes like zero
    return p


def dust(k, above_a_step, n=12):
    """Return rows with one large label and dust, and what gives scores of some of the dust as thresholds."""
    draw = np.random.default_rng(k)
    most = 2.0 ** draw.integers(4, 12, size=(n, 1))
    steps = np.floor(most * (1 + 0.5 * draw.random((n, k)))) + above_a_step
    matrix = (steps * 2.0**-51).astype(np.float32)
    matrix[np.arange(n), draw.integers(0, k, size=n)] = 1.0

    def thresholds(rows):
        scores, bad = all_scores_of_block(rows.seeded(), 0, n)
        assert bad == -1
        return [draw.choice(row) for row in scores for _ in range(4)]

    return matrix, thresholds


class Twins:
    """The same rows for the engine of this machine and for the kernels."""

    def __init__(self, kind, n, k, score, dtype=torch.float32):
        tensor = torch.tensor(rows_of(kind, n, k)).to(dtype)
        host = tensor.numpy() if dtype == torch.float32 else tensor.to(torch.float64).numpy()
        self.rows = Rows(host, Formula(score.weights), KEY, TOLERANCE)
        self.tensor = TensorRows(tensor, score.weights, KEY, TOLERANCE)
        self.labels = np.random.default_rng(1).integers(0, k, size=n)
        self.expected = label_scores(self.rows, self.labels)
        self.sorted = np.sort(self.expected.scores)


def logits_of(kind, n, k, seed=0):
    """Draw rows of logits of one kind: rounded ones have ties, tiny ones probabilities without mass or of one step."""
    draw = np.random.default_rng([seed, k, 9])
    logits = draw.normal(size=(n, k)) * {"peaked": 9, "flat": 0.1, "tiny": 40}.get(kind, 2) + 3
    if kind == "tied":
        logits = np.round(logits)
    elif kind == "equal":
        logits[:] = -7.25
    elif kind == "zeros":
        logits[draw.random((n, k)) < 0.5] = -np.inf
        logits[draw.random((n, k)) < 0.1] = -0.0
    elif kind == "copies":
        logits = logits[draw.integers(0, 3, size=n)]
    elif kind == "near":  # by less than a probability in float64 can tell, or by a bit of it
        logits = 1.0 + draw.integers(-3, 4, size=(n, k)) * 2.0**-23 + draw.integers(0, 2, size=(n, k)) * 1e-6
        logits[::2] = draw.integers(-3, 4, size=logits[::2].shape) * 1e-19
        logits[::2, 0] = 2.0
    elif kind == "huge":
        logits = draw.normal(size=(n, k)) * 10.0 ** draw.integers(3, 30, size=(n, 1))
    logits[:, 0] = np.where(np.isfinite(logits).any(axis=1), logits[:, 0], 0.0)
    return logits


LOGIT_KINDS = ("random", "peaked", "flat", "tied", "equal", "zeros", "tiny", "copies", "near", "huge")


class LogitTwins(Twins):
    """The same logits for both; on the host the softmax comes first, and u from the hash of the logits."""

    def __init__(self, kind, n, k, score, dtype=torch.float32):
        limit = torch.finfo(dtype).max  # infinity is for rows that are bad
        logits = logits_of(kind, n, k)
        tensor = torch.tensor(np.where(np.isfinite(logits), np.clip(logits, -limit, limit), logits)).to(dtype)
        wide = tensor.to(torch.float64).numpy()
        keys = hash_rows(wide, KEY)
        seeds = own_seeds(keys, PREDICTION)
        softened = softmax_by_blocks(wide)
        common = {"n_copies": int((seeds != keys).sum())}
        self.rows = Rows(softened, Formula(score.weights), KEY, 1e-5, seeds, **common)
        self.tensor = TensorRows(tensor, score.weights, KEY, 1e-5, logits=True)
        self.labels = np.random.default_rng(1).integers(0, k, size=n)
        self.expected = label_scores(self.rows, self.labels)
        self.sorted = np.sort(all_scores_of_block(self.rows, 0, n)[0].ravel())
        self.sorted = np.sort(np.random.default_rng(2).choice(self.sorted, size=n))


@pytest.mark.parametrize("kind", LOGIT_KINDS)
@pytest.mark.parametrize(
    ("k", "dtype"),
    [
        *((10, torch.float32), (16, torch.bfloat16), (2, torch.float64), (100, torch.float32), (37, torch.float64)),
        *((131, torch.float16), (65, torch.bfloat16), (1000, torch.float32), (1025, torch.float32)),
        *((10, torch.float64), (1000, torch.float64), (511, torch.float32), (512, torch.bfloat16)),
    ],
)
def test_logits_in_one_kernel(engine, kind, k, dtype):
    check_scores_and_masks(engine, LogitTwins(kind, 9 if k > 200 else 33, k, Adaptive(), dtype))


@pytest.mark.parametrize("twins", [Twins, LogitTwins])
@pytest.mark.parametrize(
    ("k", "dtype"), [(7, torch.float32), (100, torch.float32), (79, torch.bfloat16), (1000, torch.float32)]
)
def test_a_warp_takes_one_row_after_the_other(engine, monkeypatch, twins, k, dtype):
    monkeypatch.setattr(CudaEngine, "_blocks", lambda *_: 1)  # a device has far more rows than warps
    of_rows = twins("zeros" if k == 79 else "random", 700 if k == 7 else 200 if k < 200 else 21, k, Adaptive(), dtype)
    check_scores_and_masks(engine, of_rows)
    if twins is Twins:
        check_sets(engine, of_rows)
        check_p_values(engine, of_rows)


# Its product with 1 / ln 2 is rounded onto -12.5. If the product is joined with the sum that finds the nearest whole
# number, that is -13 and not -12, and the exponential has another last bit.
BESIDE_A_HALF = -8.664339756999317


@pytest.mark.parametrize(("n", "k"), [(60_000, 10), (60, 1000)])
def test_an_exponent_whose_product_with_a_logarithm_is_rounded_onto_a_half(engine, n, k):
    draw = np.random.default_rng(k)
    logits = BESIDE_A_HALF - draw.exponential(size=(n, k)) * (draw.random((n, k)) < 0.1)
    logits[:, 0] = 0.0
    keys = hash_rows(logits, KEY)
    rows = Rows(softmax_by_blocks(logits), Formula(Adaptive().weights), KEY, 1e-5, own_seeds(keys, PREDICTION))
    labels = np.zeros(n, dtype=np.int64)
    on_device = TensorRows(torch.tensor(logits), Adaptive().weights, KEY, 1e-5, logits=True)
    scores, *_ = engine.label_scores(on_device, torch.tensor(labels))
    assert same(scores, label_scores(rows, labels).scores)


@pytest.mark.parametrize("k", [100, 1000])
def test_labels_within_rounding_of_the_value_that_is_looked_at_first(engine, k):
    """Powers of two are off up or down: labels that differ by a bit stand around the mean of a row in another order."""
    n, several = 150, 4
    logits = np.random.default_rng(k).normal(size=(n, k))
    mean = np.log(np.exp(logits[:, several:]).sum(axis=1) / (k - several)).astype(np.float32)
    logits[:, :several] = mean[:, None] + np.spacing(mean)[:, None] * np.arange(-2, several - 2)
    tensor = torch.tensor(logits, dtype=torch.float32)
    wide = tensor.to(torch.float64).numpy()
    rows = Rows(
        softmax_by_blocks(wide), Formula(Adaptive().weights), KEY, 1e-5, own_seeds(hash_rows(wide, KEY), PREDICTION)
    )
    of_several = np.sort(all_scores_of_block(rows, 0, n)[0][:, :several], axis=1)
    for place in range(1, several):
        thresholds = of_several[:, place - 1 : place + 1].mean(axis=1)
        on_device = TensorRows(tensor, Adaptive().weights, KEY, 1e-5, logits=True)
        flags, _ = engine.mask(on_device, torch.tensor(thresholds), 0)
        assert same(flags, cuts.masks(rows, thresholds[:, None], 0)[0])


@pytest.mark.parametrize("kind", LOGIT_KINDS)
@pytest.mark.parametrize("score", [Homogeneous(), Margin(), SAPS(), Rank(), Regularized(0.02, 3)], ids=repr)
def test_logits_under_every_score(engine, kind, score):
    for k in (10, 100):
        check_scores_and_masks(engine, LogitTwins(kind, 33, k, score))


@pytest.mark.parametrize("kind", LOGIT_KINDS)
def test_every_verb_of_short_rows_of_logits(engine, kind):
    twins = LogitTwins(kind, 40, 7, Adaptive())
    check_sets(engine, twins)
    check_p_values(engine, twins)


@pytest.mark.parametrize("k", [10, 100])
def test_bad_rows_of_logits_hold_every_label(engine, k):
    logits = logits_of("random", 40, k)
    logits[31, 2], logits[17, 1], logits[20, 0], logits[21] = np.nan, np.inf, -np.inf, -np.inf
    rows = TensorRows(torch.tensor(logits, dtype=torch.float32), Adaptive().weights, KEY, 1e-5, logits=True)
    flags, told = engine.mask(rows, torch.tensor([0.5]), 0)
    assert told.tolist() == [17, 1]
    assert flags[[17, 21, 31]].all()
    assert not flags[20, 0]
    assert engine.label_scores(rows, torch.zeros(40, dtype=torch.int64))[-1].tolist() == [17, 1]


@pytest.mark.parametrize("k", [4, 50, 1100])
@pytest.mark.parametrize("is_negative", [False, True])
def test_probabilities_are_told_from_logits(engine, k, is_negative):
    p = torch.tensor(rows_of("random", 20, k), dtype=torch.float32)
    if is_negative:
        p[13, 1] = -0.5
    rows = TensorRows(p, Adaptive().weights, KEY, 1e-5, logits=True)
    for told in (engine.mask(rows, torch.tensor([0.5]), 0)[-1], engine.label_scores(rows, p.argmax(dim=1))[-1]):
        assert told.tolist() == [-1, int(is_negative)]


def test_a_key_may_lie_on_the_device(engine):
    twins = LogitTwins("copies", 30, 20, Adaptive())
    bits = torch.tensor(KEY - 2**64)
    flags, _ = engine.mask(replace(twins.tensor, key=bits), torch.tensor([0.8]), 0)
    assert same(flags, cuts.masks(twins.rows, np.array([[0.8]]), 0)[0])


@pytest.mark.parametrize("k", [7, 100])
@pytest.mark.parametrize("fetched", [0, 4096])
def test_calibration_scores_of_logits_stay_with_their_rows(engine, k, fetched, monkeypatch):
    """By the calls that people make: the host hears of what is wrong, and of all scores when it asks for them."""
    logits = torch.tensor(logits_of("random", 300, k), dtype=torch.float32)
    labels, wide = torch.arange(300) % k, logits.to(torch.float64).numpy()
    expected = aptset.calibrate(wide, labels.numpy(), logits=True, random_state=0)
    mask, p_values = expected.predict_mask(wide, 0.1, logits=True), expected.p_values(wide, logits=True)
    monkeypatch.setattr(devices, "WORKED_ON", ("cuda", "cpu"))
    monkeypatch.setattr(device_rows, "engine_for", lambda tensor: engine)
    monkeypatch.setattr(tensors, "_FETCHED_ROWS", fetched)
    made = aptset.calibrate(logits, labels, logits=True, random_state=0)
    assert same(made.predict_mask(logits, 0.1, logits=True), mask)
    assert made.held_out.folds[0]._elsewhere is not None, "a threshold is one number"
    assert same(made.p_values(logits, logits=True), p_values)
    assert np.array_equal(made.scores, expected.scores)
    assert made.parts == expected.parts
    assert np.array_equal(pickle.loads(pickle.dumps(made)).scores, expected.scores)
    with pytest.raises(ValueError, match="labels must be among the classes"):
        aptset.calibrate(logits, labels + 1, logits=True)
    with pytest.raises(ValueError, match=r"probabilities must be logits.*Drop logits=True"):
        made.predict_mask(torch.softmax(logits, dim=1), 0.1, logits=True)
    logits[3, 1] = torch.nan
    with pytest.raises(ValueError, match="row 3"):
        made.predict_mask(logits, 0.1, logits=True)


def same(tensor, array):
    return np.array_equal(tensor.numpy(), array)


def check_scores_and_masks(engine, twins):
    scores, seeds, n_copies, bad = engine.label_scores(twins.tensor, torch.tensor(twins.labels))
    assert same(scores, twins.expected.scores)
    assert same(seeds, twins.expected.seeds.view(np.int64))
    assert (int(n_copies), int(bad.reshape(-1)[0])) == (twins.expected.n_copies, -1)
    n = len(scores)
    for threshold in (
        *twins.sorted[[0, n // 2, 9 * n // 10, -1]],
        np.nextafter(twins.sorted[n // 2], -9),
        np.inf,
        -9.0,
    ):
        for min_size in (0, 1):
            found, _ = engine.mask(twins.tensor, torch.tensor([threshold]), min_size)
            assert same(found, cuts.masks(twins.rows, np.array([[threshold]]), min_size)[0]), (threshold, min_size)
    of_rows = np.random.default_rng(2).choice(twins.sorted, size=(n, 1))
    assert same(engine.mask(twins.tensor, torch.tensor(of_rows[:, 0]), 0)[0], cuts.masks(twins.rows, of_rows, 0)[0])


def check_sets(engine, twins):
    n = len(twins.sorted)
    for wanted in (
        twins.sorted[[n // 2, 9 * n // 10]][None],
        np.random.default_rng(3).choice(twins.sorted, size=(n, 2)),
    ):
        expected = cuts.cut(twins.rows, wanted, 1)
        sizes, longest, members, _ = engine.cut(twins.tensor, torch.tensor(wanted), 1)
        assert same(sizes, expected.sizes)
        assert same(longest, expected.longest)
        assert same(members, expected.members)
    of_labels = np.random.default_rng(4).choice(twins.sorted, size=twins.rows.n_columns)
    pointers, expected = cuts.select(twins.rows, of_labels[None, None], 1).sets[0]
    sizes, members, _ = engine.cut_by_label(twins.tensor, torch.tensor(of_labels), 1)
    assert same(sizes, np.diff(pointers))
    assert same(members, expected)
    found, _ = engine.mask_by_label(twins.tensor, torch.tensor(of_labels), 1)
    assert same(found, cuts.masks(twins.rows, of_labels[None], 1)[0])


def check_p_values(engine, twins):
    n = len(twins.sorted)
    offsets = np.array([0, n // 3, n])
    ordered = np.concatenate([np.sort(part) for part in np.split(twins.expected.scores, [n // 3])])
    calibrated = Calibrated(ordered, offsets, index_of(ordered, offsets))
    groups = np.random.default_rng(5).integers(-1, 2, size=n).astype(np.int32)
    found, _ = engine.p_values(twins.tensor, calibrated, torch.tensor(groups))
    assert same(found, p_values_of_rows(twins.rows, calibrated, groups)[0])
    for group in (-1, 1):  # one number that stands for all rows
        found, _ = engine.p_values(twins.tensor, calibrated, torch.tensor([group], dtype=torch.int32).expand(n))
        assert same(found, p_values_of_rows(twins.rows, calibrated, np.full(n, group, dtype=np.int32))[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "dtype"), [(10, torch.float32), (100, torch.float32), (37, torch.float64)])
def test_every_verb(engine, kind, k, dtype):
    twins = Twins(kind, 70, k, Adaptive(), dtype)
    check_scores_and_masks(engine, twins)
    check_sets(engine, twins)
    check_p_values(engine, twins)


@pytest.mark.parametrize("k", [100, 1000, 2000])
def test_dust_that_the_grid_rounds_one_way_moves_no_set(engine, k):
    """Thousands of labels of a few grid steps: their masses are off by half a step each, all in one direction."""
    for above_a_step in (0.45, 0.55):
        matrix, thresholds = dust(k, above_a_step)
        u = np.zeros(len(matrix))
        rows = Rows(matrix, Formula(Adaptive().weights), KEY, TOLERANCE, u=u)
        tensor = TensorRows(torch.tensor(matrix), Adaptive().weights, KEY, TOLERANCE, u=torch.tensor(u))
        for threshold in thresholds(rows):
            found, _ = engine.mask(tensor, torch.tensor([threshold]), 0)
            assert same(found, cuts.masks(rows, np.array([[threshold]]), 0)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", [Homogeneous(), Margin(), SAPS(), Rank(), Regularized(0.02, 3)], ids=repr)
def test_every_score(engine, kind, score):
    for k in (10, 100):
        check_scores_and_masks(engine, Twins(kind, 40, k, score))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("k", "dtype"), [(16, torch.bfloat16), (136, torch.float16), (1000, torch.float32), (2100, torch.float32)]
)
def test_every_layout(engine, kind, k, dtype):
    check_scores_and_masks(engine, Twins(kind, 7 if k > 200 else 33, k, Adaptive(), dtype))


@pytest.mark.parametrize("kind", ["peaked", "flat", "tied", "zeros"])
@pytest.mark.parametrize(("k", "dtype"), [(20, torch.float32), (136, torch.float16), (1000, torch.float32)])
def test_order_in_registers(engine, kind, k, dtype):
    twins = Twins(kind, 6 if k > 200 else 20, k, Adaptive(), dtype)
    check_sets(engine, twins)
    check_p_values(engine, twins)


@pytest.mark.parametrize("bits", [0xFFFFFFFF, 0x7FC00000, 0x80000001, 0x7F7FFFFF])
def test_buckets_take_rows_of_any_bits(engine, bits):
    """A row that is bad is told, whatever its bits are, and the others have the bits of the host."""
    twins = Twins("random", 5, 1000, Adaptive())
    expected, _ = all_scores_of_block(twins.rows.seeded(), 0, 5)
    for columns in (slice(None), [3, 999]):
        words = twins.tensor.probabilities.clone().numpy().view(np.uint32)
        words[2, columns] = bits
        bad = replace(twins.tensor, probabilities=torch.tensor(words.view(np.float32)))
        found, first_bad = engine.all_scores(bad)
        assert int(first_bad) == 2
        assert same(found[[0, 1, 3, 4]], expected[[0, 1, 3, 4]])


def test_ties_are_settled_in_full_where_their_first_bits_agree(engine, monkeypatch):
    """With two bits of each tie in the keys nearly all of them are left to neighbours that change places."""
    run = engine.starts.run
    short = {"sorted.cu": (("TIE_BITS", 2),)}
    monkeypatch.setattr(
        engine.starts, "run", lambda name, defines, *rest: run(name, defines + short.get(name, ()), *rest)
    )
    for kind in ("tied", "equal", "zeros"):
        check_sets(engine, Twins(kind, 10, 100, Adaptive()))


@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e-3, 2.5, 0.5])
def test_the_first_bad_row_is_told(engine, k, wrong):
    p = rows_of("random", 50, k)
    p[[31, 17, 40], [2, 1, 0]] = wrong
    rows = TensorRows(torch.tensor(p, dtype=torch.float32), Adaptive().weights, KEY, 1e-3)
    for first_bad in (
        engine.mask(rows, torch.tensor([0.9]), 0)[-1],
        engine.label_scores(rows, torch.zeros(50, dtype=torch.int64))[-1],
        engine.all_scores(rows)[-1],
    ):
        assert int(first_bad) == 17


def test_chunks_and_sides_and_first_rows(engine, monkeypatch):
    monkeypatch.setattr(jobs, "MOST_NOTED", 1)
    p = rows_of("copies", 9000, 10).astype(np.float32)
    common = {"key": KEY, "tolerance": TOLERANCE, "side": CALIBRATION, "first_row": 3 * 4096}
    expected = label_scores(Rows(p, Formula(Adaptive().weights), **common), np.zeros(9000, dtype=np.int64))
    rows = TensorRows(torch.tensor(p), Adaptive().weights, **common)
    scores, seeds, n_copies, _ = engine.label_scores(rows, torch.zeros(9000, dtype=torch.int64))
    assert same(scores, expected.scores)
    assert same(seeds, expected.seeds.view(np.int64))
    assert int(n_copies) == expected.n_copies == 9000 - 3 * 3


def test_seeds_and_u_may_be_given(engine):
    p, draw = rows_of("tied", 40, 100).astype(np.float32), np.random.default_rng(6)
    seeds, u = draw.integers(0, 2**63, size=40).astype(np.uint64), draw.random(40)
    rows = Rows(p, Formula(Adaptive().weights), KEY, TOLERANCE, seeds, u)
    tensor = TensorRows(
        torch.tensor(p), Adaptive().weights, KEY, TOLERANCE, torch.tensor(seeds.view(np.int64)), torch.tensor(u)
    )
    assert same(engine.mask(tensor, torch.tensor([0.7]), 0)[0], cuts.masks(rows, np.array([[0.7]]), 0)[0])


@pytest.mark.parametrize("k", [3, 50])
def test_hashes_of_any_numbers(engine, k):
    values = np.random.default_rng(7).normal(size=(20, k))
    values[3, 1], values[4, 2] = np.nan, -0.0
    assert same(engine.hash_rows(torch.tensor(values), KEY), hash_rows(values, KEY).view(np.int64))


def test_a_lane_that_misses_a_collective_is_noticed(tmp_path):
    """The emulator must be able to fail: one lane leaves before the others meet."""
    import subprocess
    import sys

    program = """
import sys; sys.path.insert(0, sys.argv[1])
from emulated import launcher
launcher.KERNELS["bad.cu"] = {"bad": "int *x"}
folder = launcher.Path(sys.argv[2])
(folder / "bad.cu").write_text("void bad(int *x) { if (threadIdx.x == 3) return; __syncwarp(); }")
launcher.files = lambda name: folder
launcher.Emulator(folder).run("bad.cu", (), "bad", 1, 32, 0, launcher.ctypes.c_void_p(0))
"""
    here = str(launcher_folder())
    done = subprocess.run(
        [sys.executable, "-c", program, here, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "a collective was not reached by all lanes" in done.stderr


def launcher_folder():
    import emulated

    return next(iter(emulated.__path__)).rsplit("/", 1)[0]


@pytest.mark.parametrize("k", [10, 301])
def test_the_softmax_has_the_bits_of_the_host(engine, k):
    logits = np.random.default_rng(8).normal(size=(30, k)) * 50
    logits[1, 0], logits[2, 1], logits[3, :] = -np.inf, 900.0, -900.0
    logits[4, 1], logits[5, 2], logits[6] = np.nan, np.inf, -np.inf
    for kind in (torch.float64, torch.float32):
        given = torch.tensor(logits, dtype=kind)
        expected = softmax_by_blocks(given.to(torch.float64).numpy())
        assert np.array_equal(engine.softmax(given).numpy(), expected, equal_nan=True)


def test_layouts():
    wide = layout_of(torch.empty(4, 1000))
    assert (wide.lanes, wide.vector, wide.is_narrow, wide.is_held) == (32, 4, False, True)
    assert layout_of(torch.empty(4, 1000, dtype=torch.float16)).vector == 8
    assert layout_of(torch.empty(4, 1001)[1:]).vector == 1
    assert layout_of(torch.empty(4, 10)).is_narrow
    assert not layout_of(torch.empty(4, 100_000)).is_held
