"""The command that serves a folder. It parses and calls; rows of `aptset run` are read as the other commands do."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from aptset.cli.inputs import artefact_of, check_artefact
from aptset.cli.options import ERRORS, TRUST


class PlanReader:
    """How rows by name become rows of X, as the folder of ``aptset run`` says."""

    def __init__(self, table: dict[str, Any]) -> None:
        from aptset.cli.columns import Plan

        self._plan = Plan.of_json(table["columns"])
        self.names: Sequence[str] = self._plan.names()
        self.kinds: Mapping[str, str] = {column.name: column.kind for column in self._plan.used}
        self.id_column: str | None = table["id"]
        self.group_column: str | None = table["groups"]

    def frame(self, table: Any) -> Any:
        """Return the columns as the model takes them; what is no number where one is wanted is refused."""
        from aptset.cli.tables import check_finite_features, check_number_columns

        check_number_columns(Path("rows"), table, self._plan.plain_numbers)
        features = self._plan.frame(table)
        check_finite_features(features)
        return features


def load_any(folder: Path, trust: Sequence[str]) -> tuple[Any, PlanReader | None]:
    """Return the classifier of a folder, and how its rows are read, if `aptset run` made it."""
    from aptset.cli.probability_jobs import beside_the_user
    from aptset.estimator.storage import check_table, load_folder

    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    return classifier, None if facts["table"] is None else PlanReader(check_table(folder, facts))


def _time(option: str, text: str | None) -> timedelta | None:
    from aptset.cli.checks import check_mature_text

    parsed = None if text is None else check_mature_text(text)
    if isinstance(parsed, int):
        raise click.UsageError(f"{option} must be a time such as 90d; got {text!r}.")
    return parsed


@click.command()
@click.argument("folder")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; this machine alone.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes any free port.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="Processes.")
@click.option(
    "--u",
    "source",
    default="id",
    show_default=True,
    type=click.Choice(["id", "content", "fresh"]),
    help="What the randomness of a set comes from; rows without an id of the client are fresh.",
)
@click.option("--alpha", type=float, help="The level of the sets and of the monitor; that of the folder by default.")
@ERRORS
@click.option("--assurance", default=0.9, show_default=True, help="The confidence that the error is kept.")
@click.option("--feedback", metavar="FILE", help="SQLite file of rows and labels; FOLDER.feedback.sqlite by default.")
@click.option(
    "--mature",
    default="30d",
    show_default=True,
    help="How long a label is waited for: 30d, 12h, or a number of predictions; 'never' gives none up.",
)
@click.option("--alarm", default=100.0, show_default=True, help="False alarms in 1 of so many deployments at most.")
@click.option("--keep", metavar="TIME", help="Forget rows this long after they were asked (90d); by default never.")
@click.option("--max-bytes", default=10 * 2**20, show_default=True, type=click.IntRange(1), help="Of a request.")
@click.option("--max-rows", default=10_000, show_default=True, type=click.IntRange(1), help="Of a request.")
@click.option("--timeout", default=30.0, show_default=True, help="Seconds for the body, and for the answer.")
@click.option(
    "--queue",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Requests that may wait in a worker.",
)
@click.option("--watch", default=1.0, show_default=True, help="Seconds between looks at the folder; 0: SIGHUP alone.")
@click.option("--token-file", metavar="FILE", help="Ask for the bearer token in this file.")
@TRUST
def serve(folder: str, source: str, errors: tuple[str, ...], **options: Any) -> None:
    """Answer rows with prediction sets over HTTP, and watch whether they cover as promised.

    FOLDER is that of `aptset run`, or of classifier.save in Python. POST /v1/sets answers rows, POST /v1/feedback takes
    their true labels, and the page at / shows whether the promise is kept.

    \b
    Examples:
      aptset serve results
      curl localhost:8000/v1/sets -H 'content-type: application/json' -d '{"rows": [{"id": "a", "age": 50}]}'
      curl localhost:8000/v1/feedback -H 'content-type: application/json' -d '{"id": "a", "label": "ill"}'
    """
    from aptset.cli.acceptance_jobs import errors_of
    from aptset.cli.checks import check_mature_text
    from aptset.serve import Choice, ServiceSettings
    from aptset.serve.application import feedback_file
    from aptset.serve.running import run

    path = check_artefact(artefact_of(folder), folder)
    token = options["token_file"]
    choice = Choice(
        path.resolve(),
        options["trust"],
        source,
        options["alpha"],
        errors_of(errors),
        options["assurance"],
        options["max_rows"],
        load_any,
    )
    settings = ServiceSettings(
        choice,
        feedback_file(path, options["feedback"]),
        None if options["mature"] == "never" else check_mature_text(options["mature"]),
        options["alarm"],
        _time("--keep", options["keep"]),
        options["max_bytes"],
        options["timeout"],
        options["queue"],
        options["watch"],
        None if token is None else Path(token),
        host=options["host"],
        port=options["port"],
        workers=options["workers"],
    )
    sys.exit(run(settings))
