"""What a question returns, and the intervals that go with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.stats import beta

LEVEL = 1e-6  # chance that one interval misses the truth: some hundred cells raise one false alarm in 10,000 runs
PASS, FAIL, NOT_OFFERED = "pass", "fail", "not offered"


@dataclass(frozen=True)
class Answer:
    """One cell: the verdict, and the number that it rests on in words."""

    verdict: str
    number: str

    @classmethod
    def exact(cls, wrong: int, total: int, what: str, note: str = "") -> Answer:
        """Nothing may be wrong."""
        return cls(FAIL if wrong else PASS, f"{wrong} of {total} {what}{note}")

    @classmethod
    def at_least(cls, hits: int, total: int, bound: float, at_most: float = 1.0) -> Answer:
        """The true share must be able to lie between two bounds: its exact interval meets them."""
        low, high = clopper_pearson(hits, total)
        verdict = PASS if high >= bound and low <= at_most else FAIL
        wanted = f"at least {bound:g}" if at_most == 1.0 else f"{bound:g} to {at_most:g}"
        return cls(verdict, f"{hits / total:.4f} [{low:.4f}, {high:.4f}], {total} draws; promised {wanted}")


@dataclass(frozen=True)
class Question:
    """What is asked, which members of an adapter it needs, and how much work it is: ``ask(adapter, size)``."""

    name: str
    text: str
    needs: tuple[str, ...]
    ask: Callable[[Any, float], Answer]


def clopper_pearson(hits: int, total: int) -> tuple[float, float]:
    """Return the exact interval of a share, which misses it with a chance of LEVEL at most."""
    low = 0.0 if hits == 0 else float(beta.ppf(LEVEL / 2, hits, total - hits + 1))
    high = 1.0 if hits == total else float(beta.isf(LEVEL / 2, hits + 1, total - hits))
    return low, high


def rank(n: int, alpha: Fraction) -> int:
    """Return k = ceil((1 - alpha)(n + 1)) in exact arithmetic."""
    return -int((alpha - 1) * (n + 1) // 1)
