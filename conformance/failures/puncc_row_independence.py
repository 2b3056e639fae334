"""puncc: APS without chance; a row in a batch of 300, and the same row alone."""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import APS


class Given(BasePredictor):
    """Its input is its output."""

    fit, predict = (lambda self, X, y, **settings: None), (lambda self, X, **settings: X)


P = np.random.default_rng(0).dirichlet(np.ones(5), size=800)
made = APS(Given(None, is_trained=True), train=False, rand=False)
made.fit(X_calib=P[:500], y_calib=np.arange(500) % 5)
sizes = [
    [len(one) for one in made.predict(P[500:], alpha=0.1)[1]],
    [len(made.predict(row[None], alpha=0.1)[1][0]) for row in P[500:]],
]
print("mean size in a batch and alone:", *np.mean(sizes, axis=1))
