"""What batches are asked for: two values that every face of them fills in, and that are checked in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from aptset.probabilities.chance import NewU
from aptset.scores import Conformity as Conformity


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, as the caller named them."""

    probabilities: str | Sequence[str] | None = None
    prefix: str | None = None
    groups: Any = None
    ids: str | None = None
    labels: str | None = None
    classes: ArrayLike | None = None


@dataclass(frozen=True)
class Calibrating:
    """The levels, the score and the flags of a calibration, as they were given."""

    alpha: float | Sequence[float]
    conformity: Conformity
    resolution: float | None
    randomized: bool
    allow_empty: bool
    normalize: bool
    logits: bool
    random_state: Any
    buckets: int


@dataclass(frozen=True, kw_only=True)
class Predicting:
    """The levels and the flags of a prediction, as they were given."""

    alpha: float | Sequence[float] | None
    normalize: bool | None
    logits: bool
    allow_empty: bool | None
    u: NewU = None

    @property
    def flags(self) -> dict[str, Any]:
        """What :meth:`Calibration.predict_set` takes by name."""
        flags = {"normalize": self.normalize, "logits": self.logits, "allow_empty": self.allow_empty}
        return {**flags, "u": self.u}
