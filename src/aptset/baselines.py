"""Competitors of the paper under their public name; :mod:`aptset.experiments.baselines` is where they are written."""

from aptset.experiments.baselines import *  # noqa: F403
