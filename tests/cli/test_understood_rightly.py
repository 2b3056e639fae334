"""A newcomer's day: a file goes in, and the words that come out are understood rightly."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

import aptset
from aptset.cli.main import main
from shell import run


def easy_file(path, n=3000, seed=0):
    """Write rows that a logistic regression gets right in about 97 of 100 cases."""
    generator = np.random.default_rng(seed)
    y = generator.integers(3, size=n)
    X = generator.normal(size=(n, 3)) + 3.1 * np.eye(3)[y]
    frame = pd.DataFrame(X.round(4), columns=["a", "b", "c"]).assign(kind=np.array(["low", "mid", "top"])[y])
    frame.to_csv(path, index=False)
    return frame


@pytest.fixture(scope="module")
def easy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("easy")
    easy_file(folder / "easy.csv")
    text = run("run", folder / "easy.csv", "--target", "kind", "--out", folder / "results").stdout
    return folder, text


LINE = re.compile(
    r"The model is right in (\S+ %) of these rows, more than the 90 % asked for, so (\S+ %) of the sets are empty\. "
    r"Ask for alpha = (\S+), or for no empty sets \(allow_empty=False, --no-empty\)\."
)


def test_a_model_better_than_asked_for_is_said_once_with_the_level_at_which_it_stops(easy):
    folder, text = easy
    said = LINE.findall(text)
    assert len(said) == 1
    right, _, stops = said[0]
    share = float(right.removesuffix(" %")) / 100
    assert 0.9 < share < 1
    assert 0 < float(stops) <= 1 - share + 0.0005
    again = run("run", folder / "easy.csv", "--target", "kind", "--alpha", stops, "--out", folder / "again").stdout
    assert "asked for, so" not in again, "at that level it stops"


def test_no_empty_on_the_command_line(easy):
    folder, _ = easy
    done = run("run", folder / "easy.csv", "--target", "kind", "--no-empty", "--out", folder / "never", "--json")
    sets = pd.read_parquet(folder / "never" / "sets.parquet")
    assert (sets["size"] >= 1).all()
    assert {"metric": "empty_rate", "value": 0.0}.items() <= next(
        row.items() for row in json.loads(done.stdout)["estimates"] if row["metric"] == "empty_rate"
    )
    assert aptset.load(folder / "never").allow_empty is False
    page = folder / "never.html"
    run("report", folder / "easy.csv", "--target", "kind", "--no-empty", "-o", page)
    assert "get their most likely label" in page.read_text()
    frame = pd.DataFrame({"p_x": [0.99, 0.98, 0.02, 0.5] * 25, "p_z": [0.01, 0.02, 0.98, 0.5] * 25})
    frame.assign(y=["x", "x", "z", "z"] * 25).to_csv(folder / "val.csv", index=False)
    run("calibrate", folder / "val.csv", "--label", "y", "--prefix", "p_", "--no-empty", "-o", folder / "c.aptset")
    assert aptset.load(folder / "c.aptset").allow_empty is False


def test_evaluate_and_the_notebook_say_it_too(easy):
    folder, _ = easy
    sets = pd.read_parquet(folder / "results" / "sets.parquet")
    sets.to_parquet(folder / "sets.parquet")
    text = run("evaluate", folder / "sets.parquet", "--label", "kind", "--alpha", "0.1").stdout
    assert re.search(r"of the sets are empty, since the model seems to be right in more than the 90 % asked for", text)
    assert "--no-empty" in text
    frame = pd.read_csv(folder / "easy.csv")
    X, y = frame[["a", "b", "c"]].to_numpy(), frame["kind"].to_numpy()
    classifier = aptset.ConformalClassifier(LogisticRegression(), random_state=0).fit(X[:1500], y[:1500])
    found = classifier.predict_set(X[1500:])
    known = aptset.evaluate(found, y[1500:], alpha=0.1, probabilities=classifier.predict_proba(X[1500:]))
    assert LINE.search(repr(known)).group(0) == known.advice()
    assert known.advice() in known._repr_html_()
    assert aptset.evaluate(found, y[1500:], alpha=0.02, probabilities=classifier.predict_proba(X[1500:])).advice() == ""


def test_a_hard_data_set_is_not_called_easy():
    """Sets that are empty by chance, under a model that is right less often than asked for, get no such line."""
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([0.3] * 6, size=2000)
    y = (generator.random((2000, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    calibration = aptset.calibrate(chances[:1000], y[:1000], random_state=0)
    sets = calibration.predict_set(chances[1000:], 0.1)
    assert (sets.sizes == 0).any()
    assert aptset.evaluate(sets, y[1000:], alpha=0.1).advice() == ""
    assert aptset.evaluate(sets, y[1000:], alpha=0.1, probabilities=chances[1000:]).advice() == ""


@pytest.mark.parametrize(
    ("wrong", "rows", "n", "level"),
    [
        (27, 1000, None, "0.02"),
        (7, 100, None, "0.07"),
        (1, 3000, None, "0.0003"),
        (5, 1000, 100, None),
        (0, 50, 9, None),
    ],
)
def test_the_level_that_is_offered(wrong, rows, n, level):
    """One digit, not above the share of wrong guesses; none where it would make every set hold every label."""
    chances = np.tile([0.9, 0.1], (rows, 1))
    sets = aptset.PredictionSets.from_mask(np.arange(2 * rows).reshape(rows, 2) == -1)
    y = (np.arange(rows) < wrong).astype(int)
    p_values = np.zeros((rows, 2))
    more = {} if n is None else {"n": n, "p_values": p_values}
    advice = aptset.evaluate(sets, y, alpha=0.1, probabilities=chances, **more).advice()
    assert ("Ask for alpha = " in advice) == (level is not None)
    assert level is None or f"Ask for alpha = {level}," in advice
    assert "--no-empty" in advice
    if level is not None:
        assert aptset.evaluate(sets, y, alpha=float(level), probabilities=chances).advice() == ""


def test_the_report_explains_an_empty_set(easy):
    folder, _ = easy
    page = folder / "report.html"
    text = run("report", folder / "easy.csv", "--target", "kind", "-o", page).stdout
    html = page.read_text()
    assert LINE.search(text)
    assert LINE.search(html)
    assert "no label fits well enough at this level: treat the row as strange" in html
    assert "empty: no label fits well enough" in html


def counted(covered, rows, n, alpha=0.1):
    return aptset.coverage_test(covered=covered, m=rows, n=n, alpha=alpha)


def test_verdicts_are_read_the_right_way_up():
    """82 % of 100 rows is no agreement; 97 % is more than promised; few rows never agree."""
    assert counted(82, 100, 100).state == "few"
    assert (
        counted(82, 100, 100).sentence().startswith("There are too few rows to contradict 90 %: only a coverage below ")
    )
    assert counted(1800, 2000, 2000).state == "agrees"
    assert "level 0.01" in counted(1800, 2000, 2000).sentence()
    assert counted(1940, 2000, 2000).state == "more"
    assert "larger than needed" in counted(1940, 2000, 2000).sentence()
    assert counted(1600, 2000, 2000).state == "less"
    assert counted(1600, 2000, 2000).sentence().startswith("The sets cover less than the promised 90 %")
    assert "every set holds every label" in counted(5, 5, 5).sentence()


@pytest.mark.parametrize(("m", "n", "alpha"), [(69, 100, 0.1), (500, 450, 0.1), (900, 700, 0.02), (40, 30, 0.3)])
def test_the_coverage_that_would_have_contradicted_is_the_one_that_does(m, n, alpha):
    states = [counted(covered, m, n, alpha).state for covered in range(m + 1)]
    least = counted(0, m, n, alpha).least
    assert [state == "less" for state in states] == [covered < round(least * m) for covered in range(m + 1)]
    quiet = {state for state in states if state in ("few", "agrees")}
    assert quiet == ({"few"} if 1 - alpha - least > 0.05 + 1e-9 else {"agrees"})


def test_digits_follow_the_number_of_rows(tmp_path):
    frame = easy_file(tmp_path / "few.csv", 230)
    text = run("run", tmp_path / "few.csv", "--target", "kind", "--out", tmp_path / "out").stdout
    measured = re.search(r"Measured: coverage (.*?), mean size", text).group(1)
    assert len(frame) * 0.3 == 69
    assert re.fullmatch(r"\d+ % \[\d+ %, \d+ %\] \(\d+ of 69\)", measured)
    assert "There are too few rows to contradict 90 %" in text
    assert "NOT agree" not in text


def test_the_report_has_four_states(tmp_path):
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([0.4] * 4, size=8000)
    y = (generator.random((8000, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    calibration = aptset.calibrate(chances[:3000], y[:3000], random_state=0)
    wrong = np.where(np.arange(5000) % 5, y[3000:], (y[3000:] + 1) % 4)
    best = chances[3000:].argmax(axis=1)
    cases = {
        "agrees": (chances[3000:], y[3000:], "Agrees with 90 %"),
        "few": (chances[3000:3069], y[3000:3069], "Too few rows to contradict 90 %"),
        "less": (chances[3000:], wrong, "Covers less than promised"),
        "more": (chances[3000:], best, "Covers more than promised"),
    }
    for state, (rows, labels, headline) in cases.items():
        html = aptset.report(calibration, rows, labels, examples=0).html
        assert f'data-state="{state}"' in html
        assert f'<h2 id="headline">{headline}</h2>' in html
    agreed = aptset.report(calibration, chances[3000:], y[3000:], examples=0).html
    assert re.search(r"a coverage below \S+ % would have contradicted it, a shortfall of \S+ points", agreed)
    few = aptset.report(calibration, *cases["few"][:2], examples=0).html
    assert re.search(r"\d+ of 69 test rows are covered: \d+ % \(95 % interval \d+ % to \d+ %\)", few)


def test_an_audit_names_its_states_and_levels(tmp_path):
    easy_file(tmp_path / "easy.csv", 300)
    text = run(
        "audit",
        tmp_path / "easy.csv",
        "--target",
        "kind",
        "--calibration",
        "split",
        "--repetitions",
        10,
        "--jobs",
        1,
        "-o",
        tmp_path / "a",
    ).stdout
    assert re.search(r"split: Mean coverage \S+ %: (agrees with|too few rows to contradict) 90 %", text)
    assert re.search(r"\(exact p [=<] \S+, level \S+; 95 of 100", text)
    assert re.search(r"No sign of drift \(p = .*; a check warns at p <= 0\.0018\)", text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert CliRunner().invoke(main, ["audit", "--help"]).exit_code == 0
