"""One thin scikit-learn estimator per method; ``METHODS`` has all of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyone.estimators.base import MultiTaskOneClass as MultiTaskOneClass
    from manyone.estimators.registry import METHODS as METHODS

# Imported when they are first asked for: one method can do without the others.
_HOMES = {"METHODS": "registry", "MultiTaskOneClass": "base"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
