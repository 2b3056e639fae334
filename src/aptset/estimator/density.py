"""How many times as likely rows are in one place as in another, by a model that tells the places apart.

The weights of Tibshirani, Barber, Candès and Ramdas 2019, "Conformal prediction under covariate shift".
"""

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

from aptset.core import validate
from aptset.core.tables import is_table, names_of_columns
from aptset.core.validate import warn_caller
from aptset.estimator.checks import check_estimator_can
from aptset.estimator.fitting import fresh, seed_unseeded, take
from aptset.kernels.formula import Floats

_LARGEST_ODDS = 1e6


def check_places(X_source: Any, X_target: Any) -> None:
    """Refuse rows of two kinds, or of other columns."""
    tables = is_table(X_source), is_table(X_target)
    if tables[0] != tables[1] or (tables[0] and type(X_source) is not type(X_target)):
        kinds = f"{type(X_source).__name__} and {type(X_target).__name__}"
        raise TypeError(f"X_source and X_target must be of one kind; got {kinds}. Convert one of them.")
    if tables[0] and names_of_columns(X_source) != names_of_columns(X_target):
        raise ValueError(
            f"X_target must have the columns of X_source, {names_of_columns(X_source)}; got "
            f"{names_of_columns(X_target)}. Pass X_target[X_source.columns]."
        )
    shapes = [getattr(side, "shape", None) or np.shape(side) for side in (X_source, X_target)]
    if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
        raise ValueError(
            f"X_source and X_target must be 2-D with the same columns; got shapes {shapes[0]} and {shapes[1]}."
        )


def check_ratio_folds(n_folds: Any, n_source: int, n_target: int) -> int:
    """Return the number of folds: at least 2, and rows of both kinds for each."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer):
        raise TypeError(f"n_folds must be a whole number; got {n_folds!r}. Pass n_folds=5, for instance.")
    fewest = min(n_source, n_target)
    if not 2 <= n_folds <= fewest:
        raise ValueError(
            f"n_folds must be between 2 and the number of rows of either kind, {fewest}; got {n_folds}. The "
            "weight of a row must come from a model that was not trained on it, so folds are needed."
        )
    return int(n_folds)


def check_odds(chances: Floats) -> Floats:
    """Return the odds of chances, within bounds; say where a bound was needed."""
    if not (np.isfinite(chances).all() and (chances >= 0).all() and (chances <= 1).all()):
        row = int(np.argmin((chances >= 0) & (chances <= 1)))
        raise ValueError(f"estimator must give probabilities; got {chances[row]} for row {row} of both kinds together.")
    with np.errstate(divide="ignore"):
        odds = chances / (1 - chances)
    bounded = np.clip(odds, 1 / _LARGEST_ODDS, _LARGEST_ODDS)
    n_bounded = int((bounded != odds).sum())
    if n_bounded:
        warn_caller(
            f"{n_bounded} of {len(odds)} rows have odds beyond {_LARGEST_ODDS:g} to 1 between source and "
            "target: they were set to that bound, which the guarantee does not account for. Source and "
            "target hardly overlap, or the estimator is overconfident."
        )
    return bounded


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
    chances = _out_of_fold(model, X, is_target, folds, validate.generator(random_state))
    odds = check_odds(chances) * (n_source / n_target)
    source, target = odds[:n_source], odds[n_source:]
    size, share = source.sum() ** 2 / (source**2).sum(), source.max() / source.sum()
    return Ratio(source, target, float(size), float(roc_auc_score(is_target, chances)), float(share))


def _together(X_source: Any, X_target: Any) -> Any:
    """Return the rows of both, one after the other."""
    check_places(X_source, X_target)
    if is_table(X_source):
        import narwhals.stable.v2 as nw

        return nw.concat([nw.from_native(side, eager_only=True) for side in (X_source, X_target)]).to_native()
    return vstack([X_source, X_target]).tocsr() if issparse(X_source) else np.concatenate([X_source, X_target])


def _out_of_fold(
    estimator: Any, X: Any, is_target: NDArray[np.bool_], n_folds: int, generator: np.random.Generator
) -> Floats:
    """Return the chance of each row to be a target row under a model that was not trained on it."""
    fold = np.empty(len(is_target), dtype=np.intp)
    for kind in (False, True):  # as many of both in every fold, so that all models see the same proportions
        rows = np.flatnonzero(is_target == kind)
        fold[generator.permutation(rows)] = np.arange(len(rows)) % n_folds
    chances, seed = np.empty(len(is_target)), int(generator.integers(2**63))
    for number in range(n_folds):
        model = fresh(estimator)
        seed_unseeded(model, seed)
        train, held_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        model.fit(take(X, train), is_target[train].astype(np.int64))
        chances[held_out] = np.asarray(model.predict_proba(take(X, held_out)), dtype=np.float64)[:, 1]
    return chances
