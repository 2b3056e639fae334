"""What ``aptset monitor`` does: look at the outcomes that a file has gained, and keep what was learned beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aptset.commands.checks import check_same_monitor, check_still_there
from aptset.commands.evaluation_jobs import outcomes_of
from aptset.judging.monitors.coverage import CoverageMonitor
from aptset.judging.running_sums import Codes
from aptset.probabilities.calibration import Calibration


def monitor_file(
    path: Path,
    label: str,
    calibration: Calibration,
    alpha: float,
    group: str | None,
    alarm: float,
    state: Path | None,
    progress: bool,
) -> CoverageMonitor:
    """Take in the rows that were not seen before, in their order; what is in ``state`` was."""
    monitor = calibration.monitor(alpha, alarm)
    if state is not None and state.exists():
        before = CoverageMonitor.load(state)
        check_same_monitor(state, before.settings, monitor.settings)
        monitor = before
    known = calibration.held_out.groups
    bands = [known.names[band] for band in known.bands or ()]
    band_of = dict(zip(map(str, calibration.classes.tolist() if bands else ()), bands, strict=True))
    seen, start = monitor.rows, 0
    for some in outcomes_of(path, (), label, alpha, group, progress):
        new = slice(max(0, seen - start), None)
        groups = some.groups if known.kind in ("all", "row") else some.truth
        names = None if groups is None else _in_full(groups)[new]
        monitor.update(some.covered[new], [band_of.get(str(name), name) for name in names or ()] if band_of else names)
        start += len(some.covered)
    check_still_there(path, start, seen)
    if state is not None:
        monitor.save(state)
    return monitor


def _in_full(codes: Codes) -> list[Any]:
    return [codes.names[code] for code in codes.of_rows.tolist()]
