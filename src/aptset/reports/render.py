"""One self-contained HTML file from a summary. Nothing here computes a statistic."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from aptset.reports.summarise import Summary
from aptset.validation.evidence import needs_jinja

# The parts of the page's one script, in the order in which they build on each other.
SCRIPTS = ("special.js", "measure.js", "figures.js", "tables.js", "examples.js", "main.js")


def render(summary: Summary) -> str:
    """Return the page. A content policy allows its own style and script, by their hashes, and nothing else."""
    try:
        import jinja2
    except ImportError as error:
        raise needs_jinja(error) from error

    room = files("aptset.reports") / "page"
    style = (room / "page.css").read_text(encoding="utf-8")
    script = '"use strict";\n(() => {\n' + "\n".join((room / n).read_text(encoding="utf-8") for n in SCRIPTS) + "})();"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((room / "page.html.jinja").read_text(encoding="utf-8"))
    return template.render(
        **summary.page,
        style=_trusted(style),
        script=_trusted(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_trusted(as_json(summary.data)),
    )


def as_json(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the element it stands in, nor open a comment, whatever texts are in it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028")):
        text = text.replace(character, code)
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no place in a file


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _trusted(text: str) -> Any:
    """Mark text of our own, or JSON already escaped, as safe."""
    from markupsafe import Markup

    return Markup(text)
