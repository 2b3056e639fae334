"""The story of a messy table with XGBoost, end to end: run, report, predict in a fresh process, evaluate."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd


def aptset(*arguments, **options):
    command = [sys.executable, "-m", "aptset", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def patients(n, seed):
    generator = np.random.default_rng(seed)
    age, smoker = generator.normal(50, 15, n), generator.choice(["no", "yes", "früher ☃"], n)
    risk = (age - 50) / 15 + 1.5 * (smoker == "yes") + generator.normal(size=n) / 2
    y = np.select([risk < -0.3, risk < 1], ["gesund", "mild"], "schwer é").astype(object)
    y[::97] = "selten"
    days = pd.to_timedelta(generator.integers(0, 900, n), unit="D")
    return pd.DataFrame(
        {
            "patient_id": np.arange(n),
            "age": np.where(generator.random(n) < 0.1, np.nan, age),
            "smoker": np.where(generator.random(n) < 0.05, None, smoker),
            "admitted": (pd.Timestamp("2022-01-01") + days).strftime("%d.%m.%Y"),
            "notes": [f"{k} some words" for k in range(n)],
            "diagnosis": y,
        }
    )


def test_a_messy_table_with_every_booster(tmp_path):
    patients(600, 0).to_csv(tmp_path / "patients.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    patients(400, 1).to_csv(tmp_path / "new.csv", index=False)
    for model in ("xgboost", "lightgbm", "catboost"):
        done = aptset("run", "patients.csv", "--target", "diagnosis", "--model", model, "--out", model, cwd=tmp_path)
        assert "dates      admitted (day first, " in done
        assert ": as year, month and age in days" in done
        assert done.count("\n") < 40, "no logs of the library"
        aptset("report", "new.csv", "-c", model, "-o", f"{model}.html", cwd=tmp_path)
        assert "new.csv" in (tmp_path / f"{model}.html").read_text()
        aptset("predict", "new.csv", "-c", model, "-o", "sets.csv", cwd=tmp_path)
        judged = json.loads(
            aptset("evaluate", "sets.csv", "--label", "diagnosis", "--alpha", 0.1, "--json", cwd=tmp_path)
        )
        # 210 rows calibrate, 400 are new: five standard deviations of the coverage below 0.9.
        assert judged["estimates"][0]["value"] > 0.9 - 5 * (0.09 * (1 / 210 + 1 / 400)) ** 0.5
