"""Data of many related tasks: digits, objects, faces, typists, engines, servers...

``load_mnist()`` is embedded and `make_fleet` is synthetic; the others are read from a
data folder (``data_home``, ``$MANYONE_DATA`` or the user's cache) or made from their
originals.
"""

from manyone.datasets._cache import DatasetNotFoundError
from manyone.datasets._fleet import make_fleet
from manyone.datasets._images import load_coil100, load_faces, load_mnist
from manyone.datasets._labelled import load_products, load_servers, load_valves
from manyone.datasets._tables import load_keystrokes, load_telemetry, load_turbofan

__all__ = [
    "DatasetNotFoundError",
    "load_coil100",
    "load_faces",
    "load_keystrokes",
    "load_mnist",
    "load_products",
    "load_servers",
    "load_telemetry",
    "load_turbofan",
    "load_valves",
    "make_fleet",
]
