"""Every method under the name it has in the paper (or in the paper it comes from)."""

from manyone.estimators.base import MultiTaskOneClass
from manyone.estimators.independent import IndependentOCKSR
from manyone.estimators.joint import JointOCKSR
from manyone.estimators.knfst import KNFST
from manyone.estimators.linear import LinearOCKSR
from manyone.estimators.morvr import MORVR
from manyone.estimators.nonlinear import NonlinearOCKSR
from manyone.estimators.output_kernel import OutputKernelOCKSR
from manyone.estimators.sparse import SparseOCKSR
from manyone.estimators.svdd import SVDD
from manyone.estimators.task_svm import MultiTaskOneClassSVM

METHODS: dict[str, type[MultiTaskOneClass]] = {
    "OCKSR": IndependentOCKSR,
    "C-OCKSR": JointOCKSR,
    "OCKSR-L": LinearOCKSR,
    "OCKSR-N": NonlinearOCKSR,
    "OCKSR-NS": SparseOCKSR,
    "OKL": OutputKernelOCKSR,
    "SVDD": SVDD,
    "MORVR": MORVR,
    "MT-OCSVM": MultiTaskOneClassSVM,
    "KNFST": KNFST,
}
