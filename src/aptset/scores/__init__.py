"""Conformity scores, one small file each. Small scores mean "conforms".

To add one, write a file with a frozen dataclass that has ``of(places)``, and put it into :data:`SCORES`; the contract
tests pick it up from there. ``weights``, the fast form that the compiled loops know, may be left out. What ``__all__``
names is public: ``aptset.Adaptive``, or ``aptset.APS`` as the field calls it.
"""

from aptset.kernels.formula import Places
from aptset.scores.adaptive import Adaptive
from aptset.scores.gridded import Gridded
from aptset.scores.homogeneous import Homogeneous
from aptset.scores.interface import Conformity as Conformity
from aptset.scores.interface import OfFunction as OfFunction
from aptset.scores.interface import Score as Score
from aptset.scores.margin import Margin
from aptset.scores.ordered import Ordered
from aptset.scores.prevalence import Prevalence
from aptset.scores.rank import Rank
from aptset.scores.regularized import Regularized
from aptset.scores.saps import SAPS
from aptset.scores.tempered import Tempered

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
