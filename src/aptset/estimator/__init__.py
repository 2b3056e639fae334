"""Sets from a scikit-learn classifier; what was saved of it, or of a calibration, is loaded here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aptset.core.files import check_exists
from aptset.core.store import stored_kind


def load(path: str | Path, *, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()) -> Any:
    """Read a calibration, a rule or a classifier that was saved; what is damaged, forged or newer is refused.

    Parameters
    ----------
    path : path
        The file that the ``save`` of a :class:`Calibration`, a :class:`CrossCalibration`, an :class:`Acceptance` or an
        :class:`AcceptanceThreshold` wrote, or the folder of :meth:`ConformalClassifier.save` and of ``aptset run``.
    scores : mapping, optional
        Scores of your own by the name under which they were saved, "module:object": a function, or the class of a
        dataclass, whose settings are in the file.
    trust : list of str, optional
        Modules that may be imported to find such a score; for a folder also the exact names of classes and functions,
        "module.name", that its models may hold, each where it is defined. The name of a module vouches for none of
        them. Models of scikit-learn, XGBoost, LightGBM and CatBoost need no trust. Without it, nothing is imported
        that the caller did not name.

    Returns
    -------
    Calibration, CrossCalibration, Acceptance, AcceptanceThreshold or ConformalClassifier

    Examples
    --------
    >>> import aptset, tempfile, pathlib
    >>> calibration = aptset.calibrate([[0.9, 0.1]] * 20, [0] * 20, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibration.save(pathlib.Path(folder) / "cal.aptset")
    ...     aptset.load(pathlib.Path(folder) / "cal.aptset")
    Calibration(n=20, 2 classes, Adaptive())
    """
    if Path(path).is_dir():
        from aptset.estimator.storage import load_folder  # with scikit-learn, which a calibration does not need

        return load_folder(Path(path), scores, trust)[0]
    check_exists(Path(path), "Copy its content to a file first.")
    if stored_kind(path) in ("acceptance", "acceptance_threshold"):
        from aptset.calibration.acceptance import load_acceptance

        return load_acceptance(path)
    from aptset.calibration.storage import load_calibration  # half of what `calibrate` has to load

    return load_calibration(path, scores, trust)
