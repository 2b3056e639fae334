"""Writes the pages that are made of the code: the command line, the tables, the figures."""

import subprocess
import sys
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
    pages = {"command-line.md": command_line_page(), "tables.md": tables_page()}
    for name, text in pages.items():
        path = source / "reference" / "generated" / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx when to call."""
    app.connect("builder-inited", write_pages, priority=100)  # before autosummary looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
