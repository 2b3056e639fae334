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
    LinearScore,
    OwnMass,
    mass_score,
    normalised,
    tempered,
    zero_score,
)
from aptset.kernels.rowhash import GOLDEN, column_keys, hash_words, mix, seeds_of, ties, uniforms
from aptset.kernels.rows import PREDICTION
from aptset.kernels.softmax import softmax
from aptset.onnx.joining import Host, add_input, add_numbers_of_groups, hashed_features, opset_of, placed
from aptset.onnx.tracing import (
    ONNX,
    WIDE,
    Graph,
    Value,
    any_of,
    canonical_words,
    floats_of,
    looked_up,
    nearest,
    type_code,
    where,
    words_of,
)

Traced = Any  # a Value, or an array where numbers alone decide: the formulas speak of arrays

_GRID = 2.0**51
_TOO_MUCH = 3.0  # stands for what is no probability: no row with it sums to 1
SHORT = 32  # labels of a row that are sorted first, where nobody asked for the order
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
    order: bool = True  # whether the order of all labels is an output

    @property
    def is_short(self) -> bool:
        """Whether sets can be told from the first labels of a row, if they end among them."""
        is_asked = self.order or self.search is not None or self.min_size > 0
        in_order, ends = self.formula.linear is not None, bool(np.isfinite(self.thresholds.max()))
        return not is_asked and in_order and ends and self.n_classes > WIDE


class Sets(NamedTuple):
    """The outputs."""

    mask: Value
    order: Value | None
    sizes: Value
    valid: Value
    p_values: Value | None


def write_sets(
    settings: GraphSettings, host: Host, columns: NDArray[np.int64] | None, is_u_given: bool, names: list[Any]
) -> tuple[Sets, Graph]:
    """Write the graph of the sets, and the inputs that it needs besides those of the model.

    ``columns`` are the places of the model's classes, where it is that of a classifier, which hashes features;
    ``names`` are those of the groups of rows.
    """
    graph, features, u, groups = Graph(opset_of(host.model)), None, None, None
    given = Value(graph, host.given, host.dtype, settings.n_classes)
    if columns is not None:
        features = Value(graph, *hashed_features(host))
        given = placed(given, columns, settings.n_classes)
    if is_u_given:
        u = Value(graph, add_input(host, "u", type_code(np.float64)), np.float64)
    if names:
        groups = add_numbers_of_groups(host, graph, names)
    return _sets_of(settings, given, u, groups, features), graph


def _sets_of(settings: GraphSettings, given: Traced, u: Traced, groups: Traced, features: Traced) -> Sets:
    """Return the outputs.

    ``given`` are probabilities or logits, (rows, classes); ``u`` one number per row, if it is an input; ``groups`` the
    number of the group of each row, if rows have groups; ``features`` what is hashed, if it is not ``given``.
    """
    wide = given if given.dtype == np.float64 else given.astype(np.float64)
    values = _probabilities(settings, wide)
    values = where(values >= 0.0, values, _TOO_MUCH)  # what is above 1, or infinite, spoils the sum by itself
    hashed = _Hashed(settings, wide, values, features)
    is_uniform, drawn = None, np.ones((1, 1))
    if u is not None:
        u = u[:, None]
        is_uniform = _is_within(u, 0.0, 1.0)
        drawn = where(is_uniform, u, 0.0)
    elif settings.randomized:
        hashed.seeds = hashed.write_seeds(values.graph)
        drawn = uniforms(hashed.seeds)
    if settings.is_short:
        steps = nearest(values * _GRID)
        total = steps.sum(axis=1)
        order, scores = None, _short_scores(settings, values, total, drawn, hashed)
    else:
        order, steps = _in_order(values, drawn, hashed)
        total = steps.sum(axis=1)
        scores = _in_columns(order, _scores(settings, order, steps, total, drawn))
    margin = float(np.floor(settings.tolerance * _GRID))
    valid = _is_within(total, _GRID - margin, _GRID + margin)
    return _outputs(settings, scores, order, valid if is_uniform is None else valid & is_uniform, groups)


def _is_within(values: Traced, low: float, high: float) -> Traced:
    """Tell which values are within bounds; NaN is not."""
    graph = values.graph
    bounds = [graph.constant(bound, np.float64) for bound in (low, high)]
    return values.equals(graph.value("Clip", values, *bounds, dtype=np.float64, width=values.width))


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


@dataclass
class _Hashed:
    """What the seeds of rows come from; the seeds themselves, where all rows need them and not only those with ties."""

    settings: GraphSettings
    wide: Traced
    values: Traced
    features: Traced
    seeds: Traced = None

    def within(self, graph: Graph) -> Traced:
        """Return the seeds in a branch of the graph."""
        return self.write_seeds(graph) if self.seeds is None else self.seeds.within(graph)

    def write_seeds(self, graph: Graph) -> Traced:
        """Return the seed of each row: of its content, and of which copy it is in its block of rows."""
        words: Traced
        if self.features is not None:
            features = self.features.within(graph)
            words = canonical_words(features if features.dtype == np.float64 else features.astype(np.float64))
        elif self.settings.logits:
            words = canonical_words(self.wide.within(graph))
        else:
            words = words_of(self.values.within(graph))
        key = self.settings.key
        seeds: Traced = seeds_of(hash_words(words, column_keys(key, words.width)).sum(axis=1), key)
        n_rows = graph.value("Size", seeds, dtype=np.int64)
        return graph.choose(n_rows > 1, lambda branch: _own_seeds(seeds.within(branch)), seeds)


_FLIP = np.uint64(2**63)  # between the order of unsigned words and that of signed ones


def _own_seeds(seeds: Traced) -> Traced:
    """Return the seeds with every copy's own in its place (``copies`` of the numpy engine).

    Equal seeds stand together once they are sorted, in the order of their rows; their number in such a run, in their
    block of rows, is their place less that of its first.
    """
    graph = seeds.graph
    seeds = graph.value("Squeeze", seeds, graph.constant([1], np.int64), dtype=np.uint64)
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
    return where(number > 0, own.astype(np.int64), seeds.astype(np.int64)).astype(np.uint64)[:, None]


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


def _in_order(values: Traced, u: Any, hashed: _Hashed) -> tuple[Traced, Traced]:
    """Return the labels of each row, probability downward and equal ones by their keyed tie, and their masses."""
    graph, width = values.graph, values.width
    ordered, order = _sorted(values, width, largest=1)

    def by_ties(branch: Graph) -> Traced:
        uniform: Traced = u.within(branch) if isinstance(u, Value) else u
        breakers = ties(hashed.within(branch), uniform, width) ^ _FLIP
        _, by_tie = _sorted(breakers.astype(np.int64), width, largest=0)
        _, by_value = _sorted(_taken(values.within(branch), by_tie), width, largest=1)
        return _taken(by_tie, by_value)

    order = graph.choose(any_of(_are_tied(ordered)), by_ties, order)
    return order, nearest(ordered * _GRID)  # those of ties are equal


def _are_tied(ordered: Traced) -> Traced:
    """Tell which values of each row equal the one before them."""
    return ordered[:, 1:].equals(ordered[:, : ordered.width - 1])


def _sorted(values: Traced, width: int, largest: int) -> tuple[Traced, Traced]:
    """Sort each row, or begin to; of equal values the first stays first, which is a rule of TopK."""
    graph = values.graph
    ordered, order = graph.add("TopK", values, graph.constant([width], np.int64), axis=1, largest=largest, outputs=2)
    return Value(graph, ordered, values.dtype, width), Value(graph, order, np.int64, width)


def _taken(values: Traced, order: Traced) -> Traced:
    return order.graph.value("GatherElements", values, order, axis=1, dtype=values.dtype, width=order.width)


def _in_columns(order: Traced, scores: Traced, others: Traced = None) -> Traced:
    """Return scores that stand in order of the labels as columns; labels that are not there have other ones."""
    others = scores if others is None else others
    return order.graph.value("ScatterElements", others, order, scores, axis=1, dtype=np.float64, width=others.width)


def _short_scores(settings: GraphSettings, values: Traced, total: Traced, u: Any, hashed: _Hashed) -> Traced:
    """Return the scores of the first labels of each row as columns, with infinity for the others.

    Scores do not fall along the row: what follows a label that is above every threshold is, too. A batch with a row
    whose last label is not, or with ties that may change a set, is sorted to its end.
    """
    graph = values.graph
    ordered, order = _sorted(values, SHORT, largest=1)
    scores = _scores(settings, order, nearest(ordered * _GRID), total, u)
    may_be_inside = scores <= float(settings.thresholds.max())
    is_open = (_are_tied(ordered) & may_be_inside[:, : SHORT - 1]) | may_be_inside[:, SHORT - 1 :]

    def to_the_end(branch: Graph) -> Traced:
        uniform: Traced = u.within(branch) if isinstance(u, Value) else u
        whole, steps = _in_order(values.within(branch), uniform, hashed)
        return _in_columns(whole, _scores(settings, whole, steps, total.within(branch), uniform))

    return graph.choose(any_of(is_open), to_the_end, _in_columns(order, scores, values + np.inf))


def _scores(settings: GraphSettings, order: Traced, steps: Traced, total: Traced, u: Any) -> Traced:
    """Return the score of every label, in order (``ordered_scores`` of the numpy engine)."""
    graph, formula, width = steps.graph, settings.formula, steps.width
    above = graph.value("CumSum", steps, graph.constant(1, np.int64), exclusive=1, dtype=np.float64, width=width)
    rank = np.arange(1.0, width + 1.0)[None, :]
    linear = formula.linear
    if linear is None:
        assert isinstance(formula.fast, OwnMass)
        own = formula.fast
        factors = looked_up(own.factors, order)
        scores = -(steps * factors) / total + (own.constant + own.u * u)
        linear = LinearScore()
    else:
        scores = mass_score(linear, above, steps, steps[:, 0:1], steps[:, 1:2], total, rank, u, ONNX)
    if not linear.behind or _stays_behind(settings, linear):
        return _spread(scores, steps)
    has_mass = steps > 0.0
    if _none_behind(settings):
        return _spread(where(has_mass, scores, np.inf), steps)
    with_mass = has_mass.astype(np.float64).sum(axis=1)
    zeros = (float(settings.n_classes) - with_mass)._with("Max", 1.0)
    behind = zero_score(linear, (rank - 1.0) - with_mass, zeros, rank, u, ONNX)
    return _spread(where(has_mass, scores, behind), steps)


def _none_behind(settings: GraphSettings) -> bool:
    """Tell whether no set holds a label without mass: it scores at least 1, and no threshold reaches that."""
    return settings.search is None and bool(settings.thresholds.max() < 1.0)


def _stays_behind(settings: GraphSettings, w: LinearScore) -> bool:
    """Tell whether labels without mass are in no set, and score at least 1 as others do: all mass is above them."""
    return _none_behind(settings) and w.above == 1.0 and w.top >= 0.0 and w.constant + min(w.u, 0.0) >= 0.0


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
    inside = (scores <= thresholds) | ~valid
    if settings.min_size:
        is_first = order[:, 0:1].equals(np.arange(n)[None, :])
        is_empty = ~inside.astype(np.int32).reduced("ReduceMax", -1).astype(np.bool_)
        inside = inside | (is_first & is_empty)
    kind = np.float32 if n > WIDE else np.int64  # floats are added several at a time
    sizes = inside.astype(kind).reduced("ReduceSum", -1, keepdims=False)
    sizes = sizes if n <= WIDE else sizes.astype(np.int64)
    flat = graph.value("Squeeze", valid, graph.constant([1], np.int64), dtype=np.bool_)
    return Sets(inside, order if settings.order else None, sizes, flat, _p_values(settings, scores, valid, groups))


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
