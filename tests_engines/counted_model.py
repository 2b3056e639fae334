"""A model of which it is known how often it was sent."""

import os
from pathlib import Path

from sklearn.linear_model import LogisticRegression


class Counted(LogisticRegression):
    """A model that writes down, in its folder, in which process it was pickled while it had not been fitted."""

    def __init__(self, folder=None, C=1.0):
        super().__init__(C=C)
        self.folder = folder

    def __getstate__(self):
        if not hasattr(self, "coef_"):
            with (Path(self.folder) / f"{os.getpid()}").open("a") as file:
                file.write("pickled\n")
        return super().__getstate__()
