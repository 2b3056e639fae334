"""nonconformist: 26 rows train, 3 calibrate, 90 % asked for; labels that none of the 3 has are in no set."""

import numpy as np
from nonconformist.icp import IcpClassifier
from nonconformist.nc import NcFactory
from sklearn.naive_bayes import GaussianNB

hits = 0
for seed in range(600):
    y = np.random.default_rng(seed).integers(3, size=30)
    X = np.random.default_rng([seed, 1]).normal(size=(30, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y]
    made = IcpClassifier(NcFactory.create_nc(GaussianNB()), smoothing=False)
    made.fit(X[:26], y[:26])
    made.calibrate(X[26:29], y[26:29])
    hits += int(
        y[29] in made.classes and made.predict(X[29:], significance=0.1)[0, np.searchsorted(made.classes, y[29])]
    )
print("coverage:", hits / 600)
