"""What names on the command line stand for: files, many files, copies of what is elsewhere; and where output goes."""

from __future__ import annotations

import atexit
import codecs
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import click

from aptset.cli.options import column_of_groups, printable
from aptset.core.files import check_exists, deferred_signals

_GIVEN: dict[str, str] = {}  # files that were copied to be read, and what the user calls them


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_MAGIC = re.compile(r"[*?\[]")
_FILES = (".csv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npz", ".npy", ".gz", ".bz2", ".zst")


def is_url(name: str) -> bool:
    """Tell a URL from the name of a file."""
    return _URL.match(name) is not None


def has_magic(name: str) -> bool:
    """Tell whether a name is a glob."""
    return _MAGIC.search(name) is not None


def is_one_file(names: Sequence[str]) -> bool:
    """Tell whether the names stand for one file, whatever its name looks like; one that is not there is one, too."""
    if len(names) != 1 or names[0] == "-":
        return len(names) == 1
    if _URL.match(names[0]):
        from aptset.cli.stores import location_of

        return location_of(names[0]).is_file
    path = Path(names[0])
    return not path.is_dir() and (path.exists() or not has_magic(names[0]))


def goes_to_folder(names: Sequence[str], out: str) -> bool:
    """Tell whether output is a folder of parts; several parts can go nowhere else."""
    is_one, is_file_name = is_one_file(names), PurePosixPath(out).suffix.lower() in _FILES
    is_folder = out.endswith("/") or (not is_file_name if "://" in out else Path(out).is_dir())
    if not is_one:
        is_folder = is_folder or (out != "-" and not is_file_name)
        if not is_folder:
            raise ValueError(
                "--out must be a folder if PROBS are several files, since each of them gets a file of its "
                f"own; got {out!r}. Pass sets/, for instance."
            )
    return is_folder and list(names) != ["-"]


class TableOptions(NamedTuple):
    """How tables are read: the dialect of a CSV, if the user named it, and whether it is said where it is not plain."""

    sep: str | None
    encoding: str | None
    quiet: bool
    folder: Path | None = None  # of a run, which remembers how the table that trained was written
    is_growing: bool = False  # the last line of a CSV waits until it has its end


def open_table(name: str, how: TableOptions) -> Any:
    """Return a table as a source of rows, many files joined; say how it is read if it is not plain."""
    if is_one_file([name]):
        return open_file(name, how)
    from aptset.arrow.formats import table_file
    from aptset.cli.many_files import join

    path = join(parts_of([name], how), name)
    is_called(path, name)
    return table_file(path, *((",", "utf-8") if path.suffix == ".csv" else ()))  # as it was joined


def open_file(name: str, how: TableOptions) -> Any:
    """Return one file as a source of rows."""
    from aptset.arrow.formats import table_file

    sep, encoding = how.sep, how.encoding
    if how.folder is not None and how.folder.is_dir() and ".csv" in name.lower() and Path(name).is_file():
        sep, encoding = remembered(how.folder, name, sep, encoding)
    path = path_of(name)
    if how.is_growing:
        from aptset.cli.many_files import finished_lines

        given, path = path, finished_lines(path, encoding)
        _GIVEN[str(path)] = _GIVEN[str(given)]
    file = table_file(path, sep, encoding)
    if file.note and not how.quiet:
        click.echo(printable(file.note), err=True)
    return file


def open_only(names: Sequence[str], how: TableOptions) -> Any:
    """Return the one table that was named."""
    if len(names) > 1:
        raise click.UsageError(f"This command reads one FILE; got {len(names)}.")
    return open_table(names[0], how)


def remembered(folder: Path, name: str, sep: str | None, encoding: str | None) -> tuple[str | None, str | None]:
    """Return the separator and the encoding of a CSV: those of the table that trained, where the file may have them.

    What the user says goes first, and then what the file itself shows.
    """
    import pyarrow as pa

    from aptset.arrow.formats.delimited import encoding_of
    from aptset.core.files import as_utf8
    from aptset.estimator.storage import check_table, read_folder

    facts, _ = read_folder(folder)
    stored = (
        {"separator": ",", "encoding": "utf-8"} if facts["table"] is None else check_table(folder, facts)["dialect"]
    )
    with pa.input_stream(as_utf8(Path(name)), compression="detect") as stream:
        head = stream.read(1 << 16)
    is_other = encoding_of(head) == "utf-8" and (head.isascii() or not _is_utf8(head))
    if encoding is None and is_other and stored["encoding"] not in ("utf-8", "utf-16", "utf-16-le", "utf-16-be"):
        encoding = stored["encoding"]
    header = head.decode(encoding or encoding_of(head), errors="replace").partition("\n")[0]
    if sep is None and stored["separator"] != "," and stored["separator"] in header:
        sep = stored["separator"]
    return sep, encoding


def _is_utf8(head: bytes) -> bool:
    """Tell whether bytes are UTF-8, of which the last letter may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def artefact_of(name: str) -> Path:
    """Return the path of an artefact or a folder that was written before; refuse what is not there."""
    path = path_of(name) if "://" in name else Path(name)
    if not path.exists() and not path.is_symlink():  # what is wrong with a link is said when it is read
        raise FileNotFoundError(f"{name}: no such {'file' if path.suffix else 'folder'}.")
    return path


def path_of(name: str) -> Path:
    """Return the path of an input, of a copy where - or a URL stands for it; messages call it as the user does."""
    if name == "-":
        path, name = copy_of_input(), "standard input"
    elif "://" in name:
        from aptset.cli.stores import fetch_once

        path = fetch_once(name)
    else:
        path = check_exists(Path(name))
    _GIVEN[str(path)] = name
    return path


def is_called(path: Path, name: str) -> None:
    """Note what the user calls a file."""
    _GIVEN[str(path)] = name


def as_given(text: str) -> str:
    """Return a message that speaks of the files that the user named, not of copies."""
    for path in sorted(_GIVEN, key=len, reverse=True):
        text = text.replace(path, _GIVEN[path])
    return text


def source_of(options: Mapping[str, Any], label: str | None, file: Any) -> Any:
    """Return the file of probabilities that the options stand for."""
    from aptset.cli.files import ProbabilityFile

    group = column_of_groups(options["groups"])
    names = ("prefix", "logits", "batch_rows")
    settings = {name: options[name] for name in names}
    return ProbabilityFile(
        file, label, options["row_id"], group, weight=options.get("weights"), cluster=options.get("cluster"), **settings
    )


def sources_of(options: dict[str, Any], label: str | None, quiet: bool) -> tuple[Any, Any]:
    """Return the files of probabilities that the options stand for; and, if it is a single one, that one."""
    how = TableOptions(None, None, quiet)
    if not is_one_file(options["probs"]):
        return parts_of(options["probs"], how).sources(partial(source_of, options, label)), None
    one = source_of(options, label, open_file(options["probs"][0], how))
    return [one], one


def parts_of(names: Sequence[str], how: TableOptions) -> Any:
    """Return the parts that several names, a folder or a glob stand for."""
    from aptset.cli.many_files import Parts, Reader, find_parts

    notes: list[str] = []

    def tell(note: str) -> None:
        if not how.quiet and not notes:  # parts are mostly written alike: once is enough
            click.echo(printable(note), err=True)
        notes.append(note)

    return Parts(find_parts(names), Reader(how.sep, how.encoding, is_called, tell, how.is_growing), not how.quiet)


def target_of(out: str, may_be_output: bool = False) -> AbstractContextManager[Path]:
    """Give the path to write to; a URL gets a copy when all went well, and so may standard output, as CSV."""
    if "://" in out:
        return _on_store(out)
    return _standard_output() if out == "-" and may_be_output else nullcontext(Path(out))


@contextmanager
def _on_store(out: str) -> Iterator[Path]:
    """Give a path of this machine; what is there in the end goes to the store."""
    from aptset.cli.stores import local_target, location_of

    with local_target(location_of(out)) as path:
        is_called(path, out)
        yield path


@contextmanager
def _standard_output() -> Iterator[Path]:
    """Give a path of a CSV, which goes to standard output in the end."""
    with tempfile.TemporaryDirectory(prefix="aptset-out-") as folder:
        path = Path(folder) / "sets.csv"
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


_ENDINGS = {
    b"PAR1": ".parquet",
    b"ARRO": ".arrow",
    b"PK\x03\x04": ".npz",
    b"\x93NUMPY": ".npy",
    b"\x1f\x8b\x08": ".csv.gz",
}


def copy_of_input() -> Path:
    """Return a temporary file with all of standard input, so that it can be read twice.

    It goes away when the process ends, by a signal too; what a kill leaves lies in the folder for such files.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise OSError("- must be standard input that is open; it is closed. Pipe data in, or name a file.")
    stream = sys.stdin.buffer
    start = stream.read(6)
    ending = next((ending for magic, ending in _ENDINGS.items() if start.startswith(magic)), ".csv")
    with deferred_signals():
        handle, copy = tempfile.mkstemp(prefix="stdin-", suffix=ending)
        atexit.register(Path(copy).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return Path(copy)


_BY_PREVALENCE = ("pas", "prevalence")
_BY_ORDER = {"ordered": "expanding", "central": "central"}  # names of scores, and how their intervals grow


def label_settings(options: dict[str, Any], quiet: bool, rows: int | None = None) -> tuple[Any, Any]:
    """Take --bands, --counts and --order out of the options; return the score and the bands that they stand for.

    ``rows`` is how many rows calibrate, where that is known.
    """
    from aptset import LabelBands, Ordered, Prevalence

    bands, counts, conformity = options.pop("bands"), options.pop("counts"), options["conformity"]
    order = options.pop("order")
    is_number = bands is not None and bands.isdecimal()
    is_prevalent = conformity in _BY_PREVALENCE
    if bands is not None and options["groups"] is not None:
        raise click.UsageError("--bands and --groups cannot both be given: rows are grouped in one way.")
    if counts is None and (is_number or is_prevalent):
        what = f"--conformity {conformity}" if is_prevalent else f"--bands {bands}"
        raise click.UsageError(f"{what} needs --counts FILE, with the number of training rows of each label.")
    if counts is not None and not (is_number or is_prevalent):
        raise click.UsageError("--counts is for --conformity prevalence, or for --bands NUMBER.")
    times = None if counts is None else _whole_numbers(counts, read_labels(counts, quiet))
    if order is not None and conformity not in _BY_ORDER:
        raise click.UsageError("--order is for --conformity ordered and --conformity central.")
    if order is not None:
        conformity = Ordered(_BY_ORDER[conformity], [label.strip() for label in order.split(",")])
    score = Prevalence(times) if is_prevalent and times is not None else conformity
    if is_number and times is not None:
        return score, LabelBands.by_prevalence(times, int(bands), n_calibration=rows)
    return score, None if bands is None else LabelBands(read_labels(bands, quiet))


def read_taxonomy(name: str, quiet: bool) -> Any:
    """Return the tree of a file: an object of JSON, a table of labels and parents, or a column of paths."""
    from aptset import Taxonomy

    if name.lower().endswith(".json"):
        return Taxonomy(_of_json(name, path_of(name)))
    what = "two columns, labels and the parent of each, or one of paths such as a/b/c"
    columns = _columns_of(name, quiet, (1, 2), what)
    if len(columns) == 2:
        return Taxonomy.from_table(columns)
    (paths,) = columns.values()
    return Taxonomy.from_paths(paths)


def read_labels(name: str, quiet: bool) -> dict[str, str]:
    """Return what a file says of each label: an object of JSON, or a table of two columns, the label first."""
    if name.lower().endswith(".json"):
        return _of_json(name, path_of(name))
    labels, values = _columns_of(name, quiet, (2,), "two columns, labels and what belongs to each").values()
    if None in labels or None in values or len(set(labels)) != len(labels):
        raise ValueError(f"{name} must have each label once, and a value for each.")
    return {str(label): str(value) for label, value in zip(labels, values, strict=True)}


def _columns_of(name: str, quiet: bool, widths: Sequence[int], what: str) -> dict[str, list[str | None]]:
    """Return the columns of a small table as texts; there must be as many as ``what`` says."""
    from aptset.arrow.sources import as_texts
    from aptset.cli.files import lacks

    file = open_table(name, TableOptions(None, None, quiet))
    names = file.table().column_names
    if len(names) not in widths:
        raise lacks(file.path, what, names)
    table = file.table(names)
    return {column: as_texts(table[column]) for column in names}


def _of_json(name: str, path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {error}.") from error
    if not isinstance(content, dict) or not all(type(value) in (str, int) for value in content.values()):
        raise ValueError(
            f'{name} must be an object of JSON with a text or a whole number for each label: {{"cat": 12}}.'
        )
    return {label: str(value) for label, value in content.items()}


def _whole_numbers(name: str, table: dict[str, str]) -> dict[str, int]:
    wrong = next((label for label, value in table.items() if not (value.isascii() and value.isdigit())), None)
    if wrong is not None:
        raise ValueError(f"{name} must have whole numbers of training rows; got {table[wrong]!r} for {wrong!r}.")
    return {label: int(value) for label, value in table.items()}
