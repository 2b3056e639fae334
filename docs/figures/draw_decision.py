"""The figure that helps to choose a setting."""

from typing import Any

from matplotlib.patches import FancyBboxPatch
from style import BLUE, INK, new_figure

# Where each box stands, what it asks or answers; an answer is a setting.
QUESTIONS = {
    (0.0, 4): "Must every class, or every\ngroup of rows, be covered?",
    (0.0, 3): "Must 1 - alpha be proven?",
    (0.0, 2): "Fewer than about\n500 rows?",
    (0.0, 1): "Should no set be empty?",
    (0.0, 0): "Does only the mean\nset size matter?",
}
ANSWERS = {
    (2.0, 4): 'groups="label", groups="column"\n(and go on below)',
    (2.0, 3): 'calibration="split"; few rows: Split(0.3),\nor "minimax" with one fold per row',
    (2.0, 2): 'calibration="cv+"; a forest: "out-of-bag";\nvery few rows: "jackknife+"',
    (2.0, 1): "randomized=False, or\nallow_empty=False",
    (2.0, 0): 'conformity="lac", or "auto";\nmany classes: "raps"',
}


def decision() -> Any:
    """Draw the questions in a column, and what to take if the answer is yes."""
    figure, ax = new_figure(7.9, 5.0)
    for (x, y), text in {**QUESTIONS, **ANSWERS}.items():
        is_answer = x > 0
        width = 2.3 if is_answer else 1.35
        colours = {"facecolor": "#e8f1f8" if is_answer else "white", "edgecolor": BLUE}
        ax.add_patch(FancyBboxPatch((x - 0.05, y - 0.28), width, 0.56, boxstyle="round,pad=0.04", **colours))
        font = {"family": "monospace", "fontsize": 8} if is_answer else {"fontsize": 9}
        ax.text(x - 0.05 + width / 2, y, text, ha="center", va="center", color=INK, **font)
    for y in range(5):
        ax.annotate("", (1.88, y), (1.38, y), arrowprops={"arrowstyle": "-|>", "color": BLUE})
        ax.text(1.62, y + 0.08, "yes", ha="center", color=BLUE, fontsize=9)
    for y in range(4):
        ax.annotate("", (0.63, y + 0.34), (0.63, y + 0.66), arrowprops={"arrowstyle": "-|>", "color": BLUE})
        ax.text(0.68, y + 0.46, "then", color=BLUE, fontsize=9)
    ax.text(0.63, -0.62, "otherwise: the defaults", ha="center", color=INK)
    ax.set(xlim=(-0.15, 4.35), ylim=(-0.75, 4.4))
    ax.axis("off")
    return figure


FIGURES = {"decision": decision}
