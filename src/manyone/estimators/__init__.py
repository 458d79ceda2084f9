"""One thin scikit-learn estimator per method."""

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.linear import LinearOCKSR
from manyone.estimators.output_kernel import OutputKernelOCKSR

#: Every method under the name it has in the paper (or in the paper it comes from).
METHODS: dict[str, type[MultiTaskOneClass]] = {
    "OCKSR": IndependentOCKSR,
    "C-OCKSR": JointOCKSR,
    "OCKSR-L": LinearOCKSR,
    "OKL": OutputKernelOCKSR,
}

__all__ = ["METHODS", "IndependentOCKSR", "JointOCKSR", "MultiTaskOneClass", "OutputKernelOCKSR"]
