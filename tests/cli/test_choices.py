"""What the command line offers comes from the tables of the library."""

import re

import click
import pytest

from aptset.cli.main import main
from aptset.cli.options import NamesOf
from aptset.conformal import CALIBRATIONS
from aptset.experiments.designs import EXPERIMENTS
from aptset.metrics import METRICS
from aptset.scores import ALIASES, SCORES
from shell import failure, run


def test_calibrations_are_those_of_the_table(monkeypatch):
    offered = [
        parameter.type.choices
        for name in ("run", "audit", "compare")
        for parameter in main.commands[name].params
        if isinstance(parameter.type, NamesOf)
    ]
    assert offered == [tuple(CALIBRATIONS)] * 3
    monkeypatch.setitem(CALIBRATIONS, "brand new", object)
    (parameter,) = (one for one in main.commands["run"].params if one.name == "calibration")
    assert parameter.type.convert("brand new", parameter, None) == "brand new"
    with pytest.raises(click.BadParameter, match=r"'split', .*'cv\+', .*'brand new'"):
        parameter.type.convert("magic", parameter, None)


def test_no_command_writes_out_names_of_a_table():
    known = {*CALIBRATIONS, *SCORES, *ALIASES, *METRICS, *EXPERIMENTS}
    for name, command in main.commands.items():
        for one in command.params:
            written = set(one.type.choices) if type(one.type) is click.Choice else set()
            assert not written & known, f"{name} {one.name} should come from a table, as NamesOf does"


def test_the_help_of_reproduce_names_every_experiment():
    text = main.commands["reproduce"].help
    first, last = re.search(r"tableS(\d) to tableS(\d)", text).groups()
    named = set(text.split()) | {f"tableS{number}" for number in range(int(first), int(last) + 1)}
    assert set(EXPERIMENTS) <= {word.strip(".,:") for word in named}


def test_evaluate_prints_every_metric(folder):
    options = ["--prefix", "p_"]
    run("calibrate", folder / "val.csv", "--label", "y", "-o", folder / "c.aptset", *options)
    run("predict", folder / "new.csv", "-c", folder / "c.aptset", "-o", folder / "s.parquet", *options)
    text = run("evaluate", folder / "s.parquet", "--label", "y", "--alpha", "0.1").stdout
    assert all(metric.words in text for metric in METRICS.values() if not metric.needs_features)


def test_a_report_with_a_score_of_ones_own(folder):
    (folder / "mine.py").write_text("def score(places):\n    return places.rank - places.u\n")
    start = ["calibrate", "val.csv", "--label", "y", "--prefix", "p_", "--conformity", "mine:score", "-o", "own.aptset"]
    run(*start, cwd=folder)
    ask = ["report", "new.csv", "--label", "y", "--prefix", "p_", "-c", "own.aptset", "-o", "own.html"]
    assert "does not import code that a file names" in failure(*ask, cwd=folder)
    assert not (folder / "own.html").exists()
    run(*ask, "--trust", "mine", cwd=folder)
    assert "score" in (folder / "own.html").read_text()
    refused = run("report", "new.csv", "--target", "y", "--trust", "mine", rc=2, cwd=folder)
    assert "--trust is for a FILE of probabilities" in refused.stderr
