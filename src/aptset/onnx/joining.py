"""Join the graph of sets to that of a converted model, or let it stand alone behind probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, helper, shape_inference, version_converter

from aptset.onnx.tracing import Graph, Value, type_code

LOWEST_OPSET = 18  # the first that has bitwise operators
_IR = 8  # the format of files that came with it
_FLOATS = {type_code(kind): np.dtype(kind) for kind in (np.float16, np.float32, np.float64)}


@dataclass
class Host:
    """What the sets are written into: a model that gives ``given``, and the name and type of its features, if one."""

    model: ModelProto
    given: str
    dtype: np.dtype[Any]
    features: tuple[str, np.dtype[Any], int] | None = None


def alone(name: str, dtype: np.dtype[Any], n_classes: int, opset: int) -> Host:
    """Return an empty model with one input, (rows, classes)."""
    info = helper.make_tensor_value_info(name, type_code(dtype), ["rows", n_classes])
    graph = helper.make_graph([], "aptset", [info], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = _IR if opset < 26 else 13
    return Host(model, name, dtype)


def behind(model: Any, output: str | None, n_classes: int) -> Host:
    """Return a converted model, ready to be written into: one tensor of probabilities or logits is in it."""
    loaded = _loaded(model)
    _lift(loaded)
    name = _chosen_output(loaded, output)
    info = _types(loaded).get(name)
    dtype = _FLOATS.get(info.elem_type if info is not None else type_code(np.float32))
    if dtype is None:
        raise ValueError(
            f"output must name probabilities or logits in float16, float32 or float64; {name!r} of the model is of "
            f"another type. Its outputs are {_names(loaded.graph.output)}."
        )
    columns = info.shape.dim[1].dim_value if info is not None and len(info.shape.dim) == 2 else 0
    if columns not in (0, n_classes):
        raise ValueError(
            f"model must have one column per class in {name!r}: {n_classes} classes, but it has {columns} columns. "
            "Convert the model that was calibrated, and name its output by output=..."
        )
    return Host(loaded, name, dtype, _features_of(loaded))


def conversion_of(classifier: Any, model: Any) -> Any:
    """Return the converted model of a classifier: what was passed, what a function makes of it, or by skl2onnx."""
    is_function = callable(model) and not hasattr(model, "model_proto")
    if model is not None and not is_function:
        return model
    estimator = classifier.fitted_.native_model
    return model(estimator) if is_function else _by_skl2onnx(estimator)


def _by_skl2onnx(estimator: Any) -> onnx.ModelProto:
    try:
        from skl2onnx import to_onnx

        first_row = np.zeros((1, estimator.n_features_in_), dtype=np.float32)
        return to_onnx(estimator, first_row, target_opset={"": LOWEST_OPSET, "ai.onnx.ml": 3})
    except Exception as error:  # it is not installed, or does not know the model
        why = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise ValueError(
            f"model must be passed here: skl2onnx could not convert the {type(estimator).__name__} ({why}). Pass "
            "model=..., a converted one, or a function that converts the fitted model, by onnxmltools for instance."
        ) from error


def _loaded(model: Any) -> ModelProto:
    """Return a copy of a model that came as one, or as the path of a file."""
    if isinstance(model, str | Path):
        return onnx.load(str(model))
    if isinstance(getattr(model, "model_proto", None), ModelProto):  # a program of torch.onnx
        model = model.model_proto
    if not isinstance(model, ModelProto):
        raise TypeError(
            f"model must be an ONNX model, a program of torch.onnx.export or the path of a file; got "
            f"{type(model).__name__}. Convert it first, with skl2onnx, onnxmltools or torch.onnx."
        )
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _lift(model: ModelProto) -> None:
    """Bring the operators of a model to a set that has all that sets need."""
    versions = {entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")}
    if not versions:
        model.opset_import.append(helper.make_opsetid("", LOWEST_OPSET))
    elif max(versions) < LOWEST_OPSET:
        try:
            model.CopyFrom(version_converter.convert_version(model, LOWEST_OPSET))
        except Exception as error:  # whatever the converter trips over
            raise ValueError(
                f"model must have operators of opset {LOWEST_OPSET} or later; it has opset {max(versions)}, and could "
                f"not be brought there ({error}). Convert it with target_opset={LOWEST_OPSET}."
            ) from error
    model.ir_version = max(model.ir_version, _IR)


def opset_of(model: ModelProto) -> int:
    """Return the version of the operators."""
    return max(int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _chosen_output(model: ModelProto, output: str | None) -> str:
    """Return the tensor of probabilities; one that ZipMap turned into dictionaries is taken before it."""
    graph = model.graph
    zipped = {node.output[0]: node for node in graph.node if node.op_type == "ZipMap"}
    names = _names(graph.output)
    if output is None:
        likely = [name for name in names if name in zipped or "prob" in name.lower() or "logit" in name.lower()]
        candidates = likely or names
        if len(candidates) != 1:
            raise ValueError(f"output must say which output of the model holds the probabilities; it has {names}.")
        output = candidates[0]
    if output not in names:
        raise ValueError(f"output must be one of the outputs of the model, {names}; got {output!r}.")
    if output not in zipped:
        return output
    node = zipped[output]
    graph.node.remove(node)
    dictionary = next(info for info in graph.output if info.name == output)
    dictionary.CopyFrom(helper.make_tensor_value_info(output, type_code(np.float32), ["rows", None]))
    graph.node.append(helper.make_node("Identity", [node.input[0]], [output]))
    return output


def _types(model: ModelProto) -> dict[str, Any]:
    """Return the type of each tensor that is known."""
    graph = shape_inference.infer_shapes(model).graph
    infos = [*graph.value_info, *graph.output, *graph.input]
    return {info.name: info.type.tensor_type for info in infos if info.type.HasField("tensor_type")}


def _features_of(model: ModelProto) -> tuple[str, np.dtype[Any], int] | None:
    """Return the one input of a model, if it is one matrix of numbers."""
    constants = set(_names(model.graph.initializer))
    inputs = [info for info in model.graph.input if info.name not in constants]
    if len(inputs) != 1:
        return None
    kind = inputs[0].type.tensor_type
    dtype, shape = _FLOATS.get(kind.elem_type), [dimension.dim_value for dimension in kind.shape.dim]
    if dtype is None or len(shape) != 2 or shape[1] <= 0:
        return None
    return inputs[0].name, dtype, shape[1]


def hashed_features(host: Host) -> tuple[str, np.dtype[Any], int]:
    """Return what a classifier hashes: the features of its model."""
    if host.features is None:
        raise ValueError(
            "model must have one input, a matrix (rows, features) of floats: the classifier draws u, and breaks ties, "
            "from the features of a row. Convert it with one input, or calibrate on probabilities (aptset.calibrate)."
        )
    return host.features


def _names(infos: Any) -> list[str]:
    return [info.name for info in infos]


def add_input(host: Host, name: str, kind: int) -> str:
    """Add an input with one value per row."""
    _refuse_taken(host, name)
    host.model.graph.input.append(helper.make_tensor_value_info(name, kind, ["rows"]))
    return name


def add_numbers_of_groups(host: Host, graph: Graph, names: list[Any]) -> Value:
    """Add an input with the group of each row, by name; return the number of each, the last for one never seen."""
    are_texts = isinstance(names[0], str)
    kind = onnx.TensorProto.STRING if are_texts else onnx.TensorProto.INT64
    given = add_input(host, "groups", kind)
    keys: dict[str, Any] = {"keys_strings" if are_texts else "keys_int64s": names}
    if not any(entry.domain == "ai.onnx.ml" and entry.version >= 2 for entry in host.model.opset_import):
        _require_machine_learning(host.model)
    numbers = graph.add(
        "LabelEncoder", given, domain="ai.onnx.ml", values_int64s=range(len(names)), default_int64=len(names), **keys
    )
    return Value(graph, numbers, np.int64)


def _require_machine_learning(model: ModelProto) -> None:
    for entry in model.opset_import:
        if entry.domain == "ai.onnx.ml":
            entry.version = 2
            return
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))


def finish(host: Host, graph: Graph, outputs: dict[str, tuple[Value, list[Any]]], properties: dict[str, str]) -> None:
    """Write what the outputs need into the model, and what it is worth."""
    for name in outputs:
        _refuse_taken(host, name)
    nodes, constants = graph.needed([value.name for value, _ in outputs.values()])
    renamed = {value.name: name for name, (value, _) in outputs.items()}
    for node in nodes:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = renamed.get(name, name)
        host.model.graph.node.append(node)
    host.model.graph.initializer.extend(constants)
    for name, (value, shape) in outputs.items():
        host.model.graph.output.append(helper.make_tensor_value_info(name, type_code(value.dtype), shape))
    kept = [entry for entry in host.model.metadata_props if entry.key not in properties]
    described = {entry.key: entry.value for entry in kept} | properties
    del host.model.metadata_props[:]
    helper.set_model_props(host.model, described)
    onnx.checker.check_model(host.model)


def _refuse_taken(host: Host, name: str) -> None:
    graph = host.model.graph
    taken = {*_names(graph.input), *_names(graph.output), *_names(graph.initializer)}
    if name in taken or any(name in node.output for node in graph.node):
        raise ValueError(
            f"model must not have a tensor that is called {name!r}, as one of those that are added. Rename it there."
        )


def placed(given: Value, columns: NDArray[np.int64], n_classes: int) -> Value:
    """Return the columns of a model in their places; a class that it never saw has no mass."""
    if np.array_equal(columns, np.arange(n_classes)):
        return given
    places = np.zeros((len(columns), n_classes), dtype=given.dtype)
    places[np.arange(len(columns)), columns] = 1.0
    graph = given.graph
    return graph.value("MatMul", given, graph.constant(places, given.dtype), dtype=given.dtype, width=n_classes)
