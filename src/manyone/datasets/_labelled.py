"""Entities with labelled faults of their own: servers, products, valves."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from manyone.datasets._cache import (
    PathLike,
    bunch,
    choose,
    fetch,
    loader,
    numbered,
)


@loader
def load_servers(*, split: str = "train", data_home: PathLike = None) -> Bunch:
    """Load eight servers of the Server Machine Dataset: 38 metrics, every fifth minute.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        The first half of the time, all of it normal, or the labelled second half.
    data_home : path-like, optional
        Folder with ``smd8_servers.npz``; default ``$MANYONE_DATA``, then the user's
        cache. This file is not downloaded.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (n, 38) float64, in the order of time within each server;
        ``feature_names`` ``"m1"`` to ``"m38"``; ``target`` (n,) 0 to 7,
        ``target_names`` the servers; ``label`` (n,) True where the row is anomalous
        (none of the training rows is); ``DESCR``.
    """
    choose("split", split, ("train", "test"))
    arrays = fetch("servers", None, data_home, download=False)
    keys = [key for key in arrays if key.endswith("/train")]
    servers = sorted(key.removesuffix("/train") for key in keys)
    series = [arrays[f"{server}/{split}"] for server in servers]
    data = np.concatenate(series)
    label = np.zeros(len(data), dtype=bool)
    if split == "test":
        labels = [arrays[f"{server}/label"] for server in servers]
        label = np.concatenate(labels).astype(bool)
    return bunch(
        "servers",
        data,
        np.repeat(np.arange(len(servers)), [len(rows) for rows in series]),
        servers,
        feature_names=np.array(numbered("m", 38)),
        label=label,
    )


@loader
def load_products(*, data_home: PathLike = None) -> Bunch:
    """Load MVTec AD as numbers: 15 products, intact and defective, 512 features each.

    Parameters
    ----------
    data_home : path-like, optional
        Folder with ``mvtec_resnet18.npz``; default ``$MANYONE_DATA``, then the user's
        cache. This file is not downloaded.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (5354, 512) float64, what a ResNet-18 makes of the whole image;
        ``target`` (5354,) 0 to 14, ``target_names`` the products; ``label`` (5354,)
        True where the product is defective; ``DESCR``.
    """
    arrays = fetch("products", None, data_home, download=False)
    names, target = np.unique(arrays["product"], return_inverse=True)
    return bunch("products", arrays["X"], target, names, label=arrays["defect"])


@loader
def load_valves(*, data_home: PathLike = None) -> Bunch:
    """Load SKAB: 34 runs of a water circuit in which valves close or other parts fail.

    Parameters
    ----------
    data_home : path-like, optional
        Folder with ``skab_valves.npz``; default ``$MANYONE_DATA``, then the user's
        cache. This file is not downloaded.
    return_X_y : bool, default=False
        Return ``(data, target)`` only.

    Returns
    -------
    Bunch
        ``data`` (37401, 8) float64, the sensors, one row a second, in the order of time
        within each run; ``feature_names`` (8,); ``target`` (37401,) 0 to 33,
        ``target_names`` the runs; ``label`` (37401,) True where the row is anomalous;
        ``time`` (37401,) seconds since 1970; ``DESCR``.
    """
    arrays = fetch("valves", None, data_home, download=False)
    names, target = np.unique(arrays["run"], return_inverse=True)
    return bunch(
        "valves",
        arrays["X"],
        target,
        names,
        feature_names=arrays["columns"],
        label=arrays["anomaly"],
        time=arrays["time"],
    )
