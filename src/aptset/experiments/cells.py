"""One cell of an experiment: data x n_train x black box x family of methods x repetition."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from aptset.calibration.formulas import oracle_sets
from aptset.core.validate import all_at_once
from aptset.estimator.classifier import ConformalClassifier
from aptset.estimator.fitting import seed_unseeded
from aptset.experiments.baselines import ConformalQuantileClassifier
from aptset.experiments.datasets import load_data, source_tag
from aptset.experiments.models import MODELS, Model, draw_labels, make_box
from aptset.metrics import OF_SPLITS
from aptset.metrics.outcome import Outcome
from aptset.sets import PredictionSets


def measure(
    sets: PredictionSets, X: NDArray[np.float64], y: NDArray[Any], model: Model | None, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield one row for all test rows, then one for each condition, where metrics of features are not looked for.

    ``expected_coverage`` is the mean true probability of the labels in a set, known for simulated data only: coverage
    without the chance of the test labels.
    """
    expected = np.full(len(y), np.nan) if model is None else (model.probabilities(X) * sets.mask).sum(axis=1)
    for condition, rows in _conditions(X, y, model):
        outcome, features = Outcome.of(sets[rows], y[rows]), X if condition == "all" else None
        yield {
            "condition": condition,
            "n": len(rows),
            **{name: one.value(outcome, X=features, random_state=seed) for name, one in OF_SPLITS.items()},
            "expected_coverage": float(expected[rows].mean()),
        }


def _conditions(X: NDArray[np.float64], y: NDArray[Any], model: Model | None) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield all rows; then those of each value of the first feature (simulated data) or each true label (real data)."""
    yield "all", np.arange(len(y))
    name, values = ("label", y) if model is None else ("X1", X[:, 0])
    for value in np.unique(values):
        yield f"{name}={value:g}", np.flatnonzero(values == value)


# Methods of one family share their fits: SC, HCC and the oracle's own sets are cells of one family.
FAMILY_OF = {"SC": "SC", "HCC": "SC", "oracle": "SC", "CV+": "CV+", "JK+": "JK+", "CQC": "CQC", "CQC-RF": "CQC-RF"}
METHODS = tuple(FAMILY_OF)
RECIPE = 2  # to be raised by a change that changes results: cells that were computed before are then left alone
_CALIBRATIONS = {"CV+": "cv+", "JK+": "jackknife+"}
_REGRESSORS = {"CQC": "network", "CQC-RF": "forest"}


class Sample(NamedTuple):
    """Training and test rows of one repetition, and the model they came from if they were simulated."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[Any]
    n_classes: int
    model: Model | None


def check_sizes(name: str, n: int, n_train: int, n_test: int) -> None:
    """Refuse to draw more rows than there are."""
    if n_train + n_test > n:
        raise ValueError(f"n_train + n_test must be at most the {n} rows of {name}; got {n_train} + {n_test}.")


@dataclass(frozen=True)
class Cell:
    """A task for the runner. Every repetition has its own data, shared by all boxes and methods."""

    data: str
    n_train: int
    n_test: int
    box: str
    family: str
    repetition: int
    alpha: float = 0.1
    seed: int = 0
    folder: Path | None = None  # where data lie; what they are is verified

    @property
    def key(self) -> str:
        """All that the result depends on, as text."""
        what = f"{self.data} {self.n_train}+{self.n_test} {self.box} {self.family} alpha={self.alpha} seed={self.seed}"
        source = "" if self.data in MODELS else f" from {source_tag(self.data, self.folder)}"
        return f"{what} r{self.repetition}{source} recipe {RECIPE}"

    @property
    def weight(self) -> float:
        """About how many seconds the cell takes."""
        one_fit = {"Oracle": 0.01, "SVC": 0.2, "NNet": 0.1, "RFC": 5.0 if self.data in MODELS else 0.3}[self.box]
        fits = {"SC": 1, "CV+": 10, "JK+": self.n_train, "CQC": 1, "CQC-RF": 1}[self.family]
        return 1 + one_fit * fits * self.n_train / 1000 + (self.family == "CQC") * self.n_train / 100

    def run(self) -> list[dict[str, Any]]:
        """Draw the data, make the sets of every method of the family, and measure them."""
        sample = self.sample()
        box = make_box(self.box, sample.n_classes, sample.model)
        settings = {"data": self.data, "n_train": self.n_train, "n_test": self.n_test, "box": self.box}
        rows = []
        for method, sets in self._sets(sample, box).items():
            for values in measure(sets, sample.X_test, sample.y_test, sample.model, self._seed("slices")):
                names = {"method": method, "repetition": self.repetition, "alpha": self.alpha, "seed": self.seed}
                rows.append({**settings, **names, **values})
        return rows

    def sample(self) -> Sample:
        """Draw the rows of the repetition."""
        generator = np.random.default_rng(self._seed("rows"))
        if self.data in MODELS:
            model = MODELS[self.data].draw(generator)
            X = model.draw_features(self.n_train + self.n_test, generator)
            y, n_classes = draw_labels(model.probabilities(X), generator), model.n_classes
        else:
            model, data = None, load_data(self.data, self.folder)
            check_sizes(self.data, len(data.y), self.n_train, self.n_test)
            rows = generator.permutation(len(data.y))[: self.n_train + self.n_test]
            X, y, n_classes = data.X[rows], data.y[rows], data.n_classes
        n = self.n_train
        return Sample(X[:n], y[:n], X[n:], y[n:], n_classes, model)

    def _sets(self, sample: Sample, box: Any) -> dict[str, PredictionSets]:
        with all_at_once():
            return self._sets_of_family(sample, box)

    def _sets_of_family(self, sample: Sample, box: Any) -> dict[str, PredictionSets]:
        seed = self._seed(self.box, self.family)
        if self.family == "SC":
            return self._split(sample, box, seed)
        if self.family in _REGRESSORS:
            regressor = _REGRESSORS[self.family]
            classifier = ConformalQuantileClassifier(box, quantiles=regressor, alpha=self.alpha, random_state=seed)
            return {self.family: classifier.fit(sample.X, sample.y).predict_set(sample.X_test)}
        calibration = _CALIBRATIONS[self.family]
        classifier = ConformalClassifier(box, calibration=calibration, alpha=self.alpha, random_state=seed)
        sets: Any = classifier.fit_predict_set(sample.X, sample.y, sample.X_test)
        return {self.family: sets}

    def _split(self, sample: Sample, box: Any, seed: int) -> dict[str, PredictionSets]:
        """Fit once, calibrate with both scores."""
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(sample.y))
        train, calibrate = order[: len(order) // 2], order[len(order) // 2 :]
        model = clone(box)
        seed_unseeded(model, seed)
        model.fit(sample.X[train], sample.y[train])
        sets = {}
        for method, conformity in (("SC", "adaptive"), ("HCC", "homogeneous")):
            frozen = ConformalClassifier(
                FrozenEstimator(model), conformity=conformity, alpha=self.alpha, random_state=seed
            )
            sets[method] = frozen.fit(sample.X[calibrate], sample.y[calibrate]).predict_set(sample.X_test)
        if self.box == "Oracle":
            truth, u = model.predict_proba(sample.X_test), generator.random(len(sample.y_test))
            sets["oracle"] = oracle_sets(truth, self.alpha, u=u, random_state=seed)
        return sets

    def _seed(self, *purpose: str) -> int:
        """Return a seed of its own for each purpose; boxes and methods of a repetition share their rows."""
        words = [self.data, str(self.n_train), str(self.n_test), *purpose]
        entropy = [self.seed, self.repetition, *(zlib.crc32(word.encode()) for word in words)]
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
