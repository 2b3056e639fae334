"""The monitors of a model, fed from the log of feedback, and what /metrics says.

A monitor here is a function of the log: which labels came in time, and of which prediction. Rows are judged in the
order in which they were asked, once all earlier ones are known or their time is over
(:mod:`aptset.metrics.waiting`); a label that comes when its row is given up is kept, and not judged. So every worker
has the same monitor, and a restart makes it again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from threading import Lock
from typing import Any

from aptset import CoverageMonitor, ErrorMonitor, coverage_test
from aptset.core.labels import plain_label
from aptset.serve.served import RowAnswers, ServedModel
from aptset.serve.store import FeedbackStore, Labelled

_AT_ONCE = 65_536  # labels
_MOST_POINTS = 300  # of the path that the page draws


class Monitors:
    """The monitors of one model: of coverage, and of errors among the rows that are acted on."""

    def __init__(self, store: FeedbackStore, served: ServedModel, alarm: float) -> None:
        self._store, self._served, self._lock, self._fed = store, served, Lock(), 0
        self.model = store.number_of(served.name, served.classes)
        self.coverage: CoverageMonitor | None = None
        self.error: ErrorMonitor | None = None
        self.reason = ""
        mature = store.mature
        try:
            self.coverage = served.classifier.calibration_.monitor(served.alpha, alarm, mature=mature)
        except (AttributeError, TypeError, ValueError) as error:
            self.reason = f"coverage is not monitored: {error}"
        if served.decided is not None:
            allowed = served.choice.error
            highest = max(allowed.values()) if isinstance(allowed, Mapping) else allowed
            self.error = ErrorMonitor(highest, alarm, mature=mature)
        self._groups = _Groups(served)

    def update(self) -> None:
        """Take in what came since the last look."""
        with self._lock:
            while rows := self._store.labels_after(self.model, self._fed, _AT_ONCE):
                self._feed(rows)
                self._fed = rows[-1].seq
            self._feed([])  # time passes, too

    def _feed(self, rows: list[Labelled]) -> None:
        counts = self._store.counts(self.model)
        if self.coverage is not None:
            of_rows = [(row, self._groups.of(row)) for row in rows]
            known = [(row, group) for row, group in of_rows if self._groups.is_plain or group is not None]
            groups = None if self._groups.is_plain else [group for _, group in known]
            judged = [row for row, _ in known]
            numbers = [row.number for row in judged]
            places = self._places(judged, numbers, counts["asked"])
            self.coverage.update([row.covered for row in judged], groups, **places)
        if self.error is not None:
            acted = [row for row in rows if row.acted is not None]
            places = self._places(acted, [row.acted for row in acted], counts["acted"])
            self.error.update([row.wrong for row in acted], **places)

    def _places(self, rows: list[Labelled], numbers: list[Any], n_asked: int) -> dict[str, Any]:
        """Return where rows stand among the predictions, and by what rows mature."""
        mature = self._store.mature
        if isinstance(mature, timedelta):
            return {"order": numbers, "time": [row.asked for row in rows], "now": time.time()}
        newest = {"now": n_asked - 1} if mature is not None and n_asked else {}
        return {"order": numbers, **newest}

    def state(self) -> dict[str, Any]:
        """Return where the monitors stand."""
        self.update()
        with self._lock:
            said: dict[str, Any] = {"model": self._served.name, **self._store.counts(self.model)}
            said["coverage"] = self._coverage()
            said["error"] = None if self.error is None else _facts_of(self.error)
            return said

    def _coverage(self) -> dict[str, Any]:
        monitor = self.coverage
        if monitor is None:
            return {"reason": self.reason}
        said = _facts_of(monitor)
        if monitor.rows:
            share = monitor._coverage()
            said |= {"share": float(share), "interval": [float(share.low), float(share.high)]}
            if self._groups.is_plain:
                covered, n = monitor.rows - monitor.misses, self._served.fitted.held_out.n
                law = coverage_test(covered, monitor.rows, n, monitor._level)  # type: ignore[arg-type]
                said["expected"] = [law.low, law.high]
        return said


class _Groups:
    """The group that a monitor judges a row in: none, that of the row, that of its label, or both."""

    def __init__(self, served: ServedModel) -> None:
        groups, classes = served.fitted.rule.groups, served.classes
        self._groups, self.is_plain = groups, groups.is_one
        labels = [plain_label(str(label)) for label in classes]
        if groups.by_label_alone:
            cell_of_label = groups.index(None)[0].tolist()
            self._of_label = {label: groups.names[cell] for label, cell in zip(labels, cell_of_label, strict=True)}
        else:
            cells = {(str(cell[0]), plain_label(str(cell[1]))): cell for cell in groups.names if groups.by_both}
            self._of_pair, self._of_row = cells, {str(name): name for name in groups.names}

    def of(self, row: Labelled) -> Any:
        """Return the group; None where it is not one of calibration, so that nothing is known of its law."""
        text = plain_label(str(row.label))
        if self._groups.by_label_alone:
            return self._of_label.get(text)
        if self._groups.by_both:
            return self._of_pair.get((str(row.row_group), text))
        return None if self.is_plain else self._of_row.get(str(row.row_group))


def _facts_of(monitor: CoverageMonitor) -> dict[str, Any]:
    points = monitor._trail.points
    step = max(1, len(points) // _MOST_POINTS)
    kept = points[::step] + (points[-1:] if points and (len(points) - 1) % step else [])
    return {
        "sentence": monitor.sentence(),
        "alpha": monitor.alpha,
        "alarm": monitor.alarm,
        "alarmed_at": monitor.alarmed_at,
        "rows": monitor.rows,
        "misses": monitor.misses,
        "waiting": monitor.n_waiting,
        "unlabelled": monitor.unlabelled,
        "log_evidence": monitor.log_evidence,
        "log_peak": monitor._trail.log_peak,
        "path": [[row, log_evidence] for row, log_evidence, _ in kept],
    }


# What is counted, and how it is written for Prometheus

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (0, 1, 2, 3, 4, 5, 10, 20, 50, 100, 1000)
_HELP = {
    "aptset_requests_total": ("counter", "Requests by path and status."),
    "aptset_request_seconds": ("histogram", "Seconds from the first byte of a request to its answer."),
    "aptset_rows_total": ("counter", "Rows that were answered."),
    "aptset_repeated_rows_total": ("counter", "Rows that were asked again by their id, and got the same set."),
    "aptset_set_size": ("histogram", "Sizes of sets at the level of the service."),
    "aptset_empty_sets_total": ("counter", "Sets without a label."),
    "aptset_full_sets_total": ("counter", "Sets with every label."),
    "aptset_acted_rows_total": ("counter", "Rows whose guess may be acted on."),
    "aptset_reloads_total": ("counter", "Times that the folder was loaded anew."),
    "aptset_failed_reloads_total": ("counter", "Times that the folder could not be loaded, and the old model stayed."),
    "aptset_model_info": ("gauge", "The model that answers."),
    "aptset_requests_in_flight": ("gauge", "Requests of this worker that wait or are answered."),
    "aptset_asked_rows": ("gauge", "Rows of this model that were asked, in all runs."),
    "aptset_feedback_labels": ("gauge", "Labels of this model that became known, in all runs."),
    "aptset_feedback_too_old": ("gauge", "Labels that came when their rows had been given up."),
    "aptset_monitor_rows": ("gauge", "Rows that a monitor has judged."),
    "aptset_monitor_misses": ("gauge", "Judged rows that were missed, or wrong."),
    "aptset_monitor_waiting_rows": ("gauge", "Labelled rows that wait for earlier ones."),
    "aptset_monitor_given_up_rows": ("gauge", "Rows whose labels did not come in time."),
    "aptset_monitor_log_evidence": ("gauge", "Natural logarithm of the evidence against the promise."),
    "aptset_monitor_alarm": ("gauge", "1 once the evidence has reached the alarm."),
    "aptset_coverage": ("gauge", "Share of judged rows whose set held the label."),
    "aptset_coverage_low": ("gauge", "Lower end of its 95 % interval."),
    "aptset_coverage_high": ("gauge", "Upper end of its 95 % interval."),
    "aptset_coverage_expected_low": ("gauge", "Lower end of where 95 % of valid calibrations would be."),
    "aptset_coverage_expected_high": ("gauge", "Upper end of where 95 % of valid calibrations would be."),
}


class ServiceCounters:
    """What one worker has counted, by name and labels as Prometheus writes them."""

    def __init__(self) -> None:
        self.values, self._lock = Counter[str](), Lock()

    def add(self, name: str, value: float = 1) -> None:
        """Count."""
        with self._lock:
            self.values[name] += value  # type: ignore[assignment]

    def note_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        with self._lock:
            self.values[f'aptset_requests_total{{path="{path}",status="{status}"}}'] += 1
            self._observe("aptset_request_seconds", f'path="{path}",', SECONDS, seconds)

    def note_answers(self, answers: RowAnswers, n_classes: int) -> None:
        """Count rows and the sizes of their sets."""
        with self._lock:
            self.values["aptset_rows_total"] += len(answers.sizes)
            for size, n_rows in Counter(answers.sizes.tolist()).items():
                self.values["aptset_empty_sets_total"] += n_rows * (size == 0)
                self.values["aptset_full_sets_total"] += n_rows * (size == n_classes)
                self._observe("aptset_set_size", "", SIZES, size, n_rows)
            if answers.act is not None:
                self.values["aptset_acted_rows_total"] += int(answers.act.sum())

    def _observe(self, name: str, labels: str, bounds: tuple[float, ...], value: float, times: int = 1) -> None:
        bound = next((f"{bound:g}" for bound in bounds if value <= bound), "+Inf")
        self.values[f'{name}_bucket{{{labels}le="{bound}"}}'] += times
        inner = f"{{{labels.rstrip(',')}}}" if labels else ""
        self.values[f"{name}_sum{inner}"] += value * times  # type: ignore[assignment]
        self.values[f"{name}_count{inner}"] += times

    def copy(self) -> dict[str, float]:
        """Return what was counted so far."""
        with self._lock:
            return dict(self.values)


def metrics_text(counted: list[dict[str, float]], state: dict[str, Any], in_flight: int) -> str:
    """Return the numbers of all workers as Prometheus reads them."""
    values = Counter[str]()
    for of_worker in counted:
        values.update(of_worker)
    values.update(_gauges(state, in_flight))
    lines = []
    for name, (kind, words) in _HELP.items():
        names = {name} if kind != "histogram" else {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
        own = sorted(key for key in values if key.split("{")[0] in names)
        if own:
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
            lines += _cumulated(own, values) if kind == "histogram" else [f"{key} {values[key]:.17g}" for key in own]
    return "\n".join(lines) + "\n"


def _cumulated(keys: list[str], values: Mapping[str, float]) -> list[str]:
    """Return the lines of a histogram: each bucket counts what is at or below its bound."""
    lines, buckets = [], [key for key in keys if "_bucket{" in key]
    for start in sorted({key.rpartition("le=")[0] for key in buckets}):
        bounds = SECONDS if "seconds" in start else SIZES
        total = 0.0
        for bound in [*(f"{bound:g}" for bound in bounds), "+Inf"]:
            total += values.get(f'{start}le="{bound}"}}', 0)
            lines.append(f'{start}le="{bound}"}} {total:.17g}')
    return lines + [f"{key} {values[key]:.17g}" for key in keys if "_bucket{" not in key]


def _gauges(state: dict[str, Any], in_flight: int) -> dict[str, float]:
    model = f'{{model="{state["model"]}"}}'
    values: dict[str, float] = {
        f"aptset_model_info{model}": 1,
        "aptset_requests_in_flight": in_flight,
        f"aptset_asked_rows{model}": state["asked"],
        f"aptset_feedback_labels{model}": state["labels"],
        f"aptset_feedback_too_old{model}": state["too_old"],
    }
    for name in ("coverage", "error"):
        monitor = state[name]
        if monitor is None or "reason" in monitor:
            continue
        labels = f'{{model="{state["model"]}",monitor="{name}"}}'
        values[f"aptset_monitor_rows{labels}"] = monitor["rows"]
        values[f"aptset_monitor_misses{labels}"] = monitor["misses"]
        values[f"aptset_monitor_waiting_rows{labels}"] = monitor["waiting"]
        values[f"aptset_monitor_given_up_rows{labels}"] = monitor["unlabelled"]
        values[f"aptset_monitor_log_evidence{labels}"] = monitor["log_evidence"]
        values[f"aptset_monitor_alarm{labels}"] = monitor["alarmed_at"] is not None
    coverage = state["coverage"]
    if "share" in coverage:
        values[f"aptset_coverage{model}"] = coverage["share"]
        values[f"aptset_coverage_low{model}"], values[f"aptset_coverage_high{model}"] = coverage["interval"]
    if "expected" in coverage:
        low, high = coverage["expected"]
        values |= {f"aptset_coverage_expected_low{model}": low, f"aptset_coverage_expected_high{model}": high}
    return values
