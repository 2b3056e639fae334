"""The commands that look at what became of sets: evaluate, monitor, serve. They parse and call, no logic."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from aptset.cli.inputs import (
    TableOptions,
    artefact_of,
    is_called,
    is_one_file,
    open_only,
    open_table,
    parts_of,
)
from aptset.cli.options import (
    ALPHA,
    AS_JSON,
    DATES,
    DIALECT,
    ERRORS,
    QUIET,
    SKIP_UNLABELLED,
    TRUST,
    LevelType,
    is_given,
    show,
    together,
    with_options,
)

ALARMED = 3  # the exit status that tells an alarm from an error


@click.command()
@click.argument("sets", nargs=-1, required=True)
@click.option("--label", help="The column of true labels; with the folder of `aptset run` its target by default.")
@click.option("-c", "--calibration", help="The folder of `aptset run`: SETS may be raw rows with their labels then.")
@click.option(
    "--alpha",
    "alphas",
    multiple=True,
    type=LevelType(),
    callback=together,
    help="The level of the sets, as a reference; or of each label or group: --alpha malignant=0.01 --alpha benign=0.1.",
)
@click.option("--groups", help="A column to break coverage and size down by.")
@SKIP_UNLABELLED
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def evaluate(
    sets: tuple[str, ...],
    label: str | None,
    calibration: str | None,
    alphas: tuple[Any, ...],
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the sets in a file, or in many (files, folders, globs, URLs), with the true labels in it.

    \b
    Examples:
      aptset evaluate sets.parquet --label y --alpha 0.1
      aptset evaluate sets/ --label y --groups region
      aptset evaluate labelled.csv -c results
    """
    from aptset.cli.evaluation_jobs import evaluate_files
    from aptset.cli.writing import evaluation_as_json

    if len(alphas) > 1:
        raise click.UsageError("--alpha must be one level here, the level of the sets that are judged; got several.")
    alpha = alphas[0] if alphas else None
    classes, how = None, TableOptions(options["sep"], options["encoding"], quiet)
    if calibration is not None:
        from aptset.cli.artefacts import classes_of, settings_of_run
        from aptset.cli.raw_rows import evaluate_folder, has_sets

        folder = artefact_of(calibration)
        if folder.is_dir():
            how = how._replace(folder=folder)
            file = open_only(sets, how)
            label = label or settings_of_run(folder).target
            if not has_sets(file):
                asked = (alpha, options["trust"], options["skip_unlabelled"])
                evaluation = evaluate_folder(file, folder, *asked)
                show(evaluation_as_json(evaluation), repr(evaluation), quiet, as_json)
                return
        classes = classes_of(folder, options["trust"])
    if label is None:
        raise click.UsageError("SETS need --label COLUMN, the true labels, or -c FOLDER, which knows the column.")
    is_one = is_one_file(sets)
    files = [open_table(sets[0], how)] if is_one else parts_of(sets, how).files()
    skipped = list[int]() if options["skip_unlabelled"] else None
    evaluation = evaluate_files(files, label, alpha, options["groups"], is_one and not quiet, skipped, classes)
    show(evaluation_as_json(evaluation), repr(evaluation), quiet, as_json)


@click.command()
@click.argument("sets")
@click.option("--label", help="The column of true labels; with the folder of `aptset run` its target by default.")
@click.option("-c", "--calibration", required=True, help="The artefact, or the folder of `aptset run`, of the sets.")
@ALPHA
@click.option("--groups", help="The column of groups, if the calibration was done by group.")
@click.option("--alarm", default=100.0, show_default=True, help="Evidence that raises the alarm.")
@click.option("--state", help="A file that keeps what was seen: the next call continues after it.")
@click.option(
    "--order", help="The column with the number of each prediction: 0, 1, 2, ...; else their order is the file's."
)
@click.option("--time", help="The column that says when each prediction was made, to judge rows in that order.")
@DATES
@click.option("--mature", help="How long to wait for a missing label: 500 (predictions), 30d, 12h.")
@click.option("--rotated", is_flag=True, help="SETS is a new log in place of the one before: all its rows are new.")
@SKIP_UNLABELLED
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def monitor(
    sets: str,
    label: str | None,
    calibration: str,
    alpha: float,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Watch whether sets still cover 1 - alpha of the rows, in a file of outcomes that grows.

    SETS is a file that `aptset predict` wrote, with the true labels; with the folder of `aptset run` it may hold raw
    rows with their labels.

    Rows are judged in the order of prediction: the order of the file, or of the column that --order or --time names.
    (In the order in which labels become known there would be false alarms, if wrong guesses are labelled sooner.) With
    --mature labels may be missing. A row then waits for all earlier rows, and a row whose label does not come in time
    never raises the evidence. With --time and without --order, the label of every row must come within --mature.

    The exit status is 3 after an alarm, at this row or at an earlier one. If nothing has changed since calibration, at
    most 1 of --alarm deployments ever has an alarm, however often the command is run.

    With --state the file must begin with the rows that were seen before; the rows after them are new. If the log was
    rotated, pass --rotated once, or the folder of all logs.

    \b
    Examples:
      aptset monitor outcomes.csv --label y -c cal.aptset --state monitor.aptset
      aptset monitor outcomes.csv --label y -c cal.aptset --state monitor.aptset --rotated
      aptset monitor outcomes.csv --label y -c cal.aptset --time asked --mature 30d
      aptset monitor labelled.csv -c results     # raw rows with labels, or the sets that `aptset predict` made of them
    """
    from aptset.cli.artefacts import digest_of, load_artefact
    from aptset.cli.monitor_jobs import monitor_file
    from aptset.core.files import check_other_files

    if options["rotated"] and options["state"] is None:
        raise click.UsageError("--rotated needs --state FILE, the state of the logs before this one.")
    if options["skip_unlabelled"] and (options["state"] is not None or options["mature"] is not None):
        raise click.UsageError(
            "--skip-unlabelled cannot be given with --state or --mature, where rows wait for their labels. "
            "Pass --mature, which says how long, without --skip-unlabelled."
        )
    state = None if options["state"] is None else Path(options["state"])
    check_other_files([] if state is None else [state], [sets, calibration])
    artefact = artefact_of(calibration)
    if artefact.is_dir():
        from aptset.cli.artefacts import settings_of_run

        of_run = settings_of_run(artefact)
        label, alpha = label or of_run.target, alpha if is_given("alpha") else of_run.alpha
        options["groups"] = options["groups"] or of_run.groups
    if label is None:
        raise click.UsageError("SETS need --label COLUMN, the true labels.")
    how = TableOptions(options["sep"], options["encoding"], quiet, artefact, is_growing=state is not None)
    file = open_table(sets, how)
    if artefact.is_dir():
        from aptset.cli.raw_rows import with_sets

        file = with_sets(file, artefact, label, alpha, options["groups"], options["trust"], not quiet)
        is_called(file.path, sets)
    made = load_artefact(artefact, options["trust"])
    monitored, notes = monitor_file(file, label, made, alpha, digest_of(artefact), state, not quiet, options)
    facts = {name: getattr(monitored, name) for name in ("rows", "misses", "alarmed_at")}
    facts |= {"mature": options["mature"], "waiting": monitored.n_waiting, "unlabelled": monitored.unlabelled}
    facts |= {"ignored": monitored.ignored, "log_evidence": monitored.log_evidence}
    show({**monitored.settings, **facts}, " ".join([monitored.sentence(), *notes]), quiet, as_json)
    if monitored.alarmed:
        sys.exit(ALARMED)


def _time(option: str, text: str | None) -> timedelta | None:
    from aptset.cli.options import check_mature_text

    parsed = None if text is None else check_mature_text(text)
    if isinstance(parsed, int):
        raise click.UsageError(f"{option} must be a time such as 90d; got {text!r}.")
    return parsed


@click.command()
@click.argument("folder")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; this machine alone.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes any free port.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="Processes.")
@click.option(
    "--u",
    "source",
    default="id",
    show_default=True,
    type=click.Choice(["id", "content", "fresh"]),
    help="What the randomness of a set comes from; rows without an id of the client are fresh.",
)
@click.option("--alpha", type=float, help="The level of the sets and of the monitor; that of the folder by default.")
@ERRORS
@click.option("--assurance", default=0.9, show_default=True, help="The confidence that the error is kept.")
@click.option("--feedback", metavar="FILE", help="SQLite file of rows and labels; FOLDER.feedback.sqlite by default.")
@click.option(
    "--mature",
    default="30d",
    show_default=True,
    help="How long a label is waited for: 30d, 12h, or a number of predictions; 'never' gives none up.",
)
@click.option("--alarm", default=100.0, show_default=True, help="False alarms in 1 of so many deployments at most.")
@click.option("--keep", metavar="TIME", help="Forget rows this long after they were asked (90d); by default never.")
@click.option("--max-bytes", default=10 * 2**20, show_default=True, type=click.IntRange(1), help="Of a request.")
@click.option("--max-rows", default=10_000, show_default=True, type=click.IntRange(1), help="Of a request.")
@click.option("--timeout", default=30.0, show_default=True, help="Seconds for the body, and for the answer.")
@click.option(
    "--queue",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Requests that may wait in a worker.",
)
@click.option("--watch", default=1.0, show_default=True, help="Seconds between looks at the folder; 0: SIGHUP alone.")
@click.option("--token-file", metavar="FILE", help="Ask for the bearer token in this file.")
@TRUST
def serve(folder: str, source: str, errors: tuple[str, ...], **options: Any) -> None:
    """Answer rows with prediction sets over HTTP, and watch whether they cover as promised.

    FOLDER is that of `aptset run`, or of classifier.save in Python. POST /v1/sets answers rows, POST /v1/feedback takes
    their true labels, and the page at / shows whether the promise is kept.

    \b
    Examples:
      aptset serve results
      curl localhost:8000/v1/sets -H 'content-type: application/json' -d '{"rows": [{"id": "a", "age": 50}]}'
      curl localhost:8000/v1/feedback -H 'content-type: application/json' -d '{"id": "a", "label": "ill"}'
    """
    from aptset.cli.options import check_mature_text, errors_of
    from aptset.cli.raw_rows import load_any
    from aptset.serve import Choice, ServiceSettings, run
    from aptset.serve.application import feedback_file

    path = artefact_of(folder)
    token = options["token_file"]
    choice = Choice(
        path.resolve(),
        options["trust"],
        source,
        options["alpha"],
        errors_of(errors),
        options["assurance"],
        options["max_rows"],
        load_any,
    )
    settings = ServiceSettings(
        choice,
        feedback_file(path, options["feedback"]),
        None if options["mature"] == "never" else check_mature_text(options["mature"]),
        options["alarm"],
        _time("--keep", options["keep"]),
        options["max_bytes"],
        options["timeout"],
        options["queue"],
        options["watch"],
        None if token is None else Path(token),
        host=options["host"],
        port=options["port"],
        workers=options["workers"],
    )
    sys.exit(run(settings))


COMMANDS = [evaluate, monitor, serve]
