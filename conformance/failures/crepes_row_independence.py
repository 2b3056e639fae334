"""crepes: smoothed sets (the default) of 5000 rows, and of the same rows in reverse order, with a seed."""

import numpy as np
from crepes import ConformalClassifier
from crepes.extras import hinge

P = np.random.default_rng(0).dirichlet(np.ones(5), size=5100)
made = ConformalClassifier().fit(hinge(P[:100], np.arange(5), P[:100].argmax(axis=1)), seed=0)
forwards = made.predict_set(hinge(P[100:]), confidence=0.9)
backwards = made.predict_set(hinge(P[100:][::-1]), confidence=0.9)[::-1]
print("rows with another set:", int((forwards != backwards).any(axis=1).sum()), "of 5000")
