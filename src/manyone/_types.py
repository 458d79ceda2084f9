"""Names of the array types that the whole package speaks of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Rows = Any  # dense (n, d) float64 array or scipy.sparse CSR matrix
