"""Calibrate a model on what a loader gives, batch by batch, on one process or on several; what a loader must give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import reduce
from typing import Any

import torch
from torch import distributed

from aptset.calibration.calibrate import calibrate
from aptset.calibration.calibration import Calibration
from aptset.core import validate
from aptset.core.runner import Bar
from aptset.kernels.rows import BLOCK_ROWS

_CHUNK_ROWS = 16 * BLOCK_ROWS  # whose outputs are held at a time; whole blocks, so that copies are those of all rows
_ROWS_OF_A_RANK = 2**40  # more than any shard has: each rank numbers its rows from a place of its own

Tensor = Any


def calibrate_model(
    model: Any, loader: Any, settings: dict[str, Any], random_state: Any, progress: bool
) -> tuple[Calibration, Any]:
    """Return the calibration on all batches of all ranks, and the device of the outputs."""
    rank, n_ranks = _place()
    seed = int(validate.generator(random_state).integers(2**63))
    if n_ranks == 1:
        return _on_this_rank(model, loader, {**settings, "random_state": seed}, 0, progress)
    seed = _gathered(seed)[0]
    own, error = None, None
    try:
        own = _on_this_rank(model, loader, {**settings, "random_state": seed}, rank, progress and rank == 0)
    except Exception as failure:  # whatever it is, the other ranks must not wait for this one
        error = f"{type(failure).__name__}: {failure}"
    answers = _gathered((None if own is None else own[0], error))
    _raise_for_all([failed for _, failed in answers])
    assert own is not None
    return reduce(Calibration.merge, [part for part, _ in answers]), own[1]


def _on_this_rank(
    model: Any, loader: Any, settings: dict[str, Any], rank: int, progress: bool
) -> tuple[Calibration, Any]:
    calibration, device, first_row = None, None, rank * _ROWS_OF_A_RANK
    for outputs, labels in _chunks(_answers(model, loader, progress)):
        part = calibrate(outputs, labels, first_row=first_row, **settings)
        calibration = part if calibration is None else calibration.merge(part)
        first_row, device = first_row + _CHUNK_ROWS, outputs.device
    if calibration is None:
        raise ValueError(
            "loader must give at least one batch; it gave none. A generator that was read once is empty: make it again."
        )
    return calibration, device


def _answers(model: Any, loader: Any, progress: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the outputs and the labels of each batch."""
    total = len(loader) if hasattr(loader, "__len__") else None
    device = next((weight.device for weight in model.parameters()), None) if hasattr(model, "parameters") else None
    with closing(Bar(total, "calibrating", progress, "batches")) as bar, _evaluating(model):
        for number, batch in enumerate(loader):
            inputs, targets = _check_pair(batch, number)
            labels = _check_column_numbers(targets, number)
            with torch.no_grad():
                outputs = model(inputs.to(device) if device is not None and hasattr(inputs, "to") else inputs)
            yield _check_outputs(outputs, labels, number), labels
            bar.advance(1)


def _chunks(answers: Iterator[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Join batches to chunks of one size; the last may be shorter."""
    held: list[tuple[Tensor, Tensor]] = []
    for answer in answers:
        held.append(answer)
        while sum(len(labels) for _, labels in held) >= _CHUNK_ROWS:
            outputs, labels = _joined(held)
            yield outputs[:_CHUNK_ROWS], labels[:_CHUNK_ROWS]
            held = [(outputs[_CHUNK_ROWS:], labels[_CHUNK_ROWS:])]
    if any(len(labels) for _, labels in held):
        yield _joined(held)


def _joined(held: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.cat([outputs for outputs, _ in held]), torch.cat([labels for _, labels in held])


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put every part of a model into evaluation mode, and back into the mode that it was in."""
    parts = list(model.modules()) if hasattr(model, "modules") else []
    modes = [part.training for part in parts]
    try:
        for part in parts[:1]:
            part.eval()
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def _place() -> tuple[int, int]:
    """Return the rank of this process, and how many there are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _gathered(value: Any) -> list[Any]:
    """Return the value of every rank."""
    values = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def _check_pair(batch: Any, number: int) -> tuple[Any, Any]:
    """Return the inputs and the labels of a batch."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        shape = f"{len(batch)} parts" if isinstance(batch, tuple | list | dict) else "no pair"
        raise TypeError(
            f"loader must give pairs (inputs, labels); batch {number} is a {type(batch).__name__} with {shape}. Wrap "
            "the loader in a generator that yields such pairs."
        )
    return batch[0], batch[1]


def _check_column_numbers(labels: Any, number: int) -> Any:
    """Return the labels of a batch as a tensor."""
    try:
        return torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"loader must give labels as column numbers; batch {number} has {type(labels).__name__} that torch cannot "
            f"take ({error}). Number the labels in the order of the model's outputs."
        ) from error


def _check_outputs(outputs: Any, labels: Any, number: int) -> Any:
    """Return the logits that a model gave for a batch."""
    logits = getattr(outputs, "logits", outputs)
    if not hasattr(logits, "ndim") or logits.ndim != 2:
        got = f"shape {tuple(logits.shape)}" if hasattr(logits, "shape") else f"a {type(logits).__name__}"
        raise ValueError(f"model must return logits of shape (rows, classes); batch {number} gave {got}.")
    if len(labels) != len(logits):
        raise ValueError(
            f"loader must give one label per row; batch {number} has {len(labels)} labels, and the model gave "
            f"{len(logits)} rows."
        )
    return logits


def _raise_for_all(errors: list[str | None]) -> None:
    """Let every rank fail if one did: the others would wait for it for ever."""
    failed = [f"rank {rank}: {error}" for rank, error in enumerate(errors) if error is not None]
    if failed:
        raise RuntimeError(f"calibration failed on {len(failed)} of {len(errors)} ranks; {'; '.join(failed)}")
