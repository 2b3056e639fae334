"""What all splits found: the distribution of every metric over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aptset.judging.estimates import Estimate, resampled_mean, resampled_share
from aptset.kernels.formula import Floats

_OVERALL = ("coverage", "worst_slice", "size", "size_given_coverage")
SHARES = ("coverage", "worst_slice")
_MOST_PARTS = 20  # labels or groups that are printed for each candidate: those with the lowest coverage


@dataclass(frozen=True, repr=False)
class Splits:
    """Rows of results by candidate, repetition and part (all, label, group)."""

    candidates: list[str]
    rows: list[dict[str, Any]]
    test_share: float
    repetitions: int

    @classmethod
    def of(cls, candidates: list[str], rows: list[dict[str, Any]], test_share: float, repetitions: int) -> Splits:
        """Add coverage to the rows."""
        found = [{**row, "coverage": row["covered"] / row["rows"]} if "covered" in row else row for row in rows]
        return cls(candidates, found, test_share, repetitions)

    def overall(self, candidate: str) -> list[dict[str, Any]]:
        """Return the results over all test rows, by repetition."""
        return self._of(candidate, "all")

    def _of(self, candidate: str, part: str) -> list[dict[str, Any]]:
        return [
            row for row in self.rows if row["candidate"] == candidate and row["part"] == part and row["repetition"] >= 0
        ]

    def in_order(self, candidate: str) -> dict[str, Any]:
        """Return the split whose test rows are the last ones."""
        (found,) = (r for r in self.rows if r["repetition"] < 0 and r["part"] == "all" and r["candidate"] == candidate)
        return found

    def p_values(self, candidate: str) -> list[dict[str, Any]]:
        """Return the p-values of the true labels of test rows, by repetition."""
        return self._of(candidate, "p_values")

    def paired(self, first: str, second: str, what: str) -> tuple[Floats, Floats]:
        """Return for each row the sum of first minus second over the splits that tested it, and their number.

        ``what`` is "values", the sizes, or "hits", whether the set held the true label.
        """
        pairs = list(zip(self._of(first, "sizes"), self._of(second, "sizes"), strict=True))
        n = 1 + max(max(one["rows"]) for one, _ in pairs)
        total, times = np.zeros(n), np.zeros(n)
        for one, other in pairs:
            total[one["rows"]] += np.array(one[what]) - np.array(other[what])
            times[one["rows"]] += 1
        return total, times

    def values(self, candidate: str, metric: str) -> Floats:
        """Return a metric by repetition."""
        return np.array([row[metric] for row in self.overall(candidate)], dtype=np.float64)

    def columns(self) -> dict[str, list[Any]]:
        """Return one row for each candidate and split."""
        rows = [row for name in self.candidates for row in self.overall(name)]
        names = ("candidate", "repetition", "rows", "covered", *_OVERALL)
        return {name: [row[name] for row in rows] for name in names}

    def summary(self) -> list[dict[str, Any]]:
        """Return the distribution of every metric, overall, by label and by group."""
        found = []
        for candidate in self.candidates:
            for metric in _OVERALL:
                values = self.values(candidate, metric)
                found.append(
                    {
                        "candidate": candidate,
                        "part": "all",
                        "name": "",
                        "metric": metric,
                        **self._spread(values, metric),
                    }
                )
            for part in ("label", "group"):
                by_name: dict[str, list[dict[str, Any]]] = {}
                for row in self._of(candidate, part):
                    by_name.setdefault(row["name"], []).append(row)
                for name, rows in sorted(by_name.items()):
                    for metric in ("coverage", "size"):
                        spread = self._spread(np.array([row[metric] for row in rows], dtype=np.float64), metric)
                        found.append({"candidate": candidate, "part": part, "name": name, "metric": metric, **spread})
        return found

    def mean(self, values: Floats, metric: str) -> Estimate:
        """Return the mean of a metric over the splits, with an interval that knows that splits share rows."""
        return (resampled_share if metric in SHARES else resampled_mean)(values, self.test_share, 0.95)

    def _spread(self, values: Floats, metric: str) -> dict[str, Any]:
        mean = self.mean(values, metric)
        kept = values[~np.isnan(values)]
        ends = np.quantile(kept, [0.05, 0.5, 0.95]).tolist() if len(kept) else [float("nan")] * 3
        names = ("low", "high", "q05", "median", "q95", "splits")
        return {"mean": float(mean), **dict(zip(names, (mean.low, mean.high, *ends, len(kept)), strict=True))}

    def text(self) -> str:
        """Return the distributions as a small table: mean, and where nine of ten splits lie."""
        lines, rows = [f"  {'':<44} {'mean':>8}   nine of ten splits"], self.summary()
        for candidate in self.candidates:
            mine = [row for row in rows if row["candidate"] == candidate]
            overall = [row for row in mine if row["part"] == "all"]
            parts = [row for row in mine if row["part"] != "all" and row["metric"] == "coverage"]
            shown = set(map(id, sorted(parts, key=lambda row: float(row["mean"]))[:_MOST_PARTS]))
            lines.extend(_line(row) for row in [*overall, *(row for row in parts if id(row) in shown)])
            if len(parts) > _MOST_PARTS:
                lines.append(f"  {candidate}: {len(parts) - _MOST_PARTS} more, with higher coverage, in summary()")
        return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    name = row["metric"].replace("_", " ") if row["part"] == "all" else f"coverage of {row['part']} {row['name']}"
    title = f"{row['candidate']}: {name}"
    return f"  {title[:44]:<44} {row['mean']:>8.4g}   {row['q05']:.4g} to {row['q95']:.4g}"


def distribution(values: Floats, name: str) -> dict[str, Any]:
    """Return the share of splits with at most each value that occurs."""
    kept = np.sort(values[~np.isnan(values)])
    return {name: kept, "share": np.arange(1, len(kept) + 1) / max(1, len(kept))}
