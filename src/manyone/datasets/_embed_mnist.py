"""Make the embedded subset of MNIST: ``python -m manyone.datasets._embed_mnist path/mnist.npz``.

The subset holds the first 600 images of each digit in the order of the training file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from manyone.datasets._images import SUBSET

PER_DIGIT = 600


def embed(full: Path, subset: Path = SUBSET) -> None:
    """Write the subset of the prepared file `full` to `subset`."""
    with np.load(full, allow_pickle=False) as archive:
        images, digits = archive["x_train"], archive["y_train"]
    index = np.sort(
        np.concatenate([np.flatnonzero(digits == d)[:PER_DIGIT] for d in range(10)])
    ).astype(np.int32)
    np.savez_compressed(subset, images=images[index], digits=digits[index], index=index)


if __name__ == "__main__":
    embed(Path(sys.argv[1]))
