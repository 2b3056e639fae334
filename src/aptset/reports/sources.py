"""From a fitted classifier or a calibration, and test rows, to an evaluation that knows its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Calibration, CrossCalibration, Evaluation, PredictionSets, Split, evaluate
from aptset.conformal.importance import check_new_weights, effective_in_words
from aptset.conformal.measure import FoldScores, Measure, scores_of
from aptset.conformal.scheme import Promises, Scheme, is_full
from aptset.conformal.schemes.cross import folds_in_order
from aptset.conformal.thresholds import Thresholds, level_of_rank
from aptset.core import validate
from aptset.core.devices import is_on_device, on_host, tensor_of
from aptset.core.groupings import WITHOUT_P_VALUES, refuse_overlapping
from aptset.core.groups import Groups, Ids, groups_overlap
from aptset.core.labels import as_labels, check_length, known_columns
from aptset.core.levels import Level, alpha_of, check_level
from aptset.core.matrix import OF_ESTIMATOR, check_new_probabilities, check_rows, shares_of, softmax_of
from aptset.core.randomization import Randomization, all_at_once, column_or_values, refuse_fresh
from aptset.core.tables import without_column
from aptset.metrics.coverage_distribution import FoldCounts
from aptset.metrics.evaluation_rows import EvaluationRows, Origin, as_group_list, words_of_model
from aptset.metrics.features import can_be_sliced

Columns = NDArray[np.int64]
Folds = tuple[tuple[FoldCounts, ...], ...]
OnRows = Callable[[float], None]
_PIECES = 20  # that a model is asked in: enough for a bar, few enough to cost nothing
_FEWEST_AT_ONCE = 4096


def check_report_source(source: Any, X: Any, y: Any) -> None:
    """Refuse what no report can be made of."""
    if isinstance(source, Evaluation):
        if X is not None or y is not None:
            raise TypeError("X and y must be left out for an Evaluation, which has its rows. Pass them to evaluate.")
        return
    if not isinstance(source, Calibration | CrossCalibration) and not hasattr(source, "fit_predict_set"):
        raise TypeError(
            "source must be an Evaluation, a fitted ConformalClassifier, a Calibration or a CrossCalibration; got "
            f"{type(source).__name__}. Wrap a model in aptset.ConformalClassifier and fit it."
        )
    if X is None or y is None:
        raise TypeError(
            "X and y must be given: test rows (for a calibration their probabilities, of each fold if there are more) "
            "and their true labels, none of which trained or calibrated."
        )


@dataclass(frozen=True, eq=False)
class Answer:
    """All that a page needs to know from a source about the test rows."""

    sets: list[PredictionSets]  # at the level of the page, and nearly at 1
    p_values: NDArray[np.float64]
    probabilities: NDArray[Any]
    folds: Folds | None  # what each fold by itself says
    of_row: NDArray[np.int64]  # the group within which each row was calibrated
    level: float
    promises: Promises
    held_out: Thresholds
    randomized: bool
    allow_empty: bool
    settings: dict[str, str]
    by_passed_groups: bool  # whether groups that were passed calibrate


def ask(
    fitted: Any, samples: Any, columns: Columns, levels: Sequence[Level], may_be_empty: bool, on_rows: OnRows
) -> tuple[list[PredictionSets], NDArray[np.float64], NDArray[Any], Folds | None]:
    """Return sets, p-values and probabilities of rows whose true labels are these columns, -1 for unknown ones.

    Every model is asked once. Last comes what each fold by itself says, where that has a law.
    """
    modelled, folds = _modelled(fitted, samples, columns, on_rows)
    sets = fitted.sets_of(samples, modelled, levels, may_be_empty)
    return sets, fitted.p_values_of(samples, modelled), fitted.probabilities_of(modelled), tuple(folds) or None


def _modelled(fitted: Any, samples: Any, columns: Columns, on_rows: OnRows) -> tuple[Any, list[tuple[FoldCounts, ...]]]:
    """Return the rows of the only model, or what several models together say, and the counts of each fold."""
    classes, held_out, folds = fitted.rule.classes, fitted.held_out, list[tuple[FoldCounts, ...]]()
    if fitted.has_one_judge:
        return _under(fitted.models[0], samples, classes, on_rows), folds
    if is_full(fitted.rule.scheme):
        on_rows(len(samples))
        return fitted.tally(samples), folds
    tally = fitted.rule.scheme.combine(len(samples), len(classes))
    of_row = group_of_rows(held_out.groups, columns, samples.ids)
    for model, fold in zip(fitted.models, held_out.of_models, strict=True):
        rows = _under(model, samples, classes, on_rows)
        check_rows(rows.probabilities, tally.add(fold, rows, samples.ids), OF_ESTIMATOR, normalize=False)
        # A model that judges by itself is a split by itself; with weights it has no law.
        if fold is not None and not _has_no_law(held_out):
            folds.append(_counts(fold, _below(fold, rows, columns, of_row), of_row))
    return tally, folds


def _under(model: Any, samples: Any, classes: NDArray[Any], on_rows: OnRows) -> Any:
    """Ask a model about the samples, in pieces that say how far it is."""
    step = max(_FEWEST_AT_ONCE, -(-len(samples) // _PIECES))
    parts = []
    for start in range(0, len(samples), step):
        chunk = samples if step >= len(samples) else samples.some(slice(start, start + step))
        parts.append(chunk.under(model, classes).probabilities)
        on_rows(len(parts[-1]))
    return samples.rows(parts[0] if len(parts) == 1 else np.concatenate(parts))


def group_of_rows(groups: Groups, columns: Columns, ids: Ids | None) -> NDArray[np.int64]:
    """Return the group within which each row was calibrated; -1 for a label or a group that was not seen."""
    if ids is None:
        known = groups.ids_of_labels(None, np.maximum(columns, 0)).astype(np.int64)
        return np.where(columns < 0, -1, known)
    if groups.by_both:
        known = groups.ids_of_labels(ids, np.maximum(columns, 0)).astype(np.int64)
        return np.where((columns < 0) | (ids < 0), -1, known)
    return np.zeros(len(columns), dtype=np.int64) if groups.is_one else np.asarray(ids, dtype=np.int64)


def _below(fold: FoldScores, rows: Any, columns: Columns, of_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many scores of its group in a fold lie below each row's own; all of them for an unknown label."""
    scores = scores_of(rows, np.maximum(columns, 0), OF_ESTIMATOR)
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
) -> Folds:
    """Return what each fold by itself says: the p-values of a calibration of one fold tell how many lie below."""
    folds = []
    for number, (fold, matrix) in enumerate(zip(calibration.held_out.folds, probabilities, strict=True)):
        alone = Measure((fold,), calibration.held_out.groups)
        fold_alone = replace(calibration, held_out=alone, folds=calibration.folds[number : number + 1])
        p_values = fold_alone.p_values([matrix], **of_rows)
        of_truth = np.take_along_axis(p_values, np.maximum(columns, 0)[:, None], axis=1)[:, 0]
        n = np.diff(fold.offsets)[np.maximum(of_row, 0)]
        below = np.where(columns < 0, n, np.rint((n + 1) * (1 - of_truth)).astype(np.int64))
        folds.append(_counts(fold, below, of_row))
    return tuple(folds)


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
    held_out.check_level_offered(level)
    if not held_out.groups.is_one:
        raise ValueError(
            "assurance must be left out of a report about groups, in each of which it runs at another level. "
            "evaluate(sets, y, groups=..., alpha=...) judges them."
        )
    n, (rank, _) = held_out.n, held_out.ranks(level)
    if rank > n:
        raise ValueError(f"{n} calibration rows are too few for {level}: every set holds every label.")
    runs_at = level_of_rank(n, rank)
    in_words = f"alpha = {float(level.alpha):g} with {level.assurance}, which runs at {runs_at:.4g}"
    return runs_at, f"{in_words}: this calibration covers {float(1 - level.alpha):g} at least"


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
    **options: Any,
) -> Evaluation:
    """Return the evaluation that a report is made from; ``options`` holds what else ``predict_set`` takes.

    ``on_rows`` is told of the rows that a model was asked about.
    """
    check_report_source(source, X, y)
    if isinstance(source, Evaluation):
        return source
    is_calibration = isinstance(source, Calibration | CrossCalibration)
    held_out = (source if is_calibration else source.calibration_).held_out
    refuse_overlapping(held_out.groups.overlaps, "p-values, which a report needs", WITHOUT_P_VALUES)
    refuse_overlapping(groups_overlap(groups), "place in a report", WITHOUT_P_VALUES)
    refuse_fresh(options.get("u"), "in a report, which asks several things about each row")
    options = _without_form(source, **options)
    with all_at_once():
        if is_calibration:
            level = check_level(0.1 if alpha is None else alpha, assurance)
            answer, seen = _of_calibration(source, X, y, groups, level, options), features
        else:
            _, level = source._level(alpha, assurance)
            answer, seen = _of_classifier(source, X, y, groups, level, on_rows, options), X
        n_rows = len(answer.sets[0])
        sliced = seen if features is None and seen is not None and can_be_sliced(seen, n_rows) else features
        return _evaluation(answer, y, groups, seen if features is None else features, sliced, random_state)


def _without_form(source: Any, normalize: bool | None = None, logits: bool = False, **options: Any) -> dict[str, Any]:
    """Return what else came with the rows, and their form where the source takes one."""
    takes = {"normalize": isinstance(source, Calibration | CrossCalibration), "logits": isinstance(source, Calibration)}
    form = {"normalize": normalize, "logits": validate.flag(logits, "logits") or None}
    for name, value in form.items():
        if value is not None and not takes[name]:
            raise ValueError(
                f"{name} must be left out for a {type(source).__name__}, which takes none in predict_set either; got "
                f"{value!r}. Only probabilities for a Calibration may come as logits or be divided."
            )
    return {**options, **{name: value for name, value in form.items() if value is not None}}


def _of_classifier(
    classifier: Any, X: Any, y: Any, groups: Any, requested: Level, on_rows: OnRows, options: dict[str, Any]
) -> Answer:
    check_new_weights(options.pop("weights", None), 0, False, "by a classifier, whose weights are a setting of its own")
    fitted = classifier._fitted()
    rule, held_out, may_be_empty = fitted.rule, fitted.held_out, classifier.allow_empty
    passed = groups if held_out.groups.by_row and rule.group_setting is None else None
    level, assured = level_of_page(held_out, requested)
    samples = fitted.placed(*rule.samples(X, passed, **options))
    columns = known_columns(as_labels(y, "y"), rule.classes, "y")
    check_length(columns, len(samples), "y")
    levels = [Fraction(str(level)), Fraction(str(_NEARLY_ONE))]
    answers = ask(fitted, samples, columns, levels, may_be_empty, on_rows)
    is_frozen = type(classifier.estimator).__name__ == "FrozenEstimator"  # by name: reports load no scikit-learn
    unseen = classifier.unseen_label_chance_
    known = f"the {len(rule.classes)} labels that are known"
    settings = {
        "Model": _short_name(classifier.estimator),
        "Levels": assured or f"{classifier.level}, alpha runs at {level:g}",
        "Training rows": _training_rows(rule.training_rows, len(fitted.models), is_frozen),
        **_settings(rule.scheme.name, held_out, str(rule.score), rule.chance, may_be_empty),
        "Promise about": known + (f"; a new row carries another one in about {unseen:.2%}" if unseen else ""),
    }
    of_row = group_of_rows(held_out.groups, columns, samples.ids)
    calibrated = (fitted.promises, held_out, rule.chance.randomized, may_be_empty)
    return Answer(*answers, of_row, level, *calibrated, settings, passed is not None)


def _of_calibration(
    calibration: Calibration | CrossCalibration,
    probabilities: Any,
    y: Any,
    groups: Any,
    requested: Level,
    options: dict[str, Any],
) -> Answer:
    held_out, may_be_empty = calibration.held_out, calibration.allow_empty
    scheme: Scheme = Split()
    if isinstance(calibration, CrossCalibration):
        scheme = calibration.scheme
        probabilities = list(folds_in_order(probabilities, calibration.folds))  # they may stream, and are needed again
    else:
        ids = options["ids"]
        options = {**options, "ids": column_or_values(ids, probabilities)}
        probabilities = without_column(probabilities, ids) if isinstance(ids, str) else probabilities
        probabilities = tensor_of(probabilities).cpu() if is_on_device(probabilities) else probabilities
    by = groups if held_out.groups.by_row else None
    level, assured = level_of_page(held_out, requested)
    sets: Any = calibration.predict_set(probabilities, [level, _NEARLY_ONE], groups=by, **options)
    p_values = np.asarray(on_host(calibration.p_values(probabilities, groups=by, **options)))
    columns = known_columns(as_labels(y, "y"), calibration.classes, "y")
    check_length(columns, len(sets[0]), "y")
    of_row = group_of_rows(held_out.groups, columns, held_out.resolve_groups(by, len(sets[0]))[0])
    folds = None
    if isinstance(calibration, CrossCalibration) and not _has_no_law(held_out):
        folds = folds_of_calibration(calibration, probabilities, {"groups": by, **options}, columns, of_row)
    settings = {"Model": "probabilities were given", **({"Levels": assured} if assured else {})}
    settings |= _settings(scheme.name, held_out, str(calibration.conformity), calibration.chance, may_be_empty)
    answers = (sets, p_values, _chances(calibration, probabilities, options), folds)
    calibrated = (Promises.of(scheme, held_out), held_out, calibration.chance.randomized, may_be_empty)
    return Answer(*answers, of_row, level, *calibrated, settings, by is not None)


def _chances(calibration: Calibration | CrossCalibration, probabilities: Any, form: dict[str, Any]) -> Any:
    """Return the probabilities in the order of the classes, of several folds their mean."""
    known = ("probabilities", calibration.classes, calibration.columns)
    divides = validate.flag(form.get("normalize"), "normalize", calibration.normalize)
    matrices = [probabilities] if isinstance(calibration, Calibration) else probabilities
    shares = [check_new_probabilities(matrix, *known) for matrix in matrices]
    shares = [softmax_of(matrix, "probabilities") for matrix in shares] if form.get("logits") else shares
    shares = [shares_of(matrix) for matrix in shares] if divides else shares
    return shares[0] if len(shares) == 1 else np.mean([matrix.astype(np.float64) for matrix in shares], axis=0)


def _evaluation(answer: Answer, y: Any, groups: Any, features: Any, sliced: Any, random_state: Any) -> Evaluation:
    """Return the evaluation with its rows, from which a page computes; bands of labels are shown like groups."""
    (sets, last), known, are_bands = answer.sets, answer.held_out.groups, False
    if known.by_label_alone and known.bands is not None and groups is None:
        names, are_bands = [*known.names, "labels that calibration did not know"], True
        groups = [names[band] for band in answer.of_row.tolist()]
    evaluation = evaluate(sets, y, sliced, groups, alpha=answer.level, random_state=random_state)
    origin = _origin(answer, are_bands or answer.by_passed_groups)
    likely = None if answer.allow_empty else last.indices[last.indptr[:-1]].astype(np.int64)
    labels, chances = as_labels(y, "y"), answer.probabilities
    rows = EvaluationRows(sets, labels, answer.p_values, chances, as_group_list(groups), features, likely, origin)
    model = words_of_model(sets, y, np.asarray(chances), evaluation.confidence)
    return replace(evaluation, evidence=rows, model=model, n_calibration=origin.n)


def _origin(answer: Answer, are_groups_shown: bool) -> Origin:
    """Return the promise as lines: the best one of each group counts, and the worst group."""
    held_out, promises, of_row = answer.held_out, answer.promises, answer.of_row
    losses = {tuple((float(line.constant), float(line.slope)) for line in lines) for lines in promises.lines}
    upper_open = not answer.randomized or not answer.allow_empty
    within = "label" if held_out.groups.kind == "label" else "group" if are_groups_shown else None
    law: dict[str, Any] = {"folds": answer.folds, "is_weighted": _has_no_law(held_out)}
    if held_out.clusters is not None:
        law["about"] = held_out.clusters.about
    if answer.folds is None and not _has_no_law(held_out):
        sizes = (*held_out.sizes.tolist(), 0)  # a group never seen comes last: its sets hold every label
        of_row = np.where(of_row < 0, len(sizes) - 1, of_row) if held_out.groups.by_row else of_row
        law |= {"group_of_row": of_row, "group_sizes": sizes}
    pairs, name = tuple(sorted(losses)), promises.scheme.name
    return Origin(name, held_out.n, pairs, not held_out.groups.is_one, upper_open, answer.settings, within, **law)


def _has_no_law(held_out: Thresholds) -> bool:
    """Tell whether rows count differently, so that coverage after one calibration has no known law."""
    is_single = held_out.clusters is None or (held_out.clusters.are_votes and not held_out.is_weighted)
    return held_out.is_weighted or not is_single


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


def _settings(
    name: str, held_out: Thresholds, score: str, randomization: Randomization, may_be_empty: bool
) -> dict[str, str]:
    within = held_out.groups.words.within.format(n=len(held_out.groups.names))
    folds = len(held_out.folds)
    return {
        "Calibration": name + (f", {folds} folds" if folds > 1 else ""),
        "Calibration rows": f"{held_out.rows:,}",
        **({"Effective size": effective_in_words(held_out)} if held_out.has_weights else {}),
        **({} if held_out.clusters is None else {"Promise for": held_out.clusters.about}),
        "Calibrated": within,
        "Score": score,
        "Randomised": f"yes, by {_SOURCES[randomization.source]}" if randomization.randomized else "no",
        "Empty sets": "allowed" if may_be_empty else "get their most likely label",
    }
