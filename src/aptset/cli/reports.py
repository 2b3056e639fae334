"""The commands that look at what sets are worth: report, audit, compare. They parse and call, no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aptset.cli.inputs import TableOptions, artefact_of, open_only, open_table, sources_of
from aptset.cli.options import (
    ALPHAS,
    AS_JSON,
    ASSURANCE,
    BANDS,
    CALIBRATIONS,
    CLUSTER,
    COLUMNS,
    CONFORMITY,
    DIALECT,
    JOBS,
    LEVEL,
    MODEL,
    MODEL_HELP,
    NO_EMPTY,
    QUIET,
    RANDOMIZED,
    ROW_ID,
    SEED,
    SHARE,
    TEST_SHARE,
    TRUST,
    WEIGHTS,
    assurance_of,
    choice_of,
    given,
    is_given,
    only_one,
    show,
    with_options,
    workers,
)

OF_TABLES = ("model", "test_share", "target", "jobs", "bands", "counts", "allow_empty", "order")
OF_EITHER = ("calibration", "groups", "row_id", "cluster", "assurance", "taxonomy")
OF_PROBABILITIES = ("label", "prefix", "logits", "normalize", "trust", "weights")
EXTRA_METRICS = click.option(
    "--extra-metric",
    "extra_metrics",
    metavar="NAME",
    multiple=True,
    help="A metric that takes a model of its own: coverage_unevenness.",
)


def _refuse_what_does_not_fit(probs: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse options that would be ignored: those of another kind of FILE, or of any FILE without one."""
    of_table, of_probabilities = given(OF_TABLES), given(OF_PROBABILITIES)
    if not probs and (too_much := [*of_table, *of_probabilities, *given(OF_EITHER)]):
        raise click.UsageError(f"{too_much[0]} needs a FILE; without one the report uses embedded example data.")
    if options["target"] is not None and of_probabilities:
        raise click.UsageError(f"{of_probabilities[0]} is for a FILE of probabilities; with --target it is a table.")
    if options["target"] is None and options["label"] is not None:
        if of_table:
            raise click.UsageError(f"{of_table[0]} is for a table with --target; with --label FILE has probabilities.")
        if not is_given("calibration"):
            raise click.UsageError("--label needs -c ARTEFACT, a calibration that `aptset calibrate` wrote.")


@click.command()
@click.argument("probs", metavar="[FILE]...", nargs=-1)
@click.option("--target", help="FILE is a table: train and calibrate on it, with this column to predict.")
@click.option("-c", "--calibration", default="split", help="With --target its name; else an artefact, or a folder.")
@click.option("--label", help="FILE holds probabilities: the column (or array, or .npy file) of true labels.")
@MODEL
@click.option("--prefix", help="Columns of probabilities start with this; by default all columns of numbers.")
@click.option("--logits", is_flag=True, help="The numbers are logits, not probabilities.")
@click.option("--normalize", is_flag=True, help="Divide each row by its sum.")
@with_options([WEIGHTS, CLUSTER, ROW_ID])
@with_options([TEST_SHARE, SHARE, CONFORMITY, ALPHAS, LEVEL, *ASSURANCE, RANDOMIZED, NO_EMPTY])
@click.option("--groups", help="A column to calibrate within and to break down by (or 'label', with --target).")
@with_options(BANDS)
@with_options([*COLUMNS, *DIALECT, TRUST])
@click.option(
    "--taxonomy", metavar="FILE", help="A tree of labels: a table or JSON of label and parent, or a column of paths."
)
@EXTRA_METRICS
@click.option("--title", help="The heading of the page.")
@click.option("-o", "--out", default="report.html", show_default=True, help="The page to write.")
@JOBS
@SEED
@QUIET
@AS_JSON
def report(probs: tuple[str, ...], out: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Write one HTML page about coverage and size of prediction sets; it works offline.

    \b
    Examples:
      aptset report                                  # on embedded data
      aptset report patients.csv --target diagnosis --model forest
      aptset report new.csv -c results               # labelled rows, and the folder of `aptset run`
      aptset report test.parquet --label y --prefix p_ -c cal.aptset   # or test/, 'test/*.parquet', s3://...
    """
    _refuse_what_does_not_fit(probs, options)
    from aptset.cli import report_jobs as jobs
    from aptset.cli.artefacts import load_artefact
    from aptset.cli.inputs import read_taxonomy
    from aptset.cli.table_jobs import Settings
    from aptset.cli.writing import evaluation_as_json, evaluations_as_json
    from aptset.core.files import check_other_files

    page, calibration, how = Path(out), options["calibration"], TableOptions(options["sep"], options["encoding"], quiet)
    check_other_files([page], [*probs, options["label"], calibration])
    tree = None if options["taxonomy"] is None else read_taxonomy(options["taxonomy"], quiet)
    of_page = {"title": options["title"], "extra_metrics": options["extra_metrics"], "progress": not quiet}
    of_page |= {"taxonomy": tree, "assurance": None if options["target"] else assurance_of(options)}
    if not probs:
        made = jobs.report_demo(only_one(options["alphas"]), options["seed"], page, of_page)
    elif options["target"] is not None:
        table, settings = open_only(probs, how), Settings.of(options, quiet)
        result = jobs.report_table(table, options["target"], page, settings, of_page)
        content = evaluations_as_json(result.evaluations, out=out)
        show(content, f"{result.text()}\n\nWritten: {out}", quiet, as_json)
        return
    elif is_given("calibration") and (artefact := artefact_of(calibration)).is_dir():
        alpha = options["alphas"][0] if is_given("alphas") else None
        table = open_only(probs, how._replace(folder=artefact))
        made = jobs.report_folder(table, artefact, alpha, page, options, of_page)
    elif options["label"] is not None:
        options |= {"probs": probs, "batch_rows": 65_536}
        sources, one = sources_of(options, options["label"], quiet)
        of_page["progress"] = one is not None and not quiet
        loaded = load_artefact(artefact_of(calibration), options["trust"])
        made = jobs.report_probabilities(sources, one, loaded, page, options, of_page)
    else:
        raise click.UsageError("FILE needs --target COLUMN (a table), -c FOLDER, or --label COLUMN with -c ARTEFACT.")
    show(evaluation_as_json(made.evaluation, out=out), f"{made.evaluation!r}\n\nWritten: {out}", quiet, as_json)


SPLITTING = [
    click.option("--target", help="The column to predict."),
    *COLUMNS,
    *DIALECT,
    TRUST,
    ALPHAS,
    LEVEL,
    click.option("--repetitions", default=100, show_default=True, help="Number of random splits."),
    TEST_SHARE,
    click.option("--groups", help="A column to break coverage and size down by, besides the labels."),
    CLUSTER,
    EXTRA_METRICS,
    click.option(
        "--jobs", default=-1, callback=workers, show_default=True, help="Worker processes; -1 for one per core."
    ),
    SEED,
    QUIET,
    AS_JSON,
]
with_splits = with_options(SPLITTING)


def folder_of(out: str, alpha: float, alphas: tuple[float, ...]) -> Path:
    """Return where the results of a level go: a folder of its own where there are several."""
    if len(alphas) == 1:
        return Path(out)
    is_short = len({f"{level:g}" for level in alphas}) == len(set(alphas))
    return Path(out) / (f"alpha-{alpha:g}" if is_short else f"alpha-{alpha!r}")


def show_levels(alphas: tuple[float, ...], levels: list[tuple[dict[str, Any], str]], options: Any) -> None:
    """Print the results of one level, or of several."""
    contents, texts = zip(*levels, strict=True)
    content = contents[0] if len(contents) == 1 else {"levels": dict(zip(map(str, alphas), contents, strict=True))}
    show(content, "\n\n".join(texts), options["quiet"], options["as_json"])


@click.command()
@click.argument("table")
@MODEL
@click.option(
    "--calibration", "calibrations", multiple=True, default=["split", "cv+"], show_default=True, type=CALIBRATIONS
)
@with_options([CONFORMITY, RANDOMIZED])
@click.option("-c", "folder", metavar="FOLDER", help="The folder of `aptset run`: its model, columns and settings.")
@click.option("--time", help="A column that says when a row was taken; by default the order of the rows.")
@click.option("-o", "--out", default="aptset-audit", show_default=True, help="Folder for the results.")
@with_splits
def audit(table: str, out: str, folder: str | None, alphas: tuple[float, ...], **options: Any) -> None:
    """Check the coverage guarantee on many random splits of TABLE, and look for distribution shift along its rows.

    A run can be stopped at any moment; the same command goes on where it was.

    \b
    Example:
      aptset audit patients.csv --target diagnosis --model forest --time admitted
      aptset audit labelled.csv -c results
    """
    from aptset.cli.report_jobs import audit_table

    run = None if folder is None else artefact_of(folder)
    if (run is None) == (options["target"] is None):
        raise click.UsageError("TABLE needs --target COLUMN, the column to predict, or -c FOLDER, which knows it.")
    file = open_table(table, TableOptions(options["sep"], options["encoding"], options["quiet"], run))
    choice, levels = choice_of(options), []
    for alpha in alphas:
        results = folder_of(out, alpha, alphas)
        asked = None if run is not None and not is_given("alphas") else alpha
        levels.append(audit_table(file, run, asked, results, choice, options))
    show_levels(alphas, levels, options)


@click.command()
@click.argument("table")
@click.option("--model", "models", multiple=True, default=["logistic"], show_default=True, help=MODEL_HELP)
@click.option("--calibration", "calibrations", multiple=True, default=["split"], show_default=True, type=CALIBRATIONS)
@click.option(
    "--conformity", "conformities", multiple=True, default=["adaptive"], show_default=True, help="Scores to compare."
)
@click.option("--share", "shares", multiple=True, type=float, help="Shares of the rows that calibrate in a split.")
@click.option("--randomized", type=click.Choice(["yes", "no", "both"]), default="yes", show_default=True)
@click.option("-o", "--out", default="aptset-compare", show_default=True, help="Folder for the results.")
@with_splits
def compare(table: str, out: str, alphas: tuple[float, ...], **options: Any) -> None:
    """Compare models and settings by the size and coverage of their sets, on the same random splits of TABLE.

    Every option that is given several times is compared: all combinations, at least two. One is recommended.

    \b
    Examples:
      aptset compare patients.csv --target diagnosis --model logistic --model forest
      aptset compare patients.csv --target diagnosis --conformity adaptive --conformity raps --randomized both
      aptset compare patients.csv --target diagnosis --share 0.3 --share 0.5 --calibration split --calibration cv+
    """
    from aptset.cli.report_jobs import Alternatives, compare_table

    if options["target"] is None:
        raise click.UsageError("TABLE needs --target COLUMN, the column to predict.")

    names = ("models", "calibrations", "conformities", "shares", "level")
    randomized = {"yes": (True,), "no": (False,), "both": (True, False)}[options["randomized"]]
    alternatives = Alternatives(**{name: options[name] for name in names}, randomized=randomized)
    if len(alternatives.names()) < 2:
        raise click.UsageError(
            "compare needs two candidates: give --model, --conformity, --calibration or --share twice, or --randomized "
            "both. For one alone there is `aptset audit`."
        )
    file = open_table(table, TableOptions(options["sep"], options["encoding"], options["quiet"]))
    choice, levels = choice_of(options), []
    for alpha in alphas:
        folder = folder_of(out, alpha, alphas)
        levels.append(compare_table(file, alternatives, alpha, folder, choice, options))
    show_levels(alphas, levels, options)


COMMANDS = [report, audit, compare]
