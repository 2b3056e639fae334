"""W7: every verb at a million rows, against the peers that have it; one row at a time; the verbs of the classifier."""

from __future__ import annotations

import time
import timeit
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import aptset
from benchmarks.data import of_kind
from benchmarks.more_verbs import less_usual
from benchmarks.timing import Line, Work, race, race_in_pairs, stream
from benchmarks.yardsticks import ALPHA

Prepared = tuple[dict[str, Work], dict[str, str]]


def ours(p: np.ndarray, labels: np.ndarray) -> dict[str, Work]:
    """Return our verbs on these rows, calibrated and asked once."""
    groups = np.random.default_rng(1).integers(4, size=len(p))
    plain = aptset.calibrate(p, labels, random_state=0)
    by_label = aptset.calibrate(p, labels, groups="label", random_state=0)
    by_row = aptset.calibrate(p, labels, groups=groups, random_state=0)
    sets = plain.predict_set(p, ALPHA)
    works: dict[str, Work] = {
        "calibrate": lambda: aptset.calibrate(p, labels, random_state=0),
        "calibrate by label": lambda: aptset.calibrate(p, labels, groups="label", random_state=0),
        "calibrate by group": lambda: aptset.calibrate(p, labels, groups=groups, random_state=0),
        "predict_set": lambda: plain.predict_set(p, ALPHA),
        "predict_mask": lambda: plain.predict_mask(p, ALPHA),
        "p_values": lambda: plain.p_values(p),
        "sets_and_p_values": lambda: plain.sets_and_p_values(p, ALPHA),
        "predict_set by label": lambda: by_label.predict_set(p, ALPHA),
        "predict_mask by label": lambda: by_label.predict_mask(p, ALPHA),
        "p_values by label": lambda: by_label.p_values(p),
        "predict_set by group": lambda: by_row.predict_set(p, ALPHA, groups=groups),
        "evaluate": lambda: aptset.evaluate(sets, labels),
        "coverage and mean size": lambda: (aptset.coverage(sets, labels), aptset.mean_size(sets)),
        "covers": lambda: sets.covers(labels),
        "mask of sets": lambda: sets.mask,
        "to_frame pyarrow": lambda: sets.to_frame("pyarrow"),
        "to_frame polars": lambda: sets.to_frame("polars"),
        "to_frame pandas": lambda: sets.to_frame("pandas"),
    }
    return works | in_words(p, labels, groups, sets) | less_usual(p, labels, sets)


def in_words(p: np.ndarray, labels: np.ndarray, groups: np.ndarray, sets: aptset.PredictionSets) -> dict[str, Work]:
    """Return verbs on ids, labels and groups that are texts or lists: a Python object per row is hard to avoid."""
    names = np.array([f"class {k}" for k in range(p.shape[1])])
    texts, places = names[labels], np.array(["north", "east", "south", "west"])[groups]
    ids, text_ids = np.arange(len(p)), np.array([f"row {k}" for k in range(len(p))])
    by_text = aptset.calibrate(p, labels, groups=places, random_state=0)
    with_texts = aptset.calibrate(p, texts, classes=names, random_state=0)
    text_sets, lists = with_texts.predict_set(p, ALPHA), sets.labels()
    return {
        "calibrate, ids": lambda: aptset.calibrate(p, labels, ids=ids, random_state=0),
        "calibrate, ids as texts": lambda: aptset.calibrate(p, labels, ids=text_ids, random_state=0),
        "calibrate, labels as texts": lambda: aptset.calibrate(p, texts, classes=names, random_state=0),
        "predict_set by group as text": lambda: by_text.predict_set(p, ALPHA, groups=places),
        "evaluate, labels as texts": lambda: aptset.evaluate(text_sets, texts),
        "evaluate by group as text": lambda: aptset.evaluate(sets, labels, groups=places),
        "evaluate lists": lambda: aptset.evaluate(lists, labels),
        "from_labels": lambda: aptset.PredictionSets.from_labels(lists, np.arange(p.shape[1])),
        "count": lambda: sets.count([0]),
    }


def crepes_verbs(p: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[np.ndarray, np.ndarray], Any]]:
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    model = ConformalClassifier().fit(hinge(p, np.arange(p.shape[1]), labels))
    columns = np.arange(p.shape[1])
    return {
        "p_values": lambda some, _: model.predict_p(hinge(some), smoothing=False),
        "calibrate by label": lambda some, of: ConformalClassifier().fit(hinge(some, columns, of), bins=of),
        "evaluate": lambda some, of: model.evaluate(hinge(some), columns, of, confidence=1 - ALPHA, smoothing=False),
    }


def torchcp_verbs(p: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[np.ndarray, np.ndarray], Any]]:
    import torch
    from torchcp.classification.predictor import ClassConditionalPredictor, SplitPredictor
    from torchcp.classification.score import APS
    from torchcp.classification.utils.metrics import Metrics

    score = APS(score_type="identity", randomized=False)
    plain, by_label = SplitPredictor(score, alpha=ALPHA), ClassConditionalPredictor(score, alpha=ALPHA)
    tensors = torch.from_numpy(p), torch.from_numpy(labels)
    plain.calculate_threshold(*tensors, ALPHA)
    by_label.calculate_threshold(*tensors, ALPHA)
    sets, metrics = plain.predict_with_logits(tensors[0]), Metrics()

    def calibrate_by_label(some: np.ndarray, of: np.ndarray) -> None:
        model = ClassConditionalPredictor(score, alpha=ALPHA)
        model.calculate_threshold(torch.from_numpy(some), torch.from_numpy(of), ALPHA)

    def evaluate(some: np.ndarray, of: np.ndarray) -> list[Any]:
        pair = sets[: len(some)], torch.from_numpy(of)
        return [metrics(name)(*pair) for name in ("coverage_rate", "average_size")]

    return {
        "calibrate by label": calibrate_by_label,
        "predict_mask by label": lambda some, _: by_label.predict_with_logits(torch.from_numpy(some)),
        "coverage and mean size": evaluate,
    }


def puncc_verbs(p: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[np.ndarray, np.ndarray], Any]]:
    from deel.puncc.metrics import classification_mean_coverage, classification_mean_size

    lists = aptset.calibrate(p, labels, random_state=0).predict_set(p, ALPHA).to_frame("pyarrow")["labels"].to_pylist()
    return {
        "coverage and mean size": lambda some, of: (
            classification_mean_coverage(of, lists[: len(some)]),
            classification_mean_size(lists[: len(some)]),
        )
    }


PEERS = {"crepes": crepes_verbs, "TorchCP": torchcp_verbs, "puncc": puncc_verbs}
_NOTES = {
    ("crepes", "p_values"): "another score, one minus the probability",
    ("crepes", "calibrate by label"): "another score, one minus the probability",
    ("crepes", "evaluate"): "predicts again; five metrics",
}


def with_peers(
    p: np.ndarray, labels: np.ndarray, budget: float
) -> tuple[dict[str, list[tuple[str, float, str]]], dict[str, str]]:
    """Return what each peer takes for the verbs that it has: on as many rows as fit some seconds, scaled up."""
    found: dict[str, list[tuple[str, float, str]]] = {}
    failed: dict[str, str] = {}
    for who, make in PEERS.items():
        try:
            verbs = make(p, labels)
        except Exception as error:
            failed[f"{who}, verbs"] = f"{type(error).__name__}: {str(error)[:120]}"
            continue
        for verb, work in verbs.items():
            try:
                seconds, n_some = _affordable(work, p, labels, budget)
            except Exception as error:
                failed[f"{who}, {verb}"] = f"{type(error).__name__}: {str(error)[:120]}"
                continue
            note = _NOTES.get((who, verb), "")
            note += f"{'; ' if note else ''}{n_some:,} of {len(p):,} rows, scaled up" if n_some < len(p) else ""
            found.setdefault(verb, []).append((who, seconds * len(p) / n_some, note))
    return found, failed


def _affordable(work: Callable[..., Any], p: np.ndarray, labels: np.ndarray, budget: float) -> tuple[float, int]:
    """Return the seconds of one run, and on how many rows: ten times more as long as time is left."""
    n_some = min(len(p), 2000)
    while True:
        start = time.perf_counter()
        work(p[:n_some], labels[:n_some])
        seconds = time.perf_counter() - start
        if n_some == len(p) or 10 * seconds > budget:
            return seconds, n_some
        n_some = min(len(p), 10 * n_some)


def at_once(
    name: str, p: np.ndarray, labels: np.ndarray, rounds: int, budget: float
) -> tuple[list[Line], dict[str, str]]:
    """Measure every verb on one matrix, and the peers' right after."""
    best = race_in_pairs({"stream": stream(p), **ours(p, labels)}, rounds)
    one, _ = best.pop("stream")
    others, failed = with_peers(p, labels, budget)
    lines = []
    for verb, (seconds, after_others) in best.items():
        note = f"{1e3 * after_others:,.0f} ms after other verbs, in new memory" if after_others > 1.5 * seconds else ""
        lines.append(Line(f"{verb}, {name}", "aptset", seconds, seconds / one, 1.0, rounds=rounds, note=note))
        for who, of_peer, note in others.get(verb, []):
            lines.append(Line(f"{verb}, {name}", who, of_peer, of_peer / one, of_peer / seconds, rounds=1, note=note))
    return lines, failed


def one_row(peers: list[Any]) -> list[Line]:
    """Measure calls with a single row: what a service pays."""
    lines = []
    for n_classes in (10, 1000):
        p, labels = of_kind("peaked", 5000, n_classes)
        row, calibration = p[:1].copy(), aptset.calibrate(p, labels, random_state=0)
        verbs: dict[str, Work] = {
            "predict_set": lambda c=calibration, row=row: c.predict_set(row, ALPHA),
            "predict_mask": lambda c=calibration, row=row: c.predict_mask(row, ALPHA),
            "p_values": lambda c=calibration, row=row: c.p_values(row),
        }
        for verb, work in verbs.items():
            ours_alone = _each(work, 500)
            name = f"{verb}, one row of {n_classes:,}"
            lines.append(Line(name, "aptset", ours_alone, None, 1.0, rounds=7))
            for peer in peers if verb == "predict_mask" else []:
                state = peer.calibrate(p, labels)
                seconds = _each(lambda peer=peer, state=state, row=row: peer.predict(state, row), 3)
                lines.append(Line(name, peer.name, seconds, None, seconds / ours_alone, rounds=7))
    return lines


def _each(work: Work, times: int) -> float:
    work()
    return min(timeit.repeat(work, number=times, repeat=7)) / times


def classifier(n: int, rounds: int) -> list[Line]:
    """Measure the verbs of a fitted classifier beside the probabilities of its model alone."""
    from sklearn.naive_bayes import GaussianNB

    generator = np.random.default_rng(0)
    X, weights = generator.normal(size=(n, 20)), generator.normal(size=(20, 10))
    y = (X @ weights + generator.gumbel(size=(n, 10))).argmax(axis=1)
    model = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
    sets = model.predict_set(X)
    works: dict[str, Work] = {
        "the model's predict_proba": lambda: model.predict_proba(X),
        "fit": lambda: aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y),
        "predict_set": lambda: model.predict_set(X),
        "p_values": lambda: model.p_values(X),
        "evaluate": lambda: aptset.evaluate(sets, y),
    }
    name = f"ConformalClassifier(GaussianNB), {n:,} x 20"
    return [Line(f"{verb}, {name}", "aptset", s, rounds=rounds) for verb, s in race(works, rounds).items()]


def run(quick: bool, peers: list[Any]) -> tuple[list[Line], dict[str, str]]:
    """Measure W7."""
    shapes = [(10_000, 1000), (200_000, 10)] if quick else [(50_000, 1000), (1_000_000, 10)]
    lines, failed = [], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, n_classes in shapes:
            p, labels = of_kind("peaked", n, n_classes)
            some, more = at_once(f"{n:,} x {n_classes:,}", p, labels, 3 if quick else 5, 1.0 if quick else 4.0)
            lines, failed = lines + some, failed | more
        lines += one_row(peers) + classifier(20_000 if quick else 100_000, 3)
    return lines, failed
