"""Join calibrations of different rows into one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aptset.probabilities.checks import check_mergeable
from aptset.validation.chance import warn_of_equal_shards

if TYPE_CHECKING:
    from aptset.probabilities.calibration import Calibration


def merged(one: Calibration, other: Calibration) -> Calibration:
    """Return both as if all rows had been calibrated at once; refuse what does not fit together."""
    same = {
        "score": one.conformity == other.conformity,
        "key (random_state)": one.key == other.key,
        "randomized": one.randomized == other.randomized,
        "where u comes from (u, ids)": one.chance.source == other.chance.source,
        "normalize": one.normalize == other.normalize,
        "allow_empty": one.allow_empty == other.allow_empty,
        "classes": np.array_equal(one.classes, other.classes),
        "kind of groups": one.held_out.groups.kind == other.held_out.groups.kind,
    }
    mine, theirs = ({*each.parts, sum(each.parts) % 2**64} if each.parts else set() for each in (one, other))
    check_mergeable([name for name, equal in same.items() if not equal], bool(mine & theirs))
    if one.chance.source == "content" and {*one.first_rows} & {*other.first_rows}:
        warn_of_equal_shards(min(one.chance.copies, other.chance.copies), stacklevel=4)
    n_copies = one.chance.copies * one.n + other.chance.copies * other.n
    return replace(
        one,
        held_out=one.held_out.merge(other.held_out),
        chance=one.chance.with_copies(n_copies, one.n + other.n),
        parts=one.parts + other.parts,
        first_rows=one.first_rows + other.first_rows,
    )
