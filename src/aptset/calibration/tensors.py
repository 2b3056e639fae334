"""What a calibration answers about tensors on a device, there: scores, sets, masks and p-values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from aptset import PredictionSets
from aptset.calibration.device_rows import MOST_ROWS, DeviceRows, ScoresThere
from aptset.conformal.aggregation import by_label_thresholds, thresholds_of
from aptset.conformal.thresholds import Thresholds
from aptset.core.devices import is_tensor
from aptset.core.groups import Ids
from aptset.core.labels import as_labels, check_length, known_columns
from aptset.core.levels import Level
from aptset.core.randomization import fingerprint_of, fingerprint_step
from aptset.kernels.engines.interface import Calibrated
from aptset.kernels.rows import LabelScores
from aptset.kernels.tensors import Tensor, TensorRows


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


_TAKEN_CELLS = 2**21  # of sets that are shortened at a time
_FETCHED_ROWS = 2**12  # up to so many, calibration scores are put in order on the host


@dataclass(frozen=True)
class OnDevice:
    """Rows of a tensor that answer for themselves, on their device."""

    rows: DeviceRows

    @classmethod
    def of(cls, *of_rows: Any) -> OnDevice:
        """Return rows from what :class:`DeviceRows` are made of."""
        return cls(DeviceRows(*of_rows))

    def __len__(self) -> int:
        return len(self.rows)

    def seeded(self) -> OnDevice:
        """Return the same: engines hash faster than seeds are moved."""
        return self

    def label_scores(self, columns: NDArray[np.int64]) -> LabelScores:
        """Score one label of each row, and fetch the scores; refuse rows that are no probabilities."""
        rows = self.rows
        rows.refuse_probabilities("label_scores")
        scores, seeds, n_copies, bads = [], [], 0, []
        for start, stop, piece, copies in rows.pieces("label_scores"):
            of_piece, hashed, more, bad = rows.engine.label_scores(piece, _moved(columns[start:stop], rows))
            scores.append(of_piece.cpu().numpy())
            seeds.append(hashed.cpu().numpy().view(np.uint64))
            n_copies += int(copies) + int(more)
            bads.append((start, bad))
        rows.check(_first(bads))
        return LabelScores(rows.formula.on_grid(np.concatenate(scores)), -1, n_copies, np.concatenate(seeds))

    def label_scores_there(self, columns: Tensor) -> tuple[ScoresThere, int, int] | None:
        """Score one label of each row, and leave the scores; with the number of copies and a fingerprint of the rows.

        None if a label is no column. All that the host must know comes in one piece; few scores are fetched.
        """
        rows, n_columns = self.rows, self.rows.probabilities.shape[1]
        rows.refuse_probabilities("label_scores")
        if len(columns) <= _FETCHED_ROWS:  # what follows takes a dozen kernels of torch, slow where they are the first
            fetched = columns.cpu().numpy().astype(np.int64)  # a copy: what is checked is what is scored
            if not 0 <= fetched.min() <= fetched.max() < n_columns:
                return None
            scored = self.label_scores(fetched)
            fingerprint = fingerprint_of(scored.seeds, scored.scores)
            return ScoresThere(torch.from_numpy(scored.scores)), scored.n_copies, fingerprint
        columns = columns.to(torch.int64)
        scores, seeds, copies, bads = [], [], [], []
        for start, stop, piece, before in rows.pieces("label_scores"):
            chosen = columns[start:stop].clamp(0, n_columns - 1)
            part, hashed, more, bad = rows.engine.label_scores(piece, chosen)
            scores.append(part)
            seeds.append(hashed)
            copies.append(more + before)
            bads.append((start, bad))
        every, step = torch.cat(scores) if len(scores) > 1 else scores[0], fingerprint_step(len(columns))
        words = (torch.cat(seeds)[::step].sum(), every.view(torch.int64)[::step].sum(), torch.stack(copies).sum())
        least, most = columns.aminmax()
        report = torch.cat([torch.stack([*words, least, most]), _first(bads).reshape(-1)]).tolist()
        if report[3] < 0 or report[4] >= n_columns:
            return None
        rows.check(torch.tensor(report[5:]))
        return ScoresThere(every), report[2], (report[0] + report[1]) % 2**64

    def mask(self, held_out: Thresholds, ids: Ids | None, alpha: Level, allow_empty: bool) -> Tensor:
        """Return the sets at one level as a boolean matrix."""
        rows, min_size = self.rows, 0 if allow_empty else 1
        if ids is None or held_out.groups.is_one:
            if ids is None:
                thresholds = _moved(by_label_thresholds(held_out, [alpha])[0], rows)
            else:
                thresholds = _threshold_on(float(held_out.by_cell(alpha)[0]), rows.device)
            mask, bad = mask_and_report(rows, thresholds, min_size, refuses=True)
            rows.check(bad)
            return mask

        def work(piece: TensorRows, where: slice) -> tuple[Tensor, Tensor]:
            return rows.engine.mask(piece, _moved(thresholds_of(held_out, ids[where], [alpha])[:, 0], rows), min_size)

        return _filled(rows, "mask", work, torch.bool, MOST_ROWS)

    def p_values(self, held_out: Thresholds, ids: Ids | None) -> Tensor:
        """Return the p-value of every label."""
        rows, (fold,) = self.rows, held_out.folds
        if held_out.groups.of_columns is not None:
            return _p_values_by_band(rows, fold.calibrated, held_out.groups.of_columns)

        def work(piece: TensorRows, where: slice) -> tuple[Tensor, Tensor]:
            groups = None if ids is None else _same_group(0, piece)
            if ids is not None and not held_out.groups.is_one:
                groups = _moved(ids[where], rows)
            return rows.engine.p_values(piece, fold.calibrated, groups)

        return _filled(rows, "p_values", work, torch.float64, _at_a_time(held_out))

    def sets(
        self, held_out: Thresholds, ids: Ids | None, alphas: Sequence[Level], classes: NDArray[Any], allow_empty: bool
    ) -> list[TensorSets]:
        """Return the sets at each level."""
        rows, min_size = self.rows, 0 if allow_empty else 1
        if ids is None:
            levels = by_label_thresholds(held_out, alphas)
            return [sets_by_label(rows, _moved(level, rows), min_size, classes) for level in levels]

        def wanted(where: slice) -> Tensor:
            return _moved(thresholds_of(held_out, ids[where], alphas), rows)

        return sets_at(rows, wanted, min_size, classes, _at_a_time(held_out, len(alphas)))


def mask_and_report(
    rows: DeviceRows, thresholds: Tensor, min_size: int, refuses: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the sets at one threshold for all labels, (1,), or at one for each, (labels,), and the first bad row.

    Nobody looks at that here; of logits another number may come with it, 0 where all rows look like probabilities.
    """
    verb = "mask" if thresholds.shape[0] == 1 else "mask_by_label"
    find = getattr(rows.engine, verb)
    return _worked_out(rows, verb, lambda piece, _: find(piece, thresholds, min_size), torch.bool, refuses=refuses)


def sets_at(
    rows: DeviceRows,
    wanted: Callable[[slice], Tensor],
    min_size: int,
    classes: NDArray[Any],
    most_rows: int | None = None,
) -> list[TensorSets]:
    """Return the sets at each of the thresholds that are wanted for some rows, (1 or rows, thresholds)."""

    def find(piece: TensorRows, where: slice) -> Found:
        return Found(*rows.engine.cut(piece, wanted(where), min_size))

    every, longest, members, _ = _found(rows, find, most_rows)
    return [TensorSets(*_beginnings(sizes, longest, members, len(classes)), classes) for sizes in every]


def sets_by_label(rows: DeviceRows, thresholds: Tensor, min_size: int, classes: NDArray[Any]) -> TensorSets:
    """Return the sets at a threshold for each label, (labels,)."""

    def find(piece: TensorRows, _: slice) -> Found:
        sizes, members, bad = rows.engine.cut_by_label(piece, thresholds, min_size)
        return Found(sizes[None], sizes, members, bad)

    _, longest, members, _ = _found(rows, find)
    return TensorSets(_pointers(longest), members, classes)


def _p_values_by_band(rows: DeviceRows, calibrated: Calibrated, of_columns: NDArray[np.intp]) -> Tensor:
    """Return the p-value of every label: a pass for each band, as if all rows were of that group."""

    def work(piece: TensorRows, _: slice) -> tuple[Tensor, Tensor]:
        scores = torch.empty(piece.probabilities.shape, dtype=torch.float64, device=rows.device)
        for band in range(len(calibrated.offsets) - 1):
            groups = _same_group(band, piece)
            p_values, bad = rows.engine.p_values(piece, calibrated, groups)
            columns = _moved(np.flatnonzero(of_columns == band), rows)
            scores[:, columns] = p_values[:, columns]
        return scores, bad

    return _filled(rows, "p_values", work, torch.float64, MOST_ROWS)


def _same_group(group: int, rows: TensorRows) -> Tensor:
    """Return one group for all rows, a number that stands once: kernels then look for it once."""
    device = rows.probabilities.device
    return torch.full((1,), group, dtype=torch.int32, device=device).expand(len(rows.probabilities))


class Found(NamedTuple):
    """What an engine cut: sizes (thresholds, rows), the longest of each row, its members, the first bad row."""

    sizes: Tensor
    longest: Tensor
    members: Tensor
    bad: Tensor


def _found(rows: DeviceRows, find: Callable[[TensorRows, slice], Found], most_rows: int | None = None) -> Found:
    """Cut all pieces; members of several come by a second pass, since parts to be joined would take twice the room."""
    rows.refuse_probabilities("cut")
    sizes, longest, bads = [], [], []
    for start, stop, piece, _ in rows.pieces("cut", most_rows):
        part = find(piece, slice(start, stop))
        if stop - start == len(rows):
            rows.check(part.bad)
            return part
        sizes.append(part.sizes)
        longest.append(part.longest)
        bads.append((start, part.bad))
    rows.check(_first(bads))
    lengths = torch.cat(longest)
    ends = _pointers(lengths)
    members = torch.empty(int(ends[-1]), dtype=torch.int32, device=rows.device)
    for start, stop, piece, _ in rows.pieces("cut", most_rows):
        members[int(ends[start]) : int(ends[stop])] = find(piece, slice(start, stop)).members
    return Found(torch.cat(sizes, dim=1), lengths, members, _first(bads))


def _beginnings(sizes: Tensor, longest: Tensor, members: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Return row pointers and the first ``sizes[i]`` of the ``longest[i]`` members of each row, in bounded memory."""
    pointers, starts = _pointers(sizes), _pointers(longest)
    total = int(pointers[-1])
    if total == len(members):
        return pointers, members
    taken = members.new_empty(total)
    step = max(1, _TAKEN_CELLS // n_classes)
    ends = [*pointers[:-1:step].tolist(), total]
    for number, start in enumerate(range(0, len(sizes), step)):
        where = slice(start, start + step)
        place = torch.arange(ends[number], ends[number + 1], device=members.device)
        place += torch.repeat_interleave(starts[:-1][where] - pointers[:-1][where], sizes[where].to(torch.int64))
        taken[ends[number] : ends[number + 1]] = members[place]
    return pointers, taken


def _pointers(sizes: Tensor) -> Tensor:
    pointers = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=sizes.device)
    torch.cumsum(sizes, 0, dtype=torch.int64, out=pointers[1:])
    return pointers


Work = Callable[[TensorRows, slice], tuple[Tensor, Tensor]]


def _filled(rows: DeviceRows, verb: str, work: Work, dtype: Any, most_rows: int | None = None) -> Tensor:
    """Put what is worked out of each piece into one matrix; refuse bad rows."""
    values, bad = _worked_out(rows, verb, work, dtype, most_rows, refuses=True)
    rows.check(bad)
    return values


def _worked_out(
    rows: DeviceRows, verb: str, work: Work, dtype: Any, most_rows: int | None = None, *, refuses: bool = False
) -> tuple[Tensor, Tensor]:
    """Return one matrix of all pieces, and the first bad row; what ``refuses`` waits for the device."""
    whole = rows.whole(verb) if most_rows is None else None
    if whole is not None:
        return work(whole, slice(0, len(rows)))
    if refuses:
        rows.refuse_probabilities(verb)
    written, bads = None, []
    for start, stop, piece, _ in rows.pieces(verb, most_rows):
        part, bad = work(piece, slice(start, stop))
        if stop - start == len(rows):
            return part, bad
        bads.append((start, bad))
        written = torch.empty(rows.probabilities.shape, dtype=dtype, device=rows.device) if written is None else written
        written[start:stop] = part
    return written, _first(bads)


def _at_a_time(held_out: Thresholds, n_levels: int = 1) -> int | None:
    """Return how many rows may come at a time: all of them unless each has a threshold or a group of its own."""
    return None if held_out.groups.is_one else max(4096, MOST_ROWS // n_levels // 4096 * 4096)


@lru_cache(maxsize=256)
def _threshold_on(threshold: float, device: Any) -> Tensor:
    """Return a threshold that comes again and again, on a device."""
    return torch.tensor([threshold], dtype=torch.float64, device=device)


def _moved(values: NDArray[Any], rows: DeviceRows) -> Tensor:
    return torch.tensor(values).to(rows.device)


def _first(bads: list[tuple[int, Tensor]]) -> Tensor:
    """Return what engines told of pieces, with the row that each starts at, as if all rows had been one piece."""
    if len(bads) == 1:  # the piece is all there is
        return bads[0][1]
    every = torch.stack([bad.reshape(-1) for _, bad in bads])
    starts = torch.tensor([[start] for start, _ in bads], device=every.device)
    least = torch.where(every[:, :1] < 0, 2**62, every[:, :1] + starts).amin(dim=0)
    return torch.cat([torch.where(least == 2**62, -1, least), every[:, 1:].amax(dim=0)])
