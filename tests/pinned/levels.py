"""Pinned answers of levels: assurance, one alpha for each cell, cells of group and label, confidence."""

from __future__ import annotations

from itertools import product

import aptset
from pinned.probabilities import N_NEW, N_OLD, Answers, asked, cells_of, outcome
from pinned.rows import KINDS, SEEDS, groups_of, labels_of, probabilities_of, weights_of

SURE = {"average": None, "each": 0.9, "at once": aptset.Assurance(0.9, simultaneous=True)}


def of_groups(cells: str, n: int, seed: int, width: int) -> object:
    return (groups_of(n, seed), "label") if cells == "pair" else cells_of(width, n, seed)[cells]


def answers() -> Answers:
    """Walk over cells, assurance, masses and kinds of rows."""
    of_mass = (("plain", {}), ("weights", {"weights": weights_of(N_OLD, 1)}))
    for kind, seed, cells, sure, (mass, weights) in product(
        list(KINDS)[:2], SEEDS[:1], ("none", "label", "groups", "bands", "pair"), SURE, of_mass
    ):

        def answer(kind=kind, seed=seed, cells=cells, sure=sure, weights=weights):
            old, new = probabilities_of(kind, N_OLD, seed), probabilities_of(kind, N_NEW, seed + 10)
            y, width = labels_of(old, seed), old.shape[1]
            groups = of_groups(cells, N_OLD, seed, width)
            calibration = aptset.calibrate(old, y, classes=range(width), groups=groups, random_state=seed, **weights)
            passed = {"groups": groups_of(N_NEW, seed + 50)} if cells in ("groups", "pair") else {}
            passed |= {"weights": weights_of(N_NEW, seed + 1)} if weights else {}
            names = calibration.held_out.groups.names
            alpha = {name: 0.05 * (1 + place % 7) for place, name in enumerate(names)}
            questions = [
                lambda: calibration.predict_set(new, 0.2, assurance=SURE[sure], **passed),
                lambda: calibration.predict_mask(new, alpha, assurance=SURE[sure], **passed),
                lambda: calibration.ranks(0.1, assurance=SURE[sure]),
                lambda: list(calibration.confidence(new, **passed)),
            ]
            return [*asked(calibration, new, [0.02, 0.1, 1 / 3, 0.7], **passed), *map(outcome, questions)]

        yield f"levels {kind} {seed} {cells} {sure} {mass}", lambda answer=answer: outcome(answer)
