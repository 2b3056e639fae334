"""Files that are there whole or not at all, whenever a signal comes."""

import os
import signal
import subprocess
import sys

import pytest

from aptset.running import writing

# A signal at the worst moment: the file is made, and nobody has heard of it yet.
READING = """
import signal
from aptset.commands import standard_input
from aptset.commands.start import leave

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
