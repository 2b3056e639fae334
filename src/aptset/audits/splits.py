"""One random split of the rows, one candidate: train, calibrate, test, and write down what happened."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pickle import PicklingError
from typing import Any

import numpy as np
from joblib import hash as content_hash
from joblib import wrap_non_picklable_objects
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from aptset.estimator.classifier import ConformalClassifier
from aptset.judging.metrics import size_given_coverage
from aptset.judging.worst_slice import worst_slice_coverage
from aptset.kernels.rowhash import mix
from aptset.seeds import row_seeds
from aptset.sets import PredictionSets
from aptset.validation.labels import columns_of

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that all splits are made of, in an order that their content decides; ``place`` is where they stood.

    Where a row stands must not decide how it is split, trained on or tested, or no reordering would be as likely as any
    other.
    """

    X: Any
    y: NDArray[Any]
    groups: list[Any] | None
    place: NDArray[np.intp]
    n_test: int
    features: Any  # what slices are made of; None for no slices
    content: NDArray[np.intp]  # equal for rows with the same features and label

    @cached_property
    def fingerprint(self) -> str:
        """A text that changes with any value in the rows."""
        return fingerprint((self.X, self.y, self.groups, self.place, self.n_test, self.features))

    @cached_property
    def titles(self) -> dict[str, dict[Any, str]]:
        """The text of every label and group, the same in every split and never the same for two of them."""
        parts = {"label": self.y.tolist(), "group": self.groups or []}
        return {part: _titles(list(dict.fromkeys(values))) for part, values in parts.items()}


@dataclass(frozen=True)
class RandomSplit:
    """A task for the runner. All candidates of a repetition share their rows; repetition -1 tests on the last rows."""

    rows: Rows
    candidate: str
    model: Any
    repetition: int
    seed: int
    keeps: str = ""  # what to write down for every test row: "p_values" of the true label, "sizes", or nothing

    @cached_property
    def key(self) -> str:
        """All that the result depends on, as text."""
        model = fingerprint(self.model)
        kept = f"rows={self.keeps}"
        return f"{self.candidate} r{self.repetition} seed={self.seed} {self.rows.fingerprint} {model} {kept}"

    @property
    def weight(self) -> float:
        """Every split takes about as long as any other."""
        return 1.0

    def split(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows that train and calibrate, and those that test."""
        n, n_test = len(self.rows.y), self.rows.n_test
        if self.repetition < 0:
            order = np.argsort(self.rows.place)
            return np.sort(order[: n - n_test]), np.sort(order[n - n_test :])
        order = np.random.default_rng([self.seed, self.repetition, 1]).permutation(n)
        return np.sort(order[n_test:]), np.sort(order[:n_test])

    def run(self) -> list[Row]:
        """Train, calibrate and test."""
        train, test = self.split()
        seed = int(np.random.default_rng([self.seed, self.repetition + 1, 2]).integers(2**31))
        model = clone(self.model).set_params(random_state=seed)
        with warnings.catch_warnings():  # labels that a training part lacks are counted here, once for all splits
            warnings.filterwarnings("ignore", "a new row carries a label that y does not hold")
            model.fit(_safe_indexing(self.rows.X, train), self.rows.y[train])
        X, y = _safe_indexing(self.rows.X, test), self.rows.y[test]
        sets: PredictionSets = model.predict_set(X)
        names = {"candidate": self.candidate, "repetition": self.repetition}
        found = [{**names, **row} for row in self._measure(model, sets, y, test, seed)]
        if self.keeps:
            covered = sets.covers(y).astype(int).tolist()  # what the sets did, which no p-value alone can tell
            values = sets.sizes if self.keeps == "sizes" else _p_of_truth(model, X, columns_of(y, sets.classes))
            kept = {"rows": test.tolist(), "values": values.tolist(), "hits": covered}
            found.append({**names, "part": self.keeps, **kept})
        return found

    def _measure(self, model: ConformalClassifier, sets: PredictionSets, y: Any, test: Any, seed: int) -> Iterator[Row]:
        covered, sizes = sets.covers(y), sets.sizes
        worst = float("nan")
        if self.rows.features is not None:
            features = _safe_indexing(self.rows.features, test)
            worst = float(worst_slice_coverage(sets, y, features, random_state=seed).coverage)
        yield {
            "part": "all",
            "name": "",
            **_counts(covered, sizes),
            "worst_slice": worst,
            "size_given_coverage": float(size_given_coverage(sets, y)),
            "promise": model.guarantee(),
            "laws": _laws(model, y),
        }
        parts = {"label": y.tolist()}
        if self.rows.groups is not None:
            parts["group"] = [self.rows.groups[row] for row in test.tolist()]
        for part, values in parts.items():
            for name in dict.fromkeys(values):
                mine = np.array([value == name for value in values])
                title = self.rows.titles[part][name]
                yield {"part": part, "name": title, **_counts(covered[mine], sizes[mine])}


def _p_of_truth(model: ConformalClassifier, X: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the p-value of each row's true label, 0 for a label that the model does not know."""
    found = np.take_along_axis(model.predict_p(X), np.maximum(columns, 0)[:, None], axis=1)[:, 0]
    return np.where(columns < 0, 0.0, found)


def by_content(X: Any, y: NDArray[Any], key: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an order of the rows that only their content decides, and the number of the content of each, in it."""
    words = mix(row_seeds(X, key) + mix(row_seeds(y, key)))
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


def _counts(covered: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Row:
    return {"rows": len(covered), "covered": int(covered.sum()), "size": float(sizes.mean())}


def _laws(model: ConformalClassifier, y: NDArray[Any]) -> list[list[int]] | None:
    """Return (test rows, calibration rows) of each part whose count has a Beta-binomial law; None if there is none.

    With a promise for every label, test rows with labels that no other row has are in no part.
    """
    held_out = model.fitted_.held_out
    if len(held_out.folds) > 1 or held_out.groups.kind == "row":
        return None
    if held_out.groups.kind == "all":
        return [[len(y), held_out.n]]
    of_test = columns_of(y, model.classes_)
    known = [[int((of_test == group).sum()), int(size)] for group, size in enumerate(held_out.sizes.tolist())]
    return [law for law in known if law[0] > 0]


def as_conformal(model: Any, calibration: Any, alpha: float | None, **settings: Any) -> ConformalClassifier:
    """Return the classifier to audit: the one given, or a model wrapped into one."""
    if isinstance(model, ConformalClassifier):
        same: ConformalClassifier = clone(model).set_params(**({} if alpha is None else {"alpha": alpha}))
        return same
    return ConformalClassifier(model, calibration=calibration, alpha=0.1 if alpha is None else alpha, **settings)
