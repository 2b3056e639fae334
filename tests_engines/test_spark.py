"""Real Spark: a cluster of two executors, which are processes of their own, on this machine."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import aptset
from batch_data import NAMES, lists_of, rows, table

pytest.importorskip("pyspark")
pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "3",
    # A machine that is busy is no failure, and programs that run for seconds need no second compiler.
    "spark.network.timeout": "1200s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.python.authenticate.socketTimeout": "600s",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
FRESH = """
import json, sys
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[1]")
    for name, value in json.loads(sys.argv[3]).items():
        builder = builder.config(name, value)
    frame = builder.getOrCreate().read.parquet(sys.argv[2])
    made = PipelineModel.load(sys.argv[1]).transform(frame).orderBy("row").select("set").collect()
    print(json.dumps([row["set"] for row in made]))
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Start the cluster; its processes find this Python, and what is in its path, by the variables."""
    import pyspark
    from pyspark.sql import SparkSession

    home = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_WORKER_DIR", str(home))
        builder = SparkSession.builder.master("local-cluster[2,1,512]")
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(home / "warehouse")}.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        yield made
        made.stop()


def in_partitions(session, content, n):
    """Return a table as a frame of n partitions; 0 stands for six of which one has all rows."""
    frame = session.createDataFrame(content)
    return frame.repartition(6, (frame.row * 0)) if n == 0 else frame.repartition(n)


def in_one_process(p, y, **options):
    return aptset.calibrate(p, np.array(NAMES)[y], classes=NAMES, **options)


def found_sets(frame):
    return [row["set"] for row in frame.orderBy("row").select("row", "set").collect()]


@pytest.mark.parametrize("n", [1, 2, 7, 0])
def test_any_partitions_give_the_bits_of_one_process(session, n):
    import aptset.spark

    p, y = rows(600)
    frame = in_partitions(session, table(p, y), n)
    same = in_one_process(p, y, random_state=0)
    made = aptset.spark.calibrate(frame, "y", prefix="p_", alpha=[0.1, 0.25], random_state=0, buckets=64)
    assert [made.threshold(0.1), made.threshold(0.25)] == [same.threshold(0.1), same.threshold(0.25)]
    new, other = rows(300, seed=1)
    sets = aptset.spark.predict_set(in_partitions(session, table(new, other), n), made, prefix="p_")
    assert sets.columns == ["row", "y", "size 0.1", "set 0.1", "size 0.25", "set 0.25"]
    found = sets.orderBy("row").collect()
    for alpha in (0.1, 0.25):
        assert [row[f"set {alpha}"] for row in found] == lists_of(same.predict_set(new, alpha))


def test_copies_with_ids_and_groups_of_texts_and_nothing(session):
    import aptset.spark

    p, y = rows(500, digits=1)
    groups = np.array(["north", "söuth", None], dtype=object)[np.arange(500) % 3]
    ids = [f"row {number}" for number in range(500)]
    content = table(p, y, site=pa.array(groups), key=pa.array(ids))
    named = {"prefix": "p_", "groups": "site", "ids": "key"}
    same = in_one_process(p, y, groups=groups, ids=ids, random_state=0)
    made = aptset.spark.calibrate(in_partitions(session, content, 5), "y", **named, random_state=0, buckets=64)
    assert made.threshold(0.1) == same.threshold(0.1)
    sets = aptset.spark.predict_set(in_partitions(session, content, 3), made, **named)
    assert found_sets(sets) == lists_of(same.predict_set(p, 0.1, groups=groups, ids=ids))
    assert dict(sets.dtypes) == {
        "row": "bigint", "y": "string", "site": "string", "key": "string", "size": "int", "set": "array<string>"
    }  # fmt: skip


def test_a_thousand_classes_in_an_array_on_a_grid(session):
    import aptset.spark

    p, y = rows(400, n_classes=1000, dtype=np.float32)
    content = table(p, y, "list", list(range(1000)))
    frame = in_partitions(session, content, 3)
    score = aptset.Gridded(aptset.Adaptive(), 2**-10)
    same = aptset.calibrate(p, y, conformity=score, random_state=0)
    made = aptset.spark.calibrate(frame, "y", resolution=2**-10, random_state=0)
    assert made.threshold(0.3) == same.threshold(0.3)
    assert found_sets(aptset.spark.predict_set(frame, made, alpha=0.3)) == lists_of(same.predict_set(p, 0.3))


def test_other_columns_travel_along_whatever_they_are_called(session):
    from pyspark.sql import functions

    import aptset.spark

    p, y = rows(100)
    made = in_one_process(p, y, random_state=0)
    frame = in_partitions(session, table(p, y), 2).withColumns({
        "a.b `c`": functions.col("row") / 4, "when": functions.timestamp_seconds("row"),
        "parts": functions.struct("row", "y"), "nothing": functions.lit(None).cast("string"),
        "partition": functions.lit(b"x"), "c0": functions.expr("cast(row as decimal(9, 2))"),
    })  # fmt: skip
    sets = aptset.spark.predict_set(frame, made, probabilities=[f"p_{name}" for name in NAMES[::-1]], prefix="p_")
    others = [name for name in frame.columns if not name.startswith("p_")]
    assert sets.columns == [*others, "size", "set"]
    assert [field for field in sets.schema if field.name in others] == [frame.schema[name] for name in others]
    wanted, found = frame.orderBy("row").collect(), sets.orderBy("row").collect()
    assert [[row[name] for name in others] for row in found] == [[row[name] for name in others] for row in wanted]
    assert [row["set"] for row in found] == lists_of(made.predict_set(p, 0.1))
    assert [row["size"] for row in found] == [len(row["set"]) for row in found]


def test_a_coalesce_afterwards_changes_nothing_for_copies(session):
    import aptset.spark

    p = np.tile([0.4, 0.3, 0.2, 0.1], (200, 1))
    y = np.arange(200) % 4
    made = in_one_process(p, y, ids=range(200), random_state=0, conformity="adaptive")
    frame = session.createDataFrame(table(p, y)).repartitionByRange(4, "row").sortWithinPartitions("row").cache()
    sets = aptset.spark.predict_set(frame, made, prefix="p_", ids="row")
    assert found_sets(sets.coalesce(1)) == lists_of(made.predict_set(p, 0.1, ids=range(200)))
    by_place = in_one_process(p, y, random_state=0)
    sets = aptset.spark.predict_set(frame, by_place, prefix="p_")
    assert found_sets(sets) == found_sets(sets.coalesce(1))
    assert len({tuple(one) for one in found_sets(sets)}) > 1, "copies share no chance"
    frame.unpersist()


def test_one_small_state_comes_to_the_driver(session, monkeypatch):
    import aptset.spark
    from aptset.batches import ThresholdSearch

    came = []
    advance = ThresholdSearch.advance
    monkeypatch.setattr(ThresholdSearch, "advance", lambda self, states: came.append(states) or advance(self, states))
    p, y = rows(3000)
    frame = in_partitions(session, table(p, y), 24)
    made = aptset.spark.calibrate(frame, "y", prefix="p_", random_state=0, buckets=256)
    assert made.threshold(0.1) == in_one_process(p, y, random_state=0).threshold(0.1)
    assert len(came) > 1
    assert all(state.num_rows == 1 and state.nbytes < 20_000 for state in came)


BAD = {
    "negative": ({"p_ant": -0.5}, "partition 1: probabilities must be at least 0; got -0.5 in row 7, column 0"),
    "no label": ({"y": None}, r"partition 1: row 7, column 'y': the label is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_named_once_without_a_page_of_java(session, case, tmp_path):
    import aptset.spark

    p, y = rows(40)
    content = table(p, y)
    change, told = BAD[case]
    ((name, value),), columns = change.items(), content.to_pydict()
    columns[name][27] = value
    halves = session.sparkContext.parallelize(pa.table(columns).to_pylist(), 2)
    frame = session.createDataFrame(halves, session.createDataFrame(content).schema)
    with pytest.raises(ValueError, match=f"^{told}") as found:
        aptset.spark.calibrate(frame, "y", prefix="p_", random_state=0)
    check_plain(found)
    if name == "y":
        return
    made = in_one_process(p, y, random_state=0)
    sets = aptset.spark.predict_set(frame, made, prefix="p_")
    with pytest.raises(ValueError, match=f"^{told}") as found, aptset.spark.plain_errors():
        sets.write.parquet(str(tmp_path / "sets"))
    check_plain(found)


def check_plain(found):
    text = str(found.value)
    assert "\n" not in text
    assert "java" not in text.lower()
    assert len(re.findall(r"\brow \d", text)) == 1
    assert found.value.__cause__ is None
    assert found.value.__suppress_context__


def test_wrong_arguments_are_told_before_spark_starts_a_job(session):
    from pyspark.errors import PySparkException

    import aptset.spark

    p, y = rows(40)
    frame = in_partitions(session, table(p, y), 1)
    with pytest.raises(TypeError, match=r"frame must be a DataFrame of Spark; got Table\. .*calibrate_batches"):
        aptset.spark.calibrate(table(p, y), "y")
    with pytest.raises(ValueError, match=r"labels must name a column of the batches; got 'truth'"):
        aptset.spark.calibrate(frame, "truth", prefix="p_")
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\)"):
        aptset.spark.calibrate(frame, "y", prefix="p_", alpha=2)
    with pytest.raises(ValueError, match=r"distinct column names"):
        aptset.spark.calibrate(frame.select("*", "row"), "y", prefix="p_")
    with pytest.raises(ValueError, match=r"at least one row"):
        aptset.spark.calibrate(frame.where("row < 0"), "y", prefix="p_")
    made = in_one_process(p, y, random_state=0)
    assert found_sets(aptset.spark.predict_set(frame.where("row < 0"), made, prefix="p_")) == []
    with pytest.raises(PySparkException), aptset.spark.plain_errors():  # no matter of rows: as it is
        frame.selectExpr("raise_error('mine')").collect()


def test_kills_in_the_middle_lose_nothing_and_count_nothing_twice(session, tmp_path):
    import aptset.spark

    def dies_once(batches, marks=str(tmp_path)):
        """Give some batches, and kill the Python worker, or the whole executor, once for each file that asks for it."""
        for number, batch in enumerate(batches):
            yield batch
            for asked in ("worker", "executor") if number == 1 else ():
                with contextlib.suppress(FileNotFoundError):  # of two tasks one is first
                    os.rename(f"{marks}/kill {asked}", f"{marks}/{asked} killed")
                    java = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])
                    os.kill(os.getpid() if asked == "worker" else java, signal.SIGKILL)

    p, y = rows(800)
    frame = in_partitions(session, table(p, y), 4)
    frame = frame.mapInArrow(dies_once, frame.schema)
    same = in_one_process(p, y, random_state=0)
    (tmp_path / "kill executor").touch()
    made = aptset.spark.calibrate(frame, "y", prefix="p_", random_state=0, buckets=64)
    assert (tmp_path / "executor killed").exists()
    assert (made.n, made.threshold(0.1)) == (800, same.threshold(0.1))
    (tmp_path / "kill worker").touch()
    sets = aptset.spark.predict_set(frame, made, prefix="p_").orderBy("row").select("row", "set").collect()
    assert (tmp_path / "worker killed").exists()
    assert [row["row"] for row in sets] == list(range(800))
    assert [row["set"] for row in sets] == lists_of(same.predict_set(p, 0.1))


@pytest.fixture(scope="module")
def flowers(session):
    """Rows with features and texts as labels, marked for training or calibrating, as Spark ML has them."""
    from pyspark.ml.feature import VectorAssembler

    generator = np.random.default_rng(0)
    kind = generator.integers(0, 3, 300)
    values = generator.normal(size=(300, 2)) + np.array([[0, 0], [1, 2], [2, 0]])[kind]
    content = {
        "row": np.arange(300),
        "a": values[:, 0],
        "b": values[:, 1],
        "kind": np.array(["rose", "iris", "dill"])[kind],
    }
    content |= {"held_out": np.arange(300) % 2 == 0, "weight": np.arange(300) % 2 * 1.0}
    frame = session.createDataFrame(pa.table(content))
    return VectorAssembler(inputCols=["a", "b"], outputCol="features").transform(frame).repartition(3).cache()


def test_a_pipeline_of_spark_ml_is_fitted_saved_and_loaded_in_another_process(session, flowers, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import StringIndexer

    from aptset.spark import ConformalSets, ConformalSetsModel

    indexer = StringIndexer(inputCol="kind", outputCol="index")
    classifier = LogisticRegression(labelCol="index", weightCol="weight", maxIter=5)
    sets = ConformalSets(labelCol="index", validationIndicatorCol="held_out", alpha=0.2, idCol="row", seed=0)
    pipeline = Pipeline(stages=[indexer, classifier, sets])
    pipeline.write().save(str(tmp_path / "unfitted"))
    fitted = Pipeline.load(str(tmp_path / "unfitted")).fit(flowers)
    made = fitted.transform(flowers)
    assert made.columns[-6:] == ["index", "rawPrediction", "probability", "prediction", "size", "set"]
    assert made.schema["probability"] == PipelineModel(fitted.stages[:-1]).transform(flowers).schema["probability"]

    rows = made.orderBy("row").collect()
    p, y = np.array([row.probability.toArray() for row in rows]), np.array([row.kind for row in rows])
    held = np.array([row.held_out for row in rows])
    names, ids = fitted.stages[0].labels, np.arange(300)
    same = aptset.calibrate(p[held], y[held], classes=names, ids=ids[held], random_state=0)
    wanted = lists_of(same.predict_set(p, 0.2, ids=ids))
    assert fitted.stages[-1].calibration.threshold(0.2) == same.threshold(0.2)
    assert [row["set"] for row in rows] == wanted

    fitted.write().overwrite().save(str(tmp_path / "model"))
    flowers.write.parquet(str(tmp_path / "rows"))
    arguments = [str(tmp_path / "model"), str(tmp_path / "rows"), json.dumps(SETTINGS)]
    told = subprocess.run([sys.executable, "-c", FRESH, *arguments], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout.splitlines()[-1]) == wanted

    alone = fitted.stages[-1]
    alone.write().save(str(tmp_path / "alone"))
    again = ConformalSetsModel.load(str(tmp_path / "alone"))
    assert (again.uid, again.extractParamMap()) == (alone.uid, {
        again.getParam(param.name): value for param, value in alone.extractParamMap().items()
    })  # fmt: skip
    with pytest.raises(ValueError, match=r"path must hold a aptset.spark.ConformalSetsModel; it holds a .*Pipeline"):
        ConformalSetsModel.load(str(tmp_path / "model"))


def test_a_vector_with_texts_numbers_or_names_that_spark_keeps(session, flowers):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions

    import aptset.spark
    from aptset.spark import ConformalSets, ConformalSetsModel

    p, y = rows(300, n_classes=3)
    frame = session.createDataFrame(table(p, y, "list", ["z", "x", "y"]))
    frame = frame.withColumns({"probability": array_to_vector("p"), "number": functions.lit(0.0) + functions.expr(
        "array_position(array('z', 'x', 'y'), y) - 1.0"
    )}).drop("p").repartition(2)  # fmt: skip
    wanted = lists_of(aptset.calibrate(p, y, random_state=0).predict_set(p, 0.1))
    named = [["zxy"[number] for number in one] for one in wanted]

    by_number = aptset.spark.calibrate(frame, "number", random_state=0)
    sets = aptset.spark.predict_set(frame, by_number)
    assert (sets.columns, found_sets(sets)) == (["row", "y", "number", "size", "set"], wanted)
    model = ConformalSets(labelCol="y", classes=["z", "x", "y"], seed=0).fit(frame)
    assert found_sets(model.transform(frame)) == named
    kept = {"ml_attr": {"type": "nominal", "vals": ["z", "x", "y"]}}
    indexed = frame.withMetadata("number", kept)
    by_name = aptset.spark.calibrate(indexed, "number", groups="label", resolution=2**-20, random_state=0)
    score, texts = aptset.Gridded(aptset.Adaptive(), 2**-20), np.array(["z", "x", "y"])
    same = aptset.calibrate(p, texts[y], classes=texts, conformity=score, groups="label", random_state=0)
    assert by_name.threshold(0.1) == same.threshold(0.1)
    assert found_sets(ConformalSetsModel(by_number).transform(frame)) == wanted
    with pytest.raises(
        ValueError, match=r"partition \d: row \d+, column 'y': the label is '.', which is no class.*classes="
    ):
        aptset.spark.calibrate(frame, "y")
    fewer = frame.withMetadata("number", {"ml_attr": {"type": "nominal", "vals": ["z", "x"]}})
    with pytest.raises(
        ValueError, match=r"classes must be passed: the indices of column 'number' have 2 names, and rows"
    ):
        aptset.spark.calibrate(fewer, "number")
    with pytest.raises(ValueError, match=r"calibration must be there before there are sets; got None"):
        ConformalSetsModel().transform(frame)
