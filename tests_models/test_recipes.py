"""The recipes for models from elsewhere: every block of their page runs, and prints what the page says."""

import os
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_every_recipe_runs():
    command = [sys.executable, str(DOCS / "run_pages.py"), str(DOCS / "howto" / "other-models.md")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ran howto/other-models.md: 6 blocks" in done.stdout, "one was left out: its library is not installed"
