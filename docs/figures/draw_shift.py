"""Figure of the page about covariate shift: coverage with and without weights, along the shift."""

from typing import Any

import numpy as np
from style import BLUE, GREY, RED, new_figure

import aptset

_SHIFTS = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5])
_REPETITIONS = 30


def _rows(n: int, center: float, generator: np.random.Generator) -> Any:
    """Return x, the model's probabilities and labels, which get random to the right without the model noticing."""
    x = generator.normal(center, 1, n)
    p = generator.dirichlet(np.full(10, 0.3), size=n)
    noise = 1 / (1 + np.exp(-3 * (x - 1)))[:, None]
    truth = ((1 - noise) * p + noise / 10).cumsum(axis=1)
    return x, p, np.minimum((generator.random((n, 1)) > truth).sum(axis=1), 9)


def _measured(shift: float) -> tuple[float, float, float]:
    """Return the coverage without and with weights at a shift, and the effective size of 500 rows."""
    generator, found = np.random.default_rng(0), []
    for seed in range(_REPETITIONS):
        (x, p, y), (x_new, p_new, y_new) = _rows(500, 0.0, generator), _rows(500, shift, generator)
        plain = aptset.calibrate(p, y, random_state=seed).predict_mask(p_new)
        weighted = aptset.calibrate(p, y, weights=np.exp(shift * x), random_state=seed)
        mask = weighted.p_values(p_new, weights=np.exp(shift * x_new)) > 0.1
        rows = np.arange(500)
        found.append((plain[rows, y_new].mean(), mask[rows, y_new].mean(), weighted.effective_size))
    plain_coverage, coverage, size = np.mean(found, axis=0).tolist()
    return plain_coverage, coverage, size


def shift() -> Any:
    """Draw coverage along the shift on the left, and what 500 calibration rows count like on the right."""
    plain, weighted, sizes = zip(*map(_measured, _SHIFTS.tolist()), strict=True)
    figure, (left, right) = new_figure(5.8, 2.8, ncols=2)
    left.axhline(0.9, color=GREY, linestyle="--", linewidth=1)
    left.plot(_SHIFTS, plain, color=RED, marker="o", markersize=3, label="no weights")
    left.plot(_SHIFTS, weighted, color=BLUE, marker="o", markersize=3, label="weights")
    left.set(xlabel="size of the shift", ylabel="coverage")
    left.legend(frameon=False)
    right.plot(_SHIFTS, sizes, color=BLUE, marker="o", markersize=3)
    right.set(xlabel="size of the shift", ylabel="effective size (of 500)", ylim=(0, 520))
    figure.subplots_adjust(wspace=0.45)
    return figure


FIGURES = {"shift": shift}
