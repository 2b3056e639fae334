"""Folds that fail or are interrupted: the fold is named, and nothing is half kept."""

import io

import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB

from aptset import ConformalClassifier, CVPlus

X, Y = load_iris(return_X_y=True)


NAMES = load_iris().target_names[Y]


class FailsOnRow(GaussianNB):
    """Cannot be fitted when a certain row is missing from the training part."""

    def fit(self, X, y):
        if not (X == 7.9).any():
            raise ArithmeticError("the fit went wrong")
        return super().fit(X, y)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_failing_fold_is_named_and_nothing_is_kept(n_jobs):
    classifier = ConformalClassifier(FailsOnRow(), calibration=CVPlus(5), random_state=0, n_jobs=n_jobs)
    for call in (lambda: classifier.fit(X, NAMES), lambda: classifier.fit_predict_set(X, NAMES, X)):
        with pytest.raises(ArithmeticError, match=r"fold \d of 5 failed, nothing was kept: the fit went wrong"):
            call()
    with pytest.raises(NotFittedError):
        classifier.predict_set(X)


class Odd(Exception):  # noqa: N818
    def __init__(self, one, two):
        super().__init__(one, two)


def test_failing_with_an_odd_exception(monkeypatch):
    class FailsOddly(GaussianNB):
        def fit(self, X, y):
            raise Odd(1, 2)

    with pytest.raises(RuntimeError, match=r"fold 1 of 2 failed.*Odd"):
        ConformalClassifier(FailsOddly(), calibration=CVPlus(2)).fit(X, NAMES)


def test_interrupt_names_the_fold_and_keeps_the_old_fit():
    class Interrupted(GaussianNB):
        calls = 0

        def fit(self, X, y):
            Interrupted.calls += 1
            if Interrupted.calls == 4:
                raise KeyboardInterrupt
            return super().fit(X, y)

    classifier = ConformalClassifier(GaussianNB(), calibration=CVPlus(10), random_state=0).fit(X, NAMES)
    expected = classifier.predict_set(X)
    with pytest.raises(KeyboardInterrupt, match="interrupted at fold 4 of 10; nothing was kept"):
        classifier.set_params(estimator=Interrupted()).fit(X, NAMES)
    assert classifier.predict_set(X) == expected


def test_progress_is_silent_in_logs_and_shows_on_a_terminal(capsys, monkeypatch):
    settings = {"calibration": CVPlus(3), "progress": True}
    ConformalClassifier(GaussianNB(), **settings).fit(X, NAMES)
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    ConformalClassifier(GaussianNB(), **settings).fit(X, NAMES)
    assert "3/3" in screen.getvalue()
    quiet = Terminal()
    monkeypatch.setattr("sys.stderr", quiet)
    ConformalClassifier(GaussianNB(), calibration=CVPlus(3)).fit(X, NAMES)
    assert quiet.getvalue() == ""
