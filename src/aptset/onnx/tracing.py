"""Nodes of an ONNX graph from the library's own formulas: values that note the operations that are done to them.

A formula that numpy evaluates is called with values of this module, and writes itself down: the graph can mean nothing
else than the loops. What numbers alone decide is worked out by numpy, and stands in the graph as a constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from aptset.kernels.formula import Operations

BITCAST = 26  # the first set of operators that has BitCast
_REDUCES_FLAGS = 20  # the first one whose ReduceMax takes flags
WIDE = 64  # classes: what is worth a node more above it
_DOUBLE, _WORD = np.dtype(np.float64), np.dtype(np.uint64)
_CODES: dict[Any, int] = {
    np.dtype(kind): helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for kind in (np.float16, np.float32, np.float64, np.uint64, np.int64, np.int32, np.bool_)
}


def type_code(dtype: DTypeLike) -> int:
    """Return the number by which ONNX knows a type."""
    return _CODES[np.dtype(dtype)]


class Graph:
    """Nodes and constants, as they are written; a branch shares the constants of the graph that it is part of."""

    def __init__(self, opset: int, prefix: str = "aptset", outer: Graph | None = None) -> None:
        self.opset, self.prefix, self.nodes = opset, prefix, list[NodeProto]()
        self.constants: dict[Any, TensorProto] = {} if outer is None else outer.constants
        self._count: list[int] = [0] if outer is None else outer._count

    def name(self, what: str) -> str:
        """Return a name that nothing else has."""
        self._count[0] += 1
        return f"{self.prefix}/{what}_{self._count[0]}"

    def constant(self, value: Any, dtype: DTypeLike) -> str:
        """Return the name of a constant; equal ones are held once."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = numpy_helper.from_array(array, self.name("constant"))
        name: str = self.constants[key].name
        return name

    def add(self, operator: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Write a node; return the name of its output, or of each."""
        names = [self.name(operator) for _ in range(outputs)]
        given = [value.name if isinstance(value, Value) else value for value in inputs]
        self.nodes.append(helper.make_node(operator, given, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def value(self, operator: str, *inputs: Any, dtype: DTypeLike, width: int = 0, **attributes: Any) -> Value:
        """Write a node with one output; return it."""
        return Value(self, self.add(operator, *inputs, **attributes), dtype, width)

    def choose(self, condition: Value, then: Any, otherwise: Value) -> Value:
        """Return what ``then(graph)`` writes where a condition on the whole batch holds, else a value as it is.

        Where it does not hold, nothing of it is worked out.
        """
        branches = []
        for write in (then, lambda graph: graph.value("Identity", otherwise, dtype=otherwise.dtype)):
            branch = Graph(self.opset, self.prefix, self)
            result = write(branch)
            info = helper.make_tensor_value_info(result.name, type_code(otherwise.dtype), None)
            branches.append(helper.make_graph(branch.nodes, branch.name("branch"), [], [info]))
        name = self.add("If", condition, then_branch=branches[0], else_branch=branches[1])
        return Value(self, name, otherwise.dtype, otherwise.width)

    def needed(self, outputs: list[str]) -> tuple[list[NodeProto], list[TensorProto]]:
        """Return the nodes and the constants that the outputs depend on."""
        wanted, nodes = set(outputs), list[NodeProto]()
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                nodes.append(node)
                wanted.update(_read_by(node))
        return nodes[::-1], [tensor for tensor in self.constants.values() if tensor.name in wanted]


def _read_by(node: NodeProto) -> set[str]:
    """Return the names that a node reads, those inside its branches among them."""
    names = set(node.input)
    for attribute in node.attribute:
        if isinstance(attribute.g, GraphProto):
            names.update(*(_read_by(inner) for inner in attribute.g.node))
    return names


class Value:
    """A matrix (rows, columns), or one number per row, that the graph will hold."""

    __array_ufunc__ = None  # an array on the left leaves the operation to the value on the right

    def __init__(
        self, graph: Graph, name: str, dtype: DTypeLike, width: int = 0, negative_of: Value | None = None
    ) -> None:
        self.graph, self.name, self.dtype, self.width = graph, name, np.dtype(dtype), width
        self._negative_of = negative_of  # to add it is to subtract what it is the negative of: one node less

    @property
    def shape(self) -> tuple[None, int]:
        """The rows, which nobody knows yet, and the columns."""
        return None, self.width

    def within(self, graph: Graph) -> Value:
        """Return the same as a branch of the graph sees it."""
        return Value(graph, self.name, self.dtype, self.width)

    def _with(
        self, operator: str, other: Any, dtype: DTypeLike | None = None, swapped: bool = False, **attributes: Any
    ) -> Value:
        right = other if isinstance(other, Value) else self.graph.constant(other, self.dtype)
        width = max(self.width, other.width if isinstance(other, Value) else _width_of(other))
        pair = (right, self) if swapped else (self, right)
        return self.graph.value(operator, *pair, dtype=dtype or self.dtype, width=width, **attributes)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Value) and other._negative_of is not None:
            return self - other._negative_of
        is_nothing = _is(other, 0.0) or (isinstance(other, np.ndarray) and _width_of(other) <= self.width)
        return self if is_nothing and not np.any(other) else self._with("Add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self if _is(other, 0.0) else self._with("Sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        if _is(other, 0.0):
            return 0.0
        if _is(other, -1.0):
            return -self
        return self if _is(other, 1.0) else self._with("Mul", other)

    __rmul__ = __mul__

    def __neg__(self) -> Value:
        return Value(self.graph, self.graph.add("Neg", self), self.dtype, self.width, self)

    def __truediv__(self, other: Any) -> Any:
        return self._with("Div", other)

    def __rtruediv__(self, other: Any) -> Any:
        return 0.0 if _is(other, 0.0) else self._with("Div", other, swapped=True)

    def __abs__(self) -> Value:
        return self.graph.value("Abs", self, dtype=self.dtype, width=self.width)

    def __gt__(self, other: Any) -> Value:
        return self._with("Greater", other, np.bool_)

    def __ge__(self, other: Any) -> Value:
        return self._with("GreaterOrEqual", other, np.bool_)

    def __lt__(self, other: Any) -> Value:
        return self._with("Less", other, np.bool_)

    def __le__(self, other: Any) -> Value:
        return self._with("LessOrEqual", other, np.bool_)

    def equals(self, other: Any) -> Value:
        """Compare; ``==`` is left to Python, which asks it of everything."""
        return self._with("Equal", other, np.bool_)

    def __and__(self, other: Any) -> Value:
        return self._with("And" if self.dtype == np.bool_ else "BitwiseAnd", other)

    def __or__(self, other: Any) -> Value:
        return self._with("Or", other)

    def __invert__(self) -> Value:
        return self.graph.value("Not", self, dtype=np.bool_, width=self.width)

    def __xor__(self, other: Any) -> Value:
        return self._with("BitwiseXor", other)

    def __rshift__(self, bits: Any) -> Value:
        return self._with("BitShift", bits, direction="RIGHT")

    def __getitem__(self, key: Any) -> Value:
        """Return columns, ``[:, start:stop]``, or one number per row as a column, ``[:, None]``."""
        _, columns = key
        if columns is None and self.width == 1:
            return self
        if columns is None:
            return self.graph.value("Unsqueeze", self, self.graph.constant([1], np.int64), dtype=self.dtype, width=1)
        start, stop, _ = columns.indices(self.width)
        bounds = [self.graph.constant([bound], np.int64) for bound in (start, stop, 1)]
        return self.graph.value("Slice", self, *bounds, dtype=self.dtype, width=stop - start)

    def astype(self, dtype: DTypeLike) -> Value:
        """Convert."""
        return self.graph.value("Cast", self, to=type_code(dtype), dtype=dtype, width=self.width)

    def view(self, dtype: DTypeLike) -> Value:
        """Return the bits of float64 values that are finite and not below 0."""
        assert (self.dtype, np.dtype(dtype)) == (_DOUBLE, _WORD)
        return words_of(self)

    def sum(self, axis: int, keepdims: bool = True) -> Value:
        """Return the sum of each row, without rounding: of floats that are multiples of one number, or of words.

        A product with ones adds words; onnxruntime rounds them in ReduceSum.
        """
        if self.dtype == _DOUBLE:
            return self.reduced("ReduceSum", axis, keepdims)
        ones = self.graph.constant(np.ones((self.width, 1) if keepdims else self.width), self.dtype)
        return self.graph.value("MatMul", self, ones, dtype=self.dtype, width=int(keepdims))

    def all(self, axis: int, keepdims: bool = True) -> Value:
        """Tell of each row whether all of its flags are set."""
        return self.astype(np.int32).reduced("ReduceMin").astype(np.bool_)

    def reduced(self, operator: str, axis: int = 1, keepdims: bool = True) -> Value:
        """Return one number per row."""
        axes = self.graph.constant([axis], np.int64)
        return self.graph.value(operator, self, axes, keepdims=int(keepdims), dtype=self.dtype, width=1)


def _is(value: Any, number: float) -> bool:
    return isinstance(value, float) and value == number


def _width_of(constant: Any) -> int:
    return int(np.shape(constant)[-1]) if np.ndim(constant) else 0


def where(condition: Any, then: Any, otherwise: Any) -> Any:
    """Choose label by label."""
    values = [value for value in (condition, then, otherwise) if isinstance(value, Value)]
    if not values:
        return np.where(condition, then, otherwise)
    graph, dtype = values[0].graph, next(v.dtype for v in reversed(values))
    dtype = _DOUBLE if dtype == np.bool_ else dtype
    kinds = zip((condition, then, otherwise), (np.bool_, dtype, dtype), strict=True)
    named = [value if isinstance(value, Value) else graph.constant(value, kind) for value, kind in kinds]
    return graph.value("Where", *named, dtype=dtype, width=max(_columns(v) for v in (condition, then, otherwise)))


def _columns(value: Any) -> int:
    return value.width if isinstance(value, Value) else _width_of(value)


def _root(values: Value) -> Value:
    return values.graph.value("Sqrt", values, dtype=values.dtype, width=values.width)


def _highest(values: Value, axis: int, keepdims: bool) -> Value:
    return values.reduced("ReduceMax", axis, keepdims)


def nearest(values: Value) -> Value:
    """Round to the nearest whole number, halves to the even one."""
    return values.graph.value("Round", values, dtype=values.dtype, width=values.width)


_LOWEST_POWER = -1022  # of two that a normal number has; the exponential stays above


def _power_of_two(twos: Value) -> Value:
    place = (twos - float(_LOWEST_POWER)).astype(np.int64)
    return looked_up(2.0 ** np.arange(_LOWEST_POWER, 1), place)


def _product(one: Any, other: Any) -> Any:
    return one * other


def _step(value: Value, term: float, x: Value) -> Any:
    return (value + term) * x


ONNX = Operations(where, _root, _product, _highest, nearest, _power_of_two, _step)


def any_of(flags: Value) -> Value:
    """Tell whether any flag of the batch is set."""
    graph = flags.graph
    if graph.opset >= _REDUCES_FLAGS:
        return graph.value("ReduceMax", flags, dtype=np.bool_, keepdims=0)
    return graph.value("ReduceMax", flags.astype(np.int32), dtype=np.int32, keepdims=0).astype(np.bool_)


def looked_up(table: NDArray[Any], place: Value, axis: int = 0) -> Value:
    """Return the entries of a table at places that are within it."""
    graph = place.graph
    constant = graph.constant(table, table.dtype)
    if table.ndim == 1 and place.width > WIDE:  # GatherElements is the faster one, and takes one axis from one
        flat = graph.add("Reshape", place, graph.constant([-1], np.int64))
        entries = graph.add("GatherElements", constant, flat, axis=0)
        shape = graph.constant([-1, place.width], np.int64)
        return graph.value("Reshape", entries, shape, dtype=table.dtype, width=place.width)
    return graph.value("Gather", constant, place, axis=axis, dtype=table.dtype, width=place.width)


class _Scales(NamedTuple):
    """What brings a float64 to a whole number of 53 or 54 bits, in two steps that are exact, by its exponent or one
    less; entries of negative exponents stand at the end, where a negative index finds them.
    """

    first: NDArray[np.float64]
    second: NDArray[np.float64]
    exponents: NDArray[np.uint64]


_LOWEST, _HIGHEST = -1021, 1023  # logarithms to the base of two, cut off towards 0


def _scales() -> _Scales:
    place = np.concatenate([np.arange(_HIGHEST + 1), np.arange(_LOWEST, 0)]) - _LOWEST
    power = 1074.0 - place
    return _Scales(2.0 ** (power // 2), 2.0 ** (power - power // 2), place.astype(np.uint64) << np.uint64(52))


_PER_LOG = 1.4426950408889634 * (1.0 + 1e-12)  # far above the error of any logarithm: the guess is not too high


def words_of(values: Value) -> Value:
    """Return the bits of float64 values that are finite and not below 0 (-0.0 gives those of 0); of infinity, any.

    Without BitCast the exponent is guessed by a logarithm, which need not be exact: a guess that is one too low
    gives a whole number n of one bit more, and n or n / 2 + 2^52 are the lower bits, whichever is less.
    """
    graph = values.graph
    if graph.opset >= BITCAST:
        return graph.value("BitCast", abs(values), to=type_code(np.uint64), dtype=np.uint64, width=values.width)
    logarithm = graph.value("Log", values, dtype=_DOUBLE, width=values.width) * _PER_LOG
    bounds = [graph.constant(float(bound), _DOUBLE) for bound in (_LOWEST, _HIGHEST)]  # an infinite row is bad
    guess = graph.value("Clip", logarithm, *bounds, dtype=_DOUBLE, width=values.width).astype(np.int64)
    scales = _scales()
    scaled = (values * looked_up(scales.first, guess)) * looked_up(scales.second, guess)
    whole = scaled.astype(np.uint64)
    lower = whole._with("Min", (whole >> np.uint64(1)) + np.uint64(2**52))
    words: Value = lower + looked_up(scales.exponents, guess)
    return words


_NAN, _INFINITY, _SIGN = 0x7FF8000000000000, 0x7FF0000000000000, 2**63
_LARGEST = float(np.finfo(np.float64).max)


def canonical_words(values: Value) -> Value:
    """Return the bits of any float64 values, with one zero and one NaN (:func:`aptset.kernels.rowhash`)."""
    graph, size = values.graph, abs(values)
    words = words_of(where(size <= _LARGEST, size, 0.0))
    is_nan = graph.value("IsNaN", values, dtype=np.bool_, width=values.width)
    for flags, word in ((is_nan, _NAN), (size > _LARGEST, _INFINITY), (values < 0.0, _SIGN)):
        words = words + flags.astype(np.uint64) * np.uint64(word)
    return words


_LOW_BITS = np.uint64(2**52 - 1)


def floats_of(words: Value) -> Value:
    """Return the float64 values, not below 0, that have these bits."""
    exponent = (words >> np.uint64(52)).astype(np.int64)
    implied = np.where(np.arange(2047) > 0, 2**52, 0).astype(np.uint64)
    whole = ((words & _LOW_BITS) + looked_up(implied, exponent)).astype(np.float64)
    values: Value = whole * looked_up(2.0 ** (np.maximum(np.arange(2047), 1.0) - 1075.0), exponent)
    return values
