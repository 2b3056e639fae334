"""A stranger's table: semicolons, UTF-16, decimal commas, dates in two ways, many columns, names nearly the same."""

import csv
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from aptset.cli.main import main
from aptset.core.dates import readings_of, way_of


def german(day):
    return f"{day[8:10]}.{day[5:7]}.{day[:4]}"


def patients(n, seed):
    """Columns as texts, as a program would export them."""
    generator = np.random.default_rng(seed)
    age, smoker = generator.normal(50, 15, n), generator.choice(["nein", "ja", "früher"], n)
    risk = (age - 50) / 15 + 1.5 * (smoker == "ja") + generator.normal(size=n) / 2
    y = np.select([risk < -0.3, risk < 1], ["gesund", "mild"], "schwer é").astype(object)
    if n > 100:
        y[5], y[10:12], y[20:23] = "einmal", "zweimal", "dreimal"
    days = [str(np.datetime64("2022-01-01") + int(day)) for day in generator.integers(0, 900, n)]
    columns = {
        "Patienten-ID": [f"P{seed}{k:05d}" for k in range(n)],
        "Alter (Jahre)": ["" if generator.random() < 0.1 else f"{a:.1f}".replace(".", ",") for a in age],
        "raucher": ["" if generator.random() < 0.05 else one for one in smoker],
        "aufgenommen": [german(day) for day in days],
        "entlassen": [german(day) if k % 3 else day for k, day in enumerate(days)],
        "unklar": [f"{day[5:7]}/{1 + k % 12:02d}/{day[:4]}" for k, day in enumerate(days)],
        "Diagnose": generator.choice(["alt", ""], n).tolist(),
        "leer": [""] * n,
        "Notiz": [f'Zeile {k}\nmit "Zitat"; {"lang " * (k % 40)}' for k in range(n)],
    }
    columns |= {f"m{j:02d} ☃": [f"{v:.2f}".replace(".", ",") for v in generator.normal(size=n)] for j in range(50)}
    return columns | {"diagnose": y.tolist()}


def write(path, columns, encoding="utf-16", names=None):
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\r\n")
        writer.writerow(names or list(columns))
        writer.writerows(zip(*columns.values(), strict=True))
        file.write("\r\n\r\n")


@pytest.fixture
def command(monkeypatch, tmp_path):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "patients.csv", patients(300, 1))

    def call(*arguments, rc=0, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
        assert done.exit_code == rc, done.output
        return done

    return call


RUN = ("run", "patients.csv", "--target", "diagnose", "--model", "bayes", "--out", "model")


def test_the_story(command, tmp_path):
    done = command(*RUN)
    assert "read as UTF-16, columns separated by semicolons; numbers have decimal commas." in done.stderr
    assert "dates      aufgenommen (day first, " in done.stdout
    assert ": as year, month and age in days" in done.stdout
    assert "left out   unklar: dates that may be day first or month first: pass --dates day-first" in done.stdout
    assert "look twice Diagnose: called as the target is; if it tells the label, pass --drop 'Diagnose'" in done.stdout
    new = patients(60, 2)
    new["raucher"][0], new["diagnose"][3], new["Zusatz"] = "E-Zigarette", "ganz neu", ["x"] * 60
    write(tmp_path / "new.csv", dict(sorted(new.items(), key=lambda item: item[0][::-1])), "utf-8-sig")
    command("predict", "new.csv", "-c", "model", "-o", "sets.csv")
    found = pd.read_csv("sets.csv", dtype=str, keep_default_na=False)
    assert found["Patienten-ID"].tolist() == new["Patienten-ID"], "no row is lost, none moves"
    assert found["Notiz"].tolist() == new["Notiz"]
    told = command("evaluate", "sets.csv", "--label", "diagnose", "--alpha", 0.1).stdout
    assert "for ganz neu" in told, "a label that nobody knew is missed, and said to be"
    command("report", "new.csv", "-c", "model", "-o", "page.html")
    assert "ganz neu" in (tmp_path / "page.html").read_text()


def test_sets_that_another_program_saved_are_judged_too(command, tmp_path):
    command(*RUN)
    command("predict", "patients.csv", "-c", "model", "-o", "sets.csv")
    plain = command("evaluate", "sets.csv", "--label", "diagnose", "--json").stdout
    with (tmp_path / "sets.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    with (tmp_path / "saved.csv").open("w", encoding="utf-16", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    assert command("evaluate", "saved.csv", "--label", "diagnose", "--json").stdout == plain


def test_messages_speak_of_the_file_that_the_user_named(command, tmp_path):
    command(*RUN)
    columns = patients(300, 1)
    write(tmp_path / "twice.csv", columns, names=["raucher" if name == "leer" else name for name in columns])
    told = command("run", "twice.csv", "--target", "diagnose", rc=1).stderr.splitlines()[-1]
    assert told == (
        "Error: twice.csv must have distinct column names; more than once: 'raucher'. Rename or delete one of each."
    )
    del columns["Alter (Jahre)"]
    columns["alter (jahre)"] = columns["leer"]
    write(tmp_path / "short.csv", columns)
    told = command("predict", "short.csv", "-c", "model", "-o", "sets.csv", rc=1).stderr.splitlines()[-1]
    assert told.startswith(
        "Error: short.csv must have the columns that the model was trained on; missing: Alter (Jahre)"
    )
    assert told.endswith("Did you mean 'alter (jahre)'?")
    told = command("run", "-", "--target", "DIAGNOSE", rc=1, input=(tmp_path / "patients.csv").read_bytes()).stderr
    assert "Error: standard input must have a column 'DIAGNOSE'" in told
    assert told.rstrip().endswith("Did you mean 'diagnose'?")


@pytest.mark.parametrize(
    ("texts", "how"),
    [
        (["2023-12-31", "2024-01-01"], "year first"),
        (["31.12.2023", "01.01.2024"], "day first"),
        (["31.12.2023", "2024-01-01"], "day first"),
        (["31/12/2023", "01/01/2024"], "day first"),
        (["12/31/2023", "01/01/2024"], "month first"),
        (["01/02/2023", "01/01/2024"], None),
        (["31/12/2023", "12/31/2023"], ""),
        (["31.12.2023", "12/31/2023"], ""),
    ],
)
def test_dates_are_read_only_where_there_is_one_way(texts, how):
    assert way_of([readings_of(text) for text in texts]) == how
