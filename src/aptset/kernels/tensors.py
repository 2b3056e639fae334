"""The interface of the engines that work on tensors of torch where they lie, and which of them a tensor gets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from aptset.kernels.engines.interface import Calibrated
from aptset.kernels.formula import LinearScore
from aptset.kernels.rows import PREDICTION

Tensor = Any  # torch is no dependency: it is there where a tensor came from


@dataclass(eq=False, slots=True)  # not frozen: every call makes them, and that would take a microsecond more
class TensorRows:
    """Rows of probabilities on a device and all that their scores depend on.

    ``probabilities`` are (rows, labels), contiguous, float16, bfloat16, float32 or float64. ``seeds`` are the bits of
    64-bit words as int64; None: hashed from the rows, copies found. ``u`` are float64, or None: drawn from the seeds.
    A row is bad as in :class:`aptset.kernels.rows.Rows`. The key may be a tensor with its bits on the device. With
    ``logits`` the numbers are logits, and the engine one that makes their softmax itself; the first bad row then comes
    as two numbers, the other of which is 0 where all rows look like probabilities.
    """

    probabilities: Tensor
    linear: LinearScore
    key: Any
    tolerance: float
    seeds: Tensor = None
    u: Tensor = None
    side: int = PREDICTION
    first_row: int = 0
    logits: bool = False

    def __len__(self) -> int:
        return int(self.probabilities.shape[0])


class TensorEngine(Protocol):
    """The loops on a device. Every engine gives the bits of numpy's.

    Results are tensors on the device of the rows. The first bad row is an int64 of shape () there, -1 if there is none;
    otherwise the other results are worth nothing. Beside its results an engine takes 64 MB at most.
    """

    @property
    def name(self) -> str:
        """What ``APTSET_KERNELS`` calls it."""
        ...

    def label_scores(self, rows: TensorRows, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Score one label (a column number) of each row: scores, seeds, number of copies, first bad row.

        A copy has its seed of its own among the seeds.
        """
        ...

    def mask(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor]:
        """Flag the members at one threshold for all rows, (1,), or at one for each, (rows,); bad rows hold every label.

        Graphs cannot raise an error, and their sets must not be too small.
        """
        ...

    def mask_by_label(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor]:
        """Flag the members where each column has a threshold of its own, (labels,)."""
        ...

    def cut(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return sizes (thresholds, rows), the longest of each row, its members, most likely first, first bad row.

        Thresholds are (1, thresholds) or (rows, thresholds); sizes and members are int32.
        """
        ...

    def cut_by_label(self, rows: TensorRows, thresholds: Tensor, min_size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return sizes, members and the first bad row where each column has a threshold of its own, (labels,)."""
        ...

    def p_values(self, rows: TensorRows, calibrated: Calibrated, row_groups: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the p-value of every label; groups are int32, -1 for none; without them each column is a group."""
        ...

    def all_scores(self, rows: TensorRows) -> tuple[Tensor, Tensor]:
        """Score every label, (rows, labels)."""
        ...

    def hash_rows(self, values: Tensor, key: int) -> Tensor:
        """Seed every row of a matrix of any numbers."""
        ...


def engine_for(tensor: Tensor) -> TensorEngine:
    """Return what works on a tensor where it lies: CUDA's own loops where they can be had, else operations of torch."""
    if tensor.device.type == "cuda" and os.environ.get("APTSET_KERNELS") != "torch":
        on_device = _cuda_engine(tensor.device)
        if on_device is not None:
            return on_device
    engine: TensorEngine = import_module("aptset.kernels.engines.torch_engine").TORCH
    return engine


@lru_cache(maxsize=64)
def _cuda_engine(device: Any) -> TensorEngine | None:
    try:
        module = import_module("aptset.kernels.engines.cuda_engine")
    except ImportError:  # the extra is not installed: torch's operations give the same bits, slower
        return None
    engine: TensorEngine | None = module.CudaEngine.for_device(device)
    return engine
