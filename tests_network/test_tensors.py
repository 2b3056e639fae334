"""Tensors of torch as they come out of a network on a host: with gradients, in bfloat16, in any layout."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import aptset
from aptset.experiments.baselines import EXTRAS

LOGITS = torch.tensor(np.random.default_rng(0).normal(size=(60, 3)) * 3)
LABELS = LOGITS.argmax(dim=1)
P = torch.softmax(LOGITS, dim=1)


def test_tensors_are_answered_with_tensors():
    made = aptset.calibrate(P.requires_grad_(), LABELS, random_state=0)
    array = P.detach().numpy()
    expected = aptset.calibrate(array, LABELS.numpy(), random_state=0)
    assert made.scores.tolist() == expected.scores.tolist()
    for rows in (P, P.detach().T.contiguous().T, P.detach().repeat_interleave(2, dim=1)[:, ::2]):
        mask, p_values = made.predict_mask(rows, 0.2), made.p_values(rows)
        assert isinstance(mask, torch.Tensor)
        assert mask.tolist() == expected.predict_mask(array, 0.2).tolist()
        assert p_values.tolist() == expected.p_values(array).tolist()
        assert made.predict_set(rows, 0.2) == expected.predict_set(array, 0.2)  # PredictionSets, with all their methods
        sets, again = made.sets_and_p_values(rows, 0.2)
        assert (sets, again.tolist()) == (expected.predict_set(array, 0.2), p_values.tolist())


def test_groups_ids_and_u_may_be_tensors():
    groups, new_groups, u = torch.arange(60) % 2, torch.arange(60) % 3, torch.rand(60, dtype=torch.float64)
    p = P.detach()
    made = aptset.calibrate(p, LABELS, groups=groups, ids=torch.arange(60), random_state=0)
    expected = aptset.calibrate(p.numpy(), LABELS.numpy(), groups=groups.numpy(), ids=np.arange(60), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last group was never seen
        asked = {"groups": new_groups, "ids": torch.arange(60) + 100}
        wanted = {"groups": new_groups.numpy(), "ids": np.arange(60) + 100}
        assert made.predict_set(p, **asked) == expected.predict_set(p.numpy(), **wanted)
    given = aptset.calibrate(p, LABELS, u=u)
    assert given.scores.tolist() == aptset.calibrate(p.numpy(), LABELS.numpy(), u=u.numpy()).scores.tolist()


def test_bfloat16():
    rough = P.detach().to(torch.bfloat16)
    made = aptset.calibrate(rough, LABELS, random_state=0)
    as_half = rough.double().numpy().astype(np.float16)  # not the same numbers, but the same tolerance
    assert made.n == aptset.calibrate(as_half, LABELS.numpy()).n
    assert made.predict_mask(rough, 0.1).shape == (60, 3)
    with pytest.raises(ValueError, match=r"within 0\.02 for bfloat16"):
        made.predict_mask(rough * 1.1)
    wide = aptset.calibrate(LOGITS.bfloat16().double(), LABELS, logits=True, random_state=0)
    assert (
        aptset.calibrate(LOGITS.bfloat16(), LABELS, logits=True, random_state=0).scores.tolist() == wide.scores.tolist()
    )


def test_torch_is_not_loaded_for_arrays():
    code = "import sys, aptset; c = aptset.calibrate([[.5, .5]] * 30, [0] * 30); c.predict_mask([[.5, .5]] * 2);"
    code += "c.p_values([[.5, .5]] * 2); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_the_layer_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; from importlib import util; find = util.find_spec\n"
    code += "util.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\nimport aptset.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "aptset.torch needs torch: pip install 'aptset[torch]'" in done.stderr
    assert EXTRAS["torch"] == "network"


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_are_judged_and_reported(kind):
    """What takes probabilities for sets takes them for pages and figures, too."""
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet([1.0] * 4, size=300)
    labels, rows = probabilities.argmax(axis=1), torch.tensor(probabilities).to(kind)
    calibration = aptset.calibrate(rows, labels, random_state=0)
    made = aptset.report(calibration, rows, labels).evaluation
    assert made.mean_size == calibration.predict_set(rows).sizes.mean()
    shown = {"p_values": calibration.p_values(rows), "probabilities": rows, "alpha": 0.1}
    judged = aptset.evaluate(calibration.predict_set(rows), labels, rows, **shown)
    np.testing.assert_array_equal(judged.evidence.p_values, made.evidence.p_values)
    np.testing.assert_array_equal(judged.evidence.probabilities, rows.float() if kind is torch.bfloat16 else rows)
    logits = torch.tensor(generator.normal(size=(300, 4))).to(kind)
    calibration = aptset.calibrate(logits, labels, logits=True, random_state=0)
    made = aptset.report(calibration, logits, labels, logits=True).evaluation
    assert made.mean_size == calibration.predict_set(logits, logits=True).sizes.mean()
