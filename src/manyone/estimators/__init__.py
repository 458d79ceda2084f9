"""One thin scikit-learn estimator per method; ``METHODS`` has all of them."""

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.registry import METHODS

__all__ = ["METHODS", "MultiTaskOneClass"]
