"""The gallery: the order of its sections and of the examples in each, and letters that a thumbnail can show."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

SECTIONS = ("basics", "scores", "groups", "shift", "decisions")

ORDER = (
    "first_sets",
    "levels",
    "map_of_sets",
    "coverage_law",
    "calibration_size",
    "assurance",
    "scores",
    "temperature",
    "own_score",
    "ordered_labels",
    "few_rows",
    "rare_classes",
    "label_bands",
    "equal_coverage",
    "overlapping",
    "patients",
    "worst_slice",
    "unevenness",
    "weights",
    "strange_rows",
    "drift",
    "monitor",
    "online",
    "ask_a_person",
    "decide",
    "compare_models",
)


class InOrder:
    """Sorts examples by their names; those that are not in the list come last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return what to sort by."""
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def section_order(folder: str) -> int:
    """Return where a section stands."""
    return SECTIONS.index(Path(folder).name)


def set_large_letters(_settings: Any, _file: str) -> None:
    """Draw figures with letters that can still be read in a thumbnail and on a phone."""
    plt.rcParams.update({"font.size": 14, "legend.fontsize": 12, "axes.spines.top": False, "axes.spines.right": False})
