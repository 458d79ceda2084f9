"""Types that the whole package uses."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Labels = NDArray[Any]  # of tasks: text, numbers, or objects that can be hashed
Anomalies = Literal["any", "strangers", "faults"]
Criterion = Literal["unseen", "seen", "faults"]
#: How rows were left out of the model that scores them.
LeftOutSource = Literal[
    "leave-one-out", "leave-group-out", "folds", "rows not drawn", "held-out"
]
Metric = Literal["plain", "whitened", "adaptive"]
Rows = Any  # dense (n, d) float64 array or scipy.sparse CSR matrix
