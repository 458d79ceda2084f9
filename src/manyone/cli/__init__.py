"""The command ``manyone``: one file for each group of commands.

In a shell::

  manyone demo                                                    all of it, on an example table
  manyone fit events.csv --task machine --out fleet.manyone       learn what is normal
  manyone score fleet.manyone today.csv --out scores.csv --explain 3   alarms with reasons
  manyone watch fleet.manyone today.csv --state s                 in time: drift, answers
  manyone report fleet.manyone today.csv --out page.html          a page to look at
  manyone run fleet.toml                                          all that is due, for cron
  manyone serve fleet.manyone                                     scores over HTTP
  manyone reproduce --quick                                       the paper's experiments
  manyone score --help                                            all options of a command
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

try:
    import typer
except ImportError as error:
    raise SystemExit(
        f"manyone: {error}. Install: pip install '.[cli]' in the checkout of manyone"
    ) from error

from manyone import __version__
from manyone.cli import common, demo, fit, reproduce, run, score, serve, upkeep, watch

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, invoke_without_command=True
)


@app.callback(epilog=common.examples(__doc__))
def manyone(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.")
    ] = False,
) -> None:
    """One-class classification for many related tasks with few normal samples each."""
    if version:
        typer.echo(f"manyone {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


for group in (demo, fit, score, watch, run, serve, upkeep, reproduce):
    group.add_to(app)


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
