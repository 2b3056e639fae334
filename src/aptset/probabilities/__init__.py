"""Sets from probabilities alone: no model, no scikit-learn."""
