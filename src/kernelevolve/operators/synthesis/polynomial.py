"""Polynomials with integer coefficients in a normal form: equal polynomials are equal objects.

An atom is anything that is hashable and has a text; what it stands for is the business of the subclass, see ``index``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, cast

A = TypeVar("A")


@dataclass(frozen=True)
class Polynomial(Generic[A]):
    """``sum(coefficient * product(atoms))``.

    ``terms`` maps each monomial (a sorted tuple of atoms, ``()`` for the constant) to a coefficient other than 0.
    """

    terms: tuple[tuple[tuple[A, ...], int], ...] = ()

    @classmethod
    def of(cls, value: Self | A | int) -> Self:
        """The polynomial that consists of one atom or one integer."""
        if isinstance(value, cls):
            return value
        if isinstance(value, int):
            return cls((((), int(value)),)) if value else cls()
        return cls((((cast(A, value),), 1),))

    @property
    def constant(self) -> int | None:
        """The integer that this is, or None if it has atoms."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def single(self) -> A | None:
        """The atom that this is, or None if it is anything else."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    @cached_property
    def atoms(self) -> frozenset[A]:
        """All atoms (not those that an atom holds inside)."""
        return frozenset(a for m, _ in self.terms for a in m)

    def __add__(self, other: Self | A | int) -> Self:
        return self._collect((*self.terms, *self.of(other).terms))

    __radd__ = __add__

    def __neg__(self) -> Self:
        return type(self)(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Self | A | int) -> Self:
        return self + (-self.of(other))

    def __rsub__(self, other: Self | A | int) -> Self:
        return self.of(other) - self

    def __mul__(self, other: Self | A | int) -> Self:
        right = self.of(other)
        return self._collect((_product(a, b), x * y) for a, x in self.terms for b, y in right.terms)

    __rmul__ = __mul__

    def split(self, divisor: Self) -> tuple[Self, Self]:
        """``self == quotient * divisor + rest`` with every term that the divisor divides moved into the quotient."""
        if len(divisor.terms) != 1:
            return (self.of(1), type(self)()) if self == divisor else (type(self)(), self)
        (by, factor), *_ = divisor.terms
        quotient: list[tuple[tuple[A, ...], int]] = []
        rest: list[tuple[tuple[A, ...], int]] = []
        for monomial, coefficient in self.terms:
            left = _quotient(monomial, by)
            if left is None:
                rest.append((monomial, coefficient))
                continue
            whole, remainder = divmod(coefficient, factor)
            if monomial != by or remainder == 0:
                # An atom times a coefficient is moved only if it goes in without remainder.
                whole, remainder = (whole, 0) if remainder == 0 else (0, coefficient)
            if whole:
                quotient.append((left, whole))
            if remainder:
                rest.append((monomial, remainder))
        return self._collect(quotient), self._collect(rest)

    def factor_of(self, atom: A) -> Self | None:
        """The factor of an atom, free of it; None if the atom occurs in a higher power than the first."""
        total = [(rest, c) for m, c in self.terms if (rest := _quotient(m, (atom,))) is not None]
        return None if any(atom in rest for rest, _ in total) else self._collect(total)

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        for monomial, c in sorted(self.terms, key=lambda t: (t[0] == (), _key_of(t[0]))):
            names = [str(a) for a in monomial]
            if c != 1 or not names:
                names.append(str(abs(c)) if parts or c >= 0 else str(c))
            parts.append(("- " if c < 0 and parts else "+ " if parts else "") + " * ".join(names))
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    @classmethod
    def _collect(cls, terms: Iterable[tuple[tuple[A, ...], int]]) -> Self:
        """The normal form of a sum: each monomial once, none with the coefficient 0, sorted."""
        sums: dict[tuple[A, ...], int] = {}
        for monomial, coefficient in terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        kept = [(m, c) for m, c in sums.items() if c]
        return cls(tuple(sorted(kept, key=lambda t: _key_of(t[0]))))


def _key_of(monomial: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(f"{type(a).__name__}{a}" for a in monomial)


def _product(left: tuple[A, ...], right: tuple[A, ...]) -> tuple[A, ...]:
    if not left or not right:
        return left or right
    return tuple(sorted((*left, *right), key=lambda a: f"{type(a).__name__}{a}"))


def _quotient(monomial: tuple[A, ...], by: tuple[A, ...]) -> tuple[A, ...] | None:
    """``monomial / by`` if ``by`` divides it."""
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
