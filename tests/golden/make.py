"""Write the golden files of the present format: ``python tests/golden/make.py``.

Files of a format that has been released are never written again: a new format gets a
folder.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

import manyone
from manyone.files.archive import FORMAT

FOLDER = Path(__file__).parent


def rows():
    """Few rows of three tasks, in three digits, and the task of each."""
    rng = np.random.default_rng(0)
    task = np.repeat(["ada", "bea", "cleo"], [6, 4, 5])
    return rng.normal(size=(len(task), 2)).round(3), task


def as_table(X, task):
    """The rows as a table with a column of levels and a gap."""
    table = pd.DataFrame(X, columns=["flow", "heat"]).assign(machine=task)
    table["mode"] = np.where(table["flow"] > 0, "on", "off")
    table.loc[2, "heat"] = np.nan
    return table


def models(X, task):
    """A model of each form, by the name of its file."""
    combined = manyone.CombinedOneClass()
    pipeline = manyone.make_pipeline(StandardScaler(), manyone.JointOCKSR())
    table = manyone.TableModel("machine", method=manyone.IndependentOCKSR())
    return {
        "joint": manyone.JointOCKSR().fit(X, task=task),
        "combined": combined.fit(X, task=task),
        "pipeline": pipeline.fit(X, task=task),
        "table": table.fit(as_table(X, task)),
    }


def scores(model, X, task):
    """Scores of the rows, one for each."""
    if isinstance(model, manyone.TableModel):
        return model.score(as_table(X, task))["score"].tolist()
    return model.score_samples(X, task=task).tolist()


def main() -> None:
    """Write models, rows and the scores that are expected of them."""
    warnings.simplefilter("ignore")
    folder = FOLDER / str(FORMAT)
    folder.mkdir(exist_ok=True)
    X, task = rows()
    expected = {"X": X.tolist(), "task": task.tolist()}
    for name, model in models(X, task).items():
        manyone.save(model, folder / f"{name}.manyone")
        expected[name] = scores(model, X, task)
    text = json.dumps(expected, indent=1)
    (folder / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
