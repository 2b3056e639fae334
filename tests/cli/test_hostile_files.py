"""Files that lie, and files in the wrong place: nothing is lost, nothing hangs, nothing of the user's is replaced."""

import io
import json
import os
import time
import warnings
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import aptset
from aptset.cli.main import main
from shell import failure, run


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run a command in this process: quicker by a second each."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.chdir(tmp_path)

    def call(*arguments, rc=0):
        done = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert done.exit_code == rc, done.output
        assert rc == 2 or done.stderr.count("\n") <= 1, "one line"
        return done.output

    return call


HEADER = "p_a,p_b,y,note\n"
ROW = "0.5,0.5,a,n\n"


def csv_file(folder, text, name="f.csv"):
    (folder / name).write_text(text)
    return folder / name


def calibrate(path, *more):
    return ("calibrate", path, "--label", "y", "--prefix", "p_", "-o", path.parent / "c.aptset", *more)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ('0.5,0.5,a,"n\n', "row 10: a quote opens"),
        ('0.5,0.5,"a,n\n', "row 10: a quote opens"),
        ('0.5,0.5,a,"n"m\n', "row 10: a quote opens"),
        ("0.5,0.5,a\n", "row 10 cannot be read"),
        ("0.5,0.5,a,n,m\n", "row 10 cannot be read"),
        ('\n\n0.5,0.5,a,"two\nlines"\n0.5,0.5,a\n', "row 11 cannot be read"),
        ("0.5,0.5,a,\xff\n", "row 10 cannot be read"),
    ],
)
@pytest.mark.parametrize("closes", [False, True], ids=["never closed", "closed by a later quote"])
def test_a_broken_row_is_named_by_every_command(command, tmp_path, broken, named, closes):
    """1,500 rows must not become 10."""
    text = HEADER + ROW * 10 + broken + ROW * 1489 + ('0.5,0.5,a,"quoted"\n' * 5 if closes else "")
    path = tmp_path / "f.csv"
    path.write_bytes(text.encode("latin-1"))
    good = csv_file(tmp_path, HEADER + ROW * 20, "good.csv")
    command(*calibrate(good))
    assert f"f.csv, {named}" in command(*calibrate(path), rc=1)
    predict = ("predict", path, "-c", tmp_path / "c.aptset", "-o", tmp_path / "s.csv", "--prefix", "p_")
    assert f"f.csv, {named}" in command(*predict, rc=1)
    assert f"f.csv, {named}" in command("run", path, "--target", "y", rc=1)
    sets = tmp_path / "f.csv"
    sets.write_bytes(text.replace("note", "set", 1).encode("latin-1"))
    assert f"f.csv, {named}" in command("evaluate", sets, "--label", "y", rc=1)
    assert not (tmp_path / "s.csv").exists()


def test_quotes_in_the_middle_of_a_cell_are_only_letters(command, tmp_path):
    path = csv_file(tmp_path, HEADER + ROW * 9 + '0.5,0.5,a,5" pipe\n' + ROW * 9 + '0.5,0.5,a,"say ""hi"", bye"\n')
    command(*calibrate(path))
    command("predict", path, "-c", tmp_path / "c.aptset", "-o", tmp_path / "s.parquet", "--prefix", "p_")
    notes = pd.read_parquet(tmp_path / "s.parquet")["note"]
    assert len(notes) == 20
    assert [notes[9], notes[19]] == ['5" pipe', 'say "hi", bye']


def test_the_output_is_never_the_input(command, tmp_path):
    path = csv_file(tmp_path, HEADER + ROW * 30)
    (tmp_path / "link.csv").symlink_to(path)
    os.link(path, tmp_path / "hard.csv")
    (tmp_path / "sub").mkdir()
    before = path.read_bytes()
    for out in (path, tmp_path / "link.csv", tmp_path / "hard.csv", tmp_path / "sub" / ".." / "f.csv", "./f.csv"):
        done = command("calibrate", path, "--label", "y", "--prefix", "p_", "-o", out, rc=1)
        assert "must be another file than the input" in done
    command(*calibrate(path))
    artefact = tmp_path / "c.aptset"
    kept = artefact.read_bytes()
    predict = ("predict", path, "-c", artefact, "--prefix", "p_", "-o")
    assert "must be another file" in command(*predict, path, rc=1)
    assert "must be another file" in command(*predict, artefact, rc=1)
    assert "must be another file" in command("report", path, "--label", "y", "-c", artefact, "-o", path, rc=1)
    assert (path.read_bytes(), artefact.read_bytes()) == (before, kept)
    frame = pd.DataFrame({"x": np.arange(40.0), "y": ["u", "v"] * 20})
    for name, folder, more in (("sets.parquet", "o", ()), ("splits.csv", "a", ("--repetitions", 2))):
        (tmp_path / folder).mkdir()
        table = tmp_path / folder / name
        frame.to_parquet(table) if name.endswith("parquet") else frame.to_csv(table, index=False)
        before = table.read_bytes()
        job = "run" if folder == "o" else "audit"
        assert "must be another file" in command(job, table, "--target", "y", "--out", tmp_path / folder, *more, rc=1)
        assert table.read_bytes() == before


def test_the_output_is_not_what_standard_input_is_redirected_from(tmp_path):
    path = csv_file(tmp_path, HEADER + ROW * 30)
    with path.open() as stdin:
        out = failure("calibrate", "-", "--label", "y", "--prefix", "p_", "-o", path, stdin=stdin)
    assert "must be another file than the input, standard input" in out
    assert path.read_text() == HEADER + ROW * 30


def test_what_is_no_file_is_refused_at_once(command, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder.csv").mkdir()
    start = time.monotonic()
    assert "it is a pipe or a device" in command("inspect", tmp_path / "pipe.csv", rc=1)
    assert "must be the folder of a classifier" in command("inspect", tmp_path / "folder.csv", rc=1)
    assert "nothing: no such folder" in command("inspect", tmp_path / "nothing", rc=1)
    assert "a link to nothing, or to itself" in command("inspect", tmp_path / "loop", rc=1)
    assert "redirect it to standard input" in command(*calibrate(tmp_path / "pipe.csv"), rc=1)
    assert "must hold at least one file" in command(*calibrate(tmp_path / "folder.csv"), rc=1)
    good = csv_file(tmp_path, HEADER + ROW * 20)
    common = ("calibrate", good, "--label", "y", "--prefix", "p_", "-o")
    assert "a link to itself" in command(*common, tmp_path / "loop", rc=1)
    assert "at most 255 bytes" in command(*common, tmp_path / ("x" * 300), rc=1)
    assert time.monotonic() - start < 30, "nothing waits for a writer that never comes"
    for name in ("x" * 255, "é" * 127, "☃" * 85):
        command(*common, tmp_path / name)
        assert aptset.load(tmp_path / name).n == 20
    assert not list(tmp_path.glob(".*tmp"))


def test_na_is_a_label_for_every_command(command, tmp_path):
    """Only an empty cell is missing; among features that are numbers, NA is missing too."""
    generator = np.random.default_rng(0)
    rows = [
        f"{x:.3f},{'NA' if x > 0 or k % 20 == 0 else 'u'},{'NA' if k % 9 == 0 else k}"
        for k, x in enumerate(generator.normal(size=120))
    ]
    path = csv_file(tmp_path, "x,y,z\n" + "\n".join(rows) + "\n")
    found = json.loads(command("run", path, "--target", "y", "--model", "bayes", "--json", "--out", tmp_path / "o"))
    assert {row["group"] for row in found["estimates"] if row["metric"] == "by_label"} == {"NA", "u"}
    judged = json.loads(command("evaluate", tmp_path / "o" / "sets.parquet", "--label", "y", "--json"))
    assert judged["estimates"][:3] == found["estimates"][:3]
    path.write_text("x,y\n1,u\n2,\n" + "3,NA\n" * 20)
    assert "row 1, column 'y': the label is missing" in command("run", path, "--target", "y", rc=1)


def test_messages_of_commands(command, tmp_path, monkeypatch):
    table = csv_file(tmp_path, "x,y,y\n" + "1,u,v\n" * 30)
    assert "distinct column names" in command("run", table, "--target", "y", rc=1)
    table.write_text("x,y\n1,u\ninf,v\n" + "1,u\n2,v\n" * 20)
    assert "row 1, column 'x': numbers must be finite; got inf" in command("run", table, "--target", "y", rc=1)
    for option in (("--seed", "-1"), ("--seed", str(2**32)), ("--jobs", "0"), ("--jobs", "-2")):
        assert option[0] in command("run", table, "--target", "y", *option, rc=2)
    assert "alpha must be" in command("plan", "--alpha", "1e-300", rc=1)
    inside = csv_file(tmp_path, "p_a,p_b,p_y\n" + "0.5,0.5,a\n" * 20)
    command("calibrate", inside, "--label", "p_y", "--prefix", "p_", "-o", tmp_path / "i.aptset")
    assert aptset.load(tmp_path / "i.aptset").classes.tolist() == ["a", "b"]
    nested = pa.table({"p_a": [0.5] * 20, "p_b": [0.5] * 20, "more": [{"k": 1}] * 20})
    pq.write_table(nested, tmp_path / "n.parquet")
    predict = ("predict", tmp_path / "n.parquet", "-c", tmp_path / "i.aptset", "--prefix", "p_", "-o")
    assert "column 'more' of the input holds lists or records" in command(*predict, tmp_path / "s.csv", rc=1)
    command(*predict, tmp_path / "s.parquet")
    logits = csv_file(tmp_path, "p_a,p_b,y\n" + "2.5,-1.5,a\n" * 20)
    assert "look like logits: apply softmax, or pass --logits" in command(*calibrate(logits), rc=1)
    for name in ("run", "report", "audit", "compare"):
        assert "RUNS" in command(name, "--help")


def test_names_that_a_locale_cannot_write(tmp_path):
    plain = {**os.environ, "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    csv_file(tmp_path, HEADER + ROW * 20, "é.csv")
    common = ("--label", "y", "--prefix", "p_", "-o")
    done = run("calibrate", "é.csv", *common, "ü.aptset", cwd=tmp_path, env=plain)
    assert "Calibrated on 20 rows" in done.stdout
    assert aptset.load(tmp_path / "ü.aptset").n == 20
    os.rename(tmp_path / "é.csv", os.fsencode(tmp_path) + b"/\xff.csv")
    assert "must be a name that UTF-8 can write" in failure(
        "calibrate", b"\xff.csv".decode(errors="surrogateescape"), *common, "x", cwd=tmp_path
    )


def test_wide_files_take_linear_time(command, tmp_path):
    """4 times the columns take about 4 times as long, far from 16."""
    seconds = []
    for columns in (4_000, 16_000):
        text = ",".join([*(f"p_{k}" for k in range(columns)), "y"]) + "\n"
        path = csv_file(tmp_path, text + (",".join([str(1 / columns)] * columns) + ",1\n") * 3)
        start = time.process_time()
        command(*calibrate(path))
        predict = ("predict", path, "-c", tmp_path / "c.aptset", "-o", tmp_path / "s.parquet", "--prefix", "p_")
        command(*predict, "--alpha", 0.5)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 9 * seconds[0], seconds


def test_control_characters_are_shown_not_obeyed(command, tmp_path):
    path = csv_file(tmp_path, "y,set\na\x1b[2J,b\n")
    assert "\x1b" not in command("evaluate", path, "--label", "y")
    path.write_text("p_\x1b]0;x\x07,y\n1,a\n")
    assert "\x1b" not in command(*calibrate(path), rc=1)


def test_arrays_that_are_no_matrices(command, tmp_path):
    np.save(tmp_path / "p.npy", np.full((20, 2), 0.5))
    common = ("calibrate", tmp_path / "p.npy", "-o", tmp_path / "x", "--label", tmp_path / "y.npy")
    for labels in (np.zeros(20, dtype=complex), np.zeros((20, 2)), np.zeros(20, dtype=object)):
        np.save(tmp_path / "y.npy", labels, allow_pickle=True)
        assert ".npy" in command(*common, rc=1)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)})
        archive.writestr("p.npy", header.getvalue() + bytes(100))
    assert "bomb.npz cannot be read" in command("calibrate", tmp_path / "bomb.npz", "--label", "y", "-o", "x", rc=1)
