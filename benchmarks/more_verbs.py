"""W7: verbs and options that fewer people use: other scores, bands, weights, groups that overlap, logits, streams."""

from __future__ import annotations

import numpy as np

import aptset
from benchmarks.timing import Work
from benchmarks.yardsticks import ALPHA

_WIDE = 100  # classes from which on only some of them run: their matrices are large


def other_scores(p: np.ndarray, labels: np.ndarray) -> dict[str, Work]:
    """Return verbs under scores that have no order along a row, and with labels that share a threshold."""
    counts = np.bincount(labels, minlength=p.shape[1]).tolist()
    score, bands = aptset.Prevalence(dict(enumerate(counts))), aptset.LabelBands({k: k % 4 for k in range(p.shape[1])})
    rare = aptset.calibrate(p, labels, conformity=score, random_state=0)
    free = aptset.calibrate(p, labels, conformity=_own, random_state=0)
    by_band = aptset.calibrate(p, labels, groups=bands, random_state=0)
    logits = np.log(np.maximum(p, np.float32(1e-30)))
    soft = aptset.calibrate(logits, labels, logits=True, random_state=0)
    return {
        "calibrate, Prevalence": lambda: aptset.calibrate(p, labels, conformity=score, random_state=0),
        "predict_set, Prevalence": lambda: rare.predict_set(p, ALPHA),
        "p_values, Prevalence": lambda: rare.p_values(p),
        "predict_set, a function": lambda: free.predict_set(p, ALPHA),
        "p_values, a function": lambda: free.p_values(p),
        "p_values by band": lambda: by_band.p_values(p),
        "predict_set, logits": lambda: soft.predict_set(logits, ALPHA, logits=True),
    }


def _own(places: aptset.Places) -> np.ndarray:
    return 1 - places.own / places.total


def elsewhere(p: np.ndarray, labels: np.ndarray) -> dict[str, Work]:
    """Return verbs for new rows that come from elsewhere."""
    weights = np.random.default_rng(2).gamma(2.0, size=len(p))
    ratios = {k: 1 + k % 3 / 4 for k in range(p.shape[1])}
    weighted = aptset.calibrate(p, labels, weights=weights, random_state=0)
    by_label = aptset.calibrate(p, labels, weights=weights, groups="label", random_state=0)
    patients = np.random.default_rng(4).integers(0, max(1, len(p) // 10), len(p))
    clustered = aptset.calibrate(p, labels, clusters=patients, random_state=0)
    corrected = aptset.calibrate(p, labels, label_weights=ratios, prior_correction=True, random_state=0)
    return {
        "calibrate, weights": lambda: aptset.calibrate(p, labels, weights=weights, random_state=0),
        "predict_set, weights": lambda: weighted.predict_set(p, ALPHA, weights=weights),
        "p_values, weights": lambda: weighted.p_values(p, weights=weights),
        "predict_set by label, weights": lambda: by_label.predict_set(p, ALPHA, weights=weights),
        "calibrate, clusters": lambda: aptset.calibrate(p, labels, clusters=patients, random_state=0),
        "predict_set, clusters": lambda: clustered.predict_set(p, ALPHA),
        "p_values, clusters": lambda: clustered.p_values(p),
        "predict_set, prior correction": lambda: corrected.predict_set(p, ALPHA),
        "label_ratios": lambda: aptset.label_ratios(p, labels, p),
    }


def several_groups(p: np.ndarray, labels: np.ndarray, sets: aptset.PredictionSets) -> dict[str, Work]:
    """Return verbs on groups that overlap, and on sets that come back or go by."""
    flags = np.random.default_rng(3).random((len(p), 4)) < 0.4
    overlapping = aptset.calibrate(p, labels, groups=aptset.Overlapping(flags), random_state=0)
    overlapping.predict_set(p[:1], ALPHA, groups=flags[:1])  # the solver is loaded once
    plain = aptset.calibrate(p, labels, random_state=0)
    covered, frame = sets.covers(labels), sets.to_frame("polars")
    return {
        "calibrate, overlapping groups": lambda: aptset.calibrate(
            p, labels, groups=aptset.Overlapping(flags), random_state=0
        ),
        "predict_set, overlapping groups": lambda: overlapping.predict_set(p, ALPHA, groups=flags),
        "evaluate, overlapping groups": lambda: aptset.evaluate(sets, labels, groups=aptset.Overlapping(flags)),
        "monitor": lambda: plain.monitor(ALPHA).update(covered),
        "labels()": sets.labels,
        "from_frame polars": lambda: aptset.PredictionSets.from_frame(frame, np.arange(p.shape[1])),
        "macro_coverage": lambda: aptset.macro_coverage(sets, labels),
    }


def acting(p: np.ndarray, labels: np.ndarray) -> dict[str, Work]:
    """Return verbs that say which rows to act on; of confidences alone, sorting them is the yardstick."""
    confidence = p.max(axis=1).astype(np.float64)
    rule = aptset.learn_acceptance(p, labels, random_state=0)
    alone = aptset.learn_acceptance(confidence=confidence, wrong=p.argmax(axis=1) != labels, random_state=0)
    threshold = rule.threshold(0.3)
    return {
        "learn_acceptance": lambda: aptset.learn_acceptance(p, labels, random_state=0),
        "accept, a batch": lambda: rule.accept(p, 0.3),
        "accept, above a threshold": lambda: threshold.accept(p),
        "accept, confidences": lambda: alone.accept(confidence=confidence, error=0.3),
        "numpy sorts as many confidences": lambda: np.sort(confidence),
    }


def less_usual(p: np.ndarray, labels: np.ndarray, sets: aptset.PredictionSets) -> dict[str, Work]:
    """Return all of them; of wide rows those whose matrices differ in kind."""
    found = other_scores(p, labels)
    if p.shape[1] >= _WIDE:
        return {verb: work for verb, work in found.items() if "function" not in verb}
    return found | elsewhere(p, labels) | several_groups(p, labels, sets) | acting(p, labels)
