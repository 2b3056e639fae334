"""What batches, their columns and their rows must be; errors name the partition and the row in it, once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import as_objects, some

_WAYS = (
    "Pass a table or a frame with __arrow_c_stream__ (pyarrow, polars, duckdb, daft, pandas), an iterator of record "
    "batches, or a function that returns one of them."
)


def check_source(batches: Any) -> None:
    """Refuse what holds no batches."""
    is_known = callable(batches) or hasattr(batches, "__arrow_c_stream__") or hasattr(batches, "__arrow_c_array__")
    is_plain = isinstance(batches, str | bytes | dict) or not hasattr(batches, "__iter__")
    if not is_known and is_plain:
        raise TypeError(f"batches must be record batches of Arrow; got {type(batches).__name__}. {_WAYS}")


def check_batch(batch: Any, number: int) -> None:
    """Refuse what comes in the place of a batch."""
    if not hasattr(batch, "__arrow_c_stream__") and not hasattr(batch, "__arrow_c_array__"):
        raise TypeError(
            f"batches must hold record batches; got {type(batch).__name__} as number {number}. {_WAYS} Arrays go to "
            "aptset.calibrate."
        )


def check_same_schema(first: Any, schema: Any, number: int) -> None:
    """Refuse batches with other columns than the first one."""
    if not schema.equals(first):
        before, now = (
            dict(zip(first.names, first.types, strict=True)),
            dict(zip(schema.names, schema.types, strict=True)),
        )
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        nulls = [old.name for old, new in zip(first, schema, strict=False) if old.nullable != new.nullable]
        is_mixed = schema.names != first.names or not nulls
        other = "columns stand in another order" if is_mixed else f"column {nulls[0]!r} may have nulls or may not"
        what = f"column {names[0]!r} is {now.get(names[0], 'missing')}" if names else other
        was = f", it was {before.get(names[0], 'missing')}" if names else ""
        raise ValueError(f"batches must have one schema; in batch {number} {what}{was}. Cast the batches first.")


def check_first_batch(first: Any) -> Any:
    """Return the first batch, which tells the columns; it may be without rows."""
    if first is None:
        raise ValueError(
            "batches must hold at least one batch, which may be empty, since it names the columns; got none."
        )
    return first


def refuse_second_look() -> NoReturn:
    """Say that an iterator is used up, and what to do."""
    raise ValueError(
        "batches must be readable more than once, since there are too many different scores to keep in "
        "memory; got an iterator or a reader, which can be read once. Pass a table, a list, or a function "
        "that returns the batches anew; or resolution=2**-20, which takes one pass; or more buckets=..., "
        "which takes memory."
    )


def check_column(names: Sequence[str], name: Any, argument: str) -> str:
    """Return the name of a column that must be there."""
    if not isinstance(name, str) or name not in names:
        shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        raise ValueError(f"{argument} must name a column of the batches; got {name!r}. The columns are {shown}.")
    return name


def check_free_column(name: str, taken: set[str]) -> None:
    """Refuse a column of probabilities that is something else as well."""
    if name in taken:
        raise ValueError(f"probabilities must not be labels, groups or ids as well; got {name!r}. Leave it out.")


def check_distinct_names(names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    twice = sorted({name for name in names if list(names).count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"batches must have distinct column names; more than once: {twice[:4]}. Rename one of each.")


def check_class_columns(columns: Sequence[str], names: Sequence[str], how: str) -> None:
    """Refuse too few columns of probabilities."""
    if len(columns) < 2:
        shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        raise ValueError(
            f"batches must have at least 2 columns of probabilities, {how}; found {list(columns)} among {shown}. Pass "
            "probabilities=... (the columns, or the one column of lists) or prefix=...."
        )


def refuse_unknown_width(name: str) -> NoReturn:
    """Say that nothing tells how many classes there are."""
    raise ValueError(
        f"classes must be passed with the list column {name!r}: there is no row that tells how many there are. Pass "
        "classes=[...], or classes=range(10) for numbers."
    )


def check_width(name: str, width: int, wanted: int) -> None:
    """Refuse lists of another length than the calibration has classes."""
    if width != wanted:
        raise ValueError(
            f"column {name!r} must hold lists with one probability for each of the {wanted} classes of the "
            f"calibration; they have {width}."
        )


def refuse_kind(name: str, kind: Any, what: str) -> NoReturn:
    """Say what a column must hold."""
    raise TypeError(f"column {name!r} must hold {what}; it holds {kind}.")


def check_classes_known(known: Sequence[Any], wanted: Sequence[Any]) -> list[int]:
    """Return where each class of a calibration is among the columns of the batches."""
    where = {name: column for column, name in enumerate(known)}
    texts = {str(name): column for name, column in where.items()}
    places = [where.get(name, texts.get(str(name), -1)) for name in wanted]
    if len(known) != len(wanted) or -1 in places:
        missing = [name for name, place in zip(wanted, places, strict=True) if place < 0]
        extra = sorted(texts.keys() - {str(name) for name in wanted})
        raise ValueError(
            f"batches must have probabilities for each class of the calibration; missing {missing[:6]}, unknown "
            f"{extra[:6]}. Rename the columns, or pass prefix=... or probabilities=..."
        )
    return places


def check_lists(name: str, missing: NDArray[np.bool_], lengths: NDArray[np.int64], width: int) -> None:
    """Refuse rows without a list, and lists of another length than there are classes."""
    if missing.any():
        raise ValueError(f"row {int(np.argmax(missing))}, column {name!r}: the probabilities are missing.")
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise ValueError(
            f"row {row}, column {name!r}: a list must have one probability for each of the {width} classes; it has "
            f"{int(lengths[row])}."
        )


def check_label_numbers(columns: NDArray[np.int64], values: Sequence[Any], name: str, classes: Sequence[Any]) -> None:
    """Refuse labels that are missing (-2) or no class (-1); ``values`` gives the label of a row."""
    if (columns >= 0).all():
        return
    row = int(np.argmax(columns < 0))
    what = "is missing" if columns[row] == -2 else f"is {values[row]!r}, which is no class"
    raise ValueError(
        f"row {row}, column {name!r}: the label {what}. The classes are {some(as_objects(list(classes)))}; if they are "
        "called otherwise, pass classes=...."
    )


def check_room(added: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns that would stand there twice."""
    taken = sorted(set(added) & set(names))
    if taken:
        raise ValueError(
            f"batches must have room for the columns {', '.join(added)}; they have {taken} already. Rename."
        )


@contextmanager
def rows_of(partition: int | None, start: int) -> Iterator[None]:
    """Name the partition, and count rows from its beginning instead of the piece's."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = re.sub(r"\brow (\d+)", lambda match: f"row {int(match[1]) + start}", str(error), count=1)
        kind = TypeError if isinstance(error, TypeError) else ValueError  # kinds of their own may not take a text alone
        raise kind(text if partition is None else f"partition {partition}: {text}") from None  # said once
