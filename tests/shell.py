"""Start commands as a user does, on files made for the purpose."""

import subprocess
import sysconfig
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner

from aptset.commands.cli import main

APTSET = str(Path(sysconfig.get_path("scripts")) / "aptset")
NAMES = ["cat", "dög", 'fox "red", old']


def run(*arguments, rc=0, **options):
    done = subprocess.run([APTSET, *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == rc, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def failure(*arguments, **options):
    """Return what a command says that fails: in this process, which is sooner, unless it needs one of its own."""
    if options:
        told = run(*arguments, rc=1, **options).stderr
    else:
        with warnings.catch_warnings():  # restores what the command does to them
            warnings.simplefilter("default")
            done = CliRunner().invoke(main, [*map(str, arguments)], prog_name="aptset")
        assert done.exit_code == 1, done.output
        told = done.stderr
    assert told.count("\n") == 1, "one line"
    return told


def table(n, seed):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet([0.6] * 3, size=n)
    y = (generator.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    frame = pd.DataFrame(p, columns=[f"p_{name}" for name in NAMES])
    return frame.assign(
        id=np.arange(n) + 1000, y=np.array(NAMES)[y], note=["a, b", 'say "hi"', None, "two\nlines"] * (n // 4)
    )


def write(folder, text):
    path = folder / "bad.csv"
    path.write_text(text)
    return path
