"""
Coverage and set size at every level
====================================

``alpha`` is chosen at prediction time. One matrix of p-values gives the sets of all levels: how often they contain the
true label, and how large they are.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aptset

cancer = load_breast_cancer()
names = cancer.target_names[cancer.target]
X_train, X_test, y_train, y_test = train_test_split(cancer.data, names, random_state=0)
classifier = aptset.ConformalClassifier(RandomForestClassifier(random_state=0), random_state=0).fit(X_train, y_train)
sets, p_values = classifier.sets_and_p_values(X_test, alpha=0.1)
evaluation = aptset.evaluate(sets, y_test, alpha=0.1, p_values=p_values, n=classifier.n_calibration_)
print(evaluation)

# %%
# ``plot("curve")`` draws measured coverage against 1 - alpha. ``frame()`` returns the numbers of a figure.

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
evaluation.plot("curve").draw(ax)
plt.show()
