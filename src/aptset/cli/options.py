"""Options that commands share: still parsing, no logic."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
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


class LevelType(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """A level, or that of one label or group: 0.1, or malignant=0.01."""

    name = "LEVEL"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a number, or a name with its number."""
        if not isinstance(value, str):
            return value
        name, _, number = value.rpartition("=")
        try:
            return (name, float(number)) if name else float(number)
        except ValueError:
            self.fail(f"{value!r} must be a number such as 0.1, or NAME=NUMBER such as malignant=0.01.", param, ctx)


def together(_: Any, __: Any, levels: Any) -> Any:
    """Return levels in the order in which they came; those with names are one level, of all of them."""
    several = levels if isinstance(levels, tuple) else (levels,)
    named: dict[str, float] = dict(level for level in several if isinstance(level, tuple))
    if named and len(named) < len(several):
        raise click.BadParameter("must be numbers, or NAME=NUMBER once for each label or group, but not both.")
    return (named,) if named else several


LEVELS = click.option(
    "--alpha",
    "alphas",
    multiple=True,
    type=LevelType(),
    callback=together,
    default=(0.1,),
    show_default=True,
    help="Miscoverage level: 0.1 means 9 times out of 10. May be given several times; or, for calibration by label or "
    "group, once for each: --alpha malignant=0.01 --alpha benign=0.1.",
)
ASSURANCE = [
    click.option(
        "--assurance",
        type=float,
        help="0.95: with this probability this calibration, and not the average one, covers 1 - alpha.",
    ),
    click.option("--simultaneous", is_flag=True, help="With --assurance: for all groups at once, not for each."),
]


def assurance_of(options: dict[str, Any]) -> Any:
    """Take the assurance out of the options."""
    sure, is_simultaneous = options.pop("assurance"), options.pop("simultaneous")
    if is_simultaneous and sure is None:
        raise click.UsageError("--simultaneous needs --assurance, the probability with which all groups are kept.")
    from aptset import Assurance

    return Assurance(sure, simultaneous=True) if is_simultaneous else sure


def column_of_groups(groups: str | None) -> str | None:
    """Return the column of the groups of rows: 'region' of 'region,label', and none of 'label'."""
    return None if groups == "label" else groups and groups.removesuffix(",label")


def labels_in_groups(groups: str | None) -> str | None:
    """Return 'label' where labels decide groups, alone or with a column."""
    return "label" if groups is not None and (groups == "label" or groups.endswith(",label")) else None


QUIET = click.option("--quiet", is_flag=True, help="Print nothing but errors.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
SEEDS = click.IntRange(0, 2**32 - 1)  # what scikit-learn takes
SEED = click.option(
    "--seed",
    default=0,
    type=SEEDS,
    show_default=True,
    help="Seed of the splits, the models and the randomness of sets.",
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
    help="The nonconformity score (aps, raps, lac, saps, ...), auto, or module:object.",
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
    help="Run at alpha, or at the smaller level that guarantees 1 - alpha.",
)
RANDOMIZED = click.option(
    "--randomized/--deterministic",
    default=True,
    show_default=True,
    help="Randomise sets, for coverage that is exact; or not, for sets that are larger and cover more.",
)
NO_EMPTY = click.option(
    "--no-empty",
    "allow_empty",
    is_flag=True,
    flag_value=False,
    default=True,
    help="An empty set gets its most likely label; coverage can only rise.",
)
TEST_SHARE = click.option("--test-share", default=0.3, show_default=True, help="Share of the rows that test.")
SHARE = click.option("--share", type=float, help="The share of the rows that calibrates in a split; 0.5 by default.")
TRUST = click.option(
    "--trust", multiple=True, metavar="NAME", help="Trust this module, class, function or pickle: its code is run."
)
DATES = click.option(
    "--dates",
    type=click.Choice(["day-first", "month-first"]),
    help="How dates such as 03/04/2024 are read, where no row decides it.",
)
SKIP_UNLABELLED = click.option(
    "--skip-unlabelled", is_flag=True, help="Leave rows without a label out, and say how many there were."
)
COLUMNS = [
    click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out."),
    click.option("--features", multiple=True, metavar="COLUMN", help="Use these columns, and no others."),
    click.option("--keep-text", is_flag=True, help="Use the words of text columns, which are left out by default."),
    DATES,
    click.option("--thousands", metavar="MARK", help="What stands between thousands: 1.234,56 is --thousands ."),
    click.option("--decimal", metavar="MARK", help="What stands before decimals: 1,5 is --decimal ,"),
    SKIP_UNLABELLED,
]
DIALECT = [
    click.option("--sep", help="The separator of the columns of a CSV; commas, ; | and tabs are detected."),
    click.option("--encoding", help="The character encoding of a CSV, such as latin-1; UTF-8 and UTF-16 are detected."),
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
    from aptset.cli.columns import check_marks
    from aptset.cli.tables import ColumnChoice

    writing = check_marks(way_of_dates(options), options.pop("thousands"), options.pop("decimal"))
    names = ("drop", "features", "keep_text", "skip_unlabelled")
    return ColumnChoice(**{name: options.pop(name) for name in names}, writing=writing)


def way_of_dates(options: Mapping[str, Any]) -> str | None:
    """Return how the user says that dates are written, in the words of the library."""
    return None if options["dates"] is None else str(options["dates"]).replace("-", " ")


def workers(_: Any, __: Any, jobs: int | None) -> int | None:
    """Refuse a number of workers that is neither positive nor -1."""
    if jobs is not None and (jobs == 0 or jobs < -1):
        raise click.BadParameter(f"must be a positive whole number, or -1 for one per core; got {jobs}.")
    return jobs


JOBS = click.option("--jobs", type=int, callback=workers, help="Folds to fit at once; -1 for one per core.")
ROW_ID = click.option(
    "--id", "row_id", help="A column with an id for each row; the randomness of a row then comes from its id alone."
)
FRESH_U = click.option(
    "--u",
    type=click.Choice(["fresh"]),
    help="fresh: new randomness in this run, instead of a hash of each row; for small files of rows that repeat.",
)
ERRORS = click.option(
    "--error",
    "errors",
    multiple=True,
    metavar="NUMBER|LABEL=NUMBER",
    help="The share of wrong rows among those acted on; or one for each predicted label, and others are asked about.",
)
WEIGHTS = click.option(
    "--weights",
    metavar="COLUMN",
    help="A column with the importance weight of each row, for a distribution shift: target density over source.",
)
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


def given(names: Iterable[str]) -> list[str]:
    """Return which of some options the user gave, as they are written."""
    written = {parameter.name: parameter.opts[0] for parameter in click.get_current_context().command.params}
    return [written[name] for name in names if is_given(name)]


def only_one(alphas: tuple[Any, ...]) -> float:
    """Return the one level of work that has only one."""
    if len(alphas) > 1 or isinstance(alphas[0], dict):
        raise click.UsageError("Only one --alpha can be given without a TABLE.")
    return float(alphas[0])


_OF_TABLES = "assurance test_share model calibration conformity level randomized allow_empty groups bands counts order"
_OF_TABLES += " row_id errors cluster drop features keep_text dates thousands decimal sep encoding trust jobs"


def refuse_without_table() -> None:
    """Refuse options that the embedded data would ignore."""
    for option in given([*_OF_TABLES.split(), "skip_unlabelled", "target"]):
        raise click.UsageError(f"{option} needs a TABLE; without one the run uses embedded example data.")


def refuse_other_options(is_folder: bool, **options: Any) -> None:
    """Refuse options of the other kind of file."""
    others = ("prefix", "logits", "normalize", "label", "weights") if is_folder else ("sep", "encoding")
    for name in others:
        if options.get(name) not in (None, False):
            what = "a calibration of `aptset calibrate`" if is_folder else "raw rows, with a folder of `aptset run`"
            raise click.UsageError(f"--{name.replace('_', '-')} is for {what}.")


def show(content: dict[str, Any], text: str, quiet: bool, as_json: bool, err: bool = False) -> None:
    """Print a result for people or for machines; to standard error where standard output holds the data."""
    if as_json:
        click.echo(json.dumps(content, allow_nan=False), err=err)
    elif not quiet:
        click.echo("\n".join(map(printable, text.splitlines())), err=err)


def counting(total: int | None, enabled: bool) -> AbstractContextManager[Callable[[int], None]]:
    """Give a function that counts rows as done, and draws a bar where somebody looks."""
    is_seen = "ipykernel" in sys.modules
    with suppress(AttributeError, ValueError):  # some programs have no standard error, and others close it
        is_seen = is_seen or sys.stderr.isatty()
    if not (enabled and is_seen):
        return nullcontext(lambda rows: None)
    from aptset.core.runner import counting as with_bar  # with joblib, which takes long to load

    return with_bar(total, "rows", enabled)


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


def errors_of(given: tuple[str, ...]) -> Any:
    """Return one error for all rows, or one for each label that is named: malignant=0.01."""
    if not given:
        return 0.05
    pairs = [text.rpartition("=") for text in given]
    try:
        if all(not equals for _, equals, _ in pairs) and len(pairs) == 1:
            return float(given[0])
        if all(equals and label for label, equals, _ in pairs) and len({label for label, _, _ in pairs}) == len(pairs):
            return {label: float(value) for label, _, value in pairs}
    except ValueError:
        pass
    raise ValueError(f"--error must be one number, or LABEL=NUMBER for each label; got {' '.join(given)!r}.")


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def check_mature_text(mature: str) -> int | timedelta:
    """Return how long labels are waited for: 500 predictions, or 30d."""
    parsed = re.fullmatch(r"(\d{1,9})([smhdw]?)", mature)
    if parsed is None:
        raise ValueError(
            "--mature must be a whole number of predictions, such as 500, or a time in seconds, minutes, hours, days "
            f"or weeks, such as 90s, 45m, 12h, 30d or 8w; got {mature!r}."
        )
    number = int(parsed[1])
    return timedelta(**{_UNITS[parsed[2]]: number}) if parsed[2] else number
