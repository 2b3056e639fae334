"""What went wrong on a worker, said once, instead of a page of Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

_KINDS: dict[str, type[Exception]] = {"ValueError": ValueError, "TypeError": TypeError}
# The last line of the worker's traceback. Spark adds its own words behind it, and may repeat the whole.
_SAID = re.compile(rf"^({'|'.join(_KINDS)}): (partition \d+: .*?)(?: SQLSTATE: \w+\)?)?$", re.MULTILINE)
_AWAY = re.compile(r"ModuleNotFoundError: No module named '(aptset|numpy|pyarrow)")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what is wrong with a row as one error that names its partition and row, without the pages of Spark.

    :func:`calibrate` does so by itself. Sets are worked out later, when Spark writes or collects them: do that within
    this context. Errors that are no matter of rows pass as they are.

    Examples
    --------
    >>> import aptset.spark
    >>> with aptset.spark.plain_errors():  # doctest: +SKIP
    ...     sets.write.parquet("sets/")
    Traceback (most recent call last):
    ValueError: partition 3: row 17: probabilities must be at least 0; got -0.5 in column 'cat'.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if said := _SAID.search(text):
            raise _KINDS[said[1]](said[2]) from None
        if away := _AWAY.search(text):
            raise ModuleNotFoundError(
                f"the workers of Spark must have {away[1]}: install aptset there, and let PYSPARK_PYTHON name that "
                "Python."
            ) from None
        raise
