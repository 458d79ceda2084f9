"""Answers of people about rows: kept in a store, learned once the rows have come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from manyone._types import Codes
from manyone.watch.database import sound
from manyone.watch.memory import FAULT, NORMAL, ROW
from manyone.watch.model import estimator_of
from manyone.watch.monitor import Monitor
from manyone.watch.store import MODEL_SINCE, Store, codes_by_name, now_text

# Name of a note: the last row before the first answer of all.
_GUARDED_UNTIL = "guarded_until"


class Answer(NamedTuple):
    """An answer about a row: normal, fault or later."""

    row_id: str
    answer: str


def add_answers(store: Store, answers: Iterable[Answer]) -> int:
    """Keep answers that differ from the last one about their row; return how many."""
    new = 0
    for row_id, answer in answers:
        cursor = store.execute(
            "INSERT INTO answer (id, answer, given) SELECT :id, :answer, :now "
            "WHERE :answer IS NOT (SELECT answer FROM answer WHERE id = :id "
            "ORDER BY number DESC LIMIT 1)",
            {"id": row_id, "answer": answer, "now": now_text()},
        )
        new += cursor.rowcount
    return new


def without_rows(store: Store, answers: Sequence[Answer]) -> list[str]:
    """Ids of answers whose rows have not come."""
    cursor = store.execute(
        "SELECT value FROM json_each(?) WHERE value NOT IN "
        "(SELECT id FROM judged_row WHERE id = value)",
        [json.dumps([answer.row_id for answer in answers])],
    )
    return [row_id for (row_id,) in cursor]


def use_answers(store: Store, monitor: Monitor) -> int:
    """Let the monitor learn answers whose rows have come; return their number.

    A row that was called normal is no longer evidence of an incident that may go on.
    After a fault the thresholds of its task are learned anew, as if it had not come.
    """
    unused = store.execute(
        "SELECT answer.number, answer.id, answer.answer, task, judged_row.number "
        "FROM answer JOIN judged_row ON judged_row.id = answer.id "
        "WHERE used = 0 ORDER BY answer.number"
    ).fetchall()
    since = int(store.note(MODEL_SINCE) or 0)
    if unused and not monitor.state.answers.any():
        # Up to this row thresholds were guarded, see `judge_and_learn`.
        store.set_note(_GUARDED_UNTIL, str(store.last_row))
    tasks_with_faults: set[str | None] = set()
    for number, row_id, answer, task, row in unused:
        store.execute("UPDATE answer SET used = 1 WHERE number = ?", [number])
        if answer == "later":
            continue
        is_normal = answer == "normal"
        if row > since:
            monitor.feedback([row_id], normal=is_normal)
        else:
            # The score is of another model: this one does not learn from it.
            kind = NORMAL if is_normal else FAULT
            monitor.state.memory.correct(row_id, float(is_normal), kind)
        if row > since and not is_normal:
            tasks_with_faults.add(task)
    codes = codes_by_name(estimator_of(monitor.model).tasks_.tolist())
    changed = [codes[task] for task in tasks_with_faults if task in codes]
    if changed:
        _forget_faults(store, monitor, np.sort(changed), since)
    return len(unused)


def _forget_faults(store: Store, monitor: Monitor, tasks: Codes, since: int) -> None:
    """Let tasks learn their thresholds anew, from their rows after `since`."""
    names = [str(task) for task in estimator_of(monitor.model).tasks_[tasks].tolist()]
    lines = store.execute(
        "SELECT number, task, score, answer FROM judged_row WHERE answer <> 0 "
        "AND number > ? AND task IN (SELECT value FROM json_each(?)) ORDER BY number",
        [since, json.dumps(names)],
    ).fetchall()
    code_of = dict(zip(names, tasks.tolist(), strict=True))
    with sound(store.path):
        rows = np.zeros(len(lines), dtype=ROW)
        rows["task"] = [code_of[task] for _, task, _, _ in lines]
        rows["score"] = [score for _, _, score, _ in lines]
        rows["answer"] = [answer for _, _, _, answer in lines]
        guarded_until = int(store.note(_GUARDED_UNTIL) or 0)
    numbers = np.array([number for number, *_ in lines], dtype=np.intp)
    monitor.relearn(tasks, rows, numbers <= guarded_until)
