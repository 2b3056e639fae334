"""Makes the page of scores, calibrations, groupings and metrics from the tables in the code."""

import inspect
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from aptset.conformal import CALIBRATIONS
from aptset.conformal.scheme import Promises
from aptset.core.groups import EVERYONE, GROUPINGS
from aptset.metrics import BREAKDOWNS, METRICS, ON_REQUEST
from aptset.scores import ALIASES, SCORES

ROWS = 1000  # for which promises are stated

INTRODUCTION = """# Scores, calibrations, groupings, metrics

These tables are made from those in the code, which everything else reads, too: the arguments, the command line,
messages, reports and contract tests.
"""


def tables_page() -> str:
    """Return the page."""
    return "\n".join([INTRODUCTION, _scores(), _calibrations(), _groupings(), _metrics(), _breakdowns()])


def _table(title: str, text: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join([f"## {title}\n", f"{text}\n", *("| " + " | ".join(line) + " |" for line in lines), ""])


def _first_line(thing: Any) -> str:
    """Return the first sentence of a docstring without the markup of references."""
    return (inspect.getdoc(thing) or "").splitlines()[0].replace("|", r"\|")


def _link(thing: Any, module: str = "aptset") -> str:
    role = "class" if inspect.isclass(thing) else "func"
    return f"{{py:{role}}}`~{module}.{thing.__name__}`"


def _scores() -> str:
    rows = []
    for name, score in SCORES.items():
        others = ", ".join(f'`"{alias}"`' for alias, known in ALIASES.items() if known == name)
        rows.append((f'`"{name}"`', others, _link(score), _first_line(score), _settings(score)))
    text = 'For `conformity=` and `--conformity`. Small scores conform. `"auto"` chooses one on rows set aside.'
    return _table("Scores", text, ["name", "also", "class", "what it is", "settings"], rows)


def _settings(made: Any) -> str:
    parameters = inspect.signature(made).parameters.values()
    return ", ".join(f"`{one.name}={one.default!r}`" for one in parameters)


def _calibrations() -> str:
    rows = []
    for name, calibration in CALIBRATIONS.items():
        rows.append(
            (
                f'`"{name}"`',
                _link(calibration),
                _first_line(calibration),
                _settings(calibration),
                _promise(calibration()),
            )
        )
    text = (
        "For `calibration=` and `--calibration`. The last column is what is proven at alpha = 0.1 with 1,000 rows, in "
        "folds of one size where there are folds; `classifier.guarantee()` says it for the folds at hand."
    )
    return _table("Calibrations", text, ["name", "class", "what it is", "settings", "proven coverage"], rows)


def _promise(scheme: Any) -> str:
    """Return what is proven at alpha = 0.1 with 1,000 rows."""
    labels = np.zeros(ROWS, dtype=np.int64)
    folds = scheme.folds(None, labels, np.random.default_rng(0))
    promises = Promises.before_fit(scheme, folds, EVERYONE, EVERYONE.ids(None, ROWS), labels)
    return f"{float(promises.coverage(Fraction(1, 10))):.3f}"


def _groupings() -> str:
    words = {name: "the true label" if rule is None else _first_line(rule) for name, rule in GROUPINGS.items()}
    text = (
        "For `groups=` and `--groups`: a name below, the name of a column of X, or, in Python, any function of X that "
        "returns one value per row, or the values themselves."
    )
    return _table(
        "Groupings", text, ["name", "the group of a row is"], [(f'`"{name}"`', word) for name, word in words.items()]
    )


def _metrics() -> str:
    rows = [
        (f"`{metric.name}`", metric.sentence, _link(metric.of), metric.unit, metric.better)
        for metric in (METRICS | ON_REQUEST).values()
    ]
    extra = ", ".join(f"`{name}`" for name in ON_REQUEST)
    text = (
        "Attributes of every [evaluation](aptset.Evaluation), and names for {py:func}`aptset.scorer`. On request only, "
        f"as `extra_metrics=` and no scorer: {extra}."
    )
    return _table("Metrics", text, ["name", "what it is", "function", "unit", "better"], rows)


def _breakdowns() -> str:
    rows = [(f"`{one.name}`", one.words, one.by, _link(one.of)) for one in BREAKDOWNS.values()]
    text = "Attributes of an evaluation that have one number for each size, label or group."
    return _table("Breakdowns", text, ["name", "shows", "by", "function"], rows)
