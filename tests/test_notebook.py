"""The notebook of the docs is executed, and its outputs are looked at."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "practitioner.ipynb"


@pytest.mark.filterwarnings("ignore")  # of the kernel's libraries; the library's own are shown in the notebook
def test_the_notebook_shows_what_it_says():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOK, 4)
    nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [one for one in outputs if one["output_type"] == "error"]
    shown = [one["data"] for one in outputs if "data" in one]
    html = [one["text/html"] for one in shown if "text/html" in one]
    assert any("promises coverage" in one for one in html), "the classifier says what it promises"
    assert any("patient 300" in one and "probability" in one for one in html), "sets are beside their rows"
    assert any("Evaluation of 200 prediction sets" in one for one in html)
    assert any("Recommended:" in one for one in html)
    assert any("image/png" in one for one in shown), "the curve is a picture"
    bars = [one for one in outputs if "widget-view" in str(one.get("data", {})) or "folds" in str(one.get("text", ""))]
    assert bars, "progress shows"
    assert any(one.get("text/plain") == "True" for one in shown), "what was saved predicts the same"
