"""Which rows train and which calibrate, and how calibration scores turn into sets.

To add a calibration, write a frozen dataclass with ``folds`` and put it into :data:`CALIBRATIONS`.
"""

from aptset.calibrations.split import Split

CALIBRATIONS = {"split": Split}
