"""puncc: with n = 299 and alpha = 0.19 the threshold is another score than the k-th, k = ceil(0.81 * 300) = 243."""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import LAC


class Given(BasePredictor):
    """Its input is its output."""

    fit, predict = (lambda self, X, y, **settings: None), (lambda self, X, **settings: X)


p = (np.arange(299) + 600) / 1024
P = np.column_stack([p, 1 - p])
made = LAC(Given(None, is_trained=True), train=False)
made.fit(X_calib=P, y_calib=np.zeros(299, dtype=int))
print("scores at most the threshold:", sum(0 in one for one in made.predict(P, alpha=0.19)[1]), "instead of 243")
