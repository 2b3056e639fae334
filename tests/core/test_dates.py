"""Times as people write them are read by one function, and never guessed."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aptset.core.dates import read_times

DAYS = st.lists(st.dates(date(1970, 1, 1), date(2100, 12, 31)), min_size=1, max_size=20)
WAYS = {
    "year first": ["%Y-%m-%d", "%Y/%m/%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
    "day first": ["%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y %H:%M", "%d/%m/%y"],
    "month first": ["%m/%d/%Y", "%m-%d-%Y", "%m/%d/%Y %I:%M %p", "%m/%d/%y"],
    "dates": ["%d %b %Y", "%B %d, %Y", "%d-%b-%Y"],
}


def seconds(days):
    return [datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() for day in days]


@pytest.mark.parametrize(("how", "form"), [(how, form) for how, forms in WAYS.items() for form in forms])
@given(days=DAYS)
def test_what_is_written_is_read(how, form, days):
    """A day after the 12th decides between day and month first; then every row is the date that was written."""
    years = [day for day in days if not form.endswith("%y") or 1970 <= day.year < 2069]
    written = [*years, date(2024, 12, 31)]
    times = read_times([f"{day:{form}}" for day in written], "time")
    assert times.how == how
    assert times.keys == seconds(written)
    assert times.words() == f"{how}, {min(written)} to {max(written)}"


@given(days=DAYS)
def test_one_way_must_fit_all_rows_and_only_one(days):
    """Read in every way by hand: two ways that differ are refused unless the caller says which; none is refused."""
    texts = [f"{day:%d/%m/%Y}" for day in days]
    swapped = [(day.day <= 12, None if day.day > 12 else date(day.year, day.day, day.month)) for day in days]
    if all(fits for fits, _ in swapped) and [other for _, other in swapped] != days:
        with pytest.raises(ValueError, match="may be day first or month first, and no row decides"):
            read_times(texts, "time")
        assert read_times(texts, "time", "month first").keys == seconds([other for _, other in swapped])
    assert read_times(texts, "time", "day first").keys == seconds(days)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([3, 1.5], "numbers, 1.5 to 3"),
        (["10", "9"], "numbers, 9 to 10"),
        ([20201231, 20210101], "year, month and day in eight digits, 2020-12-31 to 2021-01-01"),
        ([date(2020, 1, 1), datetime(2020, 1, 2, 3)], "dates, 2020-01-01 to 2020-01-02 03:00"),
        (list(np.array(["2021-01-01", "2021-01-02"], dtype="datetime64[ns]")), "dates, 2021-01-01 to 2021-01-02"),
        (pd.period_range("2021-01", periods=2, freq="M").tolist(), "dates, 2021-01-01 to 2021-02-01"),
        ([timedelta(days=1), timedelta(days=2)], "numbers, 86400 to 172800"),
        (["2021-01-01T00:00+02:00", "2021-01-01"], "year first, 2020-12-31 22:00 to 2021-01-01"),
        (["31.12.2020", "2021-06-01"], "day first, 2020-12-31 to 2021-06-01"),
        (["03/03/2021"], "dates, 2021-03-03 to 2021-03-03"),
    ],
)
def test_numbers_and_dates_in_words(values, words):
    assert read_times(values, "time").words() == words


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2021-01-01", "soon"], "row 1 holds 'soon', which is neither"),
        (["2021-01-01", 7], "row 1 holds 7, a number among dates"),
        (["31/12/2021", "12/31/2021"], "row 0 holds '31/12/2021', which is day first, and row 1 .*'12/31/2021'"),
        (["2021-01-01", "NA"], "must not have missing values; row 1 has none"),
        ([1.0, float("nan")], "must not have missing values; row 1 has none"),
        ([True, False], "row 0 holds True, which is neither"),
        (["30.02.2021"], "row 0 holds '30.02.2021', which is neither"),
        (["15-01-21"], "which is neither"),
        (["12:30", "13:30"], "which is neither"),
        ([[1], [2]], "which is neither"),
    ],
)
def test_what_is_neither_is_refused_by_its_row(values, message):
    with pytest.raises(ValueError, match=message):
        read_times(values, "time")


def test_parts_of_seconds_count_in_every_way_of_writing():
    for form in ("2021-01-15 10:00:{}", "01/15/2021 10:00:{}", "15.01.2021 10:00:{}", "15 Jan 2021 10:00:{}"):
        times = read_times([form.format(second) for second in ("00.75", "00.250001", "59.5")], "time").keys
        assert [round(time % 60, 6) for time in times] == [0.75, 0.250001, 59.5]


def test_a_word_that_only_begins_like_a_month_is_none():
    assert read_times(["3 Sept 2021", "4 September 2021", "5 sep. 2021"], "time").words().endswith("to 2021-09-05")
    for word in ("Marzipan", "Junk", "Mayo", "Decade"):
        with pytest.raises(ValueError, match="neither"):
            read_times([f"3 {word} 2021", "12 Feb 2020"], "time")


def test_fractions_are_numbers():
    assert read_times([Fraction(1, 2), Fraction(1, 4)], "time").words() == "numbers, 0.25 to 0.5"
