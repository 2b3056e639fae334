"""Does `coverage_unevenness` keep its level, and what does it see? About ten minutes on one core.

Run `python docs/design/simulations/unevenness.py`. It prints (1) the share of false alarms at 5 % where coverage is 0.9
everywhere, for rows that are judged by models of the rows before them, and for folds, plain and stratified by hits and
misses; (2) where coverage is uneven in three shapes, the share of alarms of boosting, of a logistic model and of the
worst slice, and the mean values. Rows have five standard normal features; coverage is 0.9 on average.
"""

import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

import aptset

ALPHA, FEATURES = 0.1, 5
BOOSTING = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, min_samples_leaf=20, early_stopping=False)
MODELS = {"logistic": LogisticRegression(), "boosting": None}
SHAPES = {  # where coverage is low, and how low
    "slab": (lambda X: X[:, 0] > 1, 0.70),
    "corner": (lambda X: (X[:, 0] > 0.4) & (X[:, 1] > 0.4), 0.60),
    "disc": (lambda X: X[:, 0] ** 2 + X[:, 1] ** 2 < 0.602, 0.75),
}


def rows(generator, n, shape=None):
    """Return features, sets of two labels, true labels, and the unevenness that is true of the law."""
    X, truth = generator.normal(size=(n, FEATURES)), np.zeros(n, dtype=int)
    chances, distance = np.full(n, 1 - ALPHA), 0.0
    if shape is not None:
        inside, low = SHAPES[shape]
        share = inside(np.random.default_rng(0).normal(size=(1_000_000, FEATURES))).mean()
        high = (1 - ALPHA - share * low) / (1 - share)
        chances = np.where(inside(X), low, high)
        distance = 2 * share * (1 - ALPHA - low)
    covered = generator.random(n) < chances
    return X, np.column_stack([covered, ~covered]), truth, distance


def z_of_folds(X, covered, model, folds):
    """Return z where every row is judged by a model of the other folds."""
    expected = cross_val_predict(model, X, covered, cv=folds, method="predict_proba")[:, 1]
    terms = np.sign(expected - (1 - ALPHA)) * (covered - (1 - ALPHA))
    return terms.mean() / (terms.std(ddof=1) / len(terms) ** 0.5)


def share(alarms):
    mean = np.mean(alarms)
    return f"{mean:.3f} ± {(mean * (1 - mean) / len(alarms)) ** 0.5:.3f}"


def level(repetitions, n=1000):
    print(f"False alarms at 5 %, n = {n}, {repetitions} repetitions")
    for name, model in MODELS.items():
        alarms = {"progressive": [], "plain folds": [], "stratified folds": []}
        for seed in range(repetitions):
            X, sets, truth, _ = rows(np.random.default_rng([seed, 1]), n)
            found = aptset.coverage_unevenness(sets, truth, X, ALPHA, estimator=model, random_state=seed)
            alarms["progressive"].append(found.is_more_than_chance)
            if seed < 400:
                folds = {"plain folds": KFold, "stratified folds": StratifiedKFold}
                for kind, cut in folds.items():
                    z = z_of_folds(X, sets[:, 0], model or BOOSTING, cut(5, shuffle=True, random_state=seed))
                    alarms[kind].append(z > 1.645)
        print(f"  {name:<9}", ", ".join(f"{kind} {share(values)}" for kind, values in alarms.items()), flush=True)


def power(repetitions, n):
    print(f"Alarms at 5 %, n = {n}, {repetitions} repetitions (mean value in brackets)")
    for shape in SHAPES:
        alarms, values = {"boosting": [], "logistic": [], "worst slice": []}, {"boosting": [], "logistic": []}
        for seed in range(repetitions):
            X, sets, truth, distance = rows(np.random.default_rng([seed, 2]), n, shape)
            for name, model in MODELS.items():
                found = aptset.coverage_unevenness(sets, truth, X, ALPHA, estimator=model, random_state=seed)
                alarms[name].append(found.is_more_than_chance)
                values[name].append(float(found))
            worst = aptset.worst_slice_coverage(sets, truth, X, random_state=seed)
            alarms["worst slice"].append(worst.is_worse_than_chance)
        text = [f"{name} {share(alarms[name])} ({np.mean(values[name]):.3f})" for name in values]
        print(f"  {shape:<6} true {distance:.3f}:", ", ".join([*text, f"worst slice {share(alarms['worst slice'])}"]))
        sys.stdout.flush()


if __name__ == "__main__":
    level(1000)
    power(200, 1000)
    power(60, 3000)
