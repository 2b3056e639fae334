"""Sets in words: what a session and a notebook show of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aptset.data.sets.prediction_sets import PredictionSets

_SHOWN_ROWS = 6
_SHOWN_LABELS = 8


def as_text(sets: PredictionSets) -> str:
    """Return a title and the first rows."""
    shown = min(len(sets), _SHOWN_ROWS)
    rows = [f"  {row:>{len(str(shown))}}  {{{_row_text(sets, row)}}}" for row in range(shown)]
    more = [f"  ... {len(sets) - _SHOWN_ROWS} more rows"] if len(sets) > _SHOWN_ROWS else []
    return "\n".join([_title(sets), *rows, *more])


def as_html(sets: PredictionSets) -> str:
    """Return a title and a table of the first rows."""
    from html import escape  # here, since it is slow to import

    cells = "".join(
        f"<tr><th>{row}</th><td>{sets.sizes[row]}</td><td>{escape(_row_text(sets, row))}</td></tr>"
        for row in range(min(len(sets), _SHOWN_ROWS))
    )
    head = "<tr><th>row</th><th>size</th><th>labels, most likely first</th></tr>"
    return f"<p>{escape(_title(sets))}</p><table>{head}{cells}</table>"


def _title(sets: PredictionSets) -> str:
    mean = f", mean size {sets.sizes.mean():.3g}" if len(sets) else ""
    return f"PredictionSets: {len(sets)} row{'s' * (len(sets) != 1)}, {len(sets.classes)} classes{mean}"


def _row_text(sets: PredictionSets, row: int) -> str:
    labels = [str(label) for label in sets[row][:_SHOWN_LABELS]]
    left_out = int(sets.sizes[row]) - len(labels)
    return ", ".join(labels) + (f", ... {left_out} more" if left_out else "")
