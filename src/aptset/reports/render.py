"""One self-contained HTML file from a summary. Nothing here computes a statistic."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from aptset.core.files import atomic_write
from aptset.reports.summarise import Summary


def check_report_source(source: Any, X: Any, y: Any, is_evaluation: bool, is_known: bool) -> None:
    """Refuse what no report can be made of."""
    if not is_known:
        raise TypeError(
            "source must be an Evaluation, a fitted ConformalClassifier, a Calibration or a CrossCalibration; got "
            f"{type(source).__name__}. Wrap a model in aptset.ConformalClassifier and fit it."
        )
    if is_evaluation and (X is not None or y is not None):
        raise TypeError("X and y must be left out for an Evaluation, which has its rows. Pass them to evaluate.")
    if not is_evaluation and (X is None or y is None):
        raise TypeError(
            "X and y must be given: test rows (for a calibration their probabilities, of each fold if there are more) "
            "and their true labels, none of which trained or calibrated."
        )


def check_page_path(path: Any) -> Path:
    """Return where the page goes."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html; got {str(path)!r}.")
    return target


def needs_jinja(error: ImportError) -> ImportError:
    """Return the error about a missing extra."""
    return ImportError(f"aptset.report needs jinja2 ({error}). Install it with: pip install 'aptset[report]'")


# The parts of each page's one script, in the order in which they build on each other.
REPORT = ("drawing.js", "taking.js", "special.js", "measure.js", "figures.js", "tables.js", "examples.js", "main.js")
SPLITS = ("drawing.js", "taking.js", "splits.js")


def render(summary: Summary) -> str:
    """Return the page of a report."""
    return render_page("page.html.jinja", REPORT, summary.page, summary.data)


def render_page(template_name: str, scripts: tuple[str, ...], page: dict[str, Any], data: dict[str, Any]) -> str:
    """Return a page. A content policy allows its own style and script, by their hashes, and nothing else."""
    jinja2 = need_jinja()
    room = files("aptset.reports") / "page"
    style = (room / "page.css").read_text(encoding="utf-8")
    parts = "\n".join((room / name).read_text(encoding="utf-8") for name in scripts)
    script = f'"use strict";\n(() => {{\n{parts}}})();'
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((room / template_name).read_text(encoding="utf-8"))
    html: str = template.render(
        **page,
        style=_trusted(style),
        script=_trusted(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_trusted(as_json(data)),
    )
    return html


def need_jinja() -> Any:
    """Return jinja2, or say how to get it."""
    try:
        import jinja2
    except ImportError as error:
        raise needs_jinja(error) from error
    return jinja2


def as_json(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the element it stands in, nor open a comment, whatever texts are in it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")):
        text = text.replace(character, code)
    return text


def save_page(html: str, path: str | Path) -> Path:
    """Write a page, whole or not at all, and return its path."""
    target = check_page_path(path)
    with atomic_write(target) as file:
        file.write(html.encode(errors="replace"))  # lone surrogates have no place in a file
    return target


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _trusted(text: str) -> Any:
    """Mark text of our own, or JSON already escaped, as safe."""
    from markupsafe import Markup

    return Markup(text)
