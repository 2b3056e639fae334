"""Writes the pages that are made of the code: the command line, the tables, the design records, the figures."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from command_line import command_line_page
from public_names import check_public_names
from tables_of_code import tables_page


def write_pages(app: Any) -> None:
    """Write every generated page that changed; a page that did not keeps its date, so that it is not built again."""
    source = Path(app.srcdir)
    check_public_names(source / "reference" / "api.md")
    subprocess.run([sys.executable, "draw_all.py"], cwd=source / "figures", check=True)  # with settings of its own
    pages = {"command-line.md": command_line_page(), "tables.md": tables_page(), **pages_of_folders(source)}
    for name, text in pages.items():
        path = source / "reference" / "generated" / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def list_page(source: Path, title: str, text: str, pages: Iterable[Path]) -> str:
    """Return a page that lists others."""
    entries = "\n".join(f"/{page.relative_to(source).with_suffix('')}" for page in pages)
    return f"# {title}\n\n{text}\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"


def pages_of_folders(source: Path) -> dict[str, str]:
    """Return the lists of design records, reproductions and benchmarks: whatever the folders hold."""
    why = (
        "Why the code is as it is: one page for each decision, with what was measured and what was given up. "
        "[Contributing](../contributing.md) says where things are."
    )
    paper = (
        "The figures, tables and claims of [the paper](https://arxiv.org/abs/2006.02544), made again by "
        "`aptset reproduce`. Two runs are kept; each says what was run and what was not."
    )
    speed = "What `make bench` measured, the goals that were missed among them."
    first, second = source / "reproduction", source / "reproduction" / "second"
    pages = {
        "design.md": list_page(source, "Design records", why, sorted((source / "design").glob("[0-9]*.md"))),
        "benchmarks.md": list_page(source, "Benchmarks", speed, in_order(source / "benchmarks")),
    }
    return {
        **pages,
        "reproduction.md": list_page(source, "The paper, reproduced", paper, [*in_order(first), *in_order(second)]),
    }


def in_order(folder: Path) -> list[Path]:
    """Return the pages of a folder, the one that explains first."""
    return sorted(folder.glob("*.md"), key=lambda path: (path.stem != "README", path.stem != "claims", path.stem))


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx when to call."""
    app.connect("builder-inited", write_pages, priority=100)  # before autosummary looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
