"""What a score must be, whoever wrote it, and the form in which the loops take it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats, Formula, LinearScore, Places, broken_rule
from aptset.kernels.rows import Rows, all_scores_of_block
from aptset.scores import ALIASES, SCORES, Gridded, OfFunction, Ordered, Prevalence, Score, Tempered

AUTO = "auto"
BY_ORDER = {"ordered": "expanding", "central": "central"}  # names of scores that need labels with an order
_WAY_OUT = "Leave `weights` out: `of` alone works with any function."

# Rows on which a fast form shows what it is: even, one-hot, ties, labels without mass, labels that a sum cannot see.
_TRIAL = np.array(
    [
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [0.0, 1.0, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.0, 0.0, 0.0],
        [0.1, 0.4, 0.3, 0.15, 0.05],
        [0.25, 0.125, 0.125, 0.25, 0.25],
        [1e-17, 1.0, 1e-30, 2.0**-52, 2.0**-51],
        [0.375, 0.375, 0.0, 0.25, 1e-300],
    ]
)


def names_of_scores() -> list[str]:
    """Return every name that a score goes by."""
    return sorted({*SCORES, *ALIASES, *BY_ORDER})


def check_conformity(conformity: Any) -> Score:
    """Return the score that a name, an object or a function stands for."""
    if isinstance(conformity, str):
        return _named(conformity)
    if isinstance(conformity, type):
        raise TypeError(
            f"conformity must be a score, not a class; got {conformity!r}. Make one: {conformity.__name__}()."
        )
    if isinstance(conformity, Tempered | Gridded):
        return _around_another(conformity)
    if not hasattr(conformity, "of") and getattr(conformity, "weights", None) is None:
        if callable(conformity):
            return OfFunction(conformity)
        raise TypeError(
            f"conformity must be one of {names_of_scores()}, an object with of(places) or a function of places; "
            f"got {conformity!r}."
        )
    if type(conformity) not in (*SCORES.values(), Ordered):
        _check_fast_form(conformity)
    score: Score = conformity
    return score


def _around_another(conformity: Tempered | Gridded) -> Score:
    """Return a score that holds another one, which is checked as well."""
    inner = conformity.score
    if isinstance(inner, Gridded):
        raise ValueError(f"conformity must be put on a grid last, and once; got {conformity!r}. Swap the two.")
    if isinstance(conformity, Gridded):
        return Gridded(check_conformity(inner), conformity.resolution)
    if isinstance(inner, Tempered):
        raise ValueError(f"conformity must be tempered once; got {conformity!r}. Multiply the powers.")
    return Tempered(check_conformity(inner), conformity.power)


def _named(name: str) -> Score:
    if name.casefold() in BY_ORDER:
        return Ordered(BY_ORDER[name.casefold()])
    known = ALIASES.get(name.casefold(), name.casefold())  # "APS", "RAPS", "LAC": as papers write them
    if known in SCORES:
        return SCORES[known]()
    if known in ("pas", "prevalence"):
        raise ValueError(
            f"conformity={name!r} must know how often labels occur in training: pass "
            "aptset.Prevalence(collections.Counter(y_train))."
        )
    if name == AUTO:
        raise ValueError(
            "conformity must name a score here: 'auto' reserves rows to choose one, which calibrate() and "
            "ConformalClassifier can do. Choose with aptset.tune() on other rows and pass the score that it "
            "returns."
        )
    raise ValueError(
        f"conformity must be one of {names_of_scores()}, an object with of(places) or a function of places; "
        f"got {name!r}."
    )


def _check_fast_form(score: Any) -> None:
    """Refuse weights that the loops cannot take, or that mean another function than ``of``."""
    weights = getattr(score, "weights", None)
    if weights is None:
        return
    if not isinstance(weights, LinearScore):
        raise TypeError(f"conformity must have a LinearScore as weights; {score!r} has {weights!r}. {_WAY_OUT}")
    broken = broken_rule(weights)
    if broken is not None:
        raise ValueError(
            f"conformity must have weights that the loops can take; {score!r} has not: {broken}. {_WAY_OUT}"
        )
    if not hasattr(score, "of"):  # the weights alone say what it is
        return
    slow = Formula(None, _Checked(score))
    for u in (0.0, 0.375, 1.0):
        fast_scores, slow_scores = (
            all_scores_of_block(Rows(_TRIAL, formula, 0, 1e-9, u=np.full(len(_TRIAL), u)), 0, len(_TRIAL))[0]
            for formula in (Formula(weights), slow)
        )
        if not np.array_equal(fast_scores, slow_scores):
            raise ValueError(
                f"conformity must have weights that mean the same as its of(places), to the last bit; {score!r} scores "
                f"{fast_scores[fast_scores != slow_scores][0]!r} by weights and "
                f"{slow_scores[fast_scores != slow_scores][0]!r} by of. {_WAY_OUT}"
            )


def _order_of(labels: Any) -> tuple[Any, ...] | None:
    """Return the categories of an ordered categorical of pandas, from low to high; None for anything else."""
    dtype: Any = getattr(labels, "dtype", None)
    return tuple(dtype.categories.tolist()) if getattr(dtype, "ordered", None) is True else None


def for_classes(score: Score, classes: NDArray[Any], labels: Any = None) -> Score:
    """Return a checked score as it is computed for these classes: what it knows of labels goes to their columns.

    ``labels`` are those of calibration rows as they came: an ordered categorical has the order that a score may need.
    """
    if isinstance(score, Tempered | Gridded):
        return replace(score, score=for_classes(score.score, classes, labels))
    if isinstance(score, Ordered) and score.order is None:
        score = replace(score, order=_order_of(labels))
    bind = getattr(score, "for_classes", None)
    bound: Score = score if bind is None else bind(classes)
    return bound


def check_intervals(score: Score, by_label: bool) -> None:
    """Refuse a threshold for each label where sets must be intervals."""
    while isinstance(score, Tempered | Gridded):
        score = score.score
    if isinstance(score, Ordered) and by_label:
        raise ValueError(
            f"conformity={score!r} must have one threshold for all labels of a row, or sets have gaps; groups or "
            "weights by label give each its own. Group rows by a column, or take another score, such as 'adaptive'."
        )


def formula_of(score: Score) -> Formula:
    """Return a checked score as the loops take it."""
    if isinstance(score, Tempered):
        return replace(formula_of(score.score), power=float(score.power))
    if isinstance(score, Gridded):
        return replace(formula_of(score.score), grid=float(score.resolution))
    weights = getattr(score, "weights", None)
    if weights is not None:
        return Formula(weights)
    knows_fast = type(score) in (Ordered, Prevalence)  # a subclass may be another function
    return Formula(None, _Checked(score), fast=getattr(score, "fast", None) if knows_fast else None)


@dataclass(frozen=True)
class _Checked:
    """A score whose answers are looked at: a wrong shape or a missing number would give wrong sets in silence."""

    score: Score

    def __call__(self, places: Places) -> Floats:
        """Return the scores of a block of rows."""
        scores = self._scores(places)
        # A score that looks at other rows would make sets depend on the batch, and the promise void.
        if len(scores) > 1 and not np.array_equal(self._scores(places.first_row()), scores[:1]):
            raise ValueError(
                f"conformity must score each row from its own places alone; {self.score!r} scores a row differently "
                "when it comes with others. Use no sum or mean over the first axis."
            )
        return scores

    def _scores(self, places: Places) -> Floats:
        returned = self.score.of(places)
        try:
            scores = np.asarray(returned, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"conformity must return a matrix of numbers; {self.score!r} did not: {error}.") from error
        if scores.shape != places.own.shape:
            raise ValueError(
                f"conformity must return one score for every label, shape {places.own.shape} (rows, labels); "
                f"{self.score!r} returned shape {scores.shape}."
            )
        if not np.isfinite(scores).all():
            row, column = np.argwhere(~np.isfinite(scores))[0].tolist()
            raise ValueError(
                f"conformity must return finite scores; {self.score!r} returned {scores[row, column]} for a label with "
                f"mass {places.own[row, column]:g} and rank {places.rank[row, column]:g}. "
                "Labels without mass need a score too."
            )
        return scores
