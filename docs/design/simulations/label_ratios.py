"""What do estimated ratios of labels cost? Run: ``python docs/design/simulations/label_ratios.py`` (five minutes).

Twenty labels that are hard to tell, each frequent one nine times as frequent among new rows as each rare one, and all
alike where rows calibrate. Ratios are known, or estimated from the calibration rows and as many new ones; means of 100
calibrations, lac, alpha = 0.1. The last column is what the warning goes by.
"""

import warnings

import numpy as np

import aptset

LABELS, CLEARNESS = 20, 1.5
SOURCE, TARGET = np.full(LABELS, 0.05), np.repeat([0.01, 0.09], LABELS // 2)


def labelled(n, proportions, generator):
    """Return rows whose probabilities are right where all labels are equally frequent; each label has a row."""
    truth = np.append(np.arange(LABELS), generator.choice(LABELS, size=n - LABELS, p=proportions))
    seen = generator.normal(size=(n, LABELS)) + CLEARNESS * (np.arange(LABELS) == truth[:, None])
    odds = np.exp(CLEARNESS * seen)
    return odds / odds.sum(axis=1, keepdims=True), truth


def one(n, method, generator):
    """Return coverages of new rows without and with the correction, and how wrong the errors say proportions are."""
    drawn = ((n, SOURCE), (n, TARGET), (4000, TARGET))
    (p, y), (new, _), (q, z) = (labelled(rows, share, generator) for rows, share in drawn)
    ratios, wrong = dict(enumerate(TARGET / SOURCE)), 0.0
    if method != "known":
        ratios = aptset.label_ratios(p, y, new, method)
        wrong = np.bincount(y, minlength=LABELS) / n @ list(ratios.errors.values()) * (2 / np.pi) ** 0.5 / 2
    settings = {"label_weights": ratios, "conformity": "lac", "random_state": 0}
    both = (aptset.calibrate(p, y, prior_correction=corrects, **settings) for corrects in (False, True))
    return *(calibration.predict_set(q).covers(z).mean() for calibration in both), wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| rows | ratios | label_weights | and prior_correction | proportions wrong by |\n|---|---|---|---|---|")
    for n in (300, 1000, 4000):
        for method in ("known", "em", "bbse"):
            generator = np.random.default_rng(n)
            plain, corrected, wrong = np.mean([one(n, method, generator) for _ in range(100)], axis=0)
            print(f"| {n:,} | {method} | {plain:.3f} | {corrected:.3f} | {wrong:.2f} |", flush=True)
