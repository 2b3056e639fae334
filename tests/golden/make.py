"""How the files of format 1 were made, with aptset 0.1.0. They are never made again: later versions must read them."""

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import aptset

HERE = Path(__file__).parent
X, codes = load_iris(return_X_y=True)
NAMES = np.array(["sétosa", "versicolor", "virginica"])
KINDS = {
    "split": ({}, NAMES[codes]),
    "cv": ({"calibration": aptset.CVPlus(5), "conformity": aptset.Regularized(penalty=0.1)}, codes * 2 + 1),
    "label": ({"groups": "label", "level": "guaranteed", "allow_empty": False}, NAMES[codes].astype(object)),
    "bootstrap": ({"calibration": aptset.Bootstrap(12), "randomized": False}, codes > 0),
}


def main() -> None:
    if (HERE / "expected.json").exists():
        sys.exit("The files are there. A new format gets new ones, beside these.")
    expected = {}
    for name, (settings, y) in KINDS.items():
        classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0, **settings).fit(X[::2], y[::2])
        classifier.save(HERE / f"classifier-1-{name}")
        rows = [row.tolist() for row in classifier.predict_set(X[1::2], ids=np.arange(75))]
        expected[name] = {"classes": classifier.classes_.tolist(), "sets": rows, "promise": classifier.guarantee()}
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
    y = NAMES[(P.cumsum(axis=1) < 0.5).sum(axis=1)]
    calibration = aptset.calibrate(P[:200], y[:200], classes=NAMES, random_state=0)
    calibration.save(HERE / "calibration-1.aptset")
    expected["calibration"] = [row.tolist() for row in calibration.predict_set(P[200:], ids=np.arange(200))]
    (HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=False))


if __name__ == "__main__":
    main()
