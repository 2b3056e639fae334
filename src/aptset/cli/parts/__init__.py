"""Inputs of many files: discovery, the manifest of a run, and one output for each."""
