"""Sets, p-values and probabilities of the same rows: the models are asked once."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

from aptset import ConformalClassifier

X, Y = make_classification(120, n_features=6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)
NEW = X[::2] + 0.1


class Counting(GaussianNB):
    asked = 0

    def predict_proba(self, X):
        Counting.asked += 1
        return super().predict_proba(X)


@pytest.mark.parametrize("level", ["nominal", "guaranteed"])
@pytest.mark.parametrize("groups", [None, "label"])
@pytest.mark.parametrize("calibration", ["split", "cv+", "minimax", "bootstrap"])
def test_one_question_gives_all_answers(calibration, groups, level):
    classifier = ConformalClassifier(
        Counting(), calibration=calibration, groups=groups, level=level, alpha=0.4, random_state=0
    ).fit(X, Y)
    expected = classifier.predict_set(NEW), classifier.p_values(NEW), classifier.predict_proba(NEW)
    Counting.asked = 0
    sets, p_values = classifier.sets_and_p_values(NEW)
    assert Counting.asked == len(classifier.models_)
    assert sets == expected[0]
    np.testing.assert_array_equal(p_values, expected[1])
    frame = classifier.predict_frame(pd.DataFrame(NEW, index=range(7, 67)), ids=np.arange(60))
    assert Counting.asked == 2 * len(classifier.models_)
    np.testing.assert_array_equal(frame["probability"], expected[2].max(axis=1))
    assert frame.index.tolist() == list(range(7, 67))


def test_memory_is_bounded_by_pieces(limits):
    classifier = ConformalClassifier(GaussianNB(), calibration="cv+", random_state=0).fit(X, Y)
    whole = classifier.sets_and_p_values(NEW)
    limits(chunk_cells=30)
    pieces = classifier.sets_and_p_values(NEW)
    assert pieces[0] == whole[0]
    np.testing.assert_array_equal(pieces[1], whole[1])
