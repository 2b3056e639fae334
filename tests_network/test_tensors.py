"""Tensors of torch as they come out of a network: with gradients, in bfloat16."""

import numpy as np
import torch

import aptset

LOGITS = torch.tensor(np.random.default_rng(0).normal(size=(60, 3)) * 3)
LABELS = LOGITS.argmax(dim=1)


def test_gradients_are_left_behind():
    p = torch.softmax(LOGITS, dim=1).requires_grad_()
    made = aptset.calibrate(p, LABELS, random_state=0)
    expected = aptset.calibrate(p.detach().numpy(), LABELS.numpy(), random_state=0)
    assert made.scores.tolist() == expected.scores.tolist()
    assert made.predict_set(p) == expected.predict_set(p.detach().numpy())


def test_bfloat16_logits_are_widened():
    rough = LOGITS.to(torch.bfloat16)
    made = aptset.calibrate(rough, LABELS, logits=True, random_state=0)
    assert made.scores.tolist() == aptset.calibrate(rough.float(), LABELS, logits=True, random_state=0).scores.tolist()


def test_bfloat16_probabilities_need_normalize():
    p = torch.softmax(LOGITS, dim=1).to(torch.bfloat16)
    assert aptset.calibrate(p, LABELS, normalize=True, random_state=0).n == 60
