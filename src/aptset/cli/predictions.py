"""The commands from probabilities to sets and decisions: calibrate, predict, accept, export. They parse and call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from aptset.cli.inputs import (
    TableOptions,
    artefact_of,
    goes_to_folder,
    open_file,
    open_only,
    sources_of,
    target_of,
)
from aptset.cli.options import (
    AS_JSON,
    ASSURANCE,
    BANDS,
    CLUSTER,
    CONFORMITY,
    DIALECT,
    ERRORS,
    FRESH_U,
    LEVELS,
    NO_EMPTY,
    QUIET,
    SEEDS,
    SKIP_UNLABELLED,
    TRUST,
    WEIGHTS,
    assurance_of,
    counting,
    given,
    is_given,
    labels_in_groups,
    refuse_other_options,
    show,
    with_options,
    with_probabilities,
)


@click.command()
@with_probabilities
@click.option("--label", required=True, help="The column (or array, or .npy file) of true labels.")
@click.option("-o", "--out", required=True, help="The artefact to write.")
@CONFORMITY
@click.option("--groups", help="Calibrate within 'label', the values of a column, or both: 'region,label'.")
@with_options(BANDS)
@with_options([WEIGHTS, CLUSTER])
@click.option("--deterministic", is_flag=True, help="Do not randomise sets; they are larger and cover more.")
@NO_EMPTY
@click.option("--seed", default=0, type=SEEDS, show_default=True, help="Seed of the randomness of sets.")
@click.option("--accept", is_flag=True, help="Keep what `aptset accept` needs, instead of what `predict` needs.")
@SKIP_UNLABELLED
@QUIET
@AS_JSON
def calibrate(label: str, out: str, accept: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Calibrate on a file of probabilities and labels, or on many; write an artefact.

    PROBS are files, folders, globs or URLs (s3://, gs://, ...) of parquet, CSV, Arrow, npz or npy. The names of folders
    (region=north) give columns, too.

    \b
    Examples:
      aptset calibrate validation.parquet --label y --prefix p_ -o cal.aptset
      aptset calibrate s3://bucket/validation/ --label y --groups region -o s3://bucket/cal.aptset
      aptset calibrate validation.parquet --label y --bands 4 --counts training_counts.csv -o cal.aptset
      aptset calibrate validation.csv --label y --weights ratio -o cal.aptset
      aptset calibrate validation.csv --label y --accept -o rows.aptset
      aptset calibrate validation.csv --label y --cluster patient -o cal.aptset
    """
    if accept:
        _calibrate_acceptance(label, out, quiet, as_json, options)
        return
    from aptset.cli.inputs import label_settings
    from aptset.cli.probability_jobs import calibrate_files
    from aptset.core.files import check_other_files

    check_other_files([Path(out)], [*options["probs"], label])
    sources, one = sources_of(options, label, quiet)
    conformity, bands = label_settings(options, quiet, one and one.file.rows)
    settings = {name: options[name] for name in ("normalize", "allow_empty")} | {"conformity": conformity}
    settings |= {"randomized": not options["deterministic"], "random_state": options["seed"]}
    settings["skipped"] = skipped = list[int]() if options["skip_unlabelled"] else None
    with counting(one and one.file.rows, one is not None and not quiet) as counter:
        counted = Counted(counter)
        calibration = calibrate_files(sources, counted, bands or labels_in_groups(options["groups"]), **settings)
    with target_of(out) as target:
        calibration.save(target)
    content: dict[str, Any] = {"n": calibration.n, "classes": len(calibration.classes), "out": out}
    rows, held_out = f"{calibration.rows:,} rows", calibration.held_out
    if held_out.has_weights:
        size, least = float(held_out.effective_sizes.min()), "" if held_out.groups.is_one else "at least "
        content["effective_size"] = size
        rows += f" ({least}{size:.4g} effective)"
    if held_out.clusters is not None:
        content |= {"rows": calibration.rows, "promise_about": held_out.clusters.about}
        rows += f" of {calibration.n:,} {held_out.clusters.nouns}"
    text = f"Calibrated on {rows}, {len(calibration.classes)} classes: {out}"
    show(*with_skipped(content, text, skipped, counted.rows), quiet, as_json)


class Counted:
    """Counts rows on the way to a bar."""

    def __init__(self, counter: Callable[[int], None]) -> None:
        self.counter, self.rows = counter, 0

    def __call__(self, n_rows: int) -> None:
        """Count some rows."""
        self.rows += n_rows
        self.counter(n_rows)


def with_skipped(
    content: dict[str, Any], text: str, skipped: list[int] | None, n_rows: int
) -> tuple[dict[str, Any], str]:
    """Add how many rows were left out, beside ``n_rows`` that were not, to what is printed."""
    if not skipped or not sum(skipped):
        return content, text
    from aptset.cli.files import about_skipped

    said = about_skipped(sum(skipped), sum(skipped) + n_rows)
    return {**content, "remarks": [said]}, f"{said}\n{text}"


def _calibrate_acceptance(label: str, out: str, quiet: bool, as_json: bool, options: dict[str, Any]) -> None:
    """Write an artefact for `accept`."""
    from aptset.cli.probability_jobs import learn_files
    from aptset.core.files import check_other_files

    for option in given(("conformity", "bands", "counts", "weights", "deterministic")):
        raise click.UsageError(f"{option} cannot be given with --accept, which uses neither scores nor weights.")
    if is_given("allow_empty"):
        raise click.UsageError("--no-empty cannot be given with --accept, which makes no sets.")
    if options["groups"] == "label":
        raise click.UsageError(
            "--groups label cannot be given with --accept: pass --error LABEL=NUMBER to `aptset accept` for "
            "each predicted label."
        )
    check_other_files([Path(out)], [*options["probs"], label])
    sources, one = sources_of(options, label, quiet)
    with counting(one and one.file.rows, one is not None and not quiet) as counter:
        skipped = list[int]() if options["skip_unlabelled"] else None
        rule = learn_files(sources, counter, skipped, normalize=options["normalize"], random_state=options["seed"])
    with target_of(out) as target:
        rule.save(target)
    content = {"n": rule.n, "n_wrong": rule.n_wrong, "out": out}
    text = f"Learned from {rule.n:,} rows, of which {rule.n_wrong:,} are wrong: {out}"
    show(*with_skipped(content, text, skipped, rule.n), quiet, as_json)


@click.command()
@with_probabilities
@click.option(
    "-c", "--calibration", required=True, help="The artefact of `calibrate --accept`, or the folder of `aptset run`."
)
@click.option("-o", "--out", default="-", help="The decisions: .parquet, .csv, or - for CSV, which is the default.")
@ERRORS
@click.option("--assurance", type=float, help="One threshold that keeps the error with this probability, row by row.")
@click.option(
    "--alpha", type=float, help="With the folder of a run: the level of the sets of rows that are asked about."
)
@click.option("--groups", help="The column of groups, if the rows were learned by group.")
@click.option("--label", help="A column of numbers that holds the true labels, not probabilities.")
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def accept(
    calibration: str,
    out: str,
    errors: tuple[str, ...],
    assurance: float | None,
    label: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Decide for every row whether to act on the guess or to ask a person; all other columns are copied.

    Without --assurance all rows together are one batch: on average over batches, at most --error (0.05 by default) of
    the rows that are acted on are wrong. With --assurance 0.9 there is one threshold, and 9 of 10 calibrations keep the
    error, however rows are split into files. With the folder of `aptset run` the file holds raw rows, there is always
    one threshold, and rows that go to a person come with a set.

    \b
    Examples:
      aptset calibrate validation.csv --label y --accept -o rows.aptset
      aptset accept new.csv -c rows.aptset --error 0.05 -o decided.csv
      aptset accept new.csv -c rows.aptset --error 0.05 --assurance 0.9
      aptset accept new.csv -c rows.aptset --error benign=0.01
      aptset accept new.csv -c results --error 0.05 -o decided.parquet
    """
    from aptset.cli.artefacts import load_rule
    from aptset.cli.options import errors_of
    from aptset.cli.probability_jobs import accept_files
    from aptset.cli.probability_jobs import in_words as decided_in_words
    from aptset.cli.raw_rows import accept_rows
    from aptset.core.files import check_other_files

    artefact, error = artefact_of(calibration), errors_of(errors)
    refuse_other_options(artefact.is_dir(), label=label, **options)
    if not artefact.is_dir() and is_given("alpha"):
        raise click.UsageError("--alpha is for the folder of `aptset run`, which makes sets.")
    with target_of(out, may_be_output=True) as target:
        check_other_files([target], [*options["probs"], label, calibration])
        if artefact.is_dir():
            file = open_only(options["probs"], TableOptions(options["sep"], options["encoding"], quiet, artefact))
            done = accept_rows(file, artefact, error, assurance, target, options)
        else:
            rule = load_rule(artefact)
            sources, one = sources_of(options, label, quiet)
            with counting(one and one.file.rows, one is not None and not quiet) as counter:
                done = accept_files(sources, rule, error, assurance, target, counter, options["normalize"])
    show({**done, "out": out}, decided_in_words(done, out), quiet, as_json, err=out == "-")


@click.command()
@with_probabilities
@click.option("-c", "--calibration", required=True, help="The folder of `aptset run`, or the artefact of `calibrate`.")
@click.option(
    "-o",
    "--out",
    required=True,
    help="The sets: .parquet, .csv with labels joined by |, or - for CSV; or a folder, with a file for each of PROBS.",
)
@LEVELS
@with_options(ASSURANCE)
@click.option("--confidence", is_flag=True, help="Write each row's guess, its confidence and credibility, too.")
@click.option("--groups", help="The column of groups, if calibration was done by one.")
@WEIGHTS
@click.option("--label", help="A column of numbers that holds the true labels, not probabilities.")
@click.option("--same-dialect", is_flag=True, help="Write a CSV as the input is: its separator and encoding.")
@FRESH_U
@with_options([*DIALECT, TRUST])
@QUIET
@AS_JSON
def predict(
    calibration: str, out: str, alphas: tuple[Any, ...], label: str | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Write the prediction set of every row; all other columns are copied.

    With the folder of `aptset run` the file holds raw rows, with an artefact of `aptset calibrate` probabilities.
    Files, folders, globs and URLs (s3://, gs://, ...) of many parts go to a folder, one file each. A run can be stopped
    at any moment; the same command goes on where it was.

    \b
    Examples:
      aptset predict new.csv -c results -o sets.csv
      aptset predict new.parquet -c cal.aptset -o sets.parquet --alpha 0.1 --assurance 0.95 --prefix p_
      aptset predict new.csv -c cal.aptset -o sets.csv --alpha malignant=0.01 --alpha benign=0.1
      aptset predict 's3://bucket/scores/*.parquet' -c cal.aptset -o s3://bucket/sets/ --prefix p_
    """
    from aptset.cli.probability_jobs import maker_of, predict_parts, write_sets
    from aptset.core.files import check_other_files

    artefact, names, u = artefact_of(calibration), options["probs"], options["u"]
    refuse_other_options(artefact.is_dir(), label=label, **options)
    if u is not None and options["row_id"] is not None:
        raise click.UsageError(
            "--u fresh and --id cannot be given together: with --id the randomness of a row comes from its id."
        )
    if u is not None and options["confidence"]:
        raise click.UsageError(
            "--u fresh and --confidence cannot be given together: each would draw its own randomness."
        )
    asked = (artefact, alphas if not artefact.is_dir() or is_given("alphas") else None, label)
    if goes_to_folder(names, out):
        if options["same_dialect"]:
            raise click.UsageError("--same-dialect is for one file; many parts are written in UTF-8 with commas.")
        done = predict_parts(*asked, out, quiet, assurance_of(options), options)
        show({**done, "out": out}, in_words(done, out), quiet, as_json)
        return
    with target_of(out, may_be_output=True) as target:
        check_other_files([target], [*names, label, calibration])
        file = open_file(names[0], TableOptions(options["sep"], options["encoding"], quiet, artefact))
        maker = maker_of(*asked, assurance_of(options), options)
        with counting(file.rows, not quiet) as on_rows:
            done = write_sets(maker, file, target, on_rows, options["same_dialect"])
    show({**done, "out": out}, in_words(done, out), quiet, as_json, err=out == "-")


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
@click.argument("out")
@click.option("-c", "--calibration", required=True, help="The artefact of `calibrate`, or the folder of `aptset run`.")
@LEVELS
@with_options(ASSURANCE)
@click.option(
    "--u", type=click.Choice(["content", "input"]), default="content", help="u of the row, or an input of the graph."
)
@click.option("--model", help="A converted model, .onnx, that the sets are joined to.")
@click.option("--output", help="Which output of the model holds the probabilities.")
@click.option("--logits", is_flag=True, help="The numbers are logits.")
@click.option("--dtype", type=click.Choice(["float64", "float32", "float16"]), default="float64", show_default=True)
@click.option("--p-values", is_flag=True, help="Return the p-value of every label, too.")
@TRUST
@QUIET
@AS_JSON
def export(out: str, calibration: str, alphas: tuple[Any, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Write the sets as an ONNX graph, for runtimes without Python: OUT is an .onnx file.

    It takes probabilities, or with --model what the model takes, and returns mask, order, sizes and valid. Of a folder
    of `aptset run` it takes the probabilities of its model, from which u is drawn, too.

    \b
    Examples:
      aptset export sets.onnx -c cal.aptset --alpha 0.1 --alpha 0.05
      aptset export joined.onnx -c cal.aptset --model network.onnx --logits
    """
    from aptset.cli.artefacts import load_artefact
    from aptset.onnx import export as write

    loaded = load_artefact(artefact_of(calibration), options.pop("trust"))
    written = write(loaded, out, list(alphas), assurance=assurance_of(options), **options)
    facts = {entry.key: entry.value for entry in written.metadata_props} | {"out": out}
    words = f"{out}: alpha={facts['alpha']}, promised coverage {facts['guarantee']}, {facts['n']} calibration samples"
    show(facts, words, quiet, as_json)


COMMANDS = [calibrate, predict, accept, export]
