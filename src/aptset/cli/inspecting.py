"""What ``aptset inspect`` does: an artefact or a folder in words."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from aptset.calibration.storage import STORE, read_calibration
from aptset.conformal.guarantees import Promises
from aptset.estimator.storage import check_table, read_folder


class _Unseen:
    """Stands for a score of the user's own that only its name is wanted of."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def of(self, places: Any) -> Any:
        """Return something of the right shape."""
        return places.own


def facts_of(path: Path) -> dict[str, Any]:
    """Return what an artefact, or the folder of a classifier, says about itself."""
    if path.is_dir():
        return _of_folder(path)
    name = STORE.read(path)[0]["score"]["name"]  # of the score, which is never needed here
    fields, facts = read_calibration(path, {name: _Unseen} if ":" in name else None)
    sizes = fields["held_out"].sizes.tolist()
    names = [str(name) for name in facts["groups"]["names"]]
    scheme = fields.get("scheme")
    in_groups = "" if facts["groups"]["kind"] == "all" else " in every group"
    return {
        "file": str(path),
        **({} if scheme is None else {"calibration": scheme.name, "folds": len(fields["folds"])}),
        "score": facts["score"],
        "n": facts["n"],
        **_weights(facts, names),
        **({"alphas": [float(Fraction(level)) for level in facts["levels"]]} if "levels" in facts else {}),
        "classes": facts["classes"]["values"],
        "groups": {"kind": facts["groups"]["kind"], "sizes": dict(zip(names, sizes, strict=True))},
        "randomized": facts["randomized"],
        "promise": _promise(fields, in_groups),
        **({} if facts.get("weights") else {"smallest_alpha": 1 / (_fewest_rows(fields["held_out"]) + 1)}),
        "scores_hash": facts["scores_hash"],
        "library": facts["library"],
        "created": facts["created"],
        "format": facts["format"],
    }


def _weights(facts: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return what an artefact says about weights, if it has any."""
    if facts.get("weights") is None:
        return {}
    ratios, sizes = facts["weights"]["ratios"], facts["weights"]["effective_size"]
    corrected = " with corrected columns" if facts["weights"]["prior_correction"] else ""
    size = sizes[0] if facts["groups"]["kind"] == "all" else dict(zip(names, sizes, strict=True))
    return {"weights": "of rows" if ratios is None else f"of labels{corrected}", "effective_size": size}


def _fewest_rows(held_out: Any) -> int:
    """Return the rows of the smallest group: of overlapping ones not that of a combination, which has no promise."""
    overlap = held_out.groups.overlap
    sizes = held_out.sizes if overlap is None else [*held_out.overlapping.sizes_of({*overlap.names}).values()]
    return int(min(sizes))


def _promise(fields: dict[str, Any], in_groups: str) -> str:
    within = in_groups + (", if the weights are right" if fields["held_out"].is_weighted else "")
    if "scheme" not in fields:
        return f"coverage >= 1 - alpha{within}"
    promises, alpha = Promises.of(fields["scheme"], fields["held_out"]), Fraction(1, 10)
    reason = promises.reason_of_nothing(alpha)
    return f"none, {reason}" if reason else f"coverage >= {float(promises.coverage(alpha)):.4g} at alpha = 0.1{within}"


def _of_folder(folder: Path) -> dict[str, Any]:
    facts, _ = read_folder(folder)
    table = {"target": None, "columns": []} if facts["table"] is None else check_table(folder, facts)
    return {
        "file": str(folder),
        "calibration": facts["scheme"].get("name"),
        "score": facts["score"],
        "alpha": facts["settings"].get("alpha"),
        "n": facts["n"],
        "models": facts["n_models"],
        "classes": facts["classes"]["values"],
        "groups": {"kind": facts["groups"]["kind"], "sizes": {}},
        "randomized": facts["randomized"],
        "target": table["target"],
        "columns": [column["name"] for column in table["columns"] if not column["left_out"]],
        "versions": facts["versions"],
        "library": facts["library"],
        "created": facts["created"],
        "format": facts["format"],
    }


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
