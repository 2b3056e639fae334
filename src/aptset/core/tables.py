"""Data frames of any library, in and out, through narwhals (imported when a frame comes by); tables for notebooks, and
figures that give back their table: matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.validate import install
from aptset.kernels.blocks import over_blocks, over_numbers
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import pointers_of

Backend = Literal["pandas", "polars", "pyarrow"]
_AT_ONCE = 2**15


def is_table(values: Any) -> bool:
    """Tell whether something is a data frame rather than an array or a nested list."""
    return hasattr(values, "columns") and hasattr(values, "shape")


def library_of(rows: Any) -> Backend | None:
    """Return the library of a data frame; None for what is none of those that frames are made in."""
    names: dict[str, Backend] = {"pandas": "pandas", "polars": "polars", "pyarrow": "pyarrow"}
    name = names.get(type(rows).__module__.split(".")[0])
    return "pandas" if name is None and hasattr(rows, "iloc") else name if is_table(rows) else None


def names_of_columns(frame: Any) -> list[Any]:
    """Return the names of the columns; pandas allows names that are not strings: they may be the user's labels."""
    return list(getattr(frame, "column_names", frame.columns))  # pyarrow's `columns` are the columns themselves


def iterate_columns(frame: Any) -> Iterator[NDArray[Any] | list[Any]]:
    """Yield each column: numbers as an array (missing ones NaN), anything else as a list of Python values."""
    import narwhals.stable.v2 as nw

    if hasattr(frame, "iloc"):  # by position: names may be there twice
        columns: Any = (nw.from_native(frame.iloc[:, j], series_only=True) for j in range(frame.shape[1]))
    else:
        if hasattr(frame, "to_struct_array") and not hasattr(frame, "combine_chunks"):  # a record batch of pyarrow
            import pyarrow as pa

            frame = pa.Table.from_batches([frame])
        columns = nw.from_native(frame, eager_only=True).iter_columns()
    for column in columns:
        is_number = column.dtype.is_numeric() or column.dtype == nw.Boolean
        values = column.to_numpy() if is_number else None
        if values is not None and values.dtype == object:  # nullable numbers and booleans
            numbers, is_there = np.full(len(values), np.nan), ~column.is_null().to_numpy()
            numbers[is_there] = values[is_there].astype(np.float64)
            values = numbers
        yield column.to_list() if values is None else values


def matrix_of_table(frame: Any) -> tuple[NDArray[Any] | None, Any]:
    """Return a frame of numbers as a matrix, or None and the name of the first column that holds something else."""
    names, columns = names_of_columns(frame), []
    if hasattr(frame, "iloc") and all(getattr(kind, "kind", "O") in "fiub" for kind in frame.dtypes):
        matrix: NDArray[Any] = frame.to_numpy()
        if matrix.dtype.kind in "fiub":
            return matrix, None
    for name, column in zip(names, iterate_columns(frame), strict=True):
        if not isinstance(column, np.ndarray):
            return None, name
        columns.append(column)
    return np.column_stack(columns) if columns else np.empty(frame.shape), None


def make_table(columns: dict[Any, Any], backend: Backend, row_names: Any = None) -> Any:
    """Return a data frame of the named library (pandas, polars, pyarrow) from columns; pandas names its rows, too."""
    need(backend, "a data frame")
    if backend == "pandas":
        import pandas as pd

        return pd.DataFrame(columns, index=row_names)
    import narwhals.stable.v2 as nw

    return nw.from_dict(columns, backend=backend).to_native()


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Make many objects that all stay: looking through them for garbage again and again takes most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Lists(NamedTuple):
    """A column of lists, compressed: row i holds ``names[k]`` for k in ``positions[pointers[i]:pointers[i + 1]]``."""

    pointers: NDArray[np.int64]
    positions: NDArray[np.int32]
    names: NDArray[Any]

    def as_lists(self) -> list[list[Any]]:
        """Return a Python list per row."""
        members = self.names[self.positions].tolist()
        with _nothing_collected():
            return [members[start:stop] for start, stop in pairwise(self.pointers.tolist())]

    def as_arrow(self) -> Any:
        """Return an Arrow array of lists, which makes no Python object per row; None if Arrow has no type for them."""
        import pyarrow as pa

        try:
            members = pa.array(self.names.tolist()).take(pa.array(self.positions))
        except pa.ArrowException:  # labels of several kinds
            return None
        is_short = self.pointers[-1] < 2**31
        kind = pa.ListArray if is_short else pa.LargeListArray
        return kind.from_arrays(pa.array(self.pointers, type=pa.int32() if is_short else pa.int64()), members)


def make_table_with_lists(
    columns: dict[str, Any], name: str, lists: Lists, backend: Backend, row_names: Any = None
) -> Any:
    """Return a data frame of the named library from columns and one column of lists; pandas names its rows, too."""
    need(backend, "a data frame")
    arrow = lists.as_arrow() if backend != "pandas" and find_spec("pyarrow") is not None else None
    if arrow is None:
        return make_table({**columns, name: lists.as_lists()}, backend, row_names)
    import pyarrow as pa

    table = pa.table({**columns, name: arrow})
    if backend == "pyarrow":
        return table
    import polars as pl

    return pl.from_arrow(table)


def column_values(frame: Any, name: Any) -> list[Any] | None:
    """Return one column of a data frame, or None if there is none of that name."""
    if name not in names_of_columns(frame):
        return None
    if hasattr(frame, "iloc"):
        return plain_list(frame.iloc[:, names_of_columns(frame).index(name)])
    import narwhals.stable.v2 as nw

    return list(nw.from_native(frame, eager_only=True)[name].to_list())


def without_column(frame: Any, name: Any) -> Any:
    """Return a data frame without one of its columns."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, [k for k, other in enumerate(names_of_columns(frame)) if other != name]]
    import narwhals.stable.v2 as nw

    return nw.from_native(frame, eager_only=True).drop(name).to_native()


def read_lists(
    column: Any,
    numbers_of: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    at_once: Callable[[NDArray[Any]], NDArray[Any] | None] | None = None,
) -> Lists | None:
    """Return a column of lists of texts or whole numbers, of polars or pyarrow; None for any other.

    Positions are those in the names of the lists, or what ``numbers_of`` says of each name. Whole numbers may all be
    positions by themselves: ``at_once`` then returns them, and no name is left to look up.
    """
    arrow = column.to_arrow() if hasattr(column, "to_arrow") else column
    if hasattr(arrow, "combine_chunks"):
        arrow = arrow.chunk(0) if arrow.num_chunks == 1 else arrow.combine_chunks()  # which copies a single one, too
    if not hasattr(arrow, "value_lengths") or arrow.null_count:
        return None
    import pyarrow as pa  # which made the column

    members = arrow.flatten()
    is_plain = pa.types.is_integer(members.type) or str(members.type) in ("string", "large_string")
    if not is_plain or members.null_count:
        return None
    if at_once is not None and pa.types.is_integer(members.type):
        known = at_once(members.to_numpy(zero_copy_only=False))
        if known is not None:
            return Lists(_pointers_of_arrow(arrow), known, np.empty(0, dtype=object))
    pieces = over_numbers(len(members), lambda start, stop: members[start:stop].dictionary_encode())
    numbers: dict[Any, int] = {}  # in order of first appearance
    tables = [[numbers.setdefault(value, len(numbers)) for value in piece.dictionary.to_pylist()] for piece in pieces]
    names, positions = np.empty(len(numbers), dtype=object), np.empty(len(members), dtype=np.int32)
    names[:] = list(numbers)
    position = (np.arange(len(names)) if numbers_of is None else numbers_of(names)).astype(np.int32)
    stops = np.cumsum([len(piece) for piece in pieces]).tolist()

    def renumber(which: int, _: int) -> None:
        codes, table = pieces[which].indices.to_numpy(zero_copy_only=False), position[tables[which]]
        to = positions[stops[which] - len(codes) : stops[which]]
        for start in range(0, len(codes), _AT_ONCE):  # few enough to stay in the cache
            to[start : start + _AT_ONCE] = table[codes[start : start + _AT_ONCE]]

    over_blocks(len(pieces), 1, renumber)
    return Lists(_pointers_of_arrow(arrow), positions, names)


def _pointers_of_arrow(lists: Any) -> NDArray[np.int64]:
    """Return where each list starts, and where the last one ends."""
    import pyarrow as pa

    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        return pointers_of(lists.value_lengths().to_numpy(zero_copy_only=False))
    offsets = lists.offsets.to_numpy(zero_copy_only=False)
    pointers = np.empty(len(offsets), dtype=np.int64)

    def work(start: int, stop: int) -> None:
        np.subtract(offsets[start:stop], offsets[0], out=pointers[start:stop], dtype=np.int64)

    over_numbers(len(offsets), work)
    return pointers


def plain_list(values: Any) -> list[Any]:
    """Return the values of an array or a column of any library as a list of Python values."""
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


EXTRAS = {"pandas": "frames", "pyarrow": "cli", "matplotlib": "plots"}


def need(package: str, purpose: str) -> None:
    """Refuse what a package is missing for, with the words that install it."""
    if find_spec(package) is None:
        how = install(EXTRAS[package]) if package in EXTRAS else f"pip install {package}"
        raise ModuleNotFoundError(f"{purpose} of {package} needs {package}: {how}")


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()) -> str:
    """Return a heading, a table, and a paragraph for each note."""
    from html import escape  # here, since it is slow to import

    cells = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    below = "".join(html_note(note) for note in notes if note)
    return f"<div><p><b>{escape(title)}</b></p><table>{top}<tbody>{cells}</tbody></table>{below}</div>"


def html_note(text: str) -> str:
    """Return a paragraph."""
    from html import escape

    return f"<p>{escape(text)}</p>"


@dataclass(frozen=True)
class Display:
    """A small figure and the numbers in it.

    Attributes
    ----------
    columns : dict
        The table: the first column is drawn along x, the second along y; ``low`` and ``high``, if there, are intervals.
    kind : {"line", "bar"}
        How it is drawn.
    marks : sequence of float
        Reference values, drawn as lines: along x for a line, along y for bars.
    diagonal : sequence of float
        Where a line is compared with y = x; empty for no such comparison.
    points : str
        A column that is drawn as points beside bars; empty for none.
    """

    columns: dict[str, Any]
    kind: Literal["line", "bar"]
    title: str
    x_label: str
    y_label: str
    marks: Sequence[float] = field(default_factory=tuple)
    diagonal: Sequence[float] = field(default_factory=tuple)
    points: str = ""

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a data frame."""
        return make_table(dict(self.columns), backend)

    def _repr_png_(self) -> bytes | None:
        """Return the picture for notebooks; nothing without matplotlib."""
        if find_spec("matplotlib") is None:
            return None
        from io import BytesIO

        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure, picture = Figure(figsize=(6, 3.5), layout="constrained"), BytesIO()
        FigureCanvasAgg(figure)  # a figure of its own: nothing is left open, and nothing is shown twice
        self.draw(figure.add_subplot())
        figure.savefig(picture, format="png", dpi=110)
        return picture.getvalue()

    def _repr_html_(self) -> str | None:
        """Return the table, where there is no matplotlib to draw it."""
        if find_spec("matplotlib") is not None:
            return None
        return html_table(self.title, list(self.columns), zip(*self.columns.values(), strict=True))

    def draw(self, ax: Any = None) -> Any:
        """Draw into matplotlib axes (new ones by default) and return them."""
        if ax is None:
            need("matplotlib", "a figure")
            import matplotlib.pyplot as plt

            ax = plt.figure(figsize=(6, 3.5), layout="constrained").add_subplot()
        names = list(self.columns)
        x, y = self.columns[names[0]], np.asarray(self.columns[names[1]], dtype=np.float64)
        (self._draw_line if self.kind == "line" else self._draw_bars)(ax, x, y)
        ax.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label)
        return ax

    def _draw_line(self, ax: Any, x: Any, y: Floats) -> None:
        if "low" in self.columns:
            ax.fill_between(x, self.columns["low"], self.columns["high"], alpha=0.2, linewidth=0)
        if len(self.diagonal):
            ax.plot(self.diagonal, self.diagonal, color="0.5", linestyle="--", linewidth=1)
        ax.plot(x, y)
        for mark in self.marks:
            ax.axvline(mark, color="0.5", linestyle="--", linewidth=1)

    def _draw_bars(self, ax: Any, x: Any, y: Floats) -> None:
        positions = np.arange(len(y))
        error = None
        if "low" in self.columns:
            ends = [y - np.asarray(self.columns["low"]), np.asarray(self.columns["high"]) - y]
            error = np.clip(np.stack(ends), 0.0, None)
        ax.bar(positions, y, yerr=error, capsize=3, label=self.y_label)
        if self.points:
            ax.plot(positions, self.columns[self.points], "o", color="black", label=self.points)
            ax.legend()
        ax.set_xticks(positions, [str(value) for value in x])
        for mark in self.marks:
            ax.axhline(mark, color="0.5", linestyle="--", linewidth=1)


def bars_of(values: dict[Any, Any], what: str, by: str, marks: Sequence[float] = ()) -> Display:
    """Return a bar with an interval for each of some estimates, by label, group or size."""
    columns: dict[str, Any] = {by: drawable(list(values)), what: [float(value) for value in values.values()]}
    for name in ("low", "high", "n"):
        columns[name] = [getattr(value, name) for value in values.values()]
    return Display(columns, "bar", f"{what.capitalize()} by {by}", by, what, marks)


def drawable(keys: list[Any]) -> list[Any]:
    """Return keys of one kind: as they are, or as texts where kinds are mixed or missing."""
    return keys if len({type(key) for key in keys}) <= 1 and None not in keys else [str(key) for key in keys]
