"""What the report says of calibrations with several folds: each fold is a split with a law of its own."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from test_report_verdicts import ALPHA, judged, words_of

import aptset
from aptset.metrics.coverage_distribution import FoldCounts, folds_chance


def drawn(seed, n=600):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 2))
    return X, (X[:, 0] + 0.3 * generator.normal(size=n) > 0).astype(int)


SCHEMES = {
    "CV+": ("cv+", "few_folds", "low_folds"),
    "minimax": (aptset.Minimax(10), "few_folds", "low_folds"),
    "jackknife+": ("jackknife+", "few_small", "low_small"),
    "uneven folds": (aptset.CVPlus(splitter=KFold(7)), "agrees", "low_folds"),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_several_folds_are_judged(name):
    """Rows that were turned round are covered 0.3 of the time at a promise of 0.8 or so: that is red."""
    calibration, good, bad = SCHEMES[name]
    X, y = drawn(0)
    settings = {"calibration": calibration, "random_state": 0}
    classifier = aptset.ConformalClassifier(GaussianNB(), **settings).fit(X[:100], y[:100])
    found = aptset.report(classifier, X[300:], y[300:])
    assert words_of(found.evaluation).kind == good
    assert "(at the 1 % level)" in words_of(found.evaluation).verdict
    turned = aptset.report(classifier, -X[300:], y[300:])
    assert turned.evaluation.coverage < 0.5
    assert words_of(turned.evaluation).kind == bad
    assert "(judged at the 1 % level)" in words_of(turned.evaluation).verdict


def test_folds_of_given_probabilities_are_judged_too():
    generator = np.random.default_rng(0)
    chances = generator.dirichlet([0.5, 0.5, 0.5], size=900)
    y = (generator.random((900, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
    for combine in ("plus", "minimax"):
        calibration = aptset.calibrate_cv(chances[:300], y[:300], np.arange(300) % 5, combine=combine, random_state=0)
        new = [chances[300:]] * 5
        assert words_of(judged(calibration, new, y[300:])).kind == "agrees"
        assert words_of(judged(calibration, new, (y[300:] + 1) % 3)).kind == "low_folds"


def test_rows_that_differ_but_are_covered_are_amber():
    """Minimax sets of models that differ much from fold to fold are large: the promise holds, the source does not."""
    X, y = drawn(1, 1000)
    flipped = np.where(np.arange(1000) % 4 == 0, 1 - y, y)
    tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    classifier = aptset.ConformalClassifier(tree, calibration=aptset.Minimax(4), random_state=0).fit(X[:400], y[:400])
    found = words_of(aptset.report(classifier, X[400:], flipped[400:]).evaluation)
    assert found.kind == "apart"
    assert "The sets cover as promised, but" in found.verdict


def test_what_a_fold_says_is_what_its_own_split_says():
    """Counts below, by fold, against the scores of the fold's model written out."""
    X, y = drawn(2)
    y = y.astype(object)
    y[310:315] = 7  # unknown to all models
    for settings in ({}, {"groups": "label"}):
        classifier = aptset.ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0, **settings)
        classifier.fit(X[:300], y[:300].astype(int))
        origin = aptset.report(classifier, X[300:], y[300:]).evaluation.evidence.origin
        fitted = classifier.fitted_
        for fold, model, held_out in zip(origin.folds, fitted.models, fitted.held_out.folds, strict=True):
            alone = replace(fitted, models=[model], held_out=replace(fitted.held_out, folds=(held_out,)))
            p_values = alone.p_values(fitted.rule.samples(X[300:])[0], None)
            groups = [np.array([v == label for v in y[300:]]) for label in (0, 1)] if settings else [np.ones(300, bool)]
            for counts, mine in zip(fold, groups, strict=True):
                column = np.where(y[300:] == 1, 1, 0)[mine]
                of_truth = np.where(y[300:][mine] == 7, 0, p_values[np.flatnonzero(mine), column])
                assert counts.rows == mine.sum()
                for level in (Fraction(1, 10), Fraction(3, 10), Fraction(77, 100)):
                    covered = counts.below[: math.ceil((1 - level) * (counts.n + 1))].sum()
                    assert covered == (of_truth > float(level)).sum()


def test_valid_folds_are_not_called_too_low():
    """The chance is a p-value: of 60 valid reports, more than 7 below 0.01 have probability below 1e-6."""
    chances = []
    for seed in range(60):
        X, y = drawn(100 + seed, 500)
        calibration = aptset.CVPlus(5)
        classifier = aptset.ConformalClassifier(GaussianNB(), calibration=calibration, random_state=seed)
        rows = (classifier.fit(X[:100], y[:100]), X[100:], y[100:])
        found = judged(*rows)
        chances.append(folds_chance(found.evidence.origin.folds, ALPHA))
    assert sum(chance < 0.01 for chance in chances) <= 7
    assert folds_chance(((FoldCounts(10, 5, np.zeros(6, int)),),), ALPHA) is None
