"""Sets that are rolled up a tree, on CIFAR-100: `python docs/design/simulations/taxonomies.py scores.npz`, a minute.

The file holds `predictions`, the probabilities of a network on the 10,000 test images, and `ground_truth`. The tree has
20 groups of five labels. Half of the rows calibrate, 20 times. For each way to show a set it prints the coverage, the
number of labels that it leaves open, and the share of sets that are the root, all labels.
"""

import sys

import numpy as np

import aptset

# The group of each label, in the order of the alphabet.
# fmt: off
GROUPS = [
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
]
# fmt: on
TREE = aptset.Taxonomy({label: f"group {group}" for label, group in enumerate(GROUPS)})


def ways(P, y, calibrate, test, alpha, seed):
    """Yield the name of each way, whether rows are covered, the labels that are left open, and which sets are all."""
    score = {"conformity": "lac", "random_state": seed}
    sets = aptset.calibrate(P[calibrate], y[calibrate], **score).predict_set(P[test], alpha)
    yield "the set", sets.covers(y[test]), sets.sizes, sets.sizes == 100
    for at_most in (3, 2, 1):
        rolled = sets.roll_up(TREE, at_most)
        yield f"at most {at_most}", rolled.covers(y[test]), rolled.sizes, rolled.sizes == 100
    groups, truth = TREE.collapse(P), TREE.at_depth(y)
    calibration = aptset.calibrate(groups[calibrate], truth[calibrate], classes=TREE.nodes(), **score)
    sets = calibration.predict_set(groups[test], alpha)
    yield "groups only", sets.covers(truth[test]), 5 * sets.sizes, sets.sizes == 20


if __name__ == "__main__":
    scores = np.load(sys.argv[1])
    P, y = scores["predictions"], scores["ground_truth"]
    for alpha in (0.1, 0.05):
        results = {}
        for seed in range(20):
            order = np.random.default_rng(seed).permutation(len(y))
            for name, *values in ways(P, y, order[: len(y) // 2], order[len(y) // 2 :], alpha, seed):
                results.setdefault(name, []).append([np.mean(value) for value in values])
        for name, values in results.items():
            covered, labels, root = np.mean(values, axis=0)
            print(f"alpha {alpha}  {name:<11}  coverage {covered:.3f}  labels {labels:5.2f}  root {root:.1%}")
