"""Choose the score of a classifier on rows that are set aside for nothing else."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_method_params

from aptset.calibrations.cross import random_folds
from aptset.calibrations.tuning import Tuning, choose
from aptset.data.groups.ids import EVERYONE
from aptset.data.labels import columns_of
from aptset.data.matrix_checks import (
    OF_ESTIMATOR,
    tolerance_of,
)
from aptset.data.setting_checks import check_alpha
from aptset.estimator import fitting
from aptset.kernels.places import Rows
from aptset.probabilities.chance.seeds import id_seeds, row_seeds
from aptset.running.progress import with_bar
from aptset.scores import Adaptive, Score
from aptset.scores.conformity import formula_of

_FOLDS = 5


class Rest(NamedTuple):
    """The score that was chosen, and the rows that are left to train and calibrate."""

    score: Score
    rows: NDArray[np.intp]
    fit_params: dict[str, Any]

    def of(self, *values: Any) -> list[Any]:
        """Return what belongs to these rows; what is None or the name of a column stays."""
        return [
            value if value is None or isinstance(value, str) else fitting.take(value, self.rows) for value in values
        ]


def set_aside_and_choose(
    settings: Any,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    fit_params: dict[str, Any],
    key: int,
    generator: np.random.Generator,
    ids: NDArray[Any] | None = None,
) -> Rest:
    """Draw the rows that choose, let them choose, and return the others.

    The choice depends on the drawn rows alone (and on a frozen model): also the models that give them probabilities are
    trained on them, out of fold. So whatever calibration follows on the other rows, its theorem applies as it stands.
    """
    tuning = Tuning(check_alpha(settings.alpha))
    reserved = tuning.reserve(len(y), generator)
    chosen, rest = np.flatnonzero(reserved), np.flatnonzero(~reserved)
    some_X, some_y = fitting.take(X, chosen), y[chosen]
    some_params = _check_method_params(X, fit_params, indices=chosen)
    probabilities = _out_of_fold(settings, some_X, some_y, classes, some_params, key, generator)
    uniforms = None if settings.randomized else np.ones(len(some_y))
    seeds = row_seeds(some_X, key) if ids is None else id_seeds(ids[chosen], key)
    tolerance = tolerance_of(probabilities)
    rows = Rows(probabilities, formula_of(Adaptive()), key, tolerance, seeds, uniforms)
    score, _ = choose(rows, columns_of(some_y, classes), tuning, OF_ESTIMATOR)
    return Rest(score, rest, _check_method_params(X, fit_params, indices=rest))


def _out_of_fold(
    settings: Any,
    X: Any,
    y: NDArray[Any],
    classes: NDArray[Any],
    fit_params: dict[str, Any],
    key: int,
    generator: np.random.Generator,
) -> NDArray[np.generic]:
    """Return the probabilities of each row under a model that was not trained on it."""
    if fitting.is_frozen(settings.estimator):
        return fitting.probabilities_of(settings.estimator, X, classes)
    folds = random_folds(len(y), _FOLDS, generator)
    drawn = generator.integers(2**63, size=_FOLDS).tolist()
    seeds = drawn if settings.random_state is not None else [None] * _FOLDS
    samples = fitting.Samples(X, row_seeds(X, key), None, None, formula_of(Adaptive()), key)
    training = fitting.Training(settings.estimator, samples, y, classes, EVERYONE, folds, seeds, fit_params)
    parts = [
        fitting.probabilities_of(training.fit_model(f), fitting.take(X, fold.held_out), classes)
        for f, fold in with_bar(enumerate(folds), [1] * _FOLDS, "folds to choose on", settings.progress)
    ]
    probabilities = np.empty((len(y), len(classes)), dtype=np.result_type(*parts))
    for fold, part in zip(folds, parts, strict=True):
        probabilities[fold.held_out] = part
    return probabilities
