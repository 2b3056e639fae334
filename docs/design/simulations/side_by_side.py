"""The sets of one library on simulated rows, for the page "Coming from MAPIE, crepes, TorchCP, puncc or nonconformist".

``python docs/design/simulations/side_by_side.py LIBRARY``, in the environment of that library (`make conformance` makes
them), prints coverage, mean size and a digest of the sets for each score that its adapter offers: equal digests are
equal sets. 1,000 rows calibrate, 2,000 are predicted, 5 classes, alpha = 0.1.
"""

import hashlib
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))


def main(library: str) -> None:
    """Print one line for each score, with randomness and without, and one for class-conditional sets."""
    adapter = import_module(f"conformance.adapters.{library}")
    generator = np.random.default_rng(0)
    P = generator.dirichlet(np.full(5, 0.5), size=3000)
    y = (generator.random((3000, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)

    def line(name, predict):
        mask = np.asarray(predict(P[1000:].copy())).astype(bool)
        digest = hashlib.sha256(np.packbits(mask).tobytes()).hexdigest()[:12]
        covered = mask[np.arange(2000), y[1000:]].mean()
        print(f"{library} {name:28} covered {covered:.4f}, {mask.sum(axis=1).mean():.3f} labels, sets {digest}")

    for score in adapter.SCORES:
        for is_random in (False, *([True] if score in adapter.RANDOMIZED else [])):
            settings = {"alpha": 0.1, "score": score, "randomized": is_random, "seed": 0}
            line(f"{score}, randomized={is_random}", adapter.calibrate(P[:1000].copy(), y[:1000], **settings))
    if hasattr(adapter, "by_label"):
        line("class-conditional", adapter.by_label(P[:1000].copy(), y[:1000], alpha=0.1, seed=0))


if __name__ == "__main__":
    main(sys.argv[1])
