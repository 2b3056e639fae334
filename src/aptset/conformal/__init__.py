"""Which rows train and which calibrate, how the counts of folds combine, and what the theorems promise.

To add a calibration, write a frozen dataclass with the methods of :class:`~aptset.conformal.scheme.Scheme` and put
it into :data:`CALIBRATIONS`. What ``__all__`` names is public: ``aptset.Split``.
"""

from collections.abc import Callable

from aptset.conformal.scheme import Scheme
from aptset.conformal.schemes.bootstrap import Bootstrap, OutOfBag
from aptset.conformal.schemes.cross import CVPlus, JackknifePlus, Minimax
from aptset.conformal.schemes.split import Full, Split

__all__ = ["Bootstrap", "CVPlus", "Full", "JackknifePlus", "Minimax", "OutOfBag", "Split"]

CALIBRATIONS: dict[str, Callable[[], Scheme]] = {
    "split": Split,
    "cv+": CVPlus,
    "jackknife+": JackknifePlus,
    "minimax": Minimax,
    "bootstrap": Bootstrap,
    "out-of-bag": OutOfBag,
    "full": Full,
}
