"""CV+, the jackknife+ and minimax against the paper's rule in exact rational arithmetic."""

import warnings
from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aptset
from aptset.kernels.formula import Formula
from aptset.kernels.rows import CALIBRATION, PREDICTION, Rows, all_scores_of_block
from reference import adaptive_score, exact_row, in_set

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)


@st.composite
def dyadic_rows(draw, n, n_classes):
    """Rows of multiples of 1/64 with many ties and zeros: their scores are compared without any rounding."""
    rows = []
    for _ in range(n):
        cuts = sorted(
            draw(
                st.lists(st.sampled_from([0, 0, 16, 32, 32, 48, 64, 5]), min_size=n_classes - 1, max_size=n_classes - 1)
            )
        )
        rows.append(np.diff([0, *cuts, 64]) / 64)
    return np.array(rows)


@st.composite
def problems(draw):
    n, m, n_classes = draw(st.integers(3, 9)), draw(st.integers(1, 3)), draw(st.integers(2, 4))
    n_folds = draw(st.integers(2, n))
    folds = np.array(
        [*range(n_folds), *draw(st.lists(st.integers(0, n_folds - 1), min_size=n - n_folds, max_size=n - n_folds))]
    )
    uniform = st.sampled_from([k / 8 for k in range(9)])
    return {
        "out_of_fold": draw(dyadic_rows(n, n_classes)),
        "labels": np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))),
        "folds": folds,
        "new": [draw(dyadic_rows(m, n_classes)) for _ in range(n_folds)],
        "u": np.array(draw(st.lists(uniform, min_size=n, max_size=n))),
        "u_new": np.array(draw(st.lists(uniform, min_size=m, max_size=m))),
        "groups": np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))),
        "groups_new": np.array(draw(st.lists(st.integers(0, 2), min_size=m, max_size=m))),
        "alpha": draw(st.sampled_from(["0.05", "0.1", "0.25", "0.5", "0.8"])),
    }


def exact_scores(matrix, u, key, side):
    """Exact scores of every label; only the order of ties is taken from the library."""
    formula = Formula(aptset.Adaptive().weights)
    floats, _ = all_scores_of_block(Rows(matrix, formula, key, 1e-9, u=u, side=side).seeded(), 0, len(matrix))
    found = []
    for row, scores, uniform in zip(matrix, floats, u, strict=True):
        p, order = exact_row(row), np.lexsort((scores, -row)).tolist()
        found.append([adaptive_score(p, order, label, Fraction(uniform)) for label in range(len(row))])
    return found


@KEYED
@given(problem=problems(), combine=st.sampled_from(["plus", "minimax"]), by=st.sampled_from([None, "label", "row"]))
def test_rule(path, problem, combine, by):
    alpha, folds, labels = Fraction(problem["alpha"]), problem["folds"], problem["labels"]
    groups = {None: None, "label": "label", "row": problem["groups"]}[by]
    calibration = aptset.calibrate_cv(
        problem["out_of_fold"], labels, folds, combine=combine, groups=groups, u=problem["u"], random_state=0
    )
    options = {"u": problem["u_new"], "groups": problem["groups_new"] if by == "row" else None}
    p_values = calibration.p_values(problem["new"], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small groups warn; what they get is checked below
        mask = calibration.predict_set(problem["new"], float(alpha), **options).mask

    own = exact_scores(problem["out_of_fold"], problem["u"], calibration.key, CALIBRATION)
    own = [scores[y] for scores, y in zip(own, labels, strict=True)]
    new = [exact_scores(matrix, problem["u_new"], calibration.key, PREDICTION) for matrix in problem["new"]]
    for row in range(len(problem["u_new"])):
        for y in range(problem["out_of_fold"].shape[1]):
            mine = [
                i
                for i in range(len(own))
                if by is None or (labels[i] == y if by == "label" else groups[i] == problem["groups_new"][row])
            ]
            lowest = min(scores[row][y] for scores in new)
            # Bring every comparison to one score: E_i < E(x, y; model k(i)).
            below = [own[i] < (lowest if combine == "minimax" else new[folds[i]][row][y]) for i in mine]
            expected = sum(below) < (1 - alpha) * (len(mine) + 1)
            assert mask[row, y] == expected
            exact = Fraction(len(mine) + 1 - sum(below), len(mine) + 1)
            assert abs(p_values[row, y] - exact) <= 2.0**-52


@KEYED
@given(problem=problems())
def test_with_one_model_for_all_folds_it_is_split_calibration(path, problem):
    """Free test of the paper: an oracle's CV+, jackknife+ and split sets are the same for the same u."""
    n, (first, *_) = len(problem["labels"]), problem["new"]
    common = {"u": problem["u"], "random_state": 0}
    split = aptset.calibrate(problem["out_of_fold"], problem["labels"], **common)
    expected = split.p_values(first, u=problem["u_new"])
    for folds in (problem["folds"], np.arange(n)):
        for combine in ("plus", "minimax"):
            cross = aptset.calibrate_cv(problem["out_of_fold"], problem["labels"], folds, combine=combine, **common)
            same = [first] * len(cross.folds)
            np.testing.assert_array_equal(cross.p_values(same, u=problem["u_new"]), expected)
    own = exact_scores(problem["out_of_fold"], problem["u"], split.key, CALIBRATION)
    own = [scores[y] for scores, y in zip(own, problem["labels"], strict=True)]
    alpha = Fraction(problem["alpha"])
    exact = exact_scores(first, problem["u_new"], split.key, PREDICTION)
    for row, scores in enumerate(exact):
        for y, score in enumerate(scores):
            assert (expected[row, y] > float(alpha)) == in_set(own, score, alpha)
