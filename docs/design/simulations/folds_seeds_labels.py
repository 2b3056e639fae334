"""The numbers of docs/design/0015: `python docs/design/simulations/folds_seeds_labels.py FOLDER`, minutes on one core.

FOLDER holds the data sets (see `aptset reproduce --data`). Prints (1) Zipf's labels with and without ``classes``; (2)
CV+ with one seed for all folds and with own seeds; (3) sets without chance on MNIST.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from aptset import ConformalClassifier
from aptset.experiments.designs import Cell, make_box


def seeds(folder, repetitions=5):
    """Coverage and size of CV+ on 1000 rows; the same rows and folds for both ways."""
    for data, box in (("cifar10", "NNet"), ("fashion", "NNet"), ("cifar10", "RFC")):
        for how in ("common", "own"):
            found = []
            for r in range(repetitions):
                sample = Cell(data, 1000, 5000, box, "CV+", r, folder=folder).sample()
                model = make_box(box, sample.n_classes, None)
                classifier = ConformalClassifier(model, calibration="cv+", fold_seeds=how, random_state=r)
                sets = classifier.fit_predict_set(sample.X, sample.y, sample.X_test)
                found.append((sets.covers(sample.y_test).mean(), sets.sizes.mean()))
            mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / repetitions**0.5
            told = f"coverage {mean[0]:.3f} ({error[0]:.3f}), size {mean[1]:.2f} ({error[1]:.2f})"
            print(f"{data:8} {box:5} {how:7} {told}")


def labels(repetitions=60):
    """Coverage of 1000 classes by Zipf's law with 200 rows, and the chance of an unseen label, said and true."""
    p = 1 / np.arange(1, 1001)
    p /= p.sum()
    for classes in (None, range(1000)):
        found = []
        for r in range(repetitions):
            generator = np.random.default_rng([r, 12])
            y = generator.choice(1000, size=700, p=p)
            X = np.column_stack([y + generator.normal(scale=20, size=700), generator.normal(size=700)])
            classifier = ConformalClassifier(KNeighborsClassifier(5), classes=classes, random_state=r)
            classifier.fit(X[:200], y[:200])
            covered = classifier.predict_set(X[200:]).covers(y[200:]).mean()
            found.append((covered, classifier.unseen_label_chance_, 1 - np.isin(y[200:], y[:200]).mean()))
        told = "coverage {:.3f}, unseen labels: said {:.3f}, true {:.3f}".format(*np.mean(found, axis=0))
        print("classes named" if classes else "classes not named", told)


def without_chance(folder):
    """Coverage and size of a network on MNIST, with u and with u = 1; the accuracy beside."""
    sample = Cell("mnist", 50_000, 5000, "NNet", "SC", 0, folder=folder).sample()
    for randomized in (True, False):
        classifier = ConformalClassifier(MLPClassifier((256,), max_iter=20), randomized=randomized, random_state=0)
        sets = classifier.fit(sample.X, sample.y).predict_set(sample.X_test)
        accuracy = (classifier.predict(sample.X_test) == sample.y_test).mean()
        told = (
            f"coverage {sets.covers(sample.y_test).mean():.3f}, size {sets.sizes.mean():.2f}, accuracy {accuracy:.3f}"
        )
        print(f"randomized={randomized}: {told}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # twenty epochs are too few, 1000 classes too many, labels unseen: on purpose
    labels()
    seeds(Path(sys.argv[1]))
    without_chance(Path(sys.argv[1]))
