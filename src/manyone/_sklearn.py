"""What scikit-learn keeps private and we need all the same, in one place."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._repr_html.estimator import _VisualBlock as VisualBlock
from sklearn.utils.metaestimators import _BaseComposition as BaseComposition
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

#: What each parameter of an estimator may be, as scikit-learn checks it.
Constraints = dict[str, list[object]]

__all__ = [
    "BaseComposition",
    "Constraints",
    "Interval",
    "StrOptions",
    "VisualBlock",
    "check_sample_weight",
    "fit_context",
    "rows_of",
    "validate_parameter_constraints",
]
