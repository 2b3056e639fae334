"""The commands that look at what sets are worth: report, audit, compare. They parse and call, no logic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from aptset.commands.options import (
    ALPHA,
    AS_JSON,
    CALIBRATIONS,
    JOBS,
    MODEL,
    QUIET,
    ROW_ID,
    SEED,
    TRUST,
    files_read,
    show,
    source_of,
    workers,
)

OF_TABLES = {"model": "--model", "target": "--target", "jobs": "--jobs"}
OF_EITHER = {"calibration": "-c", "groups": "--groups", "row_id": "--id"}
OF_PROBABILITIES = {
    "label": "--label",
    "prefix": "--prefix",
    "logits": "--logits",
    "normalize": "--normalize",
    "trust": "--trust",
}


def _refuse_what_does_not_fit(probs: str | None, options: dict[str, Any]) -> None:
    """Refuse options that would be ignored: those of another kind of FILE, or of any FILE without one."""
    ctx = click.get_current_context()
    given = {name for name in options if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    of_table = [OF_TABLES[name] for name in OF_TABLES if name in given]
    of_probabilities = [OF_PROBABILITIES[name] for name in OF_PROBABILITIES if name in given]
    of_either = [OF_EITHER[name] for name in OF_EITHER if name in given]
    if probs is None and (too_much := [*of_table, *of_probabilities, *of_either]):
        raise click.UsageError(f"{too_much[0]} needs a FILE; without one the report is about embedded data.")
    if options["target"] is not None and of_probabilities:
        raise click.UsageError(f"{of_probabilities[0]} is for a FILE of probabilities; with --target it is a table.")
    if options["target"] is None and options["label"] is not None:
        if of_table:
            raise click.UsageError(f"{of_table[0]} is for a table with --target; with --label FILE has probabilities.")
        if "calibration" not in given:
            raise click.UsageError("--label needs -c ARTEFACT, a calibration that `aptset calibrate` wrote.")


@click.command()
@click.argument("probs", metavar="[FILE]", required=False)
@click.option("--target", help="FILE is a table: train and calibrate on it, with this column to predict.")
@click.option("-c", "--calibration", default="split", help="With --target its name; else an artefact of `calibrate`.")
@click.option("--label", help="FILE holds probabilities: the column (or array, or .npy file) of true labels.")
@MODEL
@click.option("--prefix", help="Columns of probabilities start with this; by default all columns of numbers.")
@click.option("--logits", is_flag=True, help="The numbers are logits, not probabilities.")
@click.option("--normalize", is_flag=True, help="Divide each row by its sum.")
@TRUST
@ROW_ID
@ALPHA
@click.option("--groups", help="A column to calibrate within and to break down by (or 'label', with --target).")
@click.option("--title", help="The heading of the page.")
@click.option("-o", "--out", default="report.html", show_default=True, help="The page to write.")
@JOBS
@SEED
@QUIET
@AS_JSON
def report(probs: str | None, out: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Write one HTML page that shows what prediction sets are worth, and works offline.

    \b
    Examples:
      aptset report                                  # on embedded data
      aptset report patients.csv --target diagnosis --model forest
      aptset report test.parquet --label y --prefix p_ -c cal.aptset
    """
    _refuse_what_does_not_fit(probs, options)
    from aptset.commands import report_jobs as reportjob
    from aptset.commands.probability_jobs import evaluation_as_json, load_artefact
    from aptset.commands.standard_input import as_path
    from aptset.validation.paths import check_other_files

    page, title, alpha = Path(out), options["title"], options["alpha"]
    check_other_files([page], [*files_read({"probs": probs}, options["label"]), options["calibration"]])
    if probs is None:
        made = reportjob.report_demo(alpha, options["seed"], page, title)
    elif options["target"] is not None:
        names = ("model", "calibration", "alpha", "groups", "seed", "jobs", "row_id")
        settings = {name: options[name] for name in names}
        made = reportjob.report_table(as_path(probs), options["target"], page, title, **settings)
    elif options["label"] is not None:
        source = source_of({**options, "probs": probs, "batch_rows": 65_536}, options["label"])
        calibration = load_artefact(Path(options["calibration"]), options["trust"])
        made = reportjob.report_probabilities(source, calibration, alpha, page, title, options["normalize"])
    else:
        raise click.UsageError("FILE needs --target COLUMN (a table), or --label COLUMN with -c ARTEFACT.")
    show(evaluation_as_json(made.evaluation, out=out), f"{made.evaluation!r}\n\nWritten: {out}", quiet, as_json)


SPLITTING = [
    click.option("--target", required=True, help="The column to predict."),
    ALPHA,
    click.option("--repetitions", default=100, show_default=True, help="Number of random splits."),
    click.option("--test-share", default=0.3, show_default=True, help="Share of the rows that test."),
    click.option("--groups", help="A column to break coverage and size down by, besides the labels."),
    click.option(
        "--jobs", default=-1, callback=workers, show_default=True, help="Worker processes; -1 for one per core."
    ),
    SEED,
    QUIET,
    AS_JSON,
]


def with_splits(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that split a table again and again."""
    for option in reversed(SPLITTING):
        command = option(command)
    return command


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run over many splits."""
    names = {"alpha": "alpha", "repetitions": "repetitions", "test_share": "test_share", "jobs": "n_jobs"}
    found = {name: options[option] for option, name in names.items()}
    return {**found, "random_state": options["seed"], "progress": not options["quiet"]}


@click.command()
@click.argument("table")
@MODEL
@click.option(
    "--calibration", "calibrations", multiple=True, default=["split", "cv+"], show_default=True, type=CALIBRATIONS
)
@click.option("--time", help="A column that says when a row was taken; by default the order of the rows.")
@click.option("-o", "--out", default="aptset-audit", show_default=True, help="Folder for the results.")
@with_splits
def audit(table: str, out: str, model: str, calibrations: tuple[str, ...], time: str | None, **options: Any) -> None:
    """Split TABLE at random again and again: is the promise kept, and do the rows look exchangeable?

    A run can be stopped at any moment; the same command goes on where it was.

    \b
    Example:
      aptset audit patients.csv --target diagnosis --model forest --time admitted
    """
    from aptset.commands.audit_jobs import audit_table, verdicts_as_json
    from aptset.commands.standard_input import as_path

    target, groups = options["target"], options["groups"]
    settings = settings_of(options)
    found, written = audit_table(as_path(table), target, model, calibrations, groups, time, Path(out), **settings)
    content = {"verdicts": verdicts_as_json(found), "drift": found.drift.warning, "out": out, "written": written}
    show(content, f"{found!r}\n\nWritten to {out}: {', '.join(written)}", options["quiet"], options["as_json"])


@click.command()
@click.argument("table")
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    help="A model by name, or module:object, which RUNS that module's code; at least two.",
)
@click.option("--calibration", default="split", show_default=True, type=CALIBRATIONS, help="The same for every model.")
@click.option("-o", "--out", default="aptset-compare", show_default=True, help="Folder for the results.")
@with_splits
def compare(table: str, out: str, models: tuple[str, ...], calibration: str, **options: Any) -> None:
    """Compare models by the size and coverage of their sets, on the same random splits of TABLE.

    \b
    Example:
      aptset compare patients.csv --target diagnosis --model logistic --model forest
    """
    from aptset.commands.audit_jobs import compare_table, verdicts_as_json
    from aptset.commands.standard_input import as_path

    target, groups = options["target"], options["groups"]
    settings = settings_of(options)
    found, written = compare_table(as_path(table), target, models, calibration, groups, Path(out), **settings)
    content = {"ranking": found.ranking, "sentences": found.sentences(), "verdicts": verdicts_as_json(found)}
    text = f"{found!r}\n\nWritten to {out}: {', '.join(written)}"
    show({**content, "out": out, "written": written}, text, options["quiet"], options["as_json"])


COMMANDS = [report, audit, compare]
