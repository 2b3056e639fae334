"""A bar on the terminal, on request; silent in logs and pipes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class Bar:
    """A bar that moves as work is done; units of work may cost as much as they like."""

    def __init__(self, total: float, label: str, enabled: bool) -> None:
        self._shown = enabled and sys.stderr.isatty()
        self._total, self._label, self._done, self._start = total, label, 0.0, time.monotonic()

    def advance(self, units: float, note: str = "") -> None:
        """Count work as done and draw the bar."""
        self._done += units
        if self._shown:
            left = (time.monotonic() - self._start) / self._done * (self._total - self._done)
            bar = "#" * round(30 * self._done / self._total)
            text = note or f"{self._done:g}/{self._total:g}"
            sys.stderr.write(f"\r{self._label} [{bar:<30}] {text}, {as_time(left)} left \x1b[K")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._shown:
            sys.stderr.write("\n")


def as_time(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def with_bar(items: Iterable[Item], sizes: list[int], label: str, enabled: bool) -> Iterator[Item]:
    """Yield the items; each stands for ``sizes`` units of work."""
    bar = Bar(sum(sizes), label, enabled)
    for item, size in zip(items, sizes, strict=True):
        yield item
        bar.advance(size)
    bar.close()
