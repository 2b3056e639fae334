"""Pinned answers of the verbs that take probabilities: scores x cells x masses x rows, one level and several."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np

import aptset
from aptset import (
    SAPS,
    Adaptive,
    Gridded,
    Homogeneous,
    LabelBands,
    Margin,
    Overlapping,
    Prevalence,
    Rank,
    Regularized,
    Tempered,
)
from pinned.rows import KINDS, SEEDS, groups_of, labels_of, logits_of, memberships_of, probabilities_of, weights_of

Answers = Iterator[tuple[str, Callable[[], object]]]
LEVELS = [0.02, 0.1, 1 / 3, 0.7]
N_OLD, N_NEW = 160, 90


def own_score(places):
    """A score that is a plain function of places."""
    return places.above + np.sqrt(places.own) * places.u + (places.rank > 2) / 64


def scores_of(width: int) -> dict[str, object]:
    counts = {label: 3 + 7 * label % 41 for label in range(width)}
    return {
        "adaptive": Adaptive(),
        "homogeneous": Homogeneous(),
        "regularized": Regularized(0.02, 2),
        "saps": SAPS(0.15),
        "rank": Rank(),
        "margin": Margin(),
        "tempered": Tempered(Adaptive(), 0.5),
        "gridded": Gridded(Adaptive(), 2**-10),
        "prevalence": Prevalence(counts),
        "function": own_score,
    }


def cells_of(width: int, n: int, seed: int) -> dict[str, object]:
    bands = LabelBands({label: "abc"[label % 3] for label in range(width)})
    members = memberships_of(n, seed)
    return {
        "none": None,
        "label": "label",
        "groups": groups_of(n, seed),
        "bands": bands,
        "overlapping": Overlapping(np.column_stack(list(members.values()))),
    }


def new_groups(cells: str, n: int, seed: int) -> dict[str, object]:
    if cells == "groups":
        return {"groups": groups_of(n, seed + 50)}
    if cells == "overlapping":
        return {"groups": np.column_stack(list(memberships_of(n, seed + 50).values()))}
    return {}


def refusal(error: Exception) -> str:
    return f"refused: {type(error).__name__}"


def asked(calibration, p, levels, **options) -> list[object]:
    """Ask a calibration everything: sets at one level and several, masks, p-values, and both at once."""
    questions = [
        lambda: calibration.predict_set(p, levels[1], **options),
        lambda: calibration.predict_set(p, levels, **options),
        lambda: calibration.predict_mask(p, levels[2], **options),
        lambda: calibration.predict_mask(p, levels[3], allow_empty=False, **options),
        lambda: calibration.p_values(p, **options),
        lambda: calibration.sets_and_p_values(p, levels[1], **options),
        lambda: [calibration.threshold(level) for level in levels],
    ]
    return [outcome(question) for question in questions]


def outcome(question: Callable[[], object]) -> object:
    try:
        return question()
    except ValueError as error:  # a refusal is an answer, too
        return refusal(error)


def walk() -> Answers:
    """Walk over scores, cells, masses and kinds of rows."""
    for kind, seed in product(KINDS, SEEDS):
        old, new = probabilities_of(kind, N_OLD, seed), probabilities_of(kind, N_NEW, seed + 10)
        y, width = labels_of(old, seed), old.shape[1]
        for score, cells, mass in product(scores_of(width), cells_of(width, N_OLD, seed), ("plain", "weights")):
            if kind not in ("smooth", "ties") and mass == "weights" and score not in ("adaptive", "function"):
                continue

            def answer(old=old, new=new, y=y, width=width, score=score, cells=cells, mass=mass, seed=seed):
                weights = {"weights": weights_of(N_OLD, seed)} if mass == "weights" else {}
                calibration = aptset.calibrate(
                    old,
                    y,
                    conformity=scores_of(width)[score],
                    classes=range(width),
                    groups=cells_of(width, N_OLD, seed)[cells],
                    random_state=seed,
                    **weights,
                )
                new_weights = {"weights": weights_of(N_NEW, seed + 1)} if weights else {}
                return [calibration, *asked(calibration, new, LEVELS, **new_groups(cells, N_NEW, seed), **new_weights)]

            yield f"calibrate {kind} {seed} {score} {cells} {mass}", lambda answer=answer: outcome(answer)


def randomness() -> Answers:
    """Walk over where u comes from, types of numbers, logits, and rows that are divided by their sums."""
    for seed in SEEDS:
        old, new = probabilities_of("copies", N_OLD, seed), probabilities_of("copies", N_NEW, seed + 10)
        y = labels_of(old, seed)
        generator = np.random.default_rng(seed)
        u_old, u_new = generator.random(N_OLD), generator.random(N_NEW)
        texts_old, texts_new = [f"row {i}" for i in range(N_OLD)], [f"new {i % 60}" for i in range(N_NEW)]
        ways = {
            "content": ({}, {}),
            "u": ({"u": u_old}, {"u": u_new}),
            "numbers": ({"ids": np.arange(N_OLD)}, {"ids": np.arange(N_NEW) * 3}),
            "texts": ({"ids": texts_old}, {"ids": texts_new}),
            "deterministic": ({"randomized": False}, {}),
            "first row": ({"first_row": 4096}, {"first_row": 8192}),
            "no empty": ({"allow_empty": False}, {}),
        }
        for way, (at_calibration, at_prediction) in ways.items():
            yield (
                f"randomness {seed} {way}",
                lambda c=at_calibration, p=at_prediction, old=old, new=new, y=y, seed=seed: asked(
                    aptset.calibrate(old, y, random_state=seed, **c), new, LEVELS, **p
                ),
            )
        for dtype in (np.float16, np.float32, np.float64):
            logits = logits_of(N_OLD, seed, dtype=dtype), logits_of(N_NEW, seed + 10, dtype=dtype)
            labels = np.random.default_rng(seed).integers(0, 6, N_OLD)
            yield (
                f"logits {seed} {np.dtype(dtype)}",
                lambda logits=logits, labels=labels, seed=seed: asked(
                    aptset.calibrate(logits[0], labels, logits=True, random_state=seed), logits[1], LEVELS, logits=True
                ),
            )
            rows = (probabilities_of("smooth", N_OLD, seed) * 3).astype(dtype)
            yield (
                f"normalize {seed} {np.dtype(dtype)}",
                lambda rows=rows, seed=seed: asked(
                    aptset.calibrate(rows, labels_of(rows, seed), normalize=True, random_state=seed), rows[::2], LEVELS
                ),
            )


def folds() -> Answers:
    """Out-of-fold probabilities: combinations, cells, weights, uneven folds, and merging."""
    for seed, kind, combine, cells in product(
        SEEDS, ("smooth", "ties", "copies"), ("plus", "minimax"), ("none", "label", "groups", "bands")
    ):

        def answer(seed=seed, kind=kind, combine=combine, cells=cells):
            old = probabilities_of(kind, N_OLD, seed)
            y = labels_of(old, seed)
            new = [probabilities_of(kind, N_NEW, seed + 10 + fold) for fold in range(4)]
            number = np.random.default_rng(seed).integers(0, 4, N_OLD)
            groups = cells_of(5, N_OLD, seed)[cells]
            made = aptset.calibrate_cv(
                old, y, number, combine=combine, groups=groups, classes=range(5), random_state=seed
            )
            options = new_groups(cells, N_NEW, seed)
            return [
                made,
                made.predict_set(new, LEVELS, **options),
                made.p_values(new, **options),
                made.sets_and_p_values(new, 0.2, **options),
                [made.guarantee(level) for level in LEVELS],
            ]

        yield f"folds {seed} {kind} {combine} {cells}", lambda answer=answer: outcome(answer)


def weighted_folds() -> Answers:
    for seed in SEEDS:

        def answer(seed=seed):
            old = probabilities_of("ties", N_OLD, seed)
            number = np.arange(N_OLD) % 4
            made = aptset.calibrate_cv(
                old, labels_of(old, seed), number, weights=weights_of(N_OLD, seed), random_state=seed
            )
            new = [probabilities_of("ties", N_NEW, seed + 10 + fold) for fold in range(4)]
            return made.predict_set(new, LEVELS, weights=weights_of(N_NEW, seed + 1))

        yield f"folds {seed} weights", lambda answer=answer: outcome(answer)


def joined() -> Answers:
    """Merging, saving and loading: the answers of what comes back."""
    for seed, cells in product(SEEDS, ("none", "label", "groups", "bands", "overlapping")):

        def answer(seed=seed, cells=cells):
            old = probabilities_of("ties", N_OLD, seed)
            y, new = labels_of(old, seed), probabilities_of("ties", N_NEW, seed + 10)
            half = N_OLD // 2
            shards = []
            for part, first in ((slice(0, half), 0), (slice(half, None), 4096)):
                groups = cells_of(5, N_OLD, seed)[cells]
                if cells == "groups":
                    groups = groups[part]
                elif cells == "overlapping":
                    groups = Overlapping(np.column_stack(list(memberships_of(N_OLD, seed).values()))[part])
                shards.append(
                    aptset.calibrate(
                        old[part], y[part], groups=groups, classes=range(5), random_state=seed, first_row=first
                    )
                )
            merged = shards[0].merge(shards[1])
            with tempfile.TemporaryDirectory() as folder:
                merged.save(Path(folder) / "c.aptset")
                loaded = aptset.load(Path(folder) / "c.aptset")
            return asked(loaded, new, LEVELS, **new_groups(cells, N_NEW, seed))

        yield f"merged {seed} {cells}", lambda answer=answer: outcome(answer)


def formulas() -> Answers:
    for seed, kind in product(SEEDS, KINDS):
        old = probabilities_of(kind, N_OLD, seed)
        y = labels_of(old, seed)
        u = np.random.default_rng(seed).random(N_OLD)
        yield (
            f"adaptive_scores {kind} {seed}",
            lambda old=old, y=y, u=u: outcome(
                lambda: aptset.adaptive_scores(old, y, u, classes=range(old.shape[1]), random_state=3)
            ),
        )
        yield (
            f"oracle_sets {kind} {seed}",
            lambda old=old, u=u: [outcome(lambda a=a: aptset.oracle_sets(old, a, u, random_state=3)) for a in LEVELS],
        )
    yield "conformal_rank", lambda: [aptset.conformal_rank(n, a) for n in (1, 9, 10, 99, 1000) for a in LEVELS]
    for seed, method in product(SEEDS, ("em", "bbse")):
        old, new = probabilities_of("smooth", 400, seed), probabilities_of("peaked", 300, seed)
        yield (
            f"label_ratios {method} {seed}",
            lambda old=old, new=new, seed=seed, method=method: [
                round(value, 9)
                for value in aptset.label_ratios(old, labels_of(old, seed), new, method, random_state=0).values()
            ],
        )
    for seed in SEEDS:
        old = probabilities_of("peaked", 400, seed)
        yield (
            f"tune {seed}",
            lambda old=old, seed=seed: asked(
                aptset.tune(old, labels_of(old, seed), random_state=seed).calibration, old[:50], LEVELS
            ),
        )
        yield (
            f"label_weights {seed}",
            lambda old=old, seed=seed: asked(
                aptset.calibrate(
                    old, labels_of(old, seed), label_weights={k: 1 + k / 4 for k in range(5)}, random_state=seed
                ),
                old[:50],
                LEVELS,
            ),
        )


def answers() -> Answers:
    """All of them; quick, so that every engine can be asked."""
    yield from walk()
    yield from randomness()
    yield from folds()
    yield from weighted_folds()
    yield from joined()
    yield from formulas()
