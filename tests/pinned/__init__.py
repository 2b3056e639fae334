"""Pinned answers: a digest of what every public verb answers, over the product of its settings.

These are not expectations from a definition (the other tests hold those). They say that an answer did not move by a
bit while the code behind it was moved: ``python -m pinned --write`` in ``tests`` makes them anew, on purpose.
"""
