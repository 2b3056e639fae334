"""Options and helpers that commands share: still parsing, no logic."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

ALPHA = click.option("--alpha", default=0.1, show_default=True, help="Miscoverage level: 0.1 means 9 times out of 10.")
QUIET = click.option("--quiet", is_flag=True, help="Print nothing but errors.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
SEEDS = click.IntRange(0, 2**32 - 1)  # what scikit-learn takes
SEED = click.option(
    "--seed", default=0, type=SEEDS, show_default=True, help="Seed of the splits, the models and the uniforms."
)
MODEL = click.option(
    "--model",
    default="logistic",
    show_default=True,
    help="A model by name, or module:object, which RUNS that module's code, found in the working folder first.",
)
TRUST = click.option(
    "--trust", multiple=True, metavar="MODULE", help="Import a score of your own from this module, which RUNS its code."
)


class NamesOf(click.Choice):  # type: ignore[type-arg]  # generic in newer versions of click only
    """Choices that are the names in a table of the library, imported when they are needed: --help stays quick."""

    def __init__(self, module: str, table: str) -> None:
        self.module, self.table, self.case_sensitive = module, table, True

    def __getattr__(self, name: str) -> tuple[str, ...]:
        if name != "choices":
            raise AttributeError(name)
        return tuple(getattr(import_module(self.module), self.table))


CALIBRATIONS = NamesOf("aptset.calibrations", "CALIBRATIONS")


def workers(_: Any, __: Any, jobs: int | None) -> int | None:
    """Refuse a number of workers that nobody can be."""
    if jobs is not None and (jobs == 0 or jobs < -1):
        raise click.BadParameter(f"must be a positive whole number, or -1 for one per core; got {jobs}.")
    return jobs


JOBS = click.option("--jobs", type=int, callback=workers, help="Folds to fit at once; -1 for one per core.")
ROW_ID = click.option("--id", "row_id", help="A column that names each row: its chance then comes from this id alone.")
PROBABILITIES = [
    click.argument("probs"),
    click.option("--prefix", help="Columns of probabilities start with this; by default all columns of numbers."),
    click.option("--logits", is_flag=True, help="The numbers are logits, not probabilities."),
    click.option("--normalize", is_flag=True, help="Divide each row by its sum."),
    ROW_ID,
    click.option(
        "--batch-rows",
        default=65_536,
        type=click.IntRange(min=1),
        show_default=True,
        help="Rows at a time, in steps of 4,096; no result depends on it.",
    ),
]


def with_probabilities(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a file of probabilities."""
    for option in reversed(PROBABILITIES):
        command = option(command)
    return command


def source_of(options: dict[str, Any], label: str | None) -> Any:
    """Return the file of probabilities that the options stand for."""
    from aptset.commands.files import ProbabilityFile
    from aptset.commands.standard_input import as_path

    group = None if options["groups"] == "label" else options["groups"]
    names = ("prefix", "logits", "batch_rows")
    settings = {name: options[name] for name in names}
    return ProbabilityFile(as_path(options["probs"]), label, options["row_id"], group, **settings)


def files_read(options: dict[str, Any], label: str | None) -> list[str | None]:
    """Return the names of the files that a command reads, which it must not write; a label may be a file, too."""
    return [options["probs"], label]


@contextmanager
def row_counter(total: int | None, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Give a callback that shows rows per second on a terminal, and nothing elsewhere."""
    done, start, shown = 0, time.monotonic(), sys.stderr.isatty() and not quiet

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        if shown:
            share = f" of {total:,} ({done / total:.0%})" if total else ""
            speed = done / max(time.monotonic() - start, 1e-9)
            click.echo(f"\r{done:,}{share} rows, {speed:,.0f} rows/s ", err=True, nl=False)

    try:
        yield count
    finally:
        if shown and done:
            click.echo(err=True)


def show(content: dict[str, Any], text: str, quiet: bool, as_json: bool) -> None:
    """Print a result for people or for machines."""
    if as_json:
        click.echo(json.dumps(content, allow_nan=False))
    elif not quiet:
        click.echo("\n".join(map(printable, text.splitlines())))


def printable(text: str) -> str:
    """Return a text that a terminal shows and does not obey: names come from files, and may hold control characters."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
