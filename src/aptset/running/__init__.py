"""Many tasks that can be killed and go on; files that are there whole or not at all."""
