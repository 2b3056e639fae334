"""Conformity scores, by what they look at. Small scores mean "conforms".

To add one, write a file with a frozen dataclass that has ``of(places)``, and put it into :data:`SCORES`; the contract
tests pick it up from there. ``weights``, the fast form that the compiled loops know, may be left out. What ``__all__``
names is public: ``aptset.Adaptive``, or ``aptset.APS`` as the field calls it.
"""

from aptset.kernels.formula import Places
from aptset.scores.adaptive import SAPS, Adaptive, Rank, Regularized
from aptset.scores.homogeneous import Homogeneous, Margin, Prevalence
from aptset.scores.interface import Conformity as Conformity
from aptset.scores.interface import Gridded, Tempered
from aptset.scores.interface import OfFunction as OfFunction
from aptset.scores.interface import Score as Score
from aptset.scores.ordered import Ordered

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "SAPS",
    "THR",
    "Adaptive",
    "Gridded",
    "Homogeneous",
    "Margin",
    "Ordered",
    "Places",
    "Prevalence",
    "Rank",
    "Regularized",
    "Tempered",
    "TopK",
]

# The field's names of the same classes.
APS = Adaptive
LAC = THR = Homogeneous
RAPS = Regularized
TopK = Rank

SCORES: dict[str, type[Score]] = {
    "adaptive": Adaptive,
    "homogeneous": Homogeneous,
    "margin": Margin,
    "rank": Rank,
    "regularized": Regularized,
    "saps": SAPS,
}

# What people call them in ``conformity=``.
ALIASES = {
    "aps": "adaptive",
    "hcc": "homogeneous",
    "hinge": "homogeneous",
    "lac": "homogeneous",
    "raps": "regularized",
    "thr": "homogeneous",
    "top_k": "rank",
    "topk": "rank",
}
