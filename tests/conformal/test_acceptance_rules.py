"""Which rows to act on: the rules against their definitions in exact rationals, and against laws that were searched."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, inf, lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aptset.calibration.acceptance_threshold import (
    Boundary,
    automatic,
    band,
    batch_bound,
    bonferroni,
    both,
    counts_allowed,
    crossing,
    ranks_of,
    rows_needed,
    sequence,
)

TENTH, NONE = Fraction(1, 10), np.empty(0, dtype=np.int64)
_ROWS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12)
_ERRORS = st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=60)


def acted_on(rows, new, error):
    """Benjamini-Hochberg on conformal p-values, literally."""
    p_values = [Fraction(1 + sum(w and c >= mine for c, w in rows), len(rows) + 1) for mine in new]
    passing = [k for k in range(1, len(new) + 1) if sorted(p_values)[k - 1] <= error * k / len(new)]
    limit = sorted(p_values)[max(passing) - 1] if passing else -1
    return [p_value <= limit for p_value in p_values]


def by_bound(rows, new, error):
    wrong = np.sort([float(c) for c, w in rows if w])[::-1]
    return (np.array(new, dtype=float) > batch_bound(wrong, len(rows), np.array(new, dtype=float), error)).tolist()


@given(_ROWS, st.lists(st.integers(-1, 5), min_size=1, max_size=12), _ERRORS)
def test_a_batch_is_benjamini_hochberg_with_ties_as_blocks(rows, new, error):
    assert by_bound(rows, new, error) == acted_on(rows, new, error)


@given(_ROWS, st.lists(st.integers(-1, 5), min_size=1, max_size=12))
def test_whole_numbers_beyond_64_bits_are_compared_as_they_are(rows, new):
    error = Fraction(10**20 + 39, 3 * 10**20 + 1)
    assert by_bound(rows, new, error) == acted_on(rows, new, error)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=5, max_size=8), st.integers(1, 4), _ERRORS)
def test_the_false_discovery_rate_of_exchangeable_rows_is_at_most_the_error_exactly(rows, n, error):
    """Given the rows, every choice of which ones calibrate is equally likely: the rate is a mean over all of them."""
    total, number = Fraction(0), 0
    for chosen in combinations(range(len(rows)), min(n, len(rows) - 1)):
        calibration = [rows[i] for i in chosen]
        new = [rows[i] for i in range(len(rows)) if i not in chosen]
        acted = by_bound(calibration, [c for c, _ in new], error)
        wrong = sum(act and w for act, (_, w) in zip(acted, new, strict=True))
        total, number = total + Fraction(wrong, max(1, sum(acted))), number + 1
    assert total / number <= error


def test_all_right_is_acted_on_and_all_wrong_is_not():
    new = np.linspace(0, 1, 30)
    assert batch_bound(np.empty(0), 19, new, Fraction(1, 20)) == -inf
    assert batch_bound(np.empty(0), 18, new, Fraction(1, 20)) == inf  # 1 / (n + 1) > 1 / 20
    assert batch_bound(np.ones(500), 500, new, Fraction(1, 20)) == inf
    assert batch_bound(np.empty(0), 19, np.empty(0), Fraction(1, 20)) == inf


def exact_crossing(ranks, allowed, error):
    """P(B_k <= a_k for some k), step by step in rationals."""
    bounds, alive, crossed = dict(zip(ranks, allowed, strict=True)), {0: Fraction(1)}, Fraction(0)
    for k in range(1, max(ranks) + 1):
        after: dict[int, Fraction] = {}
        for s, mass in alive.items():
            after[s] = after.get(s, 0) + mass * (1 - error)
            after[s + 1] = after.get(s + 1, 0) + mass * error
        crossed += sum(mass for s, mass in after.items() if s <= bounds.get(k, -1))
        alive = {s: mass for s, mass in after.items() if s > bounds.get(k, -1)}
    return crossed


def exact_allowed(ranks, error, level):
    def tail(k, a):
        return sum(comb(k, i) * error**i * (1 - error) ** (k - i) for i in range(a + 1))

    return [max((a for a in range(k + 1) if tail(k, a) <= level), default=-1) for k in ranks]


@given(st.lists(st.integers(1, 14), min_size=1, max_size=8, unique=True), st.data(), _ERRORS)
def test_the_crossing_is_exact_and_rounded_upwards(ranks, data, error):
    ranks = sorted(ranks)
    allowed = [data.draw(st.integers(-1, k // 2)) for k in ranks]
    exact = exact_crossing(ranks, allowed, error)
    bound = crossing(Boundary(np.array(ranks), np.array(allowed)), error)
    assert exact <= Fraction(bound)
    assert bound <= float(exact) * (1 + 1e-8) + 1e-12 or bound == 1.0 >= exact > 1 - Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("n", "error", "delta"),
    [(4, "1/2", "1/10"), (8, "1/2", "1/5"), (20, "1/5", "1/10"), (30, "1/10", "1/20")],
)
def test_the_band_has_the_largest_level_whose_crossing_is_at_most_delta(n, error, delta):
    error, delta = Fraction(error), Fraction(delta)
    ranks = ranks_of(n, 100, TENTH).tolist()
    assert ranks == sorted({-(-n * j // 100) for j in range(10, 101)})
    levels = {
        sum(comb(k, i) * error**i * (1 - error) ** (k - i) for i in range(a + 1)) for k in ranks for a in range(k)
    }
    best = [-1] * len(ranks)
    for level in sorted(level for level in levels if level <= delta):
        allowed = exact_allowed(ranks, error, level)
        if exact_crossing(ranks, allowed, error) > delta:
            break
        best = allowed
    assert band(n, error, delta).allowed.tolist() == best


def test_every_boundary_keeps_delta_exactly_at_moderate_sizes():
    """The bound that floats gave is at most delta, and not far below it."""
    for n, error in ((300, Fraction(1, 20)), (800, Fraction(1, 10)), (5000, Fraction(1, 20))):
        for boundary in (band(n, error, TENTH), both(n, error, TENTH)):
            assert 0.099 < crossing(boundary, error) <= 0.1


def test_fewest_rows_are_those_at_which_none_wrong_lets_all_through():
    assert [rows_needed(error, TENTH) for error in (TENTH, Fraction(1, 20), Fraction(1, 100))] == [22, 45, 230]
    for n, passes in ((44, 0), (45, 45), (46, 46)):
        assert automatic(n, Fraction(1, 20), TENTH).rank(np.zeros(n, dtype=bool)) == passes


def test_all_right_and_all_wrong_at_every_size():
    for n in (1, 2, 45, 46, 300, 800, 5000):
        for rule in (automatic, band, both, sequence, bonferroni):
            boundary = rule(n, Fraction(1, 20), TENTH)
            assert boundary.rank(np.zeros(n, dtype=bool)) in ((n,) if n >= 300 else (0, n))
            assert boundary.rank(np.ones(n, dtype=bool)) == 0


def test_n_and_the_error_alone_choose_the_rule():
    assert not len(automatic(799, Fraction(1, 20), TENTH).in_turn)
    assert len(automatic(800, Fraction(1, 20), TENTH).in_turn)


def split_where_bad_begins(masses, wrong, error):
    """Cells (mass, probability of wrong, is bad) of which none changes sign: bad where P(wrong above t) > error."""
    cells, excess = [], Fraction(0)
    for mass, w in zip(masses, wrong, strict=True):
        after = excess + mass * (w - error)
        if excess * after < 0:
            first = mass * abs(excess) / (abs(excess) + abs(after))
            cells += [(first, w, excess > 0), (mass - first, w, after > 0)]
        else:
            cells.append((mass, w, excess > 0 or after > 0))
        excess = after
    return cells, excess > 0


def probability_of_a_bad_rank(boundary, n, masses, wrong, error):
    """P(the rank that is chosen has a threshold above which more than the error is wrong), exactly.

    Rows come from the most confident cell on; within a cell each is wrong independently. The threshold of rank k is the
    confidence of row k + 1, so that the rank is bad if that row's cell is.
    """
    cells, ends_bad = split_where_bad_begins(masses, wrong, error)
    at_once = dict(zip(boundary.ranks.tolist(), boundary.allowed.tolist(), strict=True))
    in_turn = dict(zip(boundary.in_turn.tolist(), boundary.allowed_in_turn.tolist(), strict=True))

    def look(k, s, going, chosen, bad):
        if k in in_turn and going:
            going = s <= in_turn[k]
            chosen = bad if going else chosen
        return going, bad if s <= at_once.get(k, -1) else chosen

    steps = [((1, mass * w), (0, mass * (1 - w))) for mass, w, _ in cells]
    unit = lcm(*(share.denominator for step in steps for _, share in step))  # whole numbers are ten times as quick
    states = {(0, 0, True, False): 1}
    for (_, _, bad), step in zip(cells, steps, strict=True):
        whole = [(is_wrong, int(share * unit)) for is_wrong, share in step if share]
        after: dict[tuple, int] = {}
        for (k, s, going, chosen), weight in states.items():
            here = {(s, going, chosen): weight}
            for placed in range(n - k + 1):
                for (s1, going1, chosen1), weight1 in here.items():
                    key = (k + placed, s1, going1, chosen1)
                    after[key] = after.get(key, 0) + weight1 * comb(n - k, placed)
                further: dict[tuple, int] = {}
                for (s1, going1, chosen1), weight1 in here.items():
                    going2, chosen2 = look(k + placed, s1, going1, chosen1, bad)
                    for is_wrong, share in whole:
                        key = (s1 + is_wrong, going2, chosen2)
                        further[key] = further.get(key, 0) + weight1 * share
                here = further
        states = after
    full = {key: Fraction(weight, unit**n) for key, weight in states.items() if key[0] == n}
    assert sum(full.values()) == 1
    return sum(weight for (k, s, going, chosen), weight in full.items() if look(k, s, going, chosen, ends_bad)[1])


def laws_on_a_grid(error, cells=3):
    """Laws of a few cells of confidence: wrong with 0, half of the error, the error, more, or 1 in each."""
    masses = [[Fraction(part, 4) for part in parts] for parts in ((1, 1, 2), (2, 1, 1), (1, 2, 1))]
    masses.append([Fraction(1, 10), Fraction(1, 10), Fraction(8, 10)])
    for wrong in product((0, error / 2, error, (1 + error) / 2, 1), repeat=cells):
        for parts in masses:
            yield parts, [Fraction(w) for w in wrong]


@pytest.mark.parametrize(
    ("n", "error", "delta"), [(4, "1/2", "3/10"), (6, "1/3", "1/4"), (8, "1/2", "1/5"), (8, "1/4", "3/20")]
)
def test_no_law_on_a_grid_makes_more_bad_calibrations_than_delta(n, error, delta):
    error, delta = Fraction(error), Fraction(delta)
    rules = [rule(n, error, delta) for rule in (band, both, sequence, bonferroni)]
    distinct = {tuple(map(tuple, rule)): rule for rule in rules}
    generator = np.random.default_rng(n)
    laws = list(laws_on_a_grid(error))
    for number in generator.permutation(len(laws))[:150]:
        for rule in distinct.values():
            assert probability_of_a_bad_rank(rule, n, *laws[number], error) <= delta
    flat = ([Fraction(1)], [error + Fraction(1, 10**9)])
    reached = probability_of_a_bad_rank(rules[0], n, *flat, error)
    crossed = exact_crossing(rules[0].ranks.tolist(), rules[0].allowed.tolist(), error)
    assert abs(reached - crossed) < Fraction(1, 10**6)  # the worst case is attained


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_numbers_allowed_cross_most_often_under_the_flat_law(data):
    """The theorem for any ranks and any numbers, at laws that hypothesis chooses; exact."""
    n = data.draw(st.integers(1, 7))
    error = data.draw(st.sampled_from([Fraction(1, 2), Fraction(1, 3), Fraction(1, 5)]))
    allowed = [data.draw(st.integers(-1, k - 1)) for k in range(1, n + 1)]
    cells = data.draw(st.integers(1, 4))
    parts = [data.draw(st.integers(1, 5)) for _ in range(cells)]
    wrong = [data.draw(st.fractions(0, 1, max_denominator=6)) for _ in range(cells)]
    boundary = Boundary(np.arange(1, n + 1), np.array(allowed))
    masses = [Fraction(part, sum(parts)) for part in parts]
    bad = probability_of_a_bad_rank(boundary, n, masses, wrong, error)
    assert bad <= exact_crossing(range(1, n + 1), allowed, error)


def _saw(t):
    return np.where((t * 10).astype(int) % 2 == 0, 0.0, 0.098)


# The probability that a row is wrong, by its share of more confident rows; in groups of equal confidence at the end.
LAWS = {
    "calibrated": lambda t: 0.2 * t**0.7,
    "plateau": lambda t: np.where(t < 0.2, 0.03, 0.03 + 0.2 * (t - 0.2)),
    "easy": lambda t: np.full_like(t, 0.035),
    "hard": lambda t: np.minimum(1.0, 0.65 * t),
    "wrong at the top": lambda t: np.where(t < 0.02, 0.5, 0.02 + 0.1 * t),
    "flat": lambda t: np.full_like(t, 0.05 + 1e-9),
    "saw": _saw,
    "0, then 1, then the error": lambda t: np.where(t < 0.3, 0.0, np.where(t < 0.315, 1.0, 0.0501)),
    "blocks": lambda t: np.floor(t * 5) / 40,
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [200, 1000])
def test_bad_calibrations_are_at_most_delta_under_nine_laws(law, n):
    """At most Bin(400, 0.1) of 400 are bad: 72 or more have probability 3e-7."""
    generator, error, repetitions = np.random.default_rng(28), 0.05, 400
    fine = np.linspace(0, 1, 100_001)[1:]
    excess = np.cumsum(LAWS[law](fine) - error) / len(fine)
    boundary, bad = automatic(n, Fraction(1, 20), TENTH), 0
    for _ in range(repetitions):
        places = np.sort(generator.random(n))
        rank = boundary.rank(generator.random(n) < LAWS[law](places))
        until = places[rank] if rank < n else 1.0
        bad += rank > 0 and excess[min(len(fine) - 1, int(until * len(fine)))] > 0
    assert bad < 72


def test_bonferroni_and_a_sequence_use_binomial_tails():
    ranks = ranks_of(50, 100, TENTH)
    for rule, level in ((bonferroni, Fraction(1, 10) / len(ranks)), (sequence, TENTH)):
        boundary = rule(50, Fraction(1, 5), TENTH)
        used, allowed = boundary[:2] if rule is bonferroni else boundary[2:]
        assert allowed.tolist() == exact_allowed(used.tolist(), Fraction(1, 5), level)
    assert counts_allowed(NONE, TENTH, TENTH).tolist() == []


def test_a_million_rows_have_a_band():
    boundary = both(10**6, Fraction(1, 20), TENTH)
    assert (np.diff(boundary.allowed) > 0).all()
    assert 0.0999 < crossing(boundary, Fraction(1, 20)) <= 0.1
