"""Competitors of the paper that are not scores: conformal quantile classification, with a network or a forest."""

from aptset.baselines.network import NetworkQuantiles
from aptset.baselines.quantile_classifier import ConformalQuantileClassifier
from aptset.baselines.regressors import ForestQuantiles

__all__ = ["ConformalQuantileClassifier", "ForestQuantiles", "NetworkQuantiles"]
