"""Registries: a name stands for one implementation, found without importing the others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

from kernelevolve.errors import InvalidRequest

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps a name to the object called ``attribute`` in the module of that name inside ``package``.

    A new implementation is one new file: the module's name is its registered name ('-' in names is '_' in files).
    """

    def __init__(self, kind: str, package: str, attribute: str, exclude: frozenset[str] = frozenset()) -> None:
        self.kind = kind
        self.package = package
        self.attribute = attribute
        self.exclude = exclude

    def names(self) -> list[str]:
        """All registered names, without importing their modules."""
        path = import_module(self.package).__path__
        found = (m.name for m in iter_modules(path) if m.name not in self.exclude and not m.name.startswith("_"))
        return sorted(name.replace("_", "-") for name in found)

    def get(self, name: str) -> T:
        """The implementation of that name; InvalidRequest with the known names if there is none."""
        if name not in self.names():
            known = ", ".join(self.names())
            raise InvalidRequest(f"there is no {self.kind} named {name!r}", fix=f"use one of: {known}")
        module = import_module(f"{self.package}.{name.replace('-', '_')}")
        implementation: T = getattr(module, self.attribute)
        return implementation

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())
