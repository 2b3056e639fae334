"""Raw rows in pieces: the sets of all rows at once, whatever the pieces; and bars that end where they said."""

import io
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import aptset
from aptset.cli.main import main
from aptset.core import runner as progress
from shell import run

N = 9000  # three blocks of 4096, the last of which is short


def rows(n, seed):
    """Rows with many copies, whose chance depends on where they stand."""
    generator = np.random.default_rng(seed)
    size = generator.integers(0, 6, n) / 2
    frame = pd.DataFrame(
        {"name": [f"r{k}" for k in range(n)], "size": size, "ward": generator.choice(["a", "b"], n), "größe": size * 2}
    )
    frame["kind"] = np.where(generator.random(n) < size / 3, "big", np.where(generator.random(n) < 0.3, "mid", "small"))
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, one that goes by ids, one that goes by wards, and 9000 new rows."""
    path = tmp_path_factory.mktemp("pieces")
    rows(600, 0).to_csv(path / "train.csv", index=False)
    rows(N, 1).to_csv(path / "new.csv", index=False)
    rows(N, 1).to_parquet(path / "new.parquet", row_group_size=1000)
    rows(N, 1)[["größe", "kind", "ward", "name", "size"]].to_csv(path / "semicolons.csv", sep=";", index=False)
    common = ("run", path / "train.csv", "--target", "kind", "--model", "bayes", "--drop", "name", "--quiet")
    call(*common, "--out", path / "plain")
    call(*common, "--out", path / "ids", "--id", "name")
    call(*common, "--out", path / "wards", "--groups", "ward")
    return path


def call(*arguments, rc=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == rc, done.output
    return done


@pytest.mark.parametrize("model", ["plain", "ids", "wards"])
def test_no_set_depends_on_the_pieces(folder, model):
    new = rows(N, 1)
    of_rows = {"ids": new["name"]} if model == "ids" else {"groups": new["ward"]} if model == "wards" else {}
    classifier = aptset.load(folder / model)
    wanted = classifier.predict_set(new[["size", "ward", "größe"]], **of_rows)
    expected = [tuple(labels) for labels in wanted]
    assert len({*expected[:50]}) > 1, "sets differ, or the test says nothing"
    for name in ("new.csv", "new.parquet", "semicolons.csv"):
        for batch_rows in (1, 5000, 100_000):
            out = folder / "sets.parquet"
            call("predict", folder / name, "-c", folder / model, "-o", out, "--batch-rows", batch_rows, "--quiet")
            found = pd.read_parquet(out)
            assert found["set 0.1"].map(tuple).tolist() == expected, (name, batch_rows)
            assert found["name"].tolist() == new["name"].tolist()


def test_a_column_that_is_called_size_or_set_leaves_no_dead_end(folder):
    few = rows(40, 5).assign(set="mine")
    few.to_csv(folder / "mine.csv", index=False)
    told = call("predict", folder / "mine.csv", "-c", folder / "plain", "-o", folder / "out.csv").stdout
    assert "The first level is in the columns 'size 0.1' and 'set 0.1'." in told
    found = pd.read_csv(folder / "out.csv")
    assert found["size"].tolist() == few["size"].tolist()
    assert set(found["set"]) == {"mine"}
    assert "40 prediction sets" in call("evaluate", folder / "out.csv", "--label", "kind", "--alpha", 0.1).stdout
    told = call("evaluate", folder / "out.csv", "--label", "kind", rc=1).stderr
    assert "has the columns 'set 0.1': say which by --alpha 0.1." in told
    told = call("predict", folder / "out.csv", "-c", folder / "plain", "-o", folder / "again.csv", rc=1).stderr
    assert "gets the columns size 0.1 and set 0.1, and the input must not have them already" in told


def test_a_bad_row_far_down_is_named_by_its_place_in_the_file(folder):
    bad = rows(N, 1).astype({"size": object})
    bad.loc[8500, "size"] = "inf"
    bad.to_csv(folder / "bad.csv", index=False)
    target = folder / "never.csv"
    told = call("predict", folder / "bad.csv", "-c", folder / "plain", "-o", target, "--batch-rows", 1, rc=1).stderr
    assert "bad.csv: row 8500, column 'size': numbers must be finite" in told
    bad.loc[8500, "size"] = "wide"
    bad.to_csv(folder / "bad.csv", index=False)
    told = call("predict", folder / "bad.csv", "-c", folder / "plain", "-o", target, "--batch-rows", 1, rc=1).stderr
    assert "bad.csv, row 8500 cannot be read" in told
    assert not target.exists()


def test_ids_that_tell_no_rows_apart_are_refused_whatever_the_pieces(folder):
    new = rows(N, 1)
    new["name"] = np.arange(N) % 300  # 7 % of the ids of a piece, 3 % of those of the file
    new.to_csv(folder / "few.csv", index=False)
    for batch_rows in (1, 100_000):
        arguments = ("predict", folder / "few.csv", "-c", folder / "ids", "-o", folder / "never.csv")
        told = call(*arguments, "--batch-rows", batch_rows, rc=1).stderr
        assert "got 300 different ids for 9000 rows" in told
    assert not (folder / "never.csv").exists()


def test_a_row_longer_than_a_block_is_read(folder):
    long = rows(600, 0)
    long["notes"] = [f"{k} words" for k in range(600)]
    long.loc[300, "notes"] = "much " * 1_500_000
    long.to_csv(folder / "long.csv", index=False)
    call("run", folder / "long.csv", "--target", "kind", "--model", "bayes", "--out", folder / "long", "--quiet")
    call("predict", folder / "long.csv", "-c", folder / "long", "-o", folder / "sets.csv", "--quiet")
    call("evaluate", folder / "sets.csv", "--label", "kind", "--quiet")
    found = pd.read_csv(folder / "sets.csv")
    assert found["notes"].str.len().tolist() == long["notes"].str.len().tolist()


class Bar:
    """Notes what a bar is told."""

    made: list

    def __init__(self, total, desc, unit, **_):
        self.total, self.unit, self.done = total, unit, 0
        self.made.append(self)

    def set_postfix_str(self, note, refresh):
        pass

    def update(self, units):
        self.done += units

    def close(self):
        pass


@pytest.fixture
def bars(monkeypatch):
    made = []
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setattr(progress, "is_notebook", lambda: True)
    monkeypatch.setattr(progress, "_kind_of_bar", lambda: type("Noted", (Bar,), {"made": made}))
    return made


def test_bars_of_files_and_reports_know_their_end(folder, bars):
    """A bar that has a total has a remaining time."""
    sets, page = folder / "bars.csv", folder / "bars.html"
    few = folder / "few-rows.csv"
    rows(50, 2).to_csv(few, index=False)
    chances = rows(60, 3).assign(p_big=0.25, p_mid=0.25, p_small=0.5)
    chances.to_csv(folder / "chances.csv", index=False)
    of_chances = ("--label", "kind", "--prefix", "p_")
    for arguments, work in [
        (("predict", folder / "new.csv", "-c", folder / "plain", "-o", sets), N),
        (("evaluate", sets, "--label", "kind"), N),
        (("report", few, "-c", folder / "plain", "-o", page), 50 * 3),
        (("calibrate", folder / "chances.csv", *of_chances, "-o", folder / "cal.aptset"), 60),
        (("report", folder / "chances.csv", *of_chances, "-c", folder / "cal.aptset", "-o", page), 60),
    ]:
        bars.clear()
        call(*arguments)
        assert (bars[0].total, bars[0].done, bars[0].unit) == (work, work, " rows"), arguments
        bars.clear()
        call(*arguments, "--quiet")
        assert not bars


def test_bars_of_fits_and_audits_know_their_end(bars):
    from sklearn.naive_bayes import GaussianNB

    new = rows(300, 0)
    X, y = new[["size", "größe"]], new["kind"]
    settings = {"calibration": aptset.CVPlus(4), "conformity": "auto", "random_state": 0}
    classifier = aptset.ConformalClassifier(GaussianNB(), progress=True, **settings).fit(X, y)
    assert [(bar.total, bar.done, bar.unit) for bar in bars] == [(5, 5, " folds to choose on"), (4, 4, " folds")]
    bars.clear()
    aptset.report(classifier, X, y, progress=True)
    aptset.audit(GaussianNB(), X, y, repetitions=3, calibrations="split", progress=True)
    assert [bar.total for bar in bars] == [bar.done for bar in bars]
    assert bars[0].total == 300 * 6


def test_a_program_without_standard_error_shows_no_bar(monkeypatch):
    """As services and windows without a console are; the work goes on."""
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed, object()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.counting(3, "rows", True) as count:
            count(3)


def test_files_that_break_or_are_empty_say_what_to_do(folder):
    schema = pa.Table.from_pandas(rows(1, 0), preserve_index=False).schema
    with pa.OSFile(str(folder / "no.arrow"), "wb") as file, pa.ipc.new_file(file, schema):
        pass
    call("predict", folder / "no.arrow", "-c", folder / "plain", "-o", folder / "no_rows.csv")
    assert pd.read_csv(folder / "no_rows.csv").empty, "zero rows in, zero rows out"
    text = rows(5000, 0).to_csv(index=False)
    for content, message in [
        (text.encode("latin-1"), "names of its columns must be UTF-8 text. Save the file as UTF-8, or pass --encoding"),
        (text.encode().replace(b"r4500,", b"\xe4,"), "invalid UTF8 data. Save the file as UTF-8, or pass --encoding"),
    ]:
        (folder / "latin.csv").write_bytes(content)
        told = call("predict", folder / "latin.csv", "-c", folder / "plain", "-o", folder / "none.csv", rc=1).stderr
        assert message in told
        told = call("run", folder / "latin.csv", "--target", "kind", "--out", folder / "no", rc=1).stderr
        assert "--encoding" in told
    assert not (folder / "none.csv").exists()
    (folder / "latin.csv").write_bytes(text.encode("latin-1"))
    call("predict", folder / "latin.csv", "-c", folder / "plain", "-o", folder / "out.csv", "--encoding", "latin-1")


def test_copies_of_rows_have_their_own_u_in_every_piece(tmp_path):
    """Sets are those of all rows at once, however many rows are looked at at a time."""
    generator = np.random.default_rng(0)
    calibration = aptset.calibrate(generator.dirichlet([1, 1, 1], 200), generator.integers(0, 3, 200), random_state=0)
    calibration.save(tmp_path / "cal.aptset")
    rows = np.tile([[0.5, 0.3, 0.2], [0.25, 0.5, 0.25]], (5000, 1))
    pd.DataFrame(rows, columns=["0", "1", "2"]).to_parquet(tmp_path / "new.parquet")
    wanted = calibration.predict_set(rows, 0.1).sizes
    for n_rows in (4096, 8192, 65_536):
        options = ("-c", tmp_path / "cal.aptset", "-o", tmp_path / "sets.parquet", "--batch-rows", n_rows)
        run("predict", tmp_path / "new.parquet", *options)
        np.testing.assert_array_equal(pd.read_parquet(tmp_path / "sets.parquet")["size"], wanted)
