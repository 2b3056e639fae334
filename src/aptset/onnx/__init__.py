"""Prediction sets as an ONNX graph, for runtimes without Python; it needs onnx, which is an extra."""

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("onnx") is None:
    raise ModuleNotFoundError(f"aptset.onnx needs onnx: {install('onnx')}")

from aptset.onnx.export import export

__all__ = ["export"]
