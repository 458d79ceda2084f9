"""Metadata requests: state that files can hold, and what transformers request."""

from __future__ import annotations

from typing import Any, Protocol

from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object


class RoutingState:
    """State with metadata requests as plain words.

    ``set_fit_request`` and the like make an object that refers back to its estimator,
    and files hold no cycles. Put this class before
    :class:`sklearn.base.BaseEstimator`.
    """

    _metadata_request: MetadataRequest

    def __getstate__(self) -> dict[str, object]:
        """State for pickling, copying and saving."""
        inherited: Any = super().__getstate__()
        state: dict[str, Any] = inherited.copy()
        if "_metadata_request" in state:
            state["_metadata_request"] = state["_metadata_request"]._serialize()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and make metadata requests again."""
        state = dict(state)
        words = state.pop("_metadata_request", None)
        super().__setstate__(state)  # type: ignore[misc]
        if words is not None:
            self._metadata_request = MetadataRequest(owner=self)
            for method, params in words.items():
                for param, alias in params.items():
                    getattr(self._metadata_request, method).add_request(
                        param=param, alias=alias
                    )


class Transformer(Protocol):
    """A step of a pipeline, of whatever package."""

    def fit(self, X: object, **roles: object) -> object:
        """Learn from rows."""

    def transform(self, X: object, **roles: object) -> object:
        """Rows made into others."""


def asked(step: object, method: str, **roles: object) -> dict[str, object]:
    """Those of the labels and weights of rows that a transformer's method takes."""
    routing = get_routing_for_object(step)
    if isinstance(routing, MetadataRequest):
        taken = getattr(routing, method).requests
    else:  # inner steps, as of a ColumnTransformer, have to request them
        taken = routing.consumes(method, roles.keys())
    return {
        name: value
        for name, value in roles.items()
        if value is not None and name in taken
    }
