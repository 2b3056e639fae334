"""Sets as an ONNX graph: the cells of predict_mask, whatever the rows, the settings and the optimiser."""

import json
import shutil
import subprocess
import warnings

import numpy as np
import onnx
import pytest
from benchmarks import onnx_walk
from benchmarks.onnx_walk import ALPHAS, OPTIMISATIONS, SCORES, calibrated, differing_cells, mixed_rows, session_of
from click.testing import CliRunner
from onnx import helper
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset
import aptset.onnx
from aptset.cli.main import main
from aptset.kernels.rowhash import canonical_words as words_by_numpy
from aptset.onnx.tracing import Graph, Value, canonical_words, floats_of, type_code, words_of

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*too few calibration samples", "ignore:.*are copies of others", "ignore::DeprecationWarning"
)
N, K = 700, 6
NAMES = np.arange(K)
OPSETS = (18, 26)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sets.onnx"


def outputs(model, rows, optimisation="all", **more):
    session = session_of(model, optimisation)
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: rows, **more}), strict=True))


def labelled(seed, kind="float64"):
    generator = np.random.default_rng(seed)
    rows = mixed_rows(N, K, kind, generator)
    mass = np.cumsum(rows.astype(np.float64), axis=1)
    return rows, (mass < generator.random((N, 1)) * mass[:, -1:]).sum(axis=1)


ROWS, LABELS = labelled(0)
NEW, _ = labelled(1)
GENERATOR = np.random.default_rng(2)
U, NEW_U = GENERATOR.random(N), GENERATOR.random(N)
NEW_U[:4] = 0.0, 1.0, 5e-324, 2.0**-53
REGIONS = GENERATOR.choice(["north", "south", "west"], N)
NEW_REGIONS = GENERATOR.choice(["north", "south", "nowhere"], N)
NUMBERS, NEW_NUMBERS = GENERATOR.integers(5, 8, N), GENERATOR.integers(4, 9, N)
LOGITS = np.where(
    GENERATOR.random((N, K)) < 0.1, np.round(GENERATOR.normal(size=(N, K))), GENERATOR.normal(size=(N, K))
)
LOGITS = LOGITS * GENERATOR.choice([1.0, 30.0, 400.0], size=(N, 1))
LOGITS[::9, 0], LOGITS[10:20] = -np.inf, LOGITS[20:30]
SCALES = GENERATOR.uniform(0.1, 9.0, (N, 1))


def calibrate(**settings):
    return aptset.calibrate(ROWS, LABELS, classes=NAMES, random_state=0, **settings)


@pytest.mark.parametrize("score", SCORES)
def test_no_cell_differs_at_any_level_of_the_optimiser(score, path):
    """A walk of u, groups and types; the full one, 100,000 rows each, is ``python -m benchmarks.onnx_walk``."""
    for configuration, differing in onnx_walk.walk(2500, [10], list(OPTIMISATIONS), path.parent, [score]):
        assert differing == 0, configuration


@pytest.mark.parametrize(("score", "groups"), [("adaptive", None), ("saps", "label"), ("margin", None)])
def test_no_cell_differs_of_a_thousand_classes(score, groups, path):
    generator = np.random.default_rng(0)
    rows = mixed_rows(1000, 1000, "float32", generator)
    calibration = calibrated(rows, score, True, groups, generator)
    model = aptset.onnx.export(calibration, path, ALPHAS, dtype="float32")
    assert differing_cells(calibration, [session_of(model)], rows[:300]) == 0


# Without an order, rows of many classes are sorted as far as their sets go: rows with short sets, ties and zeros.
WITHOUT_ORDER = {
    "plain": {},
    "labels": {"groups": "label"},
    "margin": {"conformity": "margin"},
    "saps, not random": {"conformity": "saps", "randomized": False},
    "prevalence": {"conformity": aptset.Prevalence({label: label + 1 for label in range(100)})},
    "never empty": {"allow_empty": False},
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("option", WITHOUT_ORDER)
def test_no_cell_differs_without_an_order(option, opset, path):
    generator = np.random.default_rng(3)
    rows = onnx_walk.short_rows(2500, 100, "float64", generator)
    mass = np.cumsum(rows, axis=1)
    labels = (mass < generator.random((len(rows), 1)) * mass[:, -1:]).sum(axis=1)
    calibration = aptset.calibrate(rows, labels, classes=np.arange(100), random_state=0, **WITHOUT_ORDER[option])
    sessions = [session_of(aptset.onnx.export(calibration, path, ALPHAS, order=False, opset=opset))]
    assert [entry.name for entry in sessions[0].get_outputs()] == ["mask", "sizes", "valid"]
    for step in (1, 3, 500):
        assert differing_cells(calibration, sessions, rows[:500], step=step) == 0
    rows[:2, 0] = np.nan, -1.0
    mask, sizes, valid = sessions[0].run(None, {"probabilities": rows[:20]})
    assert np.array_equal(valid, np.arange(20) > 1)
    assert mask[:, :2].all()
    assert (sizes[:, :2] == 100).all()
    assert np.array_equal(mask[1, 2:], calibration.predict_mask(rows[2:20], ALPHAS[1]))


def test_few_rows_are_sorted_to_their_end_without_an_order(path):
    """What the option is for: of peaked rows the branch that sorts all labels is taken by few."""
    rows = onnx_walk.rows_of("peaked", 2500, 1000, np.random.default_rng(3))
    calibration = calibrated(rows, "adaptive", True, None, np.random.default_rng(4))
    is_short = calibration.predict_mask(rows[:300], 0.1).sum(axis=1) < 32
    assert is_short.mean() > 0.5
    model = aptset.onnx.export(calibration, path, 0.1, order=False)
    (last,) = [node for node in model.graph.node if node.op_type == "If"][-1:]
    condition = helper.make_tensor_value_info(last.input[0], type_code(np.bool_), [])
    model.graph.output.append(condition)
    session = session_of(model)
    is_open = [session.run([condition.name], {"probabilities": row[None]})[0].item() for row in rows[:300]]
    assert np.array_equal(is_open, ~is_short)


# Every option of a calibration that sets depend on: how it is calibrated, exported, asked in Python, and fed.
OPTIONS = {
    "plain": ({}, {}, {}, {}),
    "opset 26": ({}, {"opset": 26}, {}, {}),
    "labels": ({"groups": "label"}, {}, {}, {}),
    "bands": ({"groups": aptset.LabelBands({label: label // 2 for label in range(K)})}, {}, {}, {}),
    "regions": ({"groups": REGIONS}, {}, {"groups": NEW_REGIONS}, {"groups": NEW_REGIONS.astype(object)}),
    "numbers": ({"groups": NUMBERS}, {}, {"groups": NEW_NUMBERS}, {"groups": NEW_NUMBERS}),
    "pairs": ({"groups": (REGIONS, "label")}, {}, {"groups": NEW_REGIONS}, {"groups": NEW_REGIONS.astype(object)}),
    "u": ({"u": U}, {"u": "input"}, {"u": NEW_U}, {"u": NEW_U}),
    "u, opset 26": ({"u": U}, {"u": "input", "opset": 26}, {"u": NEW_U}, {"u": NEW_U}),
    "never empty": ({"allow_empty": False}, {}, {}, {}),
    "never empty, asked": ({"groups": "label"}, {"allow_empty": False}, {"allow_empty": False}, {}),
    "prevalence": ({"conformity": aptset.Prevalence({label: 9 * label for label in range(K)})}, {}, {}, {}),
    "gridded": ({"conformity": aptset.Gridded(aptset.Adaptive(), 2.0**-8)}, {}, {}, {}),
    "penalty": ({"conformity": aptset.Regularized(0.1, 2)}, {}, {}, {}),
    "assurance": ({"groups": "label"}, {"assurance": 0.9}, {"assurance": 0.9}, {}),
    "clusters": ({"clusters": np.arange(N) // 3}, {}, {}, {}),
    "label weights": ({"label_weights": {label: 1.0 + label for label in range(K)}}, {}, {}, {}),
    **{
        f"power {power}": ({"conformity": aptset.Tempered(aptset.Adaptive(), power)}, {}, {}, {})
        for power in (0.5, 63 / 64, 3.25)
    },
}
WITHOUT_P_VALUES = {"clusters", "label weights"}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_gives_the_masks_orders_and_p_values_of_python(option, path):
    settings, exported, asked, fed = OPTIONS[option]
    check(calibrate(**settings), NEW, path, exported, asked, fed, option not in WITHOUT_P_VALUES)


def check(calibration, rows, path, exported, asked, fed, p_values=True):
    model = aptset.onnx.export(calibration, path, ALPHAS, p_values=p_values, **exported)
    sets = calibration.predict_set(rows, ALPHAS, **asked)
    for optimisation in ("none", "all"):
        given = outputs(model, rows, optimisation, **fed)
        assert given["valid"].all()
        for level, of_level in enumerate(sets):
            mask, order = given["mask"][level], given["order"]
            assert np.array_equal(mask, of_level.mask)
            assert np.array_equal(given["sizes"][level], of_level.sizes)
            assert np.array_equal(order[np.take_along_axis(mask, order, axis=1)], of_level.indices)
        if p_values:
            of_rows = {name: value for name, value in asked.items() if name not in ("assurance", "allow_empty")}
            assert np.array_equal(given["p_values"], calibration.p_values(rows, **of_rows))


@pytest.mark.parametrize(("kind", "opset"), [("float64", 18), ("float64", 26), ("float32", 18)])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_logits(kind, opset, power, path):
    score = aptset.Adaptive() if power == 1.0 else aptset.Tempered(aptset.Adaptive(), power)
    calibration = aptset.calibrate(LOGITS, LABELS, classes=NAMES, random_state=0, logits=True, conformity=score)
    exported = {"logits": True, "dtype": kind, "opset": opset}
    check(calibration, LOGITS[::-1].astype(kind), path, exported, {"logits": True}, {})


@pytest.mark.parametrize("conformity", ["adaptive", aptset.Tempered(aptset.SAPS(), 0.75)])
def test_rows_are_divided_by_their_sums(conformity, path):
    check(calibrate(normalize=True, conformity=conformity), NEW * SCALES, path, {}, {}, {})
    check(calibrate(conformity=conformity), NEW * SCALES, path, {"normalize": True}, {"normalize": True}, {})


def test_half_precision(path):
    check(calibrate(), NEW.astype(np.float16), path, {"dtype": "float16"}, {}, {})


def evaluated(write, opset, values):
    """Return what a function of values gives as a graph."""
    graph = Graph(opset)
    result = write(Value(graph, "x", np.float64, values.shape[1]))
    x = helper.make_tensor_value_info("x", type_code(np.float64), ["rows", values.shape[1]])
    info = helper.make_tensor_value_info(result.name, type_code(result.dtype), None)
    made = helper.make_graph(graph.nodes, "bits", [x], [info], list(graph.constants.values()))
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=13)
    return session_of(model).run(None, {"x": values})[0]


@pytest.mark.parametrize("opset", OPSETS)
def test_bits_of_numbers(opset):
    powers = 2.0 ** np.arange(-1074.0, 1024.0)
    edges = np.concatenate([powers, np.nextafter(powers, 0.0), np.nextafter(powers, np.inf), [0.0, -0.0]])[:, None]
    any_bits = np.random.default_rng(0).integers(0, 0x7FF << 52, size=(5000, 4), dtype=np.uint64).view(np.float64)
    for values in (edges, any_bits):
        assert np.array_equal(evaluated(words_of, opset, values), (values + 0.0).view(np.uint64))
        assert np.array_equal(evaluated(lambda x: floats_of(words_of(x)), opset, values), values)
    odd = np.array([[np.nan, np.inf, -np.inf, -0.0], [-np.nan, 1.0, -1e-320, 0.0]])
    for values in (edges, any_bits, -any_bits, odd):
        assert np.array_equal(evaluated(canonical_words, opset, values), words_by_numpy(values))


def ugly_rows(kind):
    rows = np.full((40, 3), 1.0 / 3.0)
    odd = [np.nan, np.inf, -np.inf, -1e-45, -0.1, 2.5, 1e300, 3e38, 0.0, -0.0]
    with np.errstate(over="ignore"):
        rows[:10, 1] = odd
        rows[10:12] = [[np.nan] * 3, [np.inf] * 3]
        rows[12:16] = [[1, 0, 0], [2, 0, 0], [0, 0, 0], [-0.0, -0.0, -0.0]]
        rows[16:40, 0] += np.repeat([1e-5, 1e-3, 2e-2], 8) * np.tile([0.99, 0.999999, 1.000001, 1.01], 6)
        rows[20:24, 0] = 2 / 3 - rows[20:24, 0]
        return rows.astype(kind)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("normalize", [False, True])
def test_valid_is_false_for_the_rows_that_python_refuses_and_they_hold_every_label(kind, normalize, path):
    calibration = aptset.calibrate([[0.8, 0.1, 0.1]] * 30, [0] * 30, classes=[0, 1, 2], random_state=0)
    model = aptset.onnx.export(calibration, path, 0.1, dtype=kind, normalize=normalize)
    rows = ugly_rows(kind)
    given = outputs(model, rows)
    refused = np.array([is_refused(calibration, row, normalize) for row in rows[:, None]])
    assert 8 < refused.sum() < len(rows)
    assert np.array_equal(given["valid"], ~refused)
    assert given["mask"][refused].all()
    assert (given["sizes"] == given["mask"].sum(axis=1)).all()


def is_refused(calibration, row, normalize):
    try:
        calibration.predict_mask(row, normalize=normalize)
    except ValueError:
        return True
    return False


def test_u_that_is_no_uniform_and_logits_without_probabilities_are_not_valid(path):
    model = aptset.onnx.export(calibrate(u=U), path, 0.1, u="input")
    u = np.array([0.0, 1.0, np.nan, -0.1, 1.1, np.inf])
    assert outputs(model, NEW[:6], u=u)["valid"].tolist() == [True, True, False, False, False, False]
    by_logits = aptset.calibrate(LOGITS, LABELS, classes=NAMES, random_state=0, logits=True)
    odd = np.zeros((6, K))
    odd[0, 0], odd[1, 0], odd[2], odd[3, :5], odd[4, 0] = np.nan, np.inf, -np.inf, -np.inf, 1e308
    given = outputs(aptset.onnx.export(by_logits, path, 0.1, logits=True), odd)
    assert given["valid"].tolist() == [False, False, False, True, True, True]
    assert np.array_equal(given["mask"][3:], by_logits.predict_mask(odd[3:], logits=True))


@pytest.mark.parametrize("opset", OPSETS)
def test_copies_in_a_batch_have_their_own_u_block_by_block(opset, path):
    calibration = calibrate()
    rows = np.repeat(NEW[:30], 300, axis=0)[np.random.default_rng(0).permutation(9000)]
    given = outputs(aptset.onnx.export(calibration, path, 0.3, opset=opset), rows)
    assert np.array_equal(given["mask"], calibration.predict_mask(rows, 0.3))
    alone = session_of(onnx.load(path))
    for row in NEW[:20, None]:
        mask = alone.run(["mask"], {"probabilities": row})[0]
        assert np.array_equal(mask, calibration.predict_mask(row, 0.3))


def test_one_level_has_no_axis_of_levels(path):
    model = aptset.onnx.export(calibrate(), path)
    given = outputs(model, NEW)
    assert given["mask"].shape == (N, K)
    assert given["sizes"].shape == given["valid"].shape == (N,)


def test_each_label_has_its_own_level(path):
    levels = {label: 0.05 + 0.03 * label for label in range(K)}
    calibration = calibrate(groups="label")
    assert np.array_equal(
        outputs(aptset.onnx.export(calibration, path, levels), NEW)["mask"], calibration.predict_mask(NEW, levels)
    )


def test_the_file_says_what_is_promised(path):
    written = aptset.onnx.export(calibrate(groups=REGIONS), path, [0.1, 0.05], assurance=0.9)
    stored = onnx.load(path)
    onnx.checker.check_model(stored, full_check=True)
    assert stored == written
    facts = {entry.key: entry.value for entry in stored.metadata_props}
    assert json.loads(facts["guarantee"]) == [0.9, 0.95]
    assert json.loads(facts["alpha"]) == [0.1, 0.05]
    assert json.loads(facts["n"]) == N
    assert set(json.loads(facts["groups"])) == {"north", "south", "west"}
    assert json.loads(facts["classes"]) == NAMES.tolist()
    assert (facts["score"], facts["scheme"], facts["assurance"]) == ("Adaptive()", "split", "assurance=0.9")
    assert json.loads(facts["versions"])["aptset"] == aptset.__version__
    assert {(entry.domain, entry.version) for entry in stored.opset_import} == {("", 18), ("ai.onnx.ml", 2)}


REFUSED = {
    "weights must be|weights each row": {"weights": U + 0.1},
    "prior_correction": {"label_weights": {label: 1.0 + label for label in range(K)}, "prior_correction": True},
    "ordered labels": {"conformity": "ordered"},
    "function of Python": {"conformity": lambda places: 1 - places.own / places.total},
    "overlap": {"groups": aptset.Overlapping(np.c_[NUMBERS > 5, NUMBERS < 7])},
    "texts or all whole numbers": {"groups": NUMBERS + 0.5},
    "u='input'": {"u": U},
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_no_graph_can_hold_is_refused_with_the_way_out(said, path):
    with pytest.raises(ValueError, match=said) as raised:
        aptset.onnx.export(calibrate(**REFUSED[said]), path)
    assert "alibrate" in str(raised.value)
    assert not path.exists()


def test_wrong_arguments_are_refused_and_nothing_is_written(path):
    cross = aptset.calibrate_cv(ROWS, LABELS, np.arange(N) % 2, classes=NAMES, random_state=0)
    plain = calibrate()
    for source, settings, kind, said in (
        (cross, {}, ValueError, "one model"),
        (3, {}, TypeError, "source must be a Calibration"),
        (aptset.ConformalClassifier(LogisticRegression()), {}, TypeError, "fit the classifier first"),
        (plain, {"u": "fresh"}, ValueError, "u must be one of"),
        (calibrate(randomized=False), {"u": "input"}, ValueError, "randomized=False"),
        (plain, {"dtype": "int8"}, ValueError, "dtype must be one of"),
        (plain, {"opset": 17}, ValueError, "opset must be a whole number from 18"),
        (plain, {"logits": 1}, TypeError, "logits must be True or False"),
        (plain, {"order": 1}, TypeError, "order must be True or False"),
        (plain, {"model": 3}, TypeError, "model must be an ONNX model"),
        (plain, {"alpha": 1.5}, ValueError, "alpha must be in"),
        (calibrate(clusters=np.arange(N) // 3), {"p_values": True}, ValueError, "p_values must be False"),
    ):
        with pytest.raises(kind, match=said):
            aptset.onnx.export(source, path, **settings)
    assert not path.exists()


def test_too_few_rows_and_shared_u_are_said_when_it_is_written(path):
    few = aptset.calibrate([[0.7, 0.3], [0.6, 0.4]], [0, 1], random_state=0)
    with pytest.warns(UserWarning, match="too few"):
        aptset.onnx.export(few, path)
    copies = aptset.calibrate([[0.75, 0.25]] * 50, [0] * 50, random_state=0)
    with pytest.warns(UserWarning, match="same u in every call"):
        aptset.onnx.export(copies, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aptset.onnx.export(copies, path, u="input")


# Joined to converted models. The rows are single floats, as converters have them: u comes from the same numbers.
X, y = load_digits(return_X_y=True)
X = (X + np.random.default_rng(0).normal(scale=0.01, size=X.shape)).astype(np.float32)
TEXTS = np.array(list("abcdefghij"))[y]
FITTED, FRESH = slice(0, 1000), slice(1000, 1500)


def lightgbm():
    from lightgbm import LGBMClassifier
    from onnxmltools import convert_lightgbm

    return LGBMClassifier(n_estimators=5, verbose=-1, random_state=0, n_jobs=1), convert_lightgbm


def xgboost():
    from onnxmltools import convert_xgboost
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=5, random_state=0, n_jobs=1), convert_xgboost


MODELS = {
    "logistic": lambda: (LogisticRegression(max_iter=200), None),
    "pipeline": lambda: (make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)), None),
    "forest": lambda: (RandomForestClassifier(20, random_state=0), None),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("labels", ["numbers", "texts"])
@pytest.mark.filterwarnings("ignore")  # of converters
def test_a_classifier_joined_to_its_converted_model(name, labels, path):
    """What the model says may differ in the last bits; u does not, so that hardly any set differs."""
    from onnxmltools.convert.common.data_types import FloatTensorType

    estimator, converter = MODELS[name]()
    classifier = aptset.ConformalClassifier(estimator, random_state=0)
    classifier.fit(X[FITTED], (y if labels == "numbers" else TEXTS)[FITTED])
    convert = None
    if converter is not None:

        def convert(fitted):
            return converter(fitted, initial_types=[("X", FloatTensorType([None, 64]))])

    given = outputs(aptset.onnx.export(classifier, path, ALPHAS, model=convert), X[FRESH])
    (probabilities,) = (value for key, value in given.items() if "prob" in key)
    assert np.abs(probabilities - classifier.predict_proba(X[FRESH])).max() < 1e-5
    expected = np.array([sets.mask for sets in classifier.predict_set(X[FRESH], ALPHAS)])
    assert given["valid"].all()
    assert (given["mask"] != expected).mean() < 1e-3


def test_a_model_in_double_precision_gives_the_sets_of_the_classifier(path):
    from skl2onnx import to_onnx

    wide = X.astype(np.float64)
    classifier = aptset.ConformalClassifier(LogisticRegression(max_iter=200), random_state=0).fit(
        wide[FITTED], y[FITTED]
    )
    model = to_onnx(classifier.models_[0], wide[:1], options={"zipmap": False}, target_opset=18)
    given = outputs(aptset.onnx.export(classifier, path, model=model), wide[FRESH])
    assert np.array_equal(given["mask"], classifier.predict_set(wide[FRESH]).mask)


def test_a_class_that_the_model_never_saw(path):
    known = y[:600] != 3
    forest = RandomForestClassifier(20, random_state=0).fit(X[:600][known], y[:600][known])
    classifier = aptset.ConformalClassifier(FrozenEstimator(forest), classes=range(10), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier.fit(X[600:1000], y[600:1000])
    given = outputs(aptset.onnx.export(classifier, path), X[FRESH])
    expected = classifier.predict_set(X[FRESH]).mask
    assert given["mask"].shape == expected.shape
    assert (given["mask"] != expected).mean() < 1e-3
    assert expected[:, 3].any()


def test_several_folds_are_refused(path):
    classifier = aptset.ConformalClassifier(RandomForestClassifier(2), calibration="cv+", random_state=0)
    with pytest.raises(ValueError, match="calibration='split'"):
        aptset.onnx.export(classifier.fit(X[:200, :5], y[:200]), path)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.filterwarnings("ignore")  # of torch
def test_a_network_of_torch(dynamo, path):
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)).eval()
    with torch.no_grad():
        calibration = aptset.calibrate(net(torch.from_numpy(X[FITTED])).numpy(), y[FITTED], logits=True, random_state=0)
    names = {"input_names": ["x"], "output_names": ["scores"], "dynamo": dynamo}
    example = (torch.from_numpy(X[:2]),)
    if dynamo:
        network = torch.onnx.export(
            net, example, **names, dynamic_shapes=({0: torch.export.Dim("rows")},), verbose=False
        )
    else:
        network = path.with_name("network.onnx")
        axes = {"x": {0: "rows"}, "scores": {0: "rows"}}
        torch.onnx.export(net, example, network, **names, dynamic_axes=axes, opset_version=18)
    given = outputs(aptset.onnx.export(calibration, path, ALPHAS, model=network, logits=True), X[FRESH])
    for alpha, mask in zip(ALPHAS, given["mask"], strict=True):
        assert np.array_equal(mask, calibration.predict_mask(given["scores"], alpha, logits=True))


def small_model(**changed):
    """Return a model that gives its input back, of opset 13, with a second output."""
    nodes = [helper.make_node("Identity", ["x"], [changed.get("name", "probabilities")])]
    nodes.append(helper.make_node("ReduceSum", ["x"], ["total"]))
    infos = [
        helper.make_tensor_value_info(changed.get("name", "probabilities"), 11, ["rows", changed.get("width", K)]),
        helper.make_tensor_value_info("total", 11, [1, 1]),
    ]
    x = helper.make_tensor_value_info("x", 11, ["rows", changed.get("width", K)])
    return helper.make_model(
        helper.make_graph(nodes, "small", [x], infos), opset_imports=[helper.make_opsetid("", 13)], ir_version=7
    )


def test_joining_lifts_old_models_and_says_what_does_not_fit(path):
    calibration = calibrate()
    joined = aptset.onnx.export(calibration, path, ALPHAS, model=small_model())
    given = outputs(joined, NEW)
    assert set(given) == {"probabilities", "total", "mask", "order", "sizes", "valid"}
    expected = np.array([calibration.predict_mask(NEW, alpha) for alpha in ALPHAS])
    assert np.array_equal(given["mask"], expected)
    for model, settings, said in (
        (small_model(width=K + 1), {}, "one column per class"),
        (small_model(name="a"), {}, "output must say which"),
        (small_model(), {"output": "b"}, "output must be one of"),
        (small_model(name="mask"), {"output": "mask"}, "called 'mask'"),
    ):
        with pytest.raises(ValueError, match=said):
            aptset.onnx.export(calibration, path, model=model, **settings)
    assert onnx.load(path) == joined


def test_the_command_line_writes_the_same_graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibration = calibrate()
    calibration.save("cal.aptset")
    done = CliRunner().invoke(main, ["export", "sets.onnx", "-c", "cal.aptset", "--alpha", "0.1", "--alpha", "0.05"])
    assert done.exit_code == 0, done.output
    assert "promised coverage [0.9, 0.95]" in done.output
    assert onnx.load("sets.onnx") == aptset.onnx.export(calibration, "again.onnx", [0.1, 0.05])


JAVASCRIPT = """
const ort = require("onnxruntime-node");
const fs = require("fs");
(async () => {
  const session = await ort.InferenceSession.create("sets.onnx");
  const rows = new ort.Tensor("float64", new Float64Array(fs.readFileSync("rows.bin").buffer.slice(0)), SHAPE);
  const { mask, sizes, valid } = await session.run({ probabilities: rows });
  fs.writeFileSync("mask.bin", mask.data);
  const facts = { dims: mask.dims, sizes: Array.from(sizes.data, Number), valid: valid.data.every(Boolean) };
  console.log(JSON.stringify(facts));
})();
"""


def test_javascript_gives_the_same_cells(tmp_path):
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed: JavaScript is not tried")
    install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "onnxruntime-node@1"]
    installed = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    if installed.returncode or not (tmp_path / "node_modules" / "onnxruntime-node").is_dir():
        pytest.skip(f"npm could not install onnxruntime-node: {installed.stderr[-300:]}")
    calibration = calibrate()
    aptset.onnx.export(calibration, tmp_path / "sets.onnx", ALPHAS)
    (tmp_path / "rows.bin").write_bytes(NEW.tobytes())
    (tmp_path / "sets.js").write_text(JAVASCRIPT.replace("SHAPE", f"[{N}, {K}]"))
    done = subprocess.run(["node", "sets.js"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["dims"] == [len(ALPHAS), N, K]
    assert facts["valid"]
    mask = np.frombuffer((tmp_path / "mask.bin").read_bytes(), dtype=np.bool_).reshape(facts["dims"])
    assert np.array_equal(mask, np.array([calibration.predict_mask(NEW, alpha) for alpha in ALPHAS]))
    assert facts["sizes"] == mask.sum(axis=2).ravel().tolist()
