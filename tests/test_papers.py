"""What stands on paper agrees with the code: README, pages, extras, versions, examples."""

import ast
import re
import shlex
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest

import shell
from aptset.cli.main import main

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]  # make docs checks those of the site, and runs them
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def packages(extra):
    """Return the names of the packages that an extra brings, also through other extras."""
    found = set()
    for requirement in EXTRAS[extra]:
        inner = re.match(r"aptset\[(.*)\]", requirement)
        found |= set().union(*map(packages, inner[1].split(","))) if inner else {re.match(r"[\w-]+", requirement)[0]}
    return found


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.skipif(not (ROOT / "docs" / "reproduction").exists(), reason="figures and long runs are not in an sdist")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_examples_of_the_readme_run():
    first, probabilities, *others = blocks(README, "python")
    names = {}
    exec(first.replace("print(", "str("), names)
    said, size = re.search(r"# (0\.\d+) of 450 rows .*, (\d\.\d+) labels", first).groups()
    assert names["sets"].covers(names["y_test"]).mean() == pytest.approx(float(said), abs=0.03)
    assert names["sets"].sizes.mean() == pytest.approx(float(size), abs=0.15)
    exec(probabilities, names)
    for block in others:  # they need torch, dask and Spark
        compile(block, "README.md", "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_on_paper_are_commands(page):
    """Every command and every long option of a line that starts with aptset is there."""
    text = "\n".join(blocks(page, "sh"))
    for line in re.split(r"\n|;", text.replace("\\\n", " ")):
        words = shlex.split(line, comments=True)
        if words[:1] == ["aptset"]:
            options = [one for one in main.get_command(None, words[1]).params if isinstance(one, click.Option)]
            known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
            assert {word for word in words[2:] if re.match(r"--?[a-z]", word)} <= known, line


def test_the_table_of_extras_is_complete():
    text = (ROOT / "docs" / "reference" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z]+)` \| ([^|]*) \|", text, flags=re.M))
    assert set(rows) == set(EXTRAS), "every extra has a row in docs/reference/install.md"
    for extra, brings in rows.items():
        if "`" not in brings and extra != "all":
            assert set(brings.split(", ")) == packages(extra), extra
    small = set(EXTRAS) - {"models", "torch", "network", "gpu", "onnx", "dask", "spark"}
    assert packages("all") == set().union(*(packages(extra) for extra in small))


def test_errors_name_extras_that_bring_what_is_missing():
    """A text that says what is needed, and how to install it, names an extra that installs it."""
    told = [text for path in [*SOURCES, *PAGES] for text in path.read_text(encoding="utf-8").splitlines()]
    named = re.findall(r"(?:aptset\[|install\(')([a-z,]+)['\]]", "\n".join(told))
    assert set(",".join(named).split(",")) <= set(EXTRAS), "an extra that pyproject.toml does not have"
    sentence = re.compile(r"needs? (\w+)(?: \([^)]*\))?[:.].*\{install\('(\w+)'\)\}")
    needs = {pair for line in told for pair in sentence.findall(line)}
    assert {"click", "skops", "torch", "jinja2"} <= {package for package, _ in needs}, "texts are found no more"
    for package, extra in needs:
        assert package in packages(extra), f"aptset[{extra}] does not bring {package}"
    for module in ("aptset.core.tables", "aptset.experiments.baselines"):
        for package, extra in import_module(module).EXTRAS.items():
            assert package.replace("_", "-") in packages(extra), f"{module}: aptset[{extra}] does not bring {package}"


def test_one_version_everywhere():
    version = PROJECT["version"]
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.M)[1] == version
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)[1] == version


def test_floors_come_from_the_project(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    floors = import_module("release.floors")
    for name in [name for name in sys.modules if name.split(".")[0] == "release"]:
        monkeypatch.delitem(sys.modules, name)
    text = '[project]\nname = "aptset"\ndependencies = ["numpy>=2.0", "x-y >= 1.2.3"]\n'
    text += '[project.optional-dependencies]\none = ["aptset[two]", "torch>=2.4"]\ntwo = ["numpy<3"]\n'
    assert floors.floors(text) == {"numpy": "2.0", "x-y": "1.2.3", "torch": "2.4"}
    assert floors.constraints(text) == "numpy==2.0\nx-y==1.2.3\n"
    with pytest.raises(ValueError, match="lowest version of click"):
        floors.floors(text.replace("numpy<3", "click"))
    with pytest.raises(ValueError, match=r"one floor; got 2\.0 and 2\.1"):
        floors.floors(text.replace("numpy<3", "numpy>=2.1"))
    assert set(floors.floors((ROOT / "pyproject.toml").read_text(encoding="utf-8"))) >= {"numpy", "pandas", "click"}


PROMISES = ROOT / "tests" / "README.md"


def test_every_promise_names_tests_that_exist_and_a_page_that_does():
    """What is named is defined at the top of its file, where pytest collects it, and is called test_..."""
    lines = [line for line in PROMISES.read_text(encoding="utf-8").splitlines() if "](../docs/" in line]
    assert len(lines) > 40
    defined = {}
    for line in lines:
        named = re.findall(r"`([\w/.]+\.py)::(test_\w+)`", line)
        assert named, line
        for path, name in named:
            if path not in defined:
                tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
                defined[path] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in defined[path], f"{path} has no {name}"
    missing = [page for page in re.findall(r"\(\.\./(docs/[^)]+)\)", "\n".join(lines)) if not (ROOT / page).exists()]
    assert not (ROOT / "docs" / "reproduction").exists() or not missing


def test_security_names_every_floor(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    floors = import_module("release.floors").floors((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name in [name for name in sys.modules if name.split(".")[0] == "release"]:
        monkeypatch.delitem(sys.modules, name)
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    assert dict(re.findall(r"^\| ([a-z0-9-]+) \| ([0-9.]+) \| .+ \|$", table, flags=re.M)) == floors


def test_the_commands_of_the_readme_run_as_they_are_written(tmp_path):
    """A newcomer's story: the block writes its own files, and each command works on what the one before it wrote."""
    _, python, commands = re.fullmatch(
        r"(python - <<END\n)(.*?)^END\n(.*)", blocks(README, "sh")[-1], re.M | re.S
    ).groups()
    with shell.at_home(tmp_path):
        exec(python, {})
    for line in commands.splitlines():
        shell.run(*shlex.split(line, comments=True)[1:], cwd=tmp_path)
    assert {"results", "sets.csv", "report.html"} <= {path.name for path in tmp_path.iterdir()}
    assert "set" in (tmp_path / "sets.csv").read_text(encoding="utf-8").splitlines()[0]
