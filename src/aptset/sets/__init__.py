"""Prediction sets: one set of labels per row, compressed."""

from aptset.sets.prediction_sets import PredictionSets as PredictionSets
from aptset.sets.prediction_sets import concatenate as concatenate
