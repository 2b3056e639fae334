"""The public names, and that the package stays light."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import aptset
from aptset.conformal import CALIBRATIONS
from aptset.scores import ALIASES, SCORES


def test_public_names():
    """The stub, which type checkers read, and the table, which loads the names, are held to each other."""
    stub = ast.parse(Path(aptset.__file__).with_suffix(".pyi").read_text())
    typed = {}
    for line in (one for one in stub.body if isinstance(one, ast.ImportFrom)):
        names = [name.name for name in line.names]
        names = import_module(line.module).__all__ if names == ["*"] else names
        assert all(name.asname in (name.name, None) for name in line.names)
        assert line.names[0].asname or line.names[0].name == "*", "only `import x as x` is exported by a stub"
        typed |= dict.fromkeys(names, line.module.removeprefix("aptset."))
    assert typed == aptset._rooms(), "add the name to __init__.py and to __init__.pyi"
    assert aptset.__all__ == sorted(typed)
    for name in aptset.__all__:
        assert getattr(aptset, name).__doc__, name
    assert set(aptset.__all__) <= set(dir(aptset))
    assert aptset.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = aptset.no_such_name


def test_the_fields_own_names_are_the_same_classes():
    pairs = {"APS": "Adaptive", "LAC": "Homogeneous", "THR": "Homogeneous", "RAPS": "Regularized", "TopK": "Rank"}
    for short, name in pairs.items():
        assert getattr(aptset, short) is getattr(aptset, name)
        assert short in aptset.__all__
        assert ALIASES[short.lower()] == name.lower()


def test_what_can_be_named_can_be_imported():
    for table in (SCORES, CALIBRATIONS):
        missing = {made.__name__ for made in table.values()} - set(aptset.__all__)
        assert not missing, "add it to __all__ beside the table"
    everything = {}
    exec("from aptset import *", everything)
    assert set(aptset.__all__) <= set(everything)


def test_the_pages_name_what_stands_in_the_tables():
    root = Path(__file__).parents[1]
    pages = [path for room in ("start", "howto", "explain") for path in (root / "docs" / room).glob("*.md")]
    text = "".join(path.read_text() for path in [root / "README.md", root / "docs" / "choosing.md", *pages])
    for name in (*SCORES, *CALIBRATIONS):
        assert f'"{name}"' in text, name
    for name in set(re.findall(r"aptset\.(\w+)\(", text)):
        assert hasattr(aptset, name), f"README or a page calls aptset.{name}, which is not there"


def modules_after(code):
    command = f"import sys\n{code}\nprint(' '.join(sorted(m.split('.')[0] for m in sys.modules)))"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


CALIBRATE = "import aptset; aptset.calibrate([[.5, .5]], [0]).predict_set([[.5, .5]], .6)"
HELP = "from aptset.cli.main import main; main(['--help'], standalone_mode=False)"
HEAVY = {"sklearn", "scipy", "pandas", "narwhals"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [("import aptset", HEAVY | {"numpy"}), (CALIBRATE, HEAVY), (HELP, HEAVY | {"numpy"})],
    ids=["import", "calibrate", "help"],
)
def test_light(code, absent):
    assert not modules_after(code) & absent


def test_modules_that_pages_name_stay():
    """Pages and the promise of stability name these modules, wherever their content stands."""
    from aptset import arrow, baselines, batches
    from aptset.experiments import baselines as written

    assert {name for name in vars(batches) if name in arrow.__all__} == set(arrow.__all__)
    assert {name for name in vars(baselines) if name in written.__all__} == set(written.__all__)
    assert batches.set_maker is arrow.set_maker
