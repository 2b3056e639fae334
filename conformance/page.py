"""The page: one table of verdicts, one of numbers. No adjectives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from conformance.answers import FAIL, LEVEL
from conformance.questions import QUESTIONS

FAILURES = Path(__file__).parent / "failures"
_HEAD = f"""# Conformance: correctness tests of conformal prediction libraries

`make conformance` puts the same questions to each library, in an environment of its own. A cell says pass, fail or not
offered; a fail links to a script of ten lines that shows it. A library is not asked about what it does not offer.
Refusing too few rows with an error is a pass. Confidence intervals of shares are exact (Clopper-Pearson), with an error
probability of {LEVEL:g} each; a statistical cell fails if its interval excludes the guarantee. Seeds are fixed.
Versions are pinned in `conformance/versions.toml`. To add a library, or to correct a call: `conformance/README.md`.

"""


def script_of(library: str, question: str) -> str:
    """Return the name of the script that shows a failure."""
    return f"{library}_{re.sub(r'[^a-z0-9]+', '_', question.lower()).strip('_')}.py"


def written(path: Path, results: dict[str, Any]) -> None:
    """Write the answers as JSON, and beside it as a page."""
    questions = {question.name: question.text for question in QUESTIONS}
    path.write_text(json.dumps({"questions": questions, "libraries": results}, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(results), encoding="utf-8")


def page(results: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    return _HEAD + "\n".join([*_libraries(results), "", *_verdicts(results), "", *_numbers(results)]) + "\n"


def _libraries(results: dict[str, Any]) -> list[str]:
    lines = ["| library | version | with | asked on | command | what is called |", "|---|---|---|---|---|---|"]
    for name, one in results.items():
        packages = ", ".join(f"{package} {version}" for package, version in one.get("packages", {}).items())
        called = one.get("api", f"not installed: {one.get('error', '')}")
        words = [name, one.get("version", ""), packages, one["date"], f"`{one['command']}`", _plain(called)]
        lines.append(f"| {' | '.join(words)} |")
    return lines


def _verdicts(results: dict[str, Any]) -> list[str]:
    lines = ["## Verdicts", "", f"| question | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for question in QUESTIONS:
        cells = (_verdict(name, question.name, one) for name, one in results.items())
        lines.append(f"| {_plain(question.text)} | {' | '.join(cells)} |")
    return lines


def _verdict(name: str, question: str, one: dict[str, Any]) -> str:
    if "cells" not in one:
        return "not installed"
    verdict = str(one["cells"].get(question, {"verdict": "not asked"})["verdict"])
    link = f"[fail](../conformance/failures/{script_of(name, question)})"
    return link if verdict == FAIL and (FAILURES / script_of(name, question)).exists() else verdict


def _numbers(results: dict[str, Any]) -> list[str]:
    lines = [
        "## Numbers",
        "",
        "| question | library | verdict | number | what the script prints |",
        "|---|---|---|---|---|",
    ]
    for question in QUESTIONS:
        for name, one in results.items():
            cell = one.get("cells", {}).get(question.name)
            if cell is not None and (cell["verdict"] != "not offered" or cell["number"]):
                words = (
                    f"{_verdict(name, question.name, one)} | {_plain(cell['number'])} | {_plain(cell.get('shown', ''))}"
                )
                lines.append(f"| {question.name} | {name} {one['version']} | {words} |")
    return lines


def _plain(text: str) -> str:
    """Keep a text from breaking the table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
