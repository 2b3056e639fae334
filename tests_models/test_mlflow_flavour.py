"""The flavour of MLflow: logged to a store on disk, loaded, and served over HTTP; the sets are those of Python."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from mlflow.exceptions import MlflowException
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

import aptset
import aptset.mlflow
from aptset import ConformalClassifier, CVPlus, calibrate

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

generator = np.random.default_rng(0)
N = 3400
codes = generator.integers(3, size=N)
Y = np.array(["ape", "bee", "cat"])[codes]
FRAME = pd.DataFrame(
    {
        "a": generator.normal(size=N) + codes,
        "n": generator.integers(0, 30, size=N) - 4 * codes,
        "colour": pd.Categorical(generator.choice(["red", "green", "blue"], size=N), ["green", "red", "blue"]),
        "d": generator.normal(size=N) - codes,
    }
)
FRAME.loc[::9, "d"] = np.nan
TRAIN, NEW = FRAME[:1400], FRAME[1400:].reset_index(drop=True)  # 2,000 rows
NUMBERS = FRAME[["a", "n", "d"]].fillna(0.0)
BOOSTERS = {
    "lightgbm": lambda: LGBMClassifier(n_estimators=6, num_leaves=8, verbose=-1),
    "xgboost": lambda: XGBClassifier(n_estimators=6, max_depth=3, enable_categorical=True),
    "catboost": lambda: CatBoostClassifier(
        iterations=6, depth=3, verbose=0, allow_writing_files=False, cat_features=["colour"]
    ),
    "sklearn": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(sparse_output=False), ["colour"]), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=6),
    ),
}


@pytest.fixture(autouse=True)
def tracking(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(store)


def texts(sets):
    return [[str(label) for label in row.tolist()] for row in sets]


def no_pickle(folder):
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".joblib", ".pth")]
    for path in files:
        assert not path.read_bytes().startswith(b"\x80\x04"), path
    return {path.name for path in files}


def folder_of(info):
    return mlflow.artifacts.download_artifacts(artifact_uri=info.model_uri)


@pytest.mark.parametrize("name", BOOSTERS)
def test_each_model_in_its_own_flavour(name):
    classifier = ConformalClassifier(BOOSTERS[name](), random_state=0).fit(TRAIN, Y[:1400])
    info = aptset.mlflow.log_model(classifier)
    folder = folder_of(info)
    assert {"lightgbm": "model.lgb", "xgboost": "model.ubj", "catboost": "model.cb", "sklearn": "model.skops"}[
        name
    ] in no_pickle(folder)
    expected = classifier.predict_set(NEW, alpha=0.1)
    loaded = aptset.mlflow.load_model(info.model_uri)
    assert np.array_equal(loaded.p_values(NEW), classifier.p_values(NEW))
    assert loaded.predict_set(NEW) == expected
    assert loaded.guarantee() == classifier.guarantee()
    served = mlflow.pyfunc.load_model(info.model_uri)
    shuffled = NEW[["d", "colour", "a", "n"]].assign(colour=NEW["colour"].astype(str))
    frame = served.predict(shuffled, params={"p_values": True})
    assert frame["set"].tolist() == texts(expected)
    assert frame["size"].tolist() == expected.sizes.tolist()
    assert frame["guess"].tolist() == classifier.predict(NEW).tolist()
    p_values = classifier.p_values(NEW)
    assert [list(row.values()) for row in frame["p_values"]] == p_values.tolist()
    assert list(frame["p_values"][0]) == ["ape", "bee", "cat"]
    alone = getattr(mlflow, name).load_model(f"{folder}/data/aptset/models/0")
    assert type(alone).__name__ in ("Booster", "XGBClassifier", "CatBoostClassifier", "Pipeline")


def test_what_is_said_of_a_model():
    classifier = ConformalClassifier(GaussianNB(), calibration=CVPlus(4), alpha=0.2, random_state=0)
    classifier.fit(NUMBERS[:400], Y[:400])
    info = aptset.mlflow.log_model(classifier, metadata={"owner": "me"}, registered_model_name="sets")
    said = mlflow.models.get_model_info("models:/sets/1").metadata
    assert said["owner"] == "me"
    facts = said["aptset"]
    assert facts["guarantee"] == classifier.guarantee()
    assert (facts["alpha"], facts["n"], facts["scheme"]) == (0.2, 400, "CV+")
    assert facts["score"] == "Adaptive()"
    assert facts["versions"]["aptset"] == aptset.__version__
    signature = info.signature
    assert signature.inputs.input_names() == ["a", "n", "d", "id"]
    assert signature.inputs.optional_input_names() == ["id"]
    assert signature.outputs.input_names() == ["set", "size", "guess", "p_values"]
    assert [param.name for param in signature.params] == ["alpha", "alphas", "p_values", "assurance"]
    served = mlflow.pyfunc.load_model("models:/sets/1")
    assert served.predict(NUMBERS[400:900])["set"].tolist() == texts(classifier.predict_set(NUMBERS[400:900]))


def test_levels_ids_and_assurance():
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(NUMBERS[:1400], Y[:1400])
    served = mlflow.pyfunc.load_model(aptset.mlflow.log_model(classifier).model_uri)
    rows, ids = NUMBERS[1400:], [f"row {k}" for k in range(2000)]
    frame = served.predict(rows.assign(id=ids), params={"alphas": "0.05, 0.1,0.2"})
    assert frame.columns.tolist() == ["set", "size", "set 0.1", "size 0.1", "set 0.2", "size 0.2", "guess"]
    for name, alpha in (("set", 0.05), ("set 0.1", 0.1), ("set 0.2", 0.2)):
        assert frame[name].tolist() == texts(classifier.predict_set(rows, alpha=alpha, ids=ids))
    sure = served.predict(rows, params={"alpha": 0.05, "assurance": 0.95})
    assert sure["set"].tolist() == texts(classifier.predict_set(rows, alpha=0.05, assurance=0.95))
    wrong = {
        "alpha must be in": {"alpha": 1.5},
        "alphas must be levels": {"alphas": "0.05;0.1"},
        "alpha must be": {"alphas": "0.05,0"},
        "must not both be passed": {"alpha": 0.1, "alphas": "0.1"},
        "assurance must be": {"assurance": 2.0},
    }
    for words, params in wrong.items():
        with pytest.raises(MlflowException, match=words) as caught:
            served.predict(rows[:3], params=params)
        assert caught.value.get_http_status_code() == 400
        assert "\n" not in caught.value.message
    with pytest.raises(MlflowException, match="ids must not be missing"):
        served.predict(rows[:2].assign(id=["a", None]))


def test_a_calibration_with_a_model_or_alone():
    model = LGBMClassifier(n_estimators=6, num_leaves=8, verbose=-1).fit(NUMBERS[:700], codes[:700])
    calibration = calibrate(model.predict_proba(NUMBERS[700:1400]), codes[700:1400], random_state=0)
    new = NUMBERS[1400:]
    probabilities = model.predict_proba(new)
    expected = texts(calibration.predict_set(probabilities, alpha=0.05))
    of_rows = aptset.mlflow.log_model(calibration, model=model, alpha=0.05, input_example=NUMBERS[:2])
    alone = aptset.mlflow.log_model(calibration, alpha=0.05)
    for info in (of_rows, alone):
        no_pickle(folder_of(info))
        assert np.array_equal(
            aptset.mlflow.load_model(info.model_uri).p_values(probabilities[:9]),
            calibration.p_values(probabilities[:9]),
        )
    served = mlflow.pyfunc.load_model(of_rows.model_uri)
    assert served.predict(new[["n", "d", "a"]])["set"].tolist() == expected
    names = pd.DataFrame(probabilities, columns=["0", "1", "2"])
    assert mlflow.pyfunc.load_model(alone.model_uri).predict(names[["2", "0", "1"]])["set"].tolist() == expected


@pytest.mark.parametrize("logits", [False, True])
def test_networks_and_graphs(logits):
    torch.manual_seed(0)
    rows = NUMBERS.to_numpy(dtype=np.float32)
    layers = [
        torch.nn.Linear(3, 16),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 3),
        *([] if logits else [torch.nn.Softmax(1)]),
    ]
    network = torch.nn.Sequential(*layers)
    said = network(torch.as_tensor(rows)).detach().numpy()
    calibration = calibrate(said[:1400], Y[:1400], logits=logits, classes=["ape", "bee", "cat"], random_state=0)
    info = aptset.mlflow.log_model(
        calibration, model=network, logits=logits, input_example=NUMBERS[:4].astype(np.float32)
    )
    names = no_pickle(folder_of(info))
    assert "model.pt2" in names
    served = mlflow.pyfunc.load_model(info.model_uri)
    whole = calibration.predict_set(said[1400:], logits=logits, ids=np.arange(2000))
    frame = served.predict(NUMBERS[1400:].assign(id=np.arange(2000)))
    assert np.mean([one == other for one, other in zip(frame["set"], texts(whole), strict=True)]) > 0.999
    assert frame["guess"].tolist() == np.array(["ape", "bee", "cat"])[said[1400:].argmax(1)].tolist()


def test_a_graph_of_onnx():
    onnx = pytest.importorskip("skl2onnx")
    model = LogisticRegression(max_iter=500).fit(NUMBERS[:700], Y[:700])
    graph = onnx.to_onnx(model, NUMBERS[:1].to_numpy(np.float32), options={id(model): {"zipmap": False}})
    import onnxruntime

    session = onnxruntime.InferenceSession(graph.SerializeToString())
    said = session.run(["probabilities"], {"X": NUMBERS.to_numpy(np.float32)})[0]
    calibration = calibrate(said[700:1400], Y[700:1400], classes=["ape", "bee", "cat"], random_state=0)
    info = aptset.mlflow.log_model(calibration, model=graph, input_example=NUMBERS[:2])
    assert "model.onnx" in no_pickle(folder_of(info))
    frame = mlflow.pyfunc.load_model(info.model_uri).predict(NUMBERS[1400:])
    assert frame["set"].tolist() == texts(calibration.predict_set(said[1400:]))


def test_other_rows_and_models():
    words = [" ".join(f"w{j}" for j in generator.integers(9, size=5)) for _ in range(300)]
    of_texts = ConformalClassifier(make_pipeline(CountVectorizer(), MultinomialNB()), random_state=0).fit(
        words, Y[:300]
    )
    arrays = ConformalClassifier(make_pipeline(StandardScaler(), GaussianNB()), random_state=0)
    arrays.fit(NUMBERS[:300].to_numpy(), Y[:300])
    forest = ConformalClassifier(RandomForestClassifier(20), calibration="out-of-bag", random_state=0)
    forest.fit(NUMBERS[:300], Y[:300])
    frozen = FrozenEstimator(GaussianNB().fit(NUMBERS[:300], Y[:300]))
    grouped = ConformalClassifier(frozen, groups="colour", random_state=0).fit(
        FRAME[:900].assign(d=NUMBERS["d"]), Y[:900]
    )
    passed = ConformalClassifier(frozen, random_state=0).fit(NUMBERS[:900], Y[:900], groups=FRAME["colour"][:900])
    new = NUMBERS[1000:1100]
    colours = FRAME["colour"][1000:1100]
    cases = [
        (of_texts, pd.DataFrame({"text": words[:40]}), of_texts.predict_set(words[:40])),
        (arrays, new.set_axis(["0", "1", "2"], axis=1), arrays.predict_set(new.to_numpy())),
        (forest, new, forest.predict_set(new)),
        (grouped, new.assign(colour=colours), grouped.predict_set(new.assign(colour=colours))),
        (passed, new.assign(group=colours), passed.predict_set(new, groups=colours)),
    ]
    for classifier, request, expected in cases:
        info = aptset.mlflow.log_model(classifier)
        no_pickle(folder_of(info))
        assert mlflow.pyfunc.load_model(info.model_uri).predict(request)["set"].tolist() == texts(expected)


def test_when_to_act():
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(NUMBERS[:1400], Y[:1400])
    threshold = classifier.acceptance_.threshold(0.2, 0.9)
    info = aptset.mlflow.log_model(classifier, acceptance=threshold)
    assert info.signature.outputs.input_names() == ["set", "size", "guess", "act", "p_values"]
    rows, ids = NUMBERS[1400:], np.arange(2000)
    frame = mlflow.pyfunc.load_model(info.model_uri).predict(rows.assign(id=ids))
    assert frame["act"].tolist() == threshold.accept(classifier.predict_proba(rows), ids=ids).tolist()
    assert 0 < frame["act"].sum() < 2000
    with pytest.raises(TypeError, match="acceptance must be an AcceptanceThreshold"):
        aptset.mlflow.log_model(classifier, acceptance=classifier.acceptance_)


def test_numbers_and_the_page_are_logged_on_request():
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(NUMBERS[:1400], Y[:1400])
    with mlflow.start_run() as run:
        aptset.mlflow.log_model(classifier, test=(NUMBERS[1400:], Y[1400:]))
    kept = mlflow.get_run(run.info.run_id).data
    evaluation = aptset.evaluate(classifier.predict_set(NUMBERS[1400:]), Y[1400:], alpha=0.1)
    assert kept.metrics["coverage"] == float(evaluation.coverage)
    assert kept.metrics["mean_size"] == float(evaluation.mean_size)
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="aptset"))
    assert "<html" in (folder / "report.html").read_text()
    assert "coverage" in (folder / "evaluation.csv").read_text()


def test_what_cannot_be_served_is_refused():
    class Own(GaussianNB):
        pass

    classifier = ConformalClassifier(Own(), random_state=0).fit(NUMBERS[:200], Y[:200])
    with pytest.raises(TypeError, match="without a pickle; got Own"):
        aptset.mlflow.save_model(classifier, "here")
    assert not Path("here").exists()
    plain = ConformalClassifier(GaussianNB(), random_state=0).fit(NUMBERS[:200], Y[:200])
    with pytest.raises(ValueError, match="id_column and group_column must not name"):
        aptset.mlflow.save_model(plain, "here", id_column="a")
    with pytest.raises(ValueError, match="must be left out for a ConformalClassifier"):
        aptset.mlflow.save_model(plain, "here", model=GaussianNB())
    with pytest.raises(ValueError, match="alpha must be"):
        aptset.mlflow.save_model(plain, "here", alpha=2)
    with pytest.raises(TypeError, match="sets must be a fitted ConformalClassifier"):
        aptset.mlflow.save_model(GaussianNB(), "here")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def serve():
    processes = []

    def start(folder):
        port = free_port()
        command = [sys.executable, "-m", "mlflow", "models", "serve", "--model-uri", folder, "--port", str(port)]
        command += ["--host", "127.0.0.1", "--env-manager", "local", "--workers", "1"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        with Path("server.log").open("wb") as log:
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping").close()
                return f"http://127.0.0.1:{port}/invocations"
            except OSError:
                assert processes[-1].poll() is None, Path("server.log").read_text()
                time.sleep(0.2)
        raise AssertionError(Path("server.log").read_text())

    yield start
    for process in processes:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def ask(address, body):
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_over_http_the_sets_are_those_of_python(serve):
    classifier = ConformalClassifier(BOOSTERS["lightgbm"](), random_state=0).fit(TRAIN, Y[:1400])
    info = aptset.mlflow.log_model(classifier)
    address = serve(folder_of(info))
    records = [
        {name: None if value != value else value for name, value in reversed(row.items())}
        for row in NEW.to_dict("records")
    ]
    status, answer = ask(address, {"dataframe_records": records, "params": {"alpha": 0.05, "p_values": True}})
    assert status == 200
    expected = classifier.predict_set(NEW, alpha=0.05)
    assert [row["set"] for row in answer["predictions"]] == texts(expected)
    assert [list(row["p_values"].values()) for row in answer["predictions"]] == classifier.p_values(NEW).tolist()
    ids = [f"order {k}" for k in range(2000)]
    named = [{**record, "id": name, "unused": 1} for record, name in zip(records, ids, strict=True)]
    for body in ({"dataframe_records": named}, {"inputs": named}):
        status, answer = ask(address, body)
        assert [row["set"] for row in answer["predictions"]] == texts(classifier.predict_set(NEW, ids=ids)), body.keys()
    split = {"columns": list(named[0]), "data": [list(record.values()) for record in named]}
    status, answer = ask(address, {"dataframe_split": split})
    assert [row["set"] for row in answer["predictions"]] == texts(classifier.predict_set(NEW, ids=ids))
    status, answer = ask(address, {"dataframe_records": records[:1], "params": {"alpha": 1.5}})
    assert status == 400
    assert answer["message"] == "alpha must be in (0, 1); got 1.5. For 90 % coverage pass alpha=0.1."
    assert "stack_trace" not in answer
    status, answer = ask(address, {"dataframe_records": [{"a": 1.0}]})
    assert status == 400
    assert "stack_trace" not in answer
