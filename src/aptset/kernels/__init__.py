"""Loops on plain arrays: compiled where the extension was built, numpy otherwise, the same bits either way.

Nothing in this room checks input, draws random numbers or knows scikit-learn. A score comes in as data
(:class:`~aptset.kernels.formula.LinearScore`) or as any function of places, so a new score needs no new kernel.
"""
