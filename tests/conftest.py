"""Shared data. Scikit-learn's array-API checks need their switch before scipy is imported."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def fleet():
    """Five tasks of different sizes in four dimensions: (X, task)."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(5), [12, 7, 20, 9, 12])
    X = rng.normal(size=(len(codes), 4)) + 1.5 * rng.normal(size=(5, 4))[codes]
    order = rng.permutation(len(codes))
    return X[order], np.array(["ada", "bea", "cleo", "dora", "eve"])[codes][order]


@pytest.fixture
def data_home():
    """Folder with the prepared real data, or a visible skip."""
    home = Path(os.environ.get("MANYONE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (home / "mnist.npz").exists():
        pytest.skip(f"no real data: set MANYONE_DATA, or put mnist.npz into {home}")
    return home
