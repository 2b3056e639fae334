"""The jackknife+-after-bootstrap: a few models on bags of rows, and each row judged by those that never saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import ScoreAll, Tally, plain_mass
from aptset.conformal.measure import Fold, FoldScores, Measure
from aptset.conformal.scheme import FoldSizes, LinearBound
from aptset.core.groups import Groups, Ids
from aptset.kernels.counting import add_counts
from aptset.kernels.formula import Floats
from aptset.kernels.rows import Rows, label_scores

_CELLS = 2**22  # of mean probabilities that are held at a time


class OfBags(Tally):
    """The probabilities of every model; in the end each calibration row is compared under its models' mean."""

    holds_all_models = True

    def __init__(self, n_rows: int, n_classes: int) -> None:
        super().__init__(n_rows, n_classes)
        self.probabilities: list[Floats] = []
        self.rows: Rows | None = None

    def add(self, fold: Any, rows: Rows, ids: Ids | None) -> int:
        """Keep what one model says about the new rows; return the first bad row or -1."""
        first_bad = label_scores(rows, np.zeros(len(rows), dtype=np.int64)).first_bad
        if first_bad < 0:
            self.rows = rows
            self.probabilities.append(plain_mass(rows))
            self.mass += self.probabilities[-1]
        return first_bad

    def merge(self, later: Self) -> None:
        """Take in what other models said, which come later."""
        self.rows = later.rows if self.rows is None else self.rows
        self.probabilities.extend(later.probabilities)
        self.mass += later.mass

    def finish(self, held_out: Measure, ids: Ids | None) -> NDArray[np.int32]:
        """Return how many calibration rows score lower than each label, each under the models that never saw it."""
        assert self.rows is not None
        assert held_out.model_mask is not None
        shape, probabilities = self.mass.shape, np.array(self.probabilities).reshape(len(self.probabilities), -1)
        counts = np.zeros_like(self.counts)
        step = max(1, _CELLS // max(probabilities.shape[1], 1))
        for start in range(0, len(held_out.folds), step):
            model_mask = held_out.model_mask[start : start + step]
            means = mean_of_models(model_mask.astype(np.float64) @ probabilities, model_mask.sum(axis=1), shape[1])
            for fold, mean in zip(held_out.folds[start : start + step], means, strict=True):
                rows = replace(self.rows, probabilities=mean.reshape(shape), tolerance=np.inf)  # each was checked
                add_counts(rows, fold.calibrated, ids, counts)
        return counts

    @staticmethod
    def remember(scores: FoldScores, rows: Rows) -> Any:
        """Remember what a model says about the rows outside its bag: it is one model of several."""
        return plain_mass(rows)

    @staticmethod
    def assemble(kept: Sequence[Any], folds: Sequence[Fold], n_rows: int, score: ScoreAll, groups: Groups) -> Measure:
        """Score each row under the mean of the models that never saw it; rows with the same models make a fold."""
        lacks, total = np.zeros((n_rows, len(kept)), dtype=np.bool_), np.zeros((n_rows, kept[0].shape[1]))
        for number, (fold, probabilities) in enumerate(zip(folds, kept, strict=True)):
            lacks[fold.held_out, number] = True
            total[fold.held_out] += probabilities
        scores, group = score(mean_of_models(total, lacks.sum(axis=1), total.shape[1]))
        model_mask, fold_of_row = np.unique(lacks, axis=0, return_inverse=True)
        members = np.split(np.argsort(fold_of_row, kind="stable"), np.cumsum(np.bincount(fold_of_row))[:-1])
        parts = tuple(FoldScores.sort(scores[rows], group[rows], groups) for rows in members)
        return Measure(parts, groups, model_mask)


def mean_of_models(total: Floats, times: NDArray[np.int64], n_classes: int) -> Floats:
    """Divide sums of probabilities by the number of models; where no model votes, all labels are alike."""
    means: Floats = np.where(times[:, None] > 0, total / np.maximum(times, 1)[:, None], 1.0 / n_classes)
    return means


@dataclass(frozen=True)
class Bootstrap:
    """The jackknife+-after-bootstrap (Kim, Xu and Barber, 2020): few models, and every row trains and calibrates.

    Models are trained on bags of rows, drawn with replacement. A row is judged by the mean of the models whose bags
    lack it. Coverage is at least 1 - 2 alpha, and near 1 - alpha in practice.

    Parameters
    ----------
    n_models : int, default=30
        Number of models *on average*: the promise asks for a number that is drawn, as if bags were drawn from the rows
        and one more, which stands for the row to come, and those that hold it were thrown away.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> classifier = aptset.ConformalClassifier(DecisionTreeClassifier(), calibration=aptset.Bootstrap(n_models=20))
    """

    n_models: int = 30

    name: ClassVar[str] = "jackknife+-after-bootstrap"
    combine: ClassVar[type[Tally]] = OfBags
    caveat: ClassVar[str] = ""

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return the bags, each with the rows that it lacks."""
        n = len(y)
        n_bags = number_of_bags(check_bag_count(self.n_models, "n_models"), n, n, generator)
        bags = (np.sort(generator.integers(n, size=n)) for _ in range(n_bags))
        return [Fold(np.setdiff1d(np.arange(n), bag), bag) for bag in bags]

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """P(miss) <= 2 alpha (Kim, Xu and Barber 2020), for bags that are drawn without a look at the rows."""
        return [LinearBound(Fraction(0), Fraction(2))]


def check_bag_count(n_models: Any, name: str) -> int:
    """Return about how many bags are wanted."""
    if isinstance(n_models, bool) or not isinstance(n_models, int | np.integer):
        raise TypeError(f"{name} must be a whole number; got {n_models!r}. Pass {name}=30, for instance.")
    if n_models < 10:
        raise ValueError(
            f"{name} must be at least 10, since the number of models is drawn around it; got {n_models}. "
            "Pass calibration='cv+' for a few models."
        )
    return int(n_models)


def number_of_bags(wanted: int, n_rows: int, size: int, generator: np.random.Generator) -> int:
    """Draw the number of bags of a size: as many of more bags as lack one certain row of n + 1, the row to come."""
    lacks_it = (1 - 1 / (n_rows + 1)) ** size
    n_bags = int(generator.binomial(round(wanted / lacks_it), lacks_it))
    if n_bags < 2:
        raise ValueError(
            f"the number of models must be large enough for two to be drawn; got {n_bags}. Pass a larger one."
        )
    return n_bags


@dataclass(frozen=True)
class OutOfBag:
    """The jackknife+-after-bootstrap of a forest: its own trees are the models, so it is fitted once.

    For random forests, extra trees with ``bootstrap=True`` and bagging. Coverage is at least 1 - 2 alpha, and near
    1 - alpha in practice.

    The number of trees is drawn around the ``n_estimators`` of the estimator: the promise asks for it. It also asks for
    bags into which all rows come alike: weights by which scikit-learn draws them are refused.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> classifier = aptset.ConformalClassifier(RandomForestClassifier(), calibration="out-of-bag")
    """

    name: ClassVar[str] = "out-of-bag"
    combine: ClassVar[type[Tally]] = OfBags
    caveat: ClassVar[str] = ""
    opens_ensemble: ClassVar[bool] = True

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return one fold, in which every row trains: the ensemble draws its bags from it."""
        return [Fold(np.arange(len(y)), np.arange(len(y)))]

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """P(miss) <= 2 alpha."""
        return Bootstrap().lines(sizes)
