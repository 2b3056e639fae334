"""Ask one library all questions, in its own environment: python -m conformance.ask NAME [--size 1.0] > answers.json"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any

from conformance.answers import FAIL, NOT_OFFERED, Answer, Question
from conformance.questions import QUESTIONS


def offers(adapter: ModuleType, need: str) -> bool:
    """Return whether an adapter has what a question needs: a score, a score of a kind, or a function.

    A need with "or data" is met as well by a library that only takes data, and trains by itself.
    """
    if need.endswith(" or data"):
        return getattr(adapter, "ONLY_DATA", False) or offers(adapter, need.removesuffix(" or data"))
    kinds = {"plain ": "PLAIN", "randomized ": "RANDOMIZED"}
    for start, table in kinds.items():
        if need.startswith(start):
            return need.removeprefix(start) in getattr(adapter, table)
    return need in adapter.SCORES if need in ("lac", "adaptive") else hasattr(adapter, need)


def answer(adapter: ModuleType, question: Question, size: float) -> Answer:
    """Return the answer to one question; an error is a failure with its text."""
    if not all(offers(adapter, need) for need in question.needs):
        reasons = getattr(adapter, "WHY_NOT", {})
        return Answer(NOT_OFFERED, reasons.get(question.name, reasons.get("*", "")))
    try:
        return question.ask(adapter, size)
    except Exception as error:  # whatever a library raises, the other questions go on
        text = str(error).strip().splitlines()
        return Answer(FAIL, f"{type(error).__name__}: {text[0] if text else ''}"[:200])


def asked(name: str, size: float) -> dict[str, Any]:
    """Return everything that the page says about a library."""
    adapter = import_module(f"conformance.adapters.{name}")
    cells = {}
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # some libraries print
        warnings.simplefilter("ignore")
        for question in QUESTIONS:
            start = time.perf_counter()
            given = answer(adapter, question, size)
            cells[question.name] = {"verdict": given.verdict, "number": given.number}
            print(
                f"{name}: {question.name}: {given.verdict} {given.number} ({time.perf_counter() - start:.1f} s)",
                file=sys.stderr,
            )
    packages = {one: version(one) for one in ("numpy", "scikit-learn")}
    return {"version": version(adapter.DISTRIBUTION), "api": adapter.API, "packages": packages, "cells": cells}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--size", type=float, default=1.0, help="share of the draws of each statistical question")
    chosen = parser.parse_args()
    print(json.dumps(asked(chosen.name, chosen.size), indent=1))
