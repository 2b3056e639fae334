"""Prediction sets that stay on their device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aptset.core.devices import is_tensor
from aptset.core.labels import as_labels, check_length, known_columns
from aptset.sets import PredictionSets

Tensor = Any


@dataclass(frozen=True, eq=False, repr=False)
class TensorSets:
    """One set of labels per row, most likely label first, as tensors on one device.

    Row i holds ``classes[indices[indptr[i]:indptr[i + 1]]]``. Made by ``Calibration.predict_set`` of a tensor on a GPU;
    ``to("cpu")`` gives :class:`aptset.PredictionSets`, which has the methods for people.

    Attributes
    ----------
    indptr : int64 tensor, shape (rows + 1,)
        Where each row starts in ``indices``.
    indices : int32 tensor
        Positions in ``classes``, one row after the other.
    classes : array
        The labels.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from aptset.torch import TensorSets
    >>> members = torch.tensor([1, 0, 2], dtype=torch.int32)
    >>> sets = TensorSets(torch.tensor([0, 2, 3]), members, np.array(["a", "b", "c"]))
    >>> sets
    TensorSets: 2 rows, 3 classes, mean size 1.5, on cpu
    >>> sets.covers(["a", "b"])
    tensor([ True, False])
    >>> sets.to("cpu")[0]
    array(['b', 'a'], dtype='<U1')
    """

    indptr: Tensor
    indices: Tensor
    classes: NDArray[Any]

    @classmethod
    def of(cls, sets: PredictionSets, device: Any) -> TensorSets:
        """Return sets of the host on a device."""
        indptr, indices = (torch.tensor(np.asarray(part)).to(device) for part in (sets.indptr, sets.indices))
        return cls(indptr, indices, sets.classes)

    @property
    def device(self) -> Any:
        """Where the sets are."""
        return self.indptr.device

    @property
    def sizes(self) -> Tensor:
        """Number of labels in each set."""
        return self.indptr.diff()

    @property
    def mask(self) -> Tensor:
        """The sets as a dense boolean matrix (rows, classes)."""
        dense = torch.zeros((len(self), len(self.classes)), dtype=torch.bool, device=self.device)
        rows = torch.repeat_interleave(torch.arange(len(self), device=self.device), self.sizes)
        dense[rows, self.indices.to(torch.int64)] = True
        return dense

    def covers(self, labels: Any) -> Tensor:
        """Tell for each row whether the set holds the given label (never, for a label outside the classes)."""
        columns = self._columns(labels)
        check_length(columns, len(self), "labels")
        hits = torch.nonzero(self.indices == torch.repeat_interleave(columns, self.sizes))[:, 0]
        covered = torch.zeros(len(self), dtype=torch.bool, device=self.device)
        covered[torch.searchsorted(self.indptr, hits, right=True) - 1] = True
        return covered

    def _columns(self, labels: Any) -> Tensor:
        """Return the position of each label; a tensor of column numbers stays where it is."""
        is_whole = is_tensor(labels) and not (labels.is_floating_point() or labels.dtype == torch.bool)
        if is_whole and labels.ndim == 1 and np.array_equal(self.classes, np.arange(len(self.classes))):
            return labels.to(self.device)
        return torch.from_numpy(known_columns(as_labels(labels, "labels"), self.classes)).to(self.device)

    def to(self, device: Any) -> TensorSets | PredictionSets:
        """Return the sets on another device: :class:`aptset.PredictionSets` on the host ("cpu")."""
        if torch.device(device).type == "cpu":
            indptr, indices = (part.cpu().numpy() for part in (self.indptr, self.indices))
            return PredictionSets.trusted(indptr, indices, self.classes)
        return TensorSets(self.indptr.to(device), self.indices.to(device), self.classes)

    def __len__(self) -> int:
        return int(self.indptr.shape[0]) - 1

    def __repr__(self) -> str:
        mean = f", mean size {len(self.indices) / len(self):.3g}" if len(self) else ""
        rows = f"{len(self)} row{'s' * (len(self) != 1)}"
        return f"TensorSets: {rows}, {len(self.classes)} classes{mean}, on {self.device}"
