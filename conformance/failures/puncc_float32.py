"""puncc: APS without chance on 1000 labels, alpha = 0.001: float32 probabilities, and the same numbers as float64."""

import numpy as np
from deel.puncc.api.prediction import BasePredictor
from deel.puncc.classification import APS


class Given(BasePredictor):
    """Its input is its output."""

    fit, predict = (lambda self, X, y, **settings: None), (lambda self, X, **settings: X)


P, sizes = np.random.default_rng(0).dirichlet(np.full(1000, 0.05), size=6000).astype(np.float32), []
for rows in (P, P.astype(np.float64)):
    made = APS(Given(None, is_trained=True), train=False, rand=False)
    made.fit(X_calib=rows[:2000], y_calib=(P[:2000].cumsum(axis=1) < np.linspace(0, 0.999, 2000)[:, None]).sum(axis=1))
    sizes.append([len(one) for one in made.predict(rows[2000:], alpha=0.001)[1]])
print("rows with another size:", int(np.not_equal(*sizes).sum()), "of 4000")
