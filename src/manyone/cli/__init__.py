"""The command ``manyone``: one file for each group of commands.

In a shell::

  manyone demo                                                all of it, on an example
  manyone fit events.csv --task machine --out fleet.manyone   learn what is normal
  manyone score fleet.manyone today.csv --out scores.csv      alarms
  manyone watch fleet.manyone today.csv --state fleet.state   drift, answers
  manyone report fleet.manyone today.csv --out page.html      a page to look at
  manyone run fleet.toml                                      what is due, for cron
  manyone serve fleet.manyone                                 scores over HTTP
  manyone reproduce --quick                                   the paper's experiments
  manyone score --help                                        options of a command
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

try:
    import typer
except ImportError as error:
    raise SystemExit(
        f"manyone: {error}. Install: pip install '.[cli]' in the checkout of manyone"
    ) from error
from typer.core import TyperCommand

from manyone import __version__
from manyone.cli import common


class Command(NamedTuple):
    """Where a command is, and its line of help, which needs no import.

    Attributes
    ----------
    module : str
        Of this package; its function has the name of the command.
    help : str
        The first line of the function's docstring.
    extras : str
        Extras of the package that it needs.
    """

    module: str
    help: str
    extras: str = "cli"


#: All commands, in the order of the help.
COMMANDS = {
    "demo": Command("demo", "Run the whole path on an example table."),
    "fit": Command("fit", "Learn what is normal for each entity of a table."),
    "info": Command("fit", "Show what is in a model."),
    "score": Command(
        "score", "Give every row a score, a p-value and an alarm or none."
    ),
    "evaluate": Command("score", "Compare alarms with labelled rows."),
    "report": Command("score", "Write a page about a model and a table."),
    "watch": Command(
        "watch",
        "Score new rows, say which tasks drift since when, and learn from answers.",
    ),
    "run": Command(
        "run", "Do what is due: watch, tell people, write the page, refit with a guard."
    ),
    "serve": Command("serve", "Score rows over HTTP.", "serve,cli"),
    "enroll": Command("upkeep", "Add normal rows to a model."),
    "forget": Command("upkeep", "Remove a task and every row of it from a model."),
    "recalibrate": Command(
        "upkeep", "Promise another alarm rate; nothing is fitted again."
    ),
    "reproduce": Command(
        "reproduce", "Redo the paper's experiments, or compare on faults.", "cli,plot"
    ),
}


def function_of(name: str) -> tuple[Callable[..., None], str]:
    """The function of a command, and the examples at the end of its help."""
    command = COMMANDS[name]
    with common.needs(command.extras):
        module = import_module(f"manyone.cli.{command.module}")
    modules = [each.module for each in COMMANDS.values()]
    is_alone = modules.count(command.module) == 1
    examples = common.examples(module.__doc__, "" if is_alone else name)
    return getattr(module, name), examples


@cache
def _imported(name: str) -> Any:
    """A command with its options."""
    return common.command_of(*function_of(name))


class _ImportedWhenCalled(TyperCommand):
    """A command whose options and imports cost nothing until somebody calls it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the words after the name of the command."""
        command = _imported(str(self.name))
        return command.make_context(info_name, args, parent, **extra)


_group = typer.Typer(
    add_completion=False, rich_markup_mode=None, invoke_without_command=True
)


@_group.callback(epilog=common.examples(__doc__))
def manyone(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.")
    ] = False,
) -> None:
    """Raise alarms for fleets: many machines, servers or users, few rows of each."""
    if version:
        typer.echo(f"manyone {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


app: Any = typer.main.get_command(_group)
for _name, _command in COMMANDS.items():
    app.add_command(_ImportedWhenCalled(_name, help=_command.help))


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    args : sequence of str or None
        None: those of the process.

    Returns
    -------
    int
        Exit code; see :func:`manyone.cli.common.run`.
    """
    return common.run(app, args)
