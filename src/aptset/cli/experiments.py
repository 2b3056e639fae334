"""The command that reproduces the paper. It parses and calls, no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aptset.cli.options import ALPHA, AS_JSON, QUIET, SEEDS, show, workers


def words(_: Any, __: Any, text: str) -> tuple[str, ...]:
    """Split a list such as SC,CV+,HCC."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@click.command()
@click.argument("experiments", nargs=-1, required=True)
@click.option("--repetitions", default=100, show_default=True, help="Independent repetitions, as in the paper.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder with the data sets; else the cache, or OpenML.")
@click.option("--jobs", default=-1, callback=workers, show_default=True, help="Worker processes; -1 for one per core.")
@click.option("--out", default="aptset-reproduction", show_default=True, help="Folder for results and figures.")
@click.option("--boxes", default="", callback=words, help="Only these black boxes, such as Oracle,SVC.")
@click.option("--methods", default="", callback=words, help="Only these methods, such as SC,CV+ (HCC comes with SC).")
@click.option("--sizes", default="", callback=words, help="Only these n_train, such as 500,1000.")
@click.option("--draw-only", is_flag=True, help="Compute nothing: draw what is finished.")
@click.option("--seed", default=0, type=SEEDS, show_default=True, help="Seed of data, folds, models and uniforms.")
@ALPHA
@QUIET
@AS_JSON
def reproduce(
    experiments: tuple[str, ...], out: str, repetitions: int, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Reproduce figures and tables of the paper: fig1 fig2 fig3 figS1 figS3 figS4 tableS1 to tableS4, or all.

    A run can be stopped at any moment; the same command goes on where it was.

    \b
    Examples:
      aptset reproduce fig1 --repetitions 5 --boxes Oracle,SVC
      aptset reproduce fig2 tableS1 --data downloads --out results
    """
    from aptset.experiments.designs import choose
    from aptset.experiments.reproduce import reproduce as run_experiments

    choice = choose(repetitions, options.pop("boxes"), options.pop("methods"), options.pop("sizes"))
    written = run_experiments(experiments, choice, Path(out), progress=not quiet, **options)
    content = {"out": out, "written": [str(path) for path in written]}
    show(content, f"Written to {out}: {', '.join(path.name for path in written)}", quiet, as_json)


COMMANDS = [reproduce]
