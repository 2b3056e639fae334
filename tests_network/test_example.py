"""The example of the documentation runs, and its sets cover as the law says."""

import runpy
from pathlib import Path

from scipy.stats import betabinom

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "torch_network.py"


def test_a_network_from_training_to_serving(capsys):
    covered, size, n = runpy.run_path(str(EXAMPLE))["main"]()
    # The count of covered rows is Beta-binomial with 500 calibration rows; two in ten million runs fall outside.
    low, high = betabinom(n, 451, 50).ppf([1e-7, 1 - 1e-7]) / n  # the 451st of 500 scores decides
    assert low <= covered <= high
    assert 0.9 < size < 3
    assert "promised 90%" in capsys.readouterr().out
