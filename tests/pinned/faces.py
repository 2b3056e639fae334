"""Pinned answers of the other faces: classifiers, streams, monitors, judges, batches, files and the text of errors."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

import aptset
from aptset import Bootstrap, ConformalClassifier, CVPlus, JackknifePlus, LabelBands, Minimax, Online, OutOfBag, Split
from pinned.probabilities import LEVELS, Answers, cells_of, new_groups, outcome, scores_of
from pinned.rows import SEEDS, groups_of, labels_of, probabilities_of, weights_of
from shell import run

NAMES = ["ant", "bee", "cat", "dog", "elk"]


def table_of(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features of whole numbers, a third of the rows copies, and labels that depend on them."""
    generator = np.random.default_rng([seed, 31])
    X = pd.DataFrame(generator.integers(0, 9, size=(n, 4)), columns=["a", "b", "c", "site"])
    X.iloc[: n // 3] = X.iloc[n // 3 : 2 * (n // 3)].to_numpy()
    noise = generator.integers(0, 5, n)
    return X, np.array(NAMES[:3])[np.minimum((X["a"] + X["b"] + noise) // 7, 2)]


def model(scheme: object) -> object:
    """A tree: its probabilities are ratios of counts, the same on every machine."""
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    return BaggingClassifier(tree, 30, random_state=0) if isinstance(scheme, OutOfBag) else tree


def classifiers() -> Answers:
    schemes = [Split(0.4), CVPlus(4), JackknifePlus(), Minimax(4), Bootstrap(15), OutOfBag()]
    bands = LabelBands({"ant": "x", "bee": "x", "cat": "y"})
    groupings = {"none": None, "label": "label", "column": "site", "bands": bands}
    for scheme, score, grouping in product(schemes, ("adaptive", "rank", "function"), groupings):

        def answer(scheme=scheme, score=score, grouping=grouping):
            (X, y), (new, _) = table_of(75, 0), table_of(40, 1)
            made = ConformalClassifier(
                model(scheme),
                calibration=scheme,
                conformity=scores_of(3)[score],
                groups=groupings[grouping],
                random_state=0,
            )
            made.fit(X, y)
            with tempfile.TemporaryDirectory() as folder:
                again = made
                if score != "function":
                    made.save(Path(folder) / "c")
                    again = aptset.load(Path(folder) / "c")
                return [
                    again.predict_set(new, LEVELS),
                    again.p_values(new),
                    again.predict(new),
                    [again.guarantee(level) for level in LEVELS],
                    outcome(lambda: again.predict_frame(new).astype(str).to_numpy()),
                ]

        yield f"classifier {type(scheme).__name__} {score} {grouping}", lambda answer=answer: outcome(answer)


def streams() -> Answers:
    for seed, cells, window in product(SEEDS, ("none", "label", "groups"), (None, 60)):

        def answer(seed=seed, cells=cells, window=window):
            old = probabilities_of("copies", 160, seed)
            calibration = aptset.calibrate(
                old, labels_of(old, seed), groups=cells_of(5, 160, seed)[cells], classes=range(5), random_state=seed
            )
            stream, heard = Online(calibration, 0.1, window, 0.02), []
            new = probabilities_of("copies", 90, seed + 1)
            y = labels_of(new, seed + 1)
            groups = new_groups(cells, 90, seed).get("groups")
            for start in range(0, 90, 15):
                rows = slice(start, start + 15)
                options = {} if groups is None else {"groups": groups[rows]}
                heard.append(stream.predict_set(new[rows], **options))
                stream.update(new[rows], y[rows], **options)
            with tempfile.TemporaryDirectory() as folder:
                stream.save(Path(folder) / "s")
                stream = Online.load(Path(folder) / "s", calibration)
            options = {} if groups is None else {"groups": groups[:20]}
            return [
                heard,
                stream.predict_mask(new[:20], **options),
                stream.rows,
                stream.misses,
                stream.bound(),
                stream.alpha_now,
            ]

        yield f"online {seed} {cells} {window}", lambda answer=answer: outcome(answer)


def rounded(value: object) -> object:
    """Return numbers to nine digits: intervals come from special functions that may change in the last bit."""
    if isinstance(value, dict):
        return {str(name): rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    if isinstance(value, float):
        parts = [value, *(getattr(value, name) for name in ("low", "high", "n") if hasattr(value, name))]
        return [f"{float(part):.9g}" for part in parts]
    return value


def judged() -> Answers:
    for seed in SEEDS:
        old, new = probabilities_of("smooth", 300, seed), probabilities_of("smooth", 400, seed + 1)
        y = labels_of(new, seed + 1)

        def sets(old=old, new=new, seed=seed, alpha=0.1):
            return aptset.calibrate(old, labels_of(old, seed), random_state=seed).predict_set(new, alpha)

        def evaluation(sets=sets, y=y, new=new, seed=seed):
            made = aptset.evaluate(sets(), y, X=new[:, :3], groups=groups_of(400, seed), alpha=0.1, random_state=0)
            return rounded([made.overall, made.parts])

        def slices(sets=sets, y=y, new=new):
            found = aptset.worst_slice_coverage(sets(), y, new[:, :3], directions=100, random_state=0)
            return rounded([found.coverage, found.share, found.rows.tolist(), found.low, found.high])

        def monitored(sets=sets, y=y, old=old, seed=seed):
            calibration = aptset.calibrate(old, labels_of(old, seed), random_state=seed)
            monitor = calibration.monitor(0.1)
            monitor.update(sets(alpha=0.3).covers(y))
            return rounded([monitor.log_evidence, monitor.alarmed, monitor.peak])

        def files(sets=sets):
            made = sets()
            return [
                made.to_frame().astype(str).to_numpy(),
                made.mask,
                made.sizes,
                [list(map(str, one)) for one in made[:9]],
            ]

        yield f"evaluate {seed}", lambda f=evaluation: outcome(f)
        yield f"worst slice {seed}", lambda f=slices: outcome(f)
        yield f"monitor {seed}", lambda f=monitored: outcome(f)
        yield f"sets {seed}", lambda f=files: outcome(f)
    yield (
        "plan",
        lambda: rounded(
            [
                [str(aptset.calibration_size(a, w)), str(aptset.coverage_test(90, 100, n, a))]
                for a in (0.05, 0.1)
                for w in (0.01, 0.05)
                for n in (100, 1000)
            ]
        ),
    )


def audited() -> Answers:
    def answer():
        X, y = table_of(150, 3)
        made = aptset.audit(model(None), X, y, repetitions=4, random_state=0)
        return str(made)

    def compared():
        X, y = table_of(150, 3)
        return str(aptset.compare({"tree": model(None), "bags": model(OutOfBag())}, X, y, repetitions=3))

    yield "audit", lambda: outcome(answer)
    yield "compare", lambda: outcome(compared)


def arrow_of(p: np.ndarray, y: np.ndarray, seed: int) -> pa.Table:
    columns = {f"p_{name}": p[:, k] for k, name in enumerate(NAMES)}
    return pa.table(
        {**columns, "y": [NAMES[k] for k in y], "region": groups_of(len(p), seed), "w": weights_of(len(p), seed)}
    )


def batches() -> Answers:
    for seed, groups, resolution in product(SEEDS, (None, "label", "region"), (None, 2**-12)):

        def answer(seed=seed, groups=groups, resolution=resolution):
            old, new = (probabilities_of("copies", n, seed + n) for n in (160, 90))
            calibration = aptset.calibrate_batches(
                arrow_of(old, labels_of(old, seed), seed).to_batches(50),
                labels="y",
                alpha=LEVELS,
                prefix="p_",
                groups=groups,
                resolution=resolution,
                random_state=seed,
            )
            reader = aptset.predict_batches(
                arrow_of(new, labels_of(new, seed), seed).to_batches(40),
                calibration,
                alpha=LEVELS,
                prefix="p_",
                groups=groups if groups == "region" else None,
            )
            return str(reader.read_all().to_pylist())

        yield f"batches {seed} {groups} {resolution}", lambda answer=answer: outcome(answer)


def commands() -> Answers:
    """Files of every format through the command line; what is written, not what is said."""
    kinds = ("csv", "csv.gz", "parquet", "arrow", "npz")
    for kind, options in product(kinds, ((), ("--groups", "label"), ("--deterministic",), ("--weights", "w"))):

        def answer(kind=kind, options=options):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for file, n in (("old", 160), ("new", 90)):
                    p = probabilities_of("copies", n, n)
                    write_table(folder / f"{file}.{kind}", arrow_of(p, labels_of(p, n), n))
                naming = () if kind == "npz" else ("--prefix", "p_")
                label = ("--label", "y")
                run(
                    "calibrate", folder / f"old.{kind}", *label, *naming, *options, "-o", folder / "c.aptset", "--quiet"
                )
                weights = options if "--weights" in options else ()
                levels = ("--alpha", 0.1, "--alpha", 0.3)
                out = folder / "sets.csv"
                run(
                    "predict",
                    folder / f"new.{kind}",
                    *naming,
                    *weights,
                    *label,
                    "-c",
                    folder / "c.aptset",
                    *levels,
                    "-o",
                    out,
                    "--quiet",
                )
                return out.read_text(encoding="utf-8")

        yield f"command {kind} {' '.join(options)}", lambda answer=answer: outcome(answer)

    def trained():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            X, y = table_of(240, 5)
            X.assign(y=y).to_csv(folder / "rows.csv", index=False)
            options = ("--target", "y", "--model", "tree", "--out", folder / "out", "--quiet")
            run("run", folder / "rows.csv", *options, cwd=folder)
            X.to_csv(folder / "new.csv", index=False)
            run("predict", folder / "new.csv", "-c", folder / "out", "-o", folder / "sets.csv", "--quiet", cwd=folder)
            return (folder / "sets.csv").read_text(encoding="utf-8")

    yield "command run", lambda: outcome(trained)


def write_table(path: Path, table: pa.Table) -> None:
    frame = table.to_pandas()
    if path.suffix in (".csv", ".gz"):
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=30)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
    else:
        p = frame[[f"p_{name}" for name in NAMES]].to_numpy()
        np.savez(path, probabilities=p, y=[NAMES.index(label) for label in frame["y"]], w=frame["w"].to_numpy())


def errors() -> Answers:
    """The text of errors, which people read and search for."""
    p = probabilities_of("smooth", 30, 0)
    y = labels_of(p, 0)
    made = aptset.calibrate(p, y, classes=range(5), random_state=0)
    questions = {
        "alpha": lambda: made.predict_set(p, 1.5),
        "alpha text": lambda: made.predict_set(p, "0.1"),
        "columns": lambda: made.predict_set(p[:, :3]),
        "nan": lambda: made.predict_set(np.where(p == p[3, 2], np.nan, p)),
        "negative": lambda: made.predict_set(p - 0.5),
        "sum": lambda: made.predict_set(p * 1.01),
        "one row": lambda: made.predict_set(p[0]),
        "labels short": lambda: aptset.calibrate(p, y[:-1]),
        "unknown label": lambda: aptset.calibrate(p, np.where(y == 1, 77, y), classes=range(5)),
        "score": lambda: aptset.calibrate(p, y, conformity="adaptiv"),
        "groups missing": lambda: aptset.calibrate(p, y, groups=groups_of(30, 0)).predict_set(p),
        "groups extra": lambda: made.predict_set(p, groups=groups_of(30, 0)),
        "u": lambda: made.predict_set(p, u=np.full(30, 2.0)),
        "ids": lambda: made.predict_set(p, ids=["a"]),
        "weights": lambda: made.predict_set(p, weights=np.ones(30)),
        "folds": lambda: aptset.calibrate_cv(p, y, np.zeros(30)),
        "first row": lambda: made.predict_set(p, first_row=5),
        "random_state": lambda: aptset.calibrate(p, y, random_state="x"),
        "missing file": lambda: aptset.load("no-such-file.aptset"),
        "merge itself": lambda: made.merge(made),
        "online window": lambda: Online(made, window=0),
        "calibration": lambda: ConformalClassifier(model(None), calibration="splt").fit(p, y),
    }
    for name, question in questions.items():

        def answer(question=question):
            try:
                return str(question())
            except Exception as error:
                return f"{type(error).__name__}: {error}"

        yield f"error {name}", answer


def answers() -> Answers:
    for room in (classifiers, streams, judged, audited, batches, commands, errors):
        yield from room()
