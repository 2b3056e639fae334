"""The public names, and that the package stays light."""

import subprocess
import sys

import pytest

import aptset


def test_public_names():
    assert aptset.__all__ == [
        "SAPS",
        "Adaptive",
        "Bootstrap",
        "CVPlus",
        "Calibration",
        "ConformalClassifier",
        "CrossCalibration",
        "Estimate",
        "Evaluation",
        "Homogeneous",
        "JackknifePlus",
        "Margin",
        "Minimax",
        "OutOfBag",
        "Places",
        "PredictionSets",
        "Rank",
        "Regularized",
        "Split",
        "Tempered",
        "Tuned",
        "WorstSlice",
        "adaptive_scores",
        "audit",
        "breakdown",
        "calibrate",
        "calibrate_cv",
        "calibration_size",
        "compare",
        "conformal_rank",
        "coverage",
        "coverage_by",
        "coverage_gap",
        "coverage_score",
        "coverage_test",
        "empty_rate",
        "evaluate",
        "load",
        "mean_size",
        "mean_size_by",
        "negative_mean_size",
        "negative_size_given_coverage",
        "oracle_sets",
        "report",
        "singleton_accuracy",
        "singleton_rate",
        "size_distribution",
        "size_given_coverage",
        "size_given_coverage_by",
        "size_stratified_coverage",
        "tune",
        "worst_slice_coverage",
        "worst_slice_score",
    ]
    assert all(getattr(aptset, name).__doc__ for name in aptset.__all__)
    assert set(aptset.__all__) <= set(dir(aptset))
    assert aptset.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = aptset.no_such_name


def modules_after(code):
    command = f"import sys\n{code}\nprint(' '.join(sorted(m.split('.')[0] for m in sys.modules)))"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


CALIBRATE = "import aptset; aptset.calibrate([[.5, .5]], [0]).predict_set([[.5, .5]], .6)"
HELP = "from aptset.commands.cli import main; main(['--help'], standalone_mode=False)"
HEAVY = {"sklearn", "scipy", "pandas", "narwhals"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [("import aptset", HEAVY | {"numpy"}), (CALIBRATE, HEAVY), (HELP, HEAVY | {"numpy"})],
    ids=["import", "calibrate", "help"],
)
def test_light(code, absent):
    assert not modules_after(code) & absent
