"""The order of the gallery: from what a set is to what can be done with it."""

ORDER = (
    "first_sets",
    "levels",
    "map_of_sets",
    "coverage_law",
    "calibration_size",
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
    "strange_rows",
    "drift",
    "monitor",
    "online",
    "ask_a_person",
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
