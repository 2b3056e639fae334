"""How many rows are decided, with at most 5 % of them wrong (90 % assurance): ours beside MAPIE's controller.

MAPIE controls the precision of the event "the guess is right" over 200 thresholds of confidence, by Bonferroni-Holm
(its default) or a fixed sequence. Rows of stored scores are split 15 times; all rules see the same splits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import aptset

ERROR, ASSURANCE, SPLITS, SIZES = 0.05, 0.9, 15, (500, 2000)
STORED = Path(__file__).resolve().parents[2] / "shared" / "data" / "scores"
Rule = Callable[[np.ndarray, np.ndarray], float]


def stored() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the confidence of each row and whether its guess is wrong."""
    guesses = np.load(STORED / "imagenet_resnet34_guesses.npz")
    scores = np.load(STORED / "cifar100_wideresnet16_4.npz")
    p = scores["predictions"]
    return {
        "ImageNet": (guesses["confidence"], guesses["label"] != guesses["guess"]),
        "CIFAR-100": (p.max(axis=1).astype(np.float64), p.argmax(axis=1) != scores["ground_truth"]),
    }


def ours(method: str) -> Rule:
    def threshold(confidence: np.ndarray, wrong: np.ndarray) -> float:
        rule = aptset.learn_acceptance(confidence=confidence, wrong=wrong, random_state=0)
        value = rule.threshold(ERROR, ASSURANCE, method=method).value
        assert isinstance(value, float)
        return value

    return threshold


def mapie(method: str) -> Rule:
    from mapie.risk_control import BinaryClassificationController

    def threshold(confidence: np.ndarray, wrong: np.ndarray) -> float:
        controller = BinaryClassificationController(
            lambda c: np.column_stack([1 - np.asarray(c).ravel(), np.asarray(c).ravel()]),
            "precision",
            1 - ERROR,
            ASSURANCE,
            list_predict_params=np.linspace(0, 1, 201)[:-1][::-1],
            fwer_method=method,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            controller.calibrate(confidence[:, None], (~wrong).astype(int))
        best = controller.best_predict_param
        return np.inf if best is None else float(best)

    return threshold


def oracle_share(confidence: np.ndarray, wrong: np.ndarray) -> float:
    order = np.argsort(-confidence)
    shares = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    passing = np.flatnonzero(shares <= ERROR)
    return (passing[-1] + 1) / len(order) if len(passing) else 0.0


def decided(rule: Rule, confidence: np.ndarray, wrong: np.ndarray, n: int) -> tuple[float, float]:
    """Return the share of new rows above the threshold, and the share of these that is wrong, over all splits."""
    generator, shares, errors = np.random.default_rng(0), [], []
    for _ in range(SPLITS):
        order = generator.permutation(len(confidence))
        value = rule(confidence[order[:n]], wrong[order[:n]])
        act = confidence[order[n:]] > value
        shares.append(act.mean())
        errors.append(wrong[order[n:]][act].sum() / max(1, act.sum()))
    return float(np.mean(shares)), float(np.mean(errors))


def rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    try:
        import mapie as library

        version = library.__version__
        found[f"MAPIE {version}, Bonferroni-Holm (its default), 200 thresholds"] = mapie("bonferroni_holm")
        found[f"MAPIE {version}, fixed sequence, 200 thresholds"] = mapie("fixed_sequence")
    except ImportError:
        print("MAPIE is not here: `make bench` installs it")
    return found | {
        "aptset, Bonferroni over ranks": ours("bonferroni"),
        "aptset, band over ranks": ours("band"),
        "aptset, sequence of ranks": ours("sequence"),
        "**aptset, auto (n and the error choose)**": ours("auto"),
    }


def table() -> str:
    """Return the table of shares, in Markdown; the share wrong among the decided rows in brackets."""
    data = stored()
    columns = [(name, n) for name in data for n in SIZES]
    lines = ["| |" + "|".join(f" {name} n = {n:,} " for name, n in columns) + "|", "|---" * (len(columns) + 1) + "|"]
    for name, rule in rules().items():
        cells = [decided(rule, *data[of], n) for of, n in columns]
        lines.append(f"| {name} |" + "|".join(f" {share:.3f} ({wrong:.3f}) " for share, wrong in cells) + "|")
    lines.append("| oracle |" + "|".join(f" {oracle_share(*data[of]):.3f} " for of, _ in columns) + "|")
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the page of this table."""
    text = (
        "# Act or ask: how many rows are decided\n\n"
        "Share of new rows that are acted on, and in brackets the share of these that is wrong, where at most "
        f"{ERROR:.0%} may be, with {ASSURANCE:.0%} assurance; means of {SPLITS} splits. The oracle knows all labels. "
        "Made by `python -m benchmarks acceptance`, in the environment of `make bench`.\n\n"
    )
    (folder / "acceptance.md").write_text(text + table() + "\n", encoding="utf-8")


if __name__ == "__main__":
    print(table())
