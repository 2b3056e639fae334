"""
Group-conditional (Mondrian) coverage
=====================================

Tumours are grouped by size. A model that is good on average may cover one group more than another. Calibrated within
groups, the guarantee holds in each group.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset

cancer = load_breast_cancer(as_frame=True)
X, y = cancer.data[["mean texture", "mean smoothness", "mean symmetry"]], cancer.target_names[cancer.target]
group = np.digitize(cancer.data["mean radius"], [12, 15])
names = ["small", "medium", "large"]
model = make_pipeline(StandardScaler(), LogisticRegression())
covered = {"all together": [], "within groups": []}
for seed in range(30):
    rows = train_test_split(np.arange(len(y)), random_state=seed)
    train, test = (X.iloc[part] for part in rows)
    for name, groups in (("all together", None), ("within groups", group)):
        passed = ({}, {}) if groups is None else ({"groups": groups[rows[0]]}, {"groups": groups[rows[1]]})
        classifier = aptset.ConformalClassifier(model, alpha=0.2, random_state=seed).fit(train, y[rows[0]], **passed[0])
        holds = classifier.predict_set(test, **passed[1]).covers(y[rows[1]])
        covered[name].append([holds[group[rows[1]] == one].mean() for one in range(3)])

# %%
# Means over 30 splits, with two standard errors. The guarantee is 80 %.

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for shift, (name, values) in zip((-0.15, 0.15), covered.items(), strict=True):
    error = 2 * np.std(values, axis=0) / np.sqrt(30)
    ax.errorbar(np.arange(3) + shift, np.mean(values, axis=0), error, fmt="o", capsize=4, label=name)
ax.axhline(0.8, color="grey", linestyle="--")
ax.set(xticks=range(3), xticklabels=names, xlabel="tumours by radius", ylabel="coverage", ylim=(0.5, 1))
ax.legend()
plt.show()
