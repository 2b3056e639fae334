"""The command line, as a user starts it: in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import aptset
import shell


def run(*arguments):
    return subprocess.run([shell.APTSET, *arguments], capture_output=True, text=True, check=False)


def test_main_job(tmp_path):
    done = run("run")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for words in ("size given coverage", "decision tree", "HCC", "CV+", "at least 90 %", "(true label:"):
        assert words in done.stdout
    again = shell.run("run", "--out", "demo", cwd=tmp_path).stdout
    assert again.startswith(done.stdout.rstrip()), "the same seed tells the same story"
    assert "Written to demo: results.json, classifier.aptset" in again
    assert len(aptset.load(tmp_path / "demo").classes_) == 10
    other = json.loads(shell.run("run", "--seed", "1", "--json").stdout)["rows"]
    assert other[0]["model"] == "logistic regression"
    assert other != json.loads((tmp_path / "demo" / "results.json").read_text())["rows"]


def test_bad_level_is_one_line():
    assert shell.failure("run", "--alpha", "1.5") == (
        "Error: alpha must be in (0, 1); got 1.5. For 90 % coverage pass alpha=0.1.\n"
    )


def test_wrong_usage_help_and_version():
    assert run("nonsense").returncode == 2
    assert "aptset run patients.csv --target diagnosis" in run("run", "--help").stdout
    for command in ("run", "calibrate", "predict", "evaluate", "inspect", "plan", "completion"):
        text = run(command, "--help").stdout
        assert "Example" in text
        assert "\n    aptset" in text or '\n    eval "$(aptset' in text, "examples keep their lines"
        assert "\\b" not in text
    assert run("--version").stdout.strip().endswith(aptset.__version__)


def test_without_click_one_line_says_how_to_install_it(tmp_path):
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(\"No module named 'click'\", name='click')")
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from aptset.cli.start import main; main()"
    done = subprocess.run([sys.executable, "-c", start, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("The command line needs click: pip install 'aptset[cli]'"), done.stderr
    assert done.stderr.count("\n") == 1


def test_predict_in_few_calls(tmp_path):
    """What a small file costs is counted, not timed: calls of our own functions, and the files they stand in."""
    rows = pd.DataFrame(np.random.default_rng(0).dirichlet(np.ones(5), 300), columns=list("abcde"))
    rows.to_csv(tmp_path / "new.csv", index=False)
    rows.assign(y=list("abcde") * 60).to_csv(tmp_path / "rows.csv", index=False)
    shell.run("calibrate", "rows.csv", "--label", "y", "-o", "cal.aptset", cwd=tmp_path)
    asked = ("predict", "new.csv", "-c", "cal.aptset", "-o", "sets.csv")
    shell.run(*asked, cwd=tmp_path)
    calls, home = [], str(Path(aptset.__file__).parent)

    def note(frame, event, _):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and file.startswith(home) and not name.startswith("<"):  # comprehensions are not calls
            calls.append(file)

    sys.setprofile(note)
    try:
        shell.run(*asked, cwd=tmp_path)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 160
    assert len(set(calls)) <= 25


def test_predict_loads_neither_frames_nor_workers(tmp_path):
    """Each takes longer to load than a small file takes from its first byte to its sets."""
    rows = pd.DataFrame(np.random.default_rng(0).dirichlet(np.ones(3), 60), columns=list("abc"))
    rows.assign(y=list("abc") * 20).to_csv(tmp_path / "rows.csv", index=False)
    rows.to_csv(tmp_path / "new.csv", index=False)
    shell.run("calibrate", "rows.csv", "--label", "y", "-o", "cal.aptset", cwd=tmp_path)
    code = "import sys; from aptset.cli.main import main; main(sys.argv[1:], standalone_mode=False)\n"
    code += "print(sorted({'pandas', 'joblib', 'sklearn', 'scipy'} & sys.modules.keys()))"
    asked = ["predict", "new.csv", "-c", "cal.aptset", "-o", "sets.csv", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", code, *asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
