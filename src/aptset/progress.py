"""A bar on the terminal, on request; silent in logs and pipes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def with_bar(items: Iterable[Item], sizes: list[int], label: str, enabled: bool) -> Iterator[Item]:
    """Yield the items; each stands for ``sizes`` units of work."""
    shown = enabled and sys.stderr.isatty()
    done, total, start = 0, sum(sizes), time.monotonic()
    for item, size in zip(items, sizes, strict=True):
        yield item
        done += size
        if shown:
            left = (time.monotonic() - start) / done * (total - done)
            bar = "#" * round(30 * done / total)
            sys.stderr.write(f"\r{label} [{bar:<30}] {done}/{total}, {left:.0f} s left ")
            sys.stderr.flush()
    if shown:
        sys.stderr.write("\n")
