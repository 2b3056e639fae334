"""Options that commands share: still parsing, no logic."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

ALPHA = click.option("--alpha", default=0.1, show_default=True, help="Miscoverage level: 0.1 means 9 times out of 10.")
ALPHAS = click.option(
    "--alpha",
    "alphas",
    multiple=True,
    type=float,
    default=(0.1,),
    show_default=True,
    help="Miscoverage level: 0.1 means 9 times out of 10. May be given several times.",
)
QUIET = click.option("--quiet", is_flag=True, help="Print nothing but errors.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
SEEDS = click.IntRange(0, 2**32 - 1)  # what scikit-learn takes
SEED = click.option(
    "--seed", default=0, type=SEEDS, show_default=True, help="Seed of the splits, the models and the uniforms."
)
# The names of aptset.cli.models, which loads scikit-learn: help must not wait for it. A test compares the two.
MODEL_NAMES = ("logistic", "forest", "boosting", "bayes", "neighbours", "tree", "xgboost", "lightgbm", "catboost")
MODEL_HELP = (
    f"{', '.join(MODEL_NAMES)}; or module:object, or 'module.Class(argument=value)', which RUNS that module's code, "
    "found in the working folder first; or a .skops file, or a .joblib file with --trust."
)
MODEL = click.option("--model", default="logistic", show_default=True, help=MODEL_HELP)


class NamesOf(click.Choice):  # type: ignore[type-arg]  # generic in newer versions of click only
    """Choices that are the names in a table of the library, imported when they are needed: --help stays quick."""

    def __init__(self, module: str, table: str) -> None:
        self.module, self.table, self.case_sensitive = module, table, True

    def __getattr__(self, name: str) -> tuple[str, ...]:
        if name != "choices":
            raise AttributeError(name)
        return tuple(getattr(import_module(self.module), self.table))


CALIBRATIONS = NamesOf("aptset.conformal", "CALIBRATIONS")
CONFORMITY = click.option(
    "--conformity",
    default="adaptive",
    show_default=True,
    help="The score (raps, lac, saps, ...), auto, or module:object.",
)
BANDS = [
    click.option(
        "--bands",
        metavar="FILE|NUMBER",
        help="Calibrate within bands of labels: a table or JSON of label and band, or how many bands --counts makes.",
    ),
    click.option(
        "--order",
        metavar="LABELS",
        help="All labels from low to high, with commas between them: for --conformity ordered and central.",
    ),
    click.option(
        "--counts",
        metavar="FILE",
        help="A table or JSON of label and number of training rows: for --bands NUMBER and --conformity prevalence.",
    ),
]
LEVEL = click.option(
    "--level",
    default="nominal",
    show_default=True,
    type=click.Choice(["nominal", "guaranteed"]),
    help="Run at alpha, or at the smaller level at which 1 - alpha is proven.",
)
RANDOMIZED = click.option(
    "--randomized/--deterministic",
    default=True,
    show_default=True,
    help="Draw u, for exact coverage; or u = 1, for sets that chance has no part in and that cover more.",
)
SHARE = click.option("--share", type=float, help="The share of the rows that calibrates in a split; 0.5 by default.")
TRUST = click.option(
    "--trust", multiple=True, metavar="NAME", help="Run the code of this score's module, class, function or pickle."
)
COLUMNS = [
    click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out."),
    click.option("--features", multiple=True, metavar="COLUMN", help="Use these columns, and no others."),
    click.option("--keep-text", is_flag=True, help="Use the words of text columns, which are left out by default."),
]
DIALECT = [
    click.option("--sep", help="What separates the columns of a CSV; found for ; | and tabs."),
    click.option("--encoding", help="The alphabet of a CSV, such as latin-1; UTF-8 and UTF-16 are found."),
]


def with_options(options: list[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add some options to a command, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def choice_of(options: dict[str, Any]) -> Any:
    """Take what the user said about columns out of the options."""
    from aptset.cli.tables import ColumnChoice

    return ColumnChoice(options.pop("drop"), options.pop("features"), options.pop("keep_text"))


def workers(_: Any, __: Any, jobs: int | None) -> int | None:
    """Refuse a number of workers that nobody can be."""
    if jobs is not None and (jobs == 0 or jobs < -1):
        raise click.BadParameter(f"must be a positive whole number, or -1 for one per core; got {jobs}.")
    return jobs


JOBS = click.option("--jobs", type=int, callback=workers, help="Folds to fit at once; -1 for one per core.")
ROW_ID = click.option("--id", "row_id", help="A column that names each row: its chance then comes from this id alone.")
FRESH_U = click.option(
    "--u",
    type=click.Choice(["fresh"]),
    help="fresh: new randomness in this run, instead of a hash of each row; for small files of rows that repeat.",
)
WEIGHTS = click.option("--weights", metavar="COLUMN", help="A column with the weight of each row: target over source.")
CLUSTER = click.option(
    "--cluster",
    metavar="COLUMN",
    help="A column that says which rows belong together, such as patient: the promise is about a row of a new one.",
)
PROBABILITIES = [
    click.argument("probs", nargs=-1, required=True),
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


with_probabilities = with_options(PROBABILITIES)


def is_given(name: str) -> bool:
    """Tell whether the user gave an option, rather than left its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not None and source is not ParameterSource.DEFAULT


def options_of_run(options: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Return the options of a command that trains, as the settings of a run."""
    from aptset.cli.label_tables import label_settings  # loaded with files, which other commands do not need

    names = ["model", "calibration", "share", "alphas", "level", "randomized", "groups", "row_id", "cluster"]
    settings = {name: options[name] for name in [*names, "seed", "jobs", "trust"]}
    conformity, bands = label_settings(options, quiet)
    return {**settings, "conformity": conformity, "bands": bands, "choice": choice_of(options)}


def only_one(alphas: tuple[float, ...]) -> float:
    """Return the one level of work that has only one."""
    if len(alphas) > 1:
        raise click.UsageError("Without a TABLE there is one --alpha.")
    return alphas[0]


_OF_TABLES = (
    "model",
    "calibration",
    "conformity",
    "level",
    "randomized",
    "groups",
    "bands",
    "counts",
    "order",
    "row_id",
    "cluster",
)


def refuse_without_table(target: str | None) -> None:
    """Refuse options that the embedded data would ignore."""
    names = [*_OF_TABLES, "drop", "features", "keep_text", "sep", "encoding", "trust", "jobs"]
    given = [name for name in names if is_given(name)] + (["target"] if target is not None else [])
    if given:
        name = {"row_id": "id", "keep_text": "keep-text"}.get(given[0], given[0])
        raise click.UsageError(f"--{name} needs a TABLE; without one the run is about embedded data.")


def refuse_other_options(is_folder: bool) -> None:
    """Refuse options of the other kind of file."""
    others = ("prefix", "logits", "normalize", "label", "weights") if is_folder else ("sep", "encoding")
    for name in others:
        if is_given(name):
            what = "a calibration of `aptset calibrate`" if is_folder else "raw rows, with a folder of `aptset run`"
            raise click.UsageError(f"--{name.replace('_', '-')} is for {what}.")


def show(content: dict[str, Any], text: str, quiet: bool, as_json: bool, err: bool = False) -> None:
    """Print a result for people or for machines; to standard error where standard output holds the data."""
    if as_json:
        click.echo(json.dumps(content, allow_nan=False), err=err)
    elif not quiet:
        click.echo("\n".join(map(printable, text.splitlines())), err=err)


_AS_OPTIONS = {
    "ids=... (one per row)": "--id COLUMN",
    'u="fresh" for new randomness in every call; pass first_row=... with pieces of one long table;': "--u fresh,",
    "calibrate with randomized=False": "calibrate with --deterministic",
}


def in_options(text: str) -> str:
    """Return a warning of the library in the words of the command line."""
    for argument, option in _AS_OPTIONS.items():
        text = text.replace(argument, option)
    return text


def printable(text: str) -> str:
    """Return a text that a terminal shows and does not obey: names come from files, and may hold control characters."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
