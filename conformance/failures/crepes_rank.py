"""crepes: n = 19, alpha = 0.1: the threshold is another score than the k-th, k = ceil(0.9 * 20) = 18."""

import numpy as np
from crepes import ConformalClassifier
from crepes.extras import hinge

p = (np.arange(19) + 64) / 128
P, y = np.column_stack([p, 1 - p]), np.zeros(19, dtype=int)
made = ConformalClassifier().fit(hinge(P, np.arange(2), y))
sets = made.predict_set(hinge(P), confidence=0.9, smoothing=False)
print(
    "scores at most the threshold:",
    int(sets[:, 0].sum()),
    "instead of 18; p-value at the 19th:",
    made.predict_p(hinge(P[:1]), smoothing=False)[0, 0],
)
