"""The rows that all splits are drawn from, checked and put in an order that their content decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pickle import PicklingError
from typing import Any

import numpy as np
from joblib import hash as content_hash
from joblib import wrap_non_picklable_objects
from numpy.typing import NDArray

from aptset.audits.checks import (
    check_seed,
    check_test_share,
    check_times,
)
from aptset.data.groups.bands import LabelBands
from aptset.data.groups.ids import groups_overlap
from aptset.data.groups.overlapping_checks import refuse_overlapping
from aptset.data.label_checks import check_length
from aptset.estimator.checks import check_training_data
from aptset.estimator.classifier import ConformalClassifier
from aptset.estimator.fitting import take
from aptset.estimator.order import pair_seeds
from aptset.judging.evidence import as_group_list
from aptset.judging.features import can_be_sliced, features_of


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows that all splits are drawn from, in an order that their content decides; ``position``: where they stood.

    Where a row stands must not decide how it is split, trained on or tested, or no reordering would be as likely as any
    other.
    """

    X: Any  # the user's: any kind of rows that the model takes
    y: NDArray[Any]
    groups: list[Any] | None
    position: NDArray[np.intp]
    n_test: int
    features: Any  # what slices are made of; None for no slices
    content: NDArray[np.intp]  # equal for rows with the same features and label

    @cached_property
    def fingerprint(self) -> str:
        """A text that changes with any value in the rows."""
        return fingerprint((self.X, self.y, self.groups, self.position, self.n_test, self.features))

    @cached_property
    def titles(self) -> dict[str, dict[Any, str]]:
        """The text of every label and group, the same in every split and never the same for two of them."""
        parts = {"label": self.y.tolist(), "group": self.groups or []}
        return {part: _titles(list(dict.fromkeys(values))) for part, values in parts.items()}


def groups_shown(groups: Any, models: Iterable[ConformalClassifier], y: Any) -> Any:
    """Return the groups to break results down by: as passed, or the bands of the labels, if models share them."""
    settings: list[Any] = [model.groups for model in models]
    is_shared = isinstance(settings[0], LabelBands) and all(one == settings[0] for one in settings)
    return settings[0].of(y) if groups is None and is_shared else groups


def prepare(
    X: Any, y: Any, groups: Any, time: Any, test_share: float, features: Any = None, seed: int = 0
) -> tuple[Pool, float]:
    """Check the rows, and decide how many test."""
    X, labels, _ = check_training_data(ConformalClassifier(None), X, y, minimum=10)
    refuse_overlapping("overlap" if groups_overlap(groups) else "", "place in an audit", "Pass one group for each row.")
    of_rows = as_group_list(groups)
    if of_rows is not None:
        check_length(of_rows, len(labels), "groups")
    if features is not None:
        features_of(features, None, len(labels))  # refused now, not in the middle of the splits
    elif can_be_sliced(X, len(labels)):
        features = X
    share, n_test = check_test_share(test_share, len(labels))
    position = check_times(time, len(labels), np.random.default_rng([check_seed(seed), 3]))
    order, content = by_content(X, labels, seed)
    of_rows = None if of_rows is None else [of_rows[row] for row in order.tolist()]
    features = None if features is None else take(features, order)
    return Pool(take(X, order), labels[order], of_rows, position[order], n_test, features, content), share


def by_content(X: Any, y: NDArray[Any], key: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an order of the rows that only their content decides, and the number of the content of each, in it."""
    words = pair_seeds(X, y, key)
    order = np.argsort(words, kind="stable")
    return order, np.cumsum(np.diff(words[order], prepend=words[order[:1]]) != 0)


def fingerprint(value: Any) -> str:
    """Return a text that changes with the content of a value."""
    try:
        return str(content_hash(value))
    except (PicklingError, AttributeError, TypeError):  # functions and classes made on the spot
        return str(content_hash(wrap_non_picklable_objects(value)))


def _titles(values: list[Any]) -> dict[Any, str]:
    times = Counter(str(value) for value in values)
    return {value: str(value) if times[str(value)] == 1 else repr(value) for value in values}
