"""Every pinned answer is as it was, on every engine; `python -m pinned --write` moves the pins, on purpose."""

from pinned.pins import computed, differing


def test_answers_about_probabilities_on_every_engine(path):
    assert differing(computed("probabilities")) == []


def test_answers_of_the_other_faces():
    assert differing(computed("faces")) == []


def test_answers_of_levels():
    assert differing(computed("levels")) == []
