"""One readable configuration per figure and table of the paper: data, sizes, black boxes, methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aptset.core import validate
from aptset.experiments.cells import FAMILY_OF, METHODS, Cell
from aptset.experiments.datasets import check_names

JACKKNIFE_LIMIT = 1000  # the paper runs one fit per row up to this many rows


@dataclass(frozen=True)
class FigureDesign:
    """What a figure or a table shows: every box with every method, at every size."""

    data: str
    title: str
    n_train: tuple[int, ...]
    boxes: tuple[str, ...]
    methods: tuple[str, ...]
    n_test: dict[int, int] = field(default_factory=dict)  # 5000 unless given
    without: tuple[tuple[str, str], ...] = ()  # (box, method) that the paper's costs rule out
    is_table: bool = False
    conditions: tuple[str, ...] = ()  # further rows of panels, conditional on a feature
    by_label_of: str | None = None  # a box whose results are also shown by true label

    def has(self, n_train: int, box: str, method: str) -> bool:
        """Tell whether a method is run with a box at a size."""
        too_large = method == "JK+" and n_train > JACKKNIFE_LIMIT
        only_oracle = method == "oracle" and box != "Oracle"
        return not (too_large or only_oracle or (box, method) in self.without)


_SIMULATED = ("Oracle", "SVC", "RFC")
_REAL = ("NNet", "SVC", "RFC")
_ON_MODELS = ("SC", "CV+", "JK+", "CQC", "HCC", "oracle")
_ON_DATA = ("SC", "CV+", "JK+", "CQC", "CQC-RF", "HCC")
_SLOW = (("RFC", "JK+"),)  # 1000 forests of 1000 trees: more than an hour for each repetition
_MICE = {500: 580, 1000: 80}
_SIZES = (500, 1000, 5000, 10_000)

DESIGNS: dict[str, FigureDesign] = {
    "fig1": FigureDesign(
        "model1", "Figure 1: model 1, 1000 training samples", (1000,), _SIMULATED, _ON_MODELS, {}, _SLOW
    ),
    "fig2": FigureDesign("mice", "Figure 2: Mice Protein, 500 training samples", (500,), _REAL, _ON_DATA, _MICE),
    "fig3": FigureDesign(
        "mnist", "Figure 3: MNIST, 10000 training samples", (10_000,), _REAL, _ON_DATA, by_label_of="NNet"
    ),
    "figS1": FigureDesign(
        "model1",
        "Figure S1: model 1, 10000 training samples",
        (10_000,),
        _SIMULATED,
        _ON_MODELS,
        conditions=("X1=-8", "X1=1"),
    ),
    "figS3": FigureDesign(
        "model2",
        "Figure S3: model 2, 10000 training samples",
        (10_000,),
        _SIMULATED,
        _ON_MODELS,
        conditions=("X1=-1", "X1=1"),
    ),
    "figS4": FigureDesign(
        "model2",
        "Figure S4: model 2, 1000 training samples",
        (1000,),
        _SIMULATED,
        _ON_MODELS,
        without=_SLOW,
        conditions=("X1=-1", "X1=1"),
    ),
    "tableS1": FigureDesign("mice", "Table S1: Mice Protein", (500, 1000), _REAL, _ON_DATA, _MICE, is_table=True),
    "tableS2": FigureDesign("mnist", "Table S2: MNIST", _SIZES, _REAL, _ON_DATA, is_table=True),
    "tableS3": FigureDesign("fashion", "Table S3: Fashion-MNIST", _SIZES, _REAL, _ON_DATA, is_table=True),
    "tableS4": FigureDesign("cifar10", "Table S4: CIFAR-10", _SIZES, _REAL, _ON_DATA, is_table=True),
}
EXPERIMENTS = (*DESIGNS, "all")
BOXES = ("Oracle", "NNet", "SVC", "RFC")


def check_count(value: Any, name: str) -> int:
    """Return a positive whole number."""
    return validate.whole(value, name, 1, "a positive whole number")


def check_whole(text: Any, name: str) -> int:
    """Return the positive whole number that a text stands for."""
    try:
        return check_count(int(text), name)
    except ValueError as error:
        raise ValueError(f"{name} must be positive whole numbers; got {text!r}.") from error


def check_something_left(tasks: Sequence[Any], filters: dict[str, Any]) -> None:
    """Refuse a choice that leaves nothing to do."""
    if not tasks:
        chosen = ", ".join(f"{name}={value}" for name, value in filters.items() if value)
        raise ValueError(f"the experiments must have something to run; nothing is left with {chosen}.")


@dataclass(frozen=True)
class Selection:
    """Which part of the designs to run; empty means all."""

    repetitions: int = 100
    boxes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_count(self.repetitions, "repetitions")
        check_names(self.boxes, BOXES, "boxes")
        check_names(self.methods, METHODS, "methods")

    def takes(self, n_train: int, box: str, method: str) -> bool:
        """Tell whether a combination was chosen."""
        chosen = ((self.boxes, box), (self.methods, method), (self.sizes, n_train))
        return all(not wanted or value in wanted for wanted, value in chosen)


def choose(repetitions: int, boxes: Iterable[str], methods: Iterable[str], sizes: Iterable[str | int]) -> Selection:
    """Return a choice; sizes may come as texts."""
    return Selection(repetitions, tuple(boxes), tuple(methods), tuple(check_whole(size, "sizes") for size in sizes))


def designs_of(names: Iterable[str]) -> dict[str, FigureDesign]:
    """Return designs by name; "all" is every one."""
    wanted = check_names(names, EXPERIMENTS, "experiments")
    return dict(DESIGNS) if "all" in wanted else {name: DESIGNS[name] for name in DESIGNS if name in wanted}


def cells_of(
    designs: Iterable[FigureDesign], choice: Selection, alpha: float, seed: int, folder: Path | None
) -> list[Cell]:
    """Return the work behind designs: once where designs share it, cheap cells first, repetition by repetition."""
    cells: dict[str, Cell] = {}
    for design in designs:
        for n_train in design.n_train:
            for box in design.boxes:
                chosen = (m for m in design.methods if design.has(n_train, box, m) and choice.takes(n_train, box, m))
                for family in sorted({FAMILY_OF[method] for method in chosen}):
                    for repetition in range(choice.repetitions):
                        n_test = design.n_test.get(n_train, 5000)
                        cell = Cell(design.data, n_train, n_test, box, family, repetition, alpha, seed, folder)
                        cells[cell.key] = cell
    filters = {"boxes": choice.boxes, "methods": choice.methods, "sizes": choice.sizes}
    check_something_left(list(cells), filters)
    return sorted(cells.values(), key=lambda cell: (cell.family == "JK+", cell.repetition))
