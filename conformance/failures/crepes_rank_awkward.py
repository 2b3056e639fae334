"""crepes: n = 299, alpha = 0.19: the threshold is another score than the k-th, k = ceil(0.81 * 300) = 243."""

import numpy as np
from crepes import ConformalClassifier
from crepes.extras import hinge

p = (np.arange(299) + 600) / 1024
P, y = np.column_stack([p, 1 - p]), np.zeros(299, dtype=int)
made = ConformalClassifier().fit(hinge(P, np.arange(2), y))
sets = made.predict_set(hinge(P), confidence=0.81, smoothing=False)
print("scores at most the threshold:", int(sets[:, 0].sum()), "instead of 243")
