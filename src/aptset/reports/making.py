"""``aptset.report``: from sets and rows to a page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import Acceptance, Assurance, Evaluation, Taxonomy, evaluate
from aptset.core import validate
from aptset.core.files import atomic_write
from aptset.core.row_groups import check_clusters, check_votes, plural, refuse_votes_and_labels
from aptset.core.runner import counting
from aptset.core.tables import column_values, plain_list
from aptset.core.validate import need_jinja
from aptset.metrics import check_extra
from aptset.metrics.evaluate import with_extra
from aptset.metrics.evaluation_rows import EvaluationRows
from aptset.reports import summarise
from aptset.reports.sources import evaluation_of
from aptset.reports.words import share


def check_page_path(path: Any) -> Path:
    """Return where the page goes."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html; got {str(path)!r}.")
    return target


# The parts of each page's one script, in the order in which they build on each other.
REPORT = ("drawing.js", "taking.js", "special.js", "measure.js", "figures.js", "tables.js", "examples.js", "main.js")
SPLITS = ("drawing.js", "taking.js", "splits.js")


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


@dataclass(frozen=True, repr=False)
class Report:
    """A page about prediction sets; made by :func:`report`.

    Attributes
    ----------
    html : str
        The whole page: one file without links to anything outside it.
    evaluation : Evaluation
        The numbers at the level of the sets.
    """

    html: str
    evaluation: Evaluation

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all, and return its path."""
        return save_page(self.html, path)

    def __repr__(self) -> str:
        size = len(self.html.encode(errors="replace")) / 1e6
        return f"Report({size:.2f} MB, coverage {self.evaluation.coverage!r}); save('report.html') writes it"

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        how = 'width="100%" height="720" style="border:0" sandbox="allow-scripts allow-downloads"'
        return f'<iframe srcdoc="{page}" {how}></iframe>'


ERRORS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
ASSURANCE = 0.9
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520.0, 190.0, 44.0, 206.0


class CurveRow(NamedTuple):
    """One error that is allowed, and for each rule the share of rows acted on and the share of these that is wrong."""

    error: str
    threshold: str
    threshold_wrong: str
    batch: str
    batch_wrong: str
    estimate: str


def who_decides(source: Any, evidence: EvaluationRows | None) -> dict[str, Any] | None:
    """Return how many rows could be acted on, by the error that is allowed: what is promised, and what was measured.

    Jin and Candès 2023 for a batch, docs/design/0024 for a threshold. None for sources that kept no rows to learn from.
    """
    fitted = getattr(source, "fitted_", None)
    if evidence is None or evidence.probabilities is None or getattr(fitted, "decisions", None) is None:
        return None
    rule = source.acceptance_
    probabilities = np.asarray(evidence.probabilities)
    confidence = probabilities.max(axis=1).astype(np.float64)
    is_wrong = probabilities.argmax(axis=1) != evidence.columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few rows show as a share of 0
        numbers = [_at(rule, confidence, is_wrong, error) for error in ERRORS]
    lines = [
        CurveRow(share(e), *(_in_words(number) for number in rest)) for e, rest in zip(ERRORS, numbers, strict=True)
    ]
    curves = {name: _points([row[k] or 0.0 for row in numbers]) for name, k in (("threshold", 0), ("batch", 2))}
    ticks = [(_x(error), f"{error:.0%}") for error in (0.01, 0.05, 0.1, 0.15, 0.2)]
    return {
        "lines": lines,
        "n": f"{rule.n:,}",
        "assurance": f"{ASSURANCE:.0%}",
        "curves": {**curves, "estimate": _points([row[4] or 0.0 for row in numbers])},
        "x_ticks": ticks,
        "y_ticks": [(_y(part), f"{part:.0%}") for part in (0.0, 0.25, 0.5, 0.75, 1.0)],
    }


def _at(
    rule: Acceptance, confidence: NDArray[np.float64], is_wrong: NDArray[np.bool_], error: float
) -> list[float | None]:
    """Return share acted on and share wrong by one threshold and as a batch, and the share that the curve estimates."""
    threshold = rule.threshold(error, ASSURANCE)
    nobody = np.zeros(len(confidence))
    by_threshold = threshold.above(confidence, nobody, None)
    batch = rule.above_in_batch(confidence, error)
    wrong = np.cumsum(rule.is_wrong) / np.arange(1, rule.n + 1)
    fits = np.flatnonzero(wrong <= error)
    estimate = float((fits[-1] + 1) / rule.n) if len(fits) else 0.0
    measured: list[float | None] = []
    for act in (by_threshold, batch):
        measured += [float(act.mean()), float(is_wrong[act].mean()) if act.any() else None]
    return [*measured, estimate]


def _in_words(value: float | None) -> str:
    return "none" if value is None else share(value)


def _x(error: float) -> float:
    return round(_LEFT + _WIDTH * error / ERRORS[-1], 1)


def _y(part: float) -> float:
    return round(_BOTTOM - _HEIGHT * part, 1)


def _points(shares: list[float]) -> str:
    return " ".join(f"{_x(error)},{_y(part)}" for error, part in zip(ERRORS, shares, strict=True))


def drawn_answers(source: Any, y: Any, votes: Any, random_state: Any) -> NDArray[Any]:
    """Return one answer to each row, drawn by the votes; a promise about a random annotator speaks of such labels."""
    refuse_votes_and_labels(y, votes)
    if isinstance(source, Evaluation):
        raise TypeError("votes must be left out for an Evaluation, which has its labels. Pass votes to evaluate.")
    classes: NDArray[Any] = source.classes if hasattr(source, "held_out") else source.classes_
    n_rows = len(votes)
    answers = check_votes(votes, classes, n_rows)
    spot = validate.generator(random_state).random(n_rows) * np.bincount(answers.rows, answers.votes)
    running = np.cumsum(answers.votes)
    starts = np.flatnonzero(np.diff(answers.rows, prepend=-1))
    before = running[starts] - answers.votes[starts]
    place = np.searchsorted(running, before + spot, side="right")
    last = np.append(starts[1:], len(answers.rows)) - 1
    return classes[answers.columns[np.clip(place, starts, last)]]


def one_of_each(evaluation: Evaluation, clusters: Any, votes: Any, random_state: Any) -> tuple[Evaluation, Evaluation]:
    """Return the evaluation that a page shows, of one row of each cluster, and that of all rows or answers."""
    rows = evaluation.evidence
    if rows is None or (clusters is None and votes is None):
        return evaluation, evaluation
    common: dict[str, Any] = {"alpha": evaluation.alpha, "confidence": evaluation.confidence}
    if votes is not None:
        shown = {**rows.origin.settings, "Test labels": "one answer to each row, drawn by the votes"}
        page = replace(evaluation, evidence=replace(rows, origin=replace(rows.origin, settings=shown)))
        return page, evaluate(rows.sets, groups=rows.groups, votes=votes, **common)
    members = check_clusters(clusters, rows.X, evaluation.n, 0)
    order = validate.generator(random_state).permutation(evaluation.n)
    chosen = np.sort(order[np.unique(members.words[order], return_index=True)[1]])
    what = f"one of each of {len(chosen):,} {plural(members.noun)}, drawn from {evaluation.n:,} rows"
    drawn = rows.some(chosen, {"Test rows are": what})
    page = evaluate(drawn.sets, drawn.labels, groups=drawn.groups, random_state=random_state, **common)
    whole = evaluate(rows.sets, rows.labels, groups=rows.groups, clusters=clusters, **common)
    return replace(page, evidence=drawn), whole


def report(
    source: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    path: str | Path | None = None,
    *,
    groups: ArrayLike | None = None,
    features: Any = None,
    alpha: float | None = None,
    title: str = "What the prediction sets are worth",
    examples: int = 200,
    random_state: Any = 0,
    u: ArrayLike | None = None,
    ids: Any = None,
    progress: bool = False,
    weights: ArrayLike | None = None,
    normalize: bool | None = None,
    logits: bool = False,
    assurance: float | Assurance | None = None,
    remarks: Sequence[str] = (),
    clusters: Any = None,
    votes: Any = None,
    taxonomy: Taxonomy | None = None,
    extra_metrics: str | Sequence[str] = (),
) -> Report:
    """Draw a report: one HTML file that works offline, with a slider for the level that moves everything.

    Parameters
    ----------
    source : ConformalClassifier, Calibration, CrossCalibration or Evaluation
        A fitted classifier or a calibration, with test rows that neither trained nor calibrated; or an evaluation that
        was given ``p_values``.
    X : array or data frame
        The test rows, or their probabilities for a Calibration (those of each fold for a CrossCalibration); leave out
        for an Evaluation.
    y : array
        Their true labels.
    path : str or path, optional
        Where to write the page (.html); :meth:`Report.save` does it later.
    groups : array, optional
        A group for each row, to break coverage and size down (and for calibration by group).
    features : array or data frame, optional
        What to look for the worst slice in; by default X for a classifier, if it holds numbers and categories
        without gaps.
    alpha : float, optional
        The level at which the page opens; by default the classifier's, or 0.1.
    title : str
        The heading.
    examples : int, default=200
        How many rows are shown one by one. The statistics are always those of all rows.
    random_state : None, int or numpy random generator, default=0
        Draws the examples and the directions of the worst slice.
    u, ids : array, optional
        Of the rows, as in ``predict_set``: u where it was passed to ``fit`` or ``calibrate``, or one id per row.
    progress : bool, default=False
        Show a bar, on terminals and in notebooks: rows that each model was asked about, judged and drawn.
    weights : array, optional
        Of the rows, for a calibration with weights, as in ``predict_set``. The rows must come from where the weights
        point. The page then shows the effective size, and no law to judge the coverage by, since none is known.
    normalize, logits : bool, optional
        Of probabilities, as in :meth:`Calibration.predict_set`: the page shows the sets that it returns for the same
        rows.
    assurance : float or Assurance, optional
        As in ``predict_set``, by default the classifier's: the page opens at the level at which assured sets run, and
        says which was asked for. For sets without groups.
    remarks : sequence of str, optional
        Sentences to show beside the verdict, such as how many rows were left out. Labels that the model does not know
        are counted there by themselves.
    clusters : array, optional
        The id of each row's cluster, where rows belong together. The page is about one row of each cluster, drawn by
        ``random_state``: what it counts and how sure it is then holds of a row of a new cluster. ``evaluation`` of the
        report has the means of clusters over all rows, as in :func:`evaluate`.
    votes : array or data frame, shape (rows, classes), optional
        How many annotators chose each label of each row, in the place of ``y``. The page is about one answer to each
        row, drawn by ``random_state``; ``evaluation`` of the report is about all answers.
    taxonomy : Taxonomy, optional
        A tree of labels: each of the rows that are shown has its set written with whole nodes, too.
    extra_metrics : str or sequence of str, optional
        Metrics that are measured on request only, since they fit a model, as in :func:`evaluate`:
        "coverage_unevenness".

    Returns
    -------
    Report

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[::2], y[::2])
    >>> page = aptset.report(classifier, X[1::2], y[1::2])
    >>> page.html.startswith("<!doctype html>"), page.evaluation.n
    (True, 75)
    """
    count = validate.whole(examples, "examples", 0, "a whole number from 0 to 10000", most=10_000)
    target = None if path is None else check_page_path(path)
    if taxonomy is not None and not isinstance(taxonomy, Taxonomy):
        raise TypeError(f"taxonomy must be an aptset.Taxonomy; got {type(taxonomy).__name__}.")
    extra = tuple(check_extra(extra_metrics))
    need_jinja()
    with counting(_work(source, y), "report", validate.flag(progress, "progress")) as on_rows:
        of_rows = {"u": u, "ids": ids, "weights": weights, "normalize": normalize, "logits": logits}
        if votes is not None:
            y = drawn_answers(source, y, votes, random_state)
        evaluation = evaluation_of(source, X, y, groups, features, alpha, random_state, on_rows, assurance, **of_rows)
        on_rows(evaluation.n)
        if remarks:
            evaluation = replace(evaluation, remarks=(*remarks, *evaluation.remarks))
        names = column_values(X, ids) if isinstance(ids, str) else None if ids is None else plain_list(ids)
        deciding = who_decides(source, evaluation.evidence)
        shown, evaluation = one_of_each(evaluation, clusters, votes, random_state)
        if extra:
            shown = with_extra(shown, extra, random_state)
            evaluation = replace(evaluation, overall=shown.overall | evaluation.overall)
        summary = summarise(shown, str(title), count, random_state, deciding, names, taxonomy)
        page = Report(render_page("page.html.jinja", REPORT, summary.page, summary.data), evaluation)
        on_rows(evaluation.n)
    if target is not None:
        page.save(target)
    return page


def _work(source: Any, y: Any) -> int | None:
    """Return how often a row is looked at: by each model, to be judged, and to be drawn."""
    rows = source.n if isinstance(source, Evaluation) else len(y) if hasattr(y, "__len__") else None
    return None if rows is None else rows * (len(getattr(source, "models_", [])) + 2)
