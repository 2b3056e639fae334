"""What the columns of a table are, what becomes of each, and the words that say so."""

from __future__ import annotations

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

from aptset.arrow.layout import as_texts
from aptset.estimator.columns import AsText, DateParts, OneText, dates_of, read_dates, text_of

Kind = Literal["number", "category", "date", "text"]
MOST_VALUES = 100  # of a category; more different texts are names, ids or prose
_FEWEST_ROWS = 20  # below, that every row has its own value says little
_ID = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|key|index|nr|no|number|row)$|^unnamed", re.IGNORECASE)
_FORMATS = ("ISO8601", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y")
_DATE = re.compile(r"\s*\d{1,4}[-./]\d{1,2}[-./]\d{1,4}")
_WORDS = 500  # of a text column that is kept


@dataclass(frozen=True)
class Column:
    """One column: what it is, and why it is left out, if it is."""

    name: str
    kind: Kind
    values: int
    missing: int
    left_out: str = ""
    format: str = ""

    def words(self) -> str:
        """Return its name with what is worth knowing."""
        notes = [f"{self.values}"] if self.kind == "category" else []
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
        return tuple(self.names("category", "date", "text"))

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
        for column in self.used:
            values = table[column.name]
            columns[column.name] = (
                as_floats(values) if column.kind == "number" else _plain_texts(column, as_texts(values))
            )
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

    def describe(self) -> str:
        """Return the block that says what was done with the columns."""
        lines = ["Your columns:"]
        words = {"number": "numbers", "category": "categories", "date": "dates", "text": "texts"}
        how = {"date": ": as year, month and age in days", "text": ": as counts of words"}
        for kind, plural in words.items():
            of_kind = [column.words() for column in self.used if column.kind == kind]
            if of_kind:
                lines.append(f"  {plural:<11}{_listed(of_kind)}{how.get(kind, '')}")
        left_out = [f"  left out   {column.name}: {column.left_out}" for column in self.columns if column.left_out]
        rest = [f"  left out   and {len(left_out) - 12} more"] if len(left_out) > 12 else []
        return "\n".join([*lines, *left_out[:12], *rest])


def _plain_texts(column: Column, texts: list[str | None]) -> Any:
    """Return texts that do not depend on the kind of file: one way to write a date, and one to write true and false."""
    written = pd.Series([*texts, None], dtype=object).iloc[:-1]
    if column.kind != "date":
        return [None if text is None else text_of(text) for text in texts]
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


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:12]) + (f" and {len(words) - 12} more" if len(words) > 12 else "")


def as_floats(values: Any) -> Any:
    """Return numbers and durations as float64, missing ones as NaN."""
    if pa.types.is_duration(values.type):
        return values.to_pandas().dt.total_seconds().to_numpy(dtype=np.float64)
    return pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False)


def plan_columns(table: pa.Table, drop: Sequence[str], features: Sequence[str], keep_text: bool) -> Plan:
    """Look at every column and decide; ``features`` are used whatever they look like, ``drop`` are not."""
    columns = []
    for name in table.column_names:
        column = _look_at(name, table[name], keep_text or name in features)
        if name in drop:
            column = _without(column, "--drop")
        elif features:
            column = _without(column, "" if name in features and column.kind != "text" else column.left_out)
            column = _without(column, "not among --features") if name not in features else column
        columns.append(column)
    return Plan(tuple(columns))


def _without(column: Column, why: str) -> Column:
    return Column(**{**asdict(column), "left_out": why})


def _look_at(name: str, values: Any, keep_text: bool) -> Column:
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
    how = format_of_dates(texts) if not pa.types.is_boolean(values.type) else ""
    if how:
        return Column(name, "date", *common, format=how)
    if len(texts) >= _FEWEST_ROWS and distinct == len(texts) and " " not in "".join(texts[:50]):
        return Column(name, "text", *common, "" if keep_text else "names every row, as an id does")
    if distinct > MOST_VALUES or (len(texts) >= _FEWEST_ROWS and distinct > len(texts) / 2):
        why = f"a text of {distinct} different values (--keep-text uses its words)"
        if look_like_dates(texts):
            why = "dates that can be read in more than one way, or in none; write them as 2024-12-31"
        return Column(name, "text", *common, "" if keep_text else why)
    return Column(name, "category", *common)


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


def format_of_dates(texts: Sequence[str]) -> str:
    """Return how texts write dates, if all of them do: in one way only, or in the standard way beside it."""
    if not look_like_dates(texts):
        return ""
    column = pd.Series(list(texts), dtype=object)
    if read_dates(column, _FORMATS[0]).notna().all():
        return _FORMATS[0]
    fits = [how for how in _FORMATS[1:] if dates_of(column, how).notna().all()]
    return fits[0] if len(fits) == 1 else ""


def look_like_dates(texts: Sequence[str]) -> bool:
    """Tell whether texts are three numbers with points, strokes or dashes between them."""
    return all(_DATE.match(text) for text in texts[:: max(len(texts) // 50, 1)])
