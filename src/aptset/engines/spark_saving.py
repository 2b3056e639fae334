"""Save a model of Spark ML and load it: its parameters as Spark writes them, and the bytes of a calibration's file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from aptset.engines.spark_checks import check_calibration, check_saved_class
from aptset.probabilities.calibrating import load_calibration

_CONTENT = "calibration binary"


class ModelWriter(MLWriter):  # type: ignore[misc]  # pyspark is an extra, so Any to the type checker
    """Writes a folder: ``metadata``, and ``calibration`` with one row of bytes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802 - the name that Spark asks for
        """Write the model."""
        calibration = check_calibration(self._model.calibration)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "calibration.aptset"
            calibration.save(file)
            content = file.read_bytes()
        DefaultParamsWriter.saveMetadata(self._model, path, self.sparkSession)
        rows = self.sparkSession.createDataFrame([(bytearray(content),)], _CONTENT)
        rows.coalesce(1).write.parquet(f"{path}/calibration")


class ModelReader(MLReader):  # type: ignore[misc]
    """Reads what ModelWriter wrote."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """Read a model."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        check_saved_class(metadata["class"], f"{self._kind.__module__}.{self._kind.__name__}")
        (row,) = self.sparkSession.read.parquet(f"{path}/calibration").collect()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "calibration.aptset"
            file.write_bytes(bytes(row[0]))
            model = self._kind(load_calibration(file))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
