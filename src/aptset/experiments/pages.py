"""The claims page, in Markdown: what the paper says, what was measured, and whether they agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from aptset.core.files import atomic_write
from aptset.core.progress import as_time
from aptset.core.runner import Done, versions
from aptset.experiments.cells import FAMILY_OF
from aptset.experiments.claims import (
    ABOUT,
    LARGEST_Z,
    PUBLISHED_ALPHA,
    Finding,
    compare_notebook,
    compare_paired,
    compare_rerun,
    findings,
)

if TYPE_CHECKING:
    import pandas as pd


KEYS = ["data", "n_train", "n_test", "box", "method", "repetition", "condition"]


def as_frame(done: Iterable[Done], alpha: float, seed: int) -> pd.DataFrame:
    """Return the rows of finished cells at a level and a seed, with the seconds that each took and its versions."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for task in done:
        constants = {"seconds": task.seconds, "versions": json.dumps(task.versions)}
        rows.extend({**row, **constants} for row in task.rows if (row["alpha"], row["seed"]) == (alpha, seed))
    if not rows:
        return pd.DataFrame()
    frame = pd.DataFrame(rows).sort_values(KEYS, ignore_index=True)
    frame["versions"] = frame["versions"].astype("category")
    return frame


def write_results(path: Path, frame: pd.DataFrame, settings: dict[str, object]) -> None:
    """Write one parquet file; the settings of the run and the versions are in its metadata too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    own = {b"aptset": json.dumps({"settings": settings, "versions": versions()}).encode()}
    with atomic_write(path) as file:
        pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **own}), file)


def seconds_of(frame: pd.DataFrame) -> float:
    """Return how long the cells took in all, each counted once."""
    families = frame.assign(family=frame["method"].map(FAMILY_OF))
    cells = families.drop_duplicates(["data", "n_train", "n_test", "box", "family", "repetition"])
    return float(cells["seconds"].sum())


_MARKS = {"holds": "✓ holds", "fails": "✗ fails", "open": "? open"}


def claims_page(frame: pd.DataFrame, alpha: float) -> str:
    """Return the whole page."""
    parts = [_head(alpha), _run_section(frame), _claims_section(findings(frame, alpha))]
    if alpha == PUBLISHED_ALPHA:
        parts += [_rerun_section(frame, alpha), _notebook_section(frame, alpha)]
    return "\n\n".join(parts) + "\n"


def _head(alpha: float) -> str:
    return f"""# The paper's claims, checked

Each line is a quantity averaged over repetitions, with the 95 % interval of its mean (Student's t), at alpha =
{alpha:g}. Differences are paired: both methods saw the same rows. A claim **holds** if the whole interval lies within
the bounds of the column *required*, **fails** if it lies outside, and is **open** if it straddles a bound. The paper
says "about" and "slightly"; the bounds are ours: "about" is {ABOUT:g} on either side. Intervals are for one line each,
not for all of them at once."""


def _run_section(frame: pd.DataFrame) -> str:
    rows = [["data", "n_train", "box", "methods (repetitions)", "time in cells"]]
    for (data, n_train, box), results in frame.groupby(["data", "n_train", "box"]):
        counts = results[results["condition"] == "all"].groupby("method")["repetition"].nunique()
        methods = ", ".join(f"{method} ({count})" for method, count in counts.items())
        rows.append([data, str(n_train), box, methods, as_time(seconds_of(results))])
    versions = "; ".join(sorted({str(text) for text in frame["versions"]})).translate(str.maketrans("", "", '{}"'))
    spent = f"the cells took {as_time(seconds_of(frame))} in all, one worker each (wall-clock time)"
    total = f"{len(frame):,} rows of results; {spent}."
    return f"## What was run\n\n{total} Versions: {versions}.\n\n{_table(rows)}"


def _claims_section(findings: list[Finding]) -> str:
    parts = ["## Claims"]
    if not findings:
        return parts[0] + "\n\nNo claim concerns what was run, or there is one repetition only: an interval needs two."
    for claim, group in groupby(findings, key=lambda finding: finding.claim):
        rows = [["quantity", "mean", "95 % interval", "repetitions", "required", "verdict"]]
        of_claim = list(group)
        for finding in of_claim:
            value = finding.estimate
            interval = f"{value.low:.3f} to {value.high:.3f}"
            mark = _MARKS[finding.verdict]
            rows.append([finding.quantity, f"{value:.3f}", interval, str(value.n), finding.bounds, mark])
        counts = Counter(finding.verdict for finding in of_claim)
        summary = ", ".join(f"{counts[verdict]} {word}" for verdict, word in _COUNTED.items() if counts[verdict])
        parts.append(f"### {claim}\n\n{len(of_claim)} quantities: {summary}.\n\n{_table(rows)}")
    return "\n\n".join(parts)


_NOTHING = "Nothing to compare: it takes two repetitions of Figure 1 at least."
_COUNTED = {"holds": "hold", "fails": "fail", "open": "open"}


def _rerun_section(frame: pd.DataFrame, alpha: float) -> str:
    comparisons = compare_rerun(frame, alpha)
    title = "## Beside a re-run of the authors' code (model 1, n = 1000)"
    if not comparisons:
        return f"{title}\n\n{_NOTHING}"
    rows = [["box", "method", "metric", "theirs", "ours", "difference in standard errors", "agrees"]]
    for one in comparisons:
        numbers = [f"{one.theirs:.3f}", f"{one.ours:.3f}", f"{one.z:+.1f}", "✓" if one.agrees else "✗"]
        rows.append([one.box, one.method, one.metric.replace("_", " "), *numbers])
    agree = sum(one.agrees for one in comparisons)
    summary = f"{agree} of {len(comparisons)} numbers agree within {LARGEST_Z:g} combined standard errors."
    pairs = [["difference, paired over repetitions", "theirs", "ours", "95 % interval", "positive"]]
    for what, theirs, ours, positive in compare_paired(frame, alpha):
        pairs.append([what, theirs, f"{ours:.3f}", f"{ours.low:.3f} to {ours.high:.3f}", f"{positive} of {ours.n}"])
    return f"{title}\n\n{summary}\n\n{_table(rows)}\n\n{_table(pairs)}"


def _notebook_section(frame: pd.DataFrame, alpha: float) -> str:
    comparisons = compare_notebook(frame, alpha)
    title = "## Beside the authors' published notebook (model 1, one fixed beta)"
    if not comparisons:
        return f"{title}\n\n{_NOTHING}"
    same = sum(row[-1] for row in comparisons)
    summary = (
        f"Sizes depend on beta, so only the order is compared: of {len(comparisons)} pairs whose medians clearly "
        f"differ there, {same} are in the same order here."
    )
    others = [f"* {metric}: {one} above {other} there, not here" for metric, one, other, ok in comparisons if not ok]
    return "\n".join([f"{title}\n\n{summary}", *([""] if others else []), *others])


def _table(rows: list[list[str]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body])
