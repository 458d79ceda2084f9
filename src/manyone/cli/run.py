"""``manyone run``: what is due, by a file; made for cron.

In a shell::

  manyone run fleet.toml      watch, notify, report, refit: what is due, in this order
  0 * * * *  cd /srv/fleet && manyone run fleet.toml      in a crontab: every hour

The file::

  [data]                      paths are from the folder of this file on
  model = "fleet.manyone"     what manyone fit wrote
  state = "fleet.state"       made if missing
  table = "inbox/*.csv"       a table, or a pattern; files by name
  [watch]                     options of manyone watch: id, feedback, explain ...
  [notify]                    url = "$HOOK", cool_down = 60 (minutes)
  [report]                    out = "page.html", every_days = 0
  [refit]                     every_days = 7, train_days = 30

A run that was killed goes on where it was: run it again. One runs at a time. Days are
those of the rows. A refitted model takes the place of the one before only if it misses
no row called a fault. In the last week it may raise no more alarms than that one, nor
than its promise, but for chance. The last five models are in the folder MODEL.versions.
Exit codes: 0; 3 if something stands out; 2 bad input; 1 error in manyone.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Annotated

import typer

from manyone.cli.common import STANDS_OUT, InputError, working
from manyone.cli.config import WATCH, Settings, read_config, watch_context
from manyone.cli.models import about, load_model, refuse_same
from manyone.cli.notify import channel_of, warn_of_messages
from manyone.cli.score import report
from manyone.files import locked
from manyone.messages import warn_user
from manyone.tablefiles import check_place, stamp_of
from manyone.watch.incidents import incidents_of, outstanding
from manyone.watch.outbox import deliver, unsent_messages
from manyone.watch.refit import challenge, kept_rows_of, latest_day
from manyone.watch.store import Store, open_store, read_store
from manyone.watch.versions import complete, replace_model

_PATTERN = "*?["
# Names of notes in a store: the days of the last page and of the last tried refit.
_REPORTED = "reported_day"
_REFITTED = "refitted_day"
# Name of a note: the last row when a run ended.
_ENDED = "run_rows"
# Parts of a day that a schedule may be early.
_EARLY = 0.1


def run(
    config: Annotated[Path, typer.Argument(help="TOML file that says what to do.")],
) -> None:
    """Do what is due: watch, tell people, write the page, refit with a guard."""
    due = _Due(config, read_config(config))
    with locked(config, patience=0.0):
        if due.do():
            raise typer.Exit(STANDS_OUT)


class _Due:
    """The steps of a run."""

    def __init__(self, config: Path, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._model = config.parent / settings["data"]["model"]
        self._state = config.parent / settings["data"]["state"]
        # Refused before anything is read.
        watch_context(config, settings, self._model)
        if "notify" in settings:
            channel_of(settings["notify"]["url"], f"{config}, [notify] url")
        if "report" in settings:
            out = config.parent / settings["report"]["out"]
            check_place(f"{config}, [report] out:", out)
            refuse_same(
                f"{config}, [report] out:", out, config, self._model, self._state
            )

    def do(self) -> bool:
        """Do what is due; return whether something stands out."""
        if self._state.exists():
            with open_store(self._state) as store, about(self._state):
                complete(store, self._model)
        problems: list[Exception] = []
        stands_out = False
        for table in self._tables():
            try:
                stands_out |= self._watch(table)
            except (InputError, OSError, ValueError) as error:
                # The other tables are watched all the same.
                problems.append(error)
        if self._state.exists():
            if "notify" in self._settings:
                self._notify()
            if "report" in self._settings:
                self._report()
            if "refit" in self._settings and not problems:
                self._refit()
            stands_out |= self._stood_out()
        for problem in problems[1:]:
            warn_user(str(problem), UserWarning)
        if problems:
            raise problems[0]
        return stands_out

    def _stood_out(self) -> bool:
        """Whether an unanswered incident stands out since the last run that ended.

        A run that was killed has returned no exit code, so its rows count again.
        """
        with open_store(self._state) as store:
            joined = incidents_of(store, since=int(store.note(_ENDED) or 0))
            store.set_note(_ENDED, str(store.last_row))
            store.commit()
        return len(outstanding(joined)) > 0

    def _tables(self) -> list[Path]:
        """The table, or files of a pattern that have changed, by name."""
        text: str = self._settings["data"]["table"]
        folder = self._config.parent
        if not any(sign in text for sign in _PATTERN):
            return [folder / text]
        paths = sorted(Path(name) for name in glob.glob(str(folder / text)))
        if not paths:
            warn_user(f"{self._config}: no file is called {text} yet.", UserWarning)
            return []
        # Watch at least one, for answers, metrics and silent tasks.
        return [path for path in paths if self._is_new(path)] or paths[-1:]

    def _is_new(self, path: Path) -> bool:
        """Whether a file may have changed since it was read to its end."""
        if not self._state.exists():
            return True
        with read_store(self._state) as store:
            read = store.last_file(str(path.resolve()))
        return read is None or read.consumed.stamp != stamp_of(path.stat())

    def _watch(self, table: Path) -> bool:
        """Watch a table; return whether something stands out."""
        settings = dict(self._settings)
        options = dict(settings.get("watch", {}))
        answers = options.get("feedback")
        if answers is not None and not (self._config.parent / answers).exists():
            typer.echo(f"No answers yet: there is no {options.pop('feedback')}")
        settings["watch"] = options
        try:
            with watch_context(self._config, settings, table) as context:
                WATCH.invoke(context)
        except typer.Exit as end:
            return end.exit_code == STANDS_OUT
        return False

    def _notify(self) -> None:
        """Send the messages that wait."""
        with open_store(self._state) as store:
            deliver(store, channel_of(self._settings["notify"]["url"]))
            unsent = unsent_messages(store)
        warn_of_messages(unsent)

    def _is_due(self, store: Store, note: str, every_days: float) -> float | None:
        """The present day, if so many days have passed since a noted one."""
        day = latest_day(store)
        last = store.note(note)
        if day is None or (last and day < float(last) + every_days - _EARLY):
            return None
        return day

    def _report(self) -> None:
        """Write the page of the store if it is due."""
        settings = self._settings["report"]
        with open_store(self._state) as store:
            day = self._is_due(store, _REPORTED, settings.get("every_days", 0.0))
            if day is not None:
                out = self._config.parent / settings["out"]
                report(self._model, out=out, state=self._state)
                store.set_note(_REPORTED, repr(day))
                store.commit()

    def _refit(self) -> None:
        """Fit and judge a challenger if it is due."""
        settings = self._settings["refit"]
        with open_store(self._state) as store, about(self._state):
            last = store.note(_REFITTED)
            day = self._is_due(store, _REFITTED, settings.get("every_days", 7.0))
            if day is None:
                return
            with locked(self._model):  # so that nobody recalibrates it meanwhile
                champion = load_model(self._model)
                rows = kept_rows_of(store, champion)
                store.set_note(_REFITTED, repr(day))
                if last is None or rows is None:
                    # The first model is new: count days from now on.
                    store.commit()
                    return
                with working("refitting"):
                    days = settings.get("train_days", 30.0)
                    verdict = challenge(champion, rows, days)
                if verdict.challenger is not None:
                    replace_model(store, self._model, verdict.challenger, verdict.facts)
                store.commit()
        typer.echo(f"{verdict.sentence}.")
