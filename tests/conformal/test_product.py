"""Scores x schemes x cells x masses x levels is a product: every combination is the definition, or refused in words.

The definition is one sentence, in fractions: the p-value of a label is (mass of the calibration scores of its cell at
or above its own score + its own mass) / (their whole mass + its own mass), and a label is in iff that exceeds alpha.
"""

from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest

import aptset
from aptset.scores import SCORES

N, NEW, CLASSES = 60, 12, np.array(["a", "b", "c", "d"])
DRAW = np.random.default_rng(0)
PROBABILITIES = DRAW.dirichlet(np.ones(4), size=(2, N))  # under the models of two folds
NEW_PROBABILITIES = DRAW.dirichlet(np.ones(4), size=(2, NEW))
LABELS = np.array([DRAW.choice(CLASSES, p=row) for row in PROBABILITIES[0]])
U, NEW_U = DRAW.random(N), DRAW.random(NEW)
REGIONS, NEW_REGIONS = DRAW.choice(["north", "south"], size=N), DRAW.choice(["north", "south"], size=NEW)
WEIGHTS, NEW_WEIGHTS = DRAW.choice([1.0, 2.0, 4.0], size=N), DRAW.choice([1.0, 2.0], size=NEW)
RATIOS = dict(zip(CLASSES, [1.0, 2.0, 1.0, 0.5], strict=True))
CLUSTERS = np.arange(N) // 3
FOLDS = CLUSTERS % 2
VOTES = DRAW.integers(0, 4, size=(N, 4)) + np.array([1, 0, 0, 0])
BANDS = {"a": "often", "b": "often", "c": "seldom", "d": "seldom"}
SIDES = [np.column_stack([np.arange(n) % 3 == 0, np.arange(n) % 2 == 0]) for n in (N, NEW)]


def without_likely(places):
    """Score a label as any function may."""
    return 1 - places.own / places.total


WALKED = {name: name for name in sorted(SCORES)} | {
    "tempered": aptset.Tempered(aptset.Adaptive(), 0.75),
    "gridded": aptset.Gridded(aptset.Adaptive(), 2**-10),
    "prevalence": aptset.Prevalence(dict(zip(CLASSES, [4, 3, 2, 1], strict=True))),
    "function": without_likely,
    "ordered": aptset.Ordered(order=tuple(CLASSES)),
}
# What groups calibration rows have, what new rows have, and the cell of a row and a label.
CELLS = {
    "none": (None, None, lambda region, label: None),
    "label": ("label", None, lambda region, label: label),
    "rows": (REGIONS, NEW_REGIONS, lambda region, label: region),
    "bands": (aptset.LabelBands(BANDS), None, lambda region, label: BANDS[label]),
    "rows and labels": ((REGIONS, "label"), NEW_REGIONS, lambda region, label: (region, label)),
    "overlapping": (aptset.Overlapping(SIDES[0]), SIDES[1], None),
}
# What calibration is told of masses, and what new rows are asked with.
MASSES = {
    "plain": ({}, {}),
    "weights": ({"weights": WEIGHTS}, {"weights": NEW_WEIGHTS}),
    "label_weights": ({"label_weights": RATIOS}, {}),
    "clusters": ({"clusters": CLUSTERS}, {}),
    "votes": ({"votes": VOTES}, {}),
}
SCHEMES = ("split", "plus", "minimax")
OF_SPLITS = ("label_weights", "votes")  # no argument of calibrate_cv
BY_LABEL = ("label", "bands", "rows and labels")


def refusal(score, scheme, cells, masses):
    """Return the words with which a combination is refused; None for all others, which must work."""
    if scheme == "minimax" and masses != "plain":
        return "must come with a split, CV\\+"
    if score == "ordered" and (cells in BY_LABEL or masses == "label_weights"):
        return "one threshold for all labels"
    if cells == "overlapping" and masses != "plain":
        return "overlapping groups have no promise for"
    if cells == "overlapping" and scheme != "split":
        return "overlapping groups have no cross calibration"
    return None


def calibrated(score, scheme, cells, masses, rows=slice(None)):
    groups, told = CELLS[cells][0], MASSES[masses][0]
    of_masses = {name: part[rows] if isinstance(part, np.ndarray) else part for name, part in told.items()}
    if isinstance(groups, np.ndarray):
        groups = groups[rows]
    elif isinstance(groups, tuple):
        groups = (groups[0][rows], groups[1])
    elif cells == "overlapping":
        groups = aptset.Overlapping(SIDES[0][rows])
    common = {"conformity": WALKED[score], "groups": groups, "u": U[rows], "classes": CLASSES, "random_state": 0}
    if scheme == "split":
        labels = None if masses == "votes" else LABELS[rows]
        return aptset.calibrate(PROBABILITIES[0][rows], labels, **common, **of_masses)
    of_fold = PROBABILITIES[FOLDS, np.arange(N)]
    return aptset.calibrate_cv(of_fold, LABELS, FOLDS, combine=scheme, **common, **of_masses)


def asked(calibration, verb, scheme, cells, masses, **more):
    rows = NEW_PROBABILITIES[0] if scheme == "split" else NEW_PROBABILITIES
    return getattr(calibration, verb)(rows, groups=CELLS[cells][1], u=NEW_U, **MASSES[masses][1], **more)


@cache
def scores(score):
    """Return the score of every label of every row, of calibration and new ones, under both models.

    A group of its own for each pair of row and label: at alpha = 0.5 its threshold is its score.
    """

    def of_rows(rows, u):
        n = len(rows)
        pairs = (np.repeat(rows, 4, axis=0), np.tile(CLASSES, n))
        by_pair = {"groups": np.arange(4 * n), "u": np.repeat(u, 4), "classes": CLASSES, "conformity": WALKED[score]}
        of_pair = aptset.calibrate(*pairs, **by_pair, random_state=0).threshold(0.5)
        return np.array([of_pair[number] for number in range(4 * n)]).reshape(n, 4)

    of_models = [(of_rows(PROBABILITIES[m], U), of_rows(NEW_PROBABILITIES[m], NEW_U)) for m in range(2)]
    return [np.array(several) for several in zip(*of_models, strict=True)]


@cache
def exact_p_values(score, scheme, cells, masses):
    """Return the p-value of every label of every new row by the definition, (rows, labels)."""
    old, new = scores(score)
    folds, cell_of = FOLDS if scheme != "split" else np.zeros(N, dtype=int), CELLS[cells][2]
    counted = VOTES if masses == "votes" else (LABELS[:, None] == CLASSES).astype(int)
    p_values = np.empty((NEW, 4), dtype=object)
    for row, column in product(range(NEW), range(4)):
        cell = cell_of(NEW_REGIONS[row], CLASSES[column])
        own = [new[0, row, column]] * 2 if scheme == "split" else list(new[:, row, column])
        own = [min(own)] * 2 if scheme == "minimax" else own
        members = {}  # of the cell: whether a score is at or above the own one and its mass, by what shares one mass
        for i, j in zip(*np.nonzero(counted), strict=True):
            if cell_of(REGIONS[i], CLASSES[j]) == cell:
                mass = {"weights": WEIGHTS[i], "label_weights": RATIOS[CLASSES[j]]}.get(masses, counted[i, j])
                together = {"clusters": CLUSTERS[i]}.get(masses, i)
                is_above = old[folds[i], i, j] >= own[folds[i]]
                members.setdefault(together, []).append((is_above, Fraction(float(mass))))
        above, total = Fraction(0), Fraction(0)
        for several in members.values():
            whole = sum(mass for _, mass in several)
            share = whole if masses in ("clusters", "votes") else 1  # rows that belong together have one mass
            above += sum((mass for is_in, mass in several if is_in), Fraction(0)) / share
            total += whole / share
        brought = {"weights": NEW_WEIGHTS[row], "label_weights": RATIOS[CLASSES[column]]}.get(masses, 1)
        brought = Fraction(float(brought))
        p_values[row, column] = (above + brought) / (total + brought)
    return p_values


def exceeds(p_values, alphas):
    """Tell whether each p-value exceeds its level, as it is typed."""
    return np.array(
        [
            [p > Fraction(str(alpha)) for p, alpha in zip(*pair, strict=True)]
            for pair in zip(p_values, alphas, strict=True)
        ]
    )


EVERY = [way for way in product(SCHEMES, CELLS, MASSES) if way[0] == "split" or way[2] not in OF_SPLITS]


@pytest.mark.parametrize(("scheme", "cells", "masses"), EVERY)
@pytest.mark.filterwarnings("ignore::UserWarning")  # few rows in a cell give every label
def test_every_combination_is_the_definition_or_refused(scheme, cells, masses, tmp_path):
    for score in WALKED:
        words = refusal(score, scheme, cells, masses)
        if words is not None:
            with pytest.raises(ValueError, match=words):
                calibrated(score, scheme, cells, masses)
            continue
        calibration = calibrated(score, scheme, cells, masses)
        check_sets(calibration, score, scheme, cells, masses)
        check_kept(calibration, score, scheme, cells, masses, tmp_path)


def check_sets(calibration, score, scheme, cells, masses):
    way = (scheme, cells, masses)
    levels = [0.1, 0.25, 0.5]
    masks = [sets.mask for sets in asked(calibration, "predict_set", *way, alpha=levels)]
    for larger, smaller in pairwise(masks):
        assert (smaller <= larger).all(), (score, "nested")
    if cells == "overlapping":
        with pytest.raises(ValueError, match="overlapping groups have no p-values"):
            asked(calibration, "p_values", *way)
    else:
        exact, told = exact_p_values(score, *way), asked(calibration, "p_values", *way)
        np.testing.assert_allclose(told, exact.astype(float), rtol=2**-50)
        for alpha, mask in zip(levels, masks, strict=True):
            np.testing.assert_array_equal(mask, exceeds(exact, np.full((NEW, 4), alpha)), err_msg=f"{score} {alpha}")
        check_levels_of_cells(calibration, exact, *way)
    check_assurance(calibration, masks[1], *way)


def check_levels_of_cells(calibration, exact, scheme, cells, masses):
    """Cells may have a level each, by their names."""
    names = {"label": CLASSES, "rows": ["north", "south"], "bands": ["often", "seldom"]}.get(cells)
    if names is None:
        return
    alpha = dict(zip(map(str, names), [0.1, 0.3, 0.2, 0.4], strict=False))
    cell_of = CELLS[cells][2]
    of_labels = [[alpha[str(cell_of(region, label))] for label in CLASSES] for region in NEW_REGIONS]
    sets = asked(calibration, "predict_set", scheme, cells, masses, alpha=alpha)
    np.testing.assert_array_equal(sets.mask, exceeds(exact, of_labels))


def check_assurance(calibration, mask, scheme, cells, masses):
    """One calibration of rows that count alike has a law; sets that are assured hold more."""
    counts_alike = masses == "plain" or (masses == "votes" and cells in ("label", "rows and labels"))  # one answer each
    if scheme == "split" and counts_alike and cells != "overlapping":
        assured = asked(calibration, "predict_set", scheme, cells, masses, alpha=0.25, assurance=0.9)
        assert (assured.mask >= mask).all()
    else:
        with pytest.raises(ValueError, match="no law of the coverage of one calibration is known"):
            asked(calibration, "predict_set", scheme, cells, masses, alpha=0.25, assurance=0.9)


def check_kept(calibration, score, scheme, cells, masses, folder):
    """What is stored comes back, and shards that are merged are the whole."""
    mask = asked(calibration, "predict_mask", scheme, cells, masses, alpha=0.25)
    if score != "function":  # found again by the name of its module, which tests have none of
        calibration.save(folder / "stored.aptset")
        again = asked(aptset.load(folder / "stored.aptset"), "predict_mask", scheme, cells, masses, alpha=0.25)
        np.testing.assert_array_equal(again, mask, err_msg=score)
    if scheme == "split":
        first, second = (calibrated(score, scheme, cells, masses, rows) for rows in (slice(0, 30), slice(30, N)))
        merged = asked(first.merge(second), "predict_mask", scheme, cells, masses, alpha=0.25)
        np.testing.assert_array_equal(merged, mask, err_msg=score)
