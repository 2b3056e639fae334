"""Real scores with 10, 150 and 1000 classes: split coverage by the Beta-binomial law.

The data lie beside the project, not in it; without them these tests are skipped, and say so.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import aptset

SCORES = Path(__file__).parents[2] / "shared" / "data" / "scores"
FILES = {
    "mnist": ("mnist_test_probs.npz", lambda f: f["cleanlab_cv"]),
    "clinc150": ("clinc150_logprob.npz", lambda f: np.exp(f["log_prob"])),
    "imagenet": (
        "imagenet1k_effnetlite0_tinyimagenet_val_logits.npz",
        lambda f: softmax(f["logits"].astype(np.float32)),
    ),
}


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", FILES)
def test_coverage_of_real_scores(name):
    """Law: covered of m after calibration on n is Beta-binomial; p-value above 1e-6. Sizes near the known ones."""
    file, read = FILES[name]
    if not (SCORES / file).exists():
        pytest.skip(f"{SCORES / file} is not there: the scores are not part of the project")
    with np.load(SCORES / file) as data:
        p, y = read(data), data["y"].astype(int)
    order = np.random.default_rng(0).permutation(len(p))
    half = len(p) // 2
    calibration = aptset.calibrate(p[order[:half]], y[order[:half]], random_state=0)
    sets = calibration.predict_set(p[order[half:]], 0.1)
    assert aptset.coverage_test(sets.covers(y[order[half:]]), n=half, alpha=0.1).p_value > 1e-6
    expected = {"mnist": 0.92, "clinc150": 4.9, "imagenet": 132.1}[name]
    assert abs(sets.sizes.mean() - expected) < 0.1 * expected


@pytest.mark.parametrize("way", ["fresh", "ids", "content"])
def test_rounded_scores_in_small_batches(way):
    """Scores of MNIST rounded to 3 digits in batches of 32: the law holds, and for all digits, with u for each row.

    By content the same few u come again in every batch. p-values of 4 keys above 1e-7; about 500 rows a digit, of which
    0.9 are covered: 0.8 is seven standard deviations away.
    """
    path = SCORES / FILES["mnist"][0]
    if not path.exists():
        pytest.skip(f"{path} is not there: the scores are not part of the project")
    with np.load(path) as data:
        p, y = data["cleanlab_cv"].round(3), data["y"].astype(int)
    p_values, worst = [], []
    for key in range(4):
        old, new = np.split(np.random.default_rng(key).permutation(len(y)), 2)
        calibration = aptset.calibrate(p[old], y[old], normalize=True, random_state=key)
        batches = [new[start : start + 32] for start in range(0, len(new), 32)]
        asked = [{"fresh": {"u": "fresh"}, "ids": {"ids": rows}, "content": {}}[way] for rows in batches]
        sets = [
            calibration.predict_set(p[rows], 0.1, **more).covers(y[rows])
            for rows, more in zip(batches, asked, strict=True)
        ]
        covered = np.concatenate(sets)
        p_values.append(aptset.coverage_test(covered, n=len(old), alpha=0.1).p_value)
        worst.append(min(covered[y[new] == digit].mean() for digit in range(10)))
    if way == "content":
        assert min(p_values) < 1e-7
        assert min(worst) < 0.5
    else:
        assert min(p_values) > 1e-7
        assert min(worst) > 0.8


def test_rolled_up_sets_of_real_scores_are_wider_and_cover_more():
    """CIFAR-100 in groups of five labels as they come: any tree will do for what is always true of supersets."""
    file = SCORES / "cifar100_wideresnet16_4.npz"
    if not file.exists():
        pytest.skip(f"{file} is not there: the scores are not part of the project")
    with np.load(file) as data:
        p, y = data["predictions"], data["ground_truth"]
    taxonomy = aptset.Taxonomy({label: f"group {label // 5}" for label in range(100)})
    calibration = aptset.calibrate(p[:5000], y[:5000], conformity="lac", random_state=0)
    sets = calibration.predict_set(p[5000:], 0.1)
    sizes, covered = [sets.sizes], [sets.covers(y[5000:])]
    for at_most in (3, 2, 1):
        rolled = sets.roll_up(taxonomy, at_most)
        assert (rolled.nodes.sizes <= at_most).all()
        sizes.append(rolled.sizes)
        covered.append(rolled.covers(y[5000:]))
    assert all((few >= many).all() for many, few in pairwise(sizes))
    assert all((few >= many).all() for many, few in pairwise(covered[::3]))
    assert sets.roll_up(taxonomy).leaves == sets
    assert (sizes[-1] == 100).mean() > 0.3  # one node is often the root
