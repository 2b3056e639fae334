"""The rooms of the package: eight layers, words that are no names, and a page for newcomers that is true."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import aptset

SOURCE, ROOT = Path(aptset.__file__).parent, Path(__file__).parents[1]
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
UNWANTED = {"found", "some", "mine", "met", "told", "facing", "late", "opened"}
UNWANTED |= {"near", "door", "seam", "border", "asking", "answering"}
PUBLIC = {("WorstSlice", "found")}  # fields that people read


def names_of(tree, owner=""):
    """Yield the names that a module gives to values and parameters, each with its class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield owner, node.id
        elif isinstance(node, ast.arg):
            yield owner, node.arg
        yield from names_of(node, node.name if isinstance(node, ast.ClassDef) else owner)


@pytest.mark.parametrize("room", ROOMS)
def test_values_are_called_by_nouns(room):
    for path in (SOURCE / room).rglob("*.py"):
        used = {pair for pair in names_of(ast.parse(path.read_text())) if pair[1] in UNWANTED} - PUBLIC
        assert not used, f"{path}: say what it is"
        assert not UNWANTED & set(path.stem.split("_")), path


def test_the_rooms_have_classes_of_one_name_each():
    nodes = [node for path in SOURCE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    assert [name for name, count in classes.items() if count > 1] == []


def test_every_room_is_in_one_of_eight_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    assert len(layers) == 8
    assert sorted(re.findall(r"aptset\.(\w+)", " ".join(layers))) == ROOMS


def test_the_page_for_newcomers_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rooms = "|".join(ROOMS)
    named = {path for path in re.findall(rf"`((?:{rooms})/[\w/.]*)`", text) if "yours" not in path}
    assert len(named) > 40
    missing = [path for path in sorted(named) if not (SOURCE / path).exists()]
    assert not missing
    assert {f"{room}/" for room in ROOMS} <= named, "a room that the table leaves out"
    tests = set(re.findall(r"`(tests\w*/[\w/.]+)`", text))
    assert not [path for path in sorted(tests) if not (ROOT / path).exists()]
