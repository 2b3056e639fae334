"""Competitors of the paper that are not scores: conformal quantile classification, with a network or a forest."""

from aptset.experiments.baselines.network import ForestQuantiles, NetworkQuantiles
from aptset.experiments.baselines.quantile_classifier import ConformalQuantileClassifier

__all__ = ["ConformalQuantileClassifier", "ForestQuantiles", "NetworkQuantiles"]
