"""From a fitted classifier or a calibration, and test rows, to an evaluation that knows its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Calibration, CrossCalibration, Evaluation, PredictionSets, Split, evaluate
from aptset.calibration.request import NAME, p_values_of_one_model, sets_of, sets_of_one_model, take_ids
from aptset.conformal.checks import check_level_offered, folds_in_order
from aptset.conformal.fold_scores import FoldScores
from aptset.conformal.importance import check_new_weights, effective_in_words
from aptset.conformal.measure import Measure, Thresholds
from aptset.conformal.scheme import Promises, Scheme, is_full
from aptset.core import validate
from aptset.core.devices import is_on_device, on_host, tensor_of
from aptset.core.groups import KINDS, Groups, Ids, groups_overlap
from aptset.core.labels import as_labels, check_length, known_columns
from aptset.core.levels import Level, alpha_of, check_level
from aptset.core.matrix import OF_ESTIMATOR, check_new_probabilities, check_rows, softmax_of
from aptset.core.overlapping import WITHOUT_P_VALUES, refuse_overlapping
from aptset.core.randomization import Randomization, all_at_once, refuse_fresh
from aptset.core.row_groups import check_clusters, check_votes, plural, refuse_votes_and_labels
from aptset.kernels.counting import ratios
from aptset.kernels.formula import Floats, normalised
from aptset.kernels.rows import Rows, label_scores
from aptset.metrics.coverage_distribution import FoldCounts
from aptset.metrics.evaluation_rows import EvaluationRows, Origin, as_group_list, words_of_model
from aptset.metrics.features import can_be_sliced

Columns = NDArray[np.int64]
_PIECES = 20  # that a model is asked in: enough for a bar, few enough to cost nothing
_FEWEST_AT_ONCE = 4096


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


@dataclass(frozen=True, eq=False)
class Answer:
    """All that a report needs to know from the models of a classifier."""

    sets: list[PredictionSets]
    p_values: Floats
    probabilities: NDArray[Any]
    folds: tuple[tuple[FoldCounts, ...], ...] | None


def ask(
    fitted: Any,
    samples: Any,
    columns: Columns,
    levels: list[Fraction],
    may_be_empty: bool,
    on_rows: Callable[[float], None],
) -> Answer:
    """Return what a fitted classifier says about rows whose true labels are these columns, -1 for unknown ones."""
    classes, held_out, ids, mass = fitted.rule.classes, fitted.held_out, samples.ids, samples.mass
    if is_full(fitted.rule.scheme):
        tally = fitted.tally(samples)
        on_rows(len(samples))
        sets = sets_of(tally.sets(held_out, ids, levels, may_be_empty), classes)
        return Answer(sets, tally.p_values(held_out, ids), tally.mass, None)
    if len(fitted.models) == 1:
        rows = _under(fitted.models[0], samples, classes, on_rows)
        sets = sets_of_one_model(held_out, rows, ids, levels, classes, may_be_empty, OF_ESTIMATOR, mass)
        return Answer(sets, p_values_of_one_model(held_out, rows, ids, OF_ESTIMATOR, mass), rows.probabilities, None)
    tally = fitted.rule.scheme.combine(len(samples), len(classes))
    of_row, folds = group_of_rows(held_out.groups, columns, ids), []
    for model, fold in zip(fitted.models, held_out.of_models, strict=True):
        rows = _under(model, samples, classes, on_rows)
        check_rows(rows.probabilities, tally.add(fold, rows, ids), OF_ESTIMATOR, normalize=False)
        # A model that judges by itself is a split by itself; with weights it has no law.
        if fold is not None and not _has_no_law(held_out):
            folds.append(_counts(fold, _below(fold, rows, columns, of_row), of_row))
    sets = sets_of(tally.sets(held_out, ids, levels, may_be_empty, mass), classes)
    return Answer(sets, tally.p_values(held_out, ids, mass), tally.mass / len(fitted.models), tuple(folds) or None)


def _under(model: Any, samples: Any, classes: NDArray[Any], on_rows: Callable[[float], None]) -> Rows:
    """Ask a model about the samples, in pieces that say how far it is."""
    step = max(_FEWEST_AT_ONCE, -(-len(samples) // _PIECES))
    parts = []
    for start in range(0, len(samples), step):
        chunk = samples if step >= len(samples) else samples.some(slice(start, start + step))
        parts.append(chunk.under(model, classes).probabilities)
        on_rows(len(parts[-1]))
    rows: Rows = samples.rows(parts[0] if len(parts) == 1 else np.concatenate(parts))
    return rows


def group_of_rows(groups: Groups, columns: Columns, ids: Ids | None) -> NDArray[np.int64]:
    """Return the group within which each row was calibrated; -1 for a label or a group that was not seen."""
    if ids is None:
        known = groups.ids_of_labels(None, np.maximum(columns, 0)).astype(np.int64)
        return np.where(columns < 0, -1, known)
    if groups.by_both:
        known = groups.ids_of_labels(ids, np.maximum(columns, 0)).astype(np.int64)
        return np.where((columns < 0) | (ids < 0), -1, known)
    return np.zeros(len(columns), dtype=np.int64) if groups.is_one else np.asarray(ids, dtype=np.int64)


def _below(fold: FoldScores, rows: Rows, columns: Columns, of_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many scores of its group in a fold lie below each row's own; all of them for an unknown label."""
    scores = label_scores(rows, np.maximum(columns, 0)).scores
    scores[columns < 0] = np.inf
    below = np.zeros(len(scores), dtype=np.int64)
    for group, (start, stop) in enumerate(zip(fold.offsets[:-1], fold.offsets[1:], strict=True)):
        belongs = of_row == group
        below[belongs] = np.searchsorted(fold.scores[start:stop], scores[belongs], side="left")
    return below


def _counts(fold: FoldScores, below: NDArray[np.int64], of_row: NDArray[np.int64]) -> tuple[FoldCounts, ...]:
    """Return the counts of each group that has rows here and there."""
    counts = []
    for group, n in enumerate(np.diff(fold.offsets).tolist()):
        belongs = of_row == group
        if n > 0 and belongs.any():
            counts.append(FoldCounts(int(belongs.sum()), n, np.bincount(below[belongs], minlength=n + 1)))
    return tuple(counts)


def folds_of_calibration(
    calibration: CrossCalibration,
    probabilities: list[Any],
    of_rows: dict[str, Any],
    columns: Columns,
    of_row: NDArray[np.int64],
) -> tuple[tuple[FoldCounts, ...], ...]:
    """Return what each fold by itself says: the p-values of a calibration of one fold tell how many lie below."""
    folds = []
    for number, (fold, matrix) in enumerate(zip(calibration.held_out.folds, probabilities, strict=True)):
        alone = Measure((fold,), calibration.held_out.groups)
        one = replace(calibration, held_out=alone, folds=calibration.folds[number : number + 1])
        p_values = one.p_values([matrix], **of_rows)
        of_truth = np.take_along_axis(p_values, np.maximum(columns, 0)[:, None], axis=1)[:, 0]
        n = np.diff(fold.offsets)[np.maximum(of_row, 0)]
        below = np.where(columns < 0, n, np.rint((n + 1) * (1 - of_truth)).astype(np.int64))
        folds.append(_counts(fold, below, of_row))
    return tuple(folds)


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
    chosen: NDArray[Any] = classes[answers.columns[np.clip(place, starts, last)]]
    return chosen


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


OnRows = Callable[[float], None]
# At this level a set holds no label but the one that keeps it from being empty (and labels that are always in).
_NEARLY_ONE = 0.999999999


def level_of_page(held_out: Thresholds, level: Level) -> tuple[float, str]:
    """Return the one level that a page opens at, and what it stands for where it is not what was asked for.

    Sets with assurance are those of p-values above 1 - rank / (n + 1).
    """
    if isinstance(level, Fraction):
        return float(level), ""
    if not isinstance(level.alpha, Fraction):
        raise ValueError(
            "alpha must be one number for a report, whose slider moves one level for all labels; got "
            f"{alpha_of(level)}. "
            "evaluate(sets, y, alpha=...) judges each label or group against its own."
        )
    check_level_offered(held_out, level)
    if not held_out.groups.is_one:
        raise ValueError(
            "assurance must be left out of a report about groups, in each of which it runs at another level. "
            "evaluate(sets, y, groups=..., alpha=...) judges them."
        )
    n, (rank, _) = held_out.n, held_out.ranks(level)
    if rank > n:
        raise ValueError(f"{n} calibration rows are too few for {level}: every set holds every label.")
    runs_at = float(ratios(np.array([n + 1 - rank]), np.array([n + 1]))[0])
    asked = f"alpha = {float(level.alpha):g} with {level.assurance}"
    return runs_at, f"{asked}, which runs at {runs_at:.4g}: this calibration covers {float(1 - level.alpha):g} at least"


def evaluation_of(
    source: Any,
    X: Any,
    y: Any,
    groups: Any,
    features: Any,
    alpha: float | None,
    random_state: Any,
    on_rows: OnRows,
    assurance: Any = None,
    **chance: Any,
) -> Evaluation:
    """Return the evaluation that a report is made from; ``chance`` holds what else ``predict_set`` takes.

    ``on_rows`` is told of the rows that a model was asked about.
    """
    is_evaluation, is_calibration = isinstance(source, Evaluation), isinstance(source, Calibration | CrossCalibration)
    check_report_source(
        source, X, y, is_evaluation, is_calibration or hasattr(source, "fit_predict_set") or is_evaluation
    )
    if isinstance(source, Evaluation):
        return source
    of_source = source if is_calibration else source.calibration_
    what = "p-values, which a report needs"
    refuse_overlapping(of_source.held_out.groups.overlaps, what, WITHOUT_P_VALUES)
    refuse_overlapping(groups_overlap(groups), "place in a report", WITHOUT_P_VALUES)
    refuse_fresh(chance.get("u"), "in a report, which asks several things about each row")
    chance = _without_form(source, **chance)
    with all_at_once():
        if isinstance(source, Calibration | CrossCalibration):
            level = check_level(0.1 if alpha is None else alpha, assurance)
            return _of_calibration(source, X, y, groups, features, level, random_state, chance)
        _, runs_at = source._level(alpha, assurance)
        return _of_classifier(source, X, y, groups, features, runs_at, random_state, on_rows, chance)


def _without_form(source: Any, normalize: bool | None = None, logits: bool = False, **chance: Any) -> dict[str, Any]:
    """Return what else came with the rows, and their form where the source takes one."""
    takes = {"normalize": isinstance(source, Calibration | CrossCalibration), "logits": isinstance(source, Calibration)}
    form = {"normalize": normalize, "logits": validate.flag(logits, "logits") or None}
    for name, value in form.items():
        if value is not None and not takes[name]:
            raise ValueError(
                f"{name} must be left out for a {type(source).__name__}, which takes none in predict_set either; got "
                f"{value!r}. Only probabilities for a Calibration may come as logits or be divided."
            )
    return {**chance, **{name: value for name, value in form.items() if value is not None}}


def _of_classifier(
    classifier: Any,
    X: Any,
    y: Any,
    groups: Any,
    features: Any,
    asked: Level,
    random_state: Any,
    on_rows: OnRows,
    chance: dict[str, Any],
) -> Evaluation:
    check_new_weights(chance.pop("weights", None), 0, False, "by a classifier, whose weights are a setting of its own")
    held_out = classifier.calibration_.held_out
    fitted = classifier._fitted()
    passed = groups if held_out.groups.by_row and fitted.rule.group_setting is None else None
    level, assured = level_of_page(held_out, asked)
    samples = fitted.placed(*fitted.rule.samples(X, passed, **chance))
    levels = [Fraction(str(level)), Fraction(str(_NEARLY_ONE))]
    rule, columns = fitted.rule, known_columns(as_labels(y, "y"), fitted.rule.classes, "y")
    check_length(columns, len(samples), "y")
    answer = ask(fitted, samples, columns, levels, classifier.allow_empty, on_rows)
    sets, last = answer.sets
    settings = {
        "Model": _short_name(classifier.estimator),
        "Levels": assured or f"{classifier.level}, alpha runs at {level:g}",
    }
    is_frozen = type(classifier.estimator).__name__ == "FrozenEstimator"  # by name: reports load no scikit-learn
    settings["Training rows"] = _training_rows(rule.training_rows, len(fitted.models), is_frozen)
    settings |= _settings(rule.scheme.name, held_out, str(rule.score), rule.chance, classifier.allow_empty)
    unseen = classifier.unseen_label_chance_
    known = f"the {len(rule.classes)} labels that are known"
    settings["Promise about"] = known + (f"; a new row carries another one in about {unseen:.2%}" if unseen else "")
    of_row = group_of_rows(held_out.groups, columns, samples.ids)
    groups, are_bands = _groups_shown(groups, held_out.groups, of_row)
    settled = (
        rule.chance.randomized,
        classifier.allow_empty,
        settings,
        of_row,
        answer.folds,
        are_bands or passed is not None,
    )
    origin = _origin(rule.scheme, held_out, *settled)
    seen = X if features is None else features
    sliced = seen if features is not None or can_be_sliced(X, len(sets)) else None
    evaluation = evaluate(sets, y, sliced, groups, alpha=level, random_state=random_state)
    rows = (answer.p_values, answer.probabilities, groups, seen, last, classifier.allow_empty, origin)
    return _with_rows(evaluation, sets, y, *rows)


def _of_calibration(
    calibration: Calibration | CrossCalibration,
    probabilities: Any,
    y: Any,
    groups: Any,
    features: Any,
    asked: Level,
    random_state: Any,
    chance: dict[str, Any],
) -> Evaluation:
    scheme: Scheme = Split()
    if isinstance(calibration, CrossCalibration):
        scheme = calibration.scheme
        probabilities = list(folds_in_order(probabilities, calibration.folds))  # they may stream, and are needed again
    else:
        probabilities, ids = take_ids(probabilities, chance["ids"])
        probabilities = tensor_of(probabilities).cpu() if is_on_device(probabilities) else probabilities
        chance = {**chance, "ids": ids}
    by = groups if calibration.held_out.groups.by_row else None
    alpha, assured = level_of_page(calibration.held_out, asked)
    sets, last = calibration.predict_set(probabilities, [alpha, _NEARLY_ONE], groups=by, **chance)
    p_values = np.asarray(on_host(calibration.p_values(probabilities, groups=by, **chance)))
    held_out, randomized, may_be_empty = calibration.held_out, calibration.chance.randomized, calibration.allow_empty
    settings = {"Model": "probabilities were given", **({"Levels": assured} if assured else {})}
    settings |= _settings(scheme.name, held_out, str(calibration.conformity), calibration.chance, may_be_empty)
    columns = known_columns(as_labels(y, "y"), calibration.classes, "y")
    check_length(columns, len(sets), "y")
    of_row = group_of_rows(held_out.groups, columns, held_out.resolve_groups(by, len(sets))[0])
    folds = None
    if isinstance(calibration, CrossCalibration) and not _has_no_law(held_out):
        folds = folds_of_calibration(calibration, probabilities, {"groups": by, **chance}, columns, of_row)
    groups, are_bands = _groups_shown(groups, held_out.groups, of_row)
    are_shown = are_bands or by is not None
    origin = _origin(scheme, held_out, randomized, may_be_empty, settings, of_row, folds, are_shown)
    evaluation = evaluate(sets, y, features, groups, alpha=alpha, random_state=random_state)
    chances = _chances(calibration, probabilities, chance)
    return _with_rows(evaluation, sets, y, p_values, chances, groups, features, last, may_be_empty, origin)


def _chances(calibration: Calibration | CrossCalibration, probabilities: Any, form: dict[str, Any]) -> Any:
    """Return the probabilities in the order of the classes, of several folds their mean."""
    known = (NAME, calibration.classes, calibration.columns)
    divides = validate.flag(form.get("normalize"), "normalize", calibration.normalize)
    matrices = [probabilities] if isinstance(calibration, Calibration) else probabilities
    shares = [check_new_probabilities(one, *known) for one in matrices]
    shares = [softmax_of(one, NAME) for one in shares] if form.get("logits") else shares
    shares = [normalised(one.astype(np.float64)) for one in shares] if divides else shares
    return shares[0] if len(shares) == 1 else np.mean([one.astype(np.float64) for one in shares], axis=0)


def _with_rows(
    evaluation: Evaluation,
    sets: PredictionSets,
    y: Any,
    p_values: Any,
    chances: Any,
    groups: Any,
    features: Any,
    last: PredictionSets,
    may_be_empty: bool,
    origin: Origin,
) -> Evaluation:
    likely = None if may_be_empty else last.indices[last.indptr[:-1]].astype(np.int64)
    rows = EvaluationRows(sets, as_labels(y, "y"), p_values, chances, as_group_list(groups), features, likely, origin)
    model = words_of_model(sets, y, np.asarray(chances), evaluation.confidence)
    return replace(evaluation, evidence=rows, model=model, n_calibration=origin.n)


def _origin(
    scheme: Scheme,
    held_out: Thresholds,
    randomized: bool,
    may_be_empty: bool,
    settings: Any,
    of_row: NDArray[np.int64],
    folds: tuple[tuple[FoldCounts, ...], ...] | None,
    are_groups_shown: bool,
) -> Origin:
    """Return the promise as lines: the best one of each group counts, and the worst group."""
    of_groups = Promises.of(scheme, held_out).lines
    losses = {tuple((float(line.constant), float(line.slope)) for line in lines) for lines in of_groups}
    kind = held_out.groups.kind
    upper_open = not randomized or not may_be_empty
    within = "label" if kind == "label" else "group" if are_groups_shown else None
    law: dict[str, Any] = {"folds": folds, "is_weighted": _has_no_law(held_out)}
    if held_out.clusters is not None:
        law["about"] = held_out.clusters.about
    if folds is None and not _has_no_law(held_out):
        sizes = (*held_out.sizes.tolist(), 0)  # a group never seen comes last: its sets hold every label
        of_row = np.where(of_row < 0, len(sizes) - 1, of_row) if held_out.groups.by_row else of_row
        law |= {"group_of_row": of_row, "group_sizes": sizes}
    pairs = tuple(sorted(losses))
    return Origin(scheme.name, held_out.n, pairs, not held_out.groups.is_one, upper_open, settings, within, **law)


def _has_no_law(held_out: Thresholds) -> bool:
    """Tell whether rows count differently, so that coverage after one calibration has no known law."""
    is_single = held_out.clusters is None or (held_out.clusters.are_votes and not held_out.is_weighted)
    return held_out.is_weighted or not is_single


def _groups_shown(groups: Any, known: Groups, of_row: NDArray[np.int64]) -> tuple[Any, bool]:
    """Return the groups that are shown, and whether they are the bands of the true labels: if no others were passed."""
    if known.kind != "band" or groups is not None:
        return groups, False
    names = [*known.names, "labels that calibration did not know"]
    return [names[band] for band in of_row.tolist()], True


def _short_name(model: Any) -> str:
    """Return a short description of a model: the steps of a pipeline by their names, else its settings in one line."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list):
        return " → ".join(type(step).__name__ for _, step in steps)
    text = " ".join(str(model).split())
    return text if len(text) <= _MOST_LETTERS else type(model).__name__


def _training_rows(rows: tuple[int, int] | None, n_models: int, has_frozen: bool) -> str:
    """Say how many rows trained the model, or each of several."""
    if rows is None:
        return "not known: the model was fitted before" if has_frozen else "not known: saved by an older version"
    fewest, most = (f"{count:,}" for count in rows)
    counts = fewest if fewest == most else f"{fewest} to {most}"
    return counts if n_models == 1 else f"{counts} for each of {n_models:,} models"


_MOST_LETTERS = 80
_SOURCES = {"content": "the content of the row", "ids": "the id of the row", "given": "the caller"}


def _settings(name: str, held_out: Thresholds, score: str, chance: Randomization, may_be_empty: bool) -> dict[str, str]:
    within = KINDS[held_out.groups.kind].within.format(n=len(held_out.groups.names))
    folds = len(held_out.folds)
    return {
        "Calibration": name + (f", {folds} folds" if folds > 1 else ""),
        "Calibration rows": f"{held_out.rows:,}",
        **({"Effective size": effective_in_words(held_out)} if held_out.has_weights else {}),
        **({} if held_out.clusters is None else {"Promise for": held_out.clusters.about}),
        "Calibrated": within,
        "Score": score,
        "Randomised": f"yes, by {_SOURCES[chance.source]}" if chance.randomized else "no",
        "Empty sets": "allowed" if may_be_empty else "get their most likely label",
    }
