"""Within which rows calibration happens: groups by label or by row, bands of labels, groups that overlap."""
