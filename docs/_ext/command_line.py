"""Makes the page of the command line from click's own objects."""

import inspect
import re
from typing import Any

import click

from aptset.cli.main import main

INTRODUCTION = """# Command line

This page is made from the program itself: `aptset COMMAND --help` says the same. `python -m aptset` works, too.
Whatever is wrong with the input is one line on standard error and exit status 1; wrong usage is status 2.
"""


def command_line_page() -> str:
    """Return the page: the options of the program, then one section for each command, in alphabetical order."""
    sections = [_section(name, main.commands[name]) for name in sorted(main.commands)]
    return "\n".join([INTRODUCTION, _parameters(main), *sections])


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"aptset {name}", parent=None)
    usage = f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    return "\n".join([f"## aptset {name}\n", usage, "", _help(command), "", _parameters(command), ""])


def _help(command: click.Command) -> str:
    r"""Return the text of a command in Markdown; blocks behind \b, which click leaves as they are, become code."""
    blocks = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(_verbatim(block) if block.startswith("\b") else " ".join(block.split()) for block in blocks)


def _verbatim(block: str) -> str:
    title, *lines = block.removeprefix("\b").strip("\n").splitlines()
    code = "\n".join(line.removeprefix("  ") for line in lines)
    return f"{title}\n\n```sh\n{code}\n```"


def _parameters(command: click.Command) -> str:
    context = click.Context(command)
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    lines = [f"| {_names(option)} | {_words(option, context)} |" for option in options]
    return "\n".join(["| option | |", "|---|---|", *lines, ""]) if lines else ""


def _names(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else _takes(option)
    return f"{names} {takes}".strip()


def _takes(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " or ".join(f"`{choice}`" for choice in option.type.choices)
    return f"*{(option.metavar or option.type.name).lower()}*"


def _words(option: click.Option, context: click.Context) -> str:
    extra: Any = option.get_help_extra(context)
    facts = [f"default: `{extra['default']}`"] if "default" in extra else []
    facts += ["may be given several times"] if option.multiple and "several times" not in (option.help or "") else []
    facts += ["required"] if option.required else []
    return _escaped(" ".join([option.help or "", f"({'; '.join(facts)})" if facts else ""]).strip())


def _escaped(text: str) -> str:
    """Return a text that a cell of a Markdown table shows as it is."""
    return re.sub(r"([|*<>])", r"\\\1", text)
