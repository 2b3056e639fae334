"""The quantile network of conformal quantile classification; torch is imported when one is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from aptset.core.validate import check_alpha, check_generator
from aptset.kernels.formula import Floats

EXTRAS = {"torch": "network", "quantile_forest": "forest", "matplotlib": "plots", "pandas": "frames", "pyarrow": "cli"}


def check_packages(names: Iterable[str], needed_by: str, way_out: str = "") -> None:
    """Refuse to start work that needs packages that are not installed."""
    for name in names:
        if find_spec(name) is None:
            extra = EXTRAS[name]
            raise ImportError(f"{needed_by} needs {name}: pip install 'aptset[{extra}]'{way_out}.")


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

        lower = float(check_alpha(self.alpha))
        X, y = validate_data(self, X, y, dtype=np.float32, y_numeric=True, ensure_min_samples=2)
        generator = check_generator(self.random_state)
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

        check_alpha(self.alpha)
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
        lower = float(check_alpha(self.alpha))
        X = validate_data(self, X, dtype=np.float32, reset=False)
        return np.asarray(self.forest_.predict(X, quantiles=[lower, 1 - lower]), dtype=np.float64)
