"""Numbers to compare with: model 1, n = 1000, 5000 test points, alpha 0.1, all from the authors' code.

RERUN is a run of that code with minimal patches, ten repetitions with beta redrawn unless stated: mean and standard
deviation. NOTEBOOK is what the authors published for one fixed beta, ten repetitions, worst slices over 100 directions:
quartiles. Sizes depend on beta, so only the pattern of the second can be compared.
"""

from __future__ import annotations

from typing import NamedTuple


class Rerun(NamedTuple):
    """Mean and standard deviation over repetitions of the four metrics."""

    box: str
    method: str
    repetitions: int
    coverage: tuple[float, float]
    worst_slice: tuple[float, float]
    size: tuple[float, float]
    size_given_coverage: tuple[float, float]


METRICS = Rerun._fields[3:]  # what was published, whatever else is measured today
RERUN = (
    Rerun("Oracle", "SC", 10, (0.898, 0.012), (0.898, 0.025), (1.44, 0.24), (1.51, 0.23)),
    Rerun("Oracle", "CV+", 10, (0.899, 0.009), (0.905, 0.021), (1.44, 0.22), (1.51, 0.21)),
    Rerun("Oracle", "HCC", 10, (0.894, 0.017), (0.639, 0.196), (1.16, 0.27), (1.19, 0.24)),
    Rerun("Oracle", "oracle", 10, (0.898, 0.003), (0.902, 0.019), (1.45, 0.23), (1.51, 0.22)),
    Rerun("Oracle", "CQC", 3, (0.912, 0.015), (0.887, 0.038), (2.08, 0.32), (2.15, 0.33)),
    Rerun("SVC", "SC", 10, (0.901, 0.012), (0.885, 0.040), (2.07, 0.24), (2.18, 0.21)),
    Rerun("SVC", "CV+", 10, (0.906, 0.007), (0.887, 0.015), (1.93, 0.20), (2.05, 0.17)),
    Rerun("SVC", "JK+", 2, (0.902, 0.002), (0.873, 0.010), (1.99, 0.11), (2.08, 0.10)),
    Rerun("SVC", "HCC", 10, (0.903, 0.016), (0.615, 0.155), (1.39, 0.38), (1.39, 0.37)),
    Rerun("RFC", "SC", 10, (0.897, 0.009), (0.837, 0.040), (2.29, 0.49), (2.34, 0.45)),
    Rerun("RFC", "CV+", 10, (0.906, 0.007), (0.841, 0.051), (2.31, 0.50), (2.38, 0.45)),
    Rerun("RFC", "HCC", 10, (0.901, 0.016), (0.631, 0.160), (1.76, 0.73), (1.74, 0.73)),
)
# Differences paired over seeds in the same re-run: box, methods, metric, and the mean that was seen.
PAIRED = (
    ("Oracle", "SC", "CV+", "size", "about 0"),
    ("SVC", "SC", "CV+", "size", "0.14"),
    ("RFC", "SC", "CV+", "size", "about 0"),
    ("Oracle", "SC", "HCC", "worst_slice", "0.21 to 0.27"),
    ("SVC", "SC", "HCC", "worst_slice", "0.21 to 0.27"),
    ("RFC", "SC", "HCC", "worst_slice", "0.21 to 0.27"),
)
# Medians of the authors' notebook: marginal, worst slice, size given coverage.
NOTEBOOK = {
    ("Oracle", "SC"): (0.902, 0.904, 1.882),
    ("Oracle", "CV+"): (0.901, 0.901, 1.880),
    ("Oracle", "HCC"): (0.900, 0.840, 1.558),
    ("SVC", "SC"): (0.906, 0.896, 2.482),
    ("SVC", "CV+"): (0.908, 0.904, 2.339),
    ("SVC", "HCC"): (0.903, 0.741, 1.911),
}
