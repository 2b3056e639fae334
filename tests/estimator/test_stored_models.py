"""Models in a file of skops: exact names that live where they say are made, and no code of a stranger runs."""

import importlib
import io
import json
import random
import re
import zipfile
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import skops.io
import skops.io._utils as skops_names
from click.testing import CliRunner
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, RepeatedKFold
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import aptset
from aptset.cli.main import main
from aptset.estimator.storage import FACTS
from aptset.estimator.stored_models import check_vouched, lives_there, vouched
from aptset.estimator.stored_trees import check_trees
from forging import change

X, codes = load_iris(return_X_y=True)
SPLIT = "sklearn.model_selection._split"
REFUSED = "not known to be safe|is no intact file of skops"


def node(loader, name, content=None, **others):
    module, _, own = name.rpartition(".")
    content = {} if content is None else {"content": content}
    return {"__class__": own, "__module__": module, "__loader__": loader, **content, **others}


def plain(value):
    return node("JsonNode", "builtins.str", json.dumps(value))


def mapping(content, key_types=None):
    if key_types is None:
        key_types = [node("TypeNode", "builtins.str")] * len(content)
    return node("DictNode", "builtins.dict", content, key_types=node("ListNode", "builtins.list", key_types))


def methods(start, *names):
    """Return a chain of attributes: each MethodNode repeats the name of what it stands on."""
    for name in names:
        start = node("MethodNode", f"{start['__module__']}.{start['__class__']}", {"func": name, "obj": start})
    return start


def skops_file(schema, protocol=2):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("schema.json", json.dumps({**schema, "protocol": protocol, "_skops_version": "0.16.0"}))
        file.writestr("1.npy", np.lib.format.magic(1, 0))
    return buffer.getvalue()


def runs(code, evaluate):
    """Return a dictionary whose one key is given to ``evaluate``."""
    return mapping({code: plain(1)}, [evaluate])


def chain_to_eval():
    return methods(node("FunctionNode", f"{SPLIT}.np"), "ma", "core", "builtins", "eval")


def put_models(folder, content):
    """Put another file of models into a folder, and renew both digests."""
    digest = blake2b(content, digest_size=16).hexdigest()
    name = f"models-{digest[:12]}.skops"
    (folder / name).write_bytes(content)
    change(folder / FACTS, models={"name": name, "digest": digest})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a run whose models write a file when they are opened."""
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.array(["u", "v", "w"])[codes]})
    rows.to_csv("rows.csv", index=False)
    done = CliRunner().invoke(main, ["run", "rows.csv", "--target", "y", "--model", "bayes", "--out", "out"])
    assert done.exit_code == 0, done.output
    (saved,) = [path.parent for path in Path().rglob(FACTS)]
    content = skops_file(runs("open('canary', 'w').close()", chain_to_eval()))
    put_models(saved, content)
    Path("x.skops").write_bytes(content)
    return saved


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "rows.csv", "-c", "FOLDER", "-o", "sets.csv"],
        ["report", "rows.csv", "-c", "FOLDER", "-o", "report.html"],
        ["run", "rows.csv", "--target", "y", "--model", "x.skops", "--out", "new"],
        ["audit", "rows.csv", "--target", "y", "--model", "x.skops"],
        ["compare", "rows.csv", "--target", "y", "--model", "x.skops", "--model", "bayes"],
        ["report", "rows.csv", "--target", "y", "--model", "x.skops", "-o", "report.html"],
    ],
)
def test_no_command_runs_the_code_of_a_file(folder, arguments):
    done = CliRunner().invoke(main, [str(folder) if word == "FOLDER" else word for word in arguments])
    assert not Path("canary").exists()
    assert done.exit_code == 1, done.output
    assert re.search(REFUSED, " ".join(done.output.split()))


def test_load_and_inspect_run_no_code_of_a_folder(folder):
    with pytest.raises(ValueError, match=REFUSED):
        aptset.load(folder)
    CliRunner().invoke(main, ["inspect", str(folder)])
    assert not Path("canary").exists()


@pytest.mark.parametrize("schema", [node("ObjectNode", "sklearn.naive_bayes.GaussianNB"), plain(None)])
def test_a_file_without_a_whole_model_is_said_to_have_none(folder, schema):
    Path("x.skops").write_bytes(skops_file(schema))
    done = CliRunner().invoke(main, ["run", "rows.csv", "--target", "y", "--model", "x.skops", "--out", "new"])
    assert "--model x.skops holds no model that can be opened here" in " ".join(done.output.split())


def test_models_that_are_no_list_are_refused(folder):
    put_models(folder, skops_file(mapping({name: plain(1) for name in ("estimator", "models", "calibration")})))
    with pytest.raises(ValueError, match="its models are incomplete"):
        aptset.load(folder)


@pytest.mark.parametrize(
    "trust",
    [
        ["sklearn"],
        ["sklearn.model_selection"],
        [SPLIT],
        f"{SPLIT}.np",
        [f"{SPLIT}.np", f"{SPLIT}.np.ma", f"{SPLIT}.np.core", f"{SPLIT}.np.builtins", f"{SPLIT}.np.eval"],
    ],
)
def test_trust_names_what_lives_there_and_nothing_below_it(folder, trust):
    with pytest.raises(ValueError, match=REFUSED):
        aptset.load(folder, trust=trust)
    assert not Path("canary").exists()


def test_trust_that_is_given_reaches_what_was_named():
    evaluate = node("TypeNode", "builtins.eval")
    with pytest.raises(ValueError, match=r"holds builtins\.eval, which are not known to be safe"):
        check_vouched("file", skops_file(runs("1", evaluate)), [])
    assert "builtins.eval" in check_vouched("file", skops_file(runs("1", evaluate)), ["builtins.eval"])


ESTIMATOR = "sklearn.naive_bayes.GaussianNB"


PIPELINE = "sklearn.pipeline.Pipeline"
SEARCH = "sklearn.model_selection._search.GridSearchCV"


def listed(*values):
    return node("ListNode", "builtins.list", list(values))


def pair(name, value):
    return node("TupleNode", "builtins.tuple", [plain(name), plain(value)])


def filled_default(content):
    both = {"main": mapping(content), "default_factory": plain(None)}
    return node("DefaultDictNode", "collections.defaultdict", both)


def generator_of(name):
    return node(
        "RandomGeneratorNode",
        "numpy.random._generator.Generator",
        {"bit_generator": mapping({"bit_generator": plain(name)}), "seed_seq": mapping({})},
    )


@pytest.mark.parametrize(
    "schema",
    [
        node("FunctionNode", f"{SPLIT}.np"),  # it is a module
        node("FunctionNode", "sklearn.base.clone"),  # it lives there, and nobody listed it
        node("FunctionNode", "numpy.load"),
        node("FunctionNode", "numpy.log1p", {"module_path": "os", "function": "system"}),  # as protocol 0 wrote it
        node("TypeNode", "builtins.eval"),
        node("TypeNode", ESTIMATOR),  # a class that may be filled from a file is not one that may be called
        node("TypeNode", "lightgbm.basic.Booster"),
        node("ConstructorFromReduceNode", "lightgbm.basic.Booster", node("TupleNode", "builtins.tuple", [])),
        node("ConstructorFromReduceNode", ESTIMATOR, node("TupleNode", "builtins.tuple", [])),
        node("ListNode", ESTIMATOR, []),
        node("SetNode", "builtins.eval", []),
        node("TupleNode", f"{SPLIT}.namedtuple", []),
        node("DictNode", f"{SPLIT}.np", {}, key_types=node("ListNode", "builtins.list", [])),
        node("NdArrayNode", "numpy.load", type="numpy", file="1.npy"),
        node("NdArrayNode", "numpy.memmap", type="numpy", file="1.npy"),
        node("NdArrayNode", "numpy.ndarray", [chain_to_eval()], type="json", shape=plain([1])),
        node("MaskedArrayNode", "numpy.ma.MaskedArray", {"data": chain_to_eval(), "mask": plain(0)}),
        node("PartialNode", "functools.partial", {"func": plain(1), "args": plain([]), "kwds": plain({})}),
        node("OperatorFuncNode", "operator.methodcaller", attrs=node("TupleNode", "builtins.tuple", [])),
        node("OperatorFuncNode", "operator.attrgetter", attrs=node("TupleNode", "builtins.tuple", [])),
        node("LossNode", "os.system", plain({}), __reduce__={"args": plain(["touch canary"])}),
        node("LossNode", ESTIMATOR, plain({}), __reduce__={"args": plain([])}),
        node("TreeNode", "sklearn.tree._tree.Tree", plain({}), __reduce__={"args": chain_to_eval()}),
        node("ObjectNode", f"{SPLIT}.np"),
        node("ObjectNode", "sklearn.calibration._CalibratedClassifier.estimator"),
        node("ObjectNode", ESTIMATOR, mapping({"model": chain_to_eval()})),
        node("ObjectNode", ESTIMATOR, mapping({"__array_interface__": plain({})})),  # numpy would read any address
        node(
            "ObjectNode", "sklearn.pipeline.Pipeline", mapping({"memory": plain("cache")})
        ),  # fit unpickles from there
        # The same by other roads: texts of numpy, settings that a search tries, states that are no plain dictionary.
        node("ObjectNode", PIPELINE, plain({"memory": "cache"})),
        node(
            "ObjectNode", PIPELINE, mapping({"memory": node("NdArrayNode", "numpy.str_", type="numpy", file="1.npy")})
        ),
        node("ObjectNode", PIPELINE, mapping({"memory\0": plain("cache")}, [node("TypeNode", "numpy.str_")])),
        node("ObjectNode", PIPELINE, filled_default({"memory": plain("cache")})),
        node("ObjectNode", SEARCH, mapping({"param_grid": mapping({"memory": listed(plain("cache"))})})),
        node("ObjectNode", SEARCH, mapping({"param_grid": listed(mapping({"a__memory": listed(plain("cache"))}))})),
        node("ObjectNode", SEARCH, mapping({"param_grid": plain({"memory": ["cache"]})})),
        node("ObjectNode", ESTIMATOR, filled_default({"__array_interface__": plain(1)})),
        node("ObjectNode", ESTIMATOR, mapping({"__array_interface__\0": plain(1)}, [node("TypeNode", "numpy.str_")])),
        node("ObjectNode", ESTIMATOR, plain({"__array_interface__": {}})),
        node("ObjectNode", "aptset.estimator.columns.AsText", listed(pair("__array_interface__", 1))),
        node(
            "ObjectNode",
            "aptset.estimator.columns.AsText",
            node("TupleNode", "builtins.tuple", [pair("__array_interface__", 1)]),
        ),
        node("DefaultDictNode", "collections.defaultdict", {"main": mapping({}), "default_factory": chain_to_eval()}),
        node("RandomStateNode", "os.system", plain({})),
        node("RandomGeneratorNode", "numpy.random._generator.Generator", {"bit_generator": {"bit_generator": "seed"}}),
        generator_of("seed"),
        generator_of("set_bit_generator"),
        mapping({"1": plain(1)}, [node("FunctionNode", "numpy.log1p")]),  # a type of keys must be one
        {**mapping({"1": plain(1)}), "key_types": chain_to_eval()},
        node("CachedNode", "builtins.str", __id__=1),
        node("NewNode", "builtins.str"),
        node("MethodNode", ESTIMATOR, {"func": "fit", "obj": node("ObjectNode", ESTIMATOR)}),
        node("ListNode", "builtins.list", [{"__id__": 5}]),
        node("ListNode", "builtins.list", [{**plain(1), "__class__": 5}]),
        # What is read first under a number is what skops makes wherever the number comes again.
        node("ListNode", "builtins.list", [{**plain("x"), "__id__": 7}, {**mapping({}), "__id__": 7}]),
    ],
)
def test_nodes_that_reach_further_than_the_list_are_refused(schema, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=REFUSED):
        check_vouched("file", skops_file(schema), [])
    assert not Path("canary").exists()


def test_a_number_may_not_stand_for_two_things():
    first, second = generator_of("PCG64"), generator_of("PCG64")
    first["content"]["bit_generator"]["__id__"] = 3
    shadow = {**mapping({"bit_generator": plain("seed")}), "__id__": 3}
    assert check_vouched("file", skops_file(node("ListNode", "builtins.list", [first, second])), [])
    with pytest.raises(ValueError, match="gives one number to two objects"):
        check_vouched("file", skops_file(node("ListNode", "builtins.list", [shadow, first])), [])


@pytest.mark.parametrize(
    "content", [b"", b"PK", skops_file({}), skops_file(node("ListNode", "builtins.list", {"__loader__": None}))]
)
def test_what_is_no_file_of_skops_is_said_to_be_none(content):
    with pytest.raises(ValueError, match="is no intact file of skops"):
        check_vouched("file", content, [])


def _of_this_test(values):
    return values


class OwnModel(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_functions_and_classes_of_ones_own_are_named_one_by_one():
    model = make_pipeline(FunctionTransformer(_of_this_test), OwnModel())
    names = [f"{__name__}._of_this_test", f"{__name__}.OwnModel"]
    content = skops.io.dumps(model)
    for trust in ([], [__name__], names[:1], names[1:]):
        with pytest.raises(ValueError, match="not known to be safe"):
            check_vouched("file", content, trust)
    assert set(names) <= set(check_vouched("file", content, names))


MODELS = [
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(make_column_transformer((StandardScaler(), [0, 1]), ("passthrough", [2])), GaussianNB()),
    make_pipeline(FunctionTransformer(np.log1p), SelectKBest(chi2, k=2), MultinomialNB()),
    make_pipeline(KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"), BernoulliNB()),
    make_pipeline(
        FunctionTransformer(), SelectKBest(k=2), KNeighborsClassifier(algorithm="ball_tree", metric="manhattan")
    ),
    DecisionTreeClassifier(),
    RandomForestClassifier(3),
    ExtraTreesClassifier(3),
    GradientBoostingClassifier(n_estimators=2),
    HistGradientBoostingClassifier(max_iter=2, early_stopping=True),
    AdaBoostClassifier(n_estimators=2),
    BaggingClassifier(n_estimators=2),
    SGDClassifier(loss="log_loss"),
    SGDClassifier(loss="modified_huber", random_state=np.random.RandomState(0)),
    KNeighborsClassifier(),
    SVC(),
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(),
    MLPClassifier(3, max_iter=300, tol=1),
    CalibratedClassifierCV(GaussianNB(), cv=2),
    CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2),
    StackingClassifier([("tree", DecisionTreeClassifier()), ("bayes", GaussianNB())], cv=2),
    VotingClassifier([("tree", DecisionTreeClassifier()), ("bayes", GaussianNB())], voting="soft"),
    GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-8]}, cv=RepeatedKFold(n_splits=2, n_repeats=1)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_in_wide_use_need_no_trust(model):
    model = model.fit(X, codes)
    content = skops.io.dumps(model)
    opened = skops.io.loads(content, trusted=check_vouched("file", content, []))
    assert np.array_equal(opened.predict(X), model.predict(X))


def forged_nodes(model, forgery):
    """Return a file of a fitted model in which the nodes of all trees were changed."""
    stored, forged = zipfile.ZipFile(io.BytesIO(skops.io.dumps(model.fit(X, codes)))), io.BytesIO()
    with stored, zipfile.ZipFile(forged, "w") as file:
        for name in stored.namelist():
            content = stored.read(name)
            if name.endswith(".npy") and {"left_child", "left"} & {*(np.load(io.BytesIO(content)).dtype.names or ())}:
                nodes, buffer = np.load(io.BytesIO(content)), io.BytesIO()
                forgery(nodes)
                np.save(buffer, nodes)
                content = buffer.getvalue()
            file.writestr(name, content)
    content = forged.getvalue()
    return skops.io.loads(content, trusted=check_vouched("file", content, []))


def far_away(nodes):
    name = "left_child" if "left_child" in nodes.dtype.names else "left"
    nodes[name][0] = 2**31


def in_a_circle(nodes):
    name = "right_child" if "right_child" in nodes.dtype.names else "right"
    nodes[name][0] = 0


def of_another_feature(nodes):
    nodes["feature" if "feature" in nodes.dtype.names else "feature_idx"][0] = 4


TREES = [
    DecisionTreeClassifier(max_leaf_nodes=4),
    RandomForestClassifier(2, ccp_alpha=0.01),
    GradientBoostingClassifier(n_estimators=2, init="zero"),
    GradientBoostingClassifier(n_estimators=2),
    HistGradientBoostingClassifier(max_iter=2),
]


@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_a_tree_that_leads_out_of_itself_is_refused_before_it_is_followed(model):
    check_trees("file", forged_nodes(model, lambda nodes: None))
    for forgery in (far_away, in_a_circle, of_another_feature):
        with pytest.raises(ValueError, match="file holds a tree that leads out of itself"):
            check_trees("file", [{"models": (forged_nodes(model, forgery),)}])


def test_trees_have_the_features_and_columns_of_their_model(folder):
    forest, boosting = RandomForestClassifier(2).fit(X, codes), GradientBoostingClassifier(n_estimators=2).fit(X, codes)
    tree = DecisionTreeClassifier().fit(X, codes)
    forest.n_features_in_ = tree.n_features_in_ = 1
    boosting.init_.fit(X, codes == 1)
    for model in (forest, tree, boosting):
        with pytest.raises(ValueError, match="file holds a tree"):
            check_trees("file", model)
        put_models(folder, skops.io.dumps({"estimator": model, "models": [model], "calibration": {}}))
        with pytest.raises(ValueError, match="holds a tree"):
            aptset.load(folder)


def test_columns_chosen_by_their_type_need_no_trust():
    chosen = make_column_transformer((StandardScaler(), make_column_selector(dtype_include=np.float64)))
    content = skops.io.dumps(make_pipeline(chosen, GaussianNB()).fit(pd.DataFrame(X), codes))
    assert check_vouched("file", content, [])


def test_every_vouched_name_lives_where_it_says():
    names = {name for listed in vouched().values() for name in listed}
    assert len(names) > 300
    installed = [name for name in names if name.startswith(("sklearn.", "numpy.", "builtins.", "aptset.", "scipy."))]
    absent = {name for name in installed if not lives_there(name)}
    gone = {
        name for name in absent if hasattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
    }
    assert gone <= {"numpy.ma.core.MaskedArray"}, "these are names of something that lives elsewhere"
    assert len(absent) < 20, absent  # of other versions of scikit-learn and numpy


def random_graph(generator, names, depth=0):
    """Return a node of any kind under any name that is vouched for, or an attribute of the module where one lives."""
    loader = generator.choice(list(names))
    own = names[loader] if names[loader] and generator.random() < 0.9 else names["ObjectNode"]
    name = generator.choice(own)
    if generator.random() < 0.1:
        module = importlib.import_module(name.rpartition(".")[0])
        name = f"{module.__name__}.{generator.choice(dir(module))}"
    if generator.random() < 0.02:
        name = generator.choice(["builtins.eval", "os.system", "builtins.getattr", "subprocess.Popen"])

    def inner():
        return random_graph(generator, names, depth + 1) if depth < 3 else plain(generator.choice(["1", 1, None, {}]))

    def inner_list():
        return node("ListNode", "builtins.list", [inner() for _ in range(generator.randrange(3))])

    def inner_type():
        return inner() if generator.random() < 0.1 else node("TypeNode", "builtins.str")

    def inner_mapping():
        keys = generator.sample(["a", "classes_", "memory", "cv", "predict", "__class__", "1"], generator.randrange(3))
        return mapping({key: inner() for key in keys}, [inner_type() for _ in keys])

    contents = {
        "JsonNode": lambda: "1",
        "DictNode": lambda: inner_mapping()["content"],
        "ListNode": lambda: inner_list()["content"],
        "SetNode": lambda: inner_list()["content"],
        "TupleNode": lambda: inner_list()["content"],
        "MethodNode": lambda: {"func": generator.choice(["ma", "eval", "__init__", "fit"]), "obj": inner()},
        "PartialNode": lambda: {"func": inner(), "args": inner_list(), "kwds": inner_mapping(), "namespace": plain({})},
        "DefaultDictNode": lambda: {"main": inner_mapping(), "default_factory": inner()},
        "MaskedArrayNode": lambda: {"data": inner(), "mask": inner()},
        "RandomGeneratorNode": lambda: generator_of(generator.choice(["PCG64", "seed", "eval"]))["content"],
        "SliceNode": lambda: {"start": 1, "stop": 2, "step": None},
        "NdArrayNode": lambda: [inner()],
        "ObjectNode": inner_mapping,
    }
    content = None if loader in ("TypeNode", "FunctionNode") else contents.get(loader, inner)()
    others = {
        "DictNode": lambda: {"key_types": node("ListNode", "builtins.list", [inner_type() for _ in content])},
        "NdArrayNode": lambda: {"type": "json", "shape": plain([1])},
        "OperatorFuncNode": lambda: {"attrs": inner_list()},
        "BytesNode": lambda: {"file": "1.npy"},
        "BytearrayNode": lambda: {"file": "1.npy"},
        "SparseMatrixNode": lambda: {"type": "scipy", "file": "1.npy"},
        "TreeNode": lambda: {"__reduce__": {"args": inner_list()}},
        "LossNode": lambda: {"__reduce__": {"args": inner_list()}},
    }.get(loader, dict)()
    made = node(loader, name, content, **others)
    if loader == "MethodNode":
        made.update({key: made["content"]["obj"][key] for key in ("__class__", "__module__")})
    return {**made, "__id__": generator.randrange(8)} if generator.random() < 0.05 else made


class Recording:
    """Stand for importlib where skops looks names up, and note every attribute that it asks a module for."""

    def __init__(self):
        self.asked = set()

    def import_module(self, module, package=None):
        found, asked = importlib.import_module(module, package), self.asked

        class Module(SimpleNamespace):
            def __getattr__(self, name):
                asked.add(f"{module}.{name}")
                return getattr(found, name)

        return Module()


@pytest.mark.filterwarnings("ignore")
def test_no_graph_over_the_vouched_names_reaches_anything_else(monkeypatch):
    generator, recording, outcomes = random.Random(0), Recording(), Counter()
    monkeypatch.setattr(skops_names, "importlib", recording)
    listed = {name for names in vouched().values() for name in names}
    names = {loader: sorted(filter(lives_there, of_loader)) for loader, of_loader in vouched().items()}
    for _ in range(4000):
        content = skops_file(random_graph(generator, names), protocol=generator.choice([0, 1, 2, 2, 2, 2]))
        try:
            trusted = check_vouched("file", content, [])
        except ValueError:
            outcomes["refused"] += 1
            continue
        outcomes["vouched"] += 1
        try:
            skops.io.loads(content, trusted=trusted)
        except Exception:  # arguments that a class does not take
            outcomes["failed"] += 1
    bits = {f"numpy.random.{name}" for name in ("PCG64", "MT19937", "bit_generator", "SeedSequence")}
    bits.add("numpy.random.bit_generator.SeedSequence")
    assert recording.asked <= listed | bits
    assert len(recording.asked) > 50
    assert min(outcomes["vouched"] - outcomes["failed"], outcomes["refused"]) > 100, outcomes
