"""The loops in plain operations of torch, on any device: what tensors get where there are no kernels for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from aptset.kernels import engines
from aptset.kernels.engines.interface import Calibrated
from aptset.kernels.engines.torch_rows import (
    PreparedRows,
    Tensor,
    filled,
    first_bad,
    hash_of_rows,
    in_numbers_of_python,
    label_scores,
    mask_of,
    ordered_scores,
    own_seeds,
    prepare_rows,
)
from aptset.kernels.tensors import TensorRows

_BLOCK_CELLS = 2**17  # of rows that are worked on at a time: about 30 temporary words for each
_SEEDED_ROWS = 2**18  # whose seeds are held at a time; whole blocks of copies

Work = Callable[[PreparedRows, int, int], Tensor]


@dataclass(frozen=True)
class TorchEngine:
    """Loops in operations of torch."""

    name: str = "torch"

    def label_scores(self, rows: TensorRows, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Score one label of each row."""
        linear = in_numbers_of_python(rows.linear)
        scores, seeds, n_copies, bads = [], [], [], []
        for start, stop, piece, copies in _pieces(rows):
            prepared = _open(piece)
            scores.append(label_scores(prepared, linear, labels[start:stop].to(torch.int64)))
            seeds.append(prepared.seeds)
            n_copies.append(copies)
            bads.append(_from(start, prepared.bad))
        return torch.cat(scores), torch.cat(seeds), torch.stack(n_copies).sum(), _first(bads)

    def all_scores(self, rows: TensorRows) -> tuple[Tensor, Tensor]:
        """Score every label."""
        linear = in_numbers_of_python(rows.linear)
        return _fill(rows, torch.float64, lambda prepared, start, stop: _in_columns(*ordered_scores(prepared, linear)))

    def mask(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor]:
        """Flag the members."""
        linear = in_numbers_of_python(rows.linear)

        def work(prepared: PreparedRows, start: int, stop: int) -> Tensor:
            is_member = mask_of(prepared, linear, _of(thresholds, start, stop)[:, None], min_size)
            return is_member | prepared.bad[:, None]

        return _fill(rows, torch.bool, work)

    def mask_by_label(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor]:
        """Flag the members at a threshold for every column."""
        linear = in_numbers_of_python(rows.linear)

        def work(prepared: PreparedRows, start: int, stop: int) -> Tensor:
            return mask_of(prepared, linear, thresholds[None, :], min_size) | prepared.bad[:, None]

        return _fill(rows, torch.bool, work)

    def cut(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the members at the largest threshold."""
        linear = in_numbers_of_python(rows.linear)
        n_levels = thresholds.shape[1]
        sizes = torch.empty((n_levels, len(rows)), dtype=torch.int32, device=rows.probabilities.device)
        columns = torch.arange(rows.probabilities.shape[1], device=sizes.device)[None, :]
        bads = []
        for start, stop, piece, _ in _pieces(rows):
            prepared = _open(piece)
            _, scores = ordered_scores(prepared, linear)
            wanted = _of(thresholds, start, stop)
            for level in range(n_levels):
                inside = (scores <= wanted[:, level : level + 1]).sum(dim=1)
                sizes[level, start:stop] = inside.clamp(min=min_size).to(torch.int32)
            bads.append(_from(start, prepared.bad))
        longest = sizes.amax(dim=0)

        def members(prepared: PreparedRows, start: int, stop: int) -> Tensor:
            order, _ = ordered_scores(prepared, linear)
            return order[columns < longest[start:stop, None]]

        return sizes, longest, _members(rows, longest, members), _first(bads)

    def cut_by_label(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the members at a threshold for every column."""
        linear = in_numbers_of_python(rows.linear)

        def inside(prepared: PreparedRows) -> tuple[Tensor, Tensor]:
            order, scores = ordered_scores(prepared, linear)
            return order, filled(scores <= thresholds[order], min_size)

        def members(prepared: PreparedRows, start: int, stop: int) -> Tensor:
            order, is_member = inside(prepared)
            return order[is_member]

        sizes, bads = [], []
        for start, _, piece, _ in _pieces(rows):
            prepared = _open(piece)
            sizes.append(inside(prepared)[1].sum(dim=1).to(torch.int32))
            bads.append(_from(start, prepared.bad))
        joined = torch.cat(sizes)
        return joined, _members(rows, joined, members), _first(bads)

    def p_values(self, rows: TensorRows, calibrated: Calibrated, row_groups: Tensor | None) -> tuple[Tensor, Tensor]:
        """Count by bisection and look the counts up."""
        linear, device = in_numbers_of_python(rows.linear), rows.probabilities.device
        kept = calibrated.kept.get((self.name, str(device)))
        if kept is None:
            kept = calibrated.kept[self.name, str(device)] = _on_device(calibrated, device)
        n_columns = rows.probabilities.shape[1]
        columns = torch.arange(n_columns, device=device)[None, :]

        def work(prepared: PreparedRows, start: int, stop: int) -> Tensor:
            scores = _in_columns(*ordered_scores(prepared, linear))
            groups = columns if row_groups is None else row_groups[start:stop, None].to(torch.int64)
            return _looked_up(scores, groups.expand(scores.shape), *kept)

        return _fill(rows, torch.float64, work)

    def hash_rows(self, values: Tensor, key: int) -> Tensor:
        """Seed every row."""
        step = max(1, _BLOCK_CELLS // max(1, values.shape[1]))
        return torch.cat([hash_of_rows(piece, key) for piece in values.split(step)])


TORCH = TorchEngine()


def _pieces(rows: TensorRows) -> Iterator[tuple[int, int, TensorRows, Tensor]]:
    """Yield (start, stop, rows with their seeds, copies among them) in the order of the rows, in bounded memory."""
    step = max(1, _BLOCK_CELLS // rows.probabilities.shape[1])
    for first in range(0, len(rows), _SEEDED_ROWS):
        chunk = rows.probabilities[first : first + _SEEDED_ROWS]
        if rows.seeds is None:
            hashed = TORCH.hash_rows(chunk, rows.key)
            seeds, copies = own_seeds(hashed, rows.side, rows.first_row + first)
        else:
            seeds, copies = (
                rows.seeds[first : first + _SEEDED_ROWS],
                torch.zeros((), dtype=torch.int64, device=chunk.device),
            )
        for start in range(0, len(chunk), step):
            inside = slice(first + start, first + min(start + step, len(chunk)))
            u = None if rows.u is None else rows.u[inside]
            piece = replace(rows, probabilities=rows.probabilities[inside], seeds=seeds[start : start + step], u=u)
            yield inside.start, inside.stop, piece, copies if start == 0 else torch.zeros_like(copies)


def _open(piece: TensorRows) -> PreparedRows:
    return prepare_rows(piece.probabilities, piece.key, piece.tolerance, piece.seeds, piece.u)


def _fill(rows: TensorRows, dtype: Any, work: Work) -> tuple[Tensor, Tensor]:
    """Put what is worked out of each piece into one matrix; and the first bad row."""
    matrix = torch.empty(rows.probabilities.shape, dtype=dtype, device=rows.probabilities.device)
    bads = []
    for start, stop, piece, _ in _pieces(rows):
        prepared = _open(piece)
        matrix[start:stop] = work(prepared, start, stop)
        bads.append(_from(start, prepared.bad))
    return matrix, _first(bads)


def _members(rows: TensorRows, sizes: Tensor, work: Work) -> Tensor:
    """Put the members of each piece in place, by a second pass: parts to be joined would take twice the room."""
    ends = torch.cat([sizes.new_zeros(1, dtype=torch.int64), sizes.cumsum(dim=0, dtype=torch.int64)])
    members = sizes.new_empty(int(ends[-1]))
    for start, stop, piece, _ in _pieces(rows):
        members[int(ends[start]) : int(ends[stop])] = work(_open(piece), start, stop).to(torch.int32)
    return members


def _of(thresholds: Tensor, start: int, stop: int) -> Tensor:
    return thresholds if thresholds.shape[0] == 1 else thresholds[start:stop]


def _from(start: int, bad: Tensor) -> Tensor:
    """Return the first bad row of a piece, counted from the first row of all."""
    row = first_bad(bad)
    return torch.where(row < 0, row, row + start)


def _first(bads: list[Tensor]) -> Tensor:
    """Return the first of the bad rows of all pieces, or -1."""
    rows = torch.stack(bads)
    is_bad = rows >= 0
    least = torch.where(is_bad, rows, 2**62).min()
    return torch.where(is_bad.any(), least, -1)


def _in_columns(order: Tensor, scores: Tensor) -> Tensor:
    return torch.empty_like(scores).scatter(1, order, scores)


def _on_device(calibrated: Calibrated, device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, where each group starts, and a table of the p-values of every count of every group."""
    offsets = calibrated.offsets
    tables = [engines.chosen.p_value_table(n, np.arange(n + 1)) for n in np.diff(offsets).tolist()]
    arrays = (np.append(calibrated.scores, np.inf), offsets, np.concatenate([*tables, [1.0]]))
    scores, starts, table = (torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays)
    return scores, starts, table


def _looked_up(scores: Tensor, groups: Tensor, sorted_scores: Tensor, offsets: Tensor, table: Tensor) -> Tensor:
    """Return the p-value of each score among the calibration scores of its group, 1 where the group is -1."""
    group = groups.clamp(min=0)
    first = offsets[group]
    low, high = first, offsets[group + 1]
    for _ in range(int(sorted_scores.shape[0]).bit_length()):
        middle = (low + high) // 2
        is_below = (sorted_scores[middle] < scores) & (low < high)
        low, high = torch.where(is_below, middle + 1, low), torch.where(is_below, high, middle)
    return torch.where(groups < 0, 1.0, table[low + group])
