"""Numbers as people write them: marks between thousands, decimal commas, units; and how the user says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aptset.core.dates import MISSING

_UNIT = r"(?:[€$£¥₹%]|EUR|USD|GBP|CHF|JPY|CAD|AUD|INR|CNY|SEK|NOK|DKK|PLN)"
_AFFIX = re.compile(rf"^([-+]?)\s*{_UNIT}\s*|\s*{_UNIT}$")
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2019": "'"})
POINTS = "1234.5"


@dataclass(frozen=True)
class NumberStyle:
    """A way to write numbers: the mark of decimals, and the one between thousands."""

    decimal: str
    thousands: str

    def number(self, text: str) -> float | None:
        """Return a number; None for what is none in this style. A unit in front or behind is left out."""
        bare = _AFFIX.sub(r"\1", text.translate(_SPACES).strip(), count=1)
        digits = rf"\d+|[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+" if self.thousands else r"\d+"
        if re.fullmatch(rf"[-+]?(?:{digits})(?:{re.escape(self.decimal)}\d*)?(?:[eE][-+]?\d+)?", bare) is None:
            return None
        plain = bare.replace(self.thousands, "") if self.thousands else bare
        return float(plain.replace(self.decimal, "."))


STYLES = {
    f"1{thousands}234{decimal}5": NumberStyle(decimal, thousands)
    for decimal, marks in ((".", ("", ",", " ", "'")), (",", ("", ".", " ", "'")))
    for thousands in marks
}


@dataclass(frozen=True)
class Writing:
    """How the user says that dates and numbers are written, where that can be read in more than one way."""

    dates: str | None = None
    thousands: str | None = None
    decimal: str | None = None

    def styles(self, texts: Sequence[str]) -> list[str]:
        """Return the ways in which all texts are numbers, of those that differ; none if they are no numbers."""
        different = list(dict.fromkeys(texts))
        units = {match[0].strip("-+ ") if (match := _AFFIX.search(text.strip())) else "" for text in different}
        if not texts or len(units - {""}) > 1 or ("%" in units and len(units) > 1):
            return []
        readings: dict[tuple[float | None, ...], str] = {}
        few = different[:: max(len(different) // 50, 1)]
        for name, style in STYLES.items():
            is_wanted = self.thousands in (None, style.thousands) and self.decimal in (None, style.decimal)
            if is_wanted and all(style.number(text) is not None for text in few):
                numbers = tuple(style.number(text) for text in different)
                if None not in numbers:
                    readings.setdefault(numbers, name)
        return list(readings.values())


def check_marks(dates: str | None, thousands: str | None, decimal: str | None) -> Writing:
    """Return how numbers and dates are written; refuse marks that no number has, and one mark for two things."""
    named = {"space": " ", "point": ".", "comma": ",", "none": "", "apostrophe": "'"}
    marks = [mark if mark is None else named.get(mark, mark) for mark in (thousands, decimal)]
    if marks[0] not in (None, "", ".", ",", " ", "'") or marks[1] not in (None, ".", ","):
        raise ValueError(
            f"--thousands must be one of . , ' space none, and --decimal one of . and ,; got {thousands!r} and "
            f"{decimal!r}."
        )
    if marks[0] is not None and marks[0] == marks[1]:
        raise ValueError(f"--thousands and --decimal must be different marks; got {thousands!r} for both.")
    return Writing(dates, *marks)


def is_missing(text: str | None) -> bool:
    """Tell whether a cell among numbers or dates says that nothing is known."""
    return text is None or text.strip().lower() in MISSING
