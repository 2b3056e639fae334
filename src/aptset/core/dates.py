"""Times as people write them, read by one function everywhere: numbers, and dates by year, day or month first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from types import NoneType
from typing import Any, Literal

import numpy as np

from aptset.core.labels import hashable

Way = Literal["day first", "month first"]
YEAR_FIRST, DAY_FIRST, MONTH_FIRST = "year first", "day first", "month first"
# Words that stand for a value that is not there, in columns of numbers and of dates; among texts they may be values.
MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "nil", "unknown", "missing", "?", "-"])
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")
_CLOCK = r"(?:[T ]\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:[.,]\d+)?))?\s*([AaPp][Mm])?)?"
_NUMERIC = re.compile(rf"(\d{{1,4}})([-./])(\d{{1,2}})\2(\d{{1,4}}){_CLOCK}")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NAME = r"([A-Za-z]{3,9})\.?"
_DAY_MONTH = re.compile(rf"(\d{{1,2}})[-. ]\s*{_NAME}[-, ]\s*(\d{{4}}|\d{{2}}){_CLOCK}")
_MONTH_DAY = re.compile(rf"{_NAME} (\d{{1,2}}),? (\d{{4}}){_CLOCK}")
_YEARS = range(1800, 2201)  # of whole numbers of eight digits that are dates: 20241231
_WAY_OUT = "Pass dates instead, such as pandas.to_datetime(column, dayfirst=True)."

Reading = tuple[datetime | None, datetime | None]  # day first, and month first; the same where nothing is open
_NEITHER: Reading = (None, None)


@dataclass(frozen=True)
class Times:
    """The time of each row, as numbers or as seconds since 1970, and how they were read."""

    keys: list[Any]
    how: str
    are_dates: bool

    def words(self) -> str:
        """Return how the times were read, and from when to when they go."""
        if not self.keys:
            return self.how
        ends = min(self.keys), max(self.keys)
        return f"{self.how}, {' to '.join(_day(end) if self.are_dates else f'{float(end):.6g}' for end in ends)}"


def read_times(values: Sequence[Any], name: str, way: Way | None = None, way_out: str = _WAY_OUT) -> Times:
    """Return times that are numbers throughout, or dates throughout; refuse everything else.

    ``way`` decides where day and month cannot be told apart; ``way_out`` says how to pass it.
    """
    plain = [_plain(value) for value in values]
    for row, value in enumerate(plain):
        if value is None:
            raise ValueError(
                f"{name} must not have missing values; row {row} has none ({values[row]!r}). Drop these rows, or leave "
                "the times out for the order of the rows."
            )
    numbers = [_number(value) for value in plain]
    if all(number is not None for number in numbers):
        return _of_numbers(numbers)
    readings = {value: readings_of(value) for value in dict.fromkeys(plain)}
    _check_readable(plain, readings, name)
    chosen = way_of(list(readings.values()))
    if chosen is None:
        chosen = _decided(plain, readings, name, way, way_out)
    place = 1 if chosen == MONTH_FIRST else 0
    seconds = {value: _seconds(reading[place]) for value, reading in readings.items()}
    are_plain = all(isinstance(value, str) and value.strip()[:4].isdigit() for value in readings)
    how = "dates" if chosen == YEAR_FIRST and not are_plain else chosen
    return Times([seconds[value] for value in plain], how, True)


def way_of(readings: Sequence[Reading]) -> str | None:
    """Return the one way in which all can be read; "" if there is none, None if there are two that differ."""
    fits = [all(reading[place] is not None for reading in readings) for place in (0, 1)]
    if all(fits):
        return YEAR_FIRST if all(first == second for first, second in readings) else None
    return DAY_FIRST if fits[0] else MONTH_FIRST if fits[1] else ""


def readings_of(value: Any) -> Reading:
    """Return what a date is, read day first and month first; None where that is no date."""
    if isinstance(value, date):
        return (exact := _with_zone(value)), exact
    if not isinstance(value, str):
        return _NEITHER
    text = value.strip()
    try:
        return (exact := _with_zone(datetime.fromisoformat(text))), exact
    except ValueError:
        pass
    if re.fullmatch(r"\d{4}-\d{1,2}", text):
        text += "-01"
    if (match := _NUMERIC.fullmatch(text)) is not None:
        return _of_numeric(match)
    if (match := _DAY_MONTH.fullmatch(text)) is not None:
        return _named(match[1], match[2], match[3], match.groups()[3:])
    if (match := _MONTH_DAY.fullmatch(text)) is not None:
        return _named(match[2], match[1], match[3], match.groups()[3:])
    return _NEITHER


def _of_numeric(match: re.Match[str]) -> Reading:
    """Read three numbers: with a year of four digits at the start, or a year at the end.

    Points mean day first wherever they are used; dashes with a year of two digits may be anything.
    """
    first, mark, middle, last, *clock = match.groups()
    if len(first) == 4 and len(last) <= 2:
        return (exact := _made(first, middle, last, clock)), exact
    if len(first) > 2 or len(last) not in (2, 4) or (len(last) == 2 and mark == "-"):
        return _NEITHER
    return _made(last, middle, first, clock), None if mark == "." else _made(last, first, middle, clock)


def _named(day: str, month: str, year: str, clock: Sequence[str | None]) -> Reading:
    """Read a date whose month has its English name, or at least three letters of it."""
    number = next((place for place, name in enumerate(_MONTHS, start=1) if name.startswith(month.lower())), None)
    return _NEITHER if number is None else ((exact := _made(year, str(number), day, clock)), exact)


def _made(year: str, month: str, day: str, clock: Sequence[str | None]) -> datetime | None:
    """Return a date, if there is such a day; of two digits of a year, 69 and more are of the last century."""
    hour, minute = (int(part or 0) for part in clock[:2])
    second, _, behind = (clock[2] or "0").replace(",", ".").partition(".")
    if clock[3] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if clock[3].lower() == "pm" else 0)
    century = 0 if len(year) == 4 else 1900 if int(year) >= 69 else 2000
    try:
        whole = datetime(century + int(year), int(month), int(day), hour, minute, int(second), tzinfo=UTC)
        return whole + timedelta(seconds=float(f"0.{behind or 0}"))
    except ValueError:
        return None


def _with_zone(value: date) -> datetime:
    """Return a moment; dates without a zone are taken for UTC."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _plain(value: Any) -> Any:
    """Return a value without the types of numpy and pandas, None for a missing one or a word that stands for it."""
    if isinstance(value, np.generic):
        value = (value.astype("datetime64[us]") if isinstance(value, np.datetime64) else value).item()
    value = value.to_timestamp() if hasattr(value, "to_timestamp") else value  # a period of pandas: its beginning
    if isinstance(value, str):
        return None if value.strip().lower() in MISSING else value
    value = hashable(value)
    return value if isinstance(value, date | timedelta | Real | Decimal | NoneType) else repr(value)


def _number(value: Any) -> Any:
    """Return a number, of a text that is one, too; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text) is None:
            return None
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if isinstance(value, Real | Decimal) and not isinstance(value, bool) else None


def _of_numbers(numbers: list[Any]) -> Times:
    """Return numbers as they are, or as dates where all are eight digits that make one: 20241231."""
    days = [_eight_digits(number) for number in numbers]
    if days and all(day is not None for day in days):
        return Times([_seconds(day) for day in days], "year, month and day in eight digits", True)
    return Times(numbers, "numbers", False)


def _eight_digits(number: Any) -> datetime | None:
    if not 10**7 <= number < 10**8 or int(number) != number:
        return None
    text = str(int(number))
    return _made(text[:4], text[4:6], text[6:], [None] * 4) if int(text[:4]) in _YEARS else None


def _seconds(moment: datetime | None) -> float:
    assert moment is not None, "readings were checked before"
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()


def _day(seconds: float) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%d}" if seconds % 86_400 == 0 else f"{moment:%Y-%m-%d %H:%M}"


def _check_readable(plain: list[Any], readings: dict[Any, Reading], name: str) -> None:
    """Refuse values that are neither numbers nor dates, and ways of writing that exclude each other."""
    for row, value in enumerate(plain):
        if readings[value] == _NEITHER:
            what = "a number among dates" if _number(value) is not None else "which is neither"
            raise ValueError(
                f"{name} must hold numbers throughout, or dates throughout; row {row} holds {value!r}, {what}. Write "
                "dates as 2024-12-31."
            )
    if way_of(list(readings.values())) == "":
        day, month = (next(row for row, text in enumerate(plain) if readings[text][place] is None) for place in (1, 0))
        raise ValueError(
            f"{name} must hold dates that are written in one way; row {day} holds {plain[day]!r}, which is day first, "
            f"and row {month} holds {plain[month]!r}, which is month first. Write dates as 2024-12-31."
        )


def _decided(plain: list[Any], readings: dict[Any, Reading], name: str, way: Way | None, way_out: str) -> str:
    """Return the way that was asked for; refuse to guess where nobody did."""
    if way is None:
        row = next(row for row, text in enumerate(plain) if readings[text][0] != readings[text][1])
        raise ValueError(
            f"{name} holds dates that may be day first or month first, and no row decides: {plain[row]!r} in row "
            f"{row}, for instance. {way_out}"
        )
    return way


def dates_of(column: Any, how: str) -> Any:
    """Return a column of dates, written so or year first, in UTC; those that cannot be read are missing."""
    way = MONTH_FIRST if how.startswith("%m") else DAY_FIRST if how.startswith("%d") else how  # as older folders say it
    moments: dict[Any, Any] = {}
    for value in column.drop_duplicates().tolist():
        day_first, month_first = readings_of(value)
        chosen = month_first if way == MONTH_FIRST else day_first
        is_open = way not in (DAY_FIRST, MONTH_FIRST) and day_first != month_first
        moments[value] = None if chosen is None or is_open else chosen.astimezone(UTC).replace(tzinfo=None)
    dates = np.array([moments.get(value) for value in column.tolist()], dtype="datetime64[us]")
    return type(column)(dates, index=column.index)
