"""How many times as likely rows are in one place as in another, by a model that tells the places apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _num_samples

from aptset.data.setting_checks import check_generator
from aptset.data.tables import is_table
from aptset.estimator.checks import check_estimator_can
from aptset.estimator.density_checks import check_odds, check_places, check_ratio_folds
from aptset.estimator.fitting import fresh, seed_unseeded, take
from aptset.kernels.formula import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Ratio:
    """Estimated density ratios of rows, target over source. Made by :func:`density_ratio`.

    Attributes
    ----------
    source, target : array of float
        The weight of each row of the source, and of the target: they have one constant.
    effective_size : float
        So many source rows of equal weight would say as much about the target.
    auc : float
        How well rows of the two are told apart: 0.5 is not at all, and 1 leaves nothing to learn from.
    largest_share : float
        The share of the largest weight in those of all source rows.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> aptset.Ratio(np.array([0.5, 1.5]), np.array([1.2]), effective_size=1.6, auc=0.6, largest_share=0.75)
    Ratio(2 source rows (1.6 effective), 1 target rows, AUC 0.6, largest share 0.75)
    """

    source: Floats
    target: Floats
    effective_size: float
    auc: float
    largest_share: float

    def __repr__(self) -> str:
        sizes = f"{len(self.source)} source rows ({self.effective_size:.4g} effective), {len(self.target)} target rows"
        return f"Ratio({sizes}, AUC {self.auc:.3g}, largest share {self.largest_share:.2g})"


def density_ratio(
    X_source: Any, X_target: Any, estimator: Any = None, n_folds: int = 5, random_state: Any = None
) -> Ratio:
    """Estimate how many times as likely each row is in the target as in the source, up to a constant.

    A classifier learns to tell target rows from source rows; a row's weight is the odds that it gives the row, as a
    model that was trained without the row. (In-sample odds of a flexible model are worthless: it remembers which rows
    came from where.)

    Parameters
    ----------
    X_source : array, sparse matrix or data frame
        The rows that calibrate, without labels.
    X_target : the same kind
        Rows like the new ones; best the new ones themselves, which need their weights anyway.
    estimator : classifier, optional
        With ``fit`` and ``predict_proba``; its probabilities must be meant as such. By default logistic regression on
        standardised columns.
    n_folds : int, default=5
        Number of random folds, with as many rows of both kinds in each.
    random_state : None, int or numpy random generator, optional
        Decides the folds, and every ``random_state`` of the estimator that is None.

    Returns
    -------
    Ratio

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> X, X_new = generator.normal(0, 1, size=(500, 1)), generator.normal(0.5, 1, size=(300, 1))
    >>> ratio = aptset.density_ratio(X, X_new, random_state=0)
    >>> ratio.source.shape, ratio.target.shape, round(ratio.auc, 1)
    ((500,), (300,), 0.6)
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)) if estimator is None else estimator
    check_estimator_can(model)
    n_source, n_target = _num_samples(X_source), _num_samples(X_target)
    X, is_target = _together(X_source, X_target), np.arange(n_source + n_target) >= n_source
    folds = check_ratio_folds(n_folds, n_source, n_target)
    chances = _out_of_fold(model, X, is_target, folds, check_generator(random_state))
    odds = check_odds(chances) * (n_source / n_target)
    source, target = odds[:n_source], odds[n_source:]
    size, share = source.sum() ** 2 / (source**2).sum(), source.max() / source.sum()
    return Ratio(source, target, float(size), float(roc_auc_score(is_target, chances)), float(share))


def _together(X_source: Any, X_target: Any) -> Any:
    """Return the rows of both, one after the other."""
    check_places(X_source, X_target)
    if is_table(X_source):
        import narwhals.stable.v2 as nw

        return nw.concat([nw.from_native(some, eager_only=True) for some in (X_source, X_target)]).to_native()
    return vstack([X_source, X_target]).tocsr() if issparse(X_source) else np.concatenate([X_source, X_target])


def _out_of_fold(
    estimator: Any, X: Any, is_target: NDArray[np.bool_], n_folds: int, generator: np.random.Generator
) -> Floats:
    """Return the chance of each row to be a target row under a model that was not trained on it."""
    fold = np.empty(len(is_target), dtype=np.intp)
    for kind in (False, True):  # as many of both in every fold, so that all models see the same proportions
        mine = np.flatnonzero(is_target == kind)
        fold[generator.permutation(mine)] = np.arange(len(mine)) % n_folds
    chances, seed = np.empty(len(is_target)), int(generator.integers(2**63))
    for number in range(n_folds):
        model = fresh(estimator)
        seed_unseeded(model, seed)
        train, held_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        model.fit(take(X, train), is_target[train].astype(np.int64))
        chances[held_out] = np.asarray(model.predict_proba(take(X, held_out)), dtype=np.float64)[:, 1]
    return chances
