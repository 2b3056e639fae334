"""The commands that look at what sets are worth: report, audit, compare. They parse and call, no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aptset.cli_options import ALPHA, AS_JSON, QUIET, show, source_of


@click.command()
@click.argument("probs", metavar="[FILE]", required=False)
@click.option("--target", help="FILE is a table: train and calibrate on it, with this column to predict.")
@click.option("-c", "--calibration", default="split", help="With --target its name; else an artefact of `calibrate`.")
@click.option("--label", help="FILE holds probabilities: the column (or array, or .npy file) of true labels.")
@click.option("--model", default="logistic", show_default=True, help="With --target: a model, or module:object.")
@click.option("--prefix", help="Columns of probabilities start with this; by default all columns of numbers.")
@click.option("--logits", is_flag=True, help="The numbers are logits, not probabilities.")
@click.option("--normalize", is_flag=True, help="Divide each row by its sum.")
@click.option("--id", "row_id", help="A column of numbers that is a row id, not a probability.")
@ALPHA
@click.option("--groups", help="A column to calibrate within and to break down by (or 'label', with --target).")
@click.option("--title", help="The heading of the page.")
@click.option("-o", "--out", default="report.html", show_default=True, help="The page to write.")
@click.option("--jobs", type=int, help="Folds to fit at once.")
@click.option("--seed", default=0, show_default=True, help="Seed of the splits, the models and the uniforms.")
@QUIET
@AS_JSON
def report(probs: str | None, out: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Write one HTML page that shows what prediction sets are worth, and works offline.

    \b
    Examples:
      aptset report                                  # on embedded data
      aptset report patients.csv --target diagnosis --model forest
      aptset report test.parquet --label y --prefix p_ -c cal.aptset
    """
    from aptset import reportjob
    from aptset.files import as_path
    from aptset.jobs import evaluation_as_json

    page, title, alpha = Path(out), options["title"], options["alpha"]
    if probs is None:
        made = reportjob.report_demo(alpha, options["seed"], page, title)
    elif options["target"] is not None:
        names = ("model", "calibration", "alpha", "groups", "seed", "jobs")
        settings = {name: options[name] for name in names}
        made = reportjob.report_table(as_path(probs), options["target"], page, title, **settings)
    elif options["label"] is not None:
        source = source_of({**options, "probs": probs, "batch_rows": 65_536}, options["label"])
        artefact = Path(options["calibration"])
        made = reportjob.report_probabilities(source, artefact, alpha, page, title, options["normalize"])
    else:
        raise click.UsageError("FILE needs --target COLUMN (a table), or --label COLUMN with -c ARTEFACT.")
    show(evaluation_as_json(made.evaluation, out=out), f"{made.evaluation!r}\n\nWritten: {out}", quiet, as_json)


COMMANDS = [report]
