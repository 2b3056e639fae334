"""Stories of people who read the README and have a file: what goes in, and the words that come out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import aptset


def visits(n=400, seed=0, turn=0.7):
    """Rows whose labels change their meaning after a while; each has the day on which it came."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 2))
    y = (x[:, 0] > 0).astype(int)
    y[int(turn * n) :] = 1 - y[int(turn * n) :]
    days = pd.date_range("2020-01-01", periods=n, freq="3D")
    return pd.DataFrame({"a": x[:, 0].round(3), "b": x[:, 1].round(3), "y": np.array(["no", "yes"])[y], "day": days})


@pytest.mark.parametrize(
    ("form", "how"), [("%Y-%m-%d", "year first"), ("%d.%m.%Y", "day first"), ("%m/%d/%Y", "month first")]
)
def test_time_that_is_text_is_ordered_as_time(command, form, how):
    """The same drifting rows, shuffled, are told from the same words, however their days are written."""
    rows = visits()
    first, last = rows["day"].min(), rows["day"].max()
    rows["day"] = rows["day"].dt.strftime(form)
    rows.sample(frac=1, random_state=0).to_csv("visits.csv", index=False)
    options = ("--repetitions", 5, "--calibration", "split", "--jobs", 1)
    text = command("audit", "visits.csv", "--target", "y", "--time", "day", *options).stdout
    assert "Drift: The rows do not look exchangeable" in text
    read = f"read as {how}, {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    assert read in text
    assert read in Path("aptset-audit/audit.html").read_text(encoding="utf-8")


def test_a_day_that_may_be_a_month_is_not_guessed(command):
    rows = visits(120)
    rows["day"] = [f"{1 + row % 12:02}/{1 + row // 12:02}/2021" for row in range(len(rows))]
    rows.to_csv("visits.csv", index=False)
    options = ("--target", "y", "--time", "day", "--repetitions", 3, "--calibration", "split", "--jobs", 1)
    said = command("audit", "visits.csv", *options, rc=1).stderr
    assert "visits.csv, column 'day' holds dates that may be day first or month first" in said
    assert "Pass --dates day-first, or --dates month-first." in said
    text = command("audit", "visits.csv", *options, "--dates", "month-first").stdout
    assert "read as month first, 2021-01-01 to 2021-12-10" in text
    rows["day"] = ["soon", *rows["day"][1:]]
    rows.to_csv("visits.csv", index=False)
    assert "row 0 holds 'soon', which is neither" in command("audit", "visits.csv", *options, rc=1).stderr
    text = command("run", "visits.csv", "--target", "y", "--drop", "b").stdout
    assert "left out   day: dates" in text


def test_no_sign_has_its_level_beside_it(command):
    """A p-value without the level that it is held against says nothing to a reader."""
    visits(150, turn=1).to_csv("visits.csv", index=False)
    options = ("--target", "y", "--repetitions", 3, "--calibration", "split", "--jobs", 1)
    text = command("audit", "visits.csv", *options).stdout
    assert "a check warns at p <= 0.0018" in text


def test_a_monitor_reads_days_as_an_audit_does(command):
    """Outcomes in any order, with the day first: they are judged in the order of their days, and the words say so."""
    frame = pd.DataFrame({"p_a": [0.8, 0.3, 0.6] * 20, "p_b": [0.2, 0.7, 0.4] * 20, "y": list("aba") * 20})
    frame.to_csv("val.csv", index=False)
    command("calibrate", "val.csv", "--label", "y", "--prefix", "p_", "-o", "cal.aptset")
    command("predict", "val.csv", "-c", "cal.aptset", "-o", "sets.csv", "--prefix", "p_")
    sets = pd.read_csv("sets.csv")
    sets["asked"] = pd.date_range("2021-01-01", periods=len(sets), freq="7D").strftime("%d/%m/%Y")
    sets.sample(frac=1, random_state=0).to_csv("log.csv", index=False)
    options = ("--label", "y", "-c", "cal.aptset", "--time", "asked", "--mature", "30d")
    text = command("monitor", "log.csv", *options).stdout
    assert "Column 'asked' was read as day first, 2021-01-01 to 2022-02-18." in text
    sets["asked"] = pd.date_range("2021-01-01", periods=len(sets), freq="7D").strftime("%Y-%m-%d")
    sets.sample(frac=1, random_state=0).to_csv("log.csv", index=False)
    assert command("monitor", "log.csv", *options).stdout.partition("Column")[0] == text.partition("Column")[0]


def test_a_monitor_in_python_takes_days_with_the_year_first_alone():
    """Call by call nobody would know that the first call had the day first."""
    monitor = aptset.CoverageMonitor(1000, 0.1, mature=pd.Timedelta(days=1).to_pytimedelta())
    monitor.update(covered=[True, True], time=["2021-01-01", "2021-01-02"])
    with pytest.raises(ValueError, match=r"got texts day first. Pass pandas.to_datetime\(column, dayfirst=True\)"):
        monitor.update(covered=[True], time=["15.01.2021"])
