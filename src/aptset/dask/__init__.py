"""Calibrate on dask collections and predict on them, where the rows are; it needs dask, which is an extra.

>>> import aptset.dask, dask.dataframe, pandas
>>> probabilities = {"p_cat": [0.9, 0.2, 0.6] * 40, "p_dog": [0.1, 0.8, 0.4] * 40}
>>> rows = pandas.DataFrame({**probabilities, "y": ["cat", "dog", "dog"] * 40})
>>> frame = dask.dataframe.from_pandas(rows, npartitions=3)  # or dask.dataframe.read_parquet("s3://bucket/validation/")
>>> calibration = aptset.dask.calibrate(frame, "y", prefix="p_", random_state=0)
>>> sets = aptset.dask.predict_set(frame, calibration, prefix="p_")
>>> sets.dtypes["set"]
list<item: string>[pyarrow]
"""

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("dask") is None:
    raise ModuleNotFoundError(f"aptset.dask needs dask: {install('dask')}")

from aptset.dask.calibrating import calibrate, predict_set

__all__ = ["calibrate", "predict_set"]
