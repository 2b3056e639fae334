"""The stage of Spark ML, and its vectors and notes beside columns, on a real cluster."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from spark_data import SETTINGS, found_sets

import aptset
from batch_data import lists_of, rows, table

pytest.importorskip("pyspark")
pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
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
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import StringIndexer

    from aptset.spark import ConformalSets, ConformalSetsModel

    indexer = StringIndexer(inputCol="kind", outputCol="index")
    classifier = NaiveBayes(labelCol="index", weightCol="weight", modelType="gaussian")
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
    of_indices = aptset.spark.calibrate(frame, "number", classes=["z", "x", "y"], random_state=0)
    assert (of_indices.classes.tolist(), of_indices.threshold(0.1)) == (["z", "x", "y"], by_number.threshold(0.1))
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
