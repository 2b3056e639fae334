"""The commands on a real S3 server, which the tests start on this machine, and on a store of fsspec's."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.fs
import pytest

import aptset
from aptset.cli.stores import Location, is_of_all_bytes
from shell import failure, run, table

COMMON = ("--prefix", "p_")
# A score of the user's own that waits, in the part of 77 rows, for as long as there is a file called hold.
SLOW = """
import pathlib, time

def score(places):
    while places.own.shape[0] == 77 and pathlib.Path("hold").exists():
        pathlib.Path("waiting").touch()
        time.sleep(0.01)
    return places.above + places.u * places.own
"""


def wait_for(condition):
    for _ in range(18_000):
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("it never came")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start moto's S3; what is asked of it stands in a file. The clients find it by the variables that all know."""
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    variables = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with log.open("w") as stream, subprocess.Popen(command, stdout=stream, stderr=stream) as process:
        try:
            address = wait_for(lambda: re.search(r"http://127.0.0.1:\d+", log.read_text()))[0]
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {**variables, "AWS_ENDPOINT_URL": address}.items():
                    patch.setenv(name, value)
                patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
                yield log
        finally:
            process.kill()


@pytest.fixture
def store(server):
    """Give an empty bucket."""
    found = pyarrow.fs.S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"], allow_bucket_creation=True, allow_bucket_deletion=True
    )
    found.create_dir("bucket")
    yield found
    found.delete_dir("bucket")


@pytest.fixture
def data(tmp_path):
    """Hold rows to calibrate on, and four parts of new ones, on this machine."""
    (tmp_path / "slow.py").write_text(SLOW)
    for number, n in enumerate((30, 50, 77, 40)):
        path = tmp_path / "new" / f"day={number} é" / ("part.csv" if number == 1 else "part.parquet")
        path.parent.mkdir(parents=True)
        frame = table(100, number).iloc[:n].drop(columns="note")
        frame.to_csv(path, index=False) if number == 1 else frame.to_parquet(path)
    (tmp_path / "new" / "_SUCCESS").touch()
    table(100, 9).to_parquet(tmp_path / "val.parquet")
    return tmp_path


def upload(store, folder, base):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with store.open_output_stream(f"{base}/{path.relative_to(folder)}") as stream:
                stream.write(path.read_bytes())


def objects(store, base):
    """Return all objects below a name: their names and bytes."""
    found = store.get_file_info(pyarrow.fs.FileSelector(base, recursive=True))
    files = [info.path for info in found if info.type == pyarrow.fs.FileType.File]
    return {path[len(base) + 1 :]: store.open_input_stream(path).read() for path in files}


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_records(content):
    return {name: value for name, value in content.items() if not name.startswith("_aptset")}


def test_from_bucket_to_bucket_is_as_from_folder_to_folder(store, data):
    upload(store, data / "new", "bucket/new")
    upload(store, data, "bucket/all")
    by_day = ("--label", "y", *COMMON)
    run("calibrate", "val.parquet", *by_day, "-o", "c.aptset", cwd=data)
    run("calibrate", "s3://bucket/all/val.parquet", *by_day, "-o", "s3://bucket/c.aptset")
    assert "file            s3://bucket/c.aptset" in run("inspect", "s3://bucket/c.aptset").stdout
    run("predict", "new", "-c", "c.aptset", *COMMON, "-o", "sets", cwd=data)
    for name in ("s3://bucket/new", "s3://bucket/new/", "s3://bucket/new/day=?*/part.*"):
        told = run("predict", name, "-c", "s3://bucket/c.aptset", *COMMON, "-o", "s3://bucket/sets/").stdout
    assert "Parts: 4, of which an earlier run had finished 4." in told
    assert without_records(objects(store, "bucket/sets")) == without_records(tree(data / "sets"))
    here = run("evaluate", data / "sets", "--label", "y", "--groups", "day", "--json").stdout
    assert here == run("evaluate", "s3://bucket/sets", "--label", "y", "--groups", "day", "--json").stdout
    parts = ("s3://bucket/new", "--label", "y", "--groups", "day", *COMMON)
    run("calibrate", *parts, "-o", data / "days.aptset")
    assert sorted(aptset.load(data / "days.aptset").held_out.groups.names) == [f"{number} é" for number in range(4)]
    one = "new/day=0 é/part.parquet"
    run("predict", f"s3://bucket/{one}", "-c", data / "c.aptset", *COMMON, "-o", "s3://bucket/one.parquet")
    assert objects(store, "bucket")["one.parquet"] == (data / "sets" / "day=0 é" / "part.parquet").read_bytes()


def test_after_a_kill_objects_are_whole_and_none_is_put_twice(store, data, server):
    upload(store, data / "new", "bucket/new")
    run("calibrate", "val.parquet", "--label", "y", *COMMON, "--conformity", "slow:score", "-o", "c.aptset", cwd=data)
    predict = ("-c", "c.aptset", *COMMON, "--trust", "slow", "-o")
    run("predict", "new", *predict, "straight", cwd=data)
    (data / "hold").touch()
    command = [sys.executable, "-m", "aptset", "predict", "s3://bucket/new", *predict, "s3://bucket/killed"]
    same_code = {**os.environ, "PYTHONPATH": str(Path(aptset.__file__).parents[1])}
    with subprocess.Popen(command, cwd=data, env=same_code) as process:
        wait_for(lambda: (data / "waiting").exists() or process.poll() is not None)
        assert process.poll() is None, "it waits in the third part"
        process.kill()
    (data / "hold").unlink()
    straight = without_records(tree(data / "straight"))
    done = without_records(objects(store, "bucket/killed"))
    assert done == {name: straight[name] for name in ("day=0 é/part.parquet", "day=1 é/part.csv")}
    told = run("predict", "s3://bucket/new", *predict, "s3://bucket/killed", cwd=data).stdout
    assert "Parts: 4, of which an earlier run had finished 2." in told
    assert without_records(objects(store, "bucket/killed")) == straight
    puts = re.findall(r'"PUT /bucket/killed/(day\S*)', server.read_text())
    assert len(puts) == len({put.partition("?")[0] for put in puts}) == 4


def put(store, name, content):
    with store.open_output_stream(name, compression=None) as stream:
        stream.write(content)


def test_objects_are_told_by_their_content(store, data):
    """Two of one length, put within a second, have the same name below their folders, length and time of change."""
    run("calibrate", "val.parquet", "--label", "y", *COMMON, "-o", "c.aptset", cwd=data)
    frames = [table(8, seed).drop(columns=["note", "y"]) for seed in (1, 2)]
    texts = [frame.to_csv(index=False, float_format="%.3f").encode() for frame in frames]
    assert len(texts[0]) == len(texts[1])
    rest = ("-c", data / "c.aptset", *COMMON, "--normalize", "-o", "s3://bucket/sets/")
    for folder, text in zip(("day1", "day2"), texts, strict=True):
        put(store, f"bucket/{folder}/part.csv", text)
    run("predict", "s3://bucket/day1", *rest)
    before = objects(store, "bucket/sets")
    assert failure("predict", "s3://bucket/day2", *rest) == (
        "Error: s3://bucket/sets/part.csv holds the sets of s3://bucket/day1/part.csv, and this run reads "
        "s3://bucket/day2/part.csv, whose content is another. Name another folder by --out, or delete this one.\n"
    )
    assert objects(store, "bucket/sets") == before
    put(store, "bucket/sets/part.csv", before["part.csv"][:-5] + b"x" * 5)
    assert "it was changed or cut short" in run("predict", "s3://bucket/day1", *rest).stderr
    assert objects(store, "bucket/sets") == before
    put(store, "bucket/day1/part.csv", texts[1])
    assert "its input s3://bucket/day1/part.csv has changed" in run("predict", "s3://bucket/day1", *rest).stderr
    assert objects(store, "bucket/sets") != before


def test_an_object_that_is_compressed_is_read(store, data):
    run("calibrate", "val.parquet", "--label", "y", *COMMON, "-o", "c.aptset", cwd=data)
    table(40, 1).to_csv(data / "part.csv.gz", index=False)
    put(store, "bucket/new/part.csv.gz", (data / "part.csv.gz").read_bytes())
    run("predict", "s3://bucket/new", "-c", "c.aptset", *COMMON, "-o", "sets", cwd=data)
    run("predict", "part.csv.gz", "-c", "c.aptset", *COMMON, "-o", "one.csv", cwd=data)
    assert (data / "sets" / "part.csv").read_bytes() == (data / "one.csv").read_bytes()


def test_a_store_without_tags_tells_objects_by_length_time_and_ends(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    store = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("file")))
    found = set()
    for content, changed in ((b"abc", 1), (b"abd", 1), (b"abc", 2), (b"abcd", 1), (b"", 1)):
        (tmp_path / "part.csv").write_bytes(content)
        os.utime(tmp_path / "part.csv", ns=(changed, changed * 10**9))
        place = Location(store, str(tmp_path / "part.csv"), "file")
        assert place.digest() == place.digest()
        found.add(place.digest())
    assert len(found) == 5
    assert not any(map(is_of_all_bytes, found))


def test_what_is_not_there_is_named_as_the_user_named_it(store, data):
    run("calibrate", "val.parquet", "--label", "y", *COMMON, "-o", "c.aptset", cwd=data)
    for name in ("s3://bucket/nothing/", "s3://elsewhere/nothing"):
        assert failure("evaluate", name, "--label", "y") == (
            f"Error: {name} must be a file or a folder; there is none of that name.\n"
        )
    assert "'s3://bucket/*.csv' must match at least one file" in failure(
        "evaluate", "s3://bucket/*.csv", "--label", "y"
    )
    assert "s3://bucket/c.aptset must be a file; there is none" in failure("inspect", "s3://bucket/c.aptset")
    with store.open_output_stream("bucket/bad/x.csv") as stream:
        stream.write(b"p_a,p_b,y\n0.5,0.5,a\n0.5,0.1,b\n")
    told = failure("calibrate", "s3://bucket/bad", "--label", "y", *COMMON, "-o", data / "bad.aptset")
    assert told.startswith("Error: s3://bucket/bad/x.csv: ")
    assert "row 1" in told
    told = failure("predict", data / "new", "-c", data / "c.aptset", *COMMON, "-o", "s3://elsewhere/sets")
    assert "elsewhere" in told


def test_a_store_of_fsspec(data):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(str(data / "new"), "/new", recursive=True)
    run("calibrate", "val.parquet", "--label", "y", *COMMON, "-o", "c.aptset", cwd=data)
    run("predict", data / "new", "-c", data / "c.aptset", *COMMON, "-o", data / "sets")
    run("predict", "memory://new", "-c", data / "c.aptset", *COMMON, "-o", "memory://sets")
    found = {name.removeprefix("/sets/"): memory.cat(name) for name in memory.find("/sets")}
    assert without_records(found) == without_records(tree(data / "sets"))


def test_a_url_that_nobody_knows_is_refused_in_words():
    assert "must be a URL of a store that pyarrow or fsspec knows" in failure("inspect", "nope://bucket/cal.aptset")
