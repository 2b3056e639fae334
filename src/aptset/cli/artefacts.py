"""What was written before: artefacts and folders of runs; loaded, told apart, and described."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aptset import Acceptance, AcceptanceThreshold, Calibration
from aptset.calibration.storage import STORE, described, load_calibration, score_of_user
from aptset.core.store import stored_kind


def imported_score(name: Any) -> Any:
    """Return the score at module:object, which the user named; a plain name, or a score, as it is."""
    if not isinstance(name, str) or ":" not in name:
        return name
    beside_the_user()
    return score_of_user("--conformity", name)


def load_artefact(path: Path, trust: tuple[str, ...]) -> Calibration:
    """Read an artefact, or what a run calibrated: of one model, since a file holds what one model says.

    Its score may come from modules that the user trusts.
    """
    if trust:
        beside_the_user()
    try:
        calibration = load_run(path, trust)[0].calibration_ if path.is_dir() else load_calibration(path, trust=trust)
    except ValueError as error:
        if stored_kind(path) in ("acceptance", "acceptance_threshold"):
            way_out = "pass it to `aptset accept`."
            raise ValueError(f"{path} was made by `aptset calibrate --accept`, for decisions: {way_out}") from error
        raise
    if hasattr(calibration, "folds"):
        way_out = (
            "Make one with `aptset run --calibration split`."
            if path.is_dir()
            else "Load it in Python: aptset.load(path).predict_set([probabilities of fold 1, of fold 2, ...])."
        )
        raise ValueError(
            f"{path} must hold the calibration of one model for this command; it holds {len(calibration.folds)} folds, "
            f"each with a model of its own. {way_out}"
        )
    of_one_model: Calibration = calibration
    return of_one_model


def classes_of(path: Path, trust: tuple[str, ...]) -> list[Any]:
    """Return the classes of an artefact, or of what a run trained, on however many folds."""
    if not path.is_dir():
        return list(load_calibration(path, trust=trust).classes.tolist())
    return list(load_run(path, trust)[0].classes_.tolist())


def digest_of(artefact: Path) -> str:
    """Return a digest of what a calibration says, not of when it was made: a script that makes it anew goes on, too."""
    from aptset.estimator.storage import read_folder  # with scikit-learn, which few jobs need

    facts, tensors = read_folder(artefact) if artefact.is_dir() else STORE.read(artefact)
    plain = {name: value for name, value in facts.items() if name not in ("created", "library")}
    digest = blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


def beside_the_user() -> None:
    """Let modules of the working folder be imported, as they are for a script there."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def load_rule(path: Path) -> Acceptance:
    """Read a rule; what else the file may be is refused with the way out."""
    from aptset.calibration.acceptance import load_acceptance

    kind = stored_kind(path)
    if kind not in (None, "acceptance", "acceptance_threshold"):
        raise ValueError(
            f"{path} must hold rows for decisions: a calibration does not say how confident wrong guesses were. Make "
            "it with `aptset calibrate ROWS --label COLUMN --accept -o rows.aptset`."
        )
    rule = load_acceptance(path)
    if isinstance(rule, AcceptanceThreshold):
        raise ValueError(f"{path} must hold the rows themselves; it holds one threshold. Use it in Python.")
    return rule


def load_run(folder: Path, trust: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the classifier of a folder, and what it says about tables."""
    from aptset.estimator.storage import (
        check_table,
        load_folder,  # with scikit-learn, which few jobs need
    )

    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    return classifier, check_table(folder, facts)


class RunSettings(NamedTuple):
    """What later commands take from a run: the column that it predicts, its level, and its column of groups."""

    target: str
    alpha: float
    groups: str | None


def settings_of_run(folder: Path) -> RunSettings:
    """Return what the folder of a run says."""
    from aptset.estimator.storage import check_table, read_folder

    facts, _ = read_folder(folder)
    table = check_table(folder, facts)
    return RunSettings(str(table["target"]), float(facts["settings"].get("alpha") or 0.1), table["groups"])


def facts_of(path: Path) -> dict[str, Any]:
    """Return what an artefact, or the folder of a classifier, says about itself."""
    if path.is_dir():
        return _of_folder(path)
    if stored_kind(path) in ("acceptance", "acceptance_threshold"):
        return _of_acceptance(path)
    return described(path)


def _of_acceptance(path: Path) -> dict[str, Any]:
    """Return what rows for decisions, or a threshold made of them, say about themselves."""
    from aptset.calibration.acceptance import load_acceptance
    from aptset.calibration.stored_acceptance import STORE as OF_ACCEPTANCE

    (facts, _), rule = OF_ACCEPTANCE.read(path), load_acceptance(path)
    known = {"n": rule.n, "n_wrong": rule.n_wrong} if isinstance(rule, Acceptance) else {"promise": rule.sentence()}
    by = {"guess": "predicted label", "own guess": "guess", "group": "group", "none": "none"}[facts["by"]]
    names = {"confidence": facts["confidence"], "by": by, "names": list(map(str, facts["names"]))}
    return {"file": str(path), **known, **names, **{name: facts[name] for name in ("library", "created", "format")}}


def _of_folder(folder: Path) -> dict[str, Any]:
    from aptset.estimator.storage import check_table, read_folder

    facts, _ = read_folder(folder)
    table = {"target": None, "columns": []} if facts["table"] is None else check_table(folder, facts)
    return {
        "file": str(folder),
        "calibration": facts["scheme"].get("name"),
        "score": facts["score"],
        "alpha": facts["settings"].get("alpha"),
        "n": facts["n"],
        **({} if facts.get("training_rows") is None else {"training_rows": facts["training_rows"][1]}),
        "models": facts["n_models"],
        "classes": facts["classes"]["values"],
        "groups": {"kind": facts["groups"]["kind"], "sizes": {}},
        "randomized": facts["randomized"],
        "target": table["target"],
        "columns": [column["name"] for column in table["columns"] if not column["left_out"]],
        "versions": _versions(folder, facts),
        "library": facts["library"],
        "created": facts["created"],
        "format": facts["format"],
    }


def _versions(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the versions of the libraries that the models use; earlier folders list others, too."""
    from aptset.estimator.stored_models import packages_in

    path = folder / facts["models"]["name"]
    try:
        used = packages_in(str(path), path.read_bytes())
    except (OSError, ValueError):  # which a load would refuse
        return dict(facts["versions"])
    boosters = {"xgboost", "lightgbm", "catboost"} - used
    return {name: version for name, version in facts["versions"].items() if name not in boosters}


def facts_in_words(facts: dict[str, Any]) -> str:
    """Return facts as lines; labels that are numbers come in their order, and settings as they are written."""
    return "\n".join(f"{name.replace('_', ' '):<15} {_words(name, value)}" for name, value in facts.items())


def _words(name: str, value: Any) -> str:
    if name == "score":
        shown = {key: len(one) if isinstance(one, list) else one for key, one in (value["settings"] or {}).items()}
        settings = ", ".join(f"{key}={one}" for key, one in shown.items())
        return f"{value['name']}({settings})" if settings else str(value["name"])
    if name == "groups":
        sizes = ", ".join(f"{key}: {value['sizes'][key]:,}" for key in in_order(value["sizes"]))
        kinds = {"all": "none", "label": "each label", "band": "bands of labels", "row": "by row"}
        kinds["pair"] = "each label in each group of rows"
        kinds["overlap"] = "overlapping, by combination"
        return kinds[value["kind"]] + (f" ({sizes})" if sizes else "")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words('', one)}" for key, one in value.items() if one is not None)
    if isinstance(value, list):
        ordered = in_order(value) if name == "classes" else value
        return ", ".join(map(str, ordered[:20])) + (f" and {len(value) - 20} more" if len(value) > 20 else "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Return labels in order: as numbers if all of them are numbers, else as texts."""
    ordered = list(labels)
    try:
        return sorted(ordered, key=float)
    except (TypeError, ValueError):
        return sorted(ordered, key=str)
