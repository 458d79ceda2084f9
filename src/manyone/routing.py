"""Metadata requests that can be saved."""

from __future__ import annotations

from typing import Any

from sklearn.utils.metadata_routing import MetadataRequest


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
