"""What was saved, back again: a file is a calibration, a folder a classifier. Neither runs code of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aptset.calibration.calibrate import load_calibration


def load(path: str | Path, *, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()) -> Any:
    """Read a calibration or a classifier that was saved; what is damaged, forged or newer is refused with one error.

    Parameters
    ----------
    path : path
        The file that the ``save`` of a :class:`Calibration` or a :class:`CrossCalibration` wrote, or the folder of
        :meth:`ConformalClassifier.save` and of ``aptset run``.
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
    Calibration, CrossCalibration or ConformalClassifier

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
    return load_calibration(path, scores, trust)


def load_folder(
    folder: Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """Return a classifier and the facts of its folder."""
    from aptset.calibration.stored_scores import check_counted_classes, find_score
    from aptset.estimator.classifier import ConformalClassifier
    from aptset.estimator.folders import check_settings, read_facts, read_tensors
    from aptset.estimator.storage import rebuild
    from aptset.estimator.stored_models import read_models

    trust = [trust] if isinstance(trust, str) else list(trust)
    facts = read_facts(folder)
    try:
        tensors = read_tensors(folder, facts)
        score = find_score(folder, facts["score"], scores, trust)
        check_counted_classes(folder, score, len(facts["class_labels"]))
        settings = check_settings(folder, facts, ConformalClassifier._get_param_names())
        models = read_models(folder, facts, trust)
    except ValueError:
        if read_facts(folder)["digest"] == facts["digest"]:
            raise
        return load_folder(folder, scores, trust)  # it was saved anew in the meantime
    labels = np.split(tensors["labels"], np.cumsum(np.maximum(tensors["label_counts"], 0))[:-1])
    state = {
        **facts,
        "scheme": {"name": facts["scheme"], "settings": models["calibration"]},
        "score": score,
        "classes": facts["class_labels"],
        "scores": tensors["scores"],
        "offsets": tensors["offsets"],
        "judges": tensors.get("judges"),
        "models": models["models"],
        "labels": [
            None if count < 0 else part for part, count in zip(labels, tensors["label_counts"].tolist(), strict=True)
        ],
    }
    fitted = rebuild(state, str(folder))
    for name, value in (("calibration", fitted.rule.scheme), ("conformity", score)):
        settings[name] = value if settings[name] is None else settings[name]
    if fitted.rule.groups.kind == "band":
        settings["groups"] = fitted.rule.group_setting
    return ConformalClassifier(models["estimator"], **settings)._keep(fitted), facts
