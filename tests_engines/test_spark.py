"""Real Spark: a cluster of two executors, which are processes of their own, on this machine."""

import contextlib
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from spark_data import found_sets, in_one_process, in_partitions

from batch_data import NAMES, lists_of, rows, table

pytest.importorskip("pyspark")
pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")


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
    from aptset.arrow import ThresholdSearch

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
