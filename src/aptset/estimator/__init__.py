"""Sets from a scikit-learn classifier."""
