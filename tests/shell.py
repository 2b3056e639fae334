"""Start commands as a user does, on files made for the purpose."""

import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pandas as pd

APTSET = str(Path(sysconfig.get_path("scripts")) / "aptset")
NAMES = ["cat", "dög", 'fox "red", old']


def run(*arguments, rc=0, **options):
    done = subprocess.run([APTSET, *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == rc, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def failure(*arguments, **options):
    done = run(*arguments, rc=1, **options)
    assert done.stderr.count("\n") == 1, "one line"
    return done.stderr


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
