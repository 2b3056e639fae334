"""Calibrate on Spark frames and predict on them, where the rows are; it needs pyspark and Java.

Workers need aptset as well: it must be installed in the Python that ``PYSPARK_PYTHON`` names.

>>> import aptset.spark
>>> frame = session.read.parquet("validation/")  # doctest: +SKIP
>>> calibration = aptset.spark.calibrate(frame, "y", prefix="p_")  # doctest: +SKIP
>>> aptset.spark.predict_set(session.read.parquet("new/"), calibration).write.parquet("sets/")  # doctest: +SKIP

An Estimator and its Model for pipelines of Spark ML stand here: thin, over calibrate and predict_set.
"""

from __future__ import annotations

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(f"aptset.spark needs pyspark, and Java: {install('spark')}")

import tempfile
from pathlib import Path
from typing import Any

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasLabelCol, HasProbabilityCol, HasValidationIndicatorCol
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

from aptset import Calibration, load
from aptset.spark.frames import calibrate, check_calibration, column, plain_errors, predict_set

__all__ = ["ConformalSets", "ConformalSetsModel", "calibrate", "plain_errors", "predict_set"]

_CONTENT = "calibration binary"


class ModelWriter(MLWriter):  # type: ignore[misc]  # pyspark is an extra, so Any to the type checker
    """Writes a folder: ``metadata``, and ``calibration`` with one row of bytes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:
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
        saved, wanted = metadata["class"], f"{self._kind.__module__}.{self._kind.__name__}"
        if saved != wanted:
            raise ValueError(f"path must hold a {wanted}; it holds a {saved}. Load it with that.")
        (row,) = self.sparkSession.read.parquet(f"{path}/calibration").collect()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "calibration.aptset"
            file.write_bytes(bytes(row[0]))
            model = self._kind(load(file))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _levels(alpha: Any) -> list[float]:
    """Return one level or several as Spark stores them."""
    levels: list[float] = TypeConverters.toListFloat(alpha if isinstance(alpha, list | tuple) else [alpha])
    return levels


def _param(name: str, doc: str, convert: Any) -> Any:
    return Param(Params._dummy(), name, doc, convert)


class _Settings(HasProbabilityCol):  # type: ignore[misc]  # pyspark is an extra, so Any to the type checker
    """What the estimator and its model share."""

    alpha = _param("alpha", "the level, or several of them", _levels)
    groups = _param("groups", 'the column of groups, or "label" for every true label', TypeConverters.toString)
    idCol = _param("idCol", "the column of ids, which u then comes from", TypeConverters.toString)
    allowEmpty = _param("allowEmpty", "whether sets may be empty", TypeConverters.toBoolean)
    normalize = _param("normalize", "whether rows are divided by their sums", TypeConverters.toBoolean)

    def _setting(self, name: str) -> Any:
        """Return a setting, None where there is none."""
        return self.getOrDefault(name) if self.isDefined(name) else None


class ConformalSets(
    Estimator,  # type: ignore[misc]
    _Settings,
    HasLabelCol,  # type: ignore[misc]
    HasValidationIndicatorCol,  # type: ignore[misc]
    DefaultParamsWritable,  # type: ignore[misc]
    DefaultParamsReadable,  # type: ignore[misc]
):
    """Spark ML's way to prediction sets: ``fit`` calibrates, and the model's ``transform`` adds columns with sets.

    Calibrate on rows that the classifier was not trained on, or coverage is not what was asked for: fit the classifier
    on one part, ``ConformalSets`` on what it says about another, and put both into a ``PipelineModel``. In one
    ``Pipeline`` all stages see the same rows: mark those to calibrate on with ``validationIndicatorCol``, and keep the
    classifier from learning from them (a ``weightCol`` of 0).

    Parameters
    ----------
    labelCol : str, default="label"
        The true labels: indices of a ``StringIndexer``, whose names the sets then hold; other numbers 0, 1, ...; or the
        names in ``classes``, or their indices.
    probabilityCol : str, default="probability"
        The vector or array of probabilities.
    alpha : float or list of float, default=0.1
        The levels.
    classes : list, optional
        The name of each place of ``probabilityCol``.
    groups : str, optional
        "label", for coverage within every true label, or a column of groups.
    idCol : str, optional
        The column with an id for each row.
    validationIndicatorCol : str, optional
        A boolean column: calibrate on the rows where it is true.
    conformity : str, default="adaptive"
        The score, by name. Other scores: :func:`calibrate`, then ``ConformalSetsModel(calibration)``.
    resolution : float, optional
        As in :func:`aptset.calibrate_batches`.
    randomized, allowEmpty, normalize : bool
        As in :func:`aptset.calibrate`.
    seed : int, optional
        The seed of u; drawn if there is none.

    Examples
    --------
    >>> from pyspark.ml import PipelineModel  # doctest: +SKIP
    >>> from aptset.spark import ConformalSets
    >>> classifier = pipeline.fit(training)  # doctest: +SKIP
    >>> sets = ConformalSets(labelCol="index", alpha=0.1).fit(classifier.transform(validation))  # doctest: +SKIP
    >>> PipelineModel([*classifier.stages, sets]).write().save("model")  # doctest: +SKIP
    """

    classes = _param("classes", "the name of each place of probabilityCol", TypeConverters.toList)
    conformity = _param("conformity", "the score, by name", TypeConverters.toString)
    resolution = _param("resolution", "the grid that scores are put on", TypeConverters.toFloat)
    randomized = _param("randomized", "whether u is drawn", TypeConverters.toBoolean)
    seed = _param("seed", "the seed of u", TypeConverters.toInt)

    @keyword_only  # type: ignore[untyped-decorator]
    def __init__(
        self,
        *,
        labelCol: str = "label",
        probabilityCol: str = "probability",
        alpha: float | list[float] = 0.1,
        classes: list[Any] | None = None,
        groups: str | None = None,
        idCol: str | None = None,
        validationIndicatorCol: str | None = None,
        conformity: str = "adaptive",
        resolution: float | None = None,
        randomized: bool = True,
        allowEmpty: bool = True,
        normalize: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(alpha=[0.1], conformity="adaptive", randomized=True, allowEmpty=True, normalize=False)
        self.setParams(**self._input_kwargs)

    def setParams(self, **settings: Any) -> ConformalSets:
        """Set parameters by name; None leaves one out."""
        self._set(**{name: value for name, value in settings.items() if value is not None})
        return self

    def _fit(self, dataset: Any) -> ConformalSetsModel:
        indicator = self._setting("validationIndicatorCol")
        calibration = calibrate(
            dataset if indicator is None else dataset.where(column(indicator)),
            self.getLabelCol(),
            alpha=self._setting("alpha"),
            probabilities=self.getProbabilityCol(),
            classes=self._setting("classes"),
            groups=self._setting("groups"),
            ids=self._setting("idCol"),
            conformity=self._setting("conformity"),
            resolution=self._setting("resolution"),
            randomized=self._setting("randomized"),
            allow_empty=self._setting("allowEmpty"),
            normalize=self._setting("normalize"),
            random_state=self._setting("seed"),
        )
        model: ConformalSetsModel = self._copyValues(ConformalSetsModel(calibration))
        return model


class ConformalSetsModel(Model, _Settings, MLWritable, MLReadable):  # type: ignore[misc]
    """A calibration as a stage of Spark ML: ``transform`` adds the columns of :func:`predict_set`.

    ``write().save(path)`` stores the parameters and the file that :meth:`aptset.Calibration.save` writes, through Spark
    and so wherever Spark can write; ``load`` runs no code of what it reads.

    Parameters
    ----------
    calibration : Calibration
        Of ``ConformalSets``, :func:`calibrate`, :func:`aptset.calibrate` or a file.

    Examples
    --------
    >>> import aptset
    >>> from aptset.spark import ConformalSetsModel
    >>> model = ConformalSetsModel(aptset.load("cal.aptset"))  # doctest: +SKIP
    >>> model.transform(frame).select("set").show()  # doctest: +SKIP
    """

    def __init__(self, calibration: Calibration | None = None) -> None:
        super().__init__()
        self.calibration = calibration

    def _transform(self, dataset: Any) -> Any:
        """Add sets; the probabilities stay, since a stage takes nothing away."""
        name, spare = self.getProbabilityCol(), "kept probability"
        while spare in dataset.columns:
            spare += "_"
        groups = self._setting("groups")
        calibration = check_calibration(self.calibration)
        with_sets = predict_set(
            dataset.select("*", column(name).alias(spare)),
            calibration,
            alpha=self._setting("alpha"),
            probabilities=name,
            groups=groups if calibration.held_out.groups.by_row else None,
            ids=self._setting("idCol"),
            normalize=self._setting("normalize"),
            allow_empty=self._setting("allowEmpty"),
        )
        metadata = dataset.schema[name].metadata
        back = {name: column(spare).alias(name, metadata=metadata)}
        added = [each for each in with_sets.columns if each not in {*dataset.columns, spare}]
        return with_sets.select([back.get(each, column(each)) for each in [*dataset.columns, *added]])

    def write(self) -> Any:
        """Return what saves the model."""
        return ModelWriter(self)

    @classmethod
    def read(cls) -> Any:
        """Return what loads a model."""
        return ModelReader(cls)
