"""What people pass as groups, besides one value for each row: labels that share a threshold, and groups that overlap.

Bands of labels are Mondrian (label-conditional) conformal prediction: Vovk, Gammerman and Shafer 2005, "Algorithmic
learning in a random world"; overlapping groups, sex and region and age at once, each with the promise: Gibbs, Cherian
and Candès 2023, "Conformal prediction with conditional guarantees".
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.devices import is_on_device, is_tensor, on_host
from aptset.core.groups import Cells, Groups, Overlap, groups_overlap
from aptset.core.labels import (
    Coded,
    as_labels,
    as_objects,
    check_every_label,
    check_hashable,
    check_label_table,
    check_length,
    check_training_counts,
    coded_list,
    columns_of,
    distinct,
    hashable,
    plain_value,
)
from aptset.core.tables import column_values, is_table, names_of_columns
from aptset.core.taxonomy import Taxonomy
from aptset.kernels.long_arrays import codes_of


def check_bands(bands: Any) -> dict[Any, Any]:
    """Return the band of each label, in plain values."""
    check_label_table(bands, "bands", "its band", "Pass {'cat': 'animal', 'car': 'thing'}, for instance.")
    plain = {plain_value(label): plain_value(band) for label, band in bands.items()}
    for label, band in plain.items():
        try:
            hash(band)
        except TypeError as error:
            raise TypeError(
                f"bands must be texts, numbers or other plain values; got {band!r} for {label!r}. Pass each label "
                "with its band: {'cat': 'animal', 'car': 'thing'}, for instance."
            ) from error
        if hashable(band) is None:
            raise ValueError(f"bands must not be missing; got {band!r} for the label {label!r}.")
    return plain


def check_counts(counts: Any) -> dict[Any, int]:
    """Return how many training rows each label has: from a dictionary, or from the labels themselves."""
    if not isinstance(counts, Mapping):
        if getattr(counts, "name", None) in ("count", "proportion"):  # what value_counts of a Series returns
            check_label_table(counts, "counts", "its number of training rows", "Pass counts.to_dict().")
        labels = as_labels(counts, "counts")
        check_hashable(labels, "counts")
        names = distinct(labels)
        times = np.bincount(columns_of(labels, names), minlength=len(names))
        counts = dict(zip(names.tolist(), times.tolist(), strict=True))
    check_training_counts(counts)
    return {plain_value(label): int(count) for label, count in counts.items()}


_ROWS_FOR_ONE = 10  # a band should expect so many times the rows without which its threshold is infinite


class LabelBands:
    """Groups of labels that share a threshold: coverage of at least 1 - alpha within each band.

    For many labels of which some are rare. ``groups="label"`` needs 1/alpha - 1 calibration rows of every label; a band
    needs them of all its labels together. The promise is about a band: P(label in the set, given that the label is of
    the band) >= 1 - alpha. Within a band some labels may be covered less, and others more.

    The bands must be fixed without a look at the calibration rows: by a taxonomy, or by how often labels occur in
    training (:meth:`by_prevalence`).

    Parameters
    ----------
    bands : mapping
        The band of each label: ``{"cat": "animal", "dog": "animal", "car": "thing"}``. Labels that never come may be in
        it; every label of the classifier must be.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> probabilities = np.random.default_rng(0).dirichlet([4, 2, 1, 1], size=600)
    >>> labels = probabilities.argmax(axis=1)
    >>> bands = aptset.LabelBands({0: "frequent", 1: "frequent", 2: "rare", 3: "rare"})
    >>> calibration = aptset.calibrate(probabilities, labels, groups=bands, random_state=0)
    >>> {band: round(threshold, 3) for band, threshold in calibration.threshold(0.1).items()}
    {'frequent': 0.506, 'rare': 0.402}
    """

    def __init__(self, bands: Mapping[Any, Any]) -> None:
        self.bands = check_bands(bands)

    @classmethod
    def by_prevalence(
        cls,
        counts: Mapping[Any, int] | ArrayLike,
        n_bands: int = 4,
        *,
        n_calibration: int | None = None,
        alpha: float = 0.1,
    ) -> LabelBands:
        """Return bands of labels that are about equally frequent in training.

        Labels are sorted by their counts and cut into bands with equal numbers of labels. Neighbours are then joined,
        the smallest first, until each band expects at least 10 (1 - alpha) / alpha calibration rows. Band 1 has the
        most frequent labels.

        Parameters
        ----------
        counts : mapping or array
            How many training rows each label has, or the training labels themselves. Never those of the calibration
            rows: the bands must not depend on them.
        n_bands : int, default=4
            How many bands there are at most.
        n_calibration : int, optional
            How many rows will calibrate; by default as many as the training rows.
        alpha : float, default=0.1
            The smallest level that will be asked for.

        Examples
        --------
        >>> import aptset
        >>> aptset.LabelBands.by_prevalence({"a": 900, "b": 700, "c": 150, "d": 30, "e": 2}, n_bands=3)
        LabelBands(5 labels in 2 bands)
        """
        times = check_counts(counts)
        total, level = sum(times.values()), validate.alpha(alpha)
        rule = "a whole number of rows, at least 1"
        rows = total if n_calibration is None else validate.whole(n_calibration, "n_calibration", 1, rule)
        labels = sorted(times, key=lambda label: -times[label])
        cut = np.array_split(np.arange(len(labels)), min(validate.whole(n_bands, "n_bands", 1), len(labels)))
        parts = _joined([[labels[place] for place in part] for part in cut], times, rows, total, level)
        return cls({label: number for number, part in enumerate(parts, start=1) for label in part})

    @classmethod
    def from_taxonomy(cls, taxonomy: Taxonomy, depth: int = 1) -> LabelBands:
        """Return a band for each node of a tree of labels at a depth below its root.

        Parameters
        ----------
        taxonomy : Taxonomy
            The tree. Labels that are not as deep are bands of their own.
        depth : int, default=1
            1 is right below the root.

        Examples
        --------
        >>> import aptset
        >>> taxonomy = aptset.Taxonomy({"finch": "bird", "owl": "bird", "oak": "tree", "fir": "tree"})
        >>> aptset.LabelBands.from_taxonomy(taxonomy)
        LabelBands(4 labels in 2 bands)
        """
        if not isinstance(taxonomy, Taxonomy):
            raise TypeError(f"taxonomy must be an aptset.Taxonomy; got {type(taxonomy).__name__}.")
        labels = taxonomy.labels
        return cls(dict(zip(labels, taxonomy.at_depth(as_objects(labels), depth).tolist(), strict=True)))

    def groups_of(self, classes: NDArray[Any]) -> Groups:
        """Return the bands of some classes as groups, in the order in which the classes have them."""
        bands = check_every_label(self.bands, classes, "LabelBands", "Give each of them a band.")
        number_of = {band: number for number, band in enumerate(dict.fromkeys(bands))}
        return Groups("band", tuple(number_of), tuple(number_of[band] for band in bands))

    def of(self, labels: ArrayLike) -> list[Any]:
        """Return the band of each label: groups for :func:`evaluate`, :func:`report` and a monitor.

        Examples
        --------
        >>> import aptset
        >>> aptset.LabelBands({"cat": "animal", "car": "thing"}).of(["car", "cat"])
        ['thing', 'animal']
        """
        return check_every_label(self.bands, as_labels(labels, "labels"), "LabelBands", "Give each of them a band.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelBands) and self.bands == other.bands

    def __hash__(self) -> int:
        return hash(frozenset(self.bands.items()))

    def __repr__(self) -> str:
        return f"LabelBands({len(self.bands)} labels in {len(set(self.bands.values()))} bands)"


def _joined(parts: list[list[Any]], times: dict[Any, int], rows: int, total: int, alpha: Fraction) -> list[list[Any]]:
    """Join the smallest part with the smaller of its neighbours while it expects too few rows."""
    needed = _ROWS_FOR_ONE * (1 - alpha) / alpha * max(total, 1)  # nothing is expected where nothing was counted
    while len(parts) > 1:
        sizes = [sum(times[label] for label in part) for part in parts]
        least = sizes.index(min(sizes))
        if sizes[least] * rows >= needed:
            break
        beside = [place for place in (least - 1, least + 1) if 0 <= place < len(parts)]
        first = min(least, min(beside, key=sizes.__getitem__))
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    return parts


WITHOUT_P_VALUES = (
    "Ask for sets at each level; aptset.evaluate(sets, labels, groups=aptset.Overlapping(...)) shows every group."
)
WITHOUT_WEIGHTS = ("promise for weights", "Leave the weights out, or give each row one group.")
MOST_INDICATORS = 64
_ALIKE = {str, int, float, type(None)}  # of which equal values have the same text
MOST_COMBINATIONS = 2000  # of groups among the new rows of one call


def check_overlapping(groups: Any, known: Overlap | None = None) -> Cells:
    """Return the groups of each row; with ``known``, of new rows: in the columns that calibration had."""
    if groups_overlap(groups):
        groups = groups.cells.given
    groups = on_host(groups) if is_tensor(groups) or is_on_device(groups) else groups
    if is_table(groups):
        return _of_frame(groups, known)
    if known is not None and known.frame is not None:
        raise TypeError(
            f"groups must be a data frame with the columns {list(known.frame)}, as at calibration; got "
            f"{type(groups).__name__}."
        )
    matrix = _flags(groups, None if known is None else len(known.names))
    return _cells(groups, matrix, Overlap(tuple(range(matrix.shape[1]))))


def check_cells(passed: Any, known: Overlap | None, n_rows: int) -> Cells:
    """Return the groups of some new rows, or of calibration rows where none are known; refuse too many combinations."""
    cells = passed if isinstance(passed, Cells) else check_overlapping(passed, known)
    check_length(cells, n_rows, "groups")
    if known is not None and (count := len(cells.distinct())) > MOST_COMBINATIONS:
        raise ValueError(
            f"groups must have at most {MOST_COMBINATIONS:,} different combinations among the rows of one call; got "
            f"{count:,}. Each of them is a linear programme over all calibration rows: milliseconds with 5 groups, "
            "tenths of a second with 64. Name fewer groups, or pass the rows in parts."
        )
    return cells


def _flags(groups: Any, width: int | None) -> NDArray[np.bool_]:
    try:
        matrix = np.asarray(groups)
    except ValueError as error:
        raise ValueError("groups must be a matrix of True and False; got rows of different lengths.") from error
    is_wide = matrix.ndim == 2 and (matrix.shape[1] > 0 if width is None else matrix.shape[1] == width)
    if not is_wide:
        columns = "one column for each group" if width is None else f"the {width} columns of the calibration"
        came = (
            f"shape {matrix.shape}." if matrix.ndim else f"{groups!r:.60}. Pass a data frame of columns, or a matrix."
        )
        raise ValueError(f"groups must be a matrix of True and False with {columns}; got {came}")
    if matrix.dtype.kind not in "biuf" or not (matrix.dtype == np.bool_ or np.isin(matrix, (0, 1)).all()):
        raise ValueError(
            "groups must be a matrix of True and False: is a row in a group or not. Pass a data frame for columns of "
            "other values, which become one group for each value."
        )
    if matrix.shape[1] > MOST_INDICATORS:
        _refuse_so_many(matrix.shape[1], "")
    return matrix.astype(np.bool_)


def _of_frame(frame: Any, known: Overlap | None) -> Cells:
    """Return the groups of the rows of a frame: a column of flags is one, another column has one for each value."""
    if known is not None and known.frame is None:
        raise TypeError(f"groups must be a matrix with {len(known.names)} columns, as at calibration; got a frame.")
    columns = names_of_columns(frame) if known is None else list(known.frame or ())
    if len(set(columns)) != len(columns) or not columns:
        raise ValueError(f"groups must have columns of different names; got {columns}.")
    flags: dict[Any, NDArray[np.bool_]] = {}
    kinds = []
    for place, column in enumerate(columns):
        values = column_values(frame, column)
        if values is None:
            raise ValueError(
                f"groups must have the column {column!r}, as at calibration; got {names_of_columns(frame)}."
            )
        is_flag = _is_flag(column, values, None if known is None else known.is_flag[place])
        kinds.append(is_flag)
        for name, members in _of_column(column, values, is_flag).items():
            if name in flags:
                raise ValueError(f"groups must have names of their own; {name!r} comes twice. Rename a column.")
            flags[name] = members
        if len(flags) > MOST_INDICATORS:
            _refuse_so_many(len(flags), f", {len(set(map(hashable, values)))} of them in the column {column!r}")
    matrix = np.column_stack(list(flags.values()))
    return _cells(frame, matrix, Overlap(tuple(flags), tuple(columns), tuple(kinds)))


def _is_flag(column: Any, values: list[Any], known: bool | None) -> bool:
    all_flags = {*map(type, values)} <= {bool, np.bool_}
    if known and not all_flags:
        odd = next(value for value in values if not isinstance(value, bool | np.bool_))
        raise ValueError(f"groups must have True or False in the column {column!r}, as at calibration; got {odd!r}.")
    return all_flags if known is None else known


def _of_column(column: Any, values: list[Any], is_flag: bool) -> dict[Any, NDArray[np.bool_]]:
    if is_flag:
        return {column: np.array(values, dtype=np.bool_)}
    several = coded_list(values) if {*map(type, values)} <= _ALIKE else Coded(values, np.arange(len(values)))
    texts = [_text(hashable(plain_value(value))) for value in several.values]
    number_of = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    if len(number_of) > MOST_INDICATORS:
        _refuse_so_many(len(number_of), f" in the column {column!r}")
    numbers = np.array([number_of[text] for text in texts], dtype=np.int64)[several.codes]
    return {f"{column}={text}": numbers == number for text, number in number_of.items()}


def _text(value: Any) -> str:
    """Return what a group is called by: whole numbers become floats where a column has missing values, and back."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _cells(given: Any, matrix: NDArray[np.bool_], overlap: Overlap) -> Cells:
    names = np.empty(len(overlap.names), dtype=object)
    names[:] = overlap.names
    codes, firsts = codes_of(matrix.view(np.uint8))
    return Cells([tuple(names[flags].tolist()) for flags in matrix[firsts]], codes, overlap, given)


def _refuse_so_many(count: int, where: str) -> NoReturn:
    raise ValueError(
        f"groups must be at most {MOST_INDICATORS}; got {count}{where}. Cut numbers into ranges and join rare values "
        "first: every group needs calibration rows of its own."
    )


def refuse_overlapping(overlaps: bool, what: str, way_out: str) -> None:
    """Refuse what is not known for groups that overlap."""
    if overlaps:
        raise ValueError(f"overlapping groups have no {what}. {way_out}")


class Overlapping:
    """Groups that a row may be in several of: coverage of at least 1 - alpha in every one of them.

    ``groups=`` of one value per row makes the promise for each value. Here a row may be a woman, old *and* from the
    north, and the promise holds among women, among the old and in the north, without a threshold for every combination:
    those with few rows would have infinite ones. It also holds outside of every group, and over all rows.

    The threshold of a row comes from one small linear programme for its combination of groups (Gibbs, Cherian and
    Candès, 2023), solved exactly. Under one model only (a split); there are no p-values.

    Parameters
    ----------
    groups : boolean matrix or data frame, one row per row
        True where a row is in a group. A column of a data frame that is not of flags becomes one group for each of its
        values, called "column=value" and told apart by that text: 1, 1.0 and "1" are one. At most 64 groups.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> probabilities = generator.dirichlet([2, 1, 1], size=500)
    >>> labels = probabilities.argmax(axis=1)
    >>> old, north = generator.random((2, 500)) < 0.4
    >>> groups = aptset.Overlapping(np.column_stack([old, north]))
    >>> calibration = aptset.calibrate(probabilities, labels, groups=groups, random_state=0)
    >>> sets = calibration.predict_set([[0.5, 0.3, 0.2]] * 2, 0.1, groups=[[True, False], [True, True]], ids=["a", "b"])
    >>> sets.sizes
    array([1, 2])
    """

    def __init__(self, groups: Any) -> None:
        self.cells: Cells = check_overlapping(groups)

    @property
    def names(self) -> list[Any]:
        """The names of the groups; those of a matrix are the numbers of its columns."""
        return list(self.cells.overlap.names)

    def members(self, name: Any) -> NDArray[np.intp]:
        """Return the numbers of the rows that are in a group."""
        is_in = np.array([name in cell for cell in self.cells.values], dtype=np.bool_)
        return np.flatnonzero(is_in[self.cells.codes])

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"Overlapping({len(self.cells)} rows in {len(self.names)} groups)"
