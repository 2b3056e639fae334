"""Labels and groups that are covered less than they should be, by more than chance allows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aptset.data.setting_checks import check_alpha
from aptset.judging.evidence import Evidence, Origin
from aptset.judging.laws import chance_of_so_few, coverage_law
from aptset.reports.measures import Partition


class Part(NamedTuple):
    """A label or a group that is covered too little."""

    kind: str
    name: str
    rows: int
    coverage: float
    chance: float


def laws_of_parts(origin: Origin, parts: dict[str, Partition]) -> dict[str, list[Any]] | None:
    """Return the laws of each label and group; None without one.

    The law of a part is the one that its count follows if its rows are scored like those that calibrated.
    """
    if origin.group_of_row is None:
        return None
    return {
        name: [origin.laws_of(origin.group_of_row[part.of_row == which]) for which in range(len(part.names))]
        for name, part in parts.items()
    }


def too_low(evidence: Evidence, parts: dict[str, Partition], alpha: float, false_alarms: float) -> list[Part]:
    """Return the labels and groups with too few covered rows, rarest first; false alarms are shared by all of them.

    With a law: a count so low would be rare if the rows of the part were scored no worse than those that calibrated.
    The luck of the calibration is in it. Without one: if these very sets covered the promised share of such rows.
    """
    covered, promise = evidence.covered_at(alpha), evidence.origin.promise(alpha)
    laws = laws_of_parts(evidence.origin, parts)
    looked_at = sum(len(part.names) for part in parts.values())
    found = []
    for kind, part in parts.items():
        rows = np.bincount(part.of_row, minlength=len(part.names)).tolist()
        hits = np.bincount(part.of_row, weights=covered, minlength=len(part.names)).astype(int).tolist()
        for which, name in enumerate(part.names):
            if laws is None:
                chance = chance_of_so_few(hits[which], rows[which], promise)
            else:
                chance = coverage_law(hits[which], laws[kind][which], check_alpha(alpha)).too_low
            if chance < false_alarms / looked_at:
                found.append(Part(kind, str(name), rows[which], hits[which] / rows[which], chance))
    return sorted(found, key=lambda one: one.chance)
