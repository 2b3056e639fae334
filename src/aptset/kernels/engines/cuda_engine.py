"""The loops on NVIDIA devices: which kernel runs on which rows. What they do is written in CUDA C, in ``cuda/``."""

from __future__ import annotations

from ctypes import c_int64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.cuda import Launcher
from aptset.kernels.cuda.jobs import (
    BLOCK,
    WIDEST_HELD,
    Chunk,
    Defines,
    Job,
    Layout,
    OfCalibration,
    Output,
    Starts,
    Wanted,
    changed,
    defines_by,
    defines_of,
    folds_of,
    hashes_rows,
    keys_of,
    layout_of,
    over_chunks,
    pointer,
    room_bytes,
)
from aptset.kernels.engines.interface import Calibrated
from aptset.kernels.engines.torch_rows import TORCH
from aptset.kernels.p_value_rounding import rounding_bits
from aptset.kernels.softmax import softmax

_MOST_SHARED = 200 * 2**10  # bytes of a block
_MOST_SCRATCH = 16 * 2**20  # bytes, where rows are too long for that
TILE_VECTOR = 2  # labels
_LOGITS_AT_A_TIME = 4  # that a lane of a mask reads: the keys of columns go along, and are longer than short types
_FEW, _MANY = 6, 24  # blocks for a multiprocessor: where rows are few all should start at once, else end at once
MANY_ROWS = 2**18
_IN_TILES = ("label_scores", "mask")  # kernels
_AGAIN = 4  # blocks for a multiprocessor, of few rows
_FEW_ROWS = 4096  # whose copies are left to the careful kernel: starting one kernel less is worth more
NARROW_BLOCKS = 64  # for a multiprocessor: fewer than there is work for, so that each asks for rows ahead
_WIDEST_IN_CELLS = 1024  # columns of logits whose weights have room in shared memory, 32 for a lane
_MORE_BUCKETS = 4  # for each of the host's: all lanes of a warp wait for the longest search
_OF_LOGITS = ("label_scores", "mask")  # verbs that make the softmax of rows of any length themselves


class What:
    """What becomes of the scores in ``ordered.cu``."""

    SCORES, SIZES, MEMBERS, MASK_BY_LABEL, SIZES_BY_LABEL, MEMBERS_BY_LABEL = range(6)


@dataclass(frozen=True)
class CudaEngine:
    """Loops in CUDA C, for one device."""

    starts: Starts
    name: str = "cuda"

    @staticmethod
    def for_device(device: Any) -> CudaEngine | None:
        """Return the engine of a device, or None where kernels cannot be compiled for it."""
        return _engine_of(str(device))

    def takes_logits(self, values: Any, verb: str) -> bool:
        """Whether rows of logits may come as they are."""
        columns = values.shape[1]
        return bool(layout_of(values).is_narrow or (verb in _OF_LOGITS and columns <= WIDEST_HELD))

    def label_scores(self, rows: Any, labels: Any) -> tuple[Any, Any, Any, Any]:
        """Score one label of each row."""
        scores = _new(rows, (rows.probabilities.shape[0],), torch.float64)
        seeds = _new(rows, (scores.shape[0],), torch.int64) if rows.seeds is None else rows.seeds
        labels = labels.to(device=scores.device, dtype=torch.int64).contiguous()
        layout = layout_of(rows.probabilities, rows.logits)
        if layout.lanes < 32 and layout.tile_bytes(
            "scores.cu"
        ):  # short reads of shared memory cost little, and waste less
            layout = layout._replace(vector=min(layout.vector, TILE_VECTOR))
        of_warp = 32 if scores.shape[0] >= 2**17 else 32 // layout.lanes * min(layout.lanes, 4)

        def where(chunk: Chunk) -> list[c_void_p]:
            return _pointers(pointer(labels, chunk.start), pointer(scores, chunk.start))

        def work(chunk: Chunk, job: Job) -> None:
            if layout.is_narrow:
                self._run(
                    "narrow.cu", layout, "label_scores", self._blocks(job, BLOCK, NARROW_BLOCKS), job, *where(chunk)
                )
                return
            if rows.logits:
                self._score_logits(layout, job, where(chunk))
                return
            turns = c_int64(of_warp * layout.lanes // 32)
            self._run(
                "scores.cu", layout, "label_scores", self._blocks(job, 4 * of_warp, 16), job, *where(chunk), turns
            )

        def rest(chunk: Chunk, job: Job) -> None:
            grid, hashes = self._blocks(job, 4, _AGAIN), rows.seeds is None
            self._run("scores.cu", layout, "label_scores_carefully", grid, job, *where(chunk), hashes=hashes)

        is_alone = layout.is_narrow or rows.logits  # one kernel does all
        careful, noted = None if is_alone else rest, None if rows.seeds is not None else seeds
        counters = over_chunks(self.starts, rows, work, careful, noted, again=is_alone)
        return scores, seeds, counters.n_copies, counters.bad

    def _score_logits(self, layout: Layout, job: Job, where: list[c_void_p]) -> None:
        if layout.columns <= _WIDEST_IN_CELLS:
            at_a_time = _LOGITS_AT_A_TIME if layout.lanes == 32 else TILE_VECTOR
            layout = layout._replace(vector=min(layout.vector, at_a_time))
            folds, kernel = folds_of(layout.columns, layout.lanes), "label_scores"
            defines, shared = defines_of(layout, job, FOLDS=folds), BLOCK // 32 * layout.cell_bytes(folds)
        else:
            layout, kernel = layout._replace(lanes=32, vector=1), "label_scores_carefully"
            defines, shared = defines_of(layout, job), room_bytes(layout.columns)
        grid = self._blocks(job, BLOCK // layout.lanes, 32)
        self.starts.run("logit_scores.cu", defines, kernel, grid, BLOCK, shared, job, *where)

    def mask(self, rows: Any, thresholds: Any, min_size: int) -> tuple[Any, Any]:
        """Flag the members."""
        flags = _new(rows, rows.probabilities.shape, torch.bool)
        return flags, self._cut(rows, thresholds, min_size, flags=flags)

    def _cut(
        self, rows: Any, thresholds: Any, min_size: int, flags: Any = None, sizes: Any = None, cutoffs: Any = None
    ) -> Any:
        layout, per_row = _layout_of_masks(layout_of(rows.probabilities, rows.logits)), thresholds.shape[0] > 1
        thresholds, wanted = _as_doubles(thresholds), Wanted(None, per_row, min_size)
        is_narrow, is_held = layout.is_narrow, layout.is_held

        def work(chunk: Chunk, job: Job) -> None:
            if not job.which:  # copies are among the rows of the chunk before
                wanted.thresholds = pointer(thresholds, chunk.start if per_row else 0)
                wanted.flags, wanted.sizes = pointer(flags, chunk.start), pointer(sizes, chunk.start)
                wanted.cutoffs = pointer(cutoffs, chunk.start)
            if is_narrow:
                grid = self._blocks(job, BLOCK, NARROW_BLOCKS)
                self._run("narrow.cu", layout, "mask", grid, job, wanted)
            elif is_held:
                is_many = layout.logits or job.n >= MANY_ROWS  # rows of logits take times that differ
                grid = self._blocks(job, BLOCK // layout.lanes, _MANY if is_many else _FEW)
                self._run("masks.cu", layout, "mask", grid, job, wanted)
            else:
                rest(chunk, job, 1)

        def rest(chunk: Chunk, job: Job, all_of_them: int = 0) -> None:
            grid = self._blocks(job, 4, 16 if all_of_them else _AGAIN)
            arguments = (wanted, c_int64(all_of_them))
            self._run("masks.cu", layout, "mask_carefully", grid, job, *arguments, hashes=rows.seeds is None)

        careful = rest if is_held and not is_narrow else None
        again = careful is None or rows.probabilities.shape[0] > _FEW_ROWS
        return over_chunks(self.starts, rows, work, careful, again=again).bad

    def cut(self, rows: Any, thresholds: Any, min_size: int) -> tuple[Any, Any, Any, Any]:
        """Return the members at the largest threshold, most likely first, and the sizes at all of them."""
        n, n_thresholds = rows.probabilities.shape[0], thresholds.shape[1]
        thresholds, sizes = _as_doubles(thresholds), _new(rows, (n_thresholds, n), torch.int32)
        cutoffs = _new(rows, (n,), torch.float32) if layout_of(rows.probabilities).is_sorted_in_registers else None
        if n_thresholds == 1:
            first_bad = self._cut(rows, thresholds[:, 0], min_size, sizes=sizes[0], cutoffs=cutoffs)
        else:
            per_row = len(thresholds) > 1
            output = Output(thresholds=pointer(thresholds), n_thresholds=n_thresholds, per_row=per_row)
            output = changed(output, min_size=min_size, n_rows=n)
            of_rows = {"thresholds": thresholds} if per_row else {}
            first_bad = self._ordered(rows, What.SIZES, output, sizes=sizes.T, cutoffs=cutoffs, **of_rows)
        longest = sizes.amax(dim=0)
        members = self._members(rows, What.MEMBERS, longest, first_bad, Output(), longest=longest, cutoffs=cutoffs)
        return sizes, longest, members, first_bad

    def mask_by_label(self, rows: Any, thresholds: Any, min_size: int) -> tuple[Any, Any]:
        """Flag the members where each column has a threshold of its own."""
        flags, thresholds = _new(rows, rows.probabilities.shape, torch.bool).fill_(True), _as_doubles(thresholds)
        output = Output(flags=pointer(flags), thresholds=pointer(thresholds), min_size=min_size)
        return flags, self._ordered(rows, What.MASK_BY_LABEL, output, flags=flags)

    def cut_by_label(self, rows: Any, thresholds: Any, min_size: int) -> tuple[Any, Any, Any]:
        """Return the members where each column has a threshold of its own, most likely first."""
        sizes, thresholds = _new(rows, (rows.probabilities.shape[0],), torch.int32), _as_doubles(thresholds)
        output = Output(thresholds=pointer(thresholds), min_size=min_size, sizes=pointer(sizes))
        first_bad = self._ordered(rows, What.SIZES_BY_LABEL, output, sizes=sizes)
        return sizes, self._members(rows, What.MEMBERS_BY_LABEL, sizes, first_bad, output, sizes=sizes), first_bad

    def _members(self, rows: Any, what: int, of_sets: Any, first_bad: Any, output: Output, **by_row: Any) -> Any:
        """Write the members of sets whose sizes are known, one row after the other."""
        if int(first_bad.reshape(-1)[0]) >= 0:  # sizes are worth nothing
            return _new(rows, (0,), torch.int32)
        ends = of_sets.cumsum(0, dtype=torch.int64)
        members = _new(rows, (int(ends[-1]),), torch.int32)
        self._ordered(rows, what, changed(output, members=pointer(members)), pointers=ends - of_sets, **by_row)
        return members

    def all_scores(self, rows: Any) -> tuple[Any, Any]:
        """Score every label."""
        scores = _new(rows, rows.probabilities.shape, torch.float64)
        return scores, self._ordered(rows, What.SCORES, Output(), scores=scores)

    def p_values(self, rows: Any, calibrated: Calibrated, row_groups: Any) -> tuple[Any, Any]:
        """Return the p-value of every label."""
        scores, first_bad = self.all_scores(rows)
        of_calibration, n = self._on_device(calibrated, scores), scores.numel()
        of_calibration = changed(of_calibration, row_groups=pointer(row_groups))
        grid = max(1, min(-(-n // 1024), self.starts.multiprocessors * 64))
        arguments = (of_calibration, c_void_p(pointer(scores)), c_int64(n))
        same_group = row_groups is not None and row_groups.stride(0) == 0  # one number that stands for all rows
        defines = (("COLUMNS", scores.shape[1]), ("SAME_GROUP", int(same_group)))
        self.starts.run("p_values.cu", defines, "p_values", grid, 256, 0, *arguments)
        return scores, first_bad

    def hash_rows(self, values: Any, key: int) -> Any:
        """Seed every row of a matrix of any numbers."""
        seeds = values.new_empty(len(values), dtype=torch.int64)
        keys = keys_of(self.starts, key, values)
        job = Job(rows=pointer(values), n=len(values), column_keys=keys.data_ptr())
        job.weights = (0.0,) * 16
        grid = self._blocks(job, 4)
        self._run("scores.cu", layout_of(values), "hash_rows", grid, job, *_pointers(pointer(seeds)))
        return seeds

    def softmax(self, logits: Any) -> Any:
        """Return the probabilities of logits, in float64; of longer rows than fit by operations of torch."""
        layout, probabilities = layout_of(logits), logits.new_empty(logits.shape, dtype=torch.float64)
        team = 32 if layout.columns <= 256 else 128
        shared = BLOCK // team * layout.columns * 8
        if shared > _MOST_SHARED:
            return softmax(logits.to(probabilities.dtype), TORCH)
        grid = max(1, min(-(-len(logits) * team // BLOCK), self.starts.multiprocessors * 64))
        form = {"TEAM": team, "ASKS": 0, "RANKS": 0}
        defines = tuple(sorted((layout._replace(lanes=32, vector=1).defines() | form).items()))
        arguments = (c_void_p(pointer(logits)), c_int64(len(logits)), c_void_p(pointer(probabilities)))
        self.starts.run("softmax.cu", defines, "softmax", grid, BLOCK, shared, *arguments)
        return probabilities

    def _ordered(self, rows: Any, what: int, output: Output, **by_row: Any) -> Any:
        """Put rows in order and use their scores; ``by_row`` names the fields of the output that go along with rows."""
        layout, values = layout_of(rows.probabilities, rows.logits), rows.probabilities
        leaves = layout.has_buckets and what == What.SCORES  # rows with full buckets to another kernel

        def arguments(chunk: Chunk, job: Job) -> tuple[Any, ...]:
            fields = {name: pointer(tensor, chunk.start) for name, tensor in by_row.items()}
            return job, changed(output, **fields)

        def work_on_narrow(chunk: Chunk, job: Job) -> None:
            defines, grid = defines_of(layout, job, WHAT=what), self._blocks(job, BLOCK, NARROW_BLOCKS)
            self.starts.run("narrow.cu", defines, "every_label", grid, BLOCK, 0, *arguments(chunk, job))

        def work_in_registers(chunk: Chunk, job: Job, by_buckets: bool = layout.has_buckets) -> None:
            form = {"BY_BUCKETS": int(by_buckets), "ONLY_BUCKETS": int(by_buckets and leaves)}
            defines, a_warp = defines_of(layout, job, WHAT=what, EACH=layout.each, **form), BLOCK // 32
            places = 32 * layout.each
            of_place = 12 if by_buckets else 8  # bytes
            shared, rows_of_block = a_warp * of_place * (places + places // 32), BLOCK // layout.lanes
            grid = self._blocks(job, rows_of_block, 16)
            self.starts.run("sorted.cu", defines, "sorted", grid, BLOCK, shared, *arguments(chunk, job))

        if layout.is_narrow:
            return over_chunks(self.starts, rows, work_on_narrow).bad
        if layout.is_sorted_in_registers:

            def rest(chunk: Chunk, job: Job) -> None:
                work_in_registers(chunk, changed(job, which=job.slow, count=job.n_slow), by_buckets=False)

            return over_chunks(self.starts, rows, work_in_registers, rest if leaves else None).bad
        length = max(32, 1 << (layout.columns - 1).bit_length())
        team = 32 if length <= 256 else 256 if length < 8192 else 1024
        block = max(team, 128)
        a_team = length * (12 if layout.element == 1 else 8)
        shared = block // team * a_team
        in_memory = shared > _MOST_SHARED
        grid = max(1, min(-(-len(values) // (block // team)), self.starts.multiprocessors * (2048 // block)))
        grid = min(grid, max(1, _MOST_SCRATCH // a_team)) if in_memory else grid
        memory = values.new_empty(grid * a_team, dtype=torch.uint8) if in_memory else None
        of_block = 0 if in_memory else shared

        def work(chunk: Chunk, job: Job) -> None:
            last, of_lanes = c_void_p(pointer(memory)), layout._replace(lanes=32, vector=1)
            defines = defines_of(of_lanes, job, block, LENGTH=length, TEAM=team, WHAT=what)
            self.starts.run("ordered.cu", defines, "ordered", grid, block, of_block, *arguments(chunk, job), last)

        return over_chunks(self.starts, rows, work).bad

    def _on_device(self, calibrated: Calibrated, values: Any) -> OfCalibration:
        """Return the calibration in the memory of the device, where it is kept."""
        place = f"{self.name} {values.device}"
        if place not in calibrated.kept:
            finer = calibrated.index.with_more_buckets(calibrated.scores, calibrated.offsets, _MORE_BUCKETS)
            arrays = (calibrated.scores, calibrated.offsets, *finer, _rounding(calibrated))
            calibrated.kept[place] = [
                None if one is None else torch.tensor(one, device=values.device) for one in arrays
            ]
        scores, offsets, *index, rounding = map(pointer, calibrated.kept[place])
        return OfCalibration(scores, offsets, None, *index, rounding)

    def _blocks(self, job: Job, rows_of_block: int, most: int = 512) -> int:
        """Return how many blocks of threads there is work for; copies are few, so that few blocks look after them."""
        most = min(most, _AGAIN) if job.which else most
        return max(1, min(-(-int(job.n) // rows_of_block), self.starts.multiprocessors * most))

    def _run(
        self,
        name: str,
        layout: Layout,
        kernel: str,
        grid: int,
        job: Job,
        *arguments: Any,
        hashes: bool | None = None,
    ) -> None:
        """Start a kernel. Careful ones ask the job for seeds: the program of the fast one, which hashes, has them."""
        hashes = hashes_rows(job) if hashes is None else hashes
        defines, shared = _program(name, layout, kernel, bytes(job.weights), hashes)
        self.starts.run(name, defines, kernel, grid, BLOCK, shared, job, *arguments)


@lru_cache(maxsize=1024)
def _program(name: str, layout: Layout, kernel: str, weights: bytes, hashes: bool) -> tuple[Defines, int]:
    """Return what a program is compiled with, and the shared memory of a block of one of its kernels."""
    tiles = layout.tile_bytes(name)
    shared = tiles if kernel in _IN_TILES else 0
    shared = room_bytes(layout.columns) if layout.logits and kernel == "mask_carefully" else shared
    return defines_by(layout, weights, hashes, BLOCK, (("IN_TILES", int(tiles > 0)),)), shared


@lru_cache(maxsize=1024)
def _layout_of_masks(layout: Layout) -> Layout:
    is_wide = layout.logits and not layout.is_narrow
    return layout._replace(vector=min(layout.vector, _LOGITS_AT_A_TIME)) if is_wide else layout


def _rounding(calibrated: Calibrated) -> NDArray[np.uint8]:
    return rounding_bits(calibrated.offsets, lambda n: engines.chosen.p_value_table(n, np.arange(n + 1)))


def _new(rows: Any, shape: Any, kind: Any) -> Any:
    """Return an empty tensor on the device of the rows."""
    return rows.probabilities.new_empty(shape, dtype=kind)


def _as_doubles(values: Any) -> Any:
    is_double = values.dtype == torch.float64
    return (values if is_double else values.to(torch.float64)).contiguous()


def _pointers(*values: int | None) -> list[c_void_p]:
    return [c_void_p(value) for value in values]


@lru_cache(maxsize=64)
def _engine_of(device: str) -> CudaEngine | None:
    launcher = Launcher.of(device)
    return None if launcher is None else CudaEngine(launcher)
