"""Which rows train and which calibrate, how the counts of folds combine, and what the theorems promise.

To add a calibration, write a frozen dataclass with the methods of :class:`~aptset.calibrations.split.Scheme` and put it
into :data:`CALIBRATIONS`.
"""

from collections.abc import Callable

from aptset.calibrations.cross import CVPlus, JackknifePlus
from aptset.calibrations.minimax import Minimax
from aptset.calibrations.split import Scheme, Split

CALIBRATIONS: dict[str, Callable[[], Scheme]] = {
    "split": Split,
    "cv+": CVPlus,
    "jackknife+": JackknifePlus,
    "minimax": Minimax,
}
