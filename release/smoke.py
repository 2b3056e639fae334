"""Run by the Python of a clean environment: is what was installed what was built, and does it still say what it said?

    python smoke.py GOLDEN ENGINE [--other-models]

GOLDEN is the folder of artefacts that an earlier version wrote, ENGINE the engine that must run. With --other-models
the models inside are left alone: a scikit-learn that is older than the one that wrote them need not read them.
"""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

import aptset
from aptset.kernels import engines

COMMAND = shutil.which("aptset", path=sysconfig.get_path("scripts"))


def main(golden: Path, engine: str, *, models: bool) -> None:
    """Check, and print the version, the engine and a digest of p-values."""
    for compiler in ("cc", "gcc", "clang", "c++"):
        assert shutil.which(compiler) is None, f"{compiler} is on the PATH: this is no environment without a compiler"
    assert Path(aptset.__file__).is_relative_to(sys.prefix), f"{aptset.__file__} is not what was installed"
    assert engines.chosen.name == engine, f"{engines.chosen.name} runs instead of {engine}"
    artefacts(golden)
    if models:
        classifiers(golden)
        raw_rows(golden)
    commands()
    print(f"aptset {aptset.__version__} {engine} {digest()}")


def artefacts(golden: Path) -> None:
    """Calibrations of the version before give the sets that they gave."""
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=400)
    sets = aptset.load(golden / "calibration-1.aptset").predict_set(P[200:], ids=np.arange(200))
    assert [row.tolist() for row in sets] == expected(golden, "expected.json")["calibration"]
    for kind, wanted in expected(golden, "expected-folds.json").items():
        calibration = aptset.load(golden / f"calibration-1-{kind}.aptset")
        said = np.random.default_rng(0).dirichlet(np.ones(3), size=(len(calibration.folds), 50)).round(6)
        sets = calibration.predict_set(said, ids=np.arange(50), normalize=True)
        assert [row.tolist() for row in sets] == wanted["sets"], kind


def classifiers(golden: Path) -> None:
    """Classifiers of the version before give the sets that they gave."""
    X, _ = load_iris(return_X_y=True)
    for kind, wanted in expected(golden, "expected.json").items():
        if kind != "calibration":
            sets = aptset.load(golden / f"classifier-1-{kind}").predict_set(X[1::2], ids=np.arange(75))
            assert [row.tolist() for row in sets] == wanted["sets"], kind


def raw_rows(golden: Path) -> None:
    """The command predicts raw rows with the folder of an earlier run."""
    with tempfile.TemporaryDirectory() as folder:
        new, out = Path(folder, "new.csv"), Path(folder, "sets.csv")
        wanted = read(golden / "run-1.csv")
        with new.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(
                file, [name for name in wanted[0] if name not in ("size", "set")], extrasaction="ignore"
            )
            writer.writeheader()
            writer.writerows(wanted)
        call("predict", new, "-c", golden / "run-1", "-o", out)
        assert [row["set"] for row in read(out)] == [row["set"] for row in wanted]


def commands() -> None:
    """From embedded data to a model, and to a page."""
    with tempfile.TemporaryDirectory() as folder:
        call("run", "--out", folder, "--json")
        assert "split" in call("inspect", folder)
        page = Path(folder, "page.html")
        call("report", "--out", page)
        assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def digest() -> str:
    """Return what must be the same with every wheel: a hash of p-values and sets, exact to the last bit."""
    draws = np.random.default_rng(1)
    P = draws.dirichlet(np.full(20, 0.3), size=4000).astype(np.float32)
    hashed = hashlib.sha256()
    for score in ("adaptive", "regularized", "saps", "margin"):
        calibration = aptset.calibrate(P[:2000], P[:2000].argmax(axis=1), conformity=score, random_state=0)
        hashed.update(np.ascontiguousarray(calibration.p_values(P[2000:])).tobytes())
        hashed.update(np.ascontiguousarray(calibration.predict_mask(P[2000:], alpha=0.05)).tobytes())
    return hashed.hexdigest()[:16]


def call(*arguments: object) -> str:
    """Run the installed command to its end and return what it says."""
    assert COMMAND is not None, "the command aptset is not installed"
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([COMMAND, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def expected(golden: Path, name: str) -> dict[str, Any]:
    """Return what the version before said."""
    return dict(json.loads((golden / name).read_text(encoding="utf-8")))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # scikit-learn warns of models that another version of it wrote
    main(Path(sys.argv[1]), sys.argv[2], models="--other-models" not in sys.argv)
