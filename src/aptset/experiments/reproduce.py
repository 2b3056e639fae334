"""One command for the paper's figures and tables: runs what is missing, then draws, tabulates and checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from aptset.core.files import atomic_write
from aptset.core.runner import check_folder, read_results, run_tasks
from aptset.core.validate import check_alpha
from aptset.experiments.baselines.network import check_packages
from aptset.experiments.cells import FAMILY_OF, Cell
from aptset.experiments.checks import (
    check_finished_folder,
    check_seed,
    check_some_finished,
    warn_left_out,
)
from aptset.experiments.datasets import load_data
from aptset.experiments.designs import Choice, Design, cells_of, designs_of
from aptset.experiments.figures import draw_figure
from aptset.experiments.listings import as_markdown, listing
from aptset.experiments.models import MODELS
from aptset.experiments.pages import as_frame, claims_page, write_results

if TYPE_CHECKING:
    import pandas as pd

_PACKAGES = {"CQC": "torch", "CQC-RF": "quantile_forest"}


def reproduce(
    names: Iterable[str],
    choice: Choice,
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
    choice : Choice
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
    level, start = float(check_alpha(alpha)), check_seed(seed)
    designs = designs_of(names)
    check_packages(["matplotlib", "pandas", "pyarrow"], "aptset reproduce")
    cells = cells_of(designs.values(), choice, level, start, data)
    folder = out / "cells"
    if draw_only:
        check_finished_folder(folder)
    else:
        check_folder(folder)
        _check_before_the_hours(cells, data)
        run_tasks(cells, folder, jobs, progress)
    frame = as_frame(read_results(folder).values(), level, start)
    check_some_finished(len(frame), folder)
    write_results(out / "results.parquet", frame, {"alpha": level, "seed": start, "last choice": asdict(choice)})
    written = {name: _show(name, design, frame, level, out) for name, design in designs.items()}
    warn_left_out([name for name, paths in written.items() if not paths])
    claims = _write_text(out / "claims.md", claims_page(frame, level))
    return [out / "results.parquet", *(path for paths in written.values() for path in paths), claims]


def _check_before_the_hours(cells: list[Cell], data: Path | None) -> None:
    """Find out now whether a package or a data set is missing; prepared data are then in the cache for the workers."""
    for family in sorted({cell.family for cell in cells} & set(_PACKAGES)):
        others = ",".join(name for name in FAMILY_OF if name != family)
        check_packages([_PACKAGES[family]], family, f", or leave it out: --methods {others}")
    for name in sorted({cell.data for cell in cells} - set(MODELS)):
        load_data(name, data)


def _show(name: str, design: Design, frame: pd.DataFrame, alpha: float, out: Path) -> list[Path]:
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
