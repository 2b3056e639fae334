"""What every room stands on: labels, tables, groups, randomization, validation of arguments, files."""
