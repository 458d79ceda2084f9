"""The command ``manyone``: one file for each group of commands.

In a shell::

  manyone reproduce --quick   the paper's experiments, a first look
  manyone reproduce --help    all of its options
"""

from __future__ import annotations

from collections.abc import Sequence

try:
    import typer
except ImportError as error:
    raise SystemExit(
        f"manyone: {error}. The command line needs: pip install 'manyone[cli]'"
    ) from error

from manyone.cli import common, reproduce

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback(epilog=common.examples(__doc__))
def manyone() -> None:
    """One-class classification for many related tasks with few normal samples each."""


reproduce.add_to(app)


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
