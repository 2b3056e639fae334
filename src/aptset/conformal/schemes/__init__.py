"""Schemes of calibration: which rows train and which calibrate; one file each."""
