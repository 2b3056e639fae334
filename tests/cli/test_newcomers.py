"""Stories of people who read the README and have a file: what goes in, and the words that come out."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

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


def typed(n=160, seed=0):
    """Rows whose label is a whole number, and whether it is one."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=n)
    return pd.DataFrame({"x": x.round(3), "y": (x + generator.normal(size=n) > 0).astype(int)})


@pytest.mark.parametrize("kind", ["int64", "bool"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_classes_keep_their_type(command, kind, form):
    """What run stores has the labels of the file, so that a data frame's own labels are covered."""
    rows, new = typed().astype({"y": kind}), typed(80, 1).astype({"y": kind})
    getattr(rows, f"to_{form}")(f"rows.{form}", index=False)
    new.to_csv("new.csv", index=False)
    command("run", f"rows.{form}", "--target", "y", "--out", "results")
    classifier = aptset.load("results")
    assert classifier.classes_.dtype == kind
    assert classifier.predict_set(new[["x"]]).covers(new["y"]).mean() > 0.5
    command("predict", "new.csv", "-c", "results", "-o", "sets.csv")
    judged = json.loads(command("evaluate", "sets.csv", "--label", "y", "--json").stdout)
    assert judged["estimates"][0]["value"] > 0.5


def test_labels_that_no_class_can_equal_are_refused():
    sets = aptset.PredictionSets.from_labels([["0"], ["1"]], ["0", "1"])
    for call in (sets.covers, lambda labels: aptset.evaluate(sets, labels)):
        with pytest.raises(TypeError, match="labels are int64 such as 0, 1, classes are texts such as '0', '1'"):
            call(np.array([0, 1]))
    evaluation = aptset.evaluate(sets, ["0", "x"])
    assert evaluation.remarks == ("1 of 2 labels is unknown to the model: 'x'. No set can hold it.",)
    assert evaluation.remarks[0] in repr(evaluation)


@pytest.mark.parametrize("kind", ["int", "bool", "text"])
def test_labels_that_are_no_class_are_counted_and_named(command, kind):
    """Two of 97 labels are new to the model: every command that compares sets with labels says so."""
    names = {"int": [0, 1], "bool": [False, True], "text": ["no", "yes"]}[kind]
    other = {"int": 7, "bool": "maybe", "text": "maybe"}[kind]
    for name, rows in (("rows", typed()), ("new", typed(97, 1))):
        labels = [names[label] for label in rows["y"]]
        labels = [other, other, *labels[2:]] if name == "new" else labels
        rows.assign(y=np.array(labels, dtype=object)).to_csv(f"{name}.csv", index=False)
    command("run", "rows.csv", "--target", "y", "--out", "results")
    command("predict", "new.csv", "-c", "results", "-o", "sets.csv")
    said = f"2 of 97 labels are unknown to the model: {other!r}"
    for name in ("evaluate", "report", "audit", "monitor"):
        options = ("--repetitions", 3, "--jobs", 1) if name == "audit" else ()
        text = command(name, "new.csv", "-c", "results", *options).stdout
        assert said in text.replace("'7'", "7"), name
    for page in ("report.html", "aptset-audit/audit.html"):
        assert said in Path(page).read_text(encoding="utf-8").replace("&#39;", "'")
    assert said in command("evaluate", "sets.csv", "-c", "results").stdout.replace("'7'", "7")


def test_an_audit_names_labels_that_its_model_cannot_know():
    rows, new = typed(), typed(97, 1).astype({"y": object})
    new.loc[:1, "y"] = 7
    new = new.astype({"y": int})
    fitted = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(rows[["x"]], rows["y"])
    audited = aptset.audit(fitted, new[["x"]], new["y"], repetitions=3)
    first, last = (f"2 of 97 labels are unknown to the model: 7.{more}" for more in (" Each split fits", " The model"))
    assert audited.remarks[0].startswith(first)
    assert audited.remarks[0] in repr(audited)
    assert audited.remarks[0] in audited._repr_html_()
    frozen = aptset.ConformalClassifier(FrozenEstimator(GaussianNB().fit(rows[["x"]], rows["y"])))
    assert aptset.audit(frozen, new[["x"]], new["y"], repetitions=3).remarks[0].startswith(last)
    assert aptset.audit(fitted, rows[["x"]], rows["y"], repetitions=3).remarks == ()
    with pytest.raises(TypeError, match="y are texts such as '0', '1', classes are int64"):
        aptset.audit(fitted, rows[["x"]], rows["y"].astype(str), repetitions=3)


def test_an_audit_counts_test_labels_that_no_training_row_has():
    """One row has a label of its own: wherever it tests, no set can hold its label."""
    rows = typed(60)
    rows.loc[0, "y"] = 2
    audited = aptset.audit(GaussianNB(), rows[["x"]], rows["y"], calibrations="split", repetitions=8)
    tests = sum(part.rows for one in audited.splits.of("split") for part in one.parts if part.name == "2")
    said = f"{tests} of 144 test labels, over all splits, are in no training row of their split: 2."
    assert tests > 1
    assert audited.remarks[0].startswith(said)


def test_every_command_that_reads_labels_can_leave_rows_without_one_out(command):
    """Late outcomes are the normal state of a file: rows without a label are counted, and do not change the others."""
    from click.testing import CliRunner

    from aptset.cli.main import main

    readers = ("run", "calibrate", "evaluate", "report", "audit", "compare", "monitor")
    for name in readers:
        assert "--skip-unlabelled" in CliRunner().invoke(main, [name, "--help"]).output, name
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([1, 1], 120)
    frame = pd.DataFrame(chances, columns=["p_a", "p_b"]).assign(who=np.arange(120) // 3)
    frame["y"] = np.where(generator.random(120) < chances[:, 0], "a", "b")
    frame.loc[::10, "y"] = None
    frame.to_csv("late.csv", index=False)
    frame.dropna().to_csv("known.csv", index=False)
    options = ("--label", "y", "--prefix", "p_")
    assert "Pass --skip-unlabelled" in command("calibrate", "late.csv", *options, "-o", "cal.aptset", rc=1).stderr
    for more in ((), ("--cluster", "who"), ("--accept",), ("--conformity", "auto")):
        text = command("calibrate", "late.csv", *options, *more, "-o", "late.aptset", "--skip-unlabelled").stdout
        assert text.startswith("12 of 120 rows have no label and are left out.\n")
        command("calibrate", "known.csv", *options, *more, "-o", "known.aptset")
        late, known = (aptset.load(f"{name}.aptset") for name in ("late", "known"))
        if "--accept" in more:
            assert (late.n, late.n_wrong) == (known.n, known.n_wrong)
        else:
            assert (late.threshold(0.1), late.n) == (known.threshold(0.1), known.n)
    frame.loc[5, "p_a"] = 7.0
    frame.to_csv("late.csv", index=False)
    said = command("calibrate", "late.csv", *options, "-o", "x.aptset", "--skip-unlabelled", rc=1).stderr
    assert "late.csv: " in said
    assert "row 5" in said
    frame.assign(y=None).to_csv("none.csv", index=False)
    said = command("calibrate", "none.csv", *options, "-o", "x.aptset", "--skip-unlabelled", rc=1).stderr
    assert "none.csv must have rows with a label; it has 120 rows, and none of them has one." in said


def test_a_comparison_says_how_many_rows_it_left_out(command):
    rows = typed().astype({"y": object})
    rows.loc[::10, "y"] = None
    rows.to_csv("rows.csv", index=False)
    options = ("--target", "y", "--skip-unlabelled", "--repetitions", 3, "--jobs", 1)
    for name, more in (("compare", ("--model", "logistic", "--model", "bayes")), ("audit", ("--calibration", "split"))):
        assert "16 of 160 rows have no label and are left out." in command(name, "rows.csv", *options, *more).stdout
        page = Path(f"aptset-{name}/{name}.html").read_text(encoding="utf-8")
        assert "16 of 160 rows have no label and are left out." in page


def test_a_monitor_makes_the_sets_of_raw_rows_itself(command):
    """The folder of a run and rows with labels are enough; a log that grows goes on behind what was seen."""
    rows = typed(200).assign(site=["north", "south"] * 100)
    rows.to_csv("rows.csv", index=False)
    command("run", "rows.csv", "--target", "y", "--groups", "site", "--out", "results")
    new = typed(120, 1).assign(site=["north", "south"] * 60)
    new.to_csv("new.csv", index=False)
    command("predict", "new.csv", "-c", "results", "-o", "sets.csv")
    at_once = command("monitor", "new.csv", "-c", "results").stdout
    assert command("monitor", "sets.csv", "-c", "results").stdout == at_once
    for n_rows in (50, 120):
        new[:n_rows].to_csv("log.csv", index=False)
        text = command("monitor", "log.csv", "-c", "results", "--state", "state.aptset").stdout
    assert text == at_once
    command("run", "rows.csv", "--target", "y", "--calibration", "cv+", "--out", "folds")
    said = command("monitor", "new.csv", "-c", "folds", rc=1).stderr
    assert "Make one with `aptset run --calibration split`." in said
    command("predict", "new.csv", "-c", "folds", "-o", "sets.csv")
    assert "coverage" in command("evaluate", "sets.csv", "-c", "folds").stdout


def test_rows_without_a_label_are_left_out_on_request(command):
    rows = typed().astype({"y": object})
    rows.loc[::10, "y"] = None
    rows.to_csv("rows.csv", index=False)
    said = command("run", "rows.csv", "--target", "y", rc=1).stderr
    assert "the label is missing, as in 16 of 160 rows. Pass --skip-unlabelled" in said
    text = command("run", "rows.csv", "--target", "y", "--skip-unlabelled", "--out", "results").stdout
    assert "16 of 160 rows have no label and are left out." in text
    command("report", "rows.csv", "-c", "results", "--skip-unlabelled", "-o", "page.html")
    assert "16 of 160 rows have no label and are left out." in Path("page.html").read_text(encoding="utf-8")


def test_numbers_as_people_write_them(command):
    generator = np.random.default_rng(0)
    x = generator.normal(2000, 700, 120).round(2)
    rows = pd.DataFrame({"german": [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in x]})
    rows["english"] = [f"{v:,.2f}" for v in x]
    rows["share"] = [f"{v / 100:.1f}%" for v in x]
    rows["price"] = [f"\u20ac{v:.0f}" for v in x]
    rows["some"] = ["unknown" if k % 7 == 0 else v for k, v in enumerate(x)]
    rows["open"] = [f"{1 + k % 9},{100 + k:03}" for k in range(len(x))]
    rows["y"] = np.where(x + generator.normal(size=120) * 700 > 2000, "high", "low")
    rows.to_csv("rows.csv", index=False)
    text = command("run", "rows.csv", "--target", "y", "--out", "results").stdout
    numbers = next(line for line in text.splitlines() if line.startswith("  numbers"))
    for word in ("german (written as 1.234,5)", "english (written as 1,234.5)", "share", "price", "some (18 missing)"):
        assert word in numbers
    assert "left out   open: looks like numbers with thousands separators or decimal commas" in text
    text = command("run", "rows.csv", "--target", "y", "--thousands", ",", "--drop", "german").stdout
    assert "open (written as 1,234.5)" in text
    command("predict", "rows.csv", "-c", "results", "-o", "sets.csv")
    assert pd.read_csv("sets.csv", dtype=str)["german"].tolist() == rows["german"].tolist()


def test_labels_alike_and_columns_that_give_them_away(tmp_path):
    from shell import run_process

    rows = typed()
    rows["y"] = np.array(["no", "yes"])[rows["y"]]
    rows["copy"] = rows["y"].map({"no": 0, "yes": 1})
    rows.loc[:5, "y"] = "Yes "
    rows.to_csv(tmp_path / "rows.csv", index=False)
    said = run_process("run", "rows.csv", "--target", "y", cwd=tmp_path).stderr
    assert "labels differ only in case or blanks: 'Yes ' and 'yes'" in said
    rows = rows[6:]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    said = run_process("run", "rows.csv", "--target", "y", cwd=tmp_path).stderr
    assert "the column gives the label 'y' away: copy." in said
    assert "pass --drop 'copy'" in said


def test_types_and_dialects_travel_along(command):
    rows = typed()
    rows["code"], rows["price"] = [f"{k:03}" for k in range(len(rows))], [f"{k},50" for k in range(len(rows))]
    rows.to_csv("rows.csv", index=False, sep=";", encoding="latin-1")
    command("run", "rows.csv", "--target", "y", "--out", "results")
    command("predict", "rows.csv", "-c", "results", "-o", "sets.parquet")
    kinds = pd.read_parquet("sets.parquet").dtypes.astype(str)
    assert (kinds["x"], kinds["y"], kinds["price"]) == ("float64", "int64", "float64")
    assert pd.read_parquet("sets.parquet")["code"].tolist() == rows["code"].tolist()
    command("predict", "rows.csv", "-c", "results", "-o", "sets.csv", "--same-dialect")
    written = pd.read_csv("sets.csv", sep=";", dtype=str)
    assert written["price"].tolist() == rows["price"].tolist()
    rows[:0].to_csv("none.csv", index=False, sep=";")
    for out in ("none-sets.csv", "none-sets.parquet"):
        assert command("predict", "none.csv", "-c", "results", "-o", out).stdout.startswith("0 sets")
    assert pd.read_parquet("none-sets.parquet").columns[-2:].tolist() == ["size", "set"]


def test_labels_with_commas_are_quoted_where_they_are_shown():
    sets = aptset.PredictionSets.from_labels([["a, b", "c\nd"]], ["a, b", "c\nd"])
    assert repr(sets).splitlines()[1] == "  0  {'a, b', 'c\\nd'}"


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_share_that_tests_can_be_chosen(command, share):
    typed().to_csv("rows.csv", index=False)
    text = command("run", "rows.csv", "--target", "y", "--test-share", share).stdout
    assert f", {round(160 * share)} test." in text


def test_the_folder_of_a_run_goes_everywhere(command):
    """One folder, made of a file in Latin-1 with semicolons and decimal commas, is all that later commands need."""
    rows = typed(200)
    rows["x"] = [f"{x:.2f}".replace(".", ",") for x in rows["x"]]
    rows["ort"] = ["K\u00f6ln", "Bonn"] * 100
    rows.to_csv("rows.csv", index=False, sep=";", encoding="latin-1")
    command("run", "rows.csv", "--target", "y", "--encoding", "latin-1", "--out", "results")
    for name in ("predict", "evaluate", "monitor", "report", "audit"):
        options = ("-o", "out.csv") if name == "predict" else ()
        assert "Error: nothing: no such folder." in command(name, "rows.csv", "-c", "nothing", *options, rc=1).stderr
    command("predict", "rows.csv", "-c", "results", "-o", "sets.csv", "--same-dialect")
    assert pd.read_csv("sets.csv", sep=";", encoding="latin-1")["ort"].tolist() == rows["ort"].tolist()
    raw, sets = (command("evaluate", name, "-c", "results").stdout for name in ("rows.csv", "sets.csv"))
    assert raw.splitlines()[1] == sets.splitlines()[1]
    assert "of 200 rows missed" in command("monitor", "sets.csv", "-c", "results").stdout
    assert "Evaluation of 200 prediction sets" in command("report", "rows.csv", "-c", "results").stdout
    text = command("audit", "rows.csv", "-c", "results", "--repetitions", 3, "--jobs", 1).stdout
    assert "as given: Mean coverage" in text
    unknown = pd.read_csv("sets.csv", sep=";", encoding="latin-1", dtype=str)
    unknown.loc[:1, "y"] = "7"
    unknown.loc[2, "y"] = None
    unknown.to_csv("late.csv", index=False)
    assert (
        "the label is missing. Pass --skip-unlabelled" in command("evaluate", "late.csv", "-c", "results", rc=1).stderr
    )
    for name in ("evaluate", "monitor"):
        text = command(name, "late.csv", "-c", "results", "--skip-unlabelled").stdout
        assert "1 of 200 rows has no label and is left out." in text
        assert "2 of 199 labels are unknown to the model: '7'" in text


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_of_the_library_that_came_in(library):
    kind = pytest.importorskip(library)
    rows = typed()
    X = rows[["x"]] if library == "pandas" else {"polars": "DataFrame", "pyarrow": "table"}[library]
    X = X if library == "pandas" else getattr(kind, X)({"x": rows["x"].to_numpy()})
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(rows[["x"]], rows["y"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a frame of another library than that of fit, which some models mention
        frames = (classifier.predict_frame(X), classifier.predict_set(X).to_frame(), classifier.p_frame(X))
    assert {type(frame).__module__.split(".")[0] for frame in frames} == {library}


def test_a_load_during_a_save_reads_again(tmp_path, monkeypatch):
    """The models of the old folder go while it is being read: what was saved in the meantime is loaded."""
    import aptset.estimator.storage as loading

    rows = typed()
    folder = tmp_path / "model"
    for seed in (0, 1):
        model = aptset.ConformalClassifier(GaussianNB(), random_state=seed).fit(rows[["x"]], rows["y"])
        model.save(folder) if seed == 0 else None
    read, saves = loading._model_bytes, [model]

    def slow(*arguments):
        while saves:
            saves.pop().save(folder)
            raise FileNotFoundError("models are gone")
        return read(*arguments)

    monkeypatch.setattr(loading, "_model_bytes", slow)
    assert aptset.load(folder).random_state == 1
    saves = []
    monkeypatch.setattr(loading, "_model_bytes", lambda *_: (_ for _ in ()).throw(FileNotFoundError("gone for good")))
    with pytest.raises(FileNotFoundError, match="gone for good"):
        aptset.load(folder)


def test_an_order_of_labels_that_are_numbers(command):
    typed().to_csv("rows.csv", index=False)
    command("run", "rows.csv", "--target", "y", "--conformity", "ordered", "--order", "1,0", "--out", "results")
    assert list(aptset.load("results").classes_) == [0, 1]


def test_what_a_newcomer_from_cologne_tripped_over(command):
    """A file in CP1252 with dates that are features, late labels, and names that are not there."""
    rows = typed(120).assign(
        tag=pd.date_range("2022-01-03", periods=120, freq="2D").strftime("%d.%m.%Y"), ort="K\u00f6ln"
    )
    rows = rows.astype({"y": object})
    rows.loc[3, "y"] = None
    rows.to_csv("rows.csv", index=False, sep=";", encoding="cp1252")
    command("run", "rows.csv", "--target", "y", "--encoding", "cp1252", "--skip-unlabelled", "--out", "results")
    assert "rows (" in command("accept", "rows.csv", "-c", "results", "-o", "decided.csv").stdout
    said = command("monitor", "rows.csv", "-c", "results", rc=1).stderr
    assert "Pass --mature to wait for labels that are not known yet, or --skip-unlabelled" in said
    rows.drop(columns="y").to_csv("new.csv", index=False, sep=";", encoding="cp1252")
    said = command("monitor", "new.csv", "-c", "results", rc=1).stderr
    assert "new.csv must have the labels, in a column 'y'" in said
    for name in ("inspect", "accept"):
        options = () if name == "inspect" else ("rows.csv", "-c")
        assert "nothing: no such folder." in command(name, *options, "nothing", rc=1).stderr
    options = ("--time", "tag", "--skip-unlabelled", "--repetitions", 3, "--jobs", 1)
    text = command("audit", "rows.csv", "-c", "results", *options).stdout
    assert "No sign of drift" in text  # though the column of times, which is a feature of the model, rises
