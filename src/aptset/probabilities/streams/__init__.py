"""Sets for rows that come one after the other, whose labels become known later."""
