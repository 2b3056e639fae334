"""Many files as one: folders, globs, hive keys, mixed kinds; what is refused, and in which words."""

import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import aptset
from aptset.commands.parts.checks import check_output_names
from shell import failure, run, table

COMMON = ("--prefix", "p_")
LABEL = ("--label", "y", *COMMON)


def write(frame, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if ".csv" in path.name:
        frame.to_csv(path, index=False)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), pa.Schema.from_pandas(frame, preserve_index=False)) as writer:
            writer.write_table(pa.Table.from_pandas(frame, preserve_index=False))
    else:
        frame.to_parquet(path, index=False)


def cut(frame, folder, names):
    """Write consecutive rows of a table to files of these names."""
    bounds = np.linspace(0, len(frame), len(names) + 1).astype(int)
    for name, start, stop in zip(names, bounds, bounds[1:], strict=False):
        write(frame.iloc[start:stop], folder / name)


NAMES = ["region=north/part-0.parquet", "region=north/part-1.csv.gz", "region=south/deep/part-0.arrow"]


@pytest.fixture
def data(tmp_path):
    """Hold rows to calibrate on and new ones: in one file each, and in a folder of parts of several kinds."""
    for name, n, seed in (("val", 800, 0), ("new", 400, 1)):
        frame = table(n, seed).drop(columns="note")  # a cell of two lines is no matter of parts
        frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
        cut(frame, tmp_path / name, NAMES)
        for tool in ("_SUCCESS", ".part-0.crc", "_metadata", "_temporary/part-9.parquet"):
            path = tmp_path / name / tool
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"no data")
    return tmp_path


def scores(*arguments, out, **options):
    run("calibrate", *arguments, "--label", "y", *COMMON, "-o", out, **options)
    return aptset.load(out)


def test_a_folder_a_glob_and_many_files_calibrate_as_one_file(data):
    one = scores(data / "val.parquet", out=data / "one.aptset")
    files = [data / "val" / name for name in reversed(NAMES)]
    for number, names in enumerate([[data / "val"], [f"{data}/val/**/part-*"], [f"{data}/val/*/*", files[0]], files]):
        many = scores(*names, out=data / f"{number}.aptset")
        np.testing.assert_array_equal(many.scores, one.scores)
        assert many.parts == one.parts, "the same rows, whatever the order"
    names = ("val//*/part-[0]*", "x/../val/region=north/part-1.csv.gz", "val/region=s*/*/")
    assert "'val/region=s*/*/' must match at least one file" in failure(
        "calibrate", *names, *LABEL, "-o", "c", cwd=data
    )
    glob = scores(*names[:2], files[0], out=data / "c.aptset", cwd=data)
    np.testing.assert_array_equal(glob.scores, one.scores)


def test_a_score_can_be_chosen_on_parts(data):
    auto = ("--conformity", "auto", "--id", "id")
    one = scores(data / "val.parquet", *auto, out=data / "one.aptset")
    many = scores(data / "val", *auto, out=data / "many.aptset")
    np.testing.assert_array_equal(many.scores, one.scores)


def read_sets(path):
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, keep_default_na=False)
    frame["set"] = [frozenset(one.split("|") if isinstance(one, str) else one) - {""} for one in frame["set"]]
    return frame


def test_every_part_has_its_sets_in_a_file_of_its_own(data):
    scores(data / "val", out=data / "c.aptset")
    run("predict", data / "new.parquet", "-c", data / "c.aptset", "-o", data / "one.parquet", *COMMON)
    told = run("predict", data / "new", "-c", data / "c.aptset", "-o", f"{data}/sets/", *COMMON, "--json").stdout
    assert {**json.loads(told), "mean_size": 0} == {
        **{"rows": 400, "mean_size": 0, "empty": read_sets(data / "one.parquet")["size"].eq(0).sum(), "parts": 3},
        **{"finished_before": 0, "other_parts": 0, "alpha": 0.1, "out": f"{data}/sets/"},
    }
    written = [path for path in sorted((data / "sets").rglob("*")) if path.is_file() and "_aptset" not in path.parts]
    expected = ["north/part-0.parquet", "north/part-1.csv", "south/deep/part-0.parquet"]
    assert written == [data / "sets" / f"region={name}" for name in expected]
    many = pd.concat(map(read_sets, written), ignore_index=True)
    pd.testing.assert_frame_equal(many, read_sets(data / "one.parquet")[many.columns], check_dtype=False, rtol=1e-12)
    assert "region" not in many, "its folder says it"
    whole, parts = (run("evaluate", data / name, "--label", "y", "--json").stdout for name in ("one.parquet", "sets"))
    assert whole == parts


def test_a_part_is_what_the_file_alone_would_be_to_the_last_byte(data):
    """Copies are counted within a part, as within a file."""
    frame = table(80, 3).drop(columns="note")
    cut(pd.concat([frame.iloc[[0, 0, 0, 1]], frame, frame]), data / "copies", ["a.parquet", "b.parquet", "c.csv"])
    scores(data / "val", out=data / "c.aptset")
    common = ("-c", data / "c.aptset", *COMMON, "--alpha", "0.3", "--alpha", "0.1")
    run("predict", data / "copies", *common, "-o", data / "sets")
    for name in ("a.parquet", "b.parquet", "c.csv"):
        run("predict", data / "copies" / name, *common, "-o", data / name)
        assert (data / name).read_bytes() == (data / "sets" / name).read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_no_set_depends_on_how_rows_are_cut_into_parts(data, seed):
    generator = np.random.default_rng(seed)
    frame = pd.read_parquet(data / "new.parquet")
    place = generator.integers(0, generator.integers(1, 9), len(frame))
    for number in range(9):  # some have no rows
        write(
            frame[place == number].sample(frac=1, random_state=seed),
            data / "cut" / f"day={number % 3}" / f"{number}.parquet",
        )
    scores(data / "val", out=data / "c.aptset")
    run("predict", data / "cut", "-c", data / "c.aptset", "-o", data / "sets", *COMMON)
    run("predict", data / "new.parquet", "-c", data / "c.aptset", "-o", data / "one.parquet", *COMMON)
    many = pd.concat([read_sets(path) for path in (data / "sets").rglob("*.parquet")]).sort_values("id")
    pd.testing.assert_frame_equal(many.reset_index(drop=True), read_sets(data / "one.parquet"))


def test_keys_are_columns(data):
    by_key = scores(data / "val", "--groups", "region", out=data / "c.aptset")
    assert sorted(by_key.held_out.groups.names) == ["north", "south"]
    told = failure("predict", data / "new", "-c", data / "c.aptset", "-o", data / "bad", *COMMON)
    assert "part-0.parquet: groups must be passed" in told
    run("predict", data / "new", "-c", data / "c.aptset", "-o", data / "sets", "--groups", "region", *COMMON)
    found = json.loads(run("evaluate", data / "sets", "--label", "y", "--groups", "region", "--json").stdout)
    of_groups = {(row["group"], row["n"]) for row in found["estimates"] if row["by"] == "group"}
    assert of_groups >= {("north", 266), ("south", 134)}
    # A folder that says key=value itself, and the only folder of its kind, count as well.
    north = ("predict", data / "new" / "region=north", "-c", data / "c.aptset", "--groups", "region", *COMMON)
    run(*north, "-o", data / "north")
    same = "region=north/part-0.parquet"
    assert (data / "north" / same).read_bytes() == (data / "sets" / same).read_bytes()


def test_a_key_can_be_the_label_and_values_are_unquoted(tmp_path):
    frame = table(200, 0)
    for label, some in frame.drop(columns=["y", "note"]).groupby(frame["y"]):
        quoted = label.replace('"', "%22").replace(",", "%2C").replace(" ", "%20")
        write(some, tmp_path / "val" / f"y={quoted}" / "rows.csv")
    many = scores(tmp_path / "val", out=tmp_path / "many.aptset")
    frame.to_parquet(tmp_path / "val.parquet")
    np.testing.assert_array_equal(many.scores, scores(tmp_path / "val.parquet", out=tmp_path / "one.aptset").scores)
    (tmp_path / "val" / "y=__HIVE_DEFAULT_PARTITION__").mkdir()
    frame.drop(columns="y").to_parquet(tmp_path / "val" / "y=__HIVE_DEFAULT_PARTITION__" / "x.parquet")
    told = failure("calibrate", tmp_path / "val", "--label", "y", *COMMON, "-o", tmp_path / "c.aptset")
    assert "x.parquet, row 0, column 'y': the label is missing" in told


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
        assert "--out must be a folder where PROBS are several files" in failure(*common, out)
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


def test_a_table_in_parts_is_the_table(command, tmp_path):
    """Rows in the same order, one column in the names of folders: the model and its sets are the same."""
    patients = pd.read_csv("patients.csv", dtype=str, keep_default_na=False).sort_values("insured", kind="stable")
    patients[[*patients.columns.drop("insured"), "insured"]].to_csv("one.csv", index=False)
    for insured, some in patients.groupby("insured"):
        write(some.drop(columns="insured"), tmp_path / "parts" / f"insured={insured}" / "rows.csv")
        typed = pd.read_csv(tmp_path / "parts" / f"insured={insured}" / "rows.csv").drop(columns="notes")
        write(typed, tmp_path / "typed" / f"insured={insured}" / "rows.parquet")
    for name, out in (("one.csv", "one"), ("parts", "many"), ("typed/*/*.parquet", "typed-too")):
        command("run", name, "--target", "diagnosis", "--out", out, "--drop", "patient_id")
    assert (tmp_path / "one/sets.parquet").read_bytes() == (tmp_path / "many/sets.parquet").read_bytes()
    assert (tmp_path / "one/sets.parquet").read_bytes() == (tmp_path / "typed-too/sets.parquet").read_bytes()
    write(pd.read_csv("patients.csv").drop(columns="age"), tmp_path / "parts" / "x.csv")
    told = command("run", "parts", "--target", "diagnosis", rc=1).stderr
    assert "parts/x.csv must have the columns of the first file: patient_id, age" in told
    write(typed, tmp_path / "parts" / "x.parquet")
    assert "parts must hold files of one kind" in command("run", "parts", "--target", "diagnosis", rc=1).stderr


def test_raw_rows_in_parts(command, tmp_path):
    command("run", "patients.csv", "--target", "diagnosis", "--out", "results", "--id", "patient_id")
    new = pd.read_csv("new.csv", keep_default_na=False)
    for smoker, some in new.groupby("smoker"):
        write(some.drop(columns="smoker"), tmp_path / "new" / f"smoker={smoker}" / "rows.csv")
    write(new.iloc[:0].drop(columns="smoker"), tmp_path / "new" / "smoker=no" / "none.csv")
    command("predict", "new.csv", "-c", "results", "-o", "one.csv")
    command("predict", "new", "-c", "results", "-o", "sets")
    one, many = pd.read_csv("one.csv"), pd.concat(map(pd.read_csv, sorted((tmp_path / "sets").rglob("rows.csv"))))
    many = many.sort_values("patient_id", ignore_index=True)
    pd.testing.assert_frame_equal(many, one.sort_values("patient_id", ignore_index=True)[many.columns])
    assert (tmp_path / "sets" / "smoker=no" / "none.csv").read_text().count("\n") == 1


def test_a_report_of_parts_is_that_of_their_rows(data):
    scores(data / "val", out=data / "c.aptset")
    common = ("--label", "y", "-c", data / "c.aptset", *COMMON, "-o", data / "page.html", "--json")
    one, many = (run("report", data / name, *common).stdout for name in ("new.parquet", "new"))
    assert one == many


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


def test_levels_that_six_digits_do_not_tell_apart_have_columns_of_their_own(tmp_path):
    table(300, 0).to_parquet(tmp_path / "new.parquet")
    run("calibrate", tmp_path / "new.parquet", *LABEL, "-o", tmp_path / "c.aptset")
    levels = ("--alpha", "0.3", "--alpha", "0.3000001")
    run("predict", tmp_path / "new.parquet", "-c", tmp_path / "c.aptset", *levels, "-o", tmp_path / "s.parquet", *LABEL)
    assert {"set 0.3", "set 0.3000001"} <= set(pq.read_schema(tmp_path / "s.parquet").names)
    run("evaluate", tmp_path / "s.parquet", "--label", "y", "--alpha", "0.3000001")
