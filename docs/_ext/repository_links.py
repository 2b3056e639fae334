"""Lets Markdown files of the repository be pages, and turns their links, which are written for the repository."""

import os
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>(?!\w+:|#|/)[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")

# Files beside the documentation that are pages of it, and folders that have a page which lists what is in them.
PAGES = {
    REPOSITORY / "CHANGELOG.md": "reference/changelog",
    REPOSITORY / "SECURITY.md": "reference/security",
    REPOSITORY / "CONTRIBUTING.md": "reference/contributing",
    REPOSITORY / "README.md": "index",
    DOCS: "index",
    DOCS / "design": "reference/design",
    DOCS / "benchmarks": "reference/benchmarks",
    DOCS / "reproduction": "reference/reproduction",
}
SOURCES = {page: path for path, page in PAGES.items() if path.suffix and page != "index"}


def take_from_repository(app: Any, page: str, source: list[str]) -> None:
    """Put the text of a file of the repository where a page stands for one; turn links to what is no page."""
    path = SOURCES.get(page, Path(app.env.doc2path(page)))
    if path.suffix != ".md":
        return
    if page in SOURCES:
        app.env.note_dependency(str(path))
        source[0] = path.read_text(encoding="utf-8")
    folder = (DOCS / page).parent
    source[0] = LINK.sub(lambda link: _turned(link, path.parent, folder), source[0])


def _turned(link: re.Match[str], written_in: Path, shown_in: Path) -> str:
    """Return a link as the page needs it; one to nothing stays as it is, and is an error of the build."""
    text, anchor = link["text"], link["anchor"] or ""
    target = (written_in / link["target"]).resolve()
    if target in PAGES:
        return f"[{text}](/{PAGES[target]}.md{anchor})"
    if target.is_relative_to(DOCS) and target.is_file():
        return f"[{text}](/{target.relative_to(DOCS)}{anchor})"
    if target.is_file():
        return f"{{download}}`{text.replace('`', '')} <{os.path.relpath(target, shown_in)}>`"
    return text if target.is_dir() else link[0]


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx when to call."""
    app.connect("source-read", take_from_repository)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
