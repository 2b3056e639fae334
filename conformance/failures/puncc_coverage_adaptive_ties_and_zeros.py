"""puncc: APS where true labels may have probability zero, and a row sums to 0.9999999999999999."""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import APS


class Given(BasePredictor):
    """Its input is its output."""

    fit, predict = (lambda self, X, y, **settings: None), (lambda self, X, **settings: X)


votes = np.random.default_rng(0).multinomial(10, np.full(5, 0.2), size=500)
made = APS(Given(None, is_trained=True), train=False)
made.fit(X_calib=np.eye(5)[np.arange(100) % 5], y_calib=(np.arange(100) + 1) % 5)
print([len(one) for one in made.predict(votes / 10.0, alpha=0.1)[1]][:5])
