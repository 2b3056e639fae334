"""puncc: classification.LAC, APS and ClasswiseLAC on a fitted predictor."""

from __future__ import annotations

import numpy as np
from deel.puncc.api.conformalization import ConformalPredictor
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import APS, LAC, ClasswiseLAC
from sklearn.naive_bayes import GaussianNB

from conformance.adapters.models import members_to_mask

INSTALL = [["puncc"]]
DISTRIBUTION = "puncc"
API = "deel.puncc.classification LAC, APS(rand=...), ClasswiseLAC; ConformalPredictor.save and load"
SCORES = ("adaptive", "lac")
RANDOMIZED = ("adaptive",)
PLAIN = ("adaptive", "lac")


class Probabilities(BasePredictor):
    """What it is shown is what it says."""

    def fit(self, X, y, **settings):
        pass

    def predict(self, X, **settings):
        return np.asarray(X)


class Asked(BasePredictor):
    """A model of scikit-learn, asked for probabilities."""

    def predict(self, X, **settings):
        return self.model.predict_proba(X)


def _made(P, y, score, randomized):
    predictor = Probabilities(None, is_trained=True)
    made = APS(predictor, train=False, rand=randomized) if score == "adaptive" else LAC(predictor, train=False)
    made.fit(X_calib=P, y_calib=y)
    return made


def calibrate(P, y, *, alpha, score, randomized, seed):
    made = _made(P, y, score, randomized)
    return lambda new: members_to_mask(made.predict(new, alpha=alpha)[1], new.shape[1])


def by_label(P, y, *, alpha, seed):
    made = ClasswiseLAC(Probabilities(None, is_trained=True), train=False)
    made.fit(X_calib=P, y_calib=y)
    return lambda new: members_to_mask(made.predict(new, alpha=alpha)[1], new.shape[1])


def train(X, y, *, alpha, seed, calibration_rows):
    made, cut = APS(Asked(GaussianNB())), len(y) - calibration_rows
    made.fit(X_fit=X[:cut], y_fit=y[:cut], X_calib=X[cut:], y_calib=y[cut:])
    return lambda new: members_to_mask(made.predict(new, alpha=alpha)[1], 3)


def saved_and_loaded(P, y, path, *, alpha):
    made = _made(P, y, "lac", False).conformal_predictor
    made.save(str(path))
    loaded = ConformalPredictor.load(str(path))
    return tuple(
        lambda new, one=one: members_to_mask(one.predict(new, alpha=alpha)[1], new.shape[1]) for one in (made, loaded)
    )
