"""The peers through their public interfaces. One that cannot be imported is reported, not fatal."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from benchmarks.yardsticks import ALPHA

ADAPTIVE, HOMOGENEOUS = "adaptive", "homogeneous"


@dataclass(frozen=True)
class Peer:
    """Calibrate on rows and labels, predict from the state; ``mask`` is not timed."""

    name: str
    calibrate: Callable[[np.ndarray, np.ndarray], Any]
    predict: Callable[[Any, np.ndarray], Any]
    mask: Callable[[Any, int], np.ndarray]
    compared_with: str
    why: str


def mapie() -> Peer:
    from mapie.classification import SplitConformalClassifier

    def calibrate(p: np.ndarray, labels: np.ndarray) -> Any:
        model = SplitConformalClassifier(_Probabilities(p.shape[1]), 1 - ALPHA, "aps", prefit=True, random_state=0)
        return model.conformalize(p, labels)

    why = "the label that crosses the threshold is always taken in; its scores sum up in the dtype of the rows"
    return Peer("MAPIE", calibrate, lambda m, p: m.predict_set(p), lambda r, _: r[1][:, :, 0], ADAPTIVE, why)


class _Probabilities:
    """A fitted classifier whose probabilities are its input."""

    _estimator_type = "classifier"

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes, self.classes_, self.n_features_in_ = n_classes, np.arange(n_classes), n_classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Probabilities:
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X.argmax(axis=1)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"n_classes": self.n_classes}

    def set_params(self, **settings: Any) -> _Probabilities:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().__sklearn_tags__()


def crepes() -> Peer:
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    def calibrate(p: np.ndarray, labels: np.ndarray) -> Any:
        return ConformalClassifier().fit(hinge(p, np.arange(p.shape[1]), labels))

    def predict(model: Any, p: np.ndarray) -> Any:
        return model.predict_set(hinge(p), confidence=1 - ALPHA, smoothing=False)

    why = "another score, one minus the probability: compared with conformity='homogeneous'"
    return Peer("crepes", calibrate, predict, lambda r, _: np.asarray(r, dtype=bool), HOMOGENEOUS, why)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that TorchCP imports for graphs, language models and training, which nothing here uses."""

    names = ("torchsort", "torch_geometric", "torchvision", "transformers")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        is_absent = name.split(".")[0] in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_absent else None

    def create_module(self, spec: Any) -> Any:
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module: Any) -> None:
        pass


def torchcp() -> Peer:
    sys.meta_path.append(Absent())
    import torch
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import APS

    def calibrate(p: np.ndarray, labels: np.ndarray) -> Any:
        model = SplitPredictor(APS(score_type="identity", randomized=False), alpha=ALPHA)
        model.calculate_threshold(torch.from_numpy(p), torch.from_numpy(labels), ALPHA)
        return model

    def predict(model: Any, p: np.ndarray) -> Any:
        return model.predict_with_logits(torch.from_numpy(p))

    why = "not randomised (u = 0); its sums are float32"
    return Peer("TorchCP", calibrate, predict, lambda r, _: r.numpy().astype(bool), ADAPTIVE, why)


def puncc() -> Peer:
    from deel.puncc.api.prediction import BasePredictor
    from deel.puncc.classification import APS

    class Identity(BasePredictor):  # type: ignore[misc]
        def fit(self, X: np.ndarray, y: np.ndarray, **settings: Any) -> None:
            pass

        def predict(self, X: np.ndarray, **settings: Any) -> np.ndarray:
            return X

    def calibrate(p: np.ndarray, labels: np.ndarray) -> Any:
        model = APS(Identity(None, is_trained=True), train=False)
        model.fit(X_calib=p, y_calib=labels)
        return model

    def mask(result: Any, n_classes: int) -> np.ndarray:
        dense = np.zeros((len(result[1]), n_classes), dtype=bool)
        for row, members in enumerate(result[1]):
            dense[row, np.asarray(members, dtype=int)] = True
        return dense

    why = "draws its own random numbers, and others for calibration than for prediction"
    return Peer("puncc", calibrate, lambda m, p: m.predict(p, alpha=ALPHA), mask, ADAPTIVE, why)


def available() -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that work here, and why the others do not."""
    found, missing = [], {}
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=200).astype(np.float32)
    for make in (mapie, crepes, torchcp, puncc):
        try:
            peer = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peer.mask(peer.predict(peer.calibrate(p, p.argmax(axis=1)), p), 5)
            found.append(peer)
        except Exception as error:  # whatever a peer raises, the others go on
            missing[make.__name__] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found, missing
