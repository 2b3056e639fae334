"""Figures of what comes out: digits with their sets, levels, the law of coverage, conditional coverage."""

from typing import Any

import numpy as np
from scipy.stats import beta
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from style import BLUE, GREY, INK, RED, new_figure

import aptset


def _digits() -> Any:
    """Return the classifier of the page "Conformal prediction in ten minutes" and its test rows."""
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return aptset.ConformalClassifier(model, alpha=0.02, random_state=0).fit(X_train, y_train), X_test, y_test


def digits() -> Any:
    """Draw four test rows of each of three sizes with their sets; those that miss the true label are red."""
    classifier, X_test, y_test = _digits()
    sets = classifier.predict_set(X_test)
    rows = np.concatenate([np.flatnonzero(sets.sizes == size)[:4] for size in (1, 2, 3)])
    figure, axes = new_figure(5.6, 5.2, nrows=3, ncols=4)
    for ax, row in zip(axes.flat, rows, strict=True):
        members, truth = sets[row], y_test[row]
        ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
        ax.set_title("{" + ", ".join(map(str, members)) + "}", color=BLUE if truth in members else RED)
        ax.set_xlabel(f"true label: {truth}", fontsize=10)
        ax.set(xticks=[], yticks=[])
    figure.subplots_adjust(hspace=0.55)
    return figure


def levels() -> Any:
    """Draw coverage and size at every level, from one matrix of p-values."""
    classifier, X_test, y_test = _digits()
    p = classifier.p_values(X_test)
    alphas = np.linspace(0.005, 0.4, 80)
    true = p[np.arange(len(y_test)), y_test]
    figure, (left, right) = new_figure(5.8, 2.8, ncols=2)
    left.plot(1 - alphas, 1 - alphas, color=GREY, linestyle="--", label="1 - alpha")
    left.plot(1 - alphas, [(true > alpha).mean() for alpha in alphas], color=BLUE, label="measured")
    left.set(xlabel="1 - alpha", ylabel="measured coverage")
    left.legend(frameon=False)
    right.plot(1 - alphas, [(p > alpha).sum(axis=1).mean() for alpha in alphas], color=BLUE)
    right.set(xlabel="1 - alpha", ylabel="labels in a set")
    figure.subplots_adjust(wspace=0.35)
    return figure


def law() -> Any:
    """Draw the Beta law of coverage for three numbers of calibration rows."""
    figure, ax = new_figure(5.6, 2.8)
    grid = np.linspace(0.8, 0.98, 600)
    for n, colour in ((100, GREY), (1000, BLUE), (10000, RED)):
        k = aptset.conformal_rank(n, 0.1)
        ax.plot(
            grid, beta(k, n + 1 - k).pdf(grid) / beta(k, n + 1 - k).pdf(grid).max(), color=colour, label=f"{n:,} rows"
        )
    ax.axvline(0.9, color=INK, linewidth=0.8, linestyle="--")
    ax.set(xlabel="coverage of one calibration at alpha = 0.1", ylabel="density (scaled)", yticks=[])
    ax.legend(frameon=False)
    return figure


def conditional() -> Any:
    """Draw coverage along a feature that makes rows hard, under the true probabilities."""
    generator = np.random.default_rng(0)
    x = generator.random(60000)
    logits = 6 * (1 - x[:, None]) * generator.normal(size=(60000, 5))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (generator.random((60000, 1)) > true.cumsum(axis=1)[:, :-1]).sum(axis=1).clip(max=4)
    figure, ax = new_figure(5.6, 3.0)
    edges = np.linspace(0, 1, 16)
    new, place = true[30000:], np.digitize(x[30000:], edges) - 1
    found = {"oracle": (aptset.oracle_sets(new, alpha=0.1, u=generator.random(30000)), GREY)}
    for name, conformity, colour in (("adaptive", "adaptive", BLUE), ("homogeneous (lac)", "lac", RED)):
        calibration = aptset.calibrate(true[:30000], labels[:30000], conformity=conformity, random_state=0)
        found[name] = (calibration.predict_set(new, alpha=0.1), colour)
    for name, (sets, colour) in found.items():
        covered = sets.covers(labels[30000:])
        ax.plot(
            (edges[1:] + edges[:-1]) / 2,
            [covered[place == part].mean() for part in range(15)],
            color=colour,
            label=name,
        )
    ax.axhline(0.9, color=INK, linewidth=0.8, linestyle="--")
    ax.set(xlabel="a feature (left: easy rows, right: hard rows)", ylabel="coverage", ylim=(0.6, 1.02))
    ax.legend(frameon=False, loc="lower left")
    return figure


FIGURES = {"digits": digits, "levels": levels, "law": law, "conditional": conditional}
