"""Names by which files know our types: a class may move, its files still load."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import isclass
from typing import Any, ClassVar, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from manyone.files import shapes
from manyone.files.errors import ModelFileError
from manyone.files.kinds import ROWS, Hint, fits
from manyone.files.shapes import Sizes

#: Fields of a value by name.
State = dict[str, Any]
#: A further check of a loaded value and the known sizes, to which it may add.
Check = Callable[[Any, Sizes], None]


@dataclass(frozen=True, eq=False)
class Entry:
    """How files hold values of a type.

    Parameters
    ----------
    name : str
        In files.
    cls : type
        A dataclass, or an estimator.
    hints : dict
        Annotations of attributes that the class does not annotate, or not strictly.
    rules : dict
        See :mod:`manyone.files.shapes`.
    fitted : set of str
        Attributes that a fitted estimator has all of, and others none.
    check : callable or None
    """

    name: str
    cls: type
    hints: Mapping[str, Hint]
    rules: Mapping[str, str]
    fitted: frozenset[str]
    check: Check | None

    @cached_property
    def is_estimator(self) -> bool:
        """Whether the state has parameters, and attributes that a fit has added."""
        return hasattr(self.cls, "get_params")

    @cached_property
    def required(self) -> frozenset[str]:
        """Fields that every value has: those of a dataclass, or parameters."""
        if dataclasses.is_dataclass(self.cls):
            return frozenset(field.name for field in dataclasses.fields(self.cls))
        return frozenset(self.cls._get_param_names())  # type: ignore[attr-defined]

    @cached_property
    def kinds(self) -> dict[str, Hint]:
        """Annotation of every attribute that a file may hold."""
        # Some names in annotations are imported for type checkers only.
        types = [*_BY_TYPE, *filter(isclass, self.hints.values())]
        names = {cls.__name__: cls for cls in types} | {"Rows": ROWS}
        annotated = get_type_hints(self.cls, None, names)
        kinds = {
            name: hint
            for name, hint in annotated.items()
            if get_origin(hint) is not ClassVar
        }
        return {**kinds, **self.hints}

    def state(self, value: Any) -> State:
        """Fields of a value by name, as a file holds them.

        Raises
        ------
        ValueError
            If an estimator has an attribute that is not registered.
        """
        state: State = value.__getstate__()
        if not self.is_estimator:
            return {name: state[name] for name in sorted(self.required)}
        unknown = sorted(set(state) - set(self.kinds))
        if unknown:
            raise ValueError(
                f"it has the attribute {unknown[0]!r}, which files of a {self.name} do "
                "not have. Delete it, or register it with the type"
            )
        return state

    def built(self, state: State) -> object:
        """The value with these fields; each is compared with its annotation."""
        names = set(state)
        if not self.required <= names or not names <= set(self.kinds):
            wrong = sorted((self.required - names) | (names - set(self.kinds)))
            raise ModelFileError(f"{self.name} has other fields: {', '.join(wrong)}")
        for name, item in state.items():
            if not fits(item, self.kinds[name]):
                kind = type(item).__name__
                raise ModelFileError(f"{self.name}.{name} may not be a {kind}")
        if 0 < len(self.fitted & names) < len(self.fitted):
            raise ModelFileError(f"{self.name} is fitted in part")
        if not self.is_estimator:
            return self.cls(**state)
        value: Any = object.__new__(self.cls)
        value.__setstate__(state)
        return value

    def sizes(
        self, value: object, state: State, inner: Mapping[str, Iterable[Sizes]]
    ) -> Sizes:
        """Sizes of the arrays in a value; raises if they do not agree.

        Parameters
        ----------
        value : object
        state : dict
            Its fields.
        inner : dict
            Sizes of the registered values that each field holds.
        """
        sizes: Sizes = {}
        for name, item in state.items():
            rule = self.rules.get(name)
            label = f"{self.name}.{name}"
            is_array = isinstance(item, np.ndarray) or sparse.issparse(item)
            if rule is not None and is_array:
                shapes.check_array(label, item.shape, rule, sizes)
            elif rule is not None and rule.startswith("=") and item is not None:
                shapes.check_integer(label, item, rule, sizes)
            shared = shapes.SHARED if rule is None else rule
            for inner_sizes in inner[name]:
                shapes.share(label, inner_sizes, shared, sizes)
        for name, rule in self.rules.items():
            item = state.get(name)
            if isinstance(item, np.ndarray):
                shapes.check_numbers(f"{self.name}.{name}", item, rule, sizes)
        if self.check is not None:
            self.check(value, sizes)
        return sizes


_BY_NAME: dict[str, Entry] = {}
_BY_TYPE: dict[type, Entry] = {}


def register(
    cls: type,
    rules: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    hints: Mapping[str, Hint] | None = None,
    fitted: Iterable[str] = (),
    check: Check | None = None,
) -> None:
    """Let files hold a type, under a name that never changes.

    Parameters
    ----------
    cls : type
        A dataclass or an estimator.
    rules, hints, fitted, check
        See :class:`Entry`.
    name : str or None
        None: that of the class.
    """
    name = cls.__name__ if name is None else name
    if name in _BY_NAME and _BY_NAME[name].cls is not cls:
        raise ValueError(f"{name!r} names {_BY_NAME[name].cls} in files already.")
    entry = Entry(name, cls, hints or {}, rules or {}, frozenset(fitted), check)
    _BY_NAME[name] = entry
    _BY_TYPE[cls] = entry


def entry_of(cls: type) -> Entry | None:
    """The entry of a type; None if it is not registered."""
    return _BY_TYPE.get(cls)


def entry_named(name: object) -> Entry:
    """The entry of a name in a file; raises if there is none."""
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ModelFileError(
            f"it names the type {name!r}, which is not known here (if that is a method "
            "of your own, import its module first)"
        )
    return _BY_NAME[name]
