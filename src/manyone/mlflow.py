"""Models in MLflow, as files of :func:`manyone.save`, without pickle and code.

>>> from manyone.mlflow import log_model  # doctest: +SKIP
>>> log_model(model, name="alarms", input_example=table.head())  # doctest: +SKIP

``mlflow.pyfunc.load_model`` then gives a model whose ``predict`` takes a data frame and
returns what :meth:`manyone.TableModel.score` returns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyone import __version__, load, save

if TYPE_CHECKING:
    from manyone.tables import TableModel

_FILE = "model.manyone"


class ScoredTables:
    """What MLflow calls: a data frame in, a data frame of scores out."""

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, table: Any, params: dict[str, Any] | None = None) -> Any:
        """Score rows; `params` are those of `TableModel.score`."""
        return self.model.score(table, **(params or {}))


def log_model(model: TableModel, *, name: str, **options: object) -> Any:
    """Log a fitted model to the run of MLflow that is active.

    Parameters
    ----------
    model : TableModel
        Fitted.
    name : str
        Of the artifact.
    **options
        Passed on to ``mlflow.pyfunc.log_model``: ``input_example``, ``signature``,
        ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    import mlflow.pyfunc

    options.setdefault("pip_requirements", [f"manyone[cli]=={__version__}"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _FILE
        save(model, path)
        return mlflow.pyfunc.log_model(
            name=name, loader_module=__name__, data_path=str(path), **options
        )


def _load_pyfunc(path: str) -> ScoredTables:
    """What MLflow calls to load the artifact: the file, or the folder that holds it."""
    place = Path(path)
    return ScoredTables(load(place / _FILE if place.is_dir() else place))
