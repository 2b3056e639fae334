"""One command for the paper's figures and tables: runs what is missing, then draws, tabulates and checks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aptset.core import validate
from aptset.core.files import atomic_path, atomic_write
from aptset.core.runner import Done, as_time, check_folder, read_results, run_tasks, versions
from aptset.core.validate import warn_caller
from aptset.experiments.baselines import check_packages
from aptset.experiments.claims import (
    ABOUT,
    LARGEST_Z,
    PUBLISHED_ALPHA,
    Finding,
    as_markdown,
    compare_notebook,
    compare_paired,
    compare_rerun,
    findings,
    listing,
)
from aptset.experiments.datasets import MODELS, load_data
from aptset.experiments.designs import FAMILY_OF, Cell, FigureDesign, Selection, cells_of, designs_of
from aptset.metrics import OF_SPLITS

if TYPE_CHECKING:
    import pandas as pd


COLOURS = {
    "SC": "#0072b2",
    "CV+": "#56b4e9",
    "JK+": "#009e73",
    "CQC": "#d55e00",
    "CQC-RF": "#e69f00",
    "HCC": "#cc79a7",
    "oracle": "#999999",
}
_STYLE: Any = {"svg.hashsalt": "aptset", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
_HIDDEN_BEYOND = 1.6  # times nearly the largest value of the other methods: the paper leaves such values of CQC out


class Panel(NamedTuple):
    """One pair of axes: a metric, for rows of one condition, over boxes or labels."""

    title: str
    metric: str
    frame: pd.DataFrame
    by: str  # the column along x


def draw_figure(design: FigureDesign, frame: pd.DataFrame, alpha: float, paths: list[Path]) -> None:
    """Draw a design into files; their endings decide the format, and the same data give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = panels(design, frame)
    methods = [name for name in design.methods if name in set(frame["method"])]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.5, 2.5 * len(rows) + 0.7), layout="constrained")
        grid = figure.subplots(len(rows), 2, squeeze=False)
        for axes, panel in zip(grid.ravel(), (panel for row in rows for panel in row), strict=True):
            _draw_panel(axes, panel, design, methods, alpha)
        handles = [mpl.patches.Patch(color=COLOURS[name], label=name) for name in methods]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(methods), frameon=False)
        figure.suptitle(_title(design, frame), fontsize=11)
        for path in paths:
            with atomic_path(path) as temporary:
                kind = path.suffix[1:]
                figure.savefig(temporary, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)


def panels(design: FigureDesign, frame: pd.DataFrame) -> list[tuple[Panel, Panel]]:
    """Return the panels, row by row: coverage left, size right."""
    overall = frame[frame["condition"] == "all"]
    rows = [
        (Panel("Marginal coverage", "coverage", overall, "box"), Panel("Size", "size", overall, "box")),
        (
            Panel("Worst-slice coverage", "worst_slice", overall, "box"),
            Panel("Size given coverage", "size_given_coverage", overall, "box"),
        ),
    ]
    for name in design.conditions:
        chosen = frame[frame["condition"] == name]
        given = name.replace("=", " = ")
        left = Panel(f"Coverage given {given}", "coverage", chosen, "box")
        rows.append((left, Panel(f"Size given {given} and coverage", "size_given_coverage", chosen, "box")))
    if design.by_label_of is not None:
        chosen = frame[(frame["box"] == design.by_label_of) & frame["condition"].str.startswith("label=")]
        chosen = chosen.assign(label=chosen["condition"].str.removeprefix("label="))
        left = Panel(f"Coverage by true label, {design.by_label_of}", "coverage", chosen, "label")
        rows.append((left, Panel("Size given coverage, by true label", "size_given_coverage", chosen, "label")))
    return rows


def _draw_panel(axes: Any, panel: Panel, design: FigureDesign, methods: list[str], alpha: float) -> None:
    present = set(panel.frame[panel.by])
    names = [box for box in design.boxes if box in present] if panel.by == "box" else sorted(present, key=float)
    width = 0.8 / max(len(methods), 1)
    for number, method in enumerate(methods):
        rows = panel.frame[panel.frame["method"] == method]
        values = [rows.loc[rows[panel.by] == name, panel.metric].dropna().to_numpy() for name in names]
        filled = [(k, v) for k, v in enumerate(values) if len(v)]
        if filled:
            at = [k - 0.4 + width * (number + 0.5) for k, _ in filled]
            _draw_boxes(axes, [v for _, v in filled], at, width, COLOURS[method])
    axes.set_xticks(range(len(names)), names)
    axes.set_title(panel.title, fontsize=10)
    if OF_SPLITS[panel.metric].aims_at_level:
        axes.axhline(1 - alpha, color="black", linestyle="--", linewidth=0.8, zorder=0)
    else:
        _leave_out_extremes(axes, panel)


def _draw_boxes(axes: Any, values: list[Any], at: list[float], width: float, colour: str) -> None:
    if max(map(len, values)) == 1:  # a box of one value has no colour
        axes.plot(at, [value[0] for value in values], "o", color=colour)
        return
    shape: dict[str, Any] = {"linewidth": 0.7, "color": "black"}
    axes.boxplot(
        values,
        positions=at,
        widths=0.85 * width,
        patch_artist=True,
        manage_ticks=False,
        boxprops={**shape, "facecolor": colour},
        medianprops=shape,
        whiskerprops=shape,
        capprops=shape,
        flierprops={"marker": ".", "markersize": 3, "markerfacecolor": colour, "markeredgecolor": "none"},
    )


def _leave_out_extremes(axes: Any, panel: Panel) -> None:
    """Cut the axis where only the extreme values of CQC lie, and say how many are not shown."""
    others = panel.frame.loc[panel.frame["method"] != "CQC", panel.metric].dropna()
    if others.empty:
        return
    limit = _HIDDEN_BEYOND * float(np.quantile(others, 0.99))
    hidden = int((panel.frame[panel.metric] > limit).sum())
    if hidden:
        axes.set_ylim(top=limit)
        note = f"{hidden} values above {limit:.2g} not shown"
        axes.annotate(note, (0.01, 0.97), xycoords="axes fraction", ha="left", fontsize=7)


def _title(design: FigureDesign, frame: pd.DataFrame) -> str:
    """Return the title, with the number of repetitions and what the design leaves out."""
    counts = frame.groupby(["box", "method"])["repetition"].nunique()
    low, high = int(counts.min()), int(counts.max())
    repetitions = f"{low} repetition{'s' * (low != 1)}" if low == high else f"{low} to {high} repetitions"
    without = "".join(f"; {method} not run with {box}" for box, method in design.without)
    return f"{design.title} ({repetitions}{without})"


KEYS = ["data", "n_train", "n_test", "box", "method", "repetition", "condition"]


def as_frame(done: Iterable[Done], alpha: float, seed: int) -> pd.DataFrame:
    """Return the rows of finished cells at a level and a seed, with the seconds that each took and its versions."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for task in done:
        constants = {"seconds": task.seconds, "versions": json.dumps(task.versions)}
        rows.extend({**row, **constants} for row in task.rows if (row["alpha"], row["seed"]) == (alpha, seed))
    if not rows:
        return pd.DataFrame()
    frame = pd.DataFrame(rows).sort_values(KEYS, ignore_index=True)
    frame["versions"] = frame["versions"].astype("category")
    return frame


def write_results(path: Path, frame: pd.DataFrame, settings: dict[str, object]) -> None:
    """Write one parquet file; the settings of the run and the versions are in its metadata too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    own = {b"aptset": json.dumps({"settings": settings, "versions": versions()}).encode()}
    with atomic_write(path) as file:
        pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **own}), file)


def seconds_of(frame: pd.DataFrame) -> float:
    """Return how long the cells took in all, each counted once."""
    families = frame.assign(family=frame["method"].map(FAMILY_OF))
    cells = families.drop_duplicates(["data", "n_train", "n_test", "box", "family", "repetition"])
    return float(cells["seconds"].sum())


_MARKS = {"holds": "✓ holds", "fails": "✗ fails", "open": "? open"}


def claims_page(frame: pd.DataFrame, alpha: float) -> str:
    """Return the whole page."""
    parts = [_head(alpha), _run_section(frame), _claims_section(findings(frame, alpha))]
    if alpha == PUBLISHED_ALPHA:
        parts += [_rerun_section(frame, alpha), _notebook_section(frame, alpha)]
    return "\n\n".join(parts) + "\n"


def _head(alpha: float) -> str:
    return f"""# The paper's claims, checked

Each line is a quantity averaged over repetitions, with the 95 % interval of its mean (Student's t), at alpha =
{alpha:g}. Differences are paired: both methods saw the same rows. A claim **holds** if the whole interval lies within
the bounds of the column *required*, **fails** if it lies outside, and is **open** if it straddles a bound. The paper
says "about" and "slightly"; the bounds are ours: "about" is {ABOUT:g} on either side. Intervals are for one line each,
not for all of them at once."""


def _run_section(frame: pd.DataFrame) -> str:
    rows = [["data", "n_train", "box", "methods (repetitions)", "time in cells"]]
    for (data, n_train, box), results in frame.groupby(["data", "n_train", "box"]):
        counts = results[results["condition"] == "all"].groupby("method")["repetition"].nunique()
        methods = ", ".join(f"{method} ({count})" for method, count in counts.items())
        rows.append([data, str(n_train), box, methods, as_time(seconds_of(results))])
    versions = "; ".join(sorted({str(text) for text in frame["versions"]})).translate(str.maketrans("", "", '{}"'))
    spent = f"the cells took {as_time(seconds_of(frame))} in all, one worker each (wall-clock time)"
    total = f"{len(frame):,} rows of results; {spent}."
    return f"## What was run\n\n{total} Versions: {versions}.\n\n{_table(rows)}"


def _claims_section(findings: list[Finding]) -> str:
    parts = ["## Claims"]
    if not findings:
        return parts[0] + "\n\nNo claim concerns what was run, or there is one repetition only: an interval needs two."
    for claim, group in groupby(findings, key=lambda finding: finding.claim):
        rows = [["quantity", "mean", "95 % interval", "repetitions", "required", "verdict"]]
        of_claim = list(group)
        for finding in of_claim:
            value = finding.estimate
            interval = f"{value.low:.3f} to {value.high:.3f}"
            mark = _MARKS[finding.verdict]
            rows.append([finding.quantity, f"{value:.3f}", interval, str(value.n), finding.bounds, mark])
        counts = Counter(finding.verdict for finding in of_claim)
        summary = ", ".join(f"{counts[verdict]} {word}" for verdict, word in _COUNTED.items() if counts[verdict])
        parts.append(f"### {claim}\n\n{len(of_claim)} quantities: {summary}.\n\n{_table(rows)}")
    return "\n\n".join(parts)


_NOTHING = "Nothing to compare: it takes two repetitions of Figure 1 at least."
_COUNTED = {"holds": "hold", "fails": "fail", "open": "open"}


def _rerun_section(frame: pd.DataFrame, alpha: float) -> str:
    comparisons = compare_rerun(frame, alpha)
    title = "## Beside a re-run of the authors' code (model 1, n = 1000)"
    if not comparisons:
        return f"{title}\n\n{_NOTHING}"
    rows = [["box", "method", "metric", "theirs", "ours", "difference in standard errors", "agrees"]]
    for one in comparisons:
        numbers = [f"{one.theirs:.3f}", f"{one.ours:.3f}", f"{one.z:+.1f}", "✓" if one.agrees else "✗"]
        rows.append([one.box, one.method, one.metric.replace("_", " "), *numbers])
    agree = sum(one.agrees for one in comparisons)
    summary = f"{agree} of {len(comparisons)} numbers agree within {LARGEST_Z:g} combined standard errors."
    pairs = [["difference, paired over repetitions", "theirs", "ours", "95 % interval", "positive"]]
    for what, theirs, ours, positive in compare_paired(frame, alpha):
        pairs.append([what, theirs, f"{ours:.3f}", f"{ours.low:.3f} to {ours.high:.3f}", f"{positive} of {ours.n}"])
    return f"{title}\n\n{summary}\n\n{_table(rows)}\n\n{_table(pairs)}"


def _notebook_section(frame: pd.DataFrame, alpha: float) -> str:
    comparisons = compare_notebook(frame, alpha)
    title = "## Beside the authors' published notebook (model 1, one fixed beta)"
    if not comparisons:
        return f"{title}\n\n{_NOTHING}"
    same = sum(row[-1] for row in comparisons)
    summary = (
        f"Sizes depend on beta, so only the order is compared: of {len(comparisons)} pairs whose medians clearly "
        f"differ there, {same} are in the same order here."
    )
    others = [f"* {metric}: {one} above {other} there, not here" for metric, one, other, ok in comparisons if not ok]
    return "\n".join([f"{title}\n\n{summary}", *([""] if others else []), *others])


def _table(rows: list[list[str]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body])


_PACKAGES = {"CQC": "torch", "CQC-RF": "quantile_forest"}


def reproduce(
    names: Iterable[str],
    choice: Selection,
    out: Path,
    data: Path | None = None,
    *,
    jobs: int | None = None,
    alpha: float = 0.1,
    seed: int = 0,
    progress: bool = False,
    draw_only: bool = False,
) -> list[Path]:
    """Run the experiments behind figures and tables, write them to a folder, and return what was written.

    Parameters
    ----------
    names : iterable of str
        Keys of ``DESIGNS``, or "all".
    choice : Selection
        Repetitions, and which boxes, methods and sizes.
    out : path
        The folder. Finished cells are kept below it in ``cells``; a restart continues there, and figures, tables and
        claims show every finished cell at this level and seed, of this run or an earlier one.
    data : path, optional
        A folder with the data sets; see :func:`load_data`.
    jobs, progress
        As in :func:`run_tasks`.
    alpha, seed
        Of the sets, and of everything random.
    draw_only : bool, default=False
        Compute nothing: draw what is finished.
    """
    level, start = float(validate.alpha(alpha)), validate.whole(seed, "seed", 0, "a whole number that is not negative")
    designs = designs_of(names)
    check_packages(["matplotlib", "pandas", "pyarrow"], "aptset reproduce")
    cells = cells_of(designs.values(), choice, level, start, data)
    folder = out / "cells"
    if draw_only and not folder.is_dir():
        raise FileNotFoundError(f"{folder} must hold finished results to draw; leave out --draw-only to compute them.")
    if not draw_only:
        check_folder(folder)
        _check_before_the_hours(cells, data)
        run_tasks(cells, folder, jobs, progress)
    frame = as_frame(read_results(folder).values(), level, start)
    if len(frame) == 0:
        raise ValueError(f"{folder} must hold at least one finished result at this alpha and seed; it holds none.")
    write_results(out / "results.parquet", frame, {"alpha": level, "seed": start, "last choice": asdict(choice)})
    written = {name: _show(name, design, frame, level, out) for name, design in designs.items()}
    left_out = [name for name, paths in written.items() if not paths]
    if left_out:
        warn_caller(f"no finished result belongs to {', '.join(left_out)}: nothing is drawn.")
    claims = _write_text(out / "claims.md", claims_page(frame, level))
    return [out / "results.parquet", *(path for paths in written.values() for path in paths), claims]


def _check_before_the_hours(cells: list[Cell], data: Path | None) -> None:
    """Find out now whether a package or a data set is missing; prepared data are then in the cache for the workers."""
    for family in sorted({cell.family for cell in cells} & set(_PACKAGES)):
        others = ",".join(name for name in FAMILY_OF if name != family)
        check_packages([_PACKAGES[family]], family, f", or leave it out: --methods {others}")
    for name in sorted({cell.data for cell in cells} - set(MODELS)):
        load_data(name, data)


def _show(name: str, design: FigureDesign, frame: pd.DataFrame, alpha: float, out: Path) -> list[Path]:
    """Draw a figure or write a table; nothing if no result belongs to it."""
    rows = frame[
        (frame["data"] == design.data)
        & frame["n_train"].isin(design.n_train)
        & frame["box"].isin(design.boxes)
        & frame["method"].isin(design.methods)
    ]
    if rows.empty:
        return []
    lines = listing(design, rows, alpha)
    text = as_markdown(design.title, lines, alpha)
    written = [_write_text(out / f"{name}.md", text), _write_text(out / f"{name}.csv", lines.to_csv(index=False))]
    if not design.is_table:
        paths = [out / f"{name}.png", out / f"{name}.svg"]
        draw_figure(design, rows, alpha, paths)
        written += paths
    return written


def _write_text(path: Path, text: str) -> Path:
    with atomic_write(path) as file:
        file.write(text.encode())
    return path
