"""The goals of the verbs: each against another one in the same run, since machines differ."""

from __future__ import annotations

from benchmarks.report import Goal
from benchmarks.timing import Line

_NARROW = {
    "p_values": ("predict_set", 6.0),
    "predict_set by label": ("predict_set", 3.0),
    "predict_mask by label": ("predict_mask", 3.0),
    "predict_set by group": ("predict_set", 2.0),
    "calibrate by label": ("calibrate", 3.0),
    "evaluate": ("predict_set", 5.0),
    "covers": ("predict_mask", 1.0),
    "to_frame pyarrow": ("predict_set", 3.0),
    "to_frame polars": ("predict_set", 3.0),
    "p_values, Prevalence": ("predict_set", 10.0),
    "p_values by band": ("predict_set", 10.0),
    "p_values, weights": ("predict_set", 10.0),
    "predict_set, overlapping groups": ("predict_set", 10.0),
    "predict_set, logits": ("predict_set", 10.0),
    "predict_set by group as text": ("predict_set", 10.0),
    "label_ratios": ("predict_set", 20.0),
    "accept, confidences": ("numpy sorts as many confidences", 2.0),
}
_WIDE = {
    "p_values": ("predict_mask", 10.0),
    "predict_set by label": ("predict_set", 3.0),
    "predict_mask by label": ("predict_mask", 3.0),
}
_ONE_ROW = {"predict_set, one row of 10": 40.0, "p_values, one row of 1,000": 60.0}
_FILES = {
    "aptset calibrate": ("reading alone", 4.0),
    "aptset predict": ("reading alone", 4.0),
    "aptset evaluate": ("aptset predict", 1.5),
}


def of_verbs(lines: list[Line], wide: str, narrow: str) -> list[Goal]:
    """Return the goals of the verbs with what was measured."""
    seconds = {line.workload: line.seconds for line in lines if line.who == "aptset" and line.seconds}
    found = [
        _against(seconds, f"{verb}, {shape}", f"{other}, {shape}", limit)
        for shape, goals in ((narrow, _NARROW), (wide, _WIDE))
        for verb, (other, limit) in goals.items()
    ]
    for workload, limit in _ONE_ROW.items():
        value = seconds.get(workload)
        found.append(Goal(workload, None if value is None else value * 1e6, limit, True, " us"))
    files = {name.split(",")[0]: name for name in seconds if name.endswith("Parquet")}
    for what, (other, limit) in _FILES.items():
        found.append(_against(seconds, files.get(what, what), files.get(other, other), limit))
    return found


def _against(seconds: dict[str, float], workload: str, other: str, limit: float) -> Goal:
    one, base = seconds.get(workload), seconds.get(other)
    return Goal(
        f"{workload}, against {other.split(',')[0]}", one / base if one and base else None, limit, True, " times"
    )
