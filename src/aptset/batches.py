"""Record batches of Arrow under their public name; :mod:`aptset.arrow` is where they are made."""

from aptset.arrow import *  # noqa: F403
