"""Rules of acceptance and their thresholds on disk: containers of ``core.store``.

Kind "acceptance" has the rows, most confident first: ``confidence`` and ``u`` (float64), ``wrong`` (bool) and ``cells``
(int32), the number of each row's guess or group. Kind "acceptance_threshold" has the thresholds of the groups that have
one: ``value`` and ``u`` (float64), and ``counts`` (int64): the cell (-1 for all rows), rows above it, rows, wrong ones.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, get_args

import numpy as np

from aptset.calibration.acceptance_rows import CONFIDENCES, OWN, By, Reading
from aptset.calibration.acceptance_threshold import ALL, AcceptanceThreshold, Level
from aptset.calibration.storage import chance_facts
from aptset.calibration.stored_fields import COMMON
from aptset.core import store
from aptset.core.groups import EVERYONE, Groups
from aptset.core.labels import hashable
from aptset.core.randomization import Randomization

_READING = {
    **store.ORIGIN,
    "confidence": store.Field(str, "its confidence must be a known one", lambda name: name in (*CONFIDENCES, OWN)),
    "classes": store.Field(dict | None),
    "columns": store.Field(dict | None),
    "by": store.Field(str, "its rows must go by guess, by group or by none", lambda by: by in get_args(By)),
    "names": store.Field(list, "its groups must have names", lambda names: len(names) > 0),
    "normalize": store.Field(bool),
    "key": store.Field(str, "its key must be a number of 64 bits", store.are_words),
    "u": COMMON["u"],
    "randomized": store.Field(bool, "its u must be random", lambda value: value),
    "copies": store.Field(float, "its share of copies must be in [0, 1]", lambda copies: 0 <= copies <= 1),
}


def _row_rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    c, u, cells = tensors["confidence"], tensors["u"], tensors.get("cells")
    falls = (c[1:] < c[:-1]) | ((c[1:] == c[:-1]) & (u[1:] <= u[:-1]))
    return {
        "it must have at least one row": lambda: len(c) > 0,
        "its confidences must be finite": lambda: np.isfinite(c).all(),
        "its u must be in [0, 1]": lambda: ((u >= 0) & (u <= 1)).all(),
        "its rows must come in the order of confidence and u": lambda: falls.all(),
        "its rows must have a group where they go by one": lambda: (cells is None) == (facts["by"] == "none"),
        "its groups must be among its names": lambda: (
            cells is None or ((cells >= 0) & (cells < len(facts["names"]))).all()
        ),
    }


def _level_rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    (cells, rows, n, wrong), u = tensors["counts"].T, tensors["u"]
    errors = [store.stored_fraction(error) for error in facts["errors"]]
    is_none = cells.tolist() == [-1]
    named = (cells >= 0).all() and (cells < len(facts["names"])).all() and len(set(cells.tolist())) == len(cells)
    return {
        "it must have an error in (0, 1) for each threshold": lambda: (
            len(errors) == len(cells) > 0 and all(0 < error < 1 for error in errors)
        ),
        "its thresholds must be of its groups": lambda: is_none or (facts["by"] != "none" and named),
        "its thresholds must not be missing": lambda: not np.isnan(tensors["value"]).any(),
        "its u must be in [0, 1]": lambda: ((u >= 0) & (u <= 1)).all(),
        "its rows must be counts": lambda: ((wrong >= 0) & (wrong <= rows) & (rows <= n) & (n < 2**53)).all(),
        "its reasons must be a text for each": lambda: (
            len(facts["reasons"]) == len(cells) and all(isinstance(one, str) for one in facts["reasons"])
        ),
    }


_PARTS = store.Field(
    list, "its parts must be numbers of 64 bits", lambda words: len(words) > 0 and store.are_words(*words)
)
_ASSURANCE = store.Field(float, "its assurance must be in (0, 1)", lambda value: 0 < value < 1)
SCHEMAS = {
    "acceptance": store.Schema(
        {**_READING, "parts": _PARTS},
        {
            "confidence": store.Tensor("F64", ("rows",)),
            "u": store.Tensor("F64", ("rows",)),
            "wrong": store.Tensor("BOOL", ("rows",)),
            "cells": store.Tensor("I32", ("rows",), optional=True),
        },
        rules=_row_rules,
    ),
    "acceptance_threshold": store.Schema(
        {
            **_READING,
            "assurance": _ASSURANCE,
            "all_at_once": store.Field(bool),
            "errors": store.Field(list),
            "reasons": store.Field(list),
        },
        {
            "value": store.Tensor("F64", ("groups",)),
            "u": store.Tensor("F64", ("groups",)),
            "counts": store.Tensor("I64", ("groups", "numbers")),
        },
        sizes=lambda facts, names: {"numbers": 4},
        rules=_level_rules,
    ),
}
STORE = store.Store(SCHEMAS, "kind of acceptance", "Make it again with `aptset calibrate --accept` or save().")


def write_acceptance(path: str | Path, rule: Any) -> None:
    """Write the rows of a rule."""
    tensors = {"confidence": rule.confidences, "u": rule.u, "wrong": rule.is_wrong}
    of_cells = {} if rule.cells is None else {"cells": rule.cells}
    facts = {**_reading_facts(rule.reading), "parts": [str(part) for part in rule.parts]}
    store.write(path, "acceptance", facts, {**tensors, **of_cells})


def write_threshold(path: str | Path, threshold: AcceptanceThreshold) -> None:
    """Write the thresholds of a rule."""
    names, levels = threshold.reading.groups.names, threshold.levels
    numbers = [-1] if threshold.is_one else [names.index(group) for group in levels]
    counts = [[cell, at.rows, at.n, at.n_wrong] for cell, at in zip(numbers, levels.values(), strict=True)]
    facts = {
        **_reading_facts(threshold.reading),
        "assurance": threshold.assurance,
        "all_at_once": threshold.all_at_once,
        "errors": [f"{at.error.numerator}/{at.error.denominator}" for at in levels.values()],
        "reasons": [at.reason for at in levels.values()],
    }
    tensors = {
        "value": np.array([at.value for at in levels.values()]),
        "u": np.array([at.u for at in levels.values()]),
        "counts": np.array(counts, dtype=np.int64),
    }
    store.write(path, "acceptance_threshold", facts, tensors)


def stored_levels(facts: store.Facts, tensors: store.Tensors) -> dict[Any, Level]:
    """Return the threshold of each group that has one, or the one of all rows."""
    levels = {}
    columns = (tensors[name].tolist() for name in ("counts", "value", "u"))
    every = zip(*columns, facts["errors"], facts["reasons"], strict=True)
    for (cell, rows_above, n, wrong), value, u, error, reason in every:
        group = ALL if cell < 0 else hashable(facts["names"][cell])
        levels[group] = Level(value, u, rows_above, n, wrong, Fraction(error), reason, value == inf)
    return levels


def _reading_facts(reading: Reading) -> store.Facts:
    """Return how rows are read, as plain values; a function is not saved."""

    def labels(values: Any) -> store.Facts | None:
        return None if values is None else store.storable_labels(values)

    return {
        "confidence": reading.confidence if isinstance(reading.confidence, str) else OWN,
        "classes": labels(reading.classes),
        "columns": labels(reading.columns),
        "by": reading.by,
        "names": [store.storable_value(name) for name in reading.groups.names],
        "normalize": reading.normalize,
        "key": str(reading.key),
        **chance_facts(reading.chance),
        **store.origin(),
    }


def read_reading(path: str | Path, facts: store.Facts) -> Reading:
    """Return how rows are read; refuse columns and names that no rule has."""
    classes, columns = (
        None if facts[name] is None else store.check_stored_labels(path, facts[name], name)
        for name in ("classes", "columns")
    )
    if columns is not None and (classes is None or len(columns) != len(classes)):
        raise store.damaged(path, "it must have one column for each of its classes")
    store.check_stored_values(path, facts["names"], "groups")
    groups = EVERYONE if facts["by"] == "none" else Groups("row", tuple(map(hashable, facts["names"])))
    chance = Randomization(facts["u"], True, float(facts["copies"]))
    of_rows = (groups, facts["by"], facts["normalize"], int(facts["key"]), chance)
    return Reading(facts["confidence"], classes, columns, *of_rows)
