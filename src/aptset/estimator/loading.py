"""What was saved, back again: a file is a calibration, a folder a classifier. Neither runs code of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from aptset.calibration.calibrate import load_calibration
from aptset.core.files import check_plain_file
from aptset.core.store import Facts, check_stored_labels, damaged, stored_kind, unknown_kind


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
        return load_folder(Path(path), scores, trust)[0]
    check_plain_file(Path(path))
    if stored_kind(path) in ("acceptance", "acceptance_threshold"):
        from aptset.calibration.stored_acceptance import load_acceptance

        return load_acceptance(path)
    return load_calibration(path, scores, trust)


def load_folder(
    folder: Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> tuple[Any, Facts]:
    """Return a classifier and the facts of its folder."""
    from aptset.calibration.storage import (
        find_scheme,
        read_common,  # and scikit-learn: a calibration needs neither
    )
    from aptset.estimator.classifier import ConformalClassifier
    from aptset.estimator.storage import full_level, read_folder, rebuild
    from aptset.estimator.stored_models import read_models

    trust = [trust] if isinstance(trust, str) else list(trust)
    facts, tensors = read_folder(folder)
    try:
        common = read_common(folder, facts, scores, trust)
        settings = _check_settings(folder, facts, ConformalClassifier._get_param_names())
        models = read_models(folder, _model_bytes(folder, facts["models"]), facts, trust)
        scheme = find_scheme(folder, facts["scheme"], models["calibration"])
    except (ValueError, FileNotFoundError):
        if read_folder(folder)[0]["models"] == facts["models"]:
            raise
        return load_folder(folder, scores, trust)  # it was saved anew in the meantime
    counts = tensors.pop("label_counts").tolist()
    labels = np.split(tensors.pop("labels"), np.cumsum(np.maximum(counts, 0))[:-1])
    state = {
        **facts,
        **models,
        "scheme": scheme,
        "score": common.score,
        "classes": common.classes,
        "tensors": tensors,
        "labels": [None if count < 0 else part for part, count in zip(labels, counts, strict=True)],
    }
    fitted = rebuild(state, str(folder))
    for name, value in (("calibration", scheme), ("conformity", common.score)):
        settings[name] = value if settings[name] is None else settings[name]
    if common.groups.kind in ("band", "pair"):
        settings["groups"] = fitted.rule.group_setting
    settings |= full_level(settings, str(folder))
    return ConformalClassifier(models["estimator"], **settings)._keep(fitted), facts


def _model_bytes(folder: Path, stored: Facts) -> bytes:
    """Return what stands in the file of models, which must match its digest."""
    path = folder / stored["name"]
    if not path.is_file():
        raise damaged(folder, f"{stored['name']} is missing")
    content: bytes = path.read_bytes()
    if blake2b(content, digest_size=16).hexdigest() != stored.get("digest"):
        raise damaged(folder, f"{stored['name']} does not match its digest")
    return content


def _check_settings(folder: Path, facts: Facts, known: Iterable[str]) -> dict[str, Any]:
    """Return the settings of the constructor but for the estimator, which is among the models."""
    settings = dict(facts["settings"])
    unknown = sorted(settings.keys() - (set(known) - {"estimator"}))
    if unknown:
        raise unknown_kind(folder, "setting", unknown[0])
    if not {"calibration", "conformity"} <= settings.keys():
        raise damaged(folder, "its settings are incomplete")
    if facts["known_classes"] is not None:
        settings["classes"] = check_stored_labels(folder, facts["known_classes"], "known classes")
    return settings
