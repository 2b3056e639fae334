"""Which rows belong together: the cluster of each row, and the answers of several annotators about one row."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import on_host
from aptset.core.labels import columns_of, refuse_masked, some
from aptset.core.randomization import check_ids, column_or_values
from aptset.core.row_seeds import id_seeds
from aptset.core.tables import is_table, matrix_of_table, names_of_columns
from aptset.kernels.rowhash import Words

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
