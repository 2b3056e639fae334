"""aptset side by side with its peers and with plain numpy: ``make bench``."""
