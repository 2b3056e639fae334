"""The command line: parses and calls, no logic."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import click

from aptset.cli import monitoring, predictions
from aptset.cli import reports as cli_reports
from aptset.cli.inputs import TableOptions, artefact_of, as_given, open_table
from aptset.cli.options import (
    ALPHA,
    AS_JSON,
    ASSURANCE,
    BANDS,
    CALIBRATIONS,
    CLUSTER,
    COLUMNS,
    CONFORMITY,
    DIALECT,
    ERRORS,
    JOBS,
    LEVEL,
    LEVELS,
    MODEL,
    NO_EMPTY,
    QUIET,
    RANDOMIZED,
    ROW_ID,
    SEED,
    SEEDS,
    SHARE,
    TEST_SHARE,
    TRUST,
    in_options,
    only_one,
    printable,
    refuse_without_table,
    show,
    with_options,
    workers,
)
from aptset.cli.start import leave_quietly


class OneLineErrors(click.Group):
    """Ends with status 1 and one line on standard error for whatever is wrong with the input."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(
                errors="backslashreplace"
            )  # a name that the locale cannot write is no reason to fail
        warnings.showwarning = lambda message, *_, **__: click.echo(
            f"Warning: {printable(as_given(in_options(str(message))))}", err=True
        )
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            leave_quietly()
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            text = printable(as_given(" ".join(str(error).split())))[:2000]
            if isinstance(error, ModuleNotFoundError) and "pip install" not in text:
                from aptset.core.validate import install  # numpy is not loaded for --help

                text += f". Install what the commands need: {install('cli')}"
            expected = isinstance(error, ValueError | TypeError | OSError | ImportError)
            raise click.ClickException(text if expected and text else f"{type(error).__name__}: {text}") from error


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="aptset")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Prediction sets with guaranteed, adaptive coverage for any classifier."""


@main.command()
@click.argument("table", required=False)
@click.option("--target", help="The column to predict (needed with TABLE).")
@MODEL
@click.option(
    "--calibration", default="split", show_default=True, type=CALIBRATIONS, help="Which rows train and which calibrate."
)
@with_options([TEST_SHARE, SHARE, CONFORMITY, LEVELS, LEVEL, *ASSURANCE, RANDOMIZED, NO_EMPTY])
@click.option("--groups", help="Calibrate within 'label', the values of a column, or both: 'region,label'.")
@with_options(BANDS)
@with_options([CLUSTER, ROW_ID])
@ERRORS
@with_options([*COLUMNS, *DIALECT, TRUST])
@click.option("--out", help="Folder for the results and the model; with TABLE aptset-run by default.")
@JOBS
@SEED
@QUIET
@AS_JSON
def run(table: str | None, target: str | None, out: str | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Train a model on TABLE, calibrate it, and test its prediction sets; without TABLE on example data.

    The folder holds the sets of the test rows, their evaluation, and the model: `aptset predict -c FOLDER` takes raw
    rows, and so does aptset.load(FOLDER) in Python.

    \b
    Examples:
      aptset run
      aptset run patients.csv --target diagnosis --model forest --calibration cv+ --out results
      aptset run patients.csv --target diagnosis --error 0.05
      aptset predict new.csv -c results -o sets.csv
    """
    from aptset.core.files import check_other_files, check_target_folder

    folder = check_target_folder(Path(out or ("." if table is None else "aptset-run")))
    if table is None:
        from aptset.cli.demo import run_demo

        refuse_without_table()
        alpha = only_one(options["alphas"])
        text, content = run_demo(alpha, options["seed"], None if out is None else folder)
        show(content, text, quiet, as_json)
        return
    if target is None:
        raise click.UsageError("TABLE needs --target COLUMN, the column to predict.")
    from aptset.cli.table_jobs import WRITTEN, Settings, promise_of, run_table
    from aptset.cli.writing import evaluations_as_json

    check_other_files([folder / name for name in WRITTEN], [table])
    file = open_table(table, TableOptions(options.pop("sep"), options.pop("encoding"), quiet))
    result = run_table(file, target, Settings.of(options, quiet))
    written = result.write(folder)
    more = {"promise": promise_of(result.classifier), "out": str(folder), "written": written}
    more |= {} if result.decided is None else {"decided": result.decided.as_json()}
    content = evaluations_as_json(result.evaluations, **more, columns=result.rows.plan.as_json())
    text = f"{result.text()}\n\nWritten to {folder}: {', '.join(written)}"
    hint = f"Predict new rows: aptset predict NEW.csv -c {folder} -o sets.csv"
    show(content, f"{text}\n{hint}", quiet, as_json)


@main.command()
@click.argument("artefact")
@AS_JSON
def inspect(artefact: str, as_json: bool) -> None:
    """Show what a calibration or the folder of a run promises, and what it was made from.

    \b
    Examples:
      aptset inspect cal.aptset
      aptset inspect results
    """
    from aptset.cli.artefacts import facts_in_words, facts_of

    facts = facts_of(artefact_of(artefact))
    facts["file"] = as_given(facts["file"])
    show(facts, facts_in_words(facts), False, as_json)


@main.command()
@ALPHA
@click.option("--within", type=float, help="How far the coverage may be from 1 - alpha; 0.01 without --assurance.")
@click.option("--confidence", default=0.95, show_default=True, help="The probability to stay within.")
@ASSURANCE[0]
@AS_JSON
def plan(alpha: float, within: float | None, confidence: float, assurance: float | None, as_json: bool) -> None:
    """Compute how many calibration rows are needed for a margin of the coverage, or for an assurance.

    \b
    Examples:
      aptset plan --alpha 0.1 --within 0.01
      aptset plan --alpha 0.1 --assurance 0.95 [--within 0.02]
    """
    from aptset import calibration_size

    size = calibration_size(alpha, within, confidence, assurance=assurance)
    margin = within if assurance is not None else size.within
    content = {"n": int(size), "alpha": alpha, "within": margin, "confidence": confidence, "achieved": size.achieved}
    content |= {} if assurance is None else {"assurance": assurance}
    chance = f"{confidence:.0%} of cases"
    text = f"{int(size):,} calibration rows keep the coverage within {size.within:g} of {1 - alpha:g} in {chance}."
    if assurance is not None:
        text = f"{int(size):,} calibration rows can cover at least {1 - alpha:g} with assurance {assurance:g}"
        text += "." if within is None else f", and at most {1 - alpha + within:g} in {chance}."
    show(content, text, False, as_json)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    \b
    Example:
      eval "$(aptset completion bash)"
    """
    from click.shell_completion import get_completion_class

    completed = get_completion_class(shell)
    assert completed is not None  # click knows these three
    click.echo(completed(main, {}, "aptset", "_APTSET_COMPLETE").source())


def words(_: Any, __: Any, text: str) -> tuple[str, ...]:
    """Split a list such as SC,CV+,HCC."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@main.command()
@click.argument("experiments", nargs=-1, required=True)
@click.option("--repetitions", default=100, show_default=True, help="Independent repetitions, as in the paper.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder with the data sets; else the cache, or OpenML.")
@click.option("--jobs", default=-1, callback=workers, show_default=True, help="Worker processes; -1 for one per core.")
@click.option("--out", default="aptset-reproduction", show_default=True, help="Folder for results and figures.")
@click.option("--boxes", default="", callback=words, help="Only these black boxes, such as Oracle,SVC.")
@click.option("--methods", default="", callback=words, help="Only these methods, such as SC,CV+ (HCC comes with SC).")
@click.option("--sizes", default="", callback=words, help="Only these n_train, such as 500,1000.")
@click.option("--draw-only", is_flag=True, help="Compute nothing: draw what is finished.")
@click.option("--seed", default=0, type=SEEDS, show_default=True, help="Seed of data, folds, models and uniforms.")
@ALPHA
@QUIET
@AS_JSON
def reproduce(
    experiments: tuple[str, ...], out: str, repetitions: int, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Reproduce figures and tables of the paper: fig1 fig2 fig3 figS1 figS3 figS4 tableS1 to tableS4, or all.

    A run can be stopped at any moment; the same command goes on where it was.

    \b
    Examples:
      aptset reproduce fig1 --repetitions 5 --boxes Oracle,SVC
      aptset reproduce fig2 tableS1 --data downloads --out results
    """
    from aptset.experiments.designs import choose
    from aptset.experiments.reproduce import reproduce as run_experiments

    choice = choose(repetitions, options.pop("boxes"), options.pop("methods"), options.pop("sizes"))
    written = run_experiments(experiments, choice, Path(out), progress=not quiet, **options)
    content = {"out": out, "written": [str(path) for path in written]}
    show(content, f"Written to {out}: {', '.join(path.name for path in written)}", quiet, as_json)


for command in (*predictions.COMMANDS, *monitoring.COMMANDS, *cli_reports.COMMANDS):
    main.add_command(command)
