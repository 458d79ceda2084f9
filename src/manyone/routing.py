"""Who asks for the task: metadata requests that can be saved, and steps that get it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from manyone._types import Array
from manyone.messages import warn_user


class RoutingState:
    """State with metadata requests as plain words.

    ``set_fit_request`` and the like leave an object that refers back to its estimator, which a file
    without code cannot hold. Put this class before :class:`sklearn.base.BaseEstimator`.
    """

    _metadata_request: MetadataRequest

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, copying and saving."""
        state: dict[str, Any] = super().__getstate__().copy()  # type: ignore[attr-defined]
        if "_metadata_request" in state:
            state["_metadata_request"] = state["_metadata_request"]._serialize()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, with metadata requests rebuilt."""
        state = dict(state)
        words = state.pop("_metadata_request", None)
        super().__setstate__(state)  # type: ignore[misc]
        if words is not None:
            self._metadata_request = MetadataRequest(owner=self)
            for method, params in words.items():
                for param, alias in params.items():
                    getattr(self._metadata_request, method).add_request(param=param, alias=alias)


def asked(step: Any, method: str, task: Any) -> dict[str, Any]:
    """The task, for a transformer that asks for it."""
    routing = get_routing_for_object(step)
    if isinstance(routing, MetadataRequest):
        asked = getattr(routing, method).requests
    else:  # steps inside, as of a ColumnTransformer, have to ask for it
        asked = routing.consumes(method, {"task"})
    return {"task": task} if task is not None and "task" in asked else {}


def undone(steps: list[tuple[str, Any]], Z: Array, task: NDArray[Any]) -> tuple[Array, int]:
    """Rows (n, d) before the steps that can be undone, and the number of steps before those."""
    for number in range(len(steps), 0, -1):
        name, step = steps[number - 1]
        rows, why = _undo(step, Z, task)
        if why:
            warn_user(
                f"{name} cannot be undone ({why}): explain() speaks of the columns that it makes.",
                UserWarning,
            )
            return Z, number
        Z = rows
    return Z, 0


def _undo(step: Any, Z: Array, task: NDArray[Any]) -> tuple[Array, str]:
    """Rows (n, d) that a transformer makes into others (n, d), or why it cannot be undone."""
    if not hasattr(step, "inverse_transform"):
        return Z, "it has no inverse_transform"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that these rows have no names
            rows = step.inverse_transform(Z, **asked(step, "inverse_transform", task))
            again = np.asarray(step.transform(rows, **asked(step, "transform", task)))
    except (NotImplementedError, ValueError) as error:  # as transformers say so
        return Z, str(error).rstrip(".")
    if np.shape(rows) != Z.shape or not np.allclose(again, Z, atol=1e-6 * np.ptp(Z)):
        return Z, "other rows come back"
    return np.asarray(rows, dtype=np.float64), ""
