"""The main job on data that ships with scikit-learn: what the sets look like, and whether they keep the promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from aptset import ConformalClassifier, PredictionSets, coverage, mean_size, size_given_coverage
from aptset.cli.writing import write_json
from aptset.core import validate
from aptset.core.randomization import all_at_once
from aptset.estimator.storage import save_classifier

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])

MODELS: dict[str, Any] = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "random forest": RandomForestClassifier(n_estimators=100),
    "naive Bayes": GaussianNB(),
    "decision tree": DecisionTreeClassifier(),
}
SHOWN = ("random forest", "SC")


# Short names as in the paper: split, CV+ and homogeneous.
METHODS: dict[str, dict[str, Any]] = {
    "SC": {"calibration": "split"},
    "CV+": {"calibration": "cv+"},
    "HCC": {"calibration": "split", "conformity": "homogeneous"},
}


class ExampleRow(NamedTuple):
    """One line of the table."""

    model: str
    method: str
    accuracy: float
    coverage: float
    size: float
    size_given_coverage: float


def run_demo(alpha: float, seed: int, out: Path | None) -> tuple[str, dict[str, Any]]:
    """Return what the main job prints, for people and for machines; write its table and its model where asked to."""
    text, rows, classifier = demonstrate(alpha, seed)
    content: dict[str, Any] = {"alpha": alpha, "rows": rows}
    if out is not None:
        written = save_classifier(classifier, out)
        write_json(out / "results.json", content)
        content |= {"out": str(out), "written": ["results.json", *written]}
        text += f"\n\nWritten to {out}: {', '.join(content['written'])}"
    return text, content


def demonstrate(alpha: float, seed: int) -> tuple[str, list[dict[str, Any]], ConformalClassifier]:
    """Return the whole text that the main job prints, its table for machines, and the classifier that it shows."""
    level = validate.alpha(alpha)
    X, digits = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, NAMES[digits], test_size=0.4, random_state=seed)
    rows = []
    for model in MODELS:
        for method, settings in METHODS.items():
            classifier = ConformalClassifier(MODELS[model], alpha=alpha, random_state=seed, **settings)
            with all_at_once():
                sets = classifier.fit(X_train, y_train).predict_set(X_test)
            given = size_given_coverage(sets, y_test)
            accuracy = classifier.score(X_test, y_test)
            rows.append(ExampleRow(model, method, accuracy, coverage(sets, y_test), mean_size(sets), given))
            if (model, method) == SHOWN:
                shown, chosen = sets, classifier
    promise = f"{float(100 * (1 - level)):g} %"
    n, m = len(X_train) // 2, len(X_test)
    spread = _spread(float(level), n, m)
    parts = [
        f"Handwritten digits: {len(X_train)} rows to train and calibrate, {m} rows to test, 10 labels.",
        f"Promise: the set of a new row holds its true label with probability at least {promise}.\n",
        _table(rows),
        "",
        "method:   SC trains on one half and calibrates on the other, CV+ does both with all rows in ten folds,",
        "          HCC is SC with one cut on the probability for every row: smaller sets, less even coverage.",
        "          The promise is proven for SC and HCC. For CV+ the proof allows twice the misses; few come.",
        f"coverage: share of test rows whose set holds the true label. Over many splits it is about {promise};",
        f"          one split with {n} calibration and {m} test rows is mostly within {spread} of that.",
        "size:     mean number of labels in a set. The weaker the model, the larger the sets; the promise stays.\n",
        f"Some sets of the {SHOWN[0]} (most likely label first):",
        _examples(shown, y_test),
    ]
    return "\n".join(parts), [{k: _plain(v) for k, v in row._asdict().items()} for row in rows], chosen


def _spread(alpha: float, n: int, m: int) -> str:
    """Two standard deviations of the coverage of m rows after calibration on n (Beta-binomial law)."""
    return f"{100 * 2 * (alpha * (1 - alpha) * (1 / (n + 2) + 1 / m)) ** 0.5:.1f} %"


def _table(rows: list[ExampleRow]) -> str:
    head = f"{'model':<20} {'method':<7} {'accuracy':>8} {'coverage':>9} {'size':>6} {'size given coverage':>20}"
    shape = "{:<20} {:<7} {:>8.1%} {:>9.1%} {:>6.2f} {:>20.2f}"
    return "\n".join([head, "-" * len(head), *(shape.format(*map(_plain, row)) for row in rows)])


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, float) else value  # estimates would print their intervals


def _examples(sets: PredictionSets, y: NDArray[Any]) -> str:
    covered = sets.covers(y)
    wanted = (
        ("sure", (sets.sizes == 1) & covered),
        ("torn between two", (sets.sizes == 2) & covered),
        ("unsure", (sets.sizes >= 3) & covered),
        ("missed", (sets.sizes > 0) & ~covered),
        ("no label fits", sets.sizes == 0),
    )
    lines = []
    for words, rows in wanted:
        if rows.any():
            row = int(np.argmax(rows))
            lines.append(f"  {words:<17} {{{', '.join(sets[row])}}}  (true label: {y[row]})")
    return "\n".join(lines)


def demo_classifier(alpha: float, seed: int) -> tuple[ConformalClassifier, Any, Any, Any, Any]:
    """Return a small forest that read half of the digits, and the other half with features and groups to look at."""
    X, digits = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, NAMES[digits], test_size=0.5, random_state=seed)
    forest = RandomForestClassifier(n_estimators=30, max_depth=5)
    classifier = ConformalClassifier(forest, alpha=alpha, random_state=seed).fit(X_train, y_train)
    ink = X_test.sum(axis=1)
    squares = X_test.reshape(-1, 8, 8)
    halves = {"upper half": squares[:, :4].sum(axis=(1, 2)), "left half": squares[:, :, :4].sum(axis=(1, 2))}
    features = pd.DataFrame({"ink": ink, **halves, "middle": squares[:, 2:6, 2:6].sum(axis=(1, 2))})
    return classifier, X_test, y_test, features, np.where(ink > np.median(ink), "much ink", "little ink")
