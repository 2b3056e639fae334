"""What the columns of a table are, what becomes of each, and the words that say so."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from aptset.arrow.sources import as_texts
from aptset.core.dates import MISSING, dates_of, readings_of, way_of
from aptset.estimator.columns import AsText, DateParts, OneText, text_of

Kind = Literal["number", "category", "date", "text"]
MOST_VALUES = 100  # of a category; more different texts are names, ids or prose
_FEWEST_ROWS = 20  # below, that every row has its own value says little
_ID = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|key|index|nr|no|number|row)$|^unnamed", re.IGNORECASE)
_WORDS = 500  # of a text column that is kept


@dataclass(frozen=True)
class Column:
    """One column: what it is, and why it is left out, if it is; how its dates, or its numbers, are written."""

    name: str
    kind: Kind
    values: int
    missing: int
    left_out: str = ""
    format: str = ""

    def words(self) -> str:
        """Return its name with what is worth knowing."""
        notes = [f"{self.values}"] if self.kind == "category" else []
        notes += [f"written as {self.format}"] if self.kind == "number" and self.format not in ("", POINTS) else []
        notes += [f"{self.missing} missing"] if self.missing else []
        return self.name + (f" ({', '.join(notes)})" if notes else "")


@dataclass(frozen=True)
class Plan:
    """What becomes of each column of a table."""

    columns: tuple[Column, ...]

    @property
    def used(self) -> list[Column]:
        """The columns that models see."""
        return [column for column in self.columns if not column.left_out]

    def names(self, *kinds: Kind) -> list[str]:
        """Return the names of the used columns of some kinds; of all kinds without any."""
        return [column.name for column in self.used if not kinds or column.kind in kinds]

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that are read as they are written."""
        return tuple(column.name for column in self.used if column.kind != "number" or column.format)

    @property
    def plain_numbers(self) -> list[str]:
        """The columns of numbers that every reader takes for such."""
        return [column.name for column in self.used if column.kind == "number" and not column.format]

    def as_json(self) -> list[dict[str, Any]]:
        """Return it as plain values."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def of_json(cls, stored: list[dict[str, Any]]) -> Plan:
        """Return the plan that was written."""
        return cls(tuple(Column(**column) for column in stored))

    def frame(self, table: pa.Table) -> pd.DataFrame:
        """Return the used columns as models and hashes see them: numbers as float64, everything else as texts."""
        columns: dict[str, Any] = {}
        plain = set(self.plain_numbers)
        for column in self.used:
            values = table[column.name]
            if column.name in plain or (column.kind == "number" and _is_number(values.type)):
                columns[column.name] = as_floats(values)
            elif column.kind == "number":
                columns[column.name] = _styled_numbers(column, as_texts(values))
            else:
                columns[column.name] = _plain_texts(column, as_texts(values))
        return pd.DataFrame(columns)

    def pipeline(self, model: Any) -> Pipeline:
        """Return a model behind the steps that its columns need."""
        numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
        formats = [column.format for column in self.used if column.kind == "date"]
        dates = make_pipeline(
            DateParts(formats), SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
        )
        categories = make_pipeline(
            AsText(),
            SimpleImputer(strategy="constant", fill_value="missing", keep_empty_features=True),
            OneHotEncoder(handle_unknown="ignore", sparse_output=False, max_categories=MOST_VALUES),
        )
        steps = [(numbers, self.names("number")), (categories, self.names("category")), (dates, self.names("date"))]
        counts = make_pipeline(OneText(), TfidfVectorizer(max_features=_WORDS))
        steps += [(counts, [name]) for name in self.names("text")]
        chosen = [(step, names) for step, names in steps if names]
        return make_pipeline(make_column_transformer(*chosen, sparse_threshold=0.0), model)

    def describe(self, features: pd.DataFrame) -> str:
        """Return the block that says what was done with the columns, and how dates were read."""
        lines = ["Your columns:"]
        words = {"number": "numbers", "category": "categories", "date": "dates", "text": "texts"}
        how = {"date": ": as year, month and age in days", "text": ": as counts of words"}
        for kind, plural in words.items():
            of_kind = [_in_words(column, features) for column in self.used if column.kind == kind]
            if of_kind:
                more = f" and {len(of_kind) - 12} more" if len(of_kind) > 12 else ""
                lines.append(f"  {plural:<11}{', '.join(of_kind[:12])}{more}{how.get(kind, '')}")
        left_out = [f"  left out   {column.name}: {column.left_out}" for column in self.columns if column.left_out]
        rest = [f"  left out   and {len(left_out) - 12} more"] if len(left_out) > 12 else []
        return "\n".join([*lines, *left_out[:12], *rest])


def _in_words(column: Column, features: pd.DataFrame) -> str:
    """Return a column with what is worth knowing; of dates how they were read, and from when to when they go."""
    if column.kind != "date":
        return column.words()
    days = sorted(text[:10] for text in features[column.name].dropna())
    ends = f", {days[0]} to {days[-1]}" if days else ""
    return f"{column.name} ({column.format}{ends}{f', {column.missing} missing' if column.missing else ''})"


def _styled_numbers(column: Column, texts: list[str | None]) -> Any:
    """Return numbers that are written as their column writes them, NaN where a word says that one is missing."""
    style, points = STYLES[column.format], STYLES[POINTS]
    numbers: list[float | None] = [math.nan if is_missing(text) else style.number(str(text)) for text in texts]
    if style.thousands != ".":  # where a point stands for nothing else, numbers with points are as good
        numbers = [
            points.number(str(text)) if number is None else number for text, number in zip(texts, numbers, strict=True)
        ]
    for row, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        if number is None:
            raise ValueError(
                f"column {column.name!r}, row {row}: must be a number, written as {column.format}; got {text!r}. Leave "
                "the cell empty if it is missing."
            )
    return np.array(numbers, dtype=np.float64)


def _plain_texts(column: Column, texts: list[str | None]) -> Any:
    """Return texts that do not depend on the kind of file: one way to write a date, and one to write true and false."""
    written = pd.Series([*texts, None], dtype=object).iloc[:-1]
    if column.kind != "date":
        return [None if text is None else text_of(text) for text in texts]
    written = written.where([not is_missing(text) for text in texts], None)
    dates = dates_of(written, column.format)
    check_dates(column.name, column.format, written, dates)
    return [None if date is pd.NaT else date.isoformat() for date in dates]


def check_dates(name: str, how: str, written: Any, dates: Any) -> None:
    """Refuse texts that are no dates in a column of dates."""
    wrong = (written.notna() & dates.isna()).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"column {name!r}, row {row}: must be a date, written as {how}; got {written.iloc[row]!r}. Leave the cell "
            "empty if it is missing."
        )


def as_floats(values: Any) -> Any:
    """Return numbers and durations as float64, missing ones as NaN."""
    if pa.types.is_duration(values.type):
        return values.to_pandas().dt.total_seconds().to_numpy(dtype=np.float64)
    return pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)


def plan_columns(
    table: pa.Table, drop: Sequence[str], features: Sequence[str], keep_text: bool, writing: Writing | None = None
) -> Plan:
    """Look at every column and decide; ``features`` are used whatever they look like, ``drop`` are not."""
    writing = Writing() if writing is None else writing
    columns = []
    for name in table.column_names:
        column = _look_at(name, table[name], keep_text or name in features, writing)
        if name in drop:
            column = _without(column, "--drop")
        elif features:
            column = _without(column, "" if name in features and column.kind != "text" else column.left_out)
            column = _without(column, "not among --features") if name not in features else column
        columns.append(column)
    return Plan(tuple(columns))


def _without(column: Column, why: str) -> Column:
    return Column(**{**asdict(column), "left_out": why})


def _look_at(name: str, values: Any, keep_text: bool, writing: Writing) -> Column:
    missing = int(values.null_count)
    if pa.types.is_floating(values.type):
        missing += int(pc.sum(pc.is_nan(values)).as_py() or 0)
    if pa.types.is_nested(values.type):
        return Column(name, "text", 0, missing, "holds lists or records")
    if _is_number(values.type):
        return _number(name, values, missing)
    texts = [text for text in as_texts(values) if text is not None]
    distinct = len(set(texts))
    common = (distinct, missing)
    if distinct == 0 or (distinct == 1 and not missing):
        return Column(name, "category", *common, "is empty" if distinct == 0 else "is the same in every row")
    if not pa.types.is_boolean(values.type) and (column := _written(name, texts, missing, keep_text, writing)):
        return column
    if distinct > MOST_VALUES or (len(texts) >= _FEWEST_ROWS and distinct > len(texts) / 2):
        return Column(name, "text", *common, "" if keep_text else _why_not(texts, distinct))
    return Column(name, "category", *common)


def _why_not(texts: list[str], distinct: int) -> str:
    """Return why texts of so many different values are no feature: mixed dates, mixed numbers, ids, or prose."""
    are_dates = [readings_of(text) != (None, None) for text in texts]
    if all(are_dates):
        return "dates that are not all written in one way; write them as 2024-12-31"
    if sum(are_dates) > len(texts) / 2:
        return f"dates, but not all of them ({texts[are_dates.index(False)]!r}); leave such cells empty"
    are_numbers = [any(style.number(text) is not None for style in STYLES.values()) for text in texts[:1000]]
    if sum(are_numbers) > len(are_numbers) / 2 and not all(are_numbers):
        return f"numbers, but not all of them ({texts[are_numbers.index(False)]!r}); leave such cells empty"
    if len(texts) >= _FEWEST_ROWS and distinct == len(texts) and " " not in "".join(texts[:50]):
        return "names every row, as an id does"
    return f"a text of {distinct} different values (--keep-text uses its words)"


def _written(name: str, texts: list[str], missing: int, keep_text: bool, writing: Writing) -> Column | None:
    """Return a column of dates or numbers that are written as texts; None for one of other texts.

    Where they can be read in two ways, the column is left out, and the user is told how to decide.
    """
    present = [text for text in texts if not is_missing(text)]
    common = (len(set(present)), missing + len(texts) - len(present))
    way = _dates(present, writing.dates)
    if way:
        return Column(name, "date", *common, format=way)
    styles = [] if _are_codes(present, len(texts)) else writing.styles(present)
    if len(styles) == 1:
        return Column(name, "number", *common, "is the same in every row" if len(set(present)) == 1 else "", styles[0])
    why = _OPEN_DATES if way is None else _OPEN_NUMBERS if styles else ""
    return Column(name, "text", *common, why) if why and not keep_text else None


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_duration)
    return any(test(kind) for test in tests)


def _number(name: str, values: Any, missing: int) -> Column:
    numbers = as_floats(values)
    numbers = numbers[~np.isnan(numbers)]
    distinct = len(np.unique(numbers))
    why = ""
    if distinct == 0:
        why = "is empty"
    elif distinct == 1 and not missing:
        why = "is the same in every row"
    elif pa.types.is_integer(values.type) and distinct == len(values) >= _FEWEST_ROWS:
        is_count = numbers.max() - numbers.min() == distinct - 1
        why = "numbers every row, as an id does" if is_count or _ID.search(name.strip()) or not name.strip() else ""
    return Column(name, "number", distinct, missing, why)


def _dates(texts: Sequence[str], wanted: str | None) -> str | None:
    """Return in which way all texts write dates, "" if they write none, None where day and month cannot be told."""
    few = texts[:: max(len(texts) // 50, 1)]
    if not texts or any(readings_of(text) == (None, None) for text in few) or all(map(str.isdigit, few)):
        return ""
    chosen = way_of([readings_of(text) for text in dict.fromkeys(texts)])
    return wanted if chosen is None else chosen


def _are_codes(texts: Sequence[str], n_texts: int) -> bool:
    """Tell texts that are all digits, a code or a name, from whole numbers of which some are said to be missing."""
    is_padded = any(len(text) > 1 and text.startswith("0") for text in texts)
    return all(text.isdigit() for text in texts) and (is_padded or len(texts) == n_texts)


_OPEN_DATES = "dates that may be day first or month first: pass --dates day-first, or --dates month-first"
_OPEN_NUMBERS = "looks like numbers with thousands separators or decimal commas: pass --thousands , or --decimal ,"
_UNIT = r"(?:[€$£¥₹%]|EUR|USD|GBP|CHF|JPY|CAD|AUD|INR|CNY|SEK|NOK|DKK|PLN)"
_AFFIX = re.compile(rf"^([-+]?)\s*{_UNIT}\s*|\s*{_UNIT}$")
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2019": "'"})
POINTS = "1234.5"


@dataclass(frozen=True)
class NumberStyle:
    """A way to write numbers: the mark of decimals, and the one between thousands."""

    decimal: str
    thousands: str

    def number(self, text: str) -> float | None:
        """Return a number; None for what is none in this style. A unit in front or behind is left out."""
        bare = _AFFIX.sub(r"\1", text.translate(_SPACES).strip(), count=1)
        digits = rf"\d+|[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+" if self.thousands else r"\d+"
        if re.fullmatch(rf"[-+]?(?:{digits})(?:{re.escape(self.decimal)}\d*)?(?:[eE][-+]?\d+)?", bare) is None:
            return None
        plain = bare.replace(self.thousands, "") if self.thousands else bare
        return float(plain.replace(self.decimal, "."))


STYLES = {
    f"1{thousands}234{decimal}5": NumberStyle(decimal, thousands)
    for decimal, marks in ((".", ("", ",", " ", "'")), (",", ("", ".", " ", "'")))
    for thousands in marks
}


@dataclass(frozen=True)
class Writing:
    """How the user says that dates and numbers are written, where that can be read in more than one way."""

    dates: str | None = None
    thousands: str | None = None
    decimal: str | None = None

    def styles(self, texts: Sequence[str]) -> list[str]:
        """Return the ways in which all texts are numbers, of those that differ; none if they are no numbers."""
        different = list(dict.fromkeys(texts))
        units = {match[0].strip("-+ ") if (match := _AFFIX.search(text.strip())) else "" for text in different}
        if not texts or len(units - {""}) > 1 or ("%" in units and len(units) > 1):
            return []
        readings: dict[tuple[float | None, ...], str] = {}
        few = different[:: max(len(different) // 50, 1)]
        for name, style in STYLES.items():
            is_wanted = self.thousands in (None, style.thousands) and self.decimal in (None, style.decimal)
            if is_wanted and all(style.number(text) is not None for text in few):
                numbers = tuple(style.number(text) for text in different)
                if None not in numbers:
                    readings.setdefault(numbers, name)
        return list(readings.values())


def check_marks(dates: str | None, thousands: str | None, decimal: str | None) -> Writing:
    """Return how numbers and dates are written; refuse marks that no number has, and one mark for two things."""
    named = {"space": " ", "point": ".", "comma": ",", "none": "", "apostrophe": "'"}
    marks = [mark if mark is None else named.get(mark, mark) for mark in (thousands, decimal)]
    if marks[0] not in (None, "", ".", ",", " ", "'") or marks[1] not in (None, ".", ","):
        raise ValueError(
            f"--thousands must be one of . , ' space none, and --decimal one of . and ,; got {thousands!r} and "
            f"{decimal!r}."
        )
    if marks[0] is not None and marks[0] == marks[1]:
        raise ValueError(f"--thousands and --decimal must be different marks; got {thousands!r} for both.")
    return Writing(dates, *marks)


def is_missing(text: str | None) -> bool:
    """Tell whether a cell among numbers or dates says that nothing is known."""
    return text is None or text.strip().lower() in MISSING
