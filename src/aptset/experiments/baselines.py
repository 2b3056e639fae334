"""Competitors of the paper that are not scores: conformal quantile classification, with a network or a forest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from aptset import PredictionSets, conformal_rank
from aptset.core import validate
from aptset.core.groups import EVERYONE
from aptset.core.labels import columns_of
from aptset.core.levels import warn_if_too_few
from aptset.core.validate import check_choice
from aptset.estimator.checks import check_estimator_can, check_training_data
from aptset.estimator.fitting import probabilities_of, seed_unseeded, take

__all__ = ["ConformalQuantileClassifier", "ForestQuantiles", "NetworkQuantiles"]


Floats = NDArray[np.float64]
EXTRAS = {"torch": "network", "quantile_forest": "forest", "matplotlib": "plots", "pandas": "frames", "pyarrow": "cli"}


def check_packages(names: Iterable[str], needed_by: str, way_out: str = "") -> None:
    """Refuse to start work that needs packages that are not installed."""
    for name in names:
        if find_spec(name) is None:
            extra = EXTRAS[name]
            raise ImportError(f"{needed_by} needs {name}: {validate.install(extra)}{way_out}.")


class NetworkQuantiles(BaseEstimator):  # type: ignore[misc]
    """Two quantiles of y given x, at alpha and 1 - alpha, by a small network under the pinball loss.

    The epoch is chosen on a held-out part: the smallest mean width among the epochs whose intervals hold at least
    1 - 2 alpha of it. The network is then trained again from its initial weights on all rows for as many steps. If no
    epoch reaches that share, it is trained for the steps of all epochs.

    Parameters
    ----------
    alpha : float, default=0.1
        The lower quantile; the upper one is 1 - alpha.
    hidden : int, default=64
        Units in each of the two hidden layers.
    dropout : float, default=0.1
        Share of hidden units dropped in training.
    epochs, batch_size, learning_rate, weight_decay, held_out
        Of the training with Adam; ``held_out`` is the share of rows that chooses the epoch.
    random_state : None, int or numpy random generator, optional
        Weights, batches and dropout. The global state of torch is left as it was.

    Examples
    --------
    >>> from aptset.experiments.baselines import NetworkQuantiles
    >>> network = NetworkQuantiles(alpha=0.1, epochs=50, random_state=0)
    """

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        hidden: int = 64,
        dropout: float = 0.1,
        epochs: int = 1000,
        batch_size: int = 64,
        learning_rate: float = 5e-4,
        weight_decay: float = 1e-6,
        held_out: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.held_out = held_out
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> NetworkQuantiles:
        """Choose the number of steps on a held-out part, then train on all rows."""
        check_packages(["torch"], "the quantile network")
        import torch

        lower = float(validate.alpha(self.alpha))
        X, y = validate_data(self, X, y, dtype=np.float32, y_numeric=True, ensure_min_samples=2)
        generator = validate.generator(self.random_state)
        order = generator.permutation(len(y))
        n_held = max(1, round(self.held_out * len(y)))
        features, target = torch.from_numpy(X), torch.from_numpy(np.asarray(y, dtype=np.float32))
        with _one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator.integers(2**63)))
            network = self._build(X.shape[1])
            start = {name: value.clone() for name, value in network.state_dict().items()}
            held, others = torch.from_numpy(order[:n_held]), torch.from_numpy(order[n_held:])
            best = _Best(self.epochs * -(-len(others) // self.batch_size), np.inf)
            steps = 0
            for epoch_steps in self._epochs(network, features[others], target[others], lower, None):
                steps += epoch_steps
                best = best.better(steps, *_judge(network, features[held], target[held]), 1 - 2 * lower)
            network.load_state_dict(start)
            for _ in self._epochs(network, features, target, lower, best.steps):
                pass
        self.n_steps_, self.network_ = best.steps, network.eval()
        return self

    def _build(self, n_features: int) -> Any:
        """Return p -> hidden -> hidden -> 2 with orthogonal weights, as the authors' network starts."""
        import torch
        from torch import nn

        widths = [n_features, self.hidden, self.hidden]
        layers: list[Any] = []
        for inner, outer in pairwise(widths):
            layers += [nn.Linear(inner, outer), nn.ReLU(), nn.Dropout(self.dropout)]
        network = nn.Sequential(*layers, nn.Linear(self.hidden, 2))
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight)
                torch.nn.init.zeros_(layer.bias)
        return network

    def _epochs(self, network: Any, features: Any, target: Any, lower: float, max_steps: int | None) -> Any:
        """Train with a fresh optimiser; yield the number of steps of each epoch."""
        import torch

        optimizer = torch.optim.Adam(
            network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        quantiles = torch.tensor([lower, 1 - lower])
        left = max_steps if max_steps is not None else self.epochs * -(-len(target) // self.batch_size)
        while left > 0:
            batches = torch.randperm(len(target)).split(self.batch_size)[:left]
            network.train()
            for batch in batches:
                optimizer.zero_grad()
                residual = target[batch, None] - network(features[batch])
                loss = torch.maximum(quantiles * residual, (quantiles - 1) * residual).sum(dim=1).mean()
                loss.backward()
                optimizer.step()
            left -= len(batches)
            yield len(batches)

    def predict(self, X: Any) -> Floats:
        """Return the two quantiles of each row, the smaller one first: crossing is undone by min and max."""
        check_is_fitted(self)
        return _quantiles(self.network_, validate_data(self, X, dtype=np.float32, reset=False))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order whatever the machine; threads only slow such small matrices down."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Best(NamedTuple):
    """The number of steps with the smallest width so far."""

    steps: int
    width: float

    def better(self, steps: int, coverage: float, width: float, target: float) -> _Best:
        return _Best(steps, width) if coverage >= target and width < self.width else self


def _quantiles(network: Any, X: Any) -> Floats:
    import torch

    with _one_thread(), torch.no_grad():
        raw = network.eval()(torch.as_tensor(X)).numpy().astype(np.float64)
    return np.asarray(np.sort(raw, axis=1))


def _judge(network: Any, features: Any, target: Any) -> tuple[float, float]:
    """Return the share of targets inside the intervals, and the intervals' mean width."""
    low, high = _quantiles(network, features).T
    inside = (target.numpy() >= low) & (target.numpy() <= high)
    return float(inside.mean()), float((high - low).mean())


class ForestQuantiles(BaseEstimator):  # type: ignore[misc]
    """Two quantiles of y given x, at alpha and 1 - alpha, by a quantile random forest (package quantile-forest).

    Parameters
    ----------
    alpha : float, default=0.1
        The lower quantile; the upper one is 1 - alpha.
    n_estimators, min_samples_split
        Of the forest; the defaults are the paper's.
    random_state : None or int, optional
        Of the forest.

    Examples
    --------
    >>> from aptset.experiments.baselines import ForestQuantiles
    >>> forest = ForestQuantiles(alpha=0.1, random_state=0)
    """

    def __init__(
        self, alpha: float = 0.1, *, n_estimators: int = 100, min_samples_split: int = 3, random_state: Any = None
    ) -> None:
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.min_samples_split = min_samples_split
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ForestQuantiles:
        """Grow the forest."""
        check_packages(["quantile_forest"], "the quantile forest")
        from quantile_forest import RandomForestQuantileRegressor

        validate.alpha(self.alpha)
        X, y = validate_data(self, X, y, dtype=np.float32, y_numeric=True)
        self.forest_ = RandomForestQuantileRegressor(
            n_estimators=self.n_estimators,
            min_samples_split=self.min_samples_split,
            max_samples_leaf=None,  # every row of a leaf counts, as in Meinshausen's forest; the default keeps one
            random_state=self.random_state,
        ).fit(X, y)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the two quantiles of each row."""
        check_is_fitted(self)
        lower = float(validate.alpha(self.alpha))
        X = validate_data(self, X, dtype=np.float32, reset=False)
        return np.asarray(self.forest_.predict(X, quantiles=[lower, 1 - lower]), dtype=np.float64)


REGRESSORS = {"network": NetworkQuantiles, "forest": ForestQuantiles}


class ConformalQuantileClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction sets from a quantile of the true label's probability: CQC, and CQC-RF with a forest.

    A third of the rows trains the classifier; on the second third the probability that it gives the true label is
    regressed on x, at a quantile q(x); the last third calibrates: the set holds the labels with p_y >= q(x) - c, where
    c is the ceil((1 - alpha)(n + 1))-th smallest q(x) - p_Y(x).

    Parameters
    ----------
    estimator : classifier
        Anything with ``fit`` and ``predict_proba``.
    quantiles : {"network", "forest"} or regressor, default="network"
        What regresses; its ``predict`` returns two columns, the lower and the upper quantile. "network" needs torch
        (extra ``network``), "forest" quantile-forest (extra ``forest``).
    side : {"upper", "lower"}, default="upper"
        Which quantile is kept. The code of Romano, Sesia and Candes keeps the upper one, at 1 - alpha; the paper that
        introduced CQC (Cauchois, Gupta, Duchi) the lower one, at alpha. Both are valid.
    alpha : float, default=0.1
        Miscoverage level, and the lower one of the two quantiles.
    random_state : None, int or numpy random generator, optional
        Decides the three parts, and every ``random_state`` that is None.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    model_, quantiles_
        The fitted classifier and regressor.
    corrections_ : array
        The sorted q(x) - p_Y(x) of the last third.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from aptset.experiments.baselines import ConformalQuantileClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = ConformalQuantileClassifier(GaussianNB(), quantiles="forest", random_state=0).fit(X, y)
    >>> bool(classifier.predict_set(X).covers(y).mean() > 0.85)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        quantiles: Any = "network",
        side: Literal["upper", "lower"] = "upper",
        alpha: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.quantiles = quantiles
        self.side = side
        self.alpha = alpha
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ConformalQuantileClassifier:
        """Train the classifier, regress, and calibrate, on one third of the rows each."""
        alpha = validate.alpha(self.alpha)
        validate.one_of(self.side, ("upper", "lower"), "side")
        check_estimator_can(self.estimator)
        table = {name: (lambda kind=kind: kind(float(alpha))) for name, kind in REGRESSORS.items()}
        regressor = check_choice(self.quantiles, table, "predict", "quantiles")
        X, y, classes = check_training_data(self, X, y, minimum=3)
        generator = validate.generator(self.random_state)
        first, second, third = thirds(len(y), generator)
        model, regressor = clone(self.estimator), clone(regressor)
        for part in (model, regressor):
            seed_unseeded(part, int(generator.integers(2**63)))
        model.fit(take(X, first), y[first])
        regressor.fit(take(X, second), _of_true_label(model, X, y, second, classes))
        lowest = _side(regressor.predict(take(X, third)), self.side)
        corrections = np.sort(lowest - _of_true_label(model, X, y, third, classes))
        self.model_, self.quantiles_, self.corrections_, self.classes_ = model, regressor, corrections, classes
        if hasattr(model, "n_features_in_"):
            self.n_features_in_ = model.n_features_in_
        return self

    def predict_set(self, X: Any, alpha: float | None = None) -> PredictionSets:
        """Return the prediction set of each row; at another alpha, the regression stays that of ``fit``."""
        check_is_fitted(self)
        level, n = self.alpha if alpha is None else alpha, len(self.corrections_)
        warn_if_too_few({"all": n}, [validate.alpha(level)], EVERYONE)
        k = conformal_rank(n, level)
        probabilities = np.asarray(probabilities_of(self.model_, X, self.classes_), dtype=np.float64)
        correction = np.inf if k > n else self.corrections_[k - 1]
        # The same difference as in fit, so that a row of the last third at the threshold is decided as it was there.
        scores = _side(self.quantiles_.predict(X), self.side)[:, None] - probabilities
        return _most_likely_first(scores <= correction, probabilities, self.classes_)

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return the probabilities of the classifier."""
        check_is_fitted(self)
        return probabilities_of(self.model_, X, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


def thirds(n: int, generator: np.random.Generator) -> list[NDArray[np.intp]]:
    """Divide n rows at random into three parts; of 1000 rows, 333, 334 and 333."""
    order = generator.permutation(n)
    first, last = n // 3, n // 3
    return [np.sort(part) for part in (order[:first], order[first : n - last], order[n - last :])]


def _side(quantiles: Floats, side: str) -> Floats:
    return np.asarray(quantiles, dtype=np.float64)[:, 1 if side == "upper" else 0]


def _of_true_label(model: Any, X: Any, y: NDArray[Any], rows: NDArray[np.intp], classes: NDArray[Any]) -> Floats:
    """Return the probability that a model gives the true label of some rows."""
    probabilities = probabilities_of(model, take(X, rows), classes)
    return np.asarray(probabilities[np.arange(len(rows)), columns_of(y[rows], classes)], dtype=np.float64)


def _most_likely_first(members: NDArray[np.bool_], probabilities: Floats, classes: NDArray[Any]) -> PredictionSets:
    order = np.argsort(-probabilities, axis=1, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(members.sum(axis=1), dtype=np.int64)])
    indices = order[np.take_along_axis(members, order, axis=1)].astype(np.int32)
    return PredictionSets.trusted(indptr, indices, classes)
