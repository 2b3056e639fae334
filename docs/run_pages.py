"""Runs every code block of the pages for readers, and compares what it prints with what the page shows.

Blocks of a page run in one process, from top to bottom, in an empty folder. ``python`` blocks share their names; a last
expression is shown, as in a notebook. ``sh`` blocks run in bash. A ``text`` block right behind a block is its output:
``...`` stands for anything. A comment before a block may change that:

    <!-- run ... -->          Python that is run and not shown
    <!-- not run: REASON -->  the next block is only looked at by people
    <!-- needs: MODULE -->    the next block is run where that module is installed
    <!-- varies: REASON -->   the next block is run, and may print something else than the page shows

``python docs/run_pages.py [--write] [PAGE ...]`` runs all pages or some; --write puts in what blocks print today.
"""

import argparse
import ast
import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAGES = ["*.md", "start/*.md", "howto/*.md", "explain/*.md"]
PIECES = re.compile(
    r"^(?:<!-- (?P<word>run|not run:|needs:|varies:)(?P<about>.*?)-->|```(?P<language>\w+)\n(?P<code>.*?)^```)$",
    re.MULTILINE | re.DOTALL,
)
OUTPUT = re.compile(r"\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "...\n"  # as an output that is expected
LIMIT = 1800  # seconds for a page: only one that hangs takes as long


class Block(NamedTuple):
    """A piece of code, where it starts, and what the page says that it prints (None: nothing is said)."""

    language: str
    code: str
    line: int
    end: int
    expected: str | None


def blocks_of(text: str) -> tuple[list[Block], list[str]]:
    """Return the blocks that are to be run, and why others are not."""
    found, left_out, comment = [], [], ("", "")
    for match in PIECES.finditer(text):
        if match["word"] == "run":
            found.append(Block("python", match["about"], text.count("\n", 0, match.start("about")), match.end(), None))
        if match["word"]:
            comment = (match["word"], match["about"].strip())
            continue
        (word, about), comment = comment, ("", "")
        if match["language"] not in ("python", "sh"):
            continue
        if word == "not run:" or (word == "needs:" and importlib.util.find_spec(about) is None):
            left_out.append(about if word == "not run:" else f"{about} is not installed")
            continue
        line, output = text.count("\n", 0, match.start("code")), OUTPUT.match(text, match.end())
        expected = ANYTHING if word == "varies:" else output[1] if output else None
        found.append(Block(match["language"], match["code"], line, match.end(), expected))
    return found, left_out


def printed_by(block: Block, names: dict[str, object], page: str) -> str:
    """Run a block; return what it prints."""
    if block.language == "sh":
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.code], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout
    tree = ast.parse("\n" * block.line + block.code, page)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    output = io.StringIO()
    with redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exec(compile(tree, page, "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), page, "eval"), names)
        if value is not None:
            print(repr(value))
    return output.getvalue()


def run_page(path: Path, write: bool) -> str:
    """Run the blocks of a page in the working folder; return a word about those that were left out."""
    text, names, changes = path.read_text(), {"__name__": "__page__"}, []
    blocks, left_out = blocks_of(text)
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for block in blocks:
        where = f"{path}:{block.line + 1}"
        try:
            printed = "\n".join(line.rstrip() for line in printed_by(block, names, str(path)).splitlines()) + "\n"
        except Exception as error:
            raise SystemExit(f"{where}: {type(error).__name__}: {error}") from error
        is_shown = block.expected is not None or (block.language == "python" and printed.strip())
        if is_shown and not checker.check_output(block.expected or "", printed, flags):
            changes.append((block, printed))
            if not write:
                raise SystemExit(
                    f"{where}: the page says\n{block.expected or '(nothing)'}\nthe block prints\n{printed}"
                )
    if changes:
        path.write_text(with_outputs(text, changes))
    return f"{len(blocks)} blocks" + "".join(f"; not run: {reason}" for reason in left_out)


def with_outputs(text: str, changes: list[tuple[Block, str]]) -> str:
    """Return the page with what its blocks print."""
    for block, printed in reversed(changes):
        old = OUTPUT.match(text, block.end)
        text = f"{text[: block.end]}\n\n```text\n{printed}```{text[old.end() if old else block.end :]}"
    return text


def in_own_process(path: Path, write: bool) -> tuple[Path, int, str]:
    """Run a page in a process and a folder of its own."""
    started = time.monotonic()
    path_of_commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Threads of libraries fight for cores with the page beside; figures need no screen.
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PATH": path_of_commands, "MPLBACKEND": "agg"}
    command = [sys.executable, str(Path(__file__).resolve()), "--here", *(["--write"] if write else []), str(path)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    said = done.stdout.strip() if done.returncode == 0 else (done.stdout + done.stderr).strip()
    return path, done.returncode, f"{said} ({time.monotonic() - started:.1f} s)"


def main() -> None:
    """Run the pages, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="write what blocks print into the pages")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(run_page(options.pages[0], options.write))
        return
    pages = options.pages or [page for pattern in PAGES for page in sorted(HERE.glob(pattern))]
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for path, status, said in pool.map(lambda page: in_own_process(page.resolve(), options.write), pages):
            failed += status != 0
            print(f"{'FAILED' if status else 'ran'} {path.relative_to(HERE.resolve())}: {said}", flush=True)
    raise SystemExit(f"{failed} pages failed" if failed else 0)


if __name__ == "__main__":
    main()
