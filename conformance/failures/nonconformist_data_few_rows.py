"""nonconformist: 26 rows train, 4 calibrate, 90 % asked for; labels that none of the 4 has are in no set."""

import numpy as np
from nonconformist.icp import IcpClassifier
from nonconformist.nc import NcFactory
from sklearn.naive_bayes import GaussianNB

hits = 0
for seed in range(600):
    y = np.random.default_rng(seed).integers(3, size=31)
    X = np.random.default_rng([seed]).normal(size=(31, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y]
    made = IcpClassifier(NcFactory.create_nc(GaussianNB()), smoothing=False)
    made.fit(X[:26], y[:26])
    made.calibrate(X[26:30], y[26:30])
    hits += int(
        y[30] in made.classes and made.predict(X[30:], significance=0.1)[0, np.searchsorted(made.classes, y[30])]
    )
print("coverage:", hits / 600)
