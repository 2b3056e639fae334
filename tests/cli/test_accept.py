"""The command that says on which rows to act: files in, decisions out, as the library says."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import aptset
from aptset.cli.main import main

CLASSES = ["ant", "bee", "cow"]
generator = np.random.default_rng(5)
P = generator.dirichlet([0.15] * 3, size=1500).round(9)
P[:, 2] = 1 - P[:, 0] - P[:, 1]
P = np.abs(P)
Y = np.array(CLASSES)[(P.cumsum(axis=1) < generator.random((1500, 1))).sum(axis=1).clip(0, 2)]
REGION = np.array(["north", "south"])[np.arange(1500) % 2]


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, done.output + done.stderr
    return done


@pytest.fixture
def files(tmp_path):
    table = pd.DataFrame(P, columns=[f"p_{name}" for name in CLASSES]).assign(y=Y, region=REGION)
    table[:1000].to_csv(tmp_path / "old.csv", index=False)
    table[1000:].drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    table[1000:].drop(columns="y").to_parquet(tmp_path / "new.parquet")
    return tmp_path


def learned(files, *more):
    run(
        "calibrate", files / "old.csv", "--label", "y", "--prefix", "p_", "--accept", "-o", files / "rows.aptset", *more
    )
    return files / "rows.aptset"


def test_a_batch_and_a_threshold_are_those_of_the_library(files):
    rows = learned(files)
    rule = aptset.learn_acceptance(P[:1000], Y[:1000], classes=CLASSES, random_state=0)
    asked = ["accept", files / "new.csv", "-c", rows, "--prefix", "p_", "--error", "0.1"]
    run(*asked, "-o", files / "batch.csv")
    made = pd.read_csv(files / "batch.csv")
    assert made.act.tolist() == rule.accept(P[1000:], 0.1).tolist()
    assert made.guess.tolist() == np.array(CLASSES)[P[1000:].argmax(axis=1)].tolist()
    assert list(made.columns) == ["region", "act", "guess"]
    done = run(*asked, "--assurance", "0.9", "-o", files / "stream.parquet", "--json")
    told = json.loads(done.stdout)
    threshold = rule.threshold(0.1, 0.9)
    assert pd.read_parquet(files / "stream.parquet").act.tolist() == threshold.accept(P[1000:]).tolist()
    assert told["promise"] == threshold.sentence()
    assert told["acted"] == threshold.accept(P[1000:]).sum() > 0


def test_without_a_file_decisions_go_to_standard_output(files):
    done = run("accept", files / "new.csv", "-c", learned(files), "--prefix", "p_", "--error", "0.1")
    assert done.stdout.splitlines()[0] == '"region","act","guess"'
    assert len(done.stdout.splitlines()) == 501
    assert "rows acted on are wrong" in done.stderr


def test_errors_of_predicted_labels_and_groups(files):
    rule = aptset.learn_acceptance(P[:1000], Y[:1000], classes=CLASSES, random_state=0)
    run("accept", files / "new.parquet", "-c", learned(files), "--prefix", "p_", "--error", "bee=0.1", "--error",
        "cow=0.2", "-o", files / "by.csv")  # fmt: skip
    assert pd.read_csv(files / "by.csv").act.tolist() == rule.accept(P[1000:], {"bee": 0.1, "cow": 0.2}).tolist()
    by_region = aptset.learn_acceptance(P[:1000], Y[:1000], classes=CLASSES, groups=REGION[:1000], random_state=0)
    run("accept", files / "new.csv", "-c", learned(files, "--groups", "region"), "--prefix", "p_", "--error", "0.1",
        "--groups", "region", "-o", files / "by.csv")  # fmt: skip
    wanted = by_region.accept(P[1000:], 0.1, groups=REGION[1000:])
    assert pd.read_csv(files / "by.csv").act.tolist() == wanted.tolist()


def test_inspect_says_what_was_learned(files):
    text = run("inspect", learned(files)).stdout
    assert "n wrong" in text
    assert "predicted label" in text


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("--error must be one number", ["--error", "a=b"]),
        ("--error must be one number", ["--error", "0.1", "--error", "0.2"]),
        ("error must be in (0, 1)", ["--error", "2"]),
        ("assurance must be in (0, 1)", ["--assurance", "1"]),
        ("predicted labels", ["--error", "eel=0.1"]),
    ],
)
def test_wrong_options_end_with_one_line(files, words, more):
    done = run("accept", files / "new.csv", "-c", learned(files), "--prefix", "p_", *more, code=1)
    assert words in done.stderr
    assert done.stdout == ""


def test_a_calibration_is_no_rule(files):
    run("calibrate", files / "old.csv", "--label", "y", "--prefix", "p_", "-o", files / "cal.aptset")
    done = run("accept", files / "new.csv", "-c", files / "cal.aptset", "--prefix", "p_", code=1)
    assert "--accept" in done.stderr
    done = run("predict", files / "new.csv", "-c", learned(files), "--prefix", "p_", "-o", files / "sets.csv", code=1)
    assert "pass it to `aptset accept`" in done.stderr
    for option in (["--conformity", "lac"], ["--weights", "region"], ["--groups", "label"], ["--deterministic"]):
        done = run(
            "calibrate", files / "old.csv", "--label", "y", "--accept", "-o", files / "no.aptset", *option, code=2
        )
        assert "cannot be given with --accept" in done.stderr


def test_a_run_says_who_decides_and_its_folder_decides_raw_rows(tmp_path):
    draw = np.random.default_rng(1)
    y = draw.integers(3, size=1200)
    table = pd.DataFrame(
        {"a": y * 2 + draw.normal(size=1200), "b": draw.normal(size=1200), "kind": [f"k{v}" for v in y]}
    )
    table[:1000].to_csv(tmp_path / "rows.csv", index=False)
    table[1000:].drop(columns="kind").to_csv(tmp_path / "new.csv", index=False)
    done = run("run", tmp_path / "rows.csv", "--target", "kind", "--error", "0.1", "--out", tmp_path / "out")
    assert "Acting: " in done.stdout
    assert "are acted on" in done.stdout
    decisions = pd.read_parquet(tmp_path / "out" / "decisions.parquet")
    assert list(decisions.columns) == ["row", "kind", "act", "guess", "set"]
    assert len(decisions) == 300
    run("accept", tmp_path / "new.csv", "-c", tmp_path / "out", "--error", "0.1", "-o", tmp_path / "decided.csv")
    made = pd.read_csv(tmp_path / "decided.csv")
    wanted = aptset.load(tmp_path / "out").act_or_ask(table[["a", "b"]][1000:].reset_index(drop=True), error=0.1)
    assert made.act.tolist() == wanted.act.tolist()
    assert made.set.tolist() == ["|".join(members) for members in wanted["set"]]
    told = json.loads(run("run", tmp_path / "rows.csv", "--target", "kind", "--error", "0.1", "--out", tmp_path / "out",
                          "--json").stdout)  # fmt: skip
    assert 0 < told["decided"]["share"] < 1
    assert "--error needs a TABLE" in run("run", "--error", "0.1", code=2).stderr


def test_one_row_is_answered_with_the_way_out(files):
    rows = learned(files)
    pd.read_csv(files / "new.csv")[:1].to_csv(files / "one.csv", index=False)
    asked = [files / "one.csv", "-c", rows, "--prefix", "p_", "-o", files / "out.csv"]
    assert "Pass --assurance 0.9" in run("accept", *asked, "--error", 0.05, code=1).stderr
    run("accept", *asked, "--error", 0.05, "--assurance", 0.9)


def test_rows_without_a_label_are_left_out_and_counted(files):
    """Groups, clusters and ids of these rows go with them; rows that are left over give the same artefact."""
    old = pd.read_csv(files / "old.csv").assign(patient=np.arange(1000) // 4, number=np.arange(1000))
    old.loc[::5, "y"] = None
    old.to_csv(files / "holes.csv", index=False)
    old[old.y.notna()].to_csv(files / "whole.csv", index=False)
    for more in (["--accept"], ["--cluster", "patient"], ["--groups", "region,label"], ["--conformity", "auto"]):
        options = ["--label", "y", "--prefix", "p_", "--id", "number", *more]
        missing = run("calibrate", files / "holes.csv", *options, "-o", files / "holes.aptset", code=1)
        assert "Pass --skip-unlabelled" in missing.stderr
        done = run("calibrate", files / "holes.csv", *options, "--skip-unlabelled", "-o", files / "holes.aptset")
        assert "200 of 1,000 rows have no label and are left out." in done.stdout
        run("calibrate", files / "whole.csv", *options, "-o", files / "whole.aptset")
        one, other = (aptset.load(files / f"{name}.aptset") for name in ("holes", "whole"))
        if more == ["--accept"]:
            assert one.confidences.tolist() == other.confidences.tolist()
        else:
            assert one.scores.tolist() == other.scores.tolist()
            assert one.ranks(0.1) == other.ranks(0.1)
    old.assign(y=None).to_csv(files / "none.csv", index=False)
    nothing = ["calibrate", files / "none.csv", "--label", "y", "--prefix", "p_", "--skip-unlabelled"]
    assert "must have rows with a label" in run(*nothing, "-o", files / "none.aptset", code=1).stderr


def test_clusters_that_are_numbers_are_no_probabilities(files):
    old = pd.read_csv(files / "old.csv").rename(columns=lambda name: name.removeprefix("p_"))
    old.assign(patient=np.arange(1000) // 4).to_csv(files / "numbers.csv", index=False)
    options = ["--label", "y", "--cluster", "patient", "-o", files / "numbers.aptset"]
    assert "1,000 rows of 250 patients, 3 classes" in run("calibrate", files / "numbers.csv", *options).stdout


@pytest.mark.parametrize("prefix", [[], ["--prefix", "p_"]])
def test_no_rows_in_give_no_rows_out(files, prefix):
    """A file without rows does not show which columns hold numbers: the classes say it."""
    change = {} if prefix else {f"p_{name}": name for name in CLASSES}
    for name in ("old", "new"):
        pd.read_csv(files / f"{name}.csv").rename(columns=change).to_csv(files / f"{name}.csv", index=False)
    pd.read_csv(files / "new.csv")[:0].to_csv(files / "none.csv", index=False)
    for command, more, added in (("accept", ["--accept"], ["act", "guess"]), ("predict", [], ["size", "set"])):
        made = files / f"{command}.aptset"
        run("calibrate", files / "old.csv", "--label", "y", *prefix, *more, "-o", made)
        for out in ("none.parquet", "none_of_them.csv"):
            run(command, files / "none.csv", "-c", made, *prefix, "-o", files / out)
            read = pd.read_csv if out.endswith(".csv") else pd.read_parquet
            assert (list(read(files / out).columns), len(read(files / out))) == (["region", *added], 0)


def test_normalize_is_heard_and_a_second_table_is_not_left_out_in_silence(files):
    new = pd.read_csv(files / "new.csv")
    new.assign(**{f"p_{name}": 2 * new[f"p_{name}"] for name in CLASSES}).to_csv(files / "twice.csv", index=False)
    asked = ["-c", learned(files), "--prefix", "p_", "--error", "0.1", "-o"]
    assert "--normalize" in run("accept", files / "twice.csv", *asked, files / "twice_made.csv", code=1).stderr
    run("accept", files / "twice.csv", "--normalize", *asked, files / "twice_made.csv")
    run("accept", files / "new.csv", *asked, files / "made.csv")
    assert (files / "twice_made.csv").read_bytes() == (files / "made.csv").read_bytes()
    (files / "results").mkdir()
    two = run("accept", files / "new.csv", files / "old.csv", "-c", files / "results", "--error", "0.1", code=2)
    assert "This command reads one FILE; got 2." in two.stderr
    assert "nowhere: no such folder." in run("accept", files / "new.csv", "-c", "nowhere", code=1).stderr


def test_errors_of_labels_that_are_numbers(files):
    """Options are texts; the labels of the run are whole numbers."""
    X = generator.normal(size=(900, 2)).round(6)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=(X[:, 0] + generator.normal(size=900) / 9 > 0).astype(int))
    table.to_csv(files / "rows.csv", index=False)
    run("run", files / "rows.csv", "--target", "y", "--error", "1=0.2", "--out", files / "results")
    for made in (files / "results" / "decisions.parquet", files / "decided.parquet"):
        if not made.exists():
            run("accept", files / "rows.csv", "-c", files / "results", "--error", "1=0.2", "-o", made)
        decided = pd.read_parquet(made)
        assert set(decided.guess[decided.act]) == {"1"}
    rule = aptset.learn_acceptance(P[:1000], P[:1000].argmax(axis=1), random_state=0)
    rule.save(files / "numbers.aptset")
    numbers = pd.DataFrame(P[1000:], columns=["0", "1", "2"])
    numbers.to_csv(files / "numbers.csv", index=False)
    run("accept", files / "numbers.csv", "-c", files / "numbers.aptset", "--error", "2=0.1", "-o", files / "two.csv")
    two = pd.read_csv(files / "two.csv")
    assert set(two.guess[two.act]) == {2}
