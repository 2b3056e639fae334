"""Files that are there whole or not at all, whenever a signal comes."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from aptset.core import files as writing

# A signal at the worst moment: the file is made, and nobody has heard of it yet.
READING = """
import signal, tempfile
from aptset.cli.inputs import copy_of_input
from aptset.cli.start import leave

make = tempfile.mkstemp

def struck(**names):
    made = make(**names)
    signal.raise_signal(signal.SIGTERM)
    return made

signal.signal(signal.SIGTERM, leave)
tempfile.mkstemp = struck
copy_of_input()
"""


def test_a_signal_between_making_and_noting_a_file_leaves_nothing(tmp_path, monkeypatch):
    claim = writing._claim

    def struck(*arguments):
        claimed = claim(*arguments)
        signal.raise_signal(signal.SIGINT)
        return claimed

    monkeypatch.setattr(writing, "_claim", struck)
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


def test_who_takes_every_temporary_name_stops_nobody(tmp_path, limits):
    limits(temporary_names=3)
    for number in range(4):
        (tmp_path / f".x.txt.{number}.tmp").mkdir()
    with writing.atomic_write(tmp_path / "x.txt") as file:
        file.write(b"done")
    assert len(list(tmp_path.iterdir())) == 5
