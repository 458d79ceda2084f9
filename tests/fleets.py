"""Fleets for tests: Gaussian tasks as arrays, and machines as tables."""

import numpy as np
import pandas as pd

from manyone.datasets import make_fleet


def gaussian_tasks(
    sizes, n_features, *, apart=1.0, scales=None, shuffled=False, seed=0
):
    """Rows about the centres of their tasks, and the number of each row's task.

    Centres lie `apart` standard deviations of a row from 0; `scales`, a lowest and a
    highest one, gives each task and column a scale of its own.
    """
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(codes), n_features))
    if scales is not None:
        X *= rng.uniform(*scales, size=(len(sizes), n_features))[codes]
    X += apart * rng.normal(size=(len(sizes), n_features))[codes]
    order = rng.permutation(len(codes)) if shuffled else np.arange(len(codes))
    return X[order], codes[order]


def machine_tables(n_tasks=6, n_samples=25, n_features=4, *, seed=0, **options):
    """Normal rows of machines, and test rows with their faults, as frames of pandas.

    Columns are ``a``, ``b``, ... and ``machine``; those to test with have ``fault``
    too.
    """
    fleet = make_fleet(n_tasks, n_samples, n_features, random_state=seed, **options)
    names = list("abcdefghijklmnopqrstuvwxyz"[:n_features])
    train = pd.DataFrame(fleet.data, columns=names)
    train["machine"] = [f"m{task}" for task in fleet.task]
    test = pd.DataFrame(fleet.test_data, columns=names)
    test["machine"] = [f"m{task}" for task in fleet.test_task]
    test["fault"] = fleet.test_fault
    return train, test
