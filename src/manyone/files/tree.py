"""Values as a tree of JSON beside a list of arrays, and back.

What JSON has stands for itself. The rest is an object with one key:
``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"array": 3}`` and so on.
Each registered value is listed once, after the values that it holds. So a tree has no
cycles, and shared values stay shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from manyone.files.errors import ModelFileError
from manyone.files.kinds import AnyArray
from manyone.files.registry import entry_named, entry_of
from manyone.files.shapes import Sizes

#: What JSON has.
Json = Any
_SPARSE = {
    "csr_array": sparse.csr_array,
    "csc_array": sparse.csc_array,
    "csr_matrix": sparse.csr_matrix,
}
# Most values that a walk through a value may meet; shared ones count each time.
_MOST_VALUES = 2**22
_TWISTER = 624  # numbers in the state of a Mersenne twister


@dataclass(eq=False)
class Writer:
    """Turns values into a tree.

    Attributes
    ----------
    arrays : list of ndarray
    objects : list
        Registered values, as ``{"type": name, "fields": {...}}``.
    foreign : list
        Estimators of other packages, which the tree cannot hold.
    """

    arrays: list[AnyArray] = field(default_factory=list)
    objects: list[Json] = field(default_factory=list)
    foreign: list[object] = field(default_factory=list)
    # Trees of values that were met, by identity. The list keeps these values alive, so
    # that no other value gets the same identity.
    _places: dict[int, Json] = field(default_factory=dict)
    _seen: list[object] = field(default_factory=list)
    # Fields on the way to the present value, for messages.
    _fields: list[str] = field(default_factory=list)

    def tree(self, value: Any) -> Json:
        """The tree of a value.

        Raises
        ------
        ValueError
            If a file cannot hold it.
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) is list:
            return [self.tree(item) for item in value]
        if type(value) is tuple:
            return {"tuple": [self.tree(item) for item in value]}
        if type(value) is dict:
            pairs = [[self.tree(key), self.tree(item)] for key, item in value.items()]
            return {"dict": pairs}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if id(value) not in self._places:
            self._seen.append(value)
            self._places[id(value)] = self._once(value)
        return self._places[id(value)]

    def _once(self, value: Any) -> Json:
        """The tree of a value that may occur several times."""
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                items = [self.tree(item) for item in value.ravel().tolist()]
                return {"objects": [list(value.shape), items]}
            return {"array": self._array(value)}
        name = type(value).__name__
        if sparse.issparse(value) and name in _SPARSE:
            parts = (value.data, value.indices, value.indptr)
            numbers = [self._array(part) for part in parts]
            return {"sparse": [name, [int(size) for size in value.shape], *numbers]}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.tree(list(value.get_state()))}
        entry = entry_of(type(value))
        if entry is not None:
            state = entry.state(value)
            fields = {}
            for key, item in state.items():
                self._fields.append(f"{key} of {entry.name}")
                fields[key] = self.tree(item)
                self._fields.pop()
            self.objects.append({"type": entry.name, "fields": fields})
            return {"object": len(self.objects) - 1}
        if hasattr(value, "get_params") and not isinstance(value, type):
            self.foreign.append(value)
            return {"foreign": len(self.foreign) - 1}
        holder = self._fields[-1] if self._fields else "it"
        raise ValueError(f"{holder} holds a {_described(value)}")

    def _array(self, value: AnyArray) -> int:
        """Place of an array in the list."""
        self.arrays.append(value)
        return len(self.arrays) - 1


@dataclass(eq=False)
class Reader:
    """Turns a tree into values, and checks each of them.

    Parameters
    ----------
    arrays : list of ndarray
    foreign : list
        Estimators of other packages.
    """

    arrays: list[AnyArray]
    foreign: list[object]
    _objects: list[object] = field(default_factory=list)
    _sizes: dict[int, Sizes] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def add(self, node: Json) -> None:
        """Build the next registered value.

        Parameters
        ----------
        node : dict
            ``{"type": name, "fields": {...}}``; it may refer to earlier values only.
        """
        entry = entry_named(node["type"])
        state = {name: self.value(item) for name, item in node["fields"].items()}
        value = entry.built(state)
        held = {
            name: [id(inner) for inner in self._registered(item)]
            for name, item in state.items()
        }
        count = 1 + sum(self._counts[key] for keys in held.values() for key in keys)
        if count > _MOST_VALUES:
            raise ModelFileError(f"it holds more than {_MOST_VALUES} values")
        inner = {
            name: [self._sizes[key] for key in keys] for name, keys in held.items()
        }
        self._sizes[id(value)] = entry.sizes(value, state, inner)
        self._counts[id(value)] = count
        self._objects.append(value)

    def value(self, tree: Json) -> Any:
        """The value of a tree."""
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        ((tag, content),) = tree.items()
        if tag == "array":
            return self.arrays[_place(content)]
        if tag == "object":
            return self._objects[_place(content)]
        if tag == "tuple":
            return tuple(self.value(item) for item in content)
        if tag == "dict":
            return {self.value(key): self.value(item) for key, item in content}
        if tag == "scalar":
            return self.arrays[_place(content)].reshape(())[()]
        if tag == "objects":
            return self._object_array(*content)
        if tag == "sparse":
            return self._sparse(*content)
        if tag == "foreign":
            return self.foreign[_place(content)]
        if tag == "random_state":
            return self._random_state(*content)
        raise ModelFileError(f"it has a value of the unknown kind {tag!r}")

    def _object_array(self, shape: list[int], items: list[Json]) -> AnyArray:
        array = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):
            array[place] = self.value(item)
        return array.reshape(shape)

    def _sparse(
        self, name: str, shape: list[int], data: int, indices: int, indptr: int
    ) -> sparse.csr_array:
        """A sparse array, after a full check of its indices."""
        parts = [self.arrays[_place(number)] for number in (data, indices, indptr)]
        rows, columns = shape
        if not (isinstance(rows, int) and isinstance(columns, int)):
            raise ModelFileError("a sparse array has no whole numbers for its shape")
        if any(part.dtype.kind != "i" or part.ndim != 1 for part in parts[1:]):
            raise ModelFileError("a sparse array has indices that are no integers")
        if parts[0].dtype != np.float64:
            raise ModelFileError("a sparse array has values that are no float64")
        array = _SPARSE[name](tuple(parts), shape=(rows, columns))
        array.check_format(full_check=True)
        return array

    def _random_state(
        self, kind: str, key: Json, position: int, has_gauss: int, gauss: float
    ) -> np.random.RandomState:
        numbers = self.value(key)
        if numbers.shape != (_TWISTER,) or not 0 <= position <= _TWISTER:
            raise ModelFileError("a random state is not that of a Mersenne twister")
        state = np.random.RandomState(0)
        state.set_state((kind, numbers, position, has_gauss, gauss))
        return state

    def _registered(self, value: object) -> Iterator[object]:
        """The registered values in a value: itself, or in lists, tuples and dicts."""
        if isinstance(value, list | tuple):
            for item in value:
                yield from self._registered(item)
        elif isinstance(value, dict):
            yield from self._registered(list(value.values()))
        elif id(value) in self._counts:
            yield value


def _place(number: Json) -> int:
    """A place in a list; raises if it is negative, or no whole number."""
    if type(number) is not int or number < 0:
        raise ModelFileError(f"{number!r} is no place in a list")
    return number


def _described(value: object) -> str:
    """Type of a value, and the name of a function or a class."""
    kind = type(value)
    text = f"{kind.__module__}.{kind.__qualname__}"
    name = getattr(value, "__qualname__", None)
    return text if name is None else f"{text}, {name}"
