"""Schemes of calibration: which rows train and which calibrate."""
