"""How often do intervals of the mean size hold? Run: ``python docs/design/simulations/sizes.py`` (half a minute)."""

import itertools

import numpy as np
from scipy.stats import t as student_law

from aptset.metrics.estimates import _distance

ROWS, LABELS = (2, 3, 5, 10, 20, 50, 100, 300, 1000), (3, 10, 100)
RARE = (0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)


def laws():
    """Yield name, rows, labels, sizes that come, their chances."""
    for rows, labels in itertools.product(ROWS, LABELS):
        for rare in RARE:
            for least in (0, 1):
                yield f"two sizes from {least}, {rare}", rows, labels, [least, labels], [1 - rare, rare]
                yield f"mirrored from {least}, {rare}", rows, labels, [least, labels], [rare, 1 - rare]
            if labels > 3:
                most = [0.6 * (1 - rare), 0.4 * (1 - rare), rare]
                yield f"three sizes, {rare}", rows, labels, [1, 2, labels], most
                yield f"half of the labels, {rare}", rows, labels, [1, 2, labels // 2], most
                both = [rare / 2, 1 - rare, rare / 2]
                yield f"both sides, {rare}", rows, labels, [0, labels // 2, labels], both
        for power in (1.5, 2, 3):
            sizes = np.arange(1, labels + 1)
            weights = sizes.astype(float) ** -power
            yield f"long tail, {power}", rows, labels, sizes, weights / weights.sum()


def of_student(sizes, labels):
    """Return the ends of Student's intervals."""
    n = sizes.shape[1]
    half = sizes.std(axis=1, ddof=1) / n**0.5 * student_law(n - 1).ppf(0.975)
    return sizes.mean(axis=1) - half, sizes.mean(axis=1) + half


def ours(sizes, labels):
    """Return the ends of the library's intervals."""
    n, total, squares = sizes.shape[1], sizes.sum(axis=1), (sizes**2).sum(axis=1)
    pairs, place = np.unique(np.stack([total, squares], axis=1), axis=0, return_inverse=True)
    ends = np.empty((len(pairs), 2))
    for row, (sum_of_sizes, sum_of_squares) in enumerate(pairs.astype(int).tolist()):
        down, up = (_distance(sum_of_sizes, sum_of_squares, n, extreme, 0.95) for extreme in (0, labels))
        ends[row] = (sum_of_sizes / (n + 1) - down, (sum_of_sizes + labels) / (n + 1) + up)
    return np.clip(ends[place.ravel()], 0, labels).T


def main():
    """Print for each kind of interval the laws under which it holds least often."""
    generator = np.random.default_rng(0)
    held = {"Student": [], "ours": []}
    for name, rows, labels, sizes, chances in laws():
        chances = np.array(chances) / np.sum(chances)
        truth = float(np.dot(sizes, chances))
        drawn = generator.choice(np.array(sizes), p=chances, size=(4000 if rows <= 100 else 1500, rows))
        for kind, interval in (("Student", of_student), ("ours", ours)):
            low, high = interval(drawn, labels)
            share = np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high))
            held[kind].append((float(share), f"{rows} rows, {labels} labels, {name}"))
    for kind, shares in held.items():
        few = sum(share < 0.94 for share, _ in shares)
        print(f"{kind}: holds in fewer than 0.94 of samples under {few} of {len(shares)} laws; least often under")
        for share, name in sorted(shares)[:5]:
            print(f"  {share:.4f}  {name}")


if __name__ == "__main__":
    main()
