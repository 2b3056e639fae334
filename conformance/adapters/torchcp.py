"""TorchCP: SplitPredictor and ClassConditionalPredictor with APS and LAC on probabilities (score_type="identity")."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from unittest.mock import MagicMock

import numpy as np

INSTALL = [["torch==2.13.0", "scikit-learn", "scipy", "tqdm", "pandas"], ["--no-deps", "torchcp"]]
DISTRIBUTION = "torchcp"
API = (
    "SplitPredictor, ClassConditionalPredictor with APS(randomized=...) and LAC, score_type='identity'; "
    "predict_p; metrics WSC"
)
SCORES = ("adaptive", "lac")
RANDOMIZED = ("adaptive",)
PLAIN = ("adaptive", "lac")


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages of graphs, language models and training, which prediction never uses."""

    names = ("torchsort", "torch_geometric", "torchvision", "transformers")

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(_Absent())
import torch  # noqa: E402
from torchcp.classification.predictor import ClassConditionalPredictor, SplitPredictor  # noqa: E402
from torchcp.classification.score import APS, LAC  # noqa: E402
from torchcp.classification.utils.metrics import WSC  # noqa: E402


def _score(score, randomized):
    return APS(score_type="identity", randomized=randomized) if score == "adaptive" else LAC(score_type="identity")


def _made(kind, P, y, alpha, score, randomized):
    made = kind(_score(score, randomized), model=torch.nn.Identity(), alpha=alpha, device="cpu")
    made.calculate_threshold(torch.from_numpy(P), torch.from_numpy(y), alpha)
    return made


def calibrate(P, y, *, alpha, score, randomized, seed):
    made = _made(SplitPredictor, P, y, alpha, score, randomized)
    return lambda new: made.predict_with_logits(torch.from_numpy(np.ascontiguousarray(new))).numpy().astype(bool)


def by_label(P, y, *, alpha, seed):
    made = _made(ClassConditionalPredictor, P, y, alpha, "adaptive", True)
    return lambda new: made.predict_with_logits(torch.from_numpy(new)).numpy().astype(bool)


def p_values(P, y, *, seed):
    made = _made(SplitPredictor, P.astype(np.float32), y, 0.1, "adaptive", True)  # predict_p asks the model in float32
    return lambda new: made.predict_p(torch.from_numpy(new)).numpy()


def worst_slice(X, covered, *, seed):
    sets = torch.from_numpy(np.column_stack([covered, covered]))
    labels = torch.from_numpy(np.arange(len(X)) % 2)  # every label must occur; both are covered alike
    return float(WSC(torch.from_numpy(X), sets, labels, M=50, random_state=seed))
