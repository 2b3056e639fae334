"""MAPIE: peak memory of a CV+ prediction (agg_scores="crossval") of 2000 rows, trained on 500 rows and on 2000."""

import tracemalloc

import numpy as np
from mapie.classification import CrossConformalClassifier
from sklearn.naive_bayes import GaussianNB

for n in (500, 2000):
    X = np.random.default_rng(0).normal(size=(n + 2000, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    made = CrossConformalClassifier(GaussianNB(), 0.9, "aps", cv=5, random_state=0).fit_conformalize(X[:n], y[:n])
    tracemalloc.start()
    made.predict_set(X[n:], {"include_last_label": "randomized"}, agg_scores="crossval")
    print(f"{n} training rows: {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB")
    tracemalloc.stop()
