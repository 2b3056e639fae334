"""Where the command starts: signals are looked after before anything that takes time is loaded."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_CLEAN = ("SIGINT", "SIGTERM", "SIGHUP")  # status 130, 143, 129, as shells count
CLOSED_PIPE = 141


def main() -> None:
    """Run the command line."""
    for name in _CLEAN:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # nohup and shells ignore on purpose
            signal.signal(number, leave)
    try:
        from aptset.cli.main import main as run
    except ModuleNotFoundError as error:  # the library alone does not need it
        if error.name != "click":
            raise
        from aptset.core.validate import install

        raise SystemExit(f"The command line needs click: {install('cli')}") from error
    run(prog_name="aptset")


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """Exit as at the end of a program, so that everything is cleaned up; a second signal does not disturb that."""
    for name in _CLEAN:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.exit(128 + number)


def leave_quietly() -> NoReturn:
    """End as a process does whose reader has gone: without a word, and without a flush that fails again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    sys.exit(CLOSED_PIPE)
