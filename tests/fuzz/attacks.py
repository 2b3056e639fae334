"""Attacks on what is untrusted: each is a strategy that makes hostile input, and a check of what came of it."""

import csv
import io

from hypothesis import strategies as st

from aptset.arrow.formats import delimited
from fuzz.artefact_attacks import ARTEFACT, BYTES, FOLDER, STATE, check_artefact, check_bytes, check_state

CELLS = st.sampled_from(
    ["1", "", "x", '"', '"q"', '"a""b"', '"two\nlines"', 'x"y', '"open', 'shut"', '""', '"x"y', "é", " ", '"a,b"', "NA"]
)
TEXT = st.tuples(
    st.lists(st.lists(CELLS, min_size=2, max_size=2).map(",".join) | st.sampled_from(["", "1", "1,2,3"]), max_size=8),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    st.booleans(),
    st.integers(1, 40),
)


def check_csv(attack, blocks=None):
    """A CSV has as many rows as the strict reading of the standard says, or a quote in it does not close."""
    lines, end, at_end, block = attack
    text = end.join(["a,b", *lines]) + (end if at_end else "")
    file = FOLDER / "text.csv"
    file.write_bytes(text.encode())
    before, delimited._BLOCK = delimited._BLOCK, block
    try:
        wanted = sum(1 for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row) - 1
    except csv.Error:
        wanted = None
    try:
        found = delimited.DelimitedText(file).rows
    except ValueError as error:
        found = None if "a quote opens a cell there" in str(error) else error
    finally:
        delimited._BLOCK = before
    assert found == wanted, (text, found, wanted)
    return found is not None


ATTACKS = {
    "artefact": (ARTEFACT, check_artefact),
    "state": (STATE, check_state),
    "bytes": (BYTES, check_bytes),
    "csv": (TEXT, check_csv),
}
