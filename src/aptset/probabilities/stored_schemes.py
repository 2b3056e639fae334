"""How the scheme of several folds stands in an artefact: by name, and with what it promises of the folds it made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations import CALIBRATIONS
from aptset.calibrations.bounds import FoldSizes, Line
from aptset.calibrations.folds import Fold
from aptset.calibrations.scheme import Scheme
from aptset.calibrations.tally import Tally
from aptset.probabilities.checks import damaged, is_storable, unknown_kind

_LONGEST_CAVEAT = 1000


@dataclass(frozen=True)
class WithoutSplitter:
    """A scheme whose splitter was not saved: its folds are made, and what was said against them stays said."""

    scheme: Scheme
    caveat: str

    @property
    def name(self) -> str:
        """What people call it."""
        return self.scheme.name

    @property
    def combine(self) -> type[Tally]:
        """How what the folds say about a new row becomes one count."""
        return self.scheme.combine

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Refuse: what made the folds is not here."""
        raise TypeError(f"calibration must have its splitter to make folds; this {self.name} was read from a file.")

    def lines(self, sizes: FoldSizes) -> list[Line]:
        """Return what the theorem says of such folds."""
        return self.scheme.lines(sizes)


def describe_scheme(scheme: Scheme) -> dict[str, Any]:
    """Return the name of a scheme of the library, its plain settings, and why nothing is promised, if that is so."""
    plain: Any = scheme.scheme if isinstance(scheme, WithoutSplitter) else scheme
    for name, kind in CALIBRATIONS.items():
        if type(plain) is kind:
            settings = {field.name: _plain(getattr(plain, field.name)) for field in fields(plain)}
            kept = {key: value for key, value in settings.items() if is_storable(value)}  # all but a splitter
            return {"name": name, "settings": kept, "caveat": scheme.caveat}
    raise TypeError(
        f"calibration must be one of the library's to be saved; got {scheme!r}. Pickle keeps an object of your own, "
        "for the same versions of everything."
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def find_scheme(path: str | Path, stored: dict[str, Any]) -> Scheme:
    """Return the scheme that was described."""
    name, settings, caveat = (stored.get(key) for key in ("name", "settings", "caveat"))
    if stored.keys() != {"name", "settings", "caveat"} or not isinstance(name, str) or not isinstance(settings, dict):
        raise damaged(path, "its scheme must have a name, settings and a caveat")
    if not isinstance(caveat, str) or len(caveat) > _LONGEST_CAVEAT or not caveat.isprintable():
        raise damaged(path, "the caveat of its scheme must be a line of text")
    if name not in CALIBRATIONS:
        raise unknown_kind(path, "scheme", name)
    try:
        found = CALIBRATIONS[name](**settings)
    except TypeError as error:
        raise unknown_kind(path, f"setting of its scheme {name!r}", error) from error
    if not all(map(is_storable, settings.values())) or found.caveat:
        raise damaged(path, "the settings of its scheme must be texts, numbers, booleans or null")
    return WithoutSplitter(found, caveat) if caveat else found
