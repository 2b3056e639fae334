"""One readable configuration per figure and table of the paper: data, sizes, black boxes, methods."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from aptset import ConformalClassifier, PredictionSets, oracle_sets
from aptset.core import validate
from aptset.core.randomization import all_at_once
from aptset.estimator.fitting import seed_unseeded
from aptset.experiments.baselines import ConformalQuantileClassifier
from aptset.experiments.datasets import MODELS, Model, check_names, draw_labels, load_data, source_tag
from aptset.metrics import OF_SPLITS
from aptset.metrics.outcome import Outcome

_ORACLE_FLOOR = 1e-6


class Clipped(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are at least ``floor`` for each of ``n_classes`` labels 0, 1, ...

    The paper's code clips, and it matters: without it a label that a model rules out costs every other label's place.
    """

    def __init__(self, estimator: Any, floor: float, n_classes: int) -> None:
        self.estimator = estimator
        self.floor = floor
        self.n_classes = n_classes

    def fit(self, X: Any, y: Any) -> Clipped:
        """Fit a clone of the estimator. The paper's settings make it stop early or use what will go: no warnings."""
        self.classes_ = np.arange(self.n_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 20 epochs, as in the paper
            warnings.filterwarnings("ignore", category=FutureWarning, message=".*probability.*")
            self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return clipped and renormalised probabilities of all labels, also of those that did not occur."""
        raw = np.zeros((len(X), self.n_classes))
        raw[:, self.estimator_.classes_] = self.estimator_.predict_proba(X)
        return clip(raw, self.floor)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))


class Oracle(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The true probabilities, which need no data."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Oracle:
        """Learn nothing."""
        self.classes_ = np.arange(self.model.n_classes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the truth, clipped like the other boxes."""
        return clip(self.model.probabilities(X), _ORACLE_FLOOR)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))


def clip(probabilities: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Raise probabilities to a floor and divide each row by its sum."""
    raised = np.clip(probabilities, floor, 1.0)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


_FOR_MODELS: dict[str, Any] = {
    "SVC": SVC(kernel="linear", C=1.0, probability=True),
    "RFC": RandomForestClassifier(n_estimators=1000, max_depth=5, max_features=None),
}


_FOR_DATA: dict[str, Any] = {
    "NNet": MLPClassifier(hidden_layer_sizes=(64,), learning_rate_init=0.01, batch_size=128, max_iter=20),
    "SVC": _FOR_MODELS["SVC"],
    "RFC": RandomForestClassifier(n_estimators=100, min_samples_leaf=3, max_features="sqrt"),
}


def make_box(name: str, n_classes: int, model: Model | None) -> Any:
    """Return a black box for simulated data (where the model is known) or for real data."""
    if name == "Oracle":
        assert model is not None, "only designs on simulated data ask for the oracle"
        return Oracle(model)
    table, total = (_FOR_DATA, 0.1) if model is None else (_FOR_MODELS, 1e-5)
    return Clipped(clone(table[name]), total / n_classes, n_classes)


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
        with all_at_once():
            of_methods = self._sets(sample, box)
        for method, sets in of_methods.items():
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
            if self.n_train + self.n_test > len(data.y):
                raise ValueError(
                    f"n_train + n_test must be at most the {len(data.y)} rows of {self.data}; got {self.n_train} + "
                    f"{self.n_test}."
                )
            rows = generator.permutation(len(data.y))[: self.n_train + self.n_test]
            X, y, n_classes = data.X[rows], data.y[rows], data.n_classes
        n = self.n_train
        return Sample(X[:n], y[:n], X[n:], y[n:], n_classes, model)

    def _sets(self, sample: Sample, box: Any) -> dict[str, PredictionSets]:
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


JACKKNIFE_LIMIT = 1000  # the paper runs one fit per row up to this many rows


@dataclass(frozen=True)
class FigureDesign:
    """What a figure or a table shows: every box with every method, at every size."""

    data: str
    title: str
    n_train: tuple[int, ...]
    boxes: tuple[str, ...]
    methods: tuple[str, ...]
    n_test: dict[int, int] = field(default_factory=dict)  # 5000 unless given
    without: tuple[tuple[str, str], ...] = ()  # (box, method) that the paper's costs rule out
    is_table: bool = False
    conditions: tuple[str, ...] = ()  # further rows of panels, conditional on a feature
    by_label_of: str | None = None  # a box whose results are also shown by true label

    def has(self, n_train: int, box: str, method: str) -> bool:
        """Tell whether a method is run with a box at a size."""
        too_large = method == "JK+" and n_train > JACKKNIFE_LIMIT
        only_oracle = method == "oracle" and box != "Oracle"
        return not (too_large or only_oracle or (box, method) in self.without)


_SIMULATED = ("Oracle", "SVC", "RFC")
_REAL = ("NNet", "SVC", "RFC")
_ON_MODELS = ("SC", "CV+", "JK+", "CQC", "HCC", "oracle")
_ON_DATA = ("SC", "CV+", "JK+", "CQC", "CQC-RF", "HCC")
_SLOW = (("RFC", "JK+"),)  # 1000 forests of 1000 trees: more than an hour for each repetition
_MICE = {500: 580, 1000: 80}
_SIZES = (500, 1000, 5000, 10_000)

DESIGNS: dict[str, FigureDesign] = {
    "fig1": FigureDesign(
        "model1", "Figure 1: model 1, 1000 training samples", (1000,), _SIMULATED, _ON_MODELS, {}, _SLOW
    ),
    "fig2": FigureDesign("mice", "Figure 2: Mice Protein, 500 training samples", (500,), _REAL, _ON_DATA, _MICE),
    "fig3": FigureDesign(
        "mnist", "Figure 3: MNIST, 10000 training samples", (10_000,), _REAL, _ON_DATA, by_label_of="NNet"
    ),
    "figS1": FigureDesign(
        "model1",
        "Figure S1: model 1, 10000 training samples",
        (10_000,),
        _SIMULATED,
        _ON_MODELS,
        conditions=("X1=-8", "X1=1"),
    ),
    "figS3": FigureDesign(
        "model2",
        "Figure S3: model 2, 10000 training samples",
        (10_000,),
        _SIMULATED,
        _ON_MODELS,
        conditions=("X1=-1", "X1=1"),
    ),
    "figS4": FigureDesign(
        "model2",
        "Figure S4: model 2, 1000 training samples",
        (1000,),
        _SIMULATED,
        _ON_MODELS,
        without=_SLOW,
        conditions=("X1=-1", "X1=1"),
    ),
    "tableS1": FigureDesign("mice", "Table S1: Mice Protein", (500, 1000), _REAL, _ON_DATA, _MICE, is_table=True),
    "tableS2": FigureDesign("mnist", "Table S2: MNIST", _SIZES, _REAL, _ON_DATA, is_table=True),
    "tableS3": FigureDesign("fashion", "Table S3: Fashion-MNIST", _SIZES, _REAL, _ON_DATA, is_table=True),
    "tableS4": FigureDesign("cifar10", "Table S4: CIFAR-10", _SIZES, _REAL, _ON_DATA, is_table=True),
}
EXPERIMENTS = (*DESIGNS, "all")
BOXES = ("Oracle", "NNet", "SVC", "RFC")


def check_size(text: Any) -> int:
    """Return the positive whole number that a text stands for."""
    try:
        return validate.whole(int(text), "sizes", 1)
    except ValueError as error:
        raise ValueError(f"sizes must be positive whole numbers; got {text!r}.") from error


@dataclass(frozen=True)
class Selection:
    """Which part of the designs to run; empty means all."""

    repetitions: int = 100
    boxes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        validate.whole(self.repetitions, "repetitions", 1, "a positive whole number")
        check_names(self.boxes, BOXES, "boxes")
        check_names(self.methods, METHODS, "methods")

    def takes(self, n_train: int, box: str, method: str) -> bool:
        """Tell whether a combination was chosen."""
        chosen = ((self.boxes, box), (self.methods, method), (self.sizes, n_train))
        return all(not wanted or value in wanted for wanted, value in chosen)


def choose(repetitions: int, boxes: Iterable[str], methods: Iterable[str], sizes: Iterable[str | int]) -> Selection:
    """Return a choice; sizes may come as texts."""
    return Selection(repetitions, tuple(boxes), tuple(methods), tuple(map(check_size, sizes)))


def designs_of(names: Iterable[str]) -> dict[str, FigureDesign]:
    """Return designs by name; "all" is every one."""
    wanted = check_names(names, EXPERIMENTS, "experiments")
    return dict(DESIGNS) if "all" in wanted else {name: DESIGNS[name] for name in DESIGNS if name in wanted}


def cells_of(
    designs: Iterable[FigureDesign], choice: Selection, alpha: float, seed: int, folder: Path | None
) -> list[Cell]:
    """Return the work behind designs: once where designs share it, cheap cells first, repetition by repetition."""
    cells: dict[str, Cell] = {}
    for design in designs:
        for n_train in design.n_train:
            for box in design.boxes:
                chosen = (m for m in design.methods if design.has(n_train, box, m) and choice.takes(n_train, box, m))
                for family in sorted({FAMILY_OF[method] for method in chosen}):
                    for repetition in range(choice.repetitions):
                        n_test = design.n_test.get(n_train, 5000)
                        cell = Cell(design.data, n_train, n_test, box, family, repetition, alpha, seed, folder)
                        cells[cell.key] = cell
    if not cells:
        filters = {"boxes": choice.boxes, "methods": choice.methods, "sizes": choice.sizes}
        named = ", ".join(f"{name}={value}" for name, value in filters.items() if value)
        raise ValueError(f"the experiments must have something to run; nothing is left with {named}.")
    return sorted(cells.values(), key=lambda cell: (cell.family == "JK+", cell.repetition))
