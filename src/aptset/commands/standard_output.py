"""Sets for standard output: written to a file first, so that half an answer is never seen."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aptset.commands.inputs import target_of


@contextmanager
def to_standard_output(out: str) -> Iterator[Path]:
    """Give the path to write to; for - a temporary CSV, which goes to standard output when all went well."""
    if out != "-":
        with target_of(out) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="aptset-out-") as folder:
        path = Path(folder) / "sets.csv"
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
