"""Figures show the numbers they say they show."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from aptset.experiments.designs import DESIGNS, FigureDesign
from aptset.experiments.reproduce import _draw_panel, _title, panels

METRICS = {"coverage": 0.9, "worst_slice": 0.8, "size": 2.0, "size_given_coverage": 3.0}


def frame_of(design, repetitions=3):
    rows = []
    for place, condition in enumerate(("all", *design.conditions, *(f"label={digit}" for digit in range(10)))):
        for box in design.boxes:
            for method in design.methods:
                names = {"box": box, "method": method, "condition": condition}
                values = {name: value + place for name, value in METRICS.items()}
                rows += [{**names, "repetition": repetition, **values} for repetition in range(repetitions)]
    return pd.DataFrame(rows)


def values_of(panel):
    return set(np.round(panel.frame[panel.metric], 6))


def test_panels_of_figure_1():
    design = DESIGNS["fig1"]
    found = {panel.title: values_of(panel) for row in panels(design, frame_of(design)) for panel in row}
    assert found == {
        "Marginal coverage": {0.9},
        "Size": {2.0},
        "Worst-slice coverage": {0.8},
        "Size given coverage": {3.0},
    }


def test_panels_given_a_feature():
    design = DESIGNS["figS4"]
    found = {panel.title: values_of(panel) for row in panels(design, frame_of(design))[2:] for panel in row}
    assert found["Coverage given X1 = -1"] == {1.9}
    assert found["Coverage given X1 = 1"] == {2.9}
    assert found["Size given X1 = 1 and coverage"] == {5.0}


def test_panels_by_label():
    design = DESIGNS["fig3"]
    left, right = panels(design, frame_of(design))[2]
    assert set(left.frame["box"]) == {"NNet"}
    assert left.by == right.by == "label"
    assert left.frame.loc[left.frame["label"] == "3", "coverage"].unique() == pytest.approx([4.9])


@pytest.mark.parametrize("repetitions", [1, 3])
def test_what_is_drawn(repetitions):
    design = DESIGNS["fig1"]
    (coverage, size), (worst, _) = panels(design, frame_of(design, repetitions))
    for panel, nominal in ((coverage, True), (worst, True), (size, False)):
        axes = Figure().add_subplot()
        _draw_panel(axes, panel, design, list(design.methods), 0.2)
        assert [text.get_text() for text in axes.get_xticklabels()] == list(design.boxes)
        levels = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
        assert levels == ([0.8] if nominal else [])
        others = (line for line in axes.lines if line.get_linestyle() != "--")
        drawn = {round(float(y), 6) for line in others for y in line.get_ydata()}
        assert values_of(panel) <= drawn


def test_titles_tell_how_often_and_what_was_left_out():
    design = DESIGNS["fig1"]
    assert _title(design, frame_of(design, 1)).endswith("(1 repetition; JK+ not run with RFC)")
    uneven = pd.concat([frame_of(design, 2), frame_of(design, 5).query("method == 'SC'")])
    assert "(2 to 5 repetitions" in _title(design, uneven)
    assert _title(FigureDesign("x", "T", (1,), ("SVC",), ("SC",)), frame_of(design, 2)) == "T (2 repetitions)"
