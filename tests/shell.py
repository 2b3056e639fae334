"""Start commands, on files made for the purpose."""

import importlib
import subprocess
import sys
import sysconfig
import warnings
from contextlib import ExitStack, chdir, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner

from aptset.cli.main import main

APTSET = str(Path(sysconfig.get_path("scripts")) / "aptset")
NAMES = ["cat", "dög", 'fox "red", old']


def run(*arguments, rc=0, cwd=None, **options):
    """Run a command to its end: in this process, which is sooner, unless it needs one of its own (``options``)."""
    if options.keys() - {"input"}:
        return run_process(*arguments, rc=rc, cwd=cwd, **options)
    with warnings.catch_warnings(), ExitStack() as stack:  # restores what the command does to them
        warnings.simplefilter("default")
        stack.enter_context(nullcontext() if cwd is None else at_home(Path(cwd)))
        done = CliRunner().invoke(main, [*map(str, arguments)], prog_name="aptset", **options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == rc, done.output
    return done


@contextmanager
def at_home(folder):
    """Work in a folder; modules that are imported from it are forgotten afterwards, as by a process that ends."""
    path = sys.path.copy()
    importlib.invalidate_caches()
    with chdir(folder):
        yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]


def run_process(*arguments, rc=0, **options):
    """Run a command as a user does: where the process itself is the point."""
    done = subprocess.run([APTSET, *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == rc, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def failure(*arguments, **options):
    """Return the one line that a command says which fails."""
    told = run(*arguments, rc=1, **options).stderr
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


def messy(n, seed=0):
    """Patients with mixed types, dates, missing values, letters beyond ASCII, an id, a constant and a rare class."""
    generator = np.random.default_rng(seed)
    age, smoker = (
        generator.normal(50, 15, n).round(1),
        generator.choice(["no", "yes", "früher ☃"], n, p=[0.6, 0.3, 0.1]),
    )
    risk = (age - 50) / 15 + 1.5 * (smoker == "yes") + generator.normal(size=n) / 2
    days = pd.to_timedelta(generator.integers(0, 900, n), unit="D")
    words = generator.choice(["pain", "fever", "cough", "fine"], size=(n, 3))
    y = np.select([risk < -0.3, risk < 1], ["gesund", "mild"], "schwer é").astype(object)
    y[5] = "selten"
    return pd.DataFrame(
        {
            "patient_id": np.arange(n) + 7000 + seed,
            "age": np.where(generator.random(n) < 0.1, np.nan, age),
            "smoker": np.where(generator.random(n) < 0.05, None, smoker),
            "admitted": (pd.Timestamp("2022-01-01") + days).strftime("%Y-%m-%d"),
            "insured": generator.choice(["true", "false"], n),
            "notes": [f"{number} {' '.join(row)}" for number, row in enumerate(words)],
            "country": "DE",
            "diagnosis": y,
        }
    )


def write(folder, text):
    path = folder / "bad.csv"
    path.write_text(text)
    return path
