"""Prediction sets as nodes of a graph: probabilities in, masks, order, sizes and validity out.

Twin of :mod:`aptset.kernels.engines.numpy_engine`. Masses are whole numbers of grid steps in float64, whose sums are
exact in any order; hashes and ties are unsigned words; scores are the library's own formulas, traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.engines.interface import BLOCK_ROWS
from aptset.kernels.formula import (
    Floats,
    Formula,
    OwnMass,
    Weights,
    mass_score,
    normalised,
    tempered,
    zero_score,
)
from aptset.kernels.rowhash import GOLDEN, column_keys, hash_words, mix, seeds_of, ties, uniforms
from aptset.kernels.rows import PREDICTION
from aptset.kernels.softmax import softmax
from aptset.onnx.tracing import ONNX, Graph, Value, canonical_words, floats_of, looked_up, nearest, where, words_of

Traced = Any  # a Value, or an array where numbers alone decide: the formulas speak of arrays

_GRID = 2.0**51
_TOO_MUCH = 3.0  # stands for what is no probability: no row with it sums to 1
_DROPPED_BITS = 20  # of probabilities that a classifier asks its model for


@dataclass(frozen=True)
class Search:
    """Calibration scores of each cell, filled up with infinity to one width, a power of two, and the p-value of each
    count of scores below a label's own.
    """

    scores: Floats
    p_values: Floats
    width: int


@dataclass(frozen=True)
class GraphSettings:
    """All that the sets of a row depend on, besides the row."""

    formula: Formula
    key: int
    n_classes: int
    tolerance: float
    randomized: bool
    logits: bool
    normalize: bool
    min_size: int
    thresholds: Floats  # ([levels,] groups, 1 or labels), the last group being one never seen
    search: Search | None = None
    cells: NDArray[np.int64] | None = None  # (groups, 1 or labels), for the search
    steady: bool = False  # whether probabilities are rounded as a classifier rounds those of its model


class Sets(NamedTuple):
    """The outputs."""

    mask: Value
    order: Value
    sizes: Value
    valid: Value
    p_values: Value | None


def sets_of(settings: GraphSettings, given: Traced, u: Traced, groups: Traced, features: Traced) -> Sets:
    """Write the graph.

    ``given`` are probabilities or logits, (rows, classes); ``u`` one number per row, if it is an input; ``groups`` the
    number of the group of each row, if rows have groups; ``features`` what is hashed, if it is not ``given``.
    """
    wide = given if given.dtype == np.float64 else given.astype(np.float64)
    values = _probabilities(settings, wide)
    values = where(values >= 0.0, values, _TOO_MUCH)  # what is above 1, or infinite, spoils the sum by itself
    steps = nearest(values * _GRID)
    total = steps.sum(axis=1)
    valid = abs(total - _GRID) <= settings.tolerance * _GRID
    seeds = _seeds(settings, wide, values, features)
    drawn: Any = np.ones(1)
    if u is not None:
        is_uniform = (u >= 0.0) & (u <= 1.0)
        valid, drawn = valid & is_uniform[:, None], where(is_uniform, u, 0.0)
    elif settings.randomized:
        drawn = uniforms(seeds)
    order, steps = _in_order(values, seeds, drawn, steps)
    scores = _in_columns(order, _scores(settings, order, steps, total, drawn[:, None]))
    return _outputs(settings, scores, order, valid, groups)


def _probabilities(settings: GraphSettings, wide: Traced) -> Traced:
    """Return the probabilities that are scored; rows that have none hold NaN."""
    values = wide
    if settings.logits:
        most = values.reduced("ReduceMax")
        largest = float(np.finfo(np.float64).max)
        is_sound = (values <= largest).all(1) & (most >= -largest)
        values = where(is_sound, softmax(where(is_sound, values, 0.0), ONNX), np.nan)
    if settings.steady:
        values = _steady(values)
    if settings.normalize:
        values = normalised(values, ONNX)
    if settings.formula.power != 1.0:
        values = tempered(values, settings.formula.power, settings.tolerance, ONNX)
    return values


def _steady(values: Traced) -> Traced:
    """Round to 33 significant bits, as a classifier does with what its model says; what is no probability stays."""
    is_probability = (values >= 0.0) & (values <= 2.0)
    words = words_of(where(is_probability, values, 0.0)) + np.uint64(1 << (_DROPPED_BITS - 1))
    kept = words & np.uint64(2**64 - (1 << _DROPPED_BITS))
    return where(is_probability, floats_of(kept), values)


def _seeds(settings: GraphSettings, wide: Traced, values: Traced, features: Traced) -> Traced:
    """Return the seed of each row: of its content, and of which copy it is in its block of rows."""
    graph = wide.graph
    words: Traced
    if features is not None:
        words = canonical_words(features if features.dtype == np.float64 else features.astype(np.float64))
    else:
        words = canonical_words(wide) if settings.logits else words_of(values)
    hashes = hash_words(words, column_keys(settings.key, words.width)).sum(axis=1, keepdims=False)
    seeds: Traced = seeds_of(hashes, settings.key)
    n_rows = graph.value("Size", seeds, dtype=np.int64)
    return graph.choose(n_rows > 1, lambda branch: _own_seeds(seeds.within(branch)), seeds)


_FLIP = np.uint64(2**63)  # between the order of unsigned words and that of signed ones


def _own_seeds(seeds: Traced) -> Traced:
    """Return the seeds with every copy's own in its place (``copies`` of the numpy engine).

    Equal seeds stand together once they are sorted, in the order of their rows; their number in such a run, in their
    block of rows, is their place less that of its first.
    """
    graph = seeds.graph
    n_rows = graph.value("Shape", seeds, dtype=np.int64)
    in_order, by_seed = graph.add("TopK", seeds.astype(np.int64), n_rows, axis=0, largest=0, outputs=2)
    ordered, order = Value(graph, in_order, np.int64), Value(graph, by_seed, np.int64)
    place = _numbers(graph, n_rows)
    shift = graph.constant([BLOCK_ROWS], np.int64)
    block = graph.value("Div", order, shift, dtype=np.int64)
    is_new = ~(ordered.equals(_previous(ordered)) & block.equals(_previous(block))) | place.equals(0)
    run = graph.value("CumSum", is_new.astype(np.int64), graph.constant(0, np.int64), dtype=np.int64) - 1
    starts = graph.value("Compress", place, is_new, dtype=np.int64)
    number = place - graph.value("Gather", starts, run, dtype=np.int64)
    number = graph.value("ScatterElements", place, order, number, axis=0, dtype=np.int64)
    block_of_row = graph.value("Div", place, shift, dtype=np.int64)
    salt = ((block_of_row * BLOCK_ROWS + number) * 2 + PREDICTION).astype(np.uint64)
    own = mix(seeds + mix(salt + np.uint64(GOLDEN)))
    return where(number > 0, own.astype(np.int64), seeds.astype(np.int64)).astype(np.uint64)


def _numbers(graph: Graph, n_rows: Traced) -> Traced:
    """Return 0, 1, ... for the rows."""
    scalar = graph.value("Squeeze", n_rows, dtype=np.int64)
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    return graph.value("Range", zero, scalar, one, dtype=np.int64)


def _previous(values: Traced) -> Traced:
    """Return the value of the row before each; the first row has its own."""
    graph = values.graph
    zero, one, last = (graph.constant([number], np.int64) for number in (0, 1, -1))
    first = graph.add("Slice", values, zero, one)
    return graph.value("Concat", first, graph.add("Slice", values, zero, last), axis=0, dtype=values.dtype)


def _in_order(values: Traced, seeds: Traced, u: Any, steps: Traced) -> tuple[Traced, Traced]:
    """Return the labels of each row, probability downward and equal ones by their keyed tie, and their masses."""
    graph, width = values.graph, values.width
    ordered, order = _sorted(values, largest=1)
    has_ties = ordered[:, 1:].equals(ordered[:, : width - 1]).astype(np.int32)
    any_tie = graph.value("ReduceMax", has_ties, dtype=np.int32, keepdims=0).astype(np.bool_)

    def by_ties(branch: Graph) -> Traced:
        uniform: Traced = u.within(branch) if isinstance(u, Value) else u
        breakers = ties(seeds.within(branch), uniform, width) ^ _FLIP
        _, by_tie = _sorted(breakers.astype(np.int64), largest=0)
        _, by_value = _sorted(_taken(values.within(branch), by_tie), largest=1)
        return _taken(by_tie, by_value)

    order = graph.choose(any_tie, by_ties, order)
    return order, _taken(steps, order)


def _sorted(values: Traced, largest: int) -> tuple[Traced, Traced]:
    """Sort each row; of equal values the first stays first, which is a rule of TopK."""
    graph = values.graph
    every = graph.constant([values.width], np.int64)
    ordered, order = graph.add("TopK", values, every, axis=1, largest=largest, outputs=2)
    return Value(graph, ordered, values.dtype, values.width), Value(graph, order, np.int64, values.width)


def _taken(values: Traced, order: Traced) -> Traced:
    return order.graph.value("GatherElements", values, order, axis=1, dtype=values.dtype, width=order.width)


def _in_columns(order: Traced, scores: Traced) -> Traced:
    """Return scores that stand in order of the labels as columns."""
    return order.graph.value("ScatterElements", scores, order, scores, axis=1, dtype=np.float64, width=order.width)


def _scores(settings: GraphSettings, order: Traced, steps: Traced, total: Traced, u: Any) -> Traced:
    """Return the score of every label, in order (``ordered_scores`` of the numpy engine)."""
    graph, formula, n = steps.graph, settings.formula, settings.n_classes
    above = graph.value("CumSum", steps, graph.constant(1, np.int64), exclusive=1, dtype=np.float64, width=n)
    rank = np.arange(1.0, n + 1.0)[None, :]
    weights = formula.weights
    if weights is None:
        assert isinstance(formula.fast, OwnMass)
        own = formula.fast
        factors = looked_up(own.factors, order)
        scores = -(steps * factors) / total + (own.constant + own.u * u)
        weights = Weights()
    else:
        scores = mass_score(weights, above, steps, steps[:, 0:1], steps[:, 1:2], total, rank, u, ONNX)
    if not weights.behind:
        return _spread(scores, steps)
    has_mass = steps > 0.0
    with_mass = has_mass.astype(np.float64).sum(axis=1)
    zeros = (float(n) - with_mass)._with("Max", 1.0)
    behind = zero_score(weights, (rank - 1.0) - with_mass, zeros, rank, u, ONNX)
    return _spread(where(has_mass, scores, behind), steps)


def _spread(scores: Any, steps: Traced) -> Traced:
    """Return one score for every label of every row, where the formula gave fewer since they are equal."""
    is_whole = isinstance(scores, Value) and scores.width == steps.width
    return scores if is_whole else where(steps >= 0.0, scores, 0.0)


def _outputs(settings: GraphSettings, scores: Traced, order: Traced, valid: Traced, groups: Traced) -> Sets:
    """Compare the scores with thresholds; rows that are not valid hold every label."""
    graph, n = scores.graph, settings.n_classes
    of_groups = settings.thresholds
    if groups is None:
        thresholds: Any = of_groups[..., 0, :] if of_groups.ndim == 2 else of_groups[:, :1, :]
    else:
        thresholds = looked_up(of_groups, groups, axis=of_groups.ndim - 2)
    inside = where(valid, scores, -np.inf) <= thresholds
    if settings.min_size:
        is_first = order[:, 0:1].equals(np.arange(n)[None, :])
        is_empty = ~inside.astype(np.int32).reduced("ReduceMax", -1).astype(np.bool_)
        inside = inside | (is_first & is_empty)
    sizes = inside.astype(np.int64).reduced("ReduceSum", -1, keepdims=False)
    flat = graph.value("Squeeze", valid, graph.constant([1], np.int64), dtype=np.bool_)
    return Sets(inside, order, sizes, flat, _p_values(settings, scores, valid, groups))


def _p_values(settings: GraphSettings, scores: Traced, valid: Traced, groups: Traced) -> Traced:
    """Count the scores of the label's cell below its own by bisection, and look the p-value of the count up."""
    search = settings.search
    if search is None:
        return None
    assert settings.cells is not None
    starts = settings.cells * search.width
    place: Traced = starts[:1] if groups is None else looked_up(starts, groups)
    step = search.width // 2
    while step:
        at = place + (step - 1)
        probed = looked_up(search.scores, at) if isinstance(at, Value) else search.scores[at]
        place = (scores > probed).astype(np.int64) * np.int64(step) + place
        step //= 2
    return where(valid, looked_up(search.p_values, place), 1.0)
