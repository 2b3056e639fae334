"""W3 CV+ and W4 jackknife+ from fold probabilities: aptset, MAPIE, and the loop of the paper's code.

And the jackknife+ whole, fits included: one fit with rows left out by formula, against a fit for every row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import aptset
from benchmarks.timing import Line, lines_of, race
from benchmarks.yardsticks import ALPHA, all_scores, direct_counts

LOOP = "the paper's loop"


def draw(generator: np.random.Generator, n: int, n_classes: int) -> np.ndarray:
    return generator.dirichlet(np.full(n_classes, 0.3), size=n)


def compare(name: str, n: int, n_folds: int, m: int, n_classes: int, loop_folds: int, rounds: int) -> list[Line]:
    """Time the prediction of m rows; the loop runs some of the folds, each of which takes it the same time."""
    generator = np.random.default_rng(0)
    out_of_fold, labels = draw(generator, n, n_classes), generator.integers(n_classes, size=n)
    folds, u, u_new = np.arange(n) % n_folds, generator.random(n), generator.random(m)
    # A thousand folds would not differ in what they cost: ten matrices take turns.
    different = [draw(generator, m, n_classes) for _ in range(min(n_folds, 10))]
    new = [different[fold % len(different)] for fold in range(n_folds)]
    of_rows = all_scores(out_of_fold, u)[np.arange(n), labels]
    own = [of_rows[folds == fold] for fold in range(n_folds)]
    calibration = aptset.calibrate_cv(out_of_fold, labels, folds, u=u)
    entries = {
        "aptset": lambda: calibration.predict_set(new, ALPHA, u=u_new),
        LOOP: lambda: direct_counts(own[:loop_folds], new[:loop_folds], u_new),
    }
    best = race(entries, rounds)
    best[LOOP] *= n_folds / loop_folds
    notes = {LOOP: "" if loop_folds == n_folds else f"from {loop_folds} of {n_folds} folds"}
    agrees = {LOOP: _agreement(calibration, own, new, u_new, n)} if loop_folds == n_folds else {}
    return lines_of(name, best, rounds, notes, agrees)


def _agreement(calibration: Any, own: Any, new: Any, u_new: np.ndarray, n: int) -> str:
    mask = direct_counts(own, new, u_new) < (1 - ALPHA) * (n + 1)
    return f"{float((calibration.predict_set(new, ALPHA, u=u_new).mask == mask).mean()):.4%}"


class Lookup:
    """A classifier that knows the probabilities of every row under the model of each fold; X is the row numbers."""

    _estimator_type = "classifier"

    def __init__(self, tables: Any = None) -> None:
        self.tables = tables

    def fit(self, X: np.ndarray, y: np.ndarray) -> Lookup:
        out = np.setdiff1d(np.arange(self.tables[1]), X[:, 0].astype(int))
        self.fold_ = int(out[0]) % len(self.tables[0]) if len(out) else 0
        self.classes_, self.n_features_in_ = np.arange(self.tables[0][0].shape[1]), 1
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.tables[0][self.fold_][X[:, 0].astype(int)]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"tables": self.tables}

    def set_params(self, **settings: Any) -> Lookup:
        self.tables = settings.get("tables", self.tables)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().__sklearn_tags__()


def against_mapie(n: int, m: int, n_classes: int, rounds: int) -> list[Line]:
    """CV+ of MAPIE on fewer new rows (it keeps rows x labels x samples in memory), models free of charge for both."""
    from mapie.classification import CrossConformalClassifier
    from sklearn.model_selection import KFold

    generator = np.random.default_rng(0)
    tables = ([draw(generator, n + m, n_classes) for _ in range(10)], n)
    rows, labels = np.arange(n + m, dtype=float)[:, None], generator.integers(n_classes, size=n)
    splits = list(KFold(10).split(rows[:n]))
    folds = np.empty(n, dtype=int)
    for fold, (_, held_out) in enumerate(splits):
        folds[held_out] = fold
    theirs = CrossConformalClassifier(Lookup(tables), 1 - ALPHA, "aps", cv=KFold(10), random_state=0)
    theirs.fit_conformalize(rows[:n], labels)
    places = [int(held_out[0]) % 10 for _, held_out in splits]
    out_of_fold = np.array([tables[0][places[fold]][row] for row, fold in enumerate(folds)])
    calibration = aptset.calibrate_cv(out_of_fold, labels, folds, random_state=0)
    new = [tables[0][place][n:] for place in places]
    entries = {
        "aptset": lambda: calibration.predict_set(new, ALPHA),
        "MAPIE": lambda: theirs.predict_set(rows[n:], agg_scores="crossval"),
    }
    why = {"MAPIE": "its randomisation differs, so sets are not compared"}
    return lines_of(f"W3 CV+ K=10, n={n:,}, m={m:,}, C={n_classes}", race(entries, rounds), rounds, why)


FITS = "a fit for every row"


def leave_one_out(n: int, m: int, rounds: int) -> list[Line]:
    """Fit and predict with models that leave a row out by formula, and with subclasses of them, which are refitted."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier

    generator, lines = np.random.default_rng(0), []
    labels = generator.integers(6, size=n)
    X = generator.normal(size=(n + m, 8))
    X[:n] += generator.normal(size=(6, 8))[labels]
    kinds = (KNeighborsClassifier, GaussianNB, MultinomialNB, BernoulliNB)
    for kind in (*kinds, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis):
        rows = np.abs(np.rint(3 * X)) if kind is MultinomialNB else X
        found: dict[str, np.ndarray] = {}

        def whole(who: str, kind: type = kind, rows: np.ndarray = rows, found: Any = found) -> None:
            model = kind() if who == "aptset" else type("Refitted", (kind,), {})()
            classifier = aptset.ConformalClassifier(model, calibration="jackknife+", random_state=0)
            found[who] = classifier.fit(rows[:n], labels).p_values(rows[n:])

        entries: dict[str, Any] = {who: lambda who=who, whole=whole: whole(who) for who in ("aptset", FITS)}
        best = race(entries, rounds)
        agrees = {FITS: f"{float((found['aptset'] == found[FITS]).mean()):.4%}"}
        lines += lines_of(f"leave-one-out, {kind.__name__}, n={n:,}, m={m:,}, C=6", best, rounds, {}, agrees)
    return lines


def run(quick: bool) -> tuple[list[Line], dict[str, str]]:
    """Measure W3 and W4, and the jackknife+ with its fits."""
    lines: list[Line] = leave_one_out(300, 60, 1 if quick else 3)
    failed: dict[str, str] = {}
    for n_classes, loop_folds in ((10, 10), (100, 1)):
        some = min(loop_folds, 1) if quick else loop_folds
        lines += compare(
            f"W3 CV+ K=10, n=5,000, m=5,000, C={n_classes}", 5000, 10, 5000, n_classes, some, 1 if quick else 3
        )
    lines += compare(
        "W4 jackknife+ n=1,000, m=5,000, C=10", 1000, 1000, 5000, 10, 2 if quick else 10, 1 if quick else 3
    )
    try:
        lines += against_mapie(1000 if quick else 5000, 100, 10, 1 if quick else 3)
    except Exception as error:  # not installed, or out of memory
        failed["MAPIE, CV+"] = f"{type(error).__name__}: {str(error)[:120]}"
    return lines, failed
