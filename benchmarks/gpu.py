"""The loops on a GPU: ``python -m benchmarks gpu`` writes docs/benchmarks/gpu.json and gpu.md.

Times are those of the device, by its events, warm, the median of several runs. The device is kept busy until all work
is queued, so that the host's time is not in them; where "wall" is said they are those of a clock on the wall. The limit
is what must be read and written, at the speed of a copy that was measured in the same run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import aptset
from aptset.kernels import counting as counts
from aptset.kernels import membership as cuts
from aptset.kernels.engines.cuda_engine import CudaEngine
from aptset.kernels.engines.interface import Calibrated
from aptset.kernels.formula import Formula
from aptset.kernels.membership import in_order
from aptset.kernels.rows import Rows, label_scores
from aptset.kernels.tensors import TensorRows
from aptset.torch import SetLayer
from benchmarks.peers import Absent
from benchmarks.timing import cores

WEIGHTS = aptset.Adaptive().weights
KEY, TOLERANCE = 20201116, 1e-3
QUEUE_CYCLES = 10_000_000  # about 5 ms
SPREAD = {"random": 2.0, "peaked": 6.0, "flat": 0.1}  # of the logits


def milliseconds(work: Callable[[], Any], rounds: int = 15) -> float:
    """Return the median time that the device takes, by kernels that are compiled in full."""
    work()
    CudaEngine.for_device(torch.device("cuda:0")).starts.finish_compiling()
    for _ in range(3):
        work()
    times = []
    for _ in range(rounds):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(QUEUE_CYCLES)
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def softmax_rows(n: int, k: int, kind: str) -> torch.Tensor:
    return logit_rows(n, k, kind, soften=True)


def logit_rows(n: int, k: int, kind: str, dtype: torch.dtype = torch.float32, soften: bool = False) -> torch.Tensor:
    torch.manual_seed(n + k)
    rows = torch.empty((n, k), device="cuda", dtype=dtype)
    step = max(1, 2**27 // k)
    for start in range(0, n, step):
        part = rows[start : start + step]
        logits = torch.randn(part.shape, device="cuda") * SPREAD[kind]
        part[:] = torch.softmax(logits, dim=1) if soften else logits
    return rows


def drawn_labels(logits: torch.Tensor) -> torch.Tensor:
    """Draw a label of each of the first rows, and use them again and again."""
    some = torch.multinomial(torch.softmax(logits[:100_000].float(), dim=1), 1)[:, 0]
    return some.repeat(-(-len(logits) // len(some)))[: len(logits)].contiguous()


def wall_milliseconds(work: Callable[[], Any], rounds: int = 50) -> float:
    """Return the median time from the call to the end of the device's work, when the device runs at its full speed."""
    work()
    CudaEngine.for_device(torch.device("cuda:0")).starts.finish_compiling()
    end = time.perf_counter() + 0.2
    while time.perf_counter() < end:
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def copy_speed() -> float:
    """Return bytes a millisecond, read and written."""
    source = torch.empty(2**30, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: target.copy_(source))


def by_sorting(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The score as it is commonly computed on a device: sort, sum, look the label up."""
    ordered, order = torch.sort(rows, dim=1, descending=True)
    sums = ordered.cumsum(dim=1)
    place = (order == labels[:, None]).int().argmax(dim=1, keepdim=True)
    u = torch.rand(len(rows), device=rows.device)
    return (sums.gather(1, place) - u[:, None] * ordered.gather(1, place))[:, 0]


def mask_by_sorting(rows: torch.Tensor, threshold: float) -> torch.Tensor:
    ordered, order = torch.sort(rows, dim=1, descending=True)
    u = torch.rand((len(rows), 1), device=rows.device)
    inside = ordered.cumsum(dim=1) - u * ordered <= threshold
    return torch.zeros_like(inside).scatter_(1, order, inside)


def torchcp_score() -> Any:
    """TorchCP's score, or None where it is not installed."""
    sys.meta_path.append(Absent())
    try:
        from torchcp.classification.score import APS
    except ImportError:
        return None
    return APS(score_type="identity")


class Bench:
    """Measures one workload after the other."""

    def __init__(self) -> None:
        self.speed = copy_speed()
        self.engine = CudaEngine.for_device("cuda:0")
        self.torchcp = torchcp_score()
        self.lines: list[dict[str, Any]] = []

    def line(self, work: str, ours: float, limit_bytes: float, goal: float | None = None, **others: Any) -> None:
        """Note a line; without a limit where so little is moved that the call itself is what takes time."""
        limit = limit_bytes / self.speed if limit_bytes else None
        times = ours / limit if limit else None
        found = {"work": work, "limit_ms": limit, "aptset_ms": ours, "times_limit": times, "goal": goal, **others}
        self.lines.append(found)
        said = " ".join(f"{name}={value:.4g}" for name, value in found.items() if isinstance(value, float))
        print(f"{work}: {said}", flush=True)


def of_rows(values: torch.Tensor) -> TensorRows:
    return TensorRows(values, WEIGHTS, KEY, TOLERANCE)


def host_rows(values: torch.Tensor) -> Rows:
    return Rows(values.cpu().numpy(), Formula(WEIGHTS), KEY, TOLERANCE)


def seconds(work: Callable[[], Any]) -> float:
    work()
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def peers(line: dict[str, Callable[[], Any]], rounds: int = 3) -> Iterator[tuple[str, float | None]]:
    for name, work in line.items():
        try:
            yield name, milliseconds(work, rounds)
        except (torch.cuda.OutOfMemoryError, TypeError):  # too large, or not installed
            yield name, None
        torch.cuda.empty_cache()


def scores(bench: Bench, n: int, k: int, goal: float, with_peers: bool = True) -> torch.Tensor:
    rows = softmax_rows(n, k, "random")
    labels = torch.randint(0, k, (n,), device="cuda")
    ours = milliseconds(lambda: bench.engine.label_scores(of_rows(rows), labels))
    others = {"sort_ms": lambda: by_sorting(rows, labels), "torchcp_ms": lambda: bench.torchcp(rows, labels)}
    found = dict(peers(others if with_peers else {}))
    bench.line(f"scores {n:,} x {k}", ours, rows.nbytes + 16 * n, goal, **found)
    return bench.engine.label_scores(of_rows(rows), labels)[0]


def masks(bench: Bench, n: int, k: int, kind: str, goal: float, with_peers: bool = True) -> None:
    rows = softmax_rows(n, k, kind)
    some = bench.engine.label_scores(of_rows(rows[:100_000]), torch.multinomial(rows[:100_000], 1)[:, 0])[0]
    threshold = torch.quantile(some, 0.9)[None]
    ours = milliseconds(lambda: bench.engine.mask(of_rows(rows), threshold, 0))
    number = float(threshold)
    others = {"sort_ms": lambda: mask_by_sorting(rows, number), "torchcp_ms": lambda: bench.torchcp(rows) <= number}
    found = dict(peers(others if with_peers else {}))
    size = float(bench.engine.mask(of_rows(rows[:10_000]), threshold, 0)[0].sum(1).float().mean())
    bench.line(f"mask {n:,} x {k} {kind}", ours, rows.nbytes + n * k, goal, mean_size=size, **found)


def of_logits(bench: Bench, n: int, k: int, kind: str, dtype: torch.dtype, mask_goal: float, score_goal: float) -> None:
    """Logits in, masks and scores of labels out; the layer by the wall."""
    logits = logit_rows(n, k, kind, dtype)
    labels, name = drawn_labels(logits), f"{n:,} x {k} {kind} {str(dtype).removeprefix('torch.')}"
    rows = TensorRows(logits, WEIGHTS, KEY, 1e-5, logits=True)
    scored = bench.engine.label_scores(rows, labels)[0]
    threshold = torch.quantile(scored[:100_000], 0.9)[None]
    moved = logits.nbytes + n * k
    bench.line(f"mask of logits {name}", milliseconds(lambda: bench.engine.mask(rows, threshold, 0)), moved, mask_goal)
    took = milliseconds(lambda: bench.engine.label_scores(rows, labels))
    bench.line(f"scores of logits {name}", took, logits.nbytes + 16 * n, score_goal)
    if dtype == torch.float32 and kind == "random":
        calibration = aptset.calibrate(logits, labels, logits=True, random_state=0)
        layer = SetLayer.of(calibration, 0.1).to("cuda")
        bench.line(f"layer {name}, wall", wall_milliseconds(lambda: layer(logits), 9), moved, mask_goal)
        compiled = torch.compile(layer, fullgraph=True)
        bench.line(f"compiled layer {name}, wall", wall_milliseconds(lambda: compiled(logits), 9), moved, mask_goal)


def small_batches(bench: Bench, k: int = 1000) -> None:
    """What a call costs, by the wall: beside torch's softmax and top-k."""
    many = logit_rows(50_000, k, "random")
    calibration = aptset.calibrate(many, drawn_labels(many), logits=True, random_state=0)
    layer = SetLayer.of(calibration, 0.1).to("cuda")
    compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead")
    for n in (1, 32, 512):
        logits = many[:n].clone()
        probabilities = torch.softmax(logits, dim=1)
        topk = wall_milliseconds(lambda x=logits: torch.topk(torch.softmax(x, dim=1), min(k, 5)), 300)
        calls = {
            "layer": lambda x=logits: layer(x),
            "layer as a graph of CUDA": lambda x=logits: compiled(x),
            "mask of logits": lambda x=logits: calibration.predict_mask(x, 0.1, logits=True),
            "mask": lambda p=probabilities: calibration.predict_mask(p, 0.1),
        }
        for name, work in calls.items():
            bench.line(f"{name} {n} x {k}, wall", wall_milliseconds(work, 300), 0, topk_ms=topk)


def calibrating(bench: Bench, n: int = 1_000_000, k: int = 1000) -> None:
    """Calibration and p-values of probabilities, by the wall."""
    rows = softmax_rows(n, k, "random")
    labels = torch.multinomial(rows[:100_000], 1)[:, 0].repeat(n // 100_000)
    took = wall_milliseconds(lambda: aptset.calibrate(rows, labels, random_state=0), 9)
    bench.line(f"calibrate {n:,} x {k}, wall", took, rows.nbytes + 16 * n, 4 / ((rows.nbytes + 16 * n) / bench.speed))
    calibration = aptset.calibrate(rows[:10_000], labels[:10_000], random_state=0)
    took, moved = wall_milliseconds(lambda: calibration.p_values(rows), 5), rows.nbytes + 8 * n * k
    bench.line(f"p-values {n:,} x {k}, n = 10,000, wall", took, moved, 15 / (moved / bench.speed))


def the_rest(bench: Bench, n: int = 1_000_000, k: int = 100) -> None:
    """p-values, sets in order, twenty levels: on the device, and on all cores of the same machine."""
    rows = softmax_rows(n, k, "random")
    labels = torch.multinomial(rows, 1)[:, 0]
    found = bench.engine.label_scores(of_rows(rows), labels)[0].cpu().numpy()
    sorted_scores, offsets = np.sort(found), np.array([0, n])
    calibrated = Calibrated(sorted_scores, offsets, counts.index_of(sorted_scores, offsets))
    groups = torch.zeros(n, dtype=torch.int32, device="cuda")
    host, on_host = host_rows(rows), np.zeros(n, dtype=np.int32)
    cpu = seconds(lambda: counts.p_values_of_rows(host, calibrated, on_host))
    ours = milliseconds(lambda: bench.engine.p_values(of_rows(rows), calibrated, groups), 5)
    bench.line(f"p-values {n:,} x {k}, n = {n:,}", ours, rows.nbytes + 8 * n * k, cores_ms=cpu, times_cores=cpu / ours)
    for name, levels in (("sets in order", [0.1]), ("sets at 20 levels", np.linspace(0.02, 0.4, 20).tolist())):
        thresholds = np.quantile(sorted_scores, 1 - np.array(levels))[None]
        on_device = torch.tensor(thresholds, device="cuda")
        wanted = thresholds.T[:, :, None]
        cpu = seconds(lambda wanted=wanted: [in_order(sets) for _, sets in cuts.select(host, wanted).sets])
        ours = milliseconds(lambda on_device=on_device: bench.engine.cut(of_rows(rows), on_device, 0), 5)
        sizes, _, members, _ = bench.engine.cut(of_rows(rows), on_device, 0)
        moved = rows.nbytes + sizes.nbytes + members.nbytes
        bench.line(f"{name} {n:,} x {k}", ours, moved, cores_ms=cpu, times_cores=cpu / ours)
    cpu = seconds(lambda: label_scores(host, labels.cpu().numpy()))
    ours = milliseconds(lambda: bench.engine.label_scores(of_rows(rows), labels))
    bench.line(
        f"scores {n:,} x {k}, against all cores", ours, rows.nbytes + 16 * n, cores_ms=cpu, times_cores=cpu / ours
    )


def memory(bench: Bench) -> float:
    """Return how many bytes a mask takes beside the rows and the result."""
    rows = softmax_rows(1_000_000, 1000, "random")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    mask, _ = bench.engine.mask(of_rows(rows), torch.tensor([0.9], device="cuda", dtype=torch.float64), 0)
    return float(torch.cuda.max_memory_allocated() - before - mask.nbytes)


FIRST_CALLS = """
import time, torch, aptset
def seconds(work):
    torch.cuda.synchronize()
    start = time.perf_counter()
    made = work()
    torch.cuda.synchronize()
    return made, time.perf_counter() - start
torch.softmax(torch.randn(1000, 100, device="cuda"), 1).argmax(1)
for columns, logits in ((100, False), (113, False), (113, True)):
    rows = torch.randn(1000, columns, device="cuda")
    rows = rows if logits else torch.softmax(rows, 1)
    calibration, took = seconds(lambda: aptset.calibrate(rows, rows.argmax(1), logits=logits))
    print(took, seconds(lambda: calibration.predict_mask(rows, 0.1, logits=logits))[1])
"""


def first_calls() -> list[list[list[float]]]:
    """Return the seconds of the first calls of a process, calibrate and a mask, on new shapes.

    The process is a new one, twice: with kernels that nobody compiled before, and with these kernels. Modules are
    compiled to bytecode first, as an installation does, also where the environment keeps none.
    """
    with tempfile.TemporaryDirectory() as folder:
        around = os.environ | {"APTSET_CACHE": folder, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        around |= {"CUDA_CACHE_DISABLE": "1"}  # the compiler has a cache of its own
        command = [sys.executable, "-W", "ignore", "-c"]
        imports = "import aptset; aptset.calibrate; import aptset.torch, aptset.kernels.engines.cuda_engine"
        subprocess.run([*command, imports], env=around, check=True)
        runs = [subprocess.run([*command, FIRST_CALLS], capture_output=True, text=True, env=around) for _ in range(2)]
    return [[[float(number) for number in line.split()] for line in run.stdout.splitlines()] for run in runs]


def in_words(calls: list[list[float]]) -> str:
    """Say what first calls took."""
    (process, mask), *shapes = calls
    of_shapes = ", ".join(
        f"{calibrate:.2f} and {mask:.2f} s of {what}" for (calibrate, mask), what in zip(shapes, WHAT, strict=True)
    )
    return f"{process:.2f} and {mask:.2f} s as the first of a process, {of_shapes} with another number of columns"


WHAT = ("probabilities", "logits")


def page(facts: dict[str, Any]) -> str:
    """Return the table as a page."""
    head = "| work | limit, ms | aptset, ms | x limit | goal | torch.sort, ms | TorchCP, ms | all cores, ms "
    head += "| softmax + top-k, ms |"
    rows = [head, "|---|---|---|---|---|---|---|---|---|"]
    for line in facts["lines"]:
        cells = [f"{line[name]:.3g}" if line.get(name) is not None else "" for name in CELLS]
        rows.append(f"| {line['work']} | " + " | ".join(cells) + " |")
    said = (
        f"{facts['device']}, driver {facts['driver']}, torch {facts['torch']}, CUDA {facts['cuda']}, {facts['date']}; "
        f"a copy moves {facts['copy_bytes_per_ms'] / 1e9:.3g} TB/s. Beside rows and result a mask of 1,000,000 x 1000 "
        f"takes {facts['extra_bytes'] / 2**20:.0f} MiB. First calls, `calibrate` and a mask of 1,000 rows, by kernels "
        f"that nobody compiled before: {in_words(facts['first_calls_s'][0])}; by kernels that were compiled before: "
        f"{in_words(facts['first_calls_s'][1])}. "
        f"All cores: {facts['cores']} of the same machine, compiled loops, {facts.get('cores_date', facts['date'])}."
    )
    return "# Benchmarks on a GPU\n\n" + said + "\n\n" + "\n".join(rows) + "\n\nMade by `python -m benchmarks gpu`.\n"


CELLS = ("limit_ms", "aptset_ms", "times_limit", "goal", "sort_ms", "torchcp_ms", "cores_ms", "topk_ms")


def driver() -> str:
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def run(folder: Path) -> None:
    """Measure and write."""
    bench = Bench()
    print(f"copy {bench.speed / 1e9:.3g} TB/s", flush=True)
    for n, k, goal in ((1_000_000, 1000, 1.35), (1_000_000, 100, 1.6), (10_000_000, 10, 1.8), (50_000, 1000, 1.6)):
        scores(bench, n, k, goal)
    for kind in SPREAD:
        of_logits(bench, 1_000_000, 1000, kind, torch.float32, 4.0, 3.0)
    for dtype in (torch.float16, torch.bfloat16):
        of_logits(bench, 1_000_000, 1000, "random", dtype, 4.0, 3.0)
    for n, k in ((50_000, 1000), (1_000_000, 100), (10_000_000, 10)):
        of_logits(bench, n, k, "random", torch.float32, 8.0, 3.0)
    small_batches(bench)
    calibrating(bench)
    for kind in SPREAD:
        masks(bench, 1_000_000, 1000, kind, 2.5, kind == "random")
        masks(bench, 1_000_000, 100, kind, 4.0, kind == "random")
        masks(bench, 10_000_000, 10, kind, 4.0, kind == "random")
        masks(bench, 50_000, 1000, kind, 3.2, kind == "random")
    the_rest(bench)
    facts = {
        "device": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cores": cores(),
        "copy_bytes_per_ms": bench.speed,
        "extra_bytes": memory(bench),
        "first_calls_s": first_calls(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "lines": bench.lines,
    }
    (folder / "gpu.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "gpu.md").write_text(page(facts))
