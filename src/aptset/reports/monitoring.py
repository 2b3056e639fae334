"""What a monitor of coverage would have said along the test rows."""

from __future__ import annotations

import numpy as np

from aptset.judging.evidence import Evidence
from aptset.judging.monitors.coverage import CoverageMonitor, rows_to_monitor


def along_the_rows(evidence: Evidence, alpha: float) -> str | None:
    """Return its evidence on the rows in their order; None if their misses follow no urn, or none can be."""
    of_row = evidence.origin.group_of_row
    if of_row is None:
        return None
    sizes = np.array(evidence.origin.group_sizes)
    judged = (of_row >= 0) & (sizes[of_row] >= rows_to_monitor(alpha))
    if not judged.any():
        return None
    met = {group: int(sizes[group]) for group in np.unique(of_row[judged]).tolist()}
    monitor = CoverageMonitor(met, alpha).update(evidence.covered_at(alpha)[judged], of_row[judged])
    return f"{monitor.evidence_in_words()} ({monitor.alarm:g} would be an alarm)"
