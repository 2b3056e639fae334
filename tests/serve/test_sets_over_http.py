"""Rows by name in, the sets of Python out: over JSON and Arrow, one by one and together."""

import io

import numpy as np
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import aptset
from aptset.cli.raw_rows import load_any
from service import fitted, people, records
from shell import run

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def stream(table, **options):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def labels_of(answers):
    return [one["set"] for one in answers]


def as_lists(sets):
    return [row.tolist() for row in sets]


def test_sets_by_id_are_those_of_python_in_any_order_and_any_batch(serve, classifier):
    client, (X, _) = serve(), people(300, 1)
    ids = [f"row {number}" for number in range(300)]
    wanted = as_lists(classifier.predict_set(X, ids=ids))
    mixed = [
        {**dict(reversed(row.items())), "unknown": "x", "id": id_} for row, id_ in zip(records(X), ids, strict=True)
    ]
    together = client.sets(mixed[:200])
    alone = [client.sets([row])[0] for row in mixed[200:]]
    assert labels_of(together + alone) == wanted
    assert {one["u"] for one in together + alone} == {"id"}
    assert {one["alpha"] for one in together} == {0.1}
    assert len({len(one) for one in wanted}) > 2, "sets that differ"


def test_sets_by_content_are_those_of_python(serve, classifier):
    client, (X, _) = serve(u="content"), people(60, 2)
    alone = [client.sets([row])[0] for row in records(X)]
    assert labels_of(alone) == [as_lists(classifier.predict_set(X.iloc[[row]]))[0] for row in range(60)]
    assert {one["u"] for one in alone} == {"content"}
    assert labels_of(client.sets(records(X))) == as_lists(classifier.predict_set(X))


def test_other_levels_and_p_values_are_those_of_python(serve, classifier):
    client, (X, _) = serve(), people(40, 3)
    ids = [f"p{number}" for number in range(40)]
    said = client.sets(records(X), ids=ids, alpha=0.3, p_values=True)
    assert labels_of(said) == as_lists(classifier.predict_set(X, 0.3, ids=ids))
    values = np.array([[one["p_values"][str(label)] for label in classifier.classes_] for one in said])
    np.testing.assert_array_equal(values, classifier.p_values(X, ids=ids))


def test_act_or_ask_is_that_of_python(serve, classifier):
    client, (X, _) = serve(error=0.4, assurance=0.8), people(200, 4)
    ids = [f"a{number}" for number in range(200)]
    frame = classifier.act_or_ask(X, 0.4, ids=ids, assurance=0.8)
    said = client.sets(records(X), ids=ids)
    assert [one["act"] for one in said] == frame["act"].tolist()
    assert [one["guess"] for one in said] == frame["guess"].tolist()
    assert [[one["guess"]] if one["act"] else one["ask"] for one in said] == frame["set"].tolist()
    assert 0 < frame["act"].sum() < 200, "rows of both kinds"


@pytest.mark.parametrize("kind", ["plain", "dictionary", "integers"])
def test_arrow_streams_go_by_name(serve, classifier, kind):
    client, (X, _) = serve(), people(50, 5)
    X = X.round() if kind == "integers" else X
    ids = [f"s{number}" for number in range(50)]
    table = pa.table({"id": ids, "weight": X["weight"], "height": X["height"], "age": X["age"], "more": ["x"] * 50})
    if kind == "dictionary":
        table = table.set_column(0, "id", table["id"].dictionary_encode())
    if kind == "integers":
        table = table.set_column(3, "age", table["age"].cast(pa.int16()))
    status, _, said = client.ask("/v1/sets?alpha=0.2", stream(table), ARROW)
    assert status == 200
    assert labels_of(said["answers"]) == as_lists(classifier.predict_set(X, 0.2, ids=ids))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"not arrow at all", "Arrow IPC stream"),
        (stream(pa.table({"age": [1.0]}))[:40], "Arrow IPC stream"),
        (stream(pa.table({"age": [1.0] * 2000}), compression="zstd"), "must not be compressed"),
        (stream(pa.table({"age": pa.nulls(10**7)})), "rows at most"),
        (stream(pa.table({"age": [1.0], "height": [2.0]})), "'weight' is not there"),
    ],
)
def test_streams_of_strangers_are_refused_in_one_sentence(serve, body, words):
    status, headers, said = serve().ask("/v1/sets", body, ARROW)
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert words in said["detail"]


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (RandomForestClassifier(5, random_state=0), {}),
        (make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)), {}),
        (HistGradientBoostingClassifier(max_iter=5), {"groups": "label"}),
        (None, {"calibration": "cv+"}),
        (None, {"randomized": False, "allow_empty": False}),
        (make_pipeline(make_column_transformer((StandardScaler(), ["weight", "age"])), GaussianNB()), {}),
    ],
)
def test_every_kind_of_model_gives_the_sets_of_python(serve, tmp_path, model, settings):
    classifier = fitted(model, **settings)
    classifier.save(tmp_path / "other")
    client, (X, _) = serve(tmp_path / "other"), people(40, 6)
    ids = [f"m{number}" for number in range(40)]
    said = client.sets(records(X), ids=ids)
    assert labels_of(said) == as_lists(classifier.predict_set(X, ids=ids))
    assert {one["u"] for one in said} == ({"id"} if settings.get("randomized", True) else {"none"})


def test_texts_and_missing_values_reach_a_model_that_takes_them(serve, tmp_path):
    X, y = people(300, 7)
    X = X.assign(region=np.where(X["age"] > 0, "north", "south")).astype({"region": object})
    X.loc[::7, "height"] = np.nan
    steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["region"]), remainder="passthrough")
    model = make_pipeline(steps, HistGradientBoostingClassifier(max_iter=5))
    classifier = aptset.ConformalClassifier(model, random_state=0).fit(X[:200], y[:200])
    classifier.save(tmp_path / "texts")
    client, ids = serve(tmp_path / "texts"), [f"t{number}" for number in range(100)]
    assert labels_of(client.sets(records(X[200:]), ids=ids)) == as_lists(classifier.predict_set(X[200:], ids=ids))
    assert client.ask("/v1/sets", {"rows": [{**records(X[:1])[0], "region": ["a"]}]})[0] == 422


def test_rows_without_names_may_be_lists(serve, tmp_path):
    X, y = people(300, 8)
    classifier = aptset.ConformalClassifier(RandomForestClassifier(5), random_state=0).fit(X.to_numpy(), y)
    classifier.save(tmp_path / "arrays")
    client, ids = serve(tmp_path / "arrays"), [f"l{number}" for number in range(300)]
    wanted = as_lists(classifier.predict_set(X.to_numpy(), ids=ids))
    assert labels_of(client.sets(X.to_numpy().tolist()[:150], ids=ids[:150])) == wanted[:150]
    named = [{"x2": c, "x0": a, "x1": b} for a, b, c in X.to_numpy().tolist()[150:]]
    assert labels_of(client.sets(named, ids=ids[150:])) == wanted[150:]


def test_a_folder_of_the_command_line_takes_rows_as_its_files_have_them(serve, tmp_path):
    X, y = people(240, 9)
    table = X.assign(region=np.where(X["age"] > 0, "north", "south"), since="2024-01-31", ill=y, number=range(240))
    table.loc[::5, "since"] = "2023-05-02"
    table.to_csv(tmp_path / "people.csv", index=False)
    run("run", tmp_path / "people.csv", "--target", "ill", "--id", "number", "--out", tmp_path / "results", "--quiet")
    new = table.drop(columns="ill").assign(number=range(1000, 1240))
    new.to_csv(tmp_path / "new.csv", index=False)
    run("predict", tmp_path / "new.csv", "-c", tmp_path / "results", "-o", tmp_path / "sets.parquet", "--quiet")
    written = pa.parquet.read_table(tmp_path / "sets.parquet").to_pydict()
    (column,) = (values for name, values in written.items() if values and isinstance(values[0], list))
    client = serve(tmp_path / "results", loader=load_any)
    said = client.sets(records(new))
    assert labels_of(said) == column
    assert [one["id"] for one in said] == [str(number) for number in range(1000, 1240)]
    kinds = {one["name"]: one["kind"] for one in client.get("/v1/model")["features"]}
    assert kinds == {"age": "number", "height": "number", "weight": "number", "region": "category", "since": "date"}
    status, _, problem = client.ask("/v1/sets", {"rows": [{**records(new[:1])[0], "age": "old"}]})
    assert (status, "'age' must hold numbers" in problem["detail"]) == (422, True)


def test_groups_that_came_with_rows_come_with_requests(serve, tmp_path):
    classifier, (X, _) = fitted(by_region=True), people(50, 10)
    classifier.save(tmp_path / "regions")
    client, ids = serve(tmp_path / "regions"), [f"g{number}" for number in range(50)]
    regions = np.where(X["age"] > 0, "south", "north").tolist()
    said = client.sets(records(X), ids=ids, groups=regions)
    assert labels_of(said) == as_lists(classifier.predict_set(X, groups=regions, ids=ids))
    assert client.ask("/v1/sets", {"rows": records(X)})[0] == 422


def test_the_page_of_interfaces_names_features_and_classes(serve):
    client = serve()
    row = client.get("/openapi.json")["paths"]["/v1/sets"]["post"]["requestBody"]["content"]["application/json"]
    features = row["schema"]["properties"]["rows"]["items"]
    assert features["required"] == ["age", "height", "weight"]
    assert set(features["properties"]) == {"id", "age", "height", "weight"}
    facts = client.get("/v1/model")
    assert facts["classes"] == ["ill", "neither", "well"]
    assert "coverage >= 0.9" in facts["guarantee"]
    assert client.get("/ready") == {"status": "ready", "model": facts["model"]}


def test_each_label_may_have_its_own_level_also_labels_that_are_numbers(serve, tmp_path):
    (X, y), levels = people(400, 12), {1: 0.05, 2: 0.1, 3: 0.2}
    numbers = np.searchsorted(["ill", "neither", "well"], y) + 1
    classifier = aptset.ConformalClassifier(GaussianNB(), groups="label", alpha=levels, random_state=0)
    classifier.fit(X, numbers).save(tmp_path / "levels")
    client, ids = serve(tmp_path / "levels"), [f"n{number}" for number in range(50)]
    said = client.sets(records(X[:50]), ids=ids)
    assert labels_of(said) == as_lists(classifier.predict_set(X[:50], ids=ids))
    assert said[0]["alpha"] == {"1": 0.05, "2": 0.1, "3": 0.2}
    assert client.tell(*zip(ids, numbers[:50].tolist(), strict=True))["accepted"] == 50


def test_large_whole_numbers_are_rounded_alike(serve, tmp_path):
    X, y = people(300, 13)
    X = X.assign(count=np.arange(300) * 10**14 + 2**53 + 1)
    model = make_pipeline(StandardScaler(), GaussianNB())
    aptset.ConformalClassifier(model, random_state=0).fit(X.astype(float), y).save(tmp_path / "large")
    client = serve(tmp_path / "large", u="content")
    status, _, said = client.ask("/v1/sets", stream(pa.Table.from_pandas(X, preserve_index=False)), ARROW)
    assert status == 200
    assert labels_of(said["answers"]) == labels_of(client.sets(records(X)))
