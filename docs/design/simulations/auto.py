"""When is ``conformity="auto"`` worth its rows? Run: ``python docs/design/simulations/auto.py`` (two minutes).

Handwritten digits, alpha = 0.1, a split: mean sizes of the default, of lac, and of what auto chose, over 10 splits.
auto sets a fifth of the rows aside, trains models on these alone to choose, and leaves the others to train and
calibrate.
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import aptset

X, Y = load_digits(return_X_y=True)
MODELS = {
    "naive Bayes": GaussianNB(),
    "nearest neighbours": KNeighborsClassifier(10),
    "linear discriminant": LinearDiscriminantAnalysis(),
    "forest": RandomForestClassifier(50),
}


def sizes(model, n, groups):
    """Return the mean size of the default, of lac and of auto, and the scores that were chosen."""
    found, chosen = [], []
    for seed in range(10):
        train, rest, y_train, _ = train_test_split(X, Y, train_size=n, random_state=seed, stratify=Y)
        settings = {"random_state": seed, "groups": groups}
        each = [
            aptset.ConformalClassifier(model, conformity=name, **settings).fit(train, y_train)
            for name in ("adaptive", "lac", "auto")
        ]
        found.append([one.predict_set(rest).sizes.mean() for one in each])
        chosen.append(str(each[-1].conformity_))
    return np.mean(found, axis=0), chosen


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| model | rows | groups | default | lac | auto |\n|---|--:|---|--:|--:|--:|")
    for groups in (None, "label"):
        for name, model in MODELS.items():
            for n in (200, 400, 1000):
                found, _ = sizes(model, n, groups)
                print(f"| {name} | {n:,} | {groups} | {found[0]:.2f} | {found[1]:.2f} | {found[2]:.2f} |", flush=True)
