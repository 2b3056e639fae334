"""Files that are there whole or not at all, whenever a signal comes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from aptset.cli import stores as opening
from aptset.core import files as writing

# A signal at the worst moment: the file is made, and nobody has heard of it yet.
READING = """
import signal
from aptset.cli import inputs as standard_input
from aptset.cli.start import leave

claim = standard_input.claim

def struck(path_of):
    claimed = claim(path_of)
    signal.raise_signal(signal.SIGTERM)
    return claimed

signal.signal(signal.SIGTERM, leave)
standard_input.claim = struck
standard_input.as_path("-")
"""


def test_a_signal_between_making_and_noting_a_file_leaves_nothing(tmp_path, monkeypatch):
    claim = writing.claim

    def struck(path_of):
        claimed = claim(path_of)
        signal.raise_signal(signal.SIGINT)
        return claimed

    monkeypatch.setattr(writing, "claim", struck)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt), writing.atomic_path(tmp_path / "x.txt"):
            raise AssertionError("the signal comes before anything is written")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert not list(tmp_path.iterdir())


def test_a_signal_between_making_and_noting_the_copy_of_standard_input_leaves_nothing(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", READING], input="a,b\n", env=environment, text=True, check=False)
    assert done.returncode == 143
    assert not list(tmp_path.iterdir())


def test_a_file_with_another_name_is_not_emptied_under_this_one(tmp_path):
    """Who can write to a folder can put a hard link there, under the name that the temporary file would have."""
    letter = tmp_path / "letter.txt"
    letter.write_text("dear")
    os.link(letter, tmp_path / ".x.txt.0.tmp")
    os.link(letter, tmp_path / ".x.txt.1.tmp")
    with writing.atomic_write(tmp_path / "x.txt") as file:
        file.write(b"done")
    assert letter.read_text() == "dear"
    assert (tmp_path / "x.txt").read_bytes() == b"done"


def test_the_copy_of_standard_input_empties_no_file_with_another_name(tmp_path):
    letter, folder = tmp_path / "letter.txt", tmp_path / "tmp"
    letter.write_text("dear")
    folder.mkdir()
    os.link(letter, folder / f"stdin-{os.geteuid()}-0.csv")
    code = "from aptset.cli.inputs import as_path; print(as_path('-').read_text())"
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], input="a,b", env=environment, capture_output=True, text=True)
    assert done.stdout == "a,b\n", done.stderr
    assert letter.read_text() == "dear"


def _bind(name):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)


@pytest.mark.parametrize("kind", ["folder", "link", "dead link", "pipe", "socket"])
def test_what_others_put_under_the_temporary_name_stops_nobody(tmp_path, kind):
    place = tmp_path / ".x.txt.0.tmp"
    (tmp_path / "letter.txt").write_text("dear")
    make = {
        "folder": place.mkdir,
        "link": lambda: place.symlink_to(tmp_path / "letter.txt"),
        "dead link": lambda: place.symlink_to(tmp_path / "nothing"),
        "pipe": lambda: os.mkfifo(place),
        "socket": lambda: _bind(os.path.relpath(place)),  # the full name may be too long for a socket
    }
    make[kind]()
    with writing.atomic_write(tmp_path / "x.txt") as file:
        file.write(b"done")
    assert (tmp_path / "x.txt").read_bytes() == b"done"
    assert (tmp_path / "letter.txt").read_text() == "dear"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.txt.0.tmp", "letter.txt", "x.txt"]


def test_who_takes_every_temporary_name_stops_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_MOST_NAMES", 3)
    for number in range(4):
        (tmp_path / f".x.txt.{number}.tmp").mkdir()
    with writing.atomic_write(tmp_path / "x.txt") as file:
        file.write(b"done")
    assert len(list(tmp_path.iterdir())) == 5


def test_a_folder_of_another_user_stops_no_run(tmp_path, monkeypatch):
    """In the temporary directory nobody can remove it but its owner."""
    real_rmtree = shutil.rmtree
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(opening.shutil, "rmtree", lambda path, **_: remove(path))
    theirs = {tmp_path / f"aptset-part-{os.geteuid()}-{number}" for number in range(2)}

    def remove(path):
        if path not in theirs:
            real_rmtree(path, ignore_errors=True)

    for folder in theirs:
        folder.mkdir()
        (folder / "letter").write_text("theirs")
    for _ in range(2):
        with opening.scratch_folder() as folder:
            assert folder not in theirs
            assert folder.stat().st_mode & 0o777 == 0o700
            assert not list(folder.iterdir())
    assert set(tmp_path.iterdir()) == theirs
