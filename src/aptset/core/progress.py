"""A bar with a rate and the time left, on terminals and in notebooks; silent in logs and pipes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

Item = TypeVar("Item")


class Bar:
    """A bar that moves as work is done; units of work may cost as much as they like."""

    def __init__(self, total: float | None, label: str, enabled: bool, unit: str = "") -> None:
        self._bar: Any = None
        if enabled and (is_notebook() or is_terminal()):
            kind = _kind_of_bar()
            scale = unit == "rows"  # 1.2M rows
            self._bar = kind(total=total, desc=label, unit=f" {unit or label}", unit_scale=scale, dynamic_ncols=True)

    def advance(self, units: float, note: str = "") -> None:
        """Count work as done and draw the bar."""
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def counting(total: float | None, label: str, enabled: bool) -> Iterator[Callable[[float], None]]:
    """Give a function that counts rows as done, and draws a bar where somebody looks."""
    bar = Bar(total, label, enabled, unit="rows")
    try:
        yield bar.advance
    finally:
        bar.close()


def is_notebook() -> bool:
    """Tell whether a notebook shows what happens here."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "ipykernel" in sys.modules and type(shell).__name__ == "ZMQInteractiveShell"


def is_terminal() -> bool:
    """Tell whether standard error is a terminal; programs without a console have none, and some close it."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _kind_of_bar() -> Any:
    """Return the bar that fits: widgets in notebooks that have them, text elsewhere."""
    if is_notebook() and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as widget

        return widget
    from tqdm import tqdm

    return tqdm


def as_time(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def with_bar(items: Iterable[Item], sizes: list[int], label: str, enabled: bool) -> Iterator[Item]:
    """Yield the items; each stands for ``sizes`` units of work."""
    bar = Bar(sum(sizes), label, enabled)
    try:
        for item, size in zip(items, sizes, strict=True):
            yield item
            bar.advance(size)
    finally:
        bar.close()
