"""What is known of a row beside its label: its group, its cluster, and the answers of several annotators about it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import is_on_device, is_tensor, on_host
from aptset.core.groupings import check_cells
from aptset.core.groups import (
    GROUPINGS,
    Cells,
    Groups,
    GroupValues,
    groups_labels,
    groups_overlap,
    is_grouping,
    is_pair,
)
from aptset.core.labels import (
    Coded,
    as_objects,
    check_length,
    coded_array,
    coded_list,
    columns_of,
    hashable,
    refuse_masked,
    some,
)
from aptset.core.randomization import check_ids, column_or_values
from aptset.core.row_seeds import id_seeds
from aptset.core.tables import column_values, is_table, matrix_of_table, names_of_columns, plain_list
from aptset.kernels.rowhash import Words


def check_group_values(
    groups: Any, passed: Any, X: Any, n_rows: int, known: Groups | None = None
) -> GroupValues | None:
    """Return the group of each row, or None where there are no groups or the label decides.

    ``groups`` is the setting (None, the name of a grouping, a column of X, or a callable on X), ``passed`` what came
    with the rows, ``known`` the groups of calibration, if it is over.
    """
    groups = groups[0] if is_pair(groups) else groups  # of labels nothing needs to be known here
    passed = passed[0] if is_pair(passed) and (known is None or known.by_both) else passed
    if groups_overlap(groups):
        raise TypeError(
            "groups=Overlapping(...) is about the rows of fit: pass it to fit, and the groups of new rows to "
            "predict_set."
        )
    if groups is None:
        overlaps = known is not None and known.overlaps
        if passed is not None and (groups_overlap(passed) or isinstance(passed, Cells) or overlaps):
            if known is not None and not overlaps:
                raise ValueError("groups must not overlap here, since calibration was not done by overlapping groups.")
            return check_cells(passed, None if known is None else known.overlap, n_rows)
        return None if passed is None else _as_values(passed, n_rows)
    if passed is not None:
        raise ValueError(f"groups must come once: they are set to {groups!r} already. Leave one of the two out.")
    if groups_labels(groups):
        return None
    if is_grouping(groups) and (X is not None or GROUPINGS[groups] is None):
        groups = GROUPINGS[groups]
        if groups is None:
            return None
    if callable(groups):
        return _as_values(groups(X), n_rows)
    return _as_values(_column(groups, X), n_rows)


def check_same_kind(by_row: bool, values: GroupValues | None) -> None:
    """Refuse groups at prediction that calibration did not have, and the other way round."""
    if by_row and values is None:
        raise ValueError(
            "groups must be passed with the new rows, since calibration was done by group. Pass groups=..., the "
            "group of each new row."
        )
    if not by_row and values is not None:
        raise ValueError("groups must be left out here, since calibration was not done by groups of rows.")


def _as_values(values: Any, n_rows: int) -> GroupValues:
    if groups_labels(values):
        raise TypeError(
            f"groups={type(values).__name__}(...) is about labels, not rows: pass it to calibrate or "
            "ConformalClassifier, and no groups with new rows."
        )
    if isinstance(values, Coded):  # which were checked before
        check_length(values, n_rows, "groups")
        return values
    values = np.asarray(on_host(values)) if is_tensor(values) or is_on_device(values) else values
    if isinstance(values, str) or not (type(values) in (list, tuple) or np.ndim(values)):
        raise TypeError(
            f"groups must be None, 'label' or 1-D, with the group of each row; got {values!r}. Pass one value per row."
        )
    if is_table(values) or (isinstance(values, np.ndarray) and values.ndim > 1):
        raise TypeError(
            f"groups must be 1-D, with the group of each row; got {type(values).__name__} of shape {values.shape}. For "
            "groups that a row may be in several of, calibrate with groups=aptset.Overlapping(...)."
        )
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in "iu":
        check_length(values, n_rows, "groups")
        return values.copy()  # whole numbers are looked up without a Python object per row, and more than once
    if isinstance(values, np.ndarray) and values.dtype.kind in "bUS" and values.dtype.itemsize:
        check_length(values, n_rows, "groups")
        return coded_array(values)
    listed = plain_list(values)
    check_length(listed, n_rows, "groups")
    try:
        several: GroupValues = coded_list(listed)
    except TypeError:  # some cannot be looked up
        several = listed
    for value in several.values if isinstance(several, Coded) else several:
        try:
            hash(hashable(value))
        except (TypeError, ValueError) as error:  # of two numbers, it cannot be told whether an array equals itself
            raise TypeError(f"groups must hold one plain value per row; got {value!r}.") from error
    return several


def _column(column: Any, X: Any) -> Any:
    if is_table(X):
        values = column_values(X, column)
        if values is None:
            raise ValueError(f"groups must name a column of X; got {column!r}. The columns are {names_of_columns(X)}.")
        return values
    is_number = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if isinstance(X, list | tuple) and is_number:
        X = as_objects([row[column] for row in X if isinstance(row, list | tuple)])[:, None]
        column = 0
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if not is_number or len(shape) != 2 or not -shape[1] <= column < shape[1]:
        names = " or ".join(map(repr, GROUPINGS))
        raise ValueError(
            f"groups must be None, {names}, a column of X or a callable on X; got {column!r} for X of shape {shape}. "
            "Columns of a data frame go by name, those of an array by number."
        )
    values = X[:, [column]]
    return (values.toarray() if hasattr(values, "toarray") else values).ravel()


CLUSTER = "cluster"  # what people are told of where no column has a name
_OF_CLUSTERS = 0x0C1A_55E5_0C1A_55E5  # keeps the word of a cluster apart from the seed of a row with the same id
_ID = re.compile(r"(?:[ _.-]id|[ _.-]?I[dD])$|[ _.-]ID$")  # at the end of the name of a column
_WAY_OUT = "Name the cluster of every row; a row that belongs to no other has a cluster of its own."


class Membership(NamedTuple):
    """The cluster of each row: 64 bits that stand for its id, and what people call a cluster."""

    words: Words
    noun: str = CLUSTER

    def numbers(self) -> NDArray[np.intp]:
        """Return the number of each row's cluster, in the order in which clusters first appear."""
        _, first, number = np.unique(self.words, return_index=True, return_inverse=True)
        place = np.empty(len(first), dtype=np.intp)
        place[np.argsort(first, kind="stable")] = np.arange(len(first))
        return place[number]

    def some(self, rows: Any) -> Membership:
        """Return the clusters of some rows."""
        return self._replace(words=self.words[rows])


def check_clusters(clusters: Any, table: Any, n_rows: int, key: int) -> Membership:
    """Return the cluster of each row from ids, or from the column of a data frame that a text names."""
    values = column_or_values(clusters, table, "clusters")
    checked = check_ids(values, n_rows, least_distinct=0.0, name="clusters", way_out=_WAY_OUT)
    assert checked is not None
    name = clusters if isinstance(clusters, str) else getattr(clusters, "name", None)
    return Membership(id_seeds(checked, key ^ _OF_CLUSTERS), noun_of(name))


def noun_of(name: Any) -> str:
    """Return what a cluster is called, from the name of its column: "patient" for patient, patient_id and PatientID."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        return CLUSTER
    return _ID.sub("", name.strip()) or name.strip()


def plural(noun: str) -> str:
    """Return the plural of what a cluster is called."""
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if re.search(r"(s|x|z|ch|sh)$", noun) else f"{noun}s"


class Answers(NamedTuple):
    """Every label that somebody chose for a row, row by row, with its votes."""

    rows: NDArray[np.intp]
    columns: NDArray[np.int64]
    votes: NDArray[np.float64]


def check_votes(votes: Any, classes: NDArray[Any], n_rows: int) -> Answers:
    """Return the answers about each row from a matrix of counts, or of shares: finite, not negative, some in each row.

    A data frame goes by the names of its columns.
    """
    refuse_masked(votes, "votes")
    matrix = _matrix_of_votes(votes, classes)
    if matrix.dtype.kind not in "fiub" or matrix.ndim != 2:
        raise TypeError(
            f"votes must be a matrix of numbers, (rows, classes); got dtype {matrix.dtype}, shape {matrix.shape}. "
            "Count how many annotators chose each label of each row."
        )
    if matrix.shape != (n_rows, len(classes)):
        raise ValueError(
            f"votes must have one row per row and one column per class, {(n_rows, len(classes))}; got shape "
            f"{matrix.shape}."
        )
    counts = matrix.astype(np.float64)
    is_good = (np.isfinite(counts) & (counts >= 0)).all(axis=1)
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise ValueError(f"votes must be finite and at least 0; got {counts[row].tolist()} in row {row}.")
    totals = counts.sum(axis=1)
    if not ((totals > 0) & np.isfinite(totals)).all():
        row = int(np.argmin(totals > 0))
        raise ValueError(f"votes must not be 0 for every label of a row; row {row} has none. Leave such rows out.")
    rows, columns = np.nonzero(counts)
    return Answers(rows, columns.astype(np.int64), counts[rows, columns])


def _matrix_of_votes(votes: Any, classes: NDArray[Any]) -> NDArray[Any]:
    if not is_table(votes):
        return np.asarray(on_host(votes))
    names = np.array(names_of_columns(votes), dtype=object)
    where = columns_of(classes, names)
    matrix, other = matrix_of_table(votes)
    if (where < 0).any() or len(names) != len(classes) or matrix is None:
        what = some(names) if matrix is not None else f"column {other!r}, which holds no numbers"
        raise ValueError(f"votes must have the columns {some(classes)}, the classes; got {what}.")
    return matrix[:, where]


def refuse_votes_and_labels(labels: Any, votes: Any) -> None:
    """Refuse both, and neither: a row has one true label, or the answers of several annotators."""
    if labels is not None and votes is not None:
        raise ValueError(
            "labels must be left out where votes are passed: votes say what annotators answered about each row. "
            "Leave one of the two out."
        )
    if labels is None and votes is None:
        raise TypeError("labels must be passed, the true label of each row; or votes=..., counts of annotators.")
