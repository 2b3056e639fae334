"""How Spark is started here, frames for it, and what one process says."""

import numpy as np

import aptset
from batch_data import NAMES

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


def in_partitions(session, content, n):
    """Return a table as a frame of n partitions; 0 stands for six of which one has all rows."""
    frame = session.createDataFrame(content)
    return frame.repartition(6, (frame.row * 0)) if n == 0 else frame.repartition(n)


def in_one_process(p, y, **options):
    return aptset.calibrate(p, np.array(NAMES)[y], classes=NAMES, **options)


def found_sets(frame):
    return [row["set"] for row in frame.orderBy("row").select("row", "set").collect()]
