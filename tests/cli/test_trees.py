"""``aptset report --taxonomy`` and ``--extra-metric``: the tree of a file, for labels of any type."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import aptset
from aptset.cli.main import main

TREES = {
    "tree.json": json.dumps({"0": "low", "1": "low", "2": "high"}),
    "tree.csv": "label,parent\n0,low\n1,low\n2,high\n",
    "paths.csv": "path\nlow/0\nlow/1\nhigh/2\n",
}


@pytest.fixture
def table(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 2))
    y = (x[:, 0] + generator.normal(size=300) > 0).astype(int) + (x[:, 1] > 1)
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments), "--quiet"], catch_exceptions=False)


@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_read_from_a_file_and_its_labels_are_the_classes(name, table):
    (table.parent / name).write_text(TREES[name])
    page = table.parent / "page.html"
    result = run("report", table, "--target", "y", "--taxonomy", table.parent / name, "-o", page)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    tree = json.loads(text[text.index('"tree":') + 7 : text.index("}", text.index('"tree":')) + 1])
    assert tree["names"] == ["all labels", "low", "0", "1", "high", "2"]
    assert tree["of_class"] == [2, 3, 5]
    assert "3 labels, 3 nodes above them" in text


def test_a_report_on_probabilities_shows_the_tree(tmp_path):
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    frame = pd.DataFrame(P, columns=["0", "1", "2"]).assign(y=P.argmax(axis=1))
    frame.to_csv(tmp_path / "test.csv", index=False)
    aptset.calibrate(P, P.argmax(axis=1), random_state=0).save(tmp_path / "cal.aptset")
    (tmp_path / "tree.json").write_text(TREES["tree.json"])
    page = tmp_path / "page.html"
    files = ("-c", tmp_path / "cal.aptset", "--taxonomy", tmp_path / "tree.json", "-o", page)
    result = run("report", tmp_path / "test.csv", "--label", "y", *files)
    assert result.exit_code == 0, result.output
    assert '"names":["all labels","low","0"' in page.read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("label,parent\n0,low\n1,low\n", "taxonomy must have every label; [2] are not in it"),
        ("label,parent\n0,low\n0,high\n1,low\n2,low\n", "'0' has 'low' and 'high'"),
        ("label,parent\n0,1\n1,0\n2,low\n", "goes round in a circle"),
        ("a,b,c\n1,2,3\n", "two columns, labels and the parent of each, or one of paths"),
    ],
)
def test_files_that_are_no_tree_are_refused_in_words(content, words, table):
    (table.parent / "tree.csv").write_text(content)
    result = run("report", table, "--target", "y", "--taxonomy", table.parent / "tree.csv")
    assert result.exit_code != 0
    assert words in result.output
    assert not (table.parent / "report.html").exists()


def test_a_metric_on_request_is_in_reports_audits_and_comparisons(table):
    extra = ("--extra-metric", "coverage_unevenness")
    shown = run("report", table, "--target", "y", "-o", table.parent / "page.html", "--json", *extra)
    assert "coverage_unevenness" in {one["metric"] for one in json.loads(shown.output)["estimates"]}
    settings = ("--target", "y", "--repetitions", 2, "--jobs", 1, "-o", table.parent / "out", *extra)
    assert run("audit", table, *settings).exit_code == 0
    assert "coverage_unevenness" in (table.parent / "out" / "splits.csv").read_text()
    wrong = run("audit", table, "--target", "y", "--extra-metric", "size")
    assert "extra_metrics must be one of ['coverage_unevenness']" in wrong.output
