"""What guards the site must be able to fail: blocks that break, outputs that changed, dead links, failed searches."""

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_of(folder, *blocks):
    path = folder / "page.md"
    path.write_text("# A page\n\n" + "\n\n".join(blocks) + "\n")
    return path


GOOD = "```python\nx = 6 * 7\nx\n```\n\n```text\n42\n```"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("```python\nx = 1 / 0\n```", "ZeroDivisionError"),
        ("```python\nprint(x + 1)\n```\n\n```text\n42\n```", "43"),
        ("```python\nprint(x)\n```", "(nothing)"),
        ("```python\nimport warnings; warnings.warn('odd')\n```", "UserWarning"),
        ("```sh\nfalse\ntrue\n```", "exit status 1"),
        ("```sh\necho one\n```\n\n```text\ntwo\n```", "one"),
        ("<!-- run\nnobody\n-->", "NameError"),
    ],
)
def test_a_broken_block_fails_and_is_named_by_its_line(tmp_path, block, said):
    pages = load("run_pages")
    with pytest.raises(SystemExit) as error:
        pages.run_page(page_of(tmp_path, GOOD, block), write=False)
    assert said in str(error.value)
    line = 13 if block.startswith("```") else 12  # of the code, or of the comment
    assert f"page.md:{line}:" in str(error.value)


def test_blocks_run_in_order_and_say_why_some_do_not(tmp_path):
    pages = load("run_pages")
    hidden, skipped = "<!-- run\ny = x + 1\n-->", "<!-- not run: a reason -->\n```python\n1 / 0\n```"
    missing = "<!-- needs: no_such_module -->\n```python\nimport no_such_module\n```"
    shown = "```python\nprint(y)\n```\n\n```text\n4...\n```"
    varies = "<!-- varies: a reason -->\n```python\nprint(y)\n```\n\n```text\n44\n```"
    said = pages.run_page(page_of(tmp_path, GOOD, hidden, skipped, missing, shown, varies), write=False)
    assert said == "4 blocks; not run: a reason; not run: no_such_module is not installed"


def test_outputs_are_written_on_request(tmp_path):
    pages = load("run_pages")
    path = page_of(tmp_path, "```python\nprint(1)\n```", GOOD.replace("42\n```", "41\n```"))
    pages.run_page(path, write=True)
    assert path.read_text() == f"# A page\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n{GOOD}\n"


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "fetches https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "fetches //cdn.example/x.css"),
        ('<img src="missing.png">', "lacks missing.png"),
        ('<a href="nowhere.html">x</a>', "leads nowhere"),
        ('<a href="#nothing">x</a>', "has no such anchor"),
        ('<a href="http://example.org">x</a>', "is not https"),
    ],
)
def test_what_is_wrong_with_a_built_page_is_found(tmp_path, html, said):
    checks = load("check_site")
    (tmp_path / "page.html").write_text(f'<p id="here">{html}</p><a href="#here">x</a>')
    pages = [checks.Page(tmp_path / "page.html")]
    found = checks.dead_links(pages)[0] + checks.from_elsewhere(pages, tmp_path)
    assert len(found) == 1
    assert said in found[0]


def test_links_of_the_readme_lead_somewhere():
    assert load("check_site").dead_links_of_the_repository() == []


def test_a_search_leads_to_its_page_first_or_second(tmp_path):
    """An entry of the index goes first, then titles, names of objects and words of headings, words of the text last."""
    checks = load("check_site")
    assert checks.failed_searches(tmp_path) == ["there is no index to search in"]
    index = {
        "docnames": ["groups", "law", "changes", "api"],
        "titles": ["Class-conditional coverage (Mondrian)", "Distribution of coverage", "Changes", "aptset.Mondrian"],
        "alltitles": {"Class-conditional coverage (Mondrian)": [[0, None]], "Distribution of coverage": [[1, None]]},
        "indexentries": {"law of coverage": [[1, "index-0", True]], "mondrian() (in aptset)": [[3, "x", False]]},
        "objects": {"aptset": [[3, 0, 1, "", "Mondrian"]]},
        "titleterms": {"mondrian": 0, "class": 0, "condit": 0, "coverag": [0, 1], "distribut": 1},
        "terms": {"mondrian": [2, 3], "shift": 2, "coverag": [0, 1, 2]},
    }
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})")
    assert checks.ranked(index, "Mondrian") == ["api", "groups", "changes"]
    assert checks.ranked(index, "law of coverage") == ["law"]
    assert checks.ranked(index, "coverage") == ["law", "groups", "changes"]  # half of an entry was typed
    good = {"Mondrian": "groups", "class-conditional": "groups", "coverage distribution": "law", "shift": "changes"}
    assert checks.failed_searches(tmp_path, good) == []
    bad = {"mondrian": "changes", "distribution shift": "law", "coverage": "changes", "Mondrian": "page that is gone"}
    assert len(checks.failed_searches(tmp_path, bad)) == 4


def test_every_page_that_a_search_should_find_is_there():
    for page in load("check_site").SEARCHES.values():
        source = page.replace("gallery/", "examples/")
        assert (DOCS / f"{source}.md").exists() or (DOCS / f"{source}.py").exists(), page
