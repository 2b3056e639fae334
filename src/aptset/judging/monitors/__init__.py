"""What watches a calibration while it is in use."""
