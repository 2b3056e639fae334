"""Rows of a stream as the loops take them, and what each is known by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from aptset.data.groups.ids import Ids
from aptset.data.matrix_checks import check_new_probabilities
from aptset.data.setting_checks import check_flag, check_flag_or_none
from aptset.kernels.copies import PREDICTION
from aptset.kernels.formula import Formula
from aptset.kernels.places import Rows
from aptset.kernels.rowhash import Words
from aptset.probabilities.answers import NAME, content_seeds, make_rows
from aptset.probabilities.border import take_ids
from aptset.probabilities.calibration import Calibration
from aptset.probabilities.chance.checks import refuse_fresh
from aptset.probabilities.streams.numbering import Numbering


class Question(NamedTuple):
    """Rows with a seed each, the key by which each is found again, and the group of each (None: the label decides)."""

    rows: Rows
    keys: Words
    groups: Ids | None
    by_id: bool
    unknown: dict[Any, int]  # groups that no calibration row had

    @property
    def seeds(self) -> Words:
        """The seed of each row, as if it came now."""
        assert self.rows.seeds is not None
        return self.rows.seeds


def ask(
    calibration: Calibration,
    formula: Formula,
    numbering: Numbering,
    probabilities: Any,
    groups: Any,
    u: Any,
    ids: Any,
    settings: tuple[Any, Any],
) -> Question:
    """Check rows of a stream as the calibration checks new ones; those on a device go through the host."""
    normalize, logits = settings
    refuse_fresh(u, "in a stream, which numbers copies from call to call")
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    matrix = check_new_probabilities(probabilities, NAME, calibration.classes, calibration.columns)
    draw = calibration.chance.predicts(u, ids, len(matrix), calibration.key, is_whole=False)
    divide = check_flag_or_none(normalize, calibration.normalize, "normalize")
    of_score = (formula, calibration.key, draw, divide, PREDICTION, 0)
    rows = make_rows(matrix, probabilities, False, check_flag(logits, "logits"), *of_score)
    assert isinstance(rows, Rows)  # nothing stays on a device
    of_rows, met = calibration.held_out.meet(groups, len(rows))
    unknown = {name: n for name, n in met.items() if n == 0 and name not in calibration.held_out.size_of_group}
    if draw.seeds is not None:
        return Question(rows, draw.seeds, of_rows, True, unknown)
    keys = content_seeds(rows, matrix, logits)
    return Question(replace(rows, seeds=numbering.own_seeds(keys)), keys, of_rows, False, unknown)
