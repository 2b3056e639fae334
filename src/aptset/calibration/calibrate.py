"""Calibrate on probabilities and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from aptset.calibration.calibration import Calibration
from aptset.calibration.cross_calibration import CrossCalibration
from aptset.calibration.labelled_rows import FLAGS, LabelledRequest, score_labels
from aptset.calibration.request import NAME, make_rows, shape_proxy, stays_on_device
from aptset.calibration.tuning import Tuning, score_chosen
from aptset.calibration.weights import EQUAL, ImportanceWeights
from aptset.conformal.aggregation import Tally
from aptset.conformal.clusters import check_one_fold_each, check_scheme_of_clusters
from aptset.conformal.importance import check_some_weight, check_weights_of_scheme
from aptset.conformal.measure import FoldScores, Measure
from aptset.conformal.scheme import Scheme
from aptset.conformal.schemes.cross import CVPlus, Minimax, check_fold_ids
from aptset.core import validate
from aptset.core.devices import is_on_device, is_tensor
from aptset.core.groupings import LabelBands, Overlapping, refuse_overlapping
from aptset.core.groups import EVERYONE
from aptset.core.matrix import check_probabilities
from aptset.core.randomization import Randomization, check_first_row, check_ids
from aptset.core.row_groups import refuse_votes_and_labels
from aptset.core.validate import answers_foreign_keywords, draw_key
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import CALIBRATION, Rows
from aptset.scores import Conformity
from aptset.scores.conformity import AUTO, check_conformity, for_classes, formula_of


@answers_foreign_keywords
def calibrate(
    probabilities: Any,
    labels: ArrayLike | None = None,
    *,
    conformity: Conformity = "adaptive",
    classes: ArrayLike | None = None,
    groups: str | LabelBands | Overlapping | ArrayLike | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
    first_row: int = 0,
    weights: ArrayLike | None = None,
    label_weights: Mapping[Any, float] | None = None,
    prior_correction: bool = False,
    clusters: Any = None,
    votes: Any = None,
) -> Calibration:
    """Calibrate prediction sets on the probabilities and true labels of samples that no model was trained on.

    Parameters
    ----------
    probabilities : array, tensor or data frame, shape (rows, classes)
        Rows must sum to 1, up to rounding. float16, bfloat16 and float32 are widened to float64 first. A tensor of
        torch is scored on its device. A data frame goes by the names of its columns, here and in ``predict_set``.
    labels : array, shape (rows,)
        The true label of each row; left out where ``votes`` are passed.
    conformity : str, score or function of :class:`Places`, default="adaptive"
        How strange a label is for a row: "adaptive" ("aps"), "homogeneous" ("lac", "thr"), "regularized" ("raps"),
        "saps", "margin", "rank" ("topk"), a score with settings of its own, or any function. "auto" chooses one as
        :func:`tune` does, on a fifth of the rows (4,000 at most, drawn by ``random_state``), which then do not
        calibrate.
    classes : array, optional
        The label of each column; by default the column names of a data frame, else the column numbers 0, 1, ...
    groups : None, "label", LabelBands, Overlapping or array, optional
        Calibrate within groups, so that the promise holds in each: "label" for every true label, :class:`LabelBands`
        for bands of labels, an array for the group of each row, :class:`Overlapping` for groups that a row may be in
        several of (``predict_set`` then needs the groups of the new rows).
    randomized : bool, default=True
        False takes u = 1 everywhere: chance only orders equal probabilities. Sets cover as promised, or far more
        where scores tie: with confident probabilities most scores are 0. With the adaptive score no set is empty.
    allow_empty : bool, default=True
        If False, an empty set gets its most likely label, which can only raise the coverage.
    normalize : bool, default=False
        Divide each row by its sum instead of refusing rows that do not sum to 1; new rows likewise.
    logits : bool, default=False
        The numbers are logits: a softmax in float64 makes them probabilities, and u comes from the logits themselves.
        Say so to ``predict_set``, too.
    u : array of float in [0, 1], optional
        The uniform of each row; by default a keyed hash of the row and of which copy it is, where equal rows come more
        than once. Whoever passes it here must pass it, or ``u="fresh"``, with the new rows as well.
    ids : array or name of a column, optional
        One id per row: u then comes from the id alone. A text names a column of the data frame of probabilities; an
        index that names the rows is passed as ``ids=frame.index`` (one that only numbers them is refused with new
        rows).
    random_state : None, int or numpy random generator, optional
        Where the key of the hash comes from; None draws a fresh one, which the calibration keeps.
    first_row : int, default=0
        The number of the first row, where a long table is calibrated in pieces: a multiple of 4096.
    weights : array of float, optional
        For new rows that come from elsewhere: how many times as likely each row is there as here, up to a constant
        (:func:`density_ratio` estimates it). Finite, at least 0, and not 0 everywhere. New rows must bring theirs, up
        to the same constant. The promise is 1 - alpha if the weights are right, and else less by at most half their
        mean error.
    label_weights : mapping from label to float, optional
        For new rows whose labels come in other proportions, while each label looks as it did: target over source, for
        every class (:func:`label_ratios` estimates it). Nothing is asked of new rows. (``groups="label"`` needs no
        ratios: it covers every label as promised, in whatever proportions they come.)
    prior_correction : bool, default=False
        With ``label_weights``: multiply each column by its ratio and divide rows by their new sums before they are
        scored, here and in new rows. Sets are smaller where the model knew the old proportions. With ratios that are
        known the promise is the same. Estimated ones cost coverage here, since every score moves with their errors: a
        warning says so where the standard errors of :func:`label_ratios` are large.
    clusters : array or name of a column, optional
        For rows that belong together, such as images of one patient: the id of each row's cluster. A text names a
        column of the data frame of probabilities. Every cluster counts once, shared out over its rows, and the promise
        is about a row of a *new* cluster; new rows are asked for nothing more. ``n`` is then the number of clusters.
        (Rows of a cluster that calibrated are covered more often, as a rule; nothing is promised of them.)
    votes : array or data frame, shape (rows, classes), optional
        For rows that several annotators answered: how many of them chose each label (or which share). Every row counts
        once, shared out over its answers, and the promise is about the answer of a random annotator about a new row.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import aptset
    >>> calibration = aptset.calibrate([[0.5, 0.375, 0.125]] * 3, [0, 0, 1], u=[0.5, 1.0, 0.0])
    >>> calibration.scores
    array([0.   , 0.25 , 0.875])
    """
    if labels is None or votes is not None:
        refuse_votes_and_labels(labels, votes)
    equal = weights is None and label_weights is None and prior_correction is False
    request = LabelledRequest(
        conformity,
        classes,
        groups,
        randomized,
        normalize,
        u,
        ids,
        random_state,
        first_row,
        logits,
        allow_empty,
        importance=EQUAL if equal else ImportanceWeights(weights, label_weights, prior_correction),
        clusters=clusters,
        votes=votes,
    )
    if isinstance(conformity, str) and conformity == AUTO:
        return score_chosen(probabilities, labels, request, Tuning())[0].calibration()
    if type(labels) is not np.ndarray and is_tensor(labels) and is_on_device(labels):
        there = _calibrated_there(probabilities, labels, request)
        if there is not None:
            return there
    return score_labels(probabilities, labels, request).calibration()


_OF_HOST = ("classes", "groups", "u", "ids", "clusters", "votes")  # what goes with rows and is looked at on the host


def _calibrated_there(probabilities: Any, labels: Any, request: LabelledRequest) -> Calibration | None:
    """Calibrate on rows and column numbers that lie on one device, and leave the scores there; None where they do not.

    What is wrong with labels is for the host to say.
    """
    if request.importance is not EQUAL or any(getattr(request, name) is not None for name in _OF_HOST):
        return None
    score, whole = check_conformity(request.conformity), not labels.is_floating_point() and "int" in str(labels.dtype)
    if not whole or labels.ndim != 1 or not stays_on_device(probabilities, formula_of(score)):
        return None
    validate.flags(request, FLAGS)
    matrix, names = check_probabilities(shape_proxy(probabilities, True), NAME)
    known = np.arange(matrix.shape[1])
    score = for_classes(score, known)
    formula, n_rows = formula_of(score), len(matrix)
    if names is not None or len(labels) != n_rows or formula.linear is None or formula.grid is not None:
        return None
    key = draw_key(validate.generator(request.random_state))
    chance, start = Randomization.of(None, None, request.randomized), check_first_row(request.first_row)
    of_rows = (formula, key, chance.calibrates(None, None, n_rows, key), request.normalize, CALIBRATION, start)
    rows = make_rows(matrix, probabilities, True, request.logits, *of_rows)
    if isinstance(rows, Rows) or labels.device != rows.rows.device:
        return None
    scored = rows.label_scores_there(labels)
    if scored is None:
        return None
    scores, n_copies, fingerprint = scored
    held_out = Measure((FoldScores.of_device(scores, EVERYONE),), EVERYONE)
    of_score = (known, score, key, chance.with_copies(n_copies, n_rows), request.allow_empty, None)
    return Calibration(held_out, *of_score, request.normalize, (fingerprint,), (start,))


class CalibrationPieces:
    """Calibrates on consecutive pieces of rows as if they stood in one table, of which only the scores are kept.

    ``settings`` are those of :func:`calibrate` that all pieces have in common. Copies of a row are numbered through all
    pieces, and whether ids tell rows apart, or any row has weight, is asked of all rows.
    """

    def __init__(self, **settings: Any) -> None:
        from aptset.calibration.online_state import Numbering  # streams are loaded by those who need them

        check_conformity(settings["conformity"])
        number_copies = Numbering(side=CALIBRATION).next_seeds
        self._settings = {**settings, "number_copies": number_copies, "least_distinct": 0.0}
        self._parts: list[Calibration] = []
        self._seeds: list[Words] = []

    def add(self, probabilities: Any, labels: Any, ids: Any = None, weights: Any = None, **of_rows: Any) -> None:
        """Score the labels of the next rows."""
        importance = EQUAL if weights is None else ImportanceWeights(weights, is_part=True)
        request = LabelledRequest(**self._settings, ids=ids, importance=importance, **of_rows)
        scored = score_labels(probabilities, labels, request)
        self._parts.append(scored.calibration())
        self._seeds += [] if ids is None else [scored.seeds]

    def calibration(self) -> Calibration:
        """Return the calibration on all rows."""
        if self._seeds:
            seeds = np.concatenate(self._seeds)
            check_ids(seeds, len(seeds), least_distinct=0.5)
        first, *others = self._parts
        held_out = first.held_out.merge(*(part.held_out for part in others))
        if held_out.has_weights:
            check_some_weight(held_out.weights)
        n_copies = sum(part.chance.copies * part.rows for part in self._parts)
        fingerprint = sum(part.parts[0] for part in self._parts) % 2**64
        chance = first.chance.with_copies(n_copies, held_out.rows)
        return replace(first, held_out=held_out, chance=chance, parts=(fingerprint,))


_COMBINE: dict[str, Scheme] = {"plus": CVPlus(), "minimax": Minimax()}


def calibrate_cv(
    probabilities: Any,
    labels: ArrayLike,
    folds: ArrayLike,
    *,
    combine: Literal["plus", "minimax"] = "plus",
    conformity: Conformity = "adaptive",
    classes: ArrayLike | None = None,
    groups: str | LabelBands | ArrayLike | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
    weights: ArrayLike | None = None,
    clusters: Any = None,
) -> CrossCalibration:
    """Calibrate CV+ (or the jackknife+, or minimax) on out-of-fold probabilities of models trained elsewhere.

    Parameters
    ----------
    probabilities : array or data frame, shape (rows, classes)
        Row i holds what the model that was trained *without* the fold of row i says about it.
    labels : array, shape (rows,)
        The true label of each row.
    folds : array, shape (rows,)
        The fold of each row: any labels. As many folds as rows is the jackknife+.
    combine : {"plus", "minimax"}, default="plus"
        Compare each fold's scores under its own model (CV+), or with the lowest score that any model gives (minimax).
    conformity, classes, groups, randomized, allow_empty, normalize, logits, u, ids, random_state
        As in :func:`calibrate`.
    weights : array of float, optional
        As in :func:`calibrate`; for ``combine="plus"`` only. With one row per fold the promise is 1 - 2 alpha if the
        weights are right; for larger folds none is known.
    clusters : array or name of a column, optional
        As in :func:`calibrate`; for ``combine="plus"`` only. All rows of a cluster must be in one fold. The promise is
        that of CV+ with clusters in the place of rows: 1 - 2 alpha, less a little for folds of several clusters.

    Returns
    -------
    CrossCalibration

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> out_of_fold = generator.dirichlet([1, 1, 1], size=90)
    >>> calibration = aptset.calibrate_cv(out_of_fold, out_of_fold.argmax(axis=1), np.arange(90) % 3, random_state=0)
    >>> calibration
    CrossCalibration(CV+, n=90 in 3 folds, 3 classes, Adaptive())
    >>> of_three_models = [[[0.7, 0.2, 0.1]], [[0.6, 0.3, 0.1]], [[0.8, 0.1, 0.1]]]
    >>> calibration.predict_set(of_three_models, alpha=0.1, ids=["row 1"])[0]
    array([0])
    """
    scheme = _COMBINE[validate.one_of(combine, tuple(_COMBINE), "combine")]
    check_weights_of_scheme(weights is not None, scheme.combine is Tally, f"combine={combine!r}")
    if clusters is not None:
        check_scheme_of_clusters(scheme.combine is Tally, f"combine={combine!r}")
    settings = (conformity, classes, groups, randomized, normalize, u, ids, random_state)
    importance = EQUAL if weights is None else ImportanceWeights(weights)
    request = LabelledRequest(*settings, 0, logits, allow_empty, importance=importance, clusters=clusters)
    scored = score_labels(probabilities, labels, request)
    refuse_overlapping(scored.groups.overlaps, "cross calibration", "Use aptset.calibrate, or give each row one group.")
    names, fold_of_row = check_fold_ids(folds, len(scored.scores))
    if scored.clusters is not None:
        check_one_fold_each(scored.clusters.words, fold_of_row, scored.clusters.noun)
    members = np.split(np.argsort(fold_of_row, kind="stable"), np.cumsum(np.bincount(fold_of_row))[:-1])
    of, flags = scored.of, (bool(allow_empty), scored.of.names, bool(normalize))
    of_score = (of.classes, of.score, of.key, scored.chance)
    return CrossCalibration(scored.measure(members), names, *of_score, *flags, scheme, (scored.fingerprint,))
