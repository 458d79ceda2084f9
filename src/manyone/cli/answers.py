"""Tables that people write for ``manyone watch``: answers and mutes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from manyone._types import Array
from manyone.cli.common import InputError
from manyone.cli.models import about, refuse_gaps
from manyone.messages import shortlist, warn_user
from manyone.tablefiles import read_table
from manyone.tables import TableModel
from manyone.tables.frames import as_table, read_yes_no, times_of
from manyone.watch.answers import Answer
from manyone.watch.incidents import alarms_of
from manyone.watch.mutes import Mute
from manyone.watch.store import Store

_WORDS = ("normal", "fault", "later")


@dataclass(frozen=True)
class FeedbackTable:
    """Words (normal, fault, later) by id, of rows or of incidents."""

    words: dict[str, str]
    of_incidents: bool = False

    def of_rows(self, store: Store) -> list[Answer]:
        """One answer for each row, also where it was given for an incident."""
        answers = []
        for named, word in self.words.items():
            ids = alarms_of(store, named) if self.of_incidents else [named]
            if not ids:
                raise InputError(
                    f"--feedback: {store.path} has no incident {named}. Messages and "
                    "the view incidents of the state have their ids."
                )
            answers += [Answer(row_id, word) for row_id in ids]
        return answers


def read_feedback(path: Path | None) -> FeedbackTable:
    """Answers in a table, one for each id, or for each incident."""
    if path is None:
        return FeedbackTable({})
    table = read_table(path, find=["normal"], need_rows=False)
    by_incident = "incident" in table.columns and "id" not in table.columns
    named = "incident" if by_incident else "id"
    column = "answer" if "answer" in table.columns else "normal"
    needs = "id (or incident), and normal (or answer)"
    _refuse_missing("--feedback", path, table, (named, column), needs)
    for name in (named, column):
        refuse_gaps(name, table, path)
    words = _answer_words(table, column, path)
    answers: dict[str, str] = {}
    for row, (row_id, word) in enumerate(
        zip(table[named].cast(str).to_list(), words, strict=True)
    ):
        if answers.setdefault(row_id, word) != word:
            raise InputError(
                f"{path}: row {row}: {named} {row_id} is called {answers[row_id]} and "
                f"{word}. Keep one."
            )
    return FeedbackTable(answers, by_incident)


def _answer_words(table: pl.DataFrame, column: str, path: Path) -> list[str]:
    """Normal, fault or later for each row."""
    if column == "normal":
        with about(path):
            normal = read_yes_no(as_table(table), "normal").tolist()
        return ["normal" if is_normal else "fault" for is_normal in normal]
    written = table["answer"].to_list()
    words = [str(word).strip().lower() for word in written]
    for row, word in enumerate(words):
        if word not in _WORDS:
            raise InputError(
                f"{path}: row {row}: the answer is {written[row]!r}. Write normal, "
                "fault or later."
            )
    return words


def read_mutes(path: Path, model: TableModel) -> list[Mute]:
    """Mutes in a table."""
    table = read_table(path, find=(), need_rows=False)
    needs = "entity; from, until and why may be left out"
    _refuse_missing("--mute", path, table, ("entity",), needs)
    names = [name or None for name in table["entity"].cast(str).to_list()]
    why = ["muted"] * len(table)
    if "why" in table.columns:
        why = [text or "muted" for text in table["why"].cast(str).to_list()]
    task_names = {str(label) for label in model.tasks_.tolist()}
    unknown = [name for name in names if name is not None and name not in task_names]
    if unknown:
        warn_user(f"{path}: the model does not know {shortlist(unknown, 3)}.")
    begin = _limits(table, "from", -np.inf, path)
    end = _limits(table, "until", np.inf, path)
    empty = np.flatnonzero(end <= begin)
    if len(empty):
        raise InputError(
            f"{path}: row {empty[0]}: until is not after from, so nothing would be "
            "muted. Give until the first time that is not muted any more."
        )
    lines = zip(names, begin.tolist(), end.tolist(), why, strict=True)
    return [Mute._make(line) for line in lines]


def _refuse_missing(
    option: str, path: Path, table: pl.DataFrame, names: Iterable[str], needs: str
) -> None:
    """Refuse a table without columns that it needs."""
    for name in names:
        if name not in table.columns:
            raise InputError(
                f"{option} {path}: there is no column {name}. It needs {needs}. The "
                f"columns are {shortlist(table.columns, 8)}."
            )


def _limits(table: pl.DataFrame, name: str, unlimited: float, path: Path) -> Array:
    """Times of a column as numbers; infinite where there is none."""
    if name not in table.columns:
        return np.full(len(table), unlimited)
    values = times_of(as_table(table).get_column(name)).values
    for row, text in enumerate(table[name].to_list()):
        if text is not None and np.isnan(values[row]):
            raise InputError(
                f"{path}: row {row}: {text!r} in the column {name} is no time. "
                "Write it as 2026-01-31 12:00."
            )
    return np.where(np.isnan(values), unlimited, values)
