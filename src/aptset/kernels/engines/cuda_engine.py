"""The loops on NVIDIA devices: which kernel runs on which rows. What they do is written in CUDA C, in ``cuda/``."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.cuda.arguments import Job, OfCalibration, Output, Wanted, changed, pointer
from aptset.kernels.cuda.launcher import Launcher
from aptset.kernels.engines.seam import BLOCK_ROWS, Calibrated
from aptset.kernels.engines.torch_rows import TORCH
from aptset.kernels.quotients import rounding_bits
from aptset.kernels.rowhash import GOLDEN, column_keys, mix
from aptset.kernels.softmax import softmax

ROWS_AT_A_TIME = 2**20  # what is noted of them takes 20 MB at most
NARROW_ROWS_AT_A_TIME = 5 * 2**20  # 60 MB: launches count where rows are short
_MOST_SHARED = 200 * 2**10  # bytes of a block
_MOST_SCRATCH = 16 * 2**20  # bytes, where rows are too long for that
_WIDEST_HELD = 2048  # columns that fit the registers of a warp
_WIDEST_SORTED = 1024  # the same, with their places
_NONE = -1  # as a word: all ones
_BLOCK = 128  # threads
NARROW_BLOCKS = 16  # for a multiprocessor: fewer than there is work for, so that each asks for rows ahead
_RANK, _TOP, _FIRST = 5, 8, 10  # among the weights


class What:
    """What becomes of the scores in ``ordered.cu``."""

    SCORES, P_VALUES, SIZES, MEMBERS, MASK_BY_LABEL, SIZES_BY_LABEL, MEMBERS_BY_LABEL = range(7)


class Starts(Protocol):
    """What starts kernels: a device, or what stands for it in tests."""

    multiprocessors: int

    def run(self, name: str, defines: Any, kernel: str, grid: int, block: int, shared: int, *arguments: Any) -> None:
        """Start a kernel."""
        ...


class Layout(NamedTuple):
    """How a warp reads rows."""

    columns: int
    element: int
    lanes: int
    vector: int

    def defines(self, block: int = _BLOCK) -> dict[str, int]:
        """Return what a program is compiled with."""
        return {name.upper(): value for name, value in self._asdict().items()} | {"BLOCK": block}

    @property
    def is_narrow(self) -> bool:
        """Whether a thread has a row."""
        return self.lanes == 1

    @property
    def is_held(self) -> bool:
        """Whether a row fits the registers."""
        return self.element != 1 and self.columns <= _WIDEST_HELD

    @property
    def each(self) -> int:
        """How many labels a lane has, as a power of two."""
        at_a_time = self.lanes * self.vector
        return max(8, 1 << (-(-self.columns // at_a_time) * self.vector - 1).bit_length())

    @property
    def is_sorted_in_registers(self) -> bool:
        """Whether the labels of a row and their places fit the registers of its lanes."""
        return self.element != 1 and self.columns <= _WIDEST_SORTED


def layout_of(values: Any) -> Layout:
    """Return the layout for a matrix: 16 bytes a read where rows allow it, about 32 labels a lane."""
    kinds = {"torch.float32": 0, "torch.float64": 1, "torch.float16": 2, "torch.bfloat16": 3}
    columns, size = int(values.shape[1]), values.element_size()
    lanes = 1 if columns <= 16 else min(32, max(4, 1 << (columns - 1).bit_length() - 5))
    together = columns if lanes > 1 else 32 * columns  # labels that are read side by side
    vector = next(
        v for v in (8, 4, 2, 1) if v * size <= 16 and together % v == 0 and values.data_ptr() % (v * size) == 0
    )
    return Layout(columns, kinds[str(values.dtype)], lanes, vector)


class Chunk(NamedTuple):
    """Where some rows start."""

    start: int


@dataclass(frozen=True)
class CudaEngine:
    """Loops in CUDA C, for one device."""

    starts: Starts
    name: str = "cuda"

    @staticmethod
    def for_device(device: Any) -> CudaEngine | None:
        """Return the engine of a device, or None where kernels cannot be compiled for it."""
        return _engine_of(str(device))

    def label_scores(self, rows: Any, labels: Any) -> tuple[Any, Any, Any, Any]:
        """Score one label of each row."""
        torch, scores = _torch(), _new(rows, (len(rows.probabilities),), "float64")
        seeds = _new(rows, (len(scores),), "int64") if rows.seeds is None else rows.seeds
        labels = labels.to(device=scores.device, dtype=torch.int64).contiguous()
        layout = layout_of(rows.probabilities)

        of_warp = 32 if len(scores) >= 2**17 else 32 // layout.lanes * min(layout.lanes, 4)

        def where(chunk: Chunk) -> list[c_void_p]:
            return _pointers(pointer(labels, chunk.start), pointer(scores, chunk.start))

        def work(chunk: Chunk, job: Job) -> None:
            if layout.is_narrow:
                self._run(
                    "narrow.cu", layout, "label_scores", self._blocks(job, _BLOCK, NARROW_BLOCKS), job, *where(chunk)
                )
                return
            turns = c_int64(of_warp * layout.lanes // 32)
            self._run(
                "scores.cu", layout, "label_scores", self._blocks(job, 4 * of_warp, 16), job, *where(chunk), turns
            )

        def rest(chunk: Chunk, job: Job) -> None:
            grid, none = self._blocks(job, 4, 4), c_int64(0)
            self._run("scores.cu", layout, "label_scores_carefully", grid, job, *where(chunk), none)

        careful = None if layout.is_narrow else rest
        n_copies, first_bad = self._over_chunks(rows, work, careful, None if rows.seeds is not None else seeds)
        return scores, seeds, n_copies, first_bad

    def mask(self, rows: Any, thresholds: Any, at_least: int) -> tuple[Any, Any]:
        """Flag the members."""
        flags = _new(rows, rows.probabilities.shape, "bool")
        _, first_bad = self._cut(rows, thresholds, at_least, flags, None)
        return flags, first_bad

    def _cut(self, rows: Any, thresholds: Any, at_least: int, flags: Any, sizes: Any) -> tuple[Any, Any]:
        layout, per_row = layout_of(rows.probabilities), len(thresholds) > 1
        thresholds = _as_doubles(thresholds)

        def wanted(chunk: Chunk) -> Wanted:
            at = pointer(thresholds, chunk.start if per_row else 0)
            return Wanted(at, per_row, at_least, pointer(flags, chunk.start), pointer(sizes, chunk.start))

        def work(chunk: Chunk, job: Job) -> None:
            if layout.is_narrow:
                self._run("narrow.cu", layout, "mask", self._blocks(job, _BLOCK, NARROW_BLOCKS), job, wanted(chunk))
            elif layout.is_held:
                grid = self._blocks(job, _BLOCK // layout.lanes, 16)
                self._run("masks.cu", layout, "mask", grid, job, wanted(chunk))
            else:
                rest(chunk, job, 1)

        def rest(chunk: Chunk, job: Job, all_of_them: int = 0) -> None:
            last = c_int64(all_of_them)
            grid = self._blocks(job, 4, 16 if all_of_them else 4)
            self._run("masks.cu", layout, "mask_carefully", grid, job, wanted(chunk), last)

        return self._over_chunks(rows, work, rest if layout.is_held and not layout.is_narrow else None)

    def cut(self, rows: Any, thresholds: Any, at_least: int) -> tuple[Any, Any, Any, Any]:
        """Return the members at the largest threshold, most likely first, and the sizes at all of them."""
        n, n_thresholds = len(rows.probabilities), thresholds.shape[1]
        thresholds, sizes = _as_doubles(thresholds), _new(rows, (n_thresholds, n), "int32")
        if n_thresholds == 1:
            _, first_bad = self._cut(rows, thresholds[:, 0], at_least, None, sizes[0])
        else:
            per_row = len(thresholds) > 1
            output = Output(thresholds=pointer(thresholds), n_thresholds=n_thresholds, per_row=per_row)
            output = changed(output, at_least=at_least, n_rows=n)
            of_rows = {"thresholds": thresholds} if per_row else {}
            first_bad = self._ordered(rows, What.SIZES, output, sizes=sizes.T, **of_rows)
        longest = sizes.amax(dim=0)
        members = self._members(rows, What.MEMBERS, longest, first_bad, Output(), longest=longest)
        return sizes, longest, members, first_bad

    def mask_by_label(self, rows: Any, thresholds: Any, at_least: int) -> tuple[Any, Any]:
        """Flag the members where each column has a threshold of its own."""
        flags, thresholds = _new(rows, rows.probabilities.shape, "bool"), _as_doubles(thresholds)
        output = Output(flags=pointer(flags), thresholds=pointer(thresholds), at_least=at_least)
        return flags, self._ordered(rows, What.MASK_BY_LABEL, output, flags=flags)

    def cut_by_label(self, rows: Any, thresholds: Any, at_least: int) -> tuple[Any, Any, Any]:
        """Return the members where each column has a threshold of its own, most likely first."""
        sizes, thresholds = _new(rows, (len(rows.probabilities),), "int32"), _as_doubles(thresholds)
        output = Output(thresholds=pointer(thresholds), at_least=at_least, sizes=pointer(sizes))
        first_bad = self._ordered(rows, What.SIZES_BY_LABEL, output, sizes=sizes)
        return sizes, self._members(rows, What.MEMBERS_BY_LABEL, sizes, first_bad, output, sizes=sizes), first_bad

    def _members(self, rows: Any, what: int, of_sets: Any, first_bad: Any, output: Output, **by_row: Any) -> Any:
        """Write the members of sets whose sizes are known, one row after the other."""
        if int(first_bad) >= 0:  # sizes are worth nothing
            return _new(rows, (0,), "int32")
        ends = of_sets.cumsum(0, dtype=_torch().int64)
        members = _new(rows, (int(ends[-1]),), "int32")
        self._ordered(rows, what, changed(output, members=pointer(members)), pointers=ends - of_sets, **by_row)
        return members

    def all_scores(self, rows: Any) -> tuple[Any, Any]:
        """Score every label."""
        scores = _new(rows, rows.probabilities.shape, "float64")
        return scores, self._ordered(rows, What.SCORES, Output(), scores=scores)

    def p_values(self, rows: Any, calibrated: Calibrated, row_groups: Any) -> tuple[Any, Any]:
        """Return the p-value of every label."""
        p_values = _new(rows, rows.probabilities.shape, "float64")
        return p_values, self._ordered(
            rows, What.P_VALUES, Output(), calibrated=calibrated, row_groups=row_groups, scores=p_values
        )

    def hash_rows(self, values: Any, key: int) -> Any:
        """Seed every row of a matrix of any numbers."""
        seeds = values.new_empty(len(values), dtype=_torch().int64)
        job = Job(rows=pointer(values), n=len(values), column_keys=pointer(_keys(key, values)), base=_base(key))
        job.weights = (0.0,) * 16
        grid = self._blocks(job, 4)
        self._run("scores.cu", layout_of(values), "hash_rows", grid, job, *_pointers(pointer(seeds)))
        return seeds

    def softmax(self, logits: Any) -> Any:
        """Return the probabilities of logits, in float64; of longer rows than fit by operations of torch."""
        layout, found = layout_of(logits), logits.new_empty(logits.shape, dtype=_torch().float64)
        team = 32 if layout.columns <= 256 else 128
        shared = _BLOCK // team * layout.columns * 8
        if shared > _MOST_SHARED:
            return softmax(logits.to(found.dtype), TORCH)
        grid = max(1, min(-(-len(logits) * team // _BLOCK), self.starts.multiprocessors * 64))
        defines = layout._replace(lanes=32, vector=1).defines() | {"TEAM": team, "ASKS": 0, "RANKS": 0}
        arguments = (c_void_p(pointer(logits)), c_int64(len(logits)), c_void_p(pointer(found)))
        self.starts.run("softmax.cu", defines, "softmax", grid, _BLOCK, shared, *arguments)
        return found

    def _ordered(
        self,
        rows: Any,
        what: int,
        output: Output,
        calibrated: Calibrated | None = None,
        row_groups: Any = None,
        **by_row: Any,
    ) -> Any:
        """Put rows in order and use their scores; ``by_row`` names the fields of the output that go along with rows."""
        layout, values = layout_of(rows.probabilities), rows.probabilities
        of_calibration = OfCalibration() if calibrated is None else self._on_device(calibrated, values)

        def arguments(chunk: Chunk, job: Job) -> tuple[Any, ...]:
            fields = {name: pointer(tensor, chunk.start) for name, tensor in by_row.items()}
            return job, changed(output, **fields), changed(of_calibration, row_groups=pointer(row_groups, chunk.start))

        def work_on_narrow(chunk: Chunk, job: Job) -> None:
            defines, grid = _defines(layout, job) | {"WHAT": what}, self._blocks(job, _BLOCK, NARROW_BLOCKS)
            self.starts.run("narrow.cu", defines, "every_label", grid, _BLOCK, 0, *arguments(chunk, job))

        def work_in_registers(chunk: Chunk, job: Job) -> None:
            defines, a_warp = _defines(layout, job) | {"WHAT": what, "EACH": layout.each}, _BLOCK // 32
            places = 32 * layout.each
            shared, rows_of_block = a_warp * 8 * (places + places // 32), _BLOCK // layout.lanes
            grid = self._blocks(job, rows_of_block, 16)
            self.starts.run("sorted.cu", defines, "sorted", grid, _BLOCK, shared, *arguments(chunk, job))

        if layout.is_narrow:
            return self._over_chunks(rows, work_on_narrow)[1]
        if layout.is_sorted_in_registers:
            return self._over_chunks(rows, work_in_registers)[1]
        length = max(32, 1 << (layout.columns - 1).bit_length())
        team = 32 if length <= 256 else 256 if length < 8192 else 1024
        block = max(team, 128)
        a_team = length * (12 if layout.element == 1 else 8)
        shared = block // team * a_team
        in_memory = shared > _MOST_SHARED
        grid = max(1, min(-(-len(values) // (block // team)), self.starts.multiprocessors * (2048 // block)))
        grid = min(grid, max(1, _MOST_SCRATCH // a_team)) if in_memory else grid
        memory = values.new_empty(grid * a_team, dtype=_torch().uint8) if in_memory else None
        of_block = 0 if in_memory else shared

        def work(chunk: Chunk, job: Job) -> None:
            last, defines = c_void_p(pointer(memory)), _defines(layout._replace(lanes=32, vector=1), job, block)
            defines |= {"LENGTH": length, "TEAM": team, "WHAT": what}
            self.starts.run("ordered.cu", defines, "ordered", grid, block, of_block, *arguments(chunk, job), last)

        return self._over_chunks(rows, work)[1]

    def _on_device(self, calibrated: Calibrated, values: Any) -> OfCalibration:
        """Return the calibration in the memory of the device, where it is kept."""
        torch, place = _torch(), f"{self.name} {values.device}"
        if place not in calibrated.kept:
            arrays = (calibrated.scores, calibrated.offsets, *calibrated.index, _rounding(calibrated))
            calibrated.kept[place] = [
                None if one is None else torch.tensor(one, device=values.device) for one in arrays
            ]
        scores, offsets, *index, rounding = map(pointer, calibrated.kept[place])
        return OfCalibration(scores, offsets, None, *index, rounding)

    def _over_chunks(
        self,
        rows: Any,
        work: Callable[[Chunk, Job], None],
        careful: Callable[[Chunk, Job], None] | None = None,
        seeds: Any = None,
    ) -> tuple[Any, Any]:
        """Run work on chunks of rows, on the copies again, then what was left; count copies, tell the first bad row.

        Seeds are noted in ``seeds``, if they are there.
        """
        torch, values = _torch(), rows.probabilities
        hashes, step = rows.seeds is None, ROWS_AT_A_TIME if careful is not None else NARROW_ROWS_AT_A_TIME
        n, most = len(values), min(len(values), step)
        n_chunks = -(-n // step)
        counters = torch.zeros((n_chunks, 4), dtype=torch.int64, device=values.device)  # copies, slow, none, bad
        kept = (most if seeds is None else 0, most) if hashes else (0, 0)
        noted = torch.empty(kept[0], dtype=torch.int64, device=values.device)
        which = torch.empty(kept[1], dtype=torch.int32, device=values.device)
        slow = None if careful is None else torch.empty(2 * most, dtype=torch.int32, device=values.device)
        job = Job(column_keys=pointer(_keys(rows.key, values)), base=_base(rows.key), tolerance=rows.tolerance)
        job.slow, job.weights = pointer(slow), tuple(rows.weights.flat.tolist())
        for number, start in enumerate(range(0, n, step)):
            size, of_chunk = min(step, n - start), counters.data_ptr() + 32 * number
            job.rows, job.n, job.u = pointer(values, start), size, pointer(rows.u, start)
            job.n_slow, job.bad = of_chunk + 8, of_chunk + 24
            job.seeds = pointer(rows.seeds, start)
            job.noted = (pointer(noted) if seeds is None else pointer(seeds, start)) if hashes else None
            chunk = Chunk(start)
            work(chunk, job)
            if hashes:
                found = _pointers(pointer(which), of_chunk)
                first_block = c_uint64((rows.first_row + start) // BLOCK_ROWS)
                arguments = (c_void_p(job.noted), c_int64(size), first_block, c_uint64(rows.side), *found)
                self.starts.run("copies.cu", {}, "find_copies", -(-size // BLOCK_ROWS), 512, 0, *arguments)
                work(chunk, changed(job, which=pointer(which), seeds=job.noted, count=of_chunk, noted=None))
            if careful is not None:  # by now every seed is known
                careful(chunk, changed(job, seeds=job.noted, noted=None) if hashes else job)
        results = torch.empty(2, dtype=torch.int64, device=values.device)
        last = (c_void_p(pointer(counters)), c_int64(n_chunks), c_int64(step), c_void_p(pointer(results)))
        self.starts.run("copies.cu", {}, "finish", 1, 1, 0, *last)
        return results[0], results[1]

    def _blocks(self, job: Job, rows_of_block: int, most: int = 512) -> int:
        """Return how many blocks of threads there is work for; copies are few, so that few blocks look after them."""
        most = min(most, 4) if job.which else most
        return max(1, min(-(-int(job.n) // rows_of_block), self.starts.multiprocessors * most))

    def _run(self, name: str, layout: Layout, kernel: str, grid: int, job: Job, *arguments: Any) -> None:
        self.starts.run(name, _defines(layout, job), kernel, grid, _BLOCK, 0, job, *arguments)


def _defines(layout: Layout, job: Job, block: int = _BLOCK) -> dict[str, int]:
    """Return what a program is compiled with: the form of the score is known then."""
    weights = job.weights
    asks, ranks = weights[_TOP] != 0.0 or weights[_FIRST] != 0.0, weights[_RANK] != 0.0
    return layout.defines(block) | {"HASHES": int(job.seeds is None), "ASKS": int(asks), "RANKS": int(ranks)}


def _rounding(calibrated: Calibrated) -> NDArray[np.uint8]:
    return rounding_bits(calibrated.offsets, lambda n: engines.chosen.p_value_table(n, np.arange(n + 1)))


def _torch() -> Any:
    import torch

    return torch


def _new(rows: Any, shape: Any, kind: str) -> Any:
    """Return an empty tensor on the device of the rows."""
    torch = _torch()
    return torch.empty(tuple(shape), dtype=getattr(torch, kind), device=rows.probabilities.device)


def _as_doubles(values: Any) -> Any:
    return values.to(_torch().float64).contiguous()


def _pointers(*values: int | None) -> list[c_void_p]:
    return [c_void_p(value) for value in values]


def _base(key: int) -> int:
    """Return what every hash is shifted by."""
    return int(mix(np.array([(key + GOLDEN) & (2**64 - 1)], dtype=np.uint64))[0])


def _keys(key: int, values: Any) -> Any:
    """Return the secrets of the columns on the device."""
    return _kept_keys(key, int(values.shape[1]), str(values.device))


@lru_cache(maxsize=16)
def _kept_keys(key: int, n_columns: int, device: str) -> Any:
    return _torch().tensor(column_keys(key, n_columns).view(np.int64), device=device)


@lru_cache(maxsize=64)
def _engine_of(device: str) -> CudaEngine | None:
    launcher = Launcher.of(device)
    return None if launcher is None else CudaEngine(launcher)
