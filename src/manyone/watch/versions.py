"""Versions of a model: the last ones, and facts about the rows of each.

The models of ``fleet.manyone`` are in the folder ``fleet.manyone.versions``, as
``0001.manyone`` and ``0001.json``, from the first to the one in use.

A new model comes into use in three steps: it is written as a version, the store notes
its number, and then its file replaces that of the model, and the store starts anew. If
a process is killed before the last step, the note stays, and the next process does that
step.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from manyone.files import locked, write_atomically
from manyone.model_files import load, save
from manyone.watch.refit import Facts, kept_rows_of

if TYPE_CHECKING:
    from manyone.tables import TableModel
    from manyone.watch.store import Store

#: So many of the last versions stay.
KEPT = 5
# Names of notes in a store: the last version, and one that is coming into use.
_LAST = "version"
_COMING = "version_coming"


def replace_model(
    store: Store, path: Path, challenger: TableModel, facts: Facts
) -> None:
    """Replace the model in a file by another, and make both of them versions.

    The caller has locked the file since it read the model that the other one was fitted
    after. So no change of the model by another process is lost.

    Parameters
    ----------
    store : Store
        Of the ``manyone watch`` that uses the file.
    path : Path
        File of the model in use.
    challenger : TableModel
    facts : dict
        About its rows, for the file beside it.
    """
    folder = _folder(path)
    folder.mkdir(exist_ok=True)
    last = int(store.note(_LAST) or 0)
    if not last:
        last = 1
        first = _version(path, last)
        write_atomically(first, path.read_bytes())
        _write_facts(first, {"fitted": "by manyone fit, before the first refit"})
    new = _version(path, last + 1)
    save(challenger, new)
    _write_facts(new, facts | {"replaces": _version(path, last).name})
    store.set_note(_COMING, str(last + 1))
    store.commit()
    _bring_into_use(store, path, last + 1)


def complete(store: Store, path: Path) -> bool:
    """Do the last step that a killed process has left; whether there was one."""
    coming = store.note(_COMING)
    if not coming:
        return False
    with locked(path):
        _bring_into_use(store, path, int(coming))
    return True


def _bring_into_use(store: Store, path: Path, number: int) -> None:
    """Replace the model in a locked file by a version, and start its store anew."""
    write_atomically(path, _version(path, number).read_bytes())
    model = load(path)
    rows = kept_rows_of(store, model)
    past = None if rows is None else model.read(rows.table)[1]
    store.start_again(model, past)
    store.set_note(_LAST, str(number))
    store.set_note(_COMING, "")
    store.commit()
    for old in sorted(_folder(path).glob("*.manyone"))[:-KEPT]:
        old.with_suffix(".json").unlink(missing_ok=True)
        old.unlink()


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.versions")


def _version(path: Path, number: int) -> Path:
    return _folder(path) / f"{number:04}.manyone"


def _write_facts(version: Path, facts: Facts) -> None:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"model": version.name, "made": made, **facts}, indent=2)
    write_atomically(version.with_suffix(".json"), f"{text}\n".encode())
