"""Bad input: one clear error of the right type that names the argument, the rule, the value and the way out."""

import numpy as np
import pytest
from scipy import sparse

import aptset

P = np.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]])
Y = [0, 2]


def with_value(value, dtype=float):
    bad = P.astype(dtype).copy()
    bad[1, 2] = value
    return bad


PROBABILITIES = {
    "sum": (with_value(0.4), ValueError, r"row 1 sums to 0\.9\. Pass normalize=True"),
    "sum in float32": (with_value(0.45, np.float32), ValueError, r"within 0\.001 for float32\); row 1 sums to 0\.95"),
    "sum in float16": (with_value(0.4, np.float16), ValueError, r"within 0\.02 for float16\); row 1 sums to 0\.8999"),
    "negative": (with_value(-0.5), ValueError, r"at least 0; got -0\.5 in row 1, column 2"),
    "slightly negative": (
        with_value(-1e-200) + np.array([[0, 0, 0], [0, 0.5, 0]]),
        ValueError,
        r"at least 0; got -1e-200",
    ),
    "missing": (with_value(np.nan), ValueError, "finite; got nan in row 1, column 2"),
    "infinite": (with_value(np.inf), ValueError, "finite; got inf in row 1, column 2"),
    "1-D": (P[0], ValueError, r"must be 2-D, .* got shape \(3,\)"),
    "3-D": (P[None], ValueError, r"must be 2-D, .* got shape \(1, 2, 3\)"),
    "scalar": (0.5, ValueError, "must be 2-D"),
    "one class": (np.ones((2, 1)), ValueError, "one class only"),
    "empty": (np.empty((0, 3)), ValueError, "at least one row"),
    "nothing": ([], ValueError, "must be 2-D"),
    "ragged": ([[0.5, 0.5], [1.0]], ValueError, "ragged"),
    "object": (P.astype(object), TypeError, "must hold numbers; got dtype object"),
    "text": (P.astype(str), TypeError, "must hold numbers"),
    "complex": (P.astype(complex), TypeError, "must hold numbers"),
    "None": (None, TypeError, "must hold numbers"),
    "sparse": (sparse.csr_array(P), TypeError, r"dense matrix; got csr_array. Pass probabilities.toarray\(\)"),
}
FUNCTIONS = {
    "calibrate": lambda p: aptset.calibrate(p, Y),
    "predict_set": lambda p: aptset.calibrate(P, Y).predict_set(p, 0.5),
    "p_values": lambda p: aptset.calibrate(P, Y).p_values(p),
    "adaptive_scores": lambda p: aptset.adaptive_scores(p, Y),
    "oracle_sets": lambda p: aptset.oracle_sets(p, 0.5),
}


@pytest.mark.parametrize("case", PROBABILITIES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_probabilities(path, function, case):
    matrix, error, message = PROBABILITIES[case]
    with pytest.raises(error, match=message) as caught:
        FUNCTIONS[function](matrix)
    assert "probabilities" in str(caught.value)


def test_rows_that_cannot_be_normalised():
    with pytest.raises(ValueError, match="row 0 sums to 0"):
        aptset.calibrate([[0.0, 0.0]], [0], normalize=True)
    with pytest.raises(ValueError, match="at least 0; got -1"):
        aptset.calibrate([[3.0, -1.0]], [0], normalize=True)
    with pytest.raises(ValueError, match="finite"):
        aptset.calibrate([[np.inf, 1.0]], [0], normalize=True)


def test_log_probabilities_are_not_normalised():
    with pytest.raises(ValueError, match="at least 0; got -3"):
        aptset.calibrate([[-3.0, -1.0]], [0], normalize=True)
    with pytest.raises(ValueError, match="sums to inf"):
        aptset.calibrate([[1e308, 1e308]], [0], normalize=True)


def test_masked_and_repeated():
    with pytest.raises(ValueError, match="no masked entries"):
        aptset.calibrate(np.ma.array(P, mask=P < 0.22), Y)
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="distinct column names"):
        aptset.calibrate(pd.DataFrame(P, columns=["a", "a", "b"]), ["a", "b"])


def test_wrong_number_of_columns():
    with pytest.raises(ValueError, match="3 classes, but 2 columns came"):
        aptset.calibrate(P, Y).predict_set([[0.5, 0.5]])


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, np.nan, np.inf, 0.0, 1.0])
def test_alpha_out_of_range(alpha):
    calibration = aptset.calibrate(P, Y)
    calls = [
        lambda: calibration.predict_set(P, alpha),
        lambda: calibration.predict_set(P, [0.1, alpha]),
        lambda: calibration.threshold(alpha),
        lambda: aptset.conformal_rank(10, alpha),
        lambda: aptset.oracle_sets(P, alpha),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\); got .* pass alpha=0.1"):
            call()


@pytest.mark.parametrize("alpha", ["0.1", None, True, 1j, [[0.1]]])
def test_alpha_of_the_wrong_type(alpha):
    with pytest.raises(TypeError, match="alpha must be a number"):
        aptset.calibrate(P, Y).predict_set(P, alpha)


def test_no_alpha():
    with pytest.raises(ValueError, match="empty sequence"):
        aptset.calibrate(P, Y).predict_set(P, [])


LABELS = {
    "unknown": ([0, 3], {}, r"among the classes \[0, 1, 2\]; got 3 in row 1"),
    "negative": ([0, -1], {}, "among the classes"),
    "fraction": ([0, 0.5], {}, "among the classes"),
    "missing": ([0, np.nan], {}, "among the classes"),
    "None": ([0, None], {}, "among the classes"),
    "text without classes": (["a", "b"], {}, "Pass classes="),
    "unknown text": (["a", "z"], {"classes": ["a", "b", "c"]}, r"among the classes \['a', 'b', 'c'\]; got .*z"),
    "too few": ([0], {}, "2 rows, but 1 entries came"),
    "too many": ([0, 1, 2], {}, "2 rows, but 3 entries came"),
    "2-D": ([[0], [1]], {}, "must be 1-D"),
    "classes too few": ([0, 1], {"classes": [0, 1]}, "each of the 3 columns .* got 2 classes"),
    "classes repeated": ([0, 1], {"classes": [0, 1, 1]}, "classes must be distinct"),
    "classes 2-D": ([0, 1], {"classes": [[0, 1, 2]]}, "classes must be 1-D"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels(case):
    labels, arguments, message = LABELS[case]
    for function in (aptset.calibrate, aptset.adaptive_scores):
        with pytest.raises(ValueError, match=message):
            function(P, labels, **arguments)


@pytest.mark.parametrize(
    ("u", "error", "message"),
    [
        ([0.5], ValueError, "u must have one entry per row"),
        ([0.5, 1.5], ValueError, r"u must be in \[0, 1\]; got 1.5 in row 1"),
        ([0.5, np.nan], ValueError, r"u must be in \[0, 1\]"),
        ([[0.5, 0.5]], ValueError, "u must be 1-D"),
        (["a", "b"], TypeError, "u must hold numbers"),
    ],
)
def test_uniforms(u, error, message):
    calls = [
        lambda: aptset.calibrate(P, Y, u=u),
        lambda: aptset.calibrate(P, Y).predict_set(P, u=u),
        lambda: aptset.adaptive_scores(P, Y, u),
        lambda: aptset.oracle_sets(P, 0.1, u=u),
    ]
    for call in calls:
        with pytest.raises(error, match=message):
            call()


def test_uniforms_without_randomisation():
    with pytest.raises(ValueError, match="randomized=False"):
        aptset.calibrate(P, Y, u=[0.5, 0.5], randomized=False)


@pytest.mark.parametrize(
    ("conformity", "error"),
    [
        ("apps", ValueError),
        ("auto ", ValueError),
        (3, TypeError),
        (None, TypeError),
        (aptset.Adaptive, TypeError),
    ],
)
def test_conformity(conformity, error):
    with pytest.raises(error, match="conformity must"):
        aptset.calibrate(P, Y, conformity=conformity)


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), ("x", TypeError), (1.5, TypeError), (True, TypeError)])
def test_random_state(seed, error):
    with pytest.raises(error, match="random_state must"):
        aptset.calibrate(P, Y, random_state=seed)


def test_positional_settings_are_refused():
    with pytest.raises(TypeError):
        aptset.calibrate(P, Y, "adaptive")
