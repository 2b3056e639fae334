"""Sets of a long table, piece by piece: those of all its rows at once, whatever the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aptset.core.randomization import NewU, check_ids
from aptset.core.validate import check_alphas, warn_if_too_few
from aptset.kernels.rowhash import Words
from aptset.sets import PredictionSets


class SetsOfPieces:
    """Predicts consecutive pieces of one table; each but the last has a multiple of 4096 rows.

    Parameters
    ----------
    classifier : ConformalClassifier
        A fitted one.
    alphas : sequence of float
        The levels.
    n_rows : int or None
        How many rows the table has, if that is known.
    """

    def __init__(self, classifier: Any, alphas: Sequence[float], n_rows: int | None) -> None:
        self._classifier, self._fitted = classifier, classifier._fitted()
        self._alphas, _ = check_alphas(list(alphas))
        self._levels = classifier._levels(self._alphas, self._fitted.promises)
        self._n_rows, self._met = n_rows, dict[Any, int]()
        self._seeds: list[Words] = []
        self.rows = 0

    def of(self, X: Any, groups: Any, ids: Any, u: NewU = None) -> list[PredictionSets]:
        """Return the sets of the next piece at each level."""
        is_whole = self.rows == 0 and len(X) == self._n_rows
        samples, values = self._fitted.rule.samples(X, groups, u, ids, self.rows, is_whole)
        self._met |= self._fitted.held_out.resolve_groups(values, len(samples))[1]
        if ids is not None:
            self._seeds.append(samples.seeds)
        self.rows += len(samples)
        classifier = self._classifier
        if samples.weights is not None:
            self._fitted.warn(samples, values, self._alphas, self._levels)
        sets: list[PredictionSets] = self._fitted.sets(samples, self._levels, classifier.allow_empty, classifier.n_jobs)
        return sets

    def finish(self) -> None:
        """Check what only all pieces together tell: ids that do not tell rows apart, and groups that are too small."""
        if self._seeds:
            check_ids(np.concatenate(self._seeds), self.rows, least_distinct=0.05, fewest=100)
        if not self._fitted.promises.is_weighted:  # of weights, pieces have told
            warn_if_too_few(self._met, self._alphas, self._fitted.rule.groups.kind, levels=self._levels)
