"""The command line: parses and calls, no logic."""

from __future__ import annotations

try:
    import click
except ImportError as error:  # pragma: no cover - the library alone does not need it
    raise SystemExit("The command line needs click: pip install 'aptset[cli]'") from error


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aptset")
def main() -> None:
    """Prediction sets with guaranteed, adaptive coverage for any classifier."""


@main.command()
@click.option("--alpha", default=0.1, show_default=True, help="Miscoverage level: 0.1 means 9 times out of 10.")
@click.option("--seed", default=0, show_default=True, help="Seed of the splits, the models and the uniforms.")
def run(alpha: float, seed: int) -> None:
    r"""Train, calibrate and judge prediction sets on embedded data.

    \b
    Example:
      aptset run --alpha 0.05
    """
    from aptset.demo import demonstrate

    try:
        click.echo(demonstrate(alpha, seed))
    except (ValueError, TypeError) as error:
        raise click.ClickException(str(error)) from error
