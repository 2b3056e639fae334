"""Rows of a tensor as they came, worked on where they lie, piece by piece where they must be prepared first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aptset.core.devices import meta_array
from aptset.core.matrix import check_rows, refuse_probabilities
from aptset.kernels.engines.torch_rows import TORCH, own_seeds
from aptset.kernels.formula import Formula, normalised, tempered
from aptset.kernels.softmax import softmax
from aptset.kernels.tensors import Tensor, TensorEngine, TensorRows, engine_for

_READ = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_PREPARED_CELLS = 2**19  # of rows that are prepared at a time: a few temporary matrices of so many float64
_SOFTMAX_CELLS = 5 * 2**19  # where a kernel of the engine's own prepares them: no temporary ones, two matrices at most
_SEEDED_ROWS = 2**18  # whose seeds are held at a time; whole blocks of copies
UNKNOWN = -1  # whether all rows look like probabilities
MOST_ROWS = 2**20  # whose seeds, u, groups or thresholds come to the device at a time


class Piece(NamedTuple):
    """Rows start .. stop - 1 as engines take them, and how many copies are among them, as far as was looked."""

    start: int
    stop: int
    rows: TensorRows
    n_copies: Tensor | int


@dataclass(eq=False)  # not frozen: every call makes them, and that would take a microsecond more
class DeviceRows:
    """What :class:`aptset.kernels.rows.Rows` is for arrays; seeds and u lie with numpy and come when needed.

    The key may be a tensor on the device, and so may u.
    """

    probabilities: Tensor
    formula: Formula
    key: Any
    tolerance: float
    seeds: NDArray[np.uint64] | None
    u: NDArray[np.float64] | Tensor | None
    normalize: bool
    side: int
    first_row: int
    logits: bool = False
    name: str = "probabilities"
    engine: TensorEngine = field(init=False)  # what runs the loops over these rows

    def __post_init__(self) -> None:
        self.engine = engine_for(self.probabilities)

    def __len__(self) -> int:
        return int(self.probabilities.shape[0])

    @property
    def device(self) -> Any:
        """Where the rows are."""
        return self.probabilities.device

    def is_plain(self, verb: str) -> bool:
        """Whether the matrix can be read where it lies: logits, too, where the engine makes their softmax itself."""
        readable = self.probabilities.dtype in _READ and self.probabilities.is_contiguous()
        if not readable or self.normalize or self.formula.power != 1.0:
            return False
        if not self.logits:
            return True
        takes = getattr(self.engine, "takes_logits", None)
        return takes is not None and bool(takes(self.probabilities, verb))

    def whole(self, verb: str) -> TensorRows | None:
        """Return all rows, where they can be read as they lie and nothing comes with them from the host."""
        is_alone = self.seeds is None and not isinstance(self.u, np.ndarray) and self.is_plain(verb)
        return self._piece(self.probabilities, 0, len(self), None, self.logits) if is_alone else None

    def pieces(self, verb: str, most_rows: int | None = None) -> Iterator[Piece]:
        """Yield the rows in order: at once where they can be read as they lie, and nothing comes with them."""
        if not self.is_plain(verb):
            yield from self._prepared_pieces(min(most_rows or MOST_ROWS, _SEEDED_ROWS))
            return
        is_alone = most_rows is None and self.seeds is None and not isinstance(self.u, np.ndarray)
        for start, stop in _steps(len(self), len(self) if is_alone else most_rows or MOST_ROWS):
            values = self.probabilities[start:stop] if stop - start < len(self) else self.probabilities
            rows = self._piece(values, start, stop, self._seeds(start, stop), self.logits)
            yield Piece(start, stop, rows, 0)

    def _prepared_pieces(self, most_rows: int) -> Iterator[Piece]:
        step = max(1, self._cells_at_a_time // self.probabilities.shape[1])
        for first, last in _steps(len(self), most_rows):
            parts = [(first + start, first + stop) for start, stop in _steps(last - first, step)]
            only = self._prepare(first, last) if len(parts) == 1 else None  # several are prepared twice, not held
            seeds, n_copies = self._seeds(first, last), torch.zeros((), dtype=torch.int64, device=self.device)
            if seeds is None:
                values = (self._hashed(part, only) for part in parts)
                hashed = torch.cat([self.engine.hash_rows(block, self.key) for block in values])
                seeds, n_copies = own_seeds(hashed, self.side, self.first_row + first)
            for start, stop in parts:
                block = self._prepare(start, stop) if only is None else only
                yield Piece(start, stop, self._piece(block, start, stop, seeds[start - first : stop - first]), n_copies)
                n_copies = torch.zeros_like(n_copies)

    def _hashed(self, part: tuple[int, int], prepared: Tensor | None) -> Tensor:
        """Return what the seeds of some rows are hashed from: logits as they came, or prepared probabilities."""
        if self.logits:
            return _readable(self.probabilities[slice(*part)])
        return self._prepare(*part) if prepared is None else prepared

    @property
    def _cells_at_a_time(self) -> int:
        by_kernel = hasattr(self.engine, "softmax") and not self.normalize and self.formula.power == 1.0
        return _SOFTMAX_CELLS if by_kernel else _PREPARED_CELLS

    def _piece(self, values: Tensor, start: int, stop: int, seeds: Tensor, logits: bool = False) -> TensorRows:
        assert self.formula.linear is not None  # a score without them goes through the host
        u = None if self.u is None else self.u[start:stop]
        u = torch.from_numpy(u).to(self.device) if isinstance(u, np.ndarray) else u
        at = self.first_row + start
        return TensorRows(values, self.formula.linear, self.key, self.tolerance, seeds, u, self.side, at, logits)

    def _seeds(self, start: int, stop: int) -> Tensor:
        return None if self.seeds is None else torch.from_numpy(self.seeds[start:stop].view(np.int64)).to(self.device)

    def _prepare(self, start: int, stop: int) -> Tensor:
        values = self.probabilities[start:stop]
        values = self._softmax(values) if self.logits else values
        if self.normalize:
            values = normalised(values.to(torch.float64), TORCH)
        if self.formula.power != 1.0:
            values = tempered(values.to(torch.float64), self.formula.power, self.tolerance, TORCH)
        return _readable(values)

    def _softmax(self, logits: Tensor) -> Tensor:
        of_engine = getattr(self.engine, "softmax", None)
        return _softmax(logits) if of_engine is None else of_engine(logits.contiguous())

    def refuse_probabilities(self, verb: str) -> None:
        """Refuse probabilities where logits were announced; kernels that make the softmax look for that themselves."""
        if not self.logits or len(self) == 0 or self.is_plain(verb):
            return
        step = max(1, _PREPARED_CELLS // self.probabilities.shape[1])
        for start, stop in _steps(len(self), step):
            wide = self.probabilities[start:stop].to(torch.float64)
            if not bool((wide >= 0).all() & ((wide.sum(dim=1) - 1).abs() <= 1e-5).all()):
                return
        refuse_probabilities(True, self.name)

    def check(self, first_bad: Tensor) -> None:
        """Explain the first bad row, if there is one; refuse probabilities where kernels looked for them."""
        row, unlike = numbers_of(first_bad)
        refuse_probabilities(unlike == 0, self.name)
        if row >= 0:
            check_rows(_Fetched(self), row, self.name, self.normalize, self.tolerance)  # type: ignore[arg-type]


class _Fetched:
    """Rows that are fetched from the device when an error speaks of them."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows = rows
        self.dtype = np.dtype(np.float64) if rows.logits else meta_array(rows.probabilities).dtype

    def __getitem__(self, which: Any) -> NDArray[np.float64]:
        values = self._rows.probabilities[which]
        if self._rows.logits:
            values = _softmax(values if values.ndim == 2 else values[None])[slice(None) if values.ndim == 2 else 0]
        return np.asarray(values.to(torch.float64).cpu())


def numbers_of(report: Tensor) -> tuple[int, int]:
    """Return the first bad row, and what tells whether all rows look like probabilities: this waits for the device."""
    if report.ndim == 0 or report.shape[0] == 1:
        return report.item(), UNKNOWN
    row, unlike = report.tolist()
    return row, unlike


def _readable(values: Tensor) -> Tensor:
    return values.contiguous() if values.dtype in _READ else values.to(torch.float64).contiguous()


def _softmax(logits: Tensor) -> Tensor:
    return softmax(logits.to(torch.float64), TORCH)


def _steps(n: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(start + step, n)) for start in range(0, n, step)]


class ScoresThere:
    """Calibration scores that lie on a device, few with the host, put in order there when they are first looked at."""

    def __init__(self, scores: Tensor) -> None:
        self._scores, self._is_sorted = scores, False

    def __len__(self) -> int:
        return len(self._scores)

    def _ordered(self) -> Tensor:
        if not self._is_sorted:
            self._scores, self._is_sorted = self._scores.sort().values, True
        return self._scores

    def of_rank(self, rank: int) -> float:
        """Return the rank-th smallest score."""
        return float(self._ordered()[rank - 1])

    def upward(self) -> NDArray[np.float64]:
        """Return all of them with numpy, sorted."""
        in_order: NDArray[np.float64] = self._ordered().cpu().numpy()
        in_order.flags.writeable = False
        return in_order
