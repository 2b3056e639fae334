"""Parts: what is found in folders, what is refused, and what an error names."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from parts_data import COMMON, NAMES, scores, write

import aptset
from aptset.cli.manifest import check_output_names
from shell import failure, run, table


def test_columns_go_by_name_and_a_missing_one_is_named_with_its_file(data):
    one = scores(data / "val", out=data / "one.aptset")
    frame = pd.read_csv(data / "val" / NAMES[1])
    write(frame[frame.columns[::-1]], data / "val" / NAMES[1])
    np.testing.assert_array_equal(scores(data / "val", out=data / "two.aptset").scores, one.scores)
    write(frame.drop(columns="p_cat"), data / "val" / NAMES[2])
    told = failure("calibrate", data / "val", "--label", "y", *COMMON, "-o", data / "c.aptset")
    assert told.startswith(f"Error: {data}/val/{NAMES[2]} must have one column of probabilities for each class")
    assert "missing ['cat']" in told
    write(frame.drop(columns="y"), data / "val" / NAMES[2])
    told = failure("calibrate", data / "val", "--label", "y", *COMMON, "-o", data / "c.aptset")
    assert f"{data}/val/{NAMES[2]} must have a column 'y'" in told


def test_an_error_names_the_file_and_its_row(data):
    scores(data / "val", out=data / "c.aptset")
    frame = pd.read_parquet(data / "new" / NAMES[0])
    frame.loc[7, "p_cat"] += 0.5
    write(frame, data / "new" / "region=north" / "part-2.csv")
    told = failure("predict", "new", "-c", "c.aptset", "-o", "sets/", *COMMON, cwd=data)
    assert told.startswith("Error: new/region=north/part-2.csv: ")
    assert "row 7" in told
    assert not (data / "sets" / "region=north" / "part-2.csv").exists()
    assert (data / "sets" / "region=north" / "part-1.csv").exists(), "what was finished stays"


def test_parts_without_rows_are_parts(data):
    frame = pd.read_parquet(data / "new" / NAMES[0])
    one = scores(data / "val", out=data / "c.aptset")
    write(frame.iloc[:0], data / "val" / "none.parquet")
    np.testing.assert_array_equal(scores(data / "val", out=data / "two.aptset").scores, one.scores)
    for name in ("none.parquet", "none.csv"):
        write(frame.iloc[:0], data / "new" / name)
        (data / "nothing").mkdir(exist_ok=True)
        write(frame.iloc[:0], data / "nothing" / name)
    with pa.ipc.new_file(data / "new" / "nil.arrow", pa.Table.from_pandas(frame, preserve_index=False).schema):
        pass
    run("predict", data / "new", "-c", data / "c.aptset", "-o", data / "sets", *COMMON)
    assert pq.read_table(data / "sets" / "nil.parquet").num_rows == 0
    assert pq.read_schema(data / "sets" / "none.parquet").equals(pq.read_schema(data / "sets" / NAMES[0]))
    assert (data / "sets" / "none.csv").read_text() == '"id","y","size","set"\n'
    assert "(400" in run("evaluate", data / "sets", "--label", "y").stdout.replace("n=", "")
    told = failure("calibrate", data / "nothing", "--label", "y", *COMMON, "-o", data / "c.aptset")
    assert "must have at least one row" in told


def test_what_is_no_input_is_refused_in_one_line(data):
    rest = ("--label", "y", *COMMON, "-o", data / "c.aptset")
    (data / "empty").mkdir()
    (data / "empty" / "_SUCCESS").touch()
    assert "empty must hold at least one file; it holds none" in failure("calibrate", data / "empty", *rest)
    assert "'nothing/*.csv' must match at least one file" in failure("calibrate", "nothing/*.csv", *rest, cwd=data)
    assert "must be a file; there is none" in failure("calibrate", data / "nothing.csv", *rest)
    both = (data / "val" / NAMES[0], data / "nothing.csv")
    assert "must be a file or a folder; there is none" in failure("calibrate", *both, *rest)
    assert "must be named once; it is named 2 times" in failure("calibrate", data / "val", both[0], *rest)
    (data / "val" / "README").touch()
    told = failure("calibrate", data / "val", *rest)
    assert f"{data}/val/README must end in one of .csv" in told
    assert "name the others by a glob" in told


def test_links_are_followed_and_what_is_no_file_is_named(data):
    one = scores(data / "val", out=data / "one.aptset")
    (data / "val" / "region=south").rename(data / "elsewhere")
    (data / "val" / "region=south").symlink_to(data / "elsewhere")
    np.testing.assert_array_equal(scores(data / "val", out=data / "two.aptset").scores, one.scores)
    rest = ("--label", "y", *COMMON, "-o", data / "c.aptset")
    (data / "val" / "gone.csv").symlink_to(data / "nothing")
    for name in (data / "val", f"{data}/val/*"):
        assert "val/gone.csv must be a file; it is a link to nothing" in failure("calibrate", name, *rest)
    (data / "val" / "gone.csv").unlink()
    (data / "val" / "circle").symlink_to(data / "val")
    assert "val/circle must not be a link to a folder above it" in failure("calibrate", data / "val", *rest)
    (data / "val" / "circle").unlink()
    (data / "val" / "again.parquet").symlink_to(data / "val" / NAMES[0])
    assert "must be named once; it is named 2 times" in failure("calibrate", data / "val", *rest)
    (data / "val" / "again.parquet").unlink()
    (data / "val" / os.fsdecode(b"\xff.csv")).touch()
    assert "must be a name that UTF-8 can write" in failure("calibrate", data / "val", *rest)


def test_names_that_lead_out_of_a_folder_are_refused():
    """Objects of a store may be called so, and a folder of this machine would be left."""
    for name in ("../x.parquet", "a/../x.parquet", "a//x.parquet", "./x.parquet"):
        with pytest.raises(ValueError, match=r"without empty folders and \.\."):
            check_output_names([("fine.parquet", "s3://b/fine.parquet"), (name, "s3://b/x.parquet")])


def test_where_the_sets_cannot_go_is_refused_before_anything_is_written(data):
    scores(data / "val", out=data / "c.aptset")
    common = ("predict", data / "new", "-c", data / "c.aptset", *COMMON, "-o")
    before = sorted(data.rglob("*"))
    for out in ("sets.parquet", "-"):
        assert "--out must be a folder if PROBS are several files" in failure(*common, out)
    for out in (data / "new", data / "new" / "sets"):
        assert "must be outside of the folder that is read" in failure(*common, out)
    assert "must be an empty folder, or hold an earlier run" in failure(*common, data / "val")
    assert sorted(data.rglob("*")) == before
    write(pd.read_parquet(data / "new" / NAMES[0]), data / "new" / "region=north" / "part-0.arrow")
    assert "both would be written to region=north/part-0.parquet" in failure(*common, data / "sets")


def test_a_column_of_the_file_comes_before_a_key_of_its_folder(data):
    frame = table(200, 0).drop(columns="note").assign(region="own")
    write(frame, data / "own" / "region=folder" / "x.parquet")
    assert list(scores(data / "own", "--groups", "region", out=data / "c.aptset").held_out.groups.names) == ["own"]


def test_a_name_that_looks_like_a_glob_is_a_file_first(data):
    (data / "new.parquet").rename(data / "new[1].parquet")
    scores(data / "val.parquet", out=data / "c.aptset")
    run("predict", data / "new[1].parquet", "-c", data / "c.aptset", "-o", data / "s.parquet", *COMMON)
    url = (data / "new[1].parquet").as_uri()
    run("predict", url, "-c", (data / "c.aptset").as_uri(), "-o", f"file://{data}/t.parquet", *COMMON)
    assert (data / "s.parquet").read_bytes() == (data / "t.parquet").read_bytes()


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    assert "pip install fsspec" in failure("inspect", "hop://bucket/cal.aptset")


def test_a_csv_with_a_header_alone_is_a_part_without_a_prefix(tmp_path):
    frame = table(300, 0).drop(columns="note").rename(columns=lambda name: name.removeprefix("p_"))
    write(frame, tmp_path / "new" / "part-0.csv")
    write(frame.iloc[:0], tmp_path / "new" / "part-1.csv")
    (tmp_path / "new" / "part-2.csv").write_text("id,cat,y\n")
    rest = ("--label", "y", "--id", "id")
    run("calibrate", tmp_path / "new" / "part-0.csv", *rest, "-o", tmp_path / "c.aptset")
    told = failure("predict", "new", "-c", "c.aptset", "-o", "sets/", *rest, cwd=tmp_path)
    assert told.startswith("Error: new/part-2.csv must have a")
    heads = [(tmp_path / "sets" / f"part-{number}.csv").read_text().partition("\n")[0] for number in (0, 1)]
    assert heads[0] == heads[1]


def test_a_part_without_rows_has_the_types_of_the_others(tmp_path):
    """Readers of datasets take the schema of one part for that of all."""
    generator = np.random.default_rng(0)
    rows = generator.dirichlet([1, 1, 1], size=60)
    aptset.calibrate(rows, generator.integers(0, 3, 60), random_state=0).save(tmp_path / "cal.aptset")
    days = pa.array(["2024-01-01"] * 60).cast(pa.date32())
    content = pa.table({**{str(k): rows[:, k] for k in range(3)}, "day": days})
    (tmp_path / "new").mkdir()
    pq.write_table(content, tmp_path / "new" / "a.parquet")
    pq.write_table(content.slice(0, 0), tmp_path / "new" / "b.parquet")
    run("predict", tmp_path / "new", "-c", tmp_path / "cal.aptset", "-o", f"{tmp_path}/sets/")
    full, empty = (pq.read_table(tmp_path / "sets" / name) for name in ("a.parquet", "b.parquet"))
    assert (full.num_rows, empty.num_rows) == (60, 0)
    assert empty.schema.equals(full.schema)
