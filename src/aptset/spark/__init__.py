"""Calibrate on Spark frames and predict on them, where the rows are; it needs pyspark and Java.

Workers need aptset as well: it must be installed in the Python that ``PYSPARK_PYTHON`` names.

>>> import aptset.spark
>>> frame = session.read.parquet("validation/")  # doctest: +SKIP
>>> calibration = aptset.spark.calibrate(frame, "y", prefix="p_")  # doctest: +SKIP
>>> aptset.spark.predict_set(session.read.parquet("new/"), calibration).write.parquet("sets/")  # doctest: +SKIP
"""

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(f"aptset.spark needs pyspark, and Java: {install('spark')}")

from aptset.spark.frames import calibrate, plain_errors, predict_set
from aptset.spark.ml import ConformalSets, ConformalSetsModel

__all__ = ["ConformalSets", "ConformalSetsModel", "calibrate", "plain_errors", "predict_set"]
