"""The commands from probabilities to sets, and what they are worth: calibrate, predict, evaluate, monitor. No logic."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from aptset.cli.inputs import (
    artefact_of,
    files_read,
    goes_to_folder,
    is_one_file,
    open_table,
    parts_of,
    sources_of,
    target_of,
)
from aptset.cli.options import (
    ALPHA,
    ALPHAS,
    AS_JSON,
    BANDS,
    CLUSTER,
    CONFORMITY,
    DIALECT,
    FRESH_U,
    QUIET,
    SEEDS,
    TRUST,
    WEIGHTS,
    is_given,
    refuse_other_options,
    show,
    with_options,
    with_probabilities,
)

ALARMED = 3  # the exit status that tells an alarm from an error


@click.command()
@with_probabilities
@click.option("--label", required=True, help="The column (or array, or .npy file) of true labels.")
@click.option("-o", "--out", required=True, help="The artefact to write.")
@CONFORMITY
@click.option("--groups", help="Calibrate within 'label' or within the values of a column.")
@with_options(BANDS)
@with_options([WEIGHTS, CLUSTER])
@click.option("--deterministic", is_flag=True, help="u = 1: chance only orders equal probabilities.")
@click.option("--seed", default=0, type=SEEDS, show_default=True, help="Seed of the key of the uniforms.")
@QUIET
@AS_JSON
def calibrate(label: str, out: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Calibrate on a file of probabilities and labels, or on many; write an artefact.

    PROBS are files, folders, globs or URLs (s3://, gs://, ...) of parquet, CSV, Arrow, npz or npy. What folders say
    (region=north) is a column, too.

    \b
    Examples:
      aptset calibrate validation.parquet --label y --prefix p_ -o cal.aptset
      aptset calibrate s3://bucket/validation/ --label y --groups region -o s3://bucket/cal.aptset
      aptset calibrate validation.parquet --label y --bands 4 --counts training_counts.csv -o cal.aptset
      aptset calibrate validation.csv --label y --weights ratio -o cal.aptset
      aptset calibrate validation.csv --label y --cluster patient -o cal.aptset
    """
    from aptset.cli.label_tables import label_settings
    from aptset.cli.probability_jobs import calibrate_files
    from aptset.conformal.importance import effective_in_words
    from aptset.core.files import check_other_files
    from aptset.core.runner import counting

    check_other_files([Path(out)], files_read(options, label))
    sources, one = sources_of(options, label, quiet)
    conformity, bands = label_settings(options, quiet, one and one.file.rows)
    settings = {"conformity": conformity, "normalize": options["normalize"]}
    settings |= {"randomized": not options["deterministic"], "random_state": options["seed"]}
    with counting(one and one.file.rows, "rows", one is not None and not quiet) as counter:
        calibration = calibrate_files(sources, counter, bands or (options["groups"] == "label" and "label"), **settings)
    with target_of(out) as target:
        calibration.save(target)
    content, size = (
        {"n": calibration.n, "classes": len(calibration.classes), "out": out},
        effective_in_words(calibration.held_out),
    )
    if size:
        content["effective_size"] = float(calibration.held_out.effective_sizes.min())
    rows = f"{calibration.rows:,} rows" + (f" ({size} effective)" if size else "")
    if calibration.held_out.clusters is not None:
        content |= {"rows": calibration.rows, "promise_about": calibration.held_out.clusters.about}
        rows += f" of {calibration.n:,} {calibration.held_out.clusters.nouns}"
    show(content, f"Calibrated on {rows}, {len(calibration.classes)} classes: {out}", quiet, as_json)


@click.command()
@with_probabilities
@click.option("-c", "--calibration", required=True, help="The folder of `aptset run`, or the artefact of `calibrate`.")
@click.option(
    "-o",
    "--out",
    required=True,
    help="The sets: .parquet, .csv with labels joined by |, or - for CSV; or a folder, with a file for each of PROBS.",
)
@ALPHAS
@click.option("--groups", help="The column of groups, if calibration was done by one.")
@WEIGHTS
@click.option("--label", help="A column of numbers that holds the true labels, not probabilities.")
@FRESH_U
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def predict(
    calibration: str, out: str, alphas: tuple[float, ...], label: str | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Write the prediction set of every row; all other columns travel along.

    With the folder of `aptset run` the file holds raw rows, with an artefact of `aptset calibrate` probabilities.
    Files, folders, globs and URLs (s3://, gs://, ...) of many parts go to a folder, one file each. A run can be stopped
    at any moment; the same command goes on where it was.

    \b
    Examples:
      aptset predict new.csv -c results -o sets.csv
      aptset predict new.parquet -c cal.aptset -o sets.parquet --alpha 0.1 --prefix p_
      aptset predict 's3://bucket/scores/*.parquet' -c cal.aptset -o s3://bucket/sets/ --prefix p_
    """
    from aptset.cli.probability_jobs import load_artefact, predict_file
    from aptset.core.files import check_other_files
    from aptset.core.runner import counting

    artefact = artefact_of(calibration)
    is_run = artefact.is_dir()
    refuse_other_options(is_run)
    if options["u"] is not None and is_given("row_id"):
        raise click.UsageError("--u fresh and --id exclude each other: with an id the chance of a row comes from it.")
    asked = alphas if not is_run or is_given("alphas") else None
    if goes_to_folder(options["probs"], out):
        from aptset.cli.many_files import predict_parts

        done = predict_parts(artefact, out, asked, label, quiet, options)
        show({**done, "out": out}, in_words(done, out), quiet, as_json)
        return
    with to_standard_output(out) as target:
        check_other_files([target], [*files_read(options, label), calibration])
        if is_run:
            from aptset.cli.prediction_jobs import predict_rows  # loads scikit-learn, as models do

            file = open_table(options["probs"][0], options["sep"], options["encoding"], quiet)
            names = {name: options[name] for name in ("row_id", "groups", "trust", "batch_rows", "u")}
            done = predict_rows(file, artefact, asked, target, **names, progress=not quiet)
        else:
            _, source = sources_of(options, label, quiet)
            loaded = load_artefact(artefact, options["trust"])
            with counting(source.file.rows, "rows", not quiet) as counter:
                done = predict_file(source, loaded, alphas, target, counter, options["normalize"], options["u"])
    done["out"] = out
    show(done, in_words(done, out), quiet, as_json, err=out == "-")


def in_words(done: dict[str, Any], out: str) -> str:
    """Return what a prediction did."""
    lines = [f"{done['rows']:,} sets, {done['mean_size']:.3g} labels on average: {out}"]
    first = done.get("columns", [("size", "set")])[0]
    if first != ("size", "set"):
        lines.append(f"The first level is in the columns {first[0]!r} and {first[1]!r}.")
    if "parts" in done:
        lines.append(f"Parts: {done['parts']:,}, of which an earlier run had finished {done['finished_before']:,}")
        if done["finished_from_copies"]:
            lines[-1] += f" ({done['finished_from_copies']:,} of them from files of other names with the same bytes)"
        lines[-1] += "."
        if done["other_parts"]:
            lines.append(f"{out} also holds {done['other_parts']:,} parts that are not among these.")
    return "\n".join(lines)


@click.command()
@click.argument("sets", nargs=-1, required=True)
@click.option("--label", required=True, help="The column of true labels.")
@click.option("--alpha", type=float, help="The level of the sets, as a reference.")
@click.option("--groups", help="A column to break coverage and size down by.")
@with_options(DIALECT)
@QUIET
@AS_JSON
def evaluate(
    sets: tuple[str, ...], label: str, alpha: float | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Judge a file of sets, or many (files, folders, globs, URLs), against the labels in it.

    \b
    Examples:
      aptset evaluate sets.parquet --label y --alpha 0.1
      aptset evaluate sets/ --label y --groups region
    """
    from aptset.cli.evaluation_jobs import evaluate_files
    from aptset.cli.probability_jobs import evaluation_as_json

    dialect = {name: options[name] for name in ("sep", "encoding")}
    is_one = is_one_file(sets)
    files = [open_table(sets[0], **dialect, quiet=quiet)] if is_one else parts_of(sets, quiet, **dialect).files()
    evaluation = evaluate_files(files, label, alpha, options["groups"], progress=is_one and not quiet)
    show(evaluation_as_json(evaluation), repr(evaluation), quiet, as_json)


@click.command()
@click.argument("sets")
@click.option("--label", required=True, help="The column of true labels.")
@click.option("-c", "--calibration", required=True, help="The artefact that made the sets.")
@ALPHA
@click.option("--groups", help="The column of groups, if the calibration was done by group.")
@click.option("--alarm", default=100.0, show_default=True, help="Evidence that raises the alarm.")
@click.option("--state", help="A file that keeps what was seen: the next call goes on behind it.")
@click.option(
    "--order", help="The column with the number of each prediction: 0, 1, 2, ...; else their order is the file's."
)
@click.option("--time", help="The column that says when each prediction was made, to judge rows in that order.")
@click.option("--mature", help="How long an unknown label is waited for: 500 (predictions later), 30d, 12h.")
@click.option("--rotated", is_flag=True, help="SETS is a new log in place of the one before: all its rows are new.")
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def monitor(
    sets: str, label: str, calibration: str, alpha: float, alarm: float, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Tell whether sets still cover as they should: over a file of outcomes that grows.

    Rows are judged in the order of prediction, which is that of the file unless --order or --time names a column. In
    the order in which labels become known alarms would be false, where wrong guesses are labelled sooner than others.
    With --mature labels may be missing: a row waits for all earlier ones, and one whose label is still missing then
    never raises the evidence. With --time alone rows that are not in the file are not known of: labels must come
    within --mature, whatever the outcome.

    After an alarm, now or at an earlier row, the exit status is 3. If nothing changed since calibration, an alarm ever
    comes in at most 1 of --alarm deployments, however often one looks.

    With --state the file must begin with the rows that were seen; rows behind them are new. A log that was rotated does
    not: say so once, by --rotated, or name the folder of all logs.

    \b
    Examples:
      aptset monitor outcomes.csv --label y -c cal.aptset --state monitor.aptset
      aptset monitor outcomes.csv --label y -c cal.aptset --state monitor.aptset --rotated
      aptset monitor outcomes.csv --label y -c cal.aptset --time asked --mature 30d
    """
    from aptset.cli.monitor_jobs import PredictionOrder, monitor_file
    from aptset.cli.probability_jobs import digest_of, load_artefact
    from aptset.core.files import check_other_files

    if options["rotated"] and options["state"] is None:
        raise click.UsageError("--rotated needs --state FILE, the state that began with the log before this one.")
    state = None if options["state"] is None else Path(options["state"])
    check_other_files([] if state is None else [state], [sets, calibration])
    file = open_table(sets, options["sep"], options["encoding"], quiet, is_growing=state is not None)
    artefact, places = (
        artefact_of(calibration),
        PredictionOrder.of(options["order"], options["time"], options["mature"]),
    )
    made, of_rows = load_artefact(artefact, options["trust"]), {"group": options["groups"], "alarm": alarm}
    of_state = {"state": state, "digest": digest_of(artefact), "is_rotated": options["rotated"]}
    monitored = monitor_file(file, label, made, alpha, **of_rows, **of_state, places=places, progress=not quiet)
    seen = {
        "rows": monitored.rows,
        "misses": monitored.misses,
        "alarmed_at": monitored.alarmed_at,
        "mature": options["mature"],
    }
    waits = {"waiting": monitored.n_waiting, "unlabelled": monitored.unlabelled, "ignored": monitored.ignored}
    show(
        {**monitored.settings, **seen, **waits, "log_evidence": monitored.log_evidence},
        monitored.sentence(),
        quiet,
        as_json,
    )
    if monitored.alarmed:
        sys.exit(ALARMED)


COMMANDS = [calibrate, predict, evaluate, monitor]


@contextmanager
def to_standard_output(out: str) -> Iterator[Path]:
    """Give the path to write to; for - a temporary CSV, which goes to standard output when all went well."""
    if out != "-":
        with target_of(out) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="aptset-out-") as folder:
        path = Path(folder) / "sets.csv"
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
