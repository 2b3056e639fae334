"""Parts as local files: what is elsewhere is copied, one part at a time, and the copy goes when the part is done."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aptset.commands.dialects import finished_lines, plain_csv
from aptset.commands.parts.checks import check_remote_file
from aptset.commands.parts.finding import Part
from aptset.commands.parts.stores import Place, place_of
from aptset.running.writing import claim, undisturbed


@dataclass(frozen=True)
class Reader:
    """How parts are read: the dialect of their CSV, and who is told that a file is called otherwise, or read so."""

    sep: str | None = None
    encoding: str | None = None
    on_name: Callable[[Path, str], None] = lambda path, shown: None
    on_note: Callable[[str], None] = lambda note: None
    is_growing: bool = False  # the last line of a CSV waits until it has its end

    @contextmanager
    def opened(self, part: Part) -> Iterator[Path]:
        """Give a plain file of this machine with the rows of a part."""
        with ExitStack() as stack:
            path = stack.enter_context(local_copy(part.place))
            self.on_name(path, part.place.shown)
            finished = finished_lines(path, self.encoding) if self.is_growing else path
            plain, note = plain_csv(finished, self.sep, self.encoding)
            for copy in {finished, plain} - {path}:
                stack.callback(shutil.rmtree, copy.parent, ignore_errors=True)
                self.on_name(copy, part.place.shown)
            if note:
                self.on_note(note)
            yield plain


@contextmanager
def local_copy(place: Place) -> Iterator[Path]:
    """Give a file of this machine with the same content; the file itself where it is here."""
    if place.is_local:
        yield Path(place.path)
        return
    with scratch_folder() as folder:
        path = folder / place.path.rpartition("/")[2]
        place.fetch(path)
        yield path


@contextmanager
def local_target(place: Place) -> Iterator[Path]:
    """Give a path to write to; on a store the file appears there when all went well."""
    if place.is_local:
        yield Path(place.path)
        return
    with scratch_folder() as folder:
        path = folder / place.path.rpartition("/")[2]
        yield path
        place.put(path)


def fetch_once(url: str) -> Path:
    """Return a copy of a file on a store that is there until the process ends."""
    place, stack = place_of(url), ExitStack()
    check_remote_file(url, place.is_file, place.is_folder)
    atexit.register(stack.close)
    return stack.enter_context(local_copy(place))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give an empty folder that goes afterwards; what a kill left is taken over by the next that needs one."""
    place, user = Path(tempfile.gettempdir()), getattr(os, "geteuid", lambda: 0)()
    lock = handle = None
    try:
        with undisturbed():
            lock, handle = claim(lambda number: place / f"aptset-part-{user}-{number}.lock", _empty_folder)
        yield lock.with_suffix("")
    finally:
        if lock is not None and handle is not None:
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            with suppress(OSError):
                lock.unlink()
            os.close(handle)


def _empty_folder(lock: Path) -> bool:
    """Make the folder of a lock anew; False if something stands there that is not ours to remove."""
    folder = lock.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True
