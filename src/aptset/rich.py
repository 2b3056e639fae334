"""What notebooks show: small tables without styles of their own, every text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()) -> str:
    """Return a heading, a table, and a paragraph for each note."""
    cells = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    below = "".join(html_note(note) for note in notes if note)
    return f"<div><p><b>{html.escape(title)}</b></p><table>{top}<tbody>{cells}</tbody></table>{below}</div>"


def html_note(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{html.escape(text)}</p>"
