"""Calibrations of a model by its probabilities: the faces, what they are asked, and their files."""
