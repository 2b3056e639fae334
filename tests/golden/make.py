"""How the files of format 1 were made, with aptset 0.1.0. They are never made again: later versions must read them."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from click.testing import CliRunner
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.cli.main import main as command

HERE = Path(__file__).parent
X, codes = load_iris(return_X_y=True)
NAMES = np.array(["sétosa", "versicolor", "virginica"])
KINDS = {
    "split": ({}, NAMES[codes]),
    "cv": ({"calibration": aptset.CVPlus(5), "conformity": aptset.Regularized(penalty=0.1)}, codes * 2 + 1),
    "label": ({"groups": "label", "level": "guaranteed", "allow_empty": False}, NAMES[codes].astype(object)),
    "bootstrap": ({"calibration": aptset.Bootstrap(12), "randomized": False}, codes > 0),
}


FOLDS = {
    "cv": ({"calibration": aptset.CVPlus(5), "groups": "label"}, NAMES[codes]),
    "bootstrap": ({"calibration": aptset.Bootstrap(12), "conformity": "saps"}, codes),
}


def main() -> None:
    files = {"expected.json": of_classifiers, "expected-folds.json": of_folds, "expected-states.json": of_states}
    files["expected-acceptance.json"] = of_acceptance
    for name, make in files.items():
        if (HERE / name).exists():
            sys.exit(f"{name} is there. A new format gets new files, beside these.")
        (HERE / name).write_text(json.dumps(make(), ensure_ascii=False), encoding="utf-8")
    of_run()


def of_classifiers() -> dict[str, Any]:
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
    return {**expected, "calibration": [row.tolist() for row in calibration.predict_set(P[200:], ids=np.arange(200))]}


def of_folds() -> dict[str, Any]:
    expected = {}
    for name, (settings, y) in FOLDS.items():
        classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0, **settings)
        calibration = classifier.fit(X[::2], y[::2], ids=np.arange(75)).calibration_
        calibration.save(HERE / f"calibration-1-{name}.aptset")
        said = np.random.default_rng(0).dirichlet(np.ones(3), size=(len(calibration.folds), 50)).round(6)
        rows = [row.tolist() for row in calibration.predict_set(said, ids=np.arange(50), normalize=True)]
        expected[name] = {"classes": calibration.classes.tolist(), "sets": rows, "promise": calibration.guarantee()}
    return expected


def of_states() -> dict[str, Any]:
    """A stream and a monitor, each with rows that wait."""
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
    y = NAMES[(P.cumsum(axis=1) < 0.5).sum(axis=1)]
    online = aptset.Online(aptset.load(HERE / "calibration-1.aptset"), 0.2, window=50, step=0.02)
    online.predict_set(P[200:300], ids=np.arange(100))
    online.update(P[210:260], y[210:260], ids=np.arange(10, 60))
    online.save(HERE / "online-1.aptset")
    monitor = aptset.CoverageMonitor({"é": 200, 3: 100}, 0.1, mature=30)
    monitor.update(np.arange(60) % 4 > 0, groups=["é", 3] * 30, order=np.arange(60) * 2)
    monitor.save(HERE / "monitor-1.aptset")
    return states(online, monitor)


def states(online: aptset.Online, monitor: aptset.CoverageMonitor) -> dict[str, Any]:
    """What a stream and a monitor say, and how they go on."""
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
    y = NAMES[(P.cumsum(axis=1) < 0.5).sum(axis=1)]
    online.update(P[260:300], y[260:300], ids=np.arange(60, 100))
    sets = [row.tolist() for row in online.predict_set(P[300:], ids=np.arange(100, 200))]
    monitor.update([False] * 9, groups=["é"] * 9, order=np.arange(1, 19, 2) + 100)
    heard = [monitor.rows, monitor.misses, monitor.unlabelled, monitor.n_waiting, round(monitor.log_evidence, 9)]
    return {"sets": sets, "online": [online.rows, online.misses, online.delay, online.n_waiting], "monitor": heard}


def of_acceptance() -> dict[str, Any]:
    """Rows for decisions and a threshold of them, by predicted label."""
    P = np.random.default_rng(0).dirichlet(np.full(3, 0.2), size=600)
    y = NAMES[(P.cumsum(axis=1) < np.random.default_rng(1).random((600, 1))).sum(axis=1)]
    rule = aptset.learn_acceptance(P[:400], y[:400], classes=NAMES, random_state=0)
    rule.save(HERE / "acceptance-1.aptset")
    threshold = rule.threshold({"sétosa": 0.2, "virginica": 0.3})
    threshold.save(HERE / "acceptance-threshold-1.aptset")
    return decisions(rule, threshold)


def decisions(rule: Any, threshold: Any) -> dict[str, Any]:
    """What they say of rows that were not among those."""
    new = np.random.default_rng(0).dirichlet(np.full(3, 0.2), size=600)[400:]
    acted = {"batch": rule.accept(new, 0.2).tolist(), "threshold": threshold.accept(new).tolist()}
    return {**acted, "n": [rule.n, rule.n_wrong], "sentence": threshold.sentence()}


def of_run() -> None:
    """Run a table with columns of every kind, and keep what is said of rows that were not in it."""
    draw, n = np.random.default_rng(0), 140
    age = draw.normal(60, 10, n).round(1)
    rows = pd.DataFrame(
        {
            "patient_id": np.arange(7000, 7000 + n),
            "age": np.where(draw.random(n) < 0.1, np.nan, age),
            "smoker": draw.choice(["yes", "no", None], n, p=[0.4, 0.5, 0.1]),
            "admitted": pd.Timestamp("2023-01-01") + pd.to_timedelta(draw.integers(0, 365, n), unit="D"),
            "notes": [f"note {row} {' '.join(draw.choice(['pain', 'fever', 'cough', 'ok'], 3))}" for row in range(n)],
            "insured": draw.random(n) < 0.8,
            "diagnosis": np.array(["gesund", "mild", "schwer é"])[
                1 * (age > 55) + ((age > 65) & (draw.random(n) < 0.8))
            ],
        }
    )
    rows[:120].to_csv(HERE / "rows.csv", index=False)
    rows[120:].to_csv(HERE / "new.csv", index=False)
    _run("run", HERE / "rows.csv", "--target", "diagnosis", "--model", "bayes", "--seed", "0", "--out", HERE / "run-1")
    _run("predict", HERE / "new.csv", "-c", HERE / "run-1", "-o", HERE / "run-1.csv")
    for name in ("rows.csv", "new.csv", "run-1/sets.parquet", "run-1/evaluation.json"):
        (HERE / name).unlink()


def _run(*arguments: Any) -> None:
    done = CliRunner().invoke(command, [*map(str, arguments)])
    assert done.exit_code == 0, done.output


if __name__ == "__main__":
    main()
