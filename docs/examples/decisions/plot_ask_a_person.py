"""
Human in the loop: refer uncertain rows
=======================================

Rows with a one-label set are decided automatically. All other rows go to a person. A smaller alpha refers more rows,
and the automatic decisions are right more often.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aptset

cancer = load_breast_cancer()
X_train, X_test, y_train, y_test = train_test_split(cancer.data, cancer.target, test_size=0.4, random_state=0)
classifier = aptset.ConformalClassifier(
    RandomForestClassifier(random_state=0), calibration="out-of-bag", randomized=False, random_state=0
)
classifier.fit(X_train, y_train)
alphas = np.array([0.2, 0.1, 0.07, 0.05, 0.03, 0.02])
found = [aptset.evaluate(sets, y_test) for sets in classifier.predict_set(X_test, alpha=alphas)]
for alpha, result in zip(alphas, found, strict=True):
    print(f"alpha = {alpha}: {result.singleton_rate:.1%} are automatic, {result.singleton_accuracy:.1%} of them right")

# %%
# The accuracy of one-label sets is measured, not guaranteed. Bars are 95 % confidence intervals.

right = [result.singleton_accuracy for result in found]
errors = np.array([[value - value.low, value.high - value] for value in right]).T
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.errorbar([result.singleton_rate for result in found], right, errors, fmt="o", capsize=3)
for alpha, result in zip(alphas, found, strict=True):
    place = (result.singleton_rate, result.singleton_accuracy)
    ax.annotate(f"{alpha:g}", place, (6, -12), textcoords="offset points", fontsize=8)
ax.set(xlabel="share of rows with one label", ylabel="share of these that are right", title="numbers: alpha")
plt.show()
