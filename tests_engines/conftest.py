"""What the tests of an engine share is started once; engines are imported when that is asked for."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def session(tmp_path_factory):
    """Start the cluster; its processes find this Python, and what is in its path, by the variables."""
    import pyspark
    from pyspark.sql import SparkSession
    from spark_data import SETTINGS

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
