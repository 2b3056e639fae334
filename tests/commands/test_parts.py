"""Many files as one: folders, globs, hive keys, mixed kinds; what is refused, and in which words."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from parts_data import COMMON, LABEL, NAMES, cut, read_sets, scores, write

import aptset
from shell import failure, run, table


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


def test_levels_that_six_digits_do_not_tell_apart_have_columns_of_their_own(tmp_path):
    table(300, 0).to_parquet(tmp_path / "new.parquet")
    run("calibrate", tmp_path / "new.parquet", *LABEL, "-o", tmp_path / "c.aptset")
    levels = ("--alpha", "0.3", "--alpha", "0.3000001")
    run("predict", tmp_path / "new.parquet", "-c", tmp_path / "c.aptset", *levels, "-o", tmp_path / "s.parquet", *LABEL)
    assert {"set 0.3", "set 0.3000001"} <= set(pq.read_schema(tmp_path / "s.parquet").names)
    run("evaluate", tmp_path / "s.parquet", "--label", "y", "--alpha", "0.3000001")


def test_copies_in_many_files_are_those_of_one_file(tmp_path):
    """Files of a few equal rows: the j-th copy in each file had one u, and whole files calibrated together."""
    generator = np.random.default_rng(0)
    matrix = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])[generator.integers(2, size=5000)]
    frame = pd.DataFrame(matrix, columns=["p_a", "p_b", "p_c"]).assign(y=generator.choice(list("abc"), 5000))
    write(frame, tmp_path / "one.parquet")
    for number in range(40):
        write(frame[number * 125 : (number + 1) * 125], tmp_path / "many" / f"{number:02}.parquet")
    one, many = (scores(tmp_path / name, out=tmp_path / f"{name}.aptset") for name in ("one.parquet", "many"))
    np.testing.assert_array_equal(many.scores, one.scores)
    assert many.parts == one.parts
    assert many.chance.copies == one.chance.copies > 0.99
    options = ("-c", tmp_path / "many.aptset", *COMMON)
    done = run("predict", tmp_path / "many/00.parquet", *options, "-o", tmp_path / "a.csv")
    assert "of the calibration rows are copies of others, and 125 rows came without ids" in done.stderr
    assert "Pass --id COLUMN, or --u fresh, or calibrate with --deterministic." in done.stderr
    fresh = ("predict", tmp_path / "many", *options, "--u", "fresh", "-o")
    for name in ("sets", "again"):
        assert "copies of others" not in run(*fresh, f"{tmp_path}/{name}/").stderr
    first, second = (read_sets(tmp_path / name / "00.parquet") for name in ("sets", "again"))
    assert not first.equals(second)


def test_logits_in_files_are_those_of_a_matrix(tmp_path):
    """Saturated logits of a file have the u that they have in a call, whatever the order of its columns."""
    generator = np.random.default_rng(0)
    logits = np.column_stack([np.arange(900.0, 1300.0), np.zeros(400), -np.arange(400.0)])
    labels = generator.choice(["a", "b"], size=400, p=[0.7, 0.3])
    frame = pd.DataFrame(logits, columns=["p_a", "p_b", "p_c"])
    write(frame.assign(y=labels), tmp_path / "val.parquet")
    write(frame[["p_c", "p_a", "p_b"]], tmp_path / "new.parquet")
    calibration = scores(tmp_path / "val.parquet", "--logits", out=tmp_path / "c.aptset")
    expected = aptset.calibrate(logits, labels, classes=list("abc"), logits=True, random_state=0)
    np.testing.assert_array_equal(calibration.scores, expected.scores)
    options = ("-c", tmp_path / "c.aptset", *COMMON, "--logits", "-o", tmp_path / "sets.parquet")
    run("predict", tmp_path / "new.parquet", *options)
    sets = calibration.predict_set(logits, logits=True)
    assert pq.read_table(tmp_path / "sets.parquet")["size"].to_pylist() == sets.sizes.tolist()
