"""Prediction sets as a layer behind any classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from aptset.calibration.calibration import Calibration
from aptset.calibration.device_rows import UNKNOWN, DeviceRows, numbers_of
from aptset.calibration.labelled_rows import score_and_formula
from aptset.calibration.tensors import TensorSets, sets_at, sets_by_label
from aptset.core import validate
from aptset.core.devices import meta_array
from aptset.core.labels import check_classes
from aptset.core.levels import Assurance, CellLevel, alpha_of, check_alphas, warn_if_too_few
from aptset.core.matrix import tolerance_of
from aptset.core.randomization import MANY_COPIES
from aptset.core.validate import warn_caller
from aptset.kernels.engines.torch_rows import in_numbers_of_python, signed
from aptset.kernels.formula import Formula
from aptset.kernels.rows import PREDICTION
from aptset.torch.operator import masks_in_graph, set_masks

Tensor = Any

_WIDE = torch.float64
_TOLERANCES = {
    kind: tolerance_of(meta_array(torch.empty(0, dtype=kind)), torch.empty(0, dtype=kind))
    for kind in (torch.float16, torch.bfloat16, torch.float32, _WIDE)
}
_ALL_BITS = 2**64 - 1
_NAME = "inputs"


class SetLayer(nn.Module):  # type: ignore[misc]  # torch is an extra, so Any to the type checker
    """A layer behind any classifier: logits in, prediction sets out.

    Thresholds and the key of the hash are buffers: they go with ``state_dict``, ``to(device)``, ``torch.compile`` and
    ``torch.export``. They are stored as the bits of whole numbers, so that ``half()`` and ``to(dtype)`` cannot round
    them. A new layer knows no rows yet, and every set holds every label: make one by :meth:`calibrate` or :meth:`of`,
    or load a state into one with the same settings.

    Sets are those of ``calibration.predict_mask(logits, logits=True)`` on the same device. A row with a number that is
    missing or infinite raises an error; in a graph that was compiled or exported, which cannot raise, its set holds
    every label.

    Parameters
    ----------
    n_classes : int
        Number of columns.
    alpha : float, mapping, or sequence of them, default=0.1
        Miscoverage level, with ``groups="label"`` also one for each label. For a sequence there is a mask for each.
    conformity : str or score, default="adaptive"
        The score; one that is only a Python function is refused.
    groups : None or "label", default=None
        Whether each label has a threshold of its own.
    classes : array, optional
        The names of the columns, for :meth:`sets`; by default their numbers.
    randomized, allow_empty, normalize : bool
        As in :func:`aptset.calibrate`.
    logits : bool, default=True
        Whether logits come in, or probabilities.
    assurance : float or Assurance, optional
        As in :meth:`aptset.Calibration.predict_set`.

    Attributes
    ----------
    thresholds : float64 tensor, shape (levels, 1) or (levels, classes)
        The scores up to which labels are in the set; infinite before calibration.
    calibration : Calibration or None
        What the layer was made of; it does not go with the state.

    Examples
    --------
    >>> import torch
    >>> from aptset.torch import SetLayer
    >>> x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    >>> batches = [(x[:250], x[:250].argmax(dim=1)), (x[250:], x[250:].argmax(dim=1))]
    >>> layer = SetLayer.calibrate(torch.nn.Identity(), batches, alpha=0.1, allow_empty=False, random_state=0)
    >>> layer
    SetLayer(3 classes, alpha=0.1, Adaptive())
    >>> layer(torch.tensor([[4.0, 0.0, 0.0]]))
    tensor([[ True, False, False]])
    """

    def __init__(
        self,
        n_classes: int,
        alpha: Any = 0.1,
        *,
        conformity: Any = "adaptive",
        groups: str | None = None,
        classes: ArrayLike | None = None,
        randomized: bool = True,
        allow_empty: bool = True,
        normalize: bool = False,
        logits: bool = True,
        assurance: float | Assurance | None = None,
    ) -> None:
        super().__init__()
        self.n_classes = validate.whole(n_classes, "n_classes", 2)
        self.alphas, self._is_sequence = check_alphas(alpha, assurance)
        self.conformity, formula = score_and_formula(conformity)
        self.by_label = _check_layer_groups(groups)
        self.classes = check_classes(classes, self.n_classes, None, [])
        self.randomized = validate.flag(randomized, "randomized")
        self.allow_empty = validate.flag(allow_empty, "allow_empty")
        self.normalize, self.logits = validate.flag(normalize, "normalize"), validate.flag(logits, "logits")
        self.calibration: Calibration | None = None
        _check_fast(formula, self.conformity)
        assert formula.linear is not None
        self.weights, self.power = in_numbers_of_python(formula.linear), formula.power
        self._flat: tuple[float, ...] = tuple(self.weights.flat.tolist())
        infinite = torch.full((len(self.alphas), self.n_classes if self.by_label else 1), torch.inf, dtype=_WIDE)
        self.register_buffer("threshold_bits", infinite.view(torch.int64))
        self.register_buffer("key", torch.zeros((), dtype=torch.int64))
        self.register_buffer("settings", torch.tensor([*_described(self).values()], dtype=_WIDE).view(torch.int64))

    @classmethod
    def of(
        cls,
        calibration: Calibration,
        alpha: Any = 0.1,
        *,
        logits: bool = True,
        assurance: float | Assurance | None = None,
    ) -> SetLayer:
        """Return the layer of a calibration, at one level or several.

        Parameters
        ----------
        calibration : Calibration
            Without groups, or with those of the labels; its u must be its own.
        alpha : float, mapping, or sequence of them, default=0.1
            Miscoverage level, or with ``groups="label"`` one for each label.
        logits : bool, default=True
            Whether logits come in, or probabilities.
        assurance : float or Assurance, optional
            As in :meth:`Calibration.predict_set`.

        Examples
        --------
        >>> import aptset
        >>> from aptset.torch import SetLayer
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, randomized=False)
        >>> SetLayer.of(calibration, alpha=0.1, logits=False).thresholds
        tensor([[0.]], dtype=torch.float64)
        """
        return _layer_of(cls, calibration, alpha, logits, assurance)

    @classmethod
    def calibrate(
        cls,
        model: Any,
        loader: Any,
        *,
        alpha: Any = 0.1,
        conformity: Any = "adaptive",
        groups: str | None = None,
        classes: ArrayLike | None = None,
        randomized: bool = True,
        allow_empty: bool = True,
        normalize: bool = False,
        logits: bool = True,
        random_state: Any = None,
        progress: bool = True,
        assurance: float | Assurance | None = None,
    ) -> SetLayer:
        """Ask a model about every batch of a loader, and return the layer that stands behind it.

        The rows must be ones that the model was not trained on. The model runs in evaluation mode without gradients,
        and is left as it was. Where a process group of ``torch.distributed`` runs, each rank asks about the batches of
        its own loader, and every rank returns the layer of all of them; samplers must not repeat rows to make the
        shards even (``drop_last=True``).

        Parameters
        ----------
        model : nn.Module or function
            Returns logits (or an object that has ``logits``), shape (rows, classes).
        loader : iterable of (inputs, labels)
            Labels are column numbers. Inputs go to the device of the model.
        alpha, conformity, groups, classes, randomized, allow_empty, normalize, logits, assurance
            As for the layer itself; levels of labels go by column number.
        random_state : None, int or numpy random generator, optional
            Where the key of the hash comes from; that of the first rank counts.
        progress : bool, default=True
            Show a bar on terminals and in notebooks.
        """
        from aptset.torch.calibrating import calibrate_model

        (score, formula), _ = score_and_formula(conformity), check_alphas(alpha, assurance)
        _check_layer_groups(groups)
        _check_fast(formula, score)
        settings = {"conformity": score, "groups": groups, "randomized": randomized, "logits": logits}
        settings |= {"allow_empty": allow_empty, "normalize": normalize}
        calibration, device = calibrate_model(
            model, loader, settings, random_state, validate.flag(progress, "progress")
        )
        names = check_classes(classes, len(calibration.classes), None, [])
        layer = _layer_of(cls, replace(calibration, classes=names), alpha, logits, assurance)
        layer.to(device)
        return layer

    @property
    def thresholds(self) -> Tensor:
        """The scores up to which labels are in the set, (levels, 1) or (levels, classes)."""
        return self.threshold_bits.view(_WIDE)

    @property
    def at_least(self) -> int:
        """How many labels every set holds."""
        return 0 if self.allow_empty else 1

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sets as a boolean mask, (rows, classes); (levels, rows, classes) for a sequence of levels."""
        key = self.key
        _check_inputs(inputs, self.n_classes, key.device)
        tolerance = self._tolerance(inputs)
        if _is_exporting():  # machines that run the graph may not have aptset
            exported = masks_in_graph(self, inputs, tolerance)
            return exported if self._is_sequence else exported[0]
        settings = (self._flat, self.power, tolerance, self.logits, self.normalize, self.randomized, self.at_least)
        masks, report = set_masks(self._is_sequence, inputs.detach(), self.threshold_bits, key, *settings)
        if not (torch.compiler.is_compiling() or (inputs.is_cuda and torch.cuda.is_current_stream_capturing())):
            self._check(inputs, report)
        return masks

    def _check(self, inputs: Tensor, report: Tensor) -> None:
        """Refuse bad rows, and probabilities where logits were announced, by what the operator reports."""
        row, unlike = numbers_of(report)
        if row >= 0 or (self.logits and unlike <= 0 and len(inputs)):
            rows = self._rows(inputs)
            if unlike == UNKNOWN:
                rows.refuse_probabilities("")
            rows.check(report if unlike == 0 else report.reshape(-1)[:1])

    def sets(self, inputs: Tensor) -> Any:
        """Return the sets as compressed rows, most likely label first: a list of them for a sequence of levels.

        On the host they are :class:`aptset.PredictionSets`, on a device :class:`TensorSets`. No part of a graph.
        """
        _check_inputs(inputs, self.n_classes, self.key.device)
        rows, min_size = self._rows(inputs), self.at_least
        if len(rows) == 0:
            pointers, members = rows.probabilities.new_zeros(1), rows.probabilities.new_zeros(0)
            empty = TensorSets(pointers.to(torch.int64), members.to(torch.int32), self.classes)
            of_levels = [empty for _ in self.alphas]
        elif self.by_label:
            of_levels = [sets_by_label(rows, level, min_size, self.classes) for level in self.thresholds]
        else:
            of_levels = sets_at(rows, lambda _: self.thresholds.T, min_size, self.classes)
        answers = [of_level.to("cpu") if inputs.device.type == "cpu" else of_level for of_level in of_levels]
        return answers if self._is_sequence else answers[0]

    def _rows(self, inputs: Tensor) -> DeviceRows:
        formula, u = Formula(self.weights, power=self.power), None if self.randomized else np.ones(len(inputs))
        settings = (int(self.key) & _ALL_BITS, self._tolerance(inputs), None, u, self.normalize, PREDICTION, 0)
        return DeviceRows(inputs.detach(), formula, *settings, self.logits, _NAME)

    def _tolerance(self, inputs: Tensor) -> float:
        return _TOLERANCES[_WIDE] if self.logits else _TOLERANCES.get(inputs.dtype, _TOLERANCES[_WIDE])

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        """Refuse the state of a layer with other settings, before anything is written."""
        other = _differences(self, state, prefix)
        if other:
            errors: list[str] = args[-1]
            errors.append(f"{prefix}settings must be those of this layer; the state has another {', '.join(other)}.")
            return
        super()._load_from_state_dict(state, prefix, *args)

    def extra_repr(self) -> str:
        """Describe the settings."""
        levels = [alpha_of(level) for level in self.alphas]
        by_label = ", groups='label'" if self.by_label else ""
        return (
            f"{self.n_classes} classes, alpha={levels if self._is_sequence else levels[0]}, {self.conformity}{by_label}"
        )


def _is_exporting() -> bool:
    """Tell whether torch.export traces; torch's own function says so to torch.compile, too, in some versions."""
    return bool(torch.compiler._is_exporting_flag)


def _layer_of(
    kind: type[SetLayer], calibration: Calibration, alpha: Any, logits: bool, assurance: Any = None
) -> SetLayer:
    _check_can_be_a_layer(calibration)
    held_out, by_label = calibration.held_out, calibration.held_out.groups.kind == "label"
    layer = kind(
        len(calibration.classes),
        alpha,
        conformity=calibration.conformity,
        groups="label" if by_label else None,
        classes=calibration.classes,
        randomized=calibration.randomized,
        allow_empty=calibration.allow_empty,
        normalize=calibration.normalize,
        logits=logits,
        assurance=assurance,
    )
    thresholds = held_out.thresholds(layer.alphas, held_out.groups.index(None))[:, 0]
    layer.threshold_bits.copy_(torch.from_numpy(thresholds).view(torch.int64))
    layer.key.fill_(signed(calibration.key))
    layer.calibration = calibration
    _warn_of_copies(calibration)
    warn_if_too_few(held_out.size_of_group, layer.alphas, held_out.groups, held_out.size_of_group)
    return layer


def _check_fast(formula: Formula, conformity: Any) -> None:
    """Refuse a score that is only a Python function: it cannot be a part of a graph."""
    if formula.linear is None:
        raise ValueError(
            f"conformity must have weights to be used in a layer; {conformity!r} is a function of places alone. "
            "Take one of the library's scores, or call calibration.predict_mask, which takes any function."
        )


def _check_layer_groups(groups: Any) -> bool:
    """Return whether each label has a threshold of its own."""
    if not (groups is None or (isinstance(groups, str) and groups == "label")):
        raise ValueError(
            f"groups must be None or 'label' in a layer, which sees logits alone; got {groups!r}. For other groups "
            "call calibration.predict_mask(..., groups=...)."
        )
    return groups == "label"


def _check_can_be_a_layer(calibration: Calibration) -> None:
    """Refuse calibrations whose sets depend on more than the row."""
    if calibration.held_out.has_weights:
        raise ValueError(
            "weights must be left out here: a layer has thresholds that are the same for all rows. Call predict_set."
        )
    _check_layer_groups(None if calibration.held_out.groups.is_one else calibration.held_out.groups.kind)
    if calibration.chance.source == "given":
        raise ValueError(
            "calibration must draw its own u to be used in a layer; it was passed u=.... Calibrate again without u."
        )


def _warn_of_copies(calibration: Calibration) -> None:
    """Say that equal rows of different batches share one u, where calibration rows were often copies."""
    chosen = calibration.chance
    if chosen.copies >= MANY_COPIES and chosen.randomized:
        warn_caller(
            f"{chosen.copies:.0%} of the calibration rows are copies of others, and a layer sees no ids: the "
            "first of equal rows has the same u in every batch. Over many small batches such rows are "
            'covered or missed together. Call layer.calibration.predict_mask(..., u="fresh"), or with '
            "ids=..., or calibrate with randomized=False."
        )


def _check_inputs(inputs: Any, n_classes: int, device: Any) -> None:
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


_FLAGS = ("randomized", "allow_empty", "normalize", "logits")


def _described(layer: SetLayer) -> dict[str, float]:
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


def _differences(layer: SetLayer, state: dict[str, Any], prefix: str) -> list[str]:
    """Return the settings in which a state differs; where there are more or fewer of them torch says so."""
    stored = state.get(f"{prefix}settings")
    if stored is None or stored.shape != layer.settings.shape or layer.settings.is_meta:
        return []
    differs = (stored.cpu() != layer.settings.cpu()).tolist()
    names = [name.split()[0] for name, differ in zip(_described(layer), differs, strict=True) if differ]
    return list(dict.fromkeys(names))
