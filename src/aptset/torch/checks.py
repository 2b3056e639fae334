"""What a layer can stand behind, what a loader must give, and what the state of a layer must agree with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from aptset.conformal.importance import refuse_weighted
from aptset.core.levels import CellLevel, alpha_of
from aptset.core.randomization import MANY_COPIES
from aptset.core.validate import warn_caller
from aptset.kernels.formula import Formula

if TYPE_CHECKING:
    from aptset.calibration.calibration import Calibration
    from aptset.torch.layer import SetLayer


def check_n_classes(n_classes: Any) -> int:
    """Return a number of columns."""
    if isinstance(n_classes, bool) or not isinstance(n_classes, int) or n_classes < 2:
        raise ValueError(f"n_classes must be a whole number of at least 2; got {n_classes!r}.")
    return n_classes


def check_fast(formula: Formula, conformity: Any) -> Formula:
    """Refuse a score that is only a Python function: it cannot be a part of a graph."""
    if formula.weights is None:
        raise ValueError(
            f"conformity must have weights to be used in a layer; {conformity!r} is a function of places alone. "
            "Take one of the library's scores, or call calibration.predict_mask, which takes any function."
        )
    return formula


def check_layer_groups(groups: Any) -> bool:
    """Return whether each label has a threshold of its own."""
    if not (groups is None or (isinstance(groups, str) and groups == "label")):
        raise ValueError(
            f"groups must be None or 'label' in a layer, which sees logits alone; got {groups!r}. For other groups "
            "call calibration.predict_mask(..., groups=...)."
        )
    return groups == "label"


def check_can_be_a_layer(calibration: Calibration) -> None:
    """Refuse calibrations whose sets depend on more than the row."""
    refuse_weighted(calibration.held_out, "a layer has thresholds that are the same for all rows. Call predict_set")
    check_layer_groups(None if calibration.held_out.groups.is_one else calibration.held_out.groups.kind)
    if calibration.chance.source == "given":
        raise ValueError(
            "calibration must draw its own u to be used in a layer; it was passed u=.... Calibrate again without u."
        )


def warn_of_copies(calibration: Calibration) -> None:
    """Say that equal rows of different batches share one u, where calibration rows were often copies."""
    chosen = calibration.chance
    if chosen.copies >= MANY_COPIES and chosen.randomized:
        warn_caller(
            f"{chosen.copies:.0%} of the calibration rows are copies of others, and a layer sees no ids: the "
            "first of equal rows has the same u in every batch. Over many small batches such rows are "
            'covered or missed together. Call layer.calibration.predict_mask(..., u="fresh"), or with '
            "ids=..., or calibrate with randomized=False."
        )


def check_inputs(inputs: Any, n_classes: int, device: Any) -> None:
    """Refuse what has not one column per class, or lies elsewhere."""
    if inputs.ndim != 2 or inputs.shape[1] != n_classes:
        raise ValueError(
            f"inputs must have shape (rows, {n_classes}), one column per class; got {tuple(inputs.shape)}. Put the "
            "layer behind the last layer of the classifier."
        )
    if inputs.device != device:
        raise ValueError(
            f"inputs must be on the device of the layer, {device}; got {inputs.device}. Move the layer with the model: "
            f"layer.to({str(inputs.device)!r})."
        )


def check_pair(batch: Any, number: int) -> tuple[Any, Any]:
    """Return the inputs and the labels of a batch."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        shape = f"{len(batch)} parts" if isinstance(batch, tuple | list | dict) else "no pair"
        raise TypeError(
            f"loader must give pairs (inputs, labels); batch {number} is a {type(batch).__name__} with {shape}. Wrap "
            "the loader in a generator that yields such pairs."
        )
    return batch[0], batch[1]


def check_column_numbers(labels: Any, number: int) -> Any:
    """Return the labels of a batch as a tensor."""
    try:
        return torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"loader must give labels as column numbers; batch {number} has {type(labels).__name__} that torch cannot "
            f"take ({error}). Number the labels in the order of the model's outputs."
        ) from error


def check_outputs(outputs: Any, labels: Any, number: int) -> Any:
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


def refuse_empty_loader(n_rows: int) -> None:
    """Refuse to calibrate on nothing."""
    if n_rows == 0:
        raise ValueError(
            "loader must give at least one batch; it gave none. A generator that was read once is empty: make it again."
        )


def raise_for_all(errors: list[str | None]) -> None:
    """Let every rank fail if one did: the others would wait for it for ever."""
    failed = [f"rank {rank}: {error}" for rank, error in enumerate(errors) if error is not None]
    if failed:
        raise RuntimeError(f"calibration failed on {len(failed)} of {len(errors)} ranks; {'; '.join(failed)}")


_FLAGS = ("randomized", "allow_empty", "normalize", "logits")


def described(layer: SetLayer) -> dict[str, float]:
    """Return the settings of a layer as numbers."""
    of_score = {f"conformity {number}": value for number, value in enumerate([*layer.weights.flat, layer.power])}
    flags = {name: float(getattr(layer, name)) for name in _FLAGS}
    levels: dict[str, float] = {}
    for number, level in enumerate(layer.alphas):
        alpha = alpha_of(level)
        parts = {"": alpha} if isinstance(alpha, float) else alpha
        levels |= {f"alpha {number} {name}".rstrip(): part for name, part in parts.items()}
        if isinstance(level, CellLevel) and level.assurance is not None:
            levels[f"assurance {number}"] = float(level.assurance.confidence)
            levels[f"assurance {number} simultaneous"] = float(level.assurance.simultaneous)
    return of_score | flags | levels


def differences(layer: SetLayer, state: dict[str, Any], prefix: str) -> list[str]:
    """Return the settings in which a state differs; where there are more or fewer of them torch says so."""
    stored = state.get(f"{prefix}settings")
    if stored is None or stored.shape != layer.settings.shape or layer.settings.is_meta:
        return []
    differs = (stored.cpu() != layer.settings.cpu()).tolist()
    names = [name.split()[0] for name, differ in zip(described(layer), differs, strict=True) if differ]
    return list(dict.fromkeys(names))
