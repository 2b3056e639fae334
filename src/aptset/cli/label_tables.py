"""Small files about labels: which band each is in, and how many training rows it has; and what options make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from aptset import LabelBands, Ordered, Prevalence, Taxonomy
from aptset.arrow.layout import as_texts
from aptset.cli.checks import check_columns
from aptset.cli.inputs import open_table, path_of
from aptset.scores import Score
from aptset.scores.conformity import BY_ORDER

_BY_PREVALENCE = ("pas", "prevalence")


def label_settings(options: dict[str, Any], quiet: bool, rows: int | None = None) -> tuple[str | Score, Any]:
    """Take --bands, --counts and --order out of the options; return the score and the bands that they stand for.

    ``rows`` is how many rows calibrate, where that is known.
    """
    bands, counts, conformity = options.pop("bands"), options.pop("counts"), options["conformity"]
    order = options.pop("order")
    is_number = bands is not None and bands.isdecimal()
    is_prevalent = conformity in _BY_PREVALENCE
    if bands is not None and options["groups"] is not None:
        raise click.UsageError("--bands and --groups cannot both be given: rows are grouped in one way.")
    if counts is None and (is_number or is_prevalent):
        what = f"--conformity {conformity}" if is_prevalent else f"--bands {bands}"
        raise click.UsageError(f"{what} needs --counts FILE, with the number of training rows of each label.")
    if counts is not None and not (is_number or is_prevalent):
        raise click.UsageError("--counts is for --conformity prevalence, or for --bands NUMBER.")
    times = None if counts is None else _whole_numbers(counts, read_labels(counts, quiet))
    if order is not None and conformity not in BY_ORDER:
        raise click.UsageError("--order is for --conformity ordered and --conformity central.")
    if order is not None:
        conformity = Ordered(BY_ORDER[conformity], [label.strip() for label in order.split(",")])
    score = Prevalence(times) if is_prevalent and times is not None else conformity
    if is_number and times is not None:
        return score, LabelBands.by_prevalence(times, int(bands), n_calibration=rows)
    return score, None if bands is None else LabelBands(read_labels(bands, quiet))


def read_taxonomy(name: str, quiet: bool) -> Taxonomy:
    """Return the tree of a file: an object of JSON, a table of labels and parents, or a column of paths."""
    if name.lower().endswith(".json"):
        return Taxonomy(_of_json(name, path_of(name)))
    file = open_table(name, None, None, quiet)
    names = file.table().column_names
    fits = len(names) in (1, 2)
    check_columns(file.path, fits, "two columns, labels and the parent of each, or one of paths such as a/b/c", names)
    columns = {column: as_texts(file.table(names)[column]) for column in names}
    return Taxonomy.from_paths(columns[names[0]]) if len(names) == 1 else Taxonomy.from_table(columns)


def read_labels(name: str, quiet: bool) -> dict[str, str]:
    """Return what a file says of each label: an object of JSON, or a table of two columns, the label first."""
    if name.lower().endswith(".json"):
        return _of_json(name, path_of(name))
    file = open_table(name, None, None, quiet)
    names = file.table().column_names
    check_columns(file.path, len(names) == 2, "two columns, labels and what belongs to each", names)
    table = file.table(names)
    labels, values = (as_texts(table[column]) for column in names)
    if None in labels or None in values or len(set(labels)) != len(labels):
        raise ValueError(f"{name} must have each label once, and a value for each.")
    return {str(label): str(value) for label, value in zip(labels, values, strict=True)}


def _of_json(name: str, path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {error}.") from error
    if not isinstance(content, dict) or not all(type(value) in (str, int) for value in content.values()):
        raise ValueError(
            f'{name} must be an object of JSON with a text or a whole number for each label: {{"cat": 12}}.'
        )
    return {label: str(value) for label, value in content.items()}


def _whole_numbers(name: str, table: dict[str, str]) -> dict[str, int]:
    wrong = next((label for label, value in table.items() if not (value.isascii() and value.isdigit())), None)
    if wrong is not None:
        raise ValueError(f"{name} must have whole numbers of training rows; got {table[wrong]!r} for {wrong!r}.")
    return {label: int(value) for label, value in table.items()}
