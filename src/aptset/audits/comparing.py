"""``aptset.compare``: which model has the better sets, on the same splits?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from aptset.audits.checks import (
    check_candidates,
    check_repetitions,
    check_same_level,
)
from aptset.audits.comparison import Comparison
from aptset.audits.pool import groups_shown, prepare
from aptset.audits.results import Splits
from aptset.audits.splits import as_conformal, split_and_measure
from aptset.audits.verdicts import FALSE_ALARMS, Verdict, judge
from aptset.data.setting_checks import (
    check_alpha,
)
from aptset.estimator.checks import check_estimator_can


def rank(splits: Splits, verdicts: dict[str, Verdict]) -> list[str]:
    """Return the names, best first: whoever breaks the promise comes last, however small the sets."""
    return sorted(verdicts, key=lambda name: (not verdicts[name].kept, float(splits.values(name, "size").mean())))


def compare(
    candidates: dict[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    calibration: Any = "split",
    alpha: float | None = None,
    conformity: Any = "adaptive",
    level: Literal["nominal", "guaranteed"] = "nominal",
    randomized: bool = True,
    repetitions: int = 100,
    test_share: float = 0.3,
    groups: ArrayLike | None = None,
    features: Any = None,
    folder: str | Path | None = None,
    n_jobs: int | None = 1,
    progress: bool = False,
    random_state: int = 0,
) -> Comparison:
    """Compare models by the size and the coverage of their sets, on the same random splits.

    Splits of the same rows are dependent, so a difference has two intervals: what the models of these splits do on new
    rows, row by row, each counting once; and what models from other data of this kind would do, with the corrected
    variance of Nadeau and Bengio (2003), which is wider. What is said about all pairs holds at once with 95 %.

    Parameters
    ----------
    candidates : dict
        Models by name; a ConformalClassifier is taken as it is, so calibrations and scores can be compared too.
    X, y
        All rows and their labels.
    calibration : str or object, default="split"
        How models that are no ConformalClassifier are calibrated.
    alpha, conformity, level, randomized, repetitions, test_share, groups, features, folder, n_jobs, progress
        As in :func:`audit`.
    random_state : int, default=0
        Seed of splits, models and uniforms.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.dummy import DummyClassifier
    >>> import aptset
    >>> X, y = load_iris(return_X_y=True)
    >>> models = {"guess": DummyClassifier(strategy="prior"), "bayes": GaussianNB()}
    >>> found = aptset.compare(models, X, y, repetitions=10)
    >>> found.ranking
    ['bayes', 'guess']
    >>> bool(found.difference("guess", "bayes", "size").low > 1)
    True
    """
    named = check_candidates(candidates)
    for model in named.values():
        check_estimator_can(model)
    settings: dict[str, Any] = {"conformity": conformity, "level": level, "randomized": randomized}
    models = {name: as_conformal(model, calibration, alpha, **settings) for name, model in named.items()}
    check_same_level({name: check_alpha(model.alpha) for name, model in models.items()})
    pool, share = prepare(X, y, groups_shown(groups, models.values(), y), None, test_share, features)
    splits = split_and_measure(models, pool, check_repetitions(repetitions), random_state, folder, n_jobs, progress)
    each = FALSE_ALARMS / len(models)
    verdicts = {name: judge(splits.of(name), check_alpha(m.alpha), share, each) for name, m in models.items()}
    shared = float(check_alpha(next(iter(models.values())).alpha))
    return Comparison(splits, verdicts, rank(splits, verdicts), shared, len(pool.y), pool.n_test)
