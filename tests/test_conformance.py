"""The suite that is put to every library: ours passes, one that is wrong fails everywhere, the page is true."""

import ast
import json
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "conformance.json"
FEW = 0.03  # of the draws: seconds instead of minutes


@pytest.fixture(scope="module")
def suite():
    """Import from the root of the repository, and leave no trace: other folders there have names of libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield lambda name: import_module(f"conformance.{name}")
        for name in [name for name in sys.modules if name.split(".")[0] == "conformance"]:
            patch.delitem(sys.modules, name)


def verdicts(suite, name):
    return {question: cell["verdict"] for question, cell in suite("ask").asked(name, FEW)["cells"].items()}


def test_ours_passes_every_question(suite):
    assert set(verdicts(suite, "aptset").values()) == {"pass"}


def test_every_question_can_be_failed(suite):
    assert set(verdicts(suite, "broken").values()) == {"fail"}


def test_what_is_not_offered_is_not_failed(suite):
    ask = suite("ask")

    little = SimpleNamespace(SCORES=("lac",), RANDOMIZED=(), PLAIN=(), WHY_NOT={"p-values": "none here"})
    offered = [
        question.name for question in suite("questions").QUESTIONS if all(ask.offers(little, n) for n in question.needs)
    ]
    assert all(name.startswith("coverage, lac") for name in offered)
    (asked,) = [question for question in suite("questions").QUESTIONS if question.name == "p-values"]
    assert ask.answer(little, asked, FEW) == suite("answers").Answer("not offered", "none here")


def test_errors_of_a_library_are_failures_with_their_text(suite):
    class Raises:
        SCORES = RANDOMIZED = PLAIN = ("lac",)

        @staticmethod
        def calibrate(*arguments, **settings):
            raise KeyError("oh")

    asked = suite("questions").QUESTIONS[0]
    assert suite("ask").answer(Raises, asked, FEW) == suite("answers").Answer("fail", "KeyError: 'oh'")


def test_intervals_are_exact(suite):
    """Clopper-Pearson by its definition: at its ends the tail has half the level."""
    from scipy.stats import binom

    answers = suite("answers")
    low, high = answers.clopper_pearson(37, 50)
    assert binom.sf(36, 50, low) == pytest.approx(answers.LEVEL / 2)
    assert binom.cdf(37, 50, high) == pytest.approx(answers.LEVEL / 2)
    assert answers.clopper_pearson(0, 9)[0] == 0.0
    assert answers.clopper_pearson(9, 9)[1] == 1.0


def test_the_page_is_what_the_answers_say(suite):
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert kept["questions"] == {question.name: question.text for question in suite("questions").QUESTIONS}
    assert RESULTS.with_suffix(".md").read_text(encoding="utf-8") == suite("page").page(kept["libraries"])
    assert {cell["verdict"] for cell in kept["libraries"]["aptset"]["cells"].values()} == {"pass"}


def test_every_failure_is_shown_by_a_short_script(suite):
    page, kept = suite("page"), json.loads(RESULTS.read_text(encoding="utf-8"))["libraries"]
    wanted = {
        page.script_of(name, question)
        for name, one in kept.items()
        for question, cell in one.get("cells", {}).items()
        if cell["verdict"] == "fail"
    }
    possible = {page.script_of(name, question.name) for name in kept for question in suite("questions").QUESTIONS}
    there = {path.name for path in page.FAILURES.glob("*.py")}
    assert wanted <= there <= possible
    for name in there:
        parsed = ast.parse((page.FAILURES / name).read_text(encoding="utf-8")).body
        assert sum(not isinstance(one, ast.Import | ast.ImportFrom) for one in parsed) <= 8, "a docstring and few lines"
