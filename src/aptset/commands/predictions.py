"""The commands from probabilities to sets, and what they are worth: calibrate, predict, evaluate, monitor. No logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from aptset.commands.inputs import (
    artefact_of,
    files_read,
    open_table,
    parts_of,
    sources_of,
    target_of,
)
from aptset.commands.options import (
    ALPHA,
    ALPHAS,
    AS_JSON,
    BANDS,
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
@WEIGHTS
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
    """
    from aptset.calibrations.weighted import effective_in_words
    from aptset.commands.label_tables import label_settings
    from aptset.commands.probability_jobs import calibrate_files
    from aptset.running.path_checks import check_other_files
    from aptset.running.progress import counting

    check_other_files([Path(out)], files_read(options, label))
    sources, one = sources_of(options, label, quiet)
    conformity, bands = label_settings(options, quiet, one and one.count())
    settings = {"conformity": conformity, "normalize": options["normalize"]}
    settings |= {"randomized": not options["deterministic"], "random_state": options["seed"]}
    with counting(one and one.count(), "rows", one is not None and not quiet) as counter:
        found = calibrate_files(sources, counter, bands or (options["groups"] == "label" and "label"), **settings)
    with target_of(out) as target:
        found.save(target)
    content, size = {"n": found.n, "classes": len(found.classes), "out": out}, effective_in_words(found.held_out)
    if size:
        content["effective_size"] = float(found.held_out.effective_sizes.min())
    rows = f"{found.n:,} rows" + (f" ({size} effective)" if size else "")
    show(content, f"Calibrated on {rows}, {len(found.classes)} classes: {out}", quiet, as_json)


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
    from aptset.commands.parts.predicting import goes_to_folder, predict_parts
    from aptset.commands.probability_jobs import load_artefact, predict_file
    from aptset.commands.standard_output import to_standard_output
    from aptset.running.path_checks import check_other_files
    from aptset.running.progress import counting

    artefact = artefact_of(calibration)
    is_run = artefact.is_dir()
    refuse_other_options(is_run)
    if options["u"] is not None and is_given("row_id"):
        raise click.UsageError("--u fresh and --id exclude each other: with an id the chance of a row comes from it.")
    asked = alphas if not is_run or is_given("alphas") else None
    if goes_to_folder(options["probs"], out):
        done = predict_parts(artefact, out, asked, label, quiet, options)
        show({**done, "out": out}, in_words(done, out), quiet, as_json)
        return
    with to_standard_output(out) as target:
        check_other_files([target], [*files_read(options, label), calibration])
        if is_run:
            from aptset.commands.prediction_jobs import predict_rows  # loads scikit-learn, as models do

            path = open_table(options["probs"][0], options["sep"], options["encoding"], quiet)
            names = {name: options[name] for name in ("row_id", "groups", "trust", "batch_rows", "u")}
            done = predict_rows(path, artefact, asked, target, **names, progress=not quiet)
        else:
            _, source = sources_of(options, label, quiet)
            found = load_artefact(artefact, options["trust"])
            with counting(source.count(), "rows", not quiet) as counter:
                done = predict_file(source, found, alphas, target, counter, options["normalize"], options["u"])
    done["out"] = out
    show(done, in_words(done, out), quiet, as_json, err=out == "-")


def in_words(done: dict[str, Any], out: str) -> str:
    """Return what a prediction did."""
    lines = [f"{done['rows']:,} sets, {done['mean_size']:.3g} labels on average: {out}"]
    first = done.get("columns", [("size", "set")])[0]
    if first != ("size", "set"):
        lines.append(f"The first level is in the columns {first[0]!r} and {first[1]!r}.")
    if "parts" in done:
        lines.append(f"Parts: {done['parts']:,}, of which an earlier run had finished {done['finished_before']:,}.")
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
    from aptset.commands.evaluation_jobs import evaluate_file, evaluate_files
    from aptset.commands.parts.finding import is_one_file
    from aptset.commands.probability_jobs import evaluation_as_json

    dialect = {name: options[name] for name in ("sep", "encoding")}
    if is_one_file(sets):
        path = open_table(sets[0], **dialect, quiet=quiet)
        found = evaluate_file(path, label, alpha, options["groups"], progress=not quiet)
    else:
        found = evaluate_files(parts_of(sets, quiet, **dialect).opened(), label, alpha, options["groups"])
    show(evaluation_as_json(found), repr(found), quiet, as_json)


@click.command()
@click.argument("sets")
@click.option("--label", required=True, help="The column of true labels.")
@click.option("-c", "--calibration", required=True, help="The artefact that made the sets.")
@ALPHA
@click.option("--groups", help="The column of groups, if the calibration was done by group.")
@click.option("--alarm", default=100.0, show_default=True, help="Evidence that raises the alarm.")
@click.option("--state", help="A file that keeps what was seen: the next call goes on behind it.")
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def monitor(
    sets: str, label: str, calibration: str, alpha: float, alarm: float, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Tell whether sets still cover as they should: over a file of outcomes that grows, in the order of its rows.

    After an alarm, now or at an earlier row, the exit status is 3. If nothing changed since calibration, an alarm ever
    comes in at most 1 of --alarm deployments, however often one looks.

    \b
    Example:
      aptset monitor outcomes.csv --label y -c cal.aptset --state monitor.json
    """
    from aptset.commands.monitor_jobs import monitor_file
    from aptset.commands.probability_jobs import load_artefact
    from aptset.running.path_checks import check_other_files

    state = None if options["state"] is None else Path(options["state"])
    path = open_table(sets, options["sep"], options["encoding"], quiet, is_growing=state is not None)
    check_other_files([] if state is None else [state], [path, calibration])
    made = load_artefact(artefact_of(calibration), options["trust"])
    found = monitor_file(path, label, made, alpha, options["groups"], alarm, state, progress=not quiet)
    seen = {"rows": found.rows, "misses": found.misses, "alarmed_at": found.alarmed_at}
    show({**found.settings, **seen, "log_evidence": found.log_evidence}, found.sentence(), quiet, as_json)
    if found.alarmed:
        sys.exit(ALARMED)


COMMANDS = [calibrate, predict, evaluate, monitor]
