"""
Compare models by set size
==========================

Three models of wine on the same random splits: which one has the smallest sets for the same guarantee?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import aptset

X, y = load_wine(return_X_y=True)
models = {"tree": DecisionTreeClassifier(max_depth=3), "bayes": GaussianNB(), "neighbours": KNeighborsClassifier()}
found = aptset.compare(models, X, y, alpha=0.1, repetitions=20)
print(found)

# %%
# Set sizes in all splits. ``difference`` gives a confidence interval.

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
found.plot("size").draw(ax)
plt.show()
print(found.difference("neighbours", "bayes", "size"))
