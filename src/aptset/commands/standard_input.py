"""Standard input as a file that can be read twice, and that is gone afterwards."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from aptset.running.path_checks import (
    check_exists,
    check_standard_input,
)
from aptset.running.writing import claim, undisturbed

_ENDINGS = {
    b"PAR1": ".parquet",
    b"ARRO": ".arrow",
    b"PK\x03\x04": ".npz",
    b"\x93NUMPY": ".npy",
    b"\x1f\x8b\x08": ".csv.gz",
}


def as_path(name: str) -> Path:
    """Return a path; "-" is standard input, copied to a temporary file so that it can be read twice.

    The copy goes away when the process ends, by a signal too; what a kill leaves is taken over by the next copy.
    """
    if name != "-":
        return check_exists(Path(name))
    stream = check_standard_input(sys.stdin)
    start = stream.read(6)
    ending = next((ending for magic, ending in _ENDINGS.items() if start.startswith(magic)), ".csv")
    folder, user = Path(tempfile.gettempdir()), getattr(os, "geteuid", lambda: 0)()
    with undisturbed():
        path, handle = claim(lambda number: folder / f"stdin-{user}-{number}{ending}")
        atexit.register(path.unlink, missing_ok=True)  # the lock is kept until the process ends
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path
