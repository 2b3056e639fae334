"""Prediction sets as an ONNX graph, for runtimes without Python; it needs onnx, which is an extra.

Here is what may be exported, how it is asked for, and what the file says about itself.
"""

from __future__ import annotations

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("onnx") is None:
    raise ModuleNotFoundError(f"aptset.onnx needs onnx: {install('onnx')}")

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from aptset import Calibration, CrossCalibration
from aptset.core import validate
from aptset.core.files import atomic_write
from aptset.core.labels import columns_of, plain_value
from aptset.core.levels import Assurance, CellLevel, Level, alpha_of, check_alphas, warn_if_too_few
from aptset.core.matrix import tolerance_of
from aptset.core.randomization import MANY_COPIES, warn_of_shared_chance
from aptset.kernels.formula import Formula, OwnMass
from aptset.kernels.p_value_rounding import by_counts
from aptset.onnx.joining import LOWEST_OPSET, Host, alone, behind, conversion_of, finish
from aptset.onnx.sets import GraphSettings, Search, Sets, write_sets
from aptset.onnx.tracing import Value

__all__ = ["export"]
_DTYPES = ("float16", "float32", "float64")


def export(
    source: Any,
    path: str | Path,
    alpha: Any = None,
    *,
    u: str = "content",
    model: Any = None,
    output: str | None = None,
    logits: bool = False,
    dtype: str = "float64",
    p_values: bool = False,
    order: bool = True,
    normalize: bool | None = None,
    allow_empty: bool | None = None,
    assurance: float | Assurance | None = None,
    opset: int = LOWEST_OPSET,
) -> onnx.ModelProto:
    """Write the prediction sets of a calibration, or of a fitted classifier, as an ONNX graph.

    Given the same numbers, the masks are those of :meth:`Calibration.predict_mask`, cell by cell, copies of rows in a
    batch included. The graph stands alone behind probabilities, or is joined to a converted model.

    Its outputs are ``mask``, boolean, (rows, classes), ``sizes``, (rows,), ``order``, (rows, classes), the numbers of
    the labels of each row from the most likely one down, and ``valid``, (rows,): False for a row that aptset would
    refuse, such as one with a missing or negative number or a wrong sum. A graph cannot raise; such a row holds every
    label. For a sequence of levels ``mask`` and ``sizes`` have a first axis of levels. What is promised is written in
    the properties of the file.

    Parameters
    ----------
    source : Calibration or ConformalClassifier
        A classifier must have one model, as after a split; it is joined to ``model``.
    path : str or Path
        The file to write.
    alpha : float, mapping, or sequence of them, optional
        Miscoverage level, as in ``predict_set``; by default that of the classifier, or 0.1. Thresholds are baked in.
    u : {"content", "input"}, default="content"
        Where the uniform of each row comes from: a keyed hash of its content, as in ``predict_set``, or an input ``u``
        of the graph with one float64 per row, drawn anew for each row by whoever calls.
    model : onnx.ModelProto, torch.onnx program, path or function, optional
        A converted model to join the sets to. For a classifier also a function that converts its fitted model; if it
        is left out, skl2onnx converts models of scikit-learn.
    output : str, optional
        Which output of the model holds the probabilities, or the logits; by default the one that is called so.
    logits : bool, default=False
        The numbers are logits.
    dtype : {"float64", "float32", "float16"}, default="float64"
        Type of the probabilities that come in, where there is no model.
    p_values : bool, default=False
        Also return the p-value of every label, float64, (rows, classes).
    order : bool, default=True
        Return the order of the labels. Without it, rows of more than 64 classes are sorted only as far as sets go.
    normalize, allow_empty, assurance
        As in :meth:`Calibration.predict_set`.
    opset : int, default=18
        Version of ONNX's operators, where there is no model. From 26 on the graph is a tenth to a third faster.

    Returns
    -------
    onnx.ModelProto
        What was written.

    Examples
    --------
    >>> import aptset, aptset.onnx
    >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, randomized=False)
    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/sets.onnx"
    >>> model = aptset.onnx.export(calibration, path, alpha=0.1)
    >>> [entry.name for entry in model.graph.output]
    ['mask', 'order', 'sizes', 'valid']
    """
    validate.one_of(u, ("content", "input"), "u")
    soft, with_p_values = validate.flag(logits, "logits"), validate.flag(p_values, "p_values")
    in_order = validate.flag(order, "order")
    request = _request(source, alpha, assurance)
    formula = _formula_of(request.calibration)
    _check_randomness(request.calibration, u)
    names = _group_names(request.calibration.held_out)
    host = _host(request, model, output, soft, dtype, opset)
    settings = _settings(request, formula, names, host, soft, normalize, allow_empty, with_p_values, in_order)
    sets, graph = write_sets(settings, host, request.columns, u == "input", names)
    finish(host, graph, _outputs(sets, request), _properties(request, u, names))
    _warn(request, u)
    with atomic_write(path) as file:
        file.write(host.model.SerializeToString())
    return host.model


@dataclass(frozen=True)
class _Request:
    """What is exported: a calibration at some levels; of a classifier, also where its model's columns belong."""

    calibration: Calibration
    alphas: list[Level]
    levels: list[Level]
    is_sequence: bool
    classifier: Any = None
    columns: NDArray[np.int64] | None = None


def _request(source: Any, alpha: Any, assurance: Any) -> _Request:
    if isinstance(source, Calibration):
        alphas, is_sequence = check_alphas(0.1 if alpha is None else alpha, assurance)
        return _Request(source, alphas, alphas, is_sequence)
    calibration = getattr(source, "calibration_", None)
    if isinstance(source, CrossCalibration) or isinstance(calibration, CrossCalibration):
        raise ValueError(
            "source must have one model to be a graph; this calibration compares several, one for each fold. Use "
            "calibration='split' (or a FrozenEstimator), or call predict_set in Python."
        )
    if not isinstance(calibration, Calibration):
        raise TypeError(
            f"source must be a Calibration or a fitted ConformalClassifier; got {type(source).__name__}. Make one "
            "with aptset.calibrate, or fit the classifier first."
        )
    fitted = source._fitted()
    alphas, is_sequence = source._asked(alpha, assurance)
    columns = columns_of(np.asarray(fitted.models[0].classes_), calibration.classes)
    return _Request(calibration, alphas, source._levels(alphas, fitted.promises), is_sequence, source, columns)


def _formula_of(calibration: Calibration) -> Formula:
    """Return the score as a formula that can be written as a graph; refuse what sets depend on besides the row."""
    formula, held_out = calibration._formula, calibration.held_out
    way_out = "call calibration.predict_mask in Python"
    if formula.linear is None and not isinstance(formula.fast, OwnMass):
        raise ValueError(
            f"conformity must have weights to be a graph; {calibration.conformity!r} is a function of Python, or one "
            f"that walks along ordered labels. Calibrate with one of the library's other scores, or {way_out}."
        )
    if held_out.has_weights and held_out.ratios is None:
        raise ValueError(
            "source must have thresholds that are the same for all rows of a group; with weights each row has its own. "
            f"Calibrate without weights, or {way_out}, with weights=..."
        )
    if held_out.factors is not None:
        raise ValueError(
            "source must not correct probabilities (prior_correction=True): a graph takes them as they come. Calibrate "
            f"with label_weights alone, or {way_out}."
        )
    if held_out.groups.overlaps:
        raise ValueError(
            "source must have groups that do not overlap to be a graph: thresholds of overlapping groups are worked "
            f"out for each combination. Calibrate with groups='label' or one group per row, or {way_out}."
        )
    return formula


def _check_randomness(calibration: Calibration, u: str) -> None:
    if u == "content" and calibration.chance.source == "given":
        raise ValueError(
            "u must be 'input' here: the calibration was passed u, and draws none of its own. Export with u='input', "
            "or calibrate again without u."
        )
    if u == "input" and not calibration.randomized:
        raise ValueError(
            "u must be 'content' with randomized=False, which uses u = 1 everywhere: there is nothing to put in. Leave "
            "u out."
        )


def _host(request: _Request, model: Any, output: str | None, logits: bool, dtype: str, opset: int) -> Host:
    n_columns = len(request.calibration.classes) if request.columns is None else len(request.columns)
    if request.classifier is not None:
        model = conversion_of(request.classifier, model)
    if model is not None:
        return behind(model, output, n_columns)
    kind = np.dtype(validate.one_of(dtype, _DTYPES, "dtype"))
    most = onnx.defs.onnx_opset_version()
    rule = f"a whole number from {LOWEST_OPSET} to {most}, which the installed onnx knows"
    number = validate.whole(opset, "opset", LOWEST_OPSET, rule, most)
    return alone("logits" if logits else "probabilities", kind, n_columns, number)


def _group_names(held_out: Any) -> list[Any]:
    """Return the names of the groups of rows; nothing where rows have none."""
    groups = held_out.groups
    if not groups.by_row:
        return []
    names = list(groups.names if groups.rows is None else groups.rows)
    are_whole = all(type(name) is int and abs(name) < 2**63 for name in names)
    if not (are_whole or all(isinstance(name, str) for name in names)):
        raise ValueError(
            f"groups must all be texts or all whole numbers to be an input of a graph; got {names[:4]}. Calibrate with "
            "their texts, or call calibration.predict_mask(..., groups=...) in Python."
        )
    return names


def _cells(held_out: Any, names: list[Any]) -> NDArray[np.int64]:
    """Return the cell of each label in each group of rows, (groups, 1 or labels), and last in one never seen."""
    ids = np.append(np.arange(len(names)), -1) if names else np.zeros(1)
    cells = held_out.groups.index(None if held_out.groups.by_label_alone else ids.astype(np.int32))
    return np.asarray(cells, dtype=np.int64)


def _settings(
    request: _Request,
    formula: Formula,
    names: list[Any],
    host: Host,
    logits: bool,
    normalize: bool | None,
    allow_empty: bool | None,
    p_values: bool,
    order: bool,
) -> GraphSettings:
    """Return what is baked into the graph."""
    calibration, held_out = request.calibration, request.calibration.held_out
    cells = _cells(held_out, names)
    thresholds = held_out.thresholds(request.levels, cells, held_out.test_mass(None, 1))
    may_be_empty = validate.flag(allow_empty, "allow_empty", calibration.allow_empty)
    return GraphSettings(
        formula=formula,
        key=calibration.key,
        n_classes=len(calibration.classes),
        tolerance=tolerance_of(np.empty(0, dtype=np.float64 if logits else host.dtype)),
        randomized=calibration.randomized,
        logits=logits,
        normalize=validate.flag(normalize, "normalize", calibration.normalize),
        min_size=0 if may_be_empty else 1,
        thresholds=thresholds if request.is_sequence else thresholds[0],
        search=_search(held_out) if p_values else None,
        cells=np.where(cells < 0, len(held_out.groups.names), cells),
        steady=request.classifier is not None and host.dtype == np.float64,
        order=order,
    )


def _search(held_out: Any) -> Search:
    """Return the scores of each cell, in which p-values are looked for."""
    folds = getattr(held_out, "folds", None)  # which a calibration without scores has not
    if folds is None or held_out.is_weighted:
        raise ValueError(
            "p_values must be False here: they are searched in scores that all count the same, and this calibration "
            "has weights, clusters or no scores. Call calibration.p_values in Python."
        )
    (fold,) = folds
    sizes = [*np.diff(fold.offsets).tolist(), 0]  # and a cell never seen
    width = 1 << max(sizes).bit_length()
    scores, p_values = (np.full((len(sizes), width), filler) for filler in (np.inf, 1.0))
    for cell, (start, n) in enumerate(zip(fold.offsets.tolist(), sizes, strict=True)):
        scores[cell, :n] = fold.scores[start : start + n]
        p_values[cell, : n + 1] = by_counts(n, np.arange(n + 1))
    return Search(scores.ravel(), p_values.ravel(), width)


def _outputs(sets: Sets, request: _Request) -> dict[str, tuple[Value, list[Any]]]:
    """Return the outputs by name, with their shapes."""
    several, n = [len(request.levels)] if request.is_sequence else [], len(request.calibration.classes)
    outputs: dict[str, tuple[Value | None, list[Any]]] = {
        "mask": (sets.mask, [*several, "rows", n]),
        "order": (sets.order, ["rows", n]),
        "sizes": (sets.sizes, [*several, "rows"]),
        "valid": (sets.valid, ["rows"]),
        "p_values": (sets.p_values, ["rows", n]),
    }
    return {name: (value, shape) for name, (value, shape) in outputs.items() if value is not None}


def _properties(request: _Request, u: str, names: list[Any]) -> dict[str, str]:
    """Return what the file says about itself: who made it, of what, and what is promised."""
    calibration, classifier = request.calibration, request.classifier
    if classifier is None:
        scheme, promised = "split", [_promise(calibration, level) for level in request.levels]
    else:
        promises = classifier.fitted_.promises
        scheme, promised = promises.scheme.name, [promises.by_name(level) for level in request.levels]
    content = "probabilities or logits" if classifier is None else "features"
    drawn = "the input u" if u == "input" else f"drawn from the {content} of each row"
    described = {
        "alpha": [_plain(alpha_of(level)) for level in request.alphas],
        "guarantee": [_plain(promise) for promise in promised],
        "n": calibration.n,
        "score": repr(calibration.conformity),
        "scheme": scheme,
        "classes": [plain_value(label) for label in calibration.classes.tolist()],
        "groups": names or calibration.held_out.groups.kind,
        "u": drawn if calibration.randomized else "1 everywhere",
        "versions": {"aptset": version("aptset"), "onnx": onnx.__version__, "numpy": np.__version__},
    }
    assured = [level.assurance for level in request.levels if isinstance(level, CellLevel) and level.assurance]
    described |= {"assurance": str(assured[0])} if assured else {}
    return {key: _text(value) for key, value in described.items()}


def _promise(calibration: Any, level: Level) -> Any:
    return calibration.guarantee(level)


def _plain(value: Any) -> Any:
    return {str(name): float(part) for name, part in value.items()} if isinstance(value, dict) else float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _warn(request: _Request, u: str) -> None:
    """Say what calls in Python would say: samples that are too few, and equal rows that share their u."""
    calibration, held_out = request.calibration, request.calibration.held_out
    if calibration.randomized and u == "content" and calibration.chance.copies >= MANY_COPIES:
        warn_of_shared_chance(calibration.chance.copies, 1)
    if not held_out.has_weights:
        sizes = held_out.size_of_group
        warn_if_too_few(sizes, request.alphas, held_out.groups, sizes, request.levels, held_out.counted)
