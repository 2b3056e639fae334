"""Figures of the method: the score of a label, the threshold, which rows train and calibrate, p-values."""

from typing import Any

import numpy as np
from style import BLUE, GREY, INK, PALE, RED, new_figure

import aptset


def score() -> Any:
    """Draw one row of labels in a line, and the scores of one label for three values of u."""
    figure, ax = new_figure(5.6, 2.3)
    masses, names = [0.5, 0.375, 0.125], ["cat 0.5", "dog 0.375", "fox\n0.125"]
    starts = np.cumsum([0, *masses[:-1]])
    for start, mass, name, colour in zip(starts, masses, names, (BLUE, PALE, "#d5dce2"), strict=True):
        ax.barh(0, mass, left=start, color=colour, edgecolor="white", height=0.5)
        ax.text(start + mass / 2, 0, name, ha="center", va="center", color="white" if colour == BLUE else INK)
    for u in (0.0, 0.5, 1.0):
        at = float(aptset.adaptive_scores([masses], [1], u=[u])[0])
        ax.annotate(
            f"u = {u:g}\n{at:g}",
            (at, 0.25),
            (at, 0.62),
            ha="center",
            color=RED,
            arrowprops={"arrowstyle": "-|>", "color": RED},
        )
    ax.text(0.5, -0.48, "score of dog = 0.5 (labels above it) + (1 - u) x 0.375 (its own)", color=INK, ha="center")
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.6, 1.1))
    ax.axis("off")
    return figure


def threshold() -> Any:
    """Draw 39 sorted scores of true labels and the one that is the threshold."""
    generator = np.random.default_rng(3)
    rows = generator.dirichlet(np.full(5, 0.5), size=39)
    labels = (generator.random((39, 1)) > rows.cumsum(axis=1)[:, :-1]).sum(axis=1)
    scores = np.sort(aptset.adaptive_scores(rows, labels, u=generator.random(39)))
    k = aptset.conformal_rank(39, 0.1)
    figure, ax = new_figure(5.6, 2.9)
    ax.vlines(np.arange(1, 40), 0, scores, color=np.where(np.arange(1, 40) <= k, BLUE, GREY), linewidth=4)
    ax.axhline(scores[k - 1], color=RED, linewidth=1.5)
    ax.text(1, scores[k - 1] + 0.03, f"threshold: the {k}th smallest of 39 scores", color=RED)
    ax.set(
        xlabel="calibration rows, sorted by the score of the true label", ylabel="score", xlim=(0, 40), ylim=(0, 1.1)
    )
    return figure


def schemes() -> Any:
    """Draw which rows train (pale) and which calibrate (strong) for 12 rows."""
    figure, axes = new_figure(5.8, 3.4, ncols=3, gridspec_kw={"width_ratios": [1, 1, 1]})
    whole, rows = np.arange(12), 12
    ways = {
        "split\n1 model\n6 scores": [whole[6:]],
        "CV+, 4 folds\n4 models\n12 scores": [whole[i : i + 3] for i in range(0, 12, 3)],
        "jackknife+\n12 models\n12 scores": [whole[i : i + 1] for i in range(12)],
    }
    for ax, (title, folds) in zip(axes, ways.items(), strict=True):
        for model, held_out in enumerate(folds):
            colours = [BLUE if row in held_out else "#c9dcec" for row in range(rows)]
            ax.bar(np.arange(rows), 0.86, bottom=len(folds) - model - 1, color=colours, width=0.86)
        ax.set_title(title, fontsize=11, color=INK)
        ax.set(ylim=(-0.2, max(len(folds), 4)), xlabel="rows", ylabel="models" if len(folds) == 1 else "")
        ax.set(xticks=[], yticks=[])
        for side in ax.spines.values():
            side.set_visible(False)
    axes[0].text(2.5, 1.25, "train", ha="center", color="#55799a")
    axes[0].text(8.5, 1.25, "calibrate", ha="center", color=BLUE)
    return figure


def p_values() -> Any:
    """Draw the p-values of the labels of one row, and two levels."""
    generator = np.random.default_rng(0)
    rows = generator.dirichlet(np.ones(4), size=400)
    labels = (generator.random((400, 1)) > rows.cumsum(axis=1)[:, :-1]).sum(axis=1)
    names = np.array(["cat", "dog", "fox", "owl"])
    calibration = aptset.calibrate(rows, names[labels], u=generator.random(400), classes=names)
    p = calibration.p_values([[0.55, 0.27, 0.13, 0.05]], u=[0.4])[0]
    figure, ax = new_figure(5.6, 2.8)
    ax.bar(names, p, color=[BLUE if value > 0.2 else PALE if value > 0.05 else "#d5dce2" for value in p], width=0.6)
    for place, value in enumerate(p):
        ax.text(place, value + 0.02, f"{value:.2f}", ha="center", color=INK)
    for alpha in (0.2, 0.05):
        members = ", ".join(names[p > alpha])
        ax.axhline(alpha, color=RED, linewidth=1.2, linestyle="--")
        ax.text(3.55, alpha, f"alpha = {alpha:g}:\n{{{members}}}", va="center", color=RED, fontsize=10)
    ax.set(ylabel="p-value", ylim=(0, 0.85), xlim=(-0.5, 3.5))
    return figure


FIGURES = {"score": score, "threshold": threshold, "schemes": schemes, "p-values": p_values}
