"""Index algebra: integer expressions over loop variables and runtime sizes, kept in a normal form.

An ``Index`` is a polynomial with integer coefficients over atoms: loop variables, runtime sizes, floor divisions and
remainders, and what other modules add (``expr.Value``, a position read from memory). Views (reshape, permute, slice,
expand) are composed into such expressions and disappear; the quotients and remainders that a reshape introduces are
simplified with the ranges of the variables. All quantities are non-negative element counts or positions unless a
coefficient says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from kernelevolve.operators.synthesis.polynomial import Polynomial


class Atom(Protocol):
    """What an index multiplies and adds. Its text, with the name of its class, says all that it is."""

    @property
    def variables(self) -> frozenset[Var]:
        """All loop variables in it, also those deeper inside."""

    @property
    def sizes(self) -> frozenset[Size]:
        """The runtime sizes in it, without those in the extents of variables and in what is read from memory."""

    @property
    def greatest(self) -> Index | None:
        """An inclusive upper bound free of variables; None if none is known."""

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        """The atom with variables replaced, simplified again."""

    def evaluate(self, environment: Mapping[str, int]) -> int:
        """The integer for given variables and sizes (by name); raises KeyError for what is not given."""


@dataclass(frozen=True)
class Size:
    """A size known only when the kernel runs, at least 1: the emitted code receives it as an integer argument."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def variables(self) -> frozenset[Var]:
        return frozenset()

    @property
    def sizes(self) -> frozenset[Size]:
        return frozenset({self})

    @property
    def greatest(self) -> Index:
        return Index.of(self)

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        return Index.of(self)

    def evaluate(self, environment: Mapping[str, int]) -> int:
        return environment[self.name]


@dataclass(frozen=True)
class Var:
    """A loop variable: ``0 <= name < extent``. Two variables are the same if and only if name and extent agree."""

    name: str
    extent: Index

    def __str__(self) -> str:
        return self.name

    @property
    def variables(self) -> frozenset[Var]:
        return frozenset({self})

    @property
    def sizes(self) -> frozenset[Size]:
        return frozenset()

    @property
    def greatest(self) -> Index:
        return self.extent - 1

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        return mapping.get(self, Index.of(self))

    def evaluate(self, environment: Mapping[str, int]) -> int:
        return environment[self.name]


@dataclass(frozen=True)
class _Division:
    """What is common to quotient and remainder: a non-negative numerator and a positive denominator."""

    numerator: Index
    denominator: Index

    def _text(self, sign: str) -> str:
        short = len(self.denominator.terms) == 1 and len(self.denominator.terms[0][0]) <= 1
        return f"(({self.numerator}) {sign} {self.denominator if short else f'({self.denominator})'})"

    @property
    def variables(self) -> frozenset[Var]:
        return self.numerator.variables | self.denominator.variables

    @property
    def sizes(self) -> frozenset[Size]:
        return self.numerator.sizes | self.denominator.sizes


class FloorDiv(_Division):
    """``numerator // denominator``."""

    def __str__(self) -> str:
        return self._text("/")

    @property
    def greatest(self) -> Index | None:
        top = upper_bound(self.numerator)
        if top is None:
            return None
        whole, rest = (top + 1).split(self.denominator)
        return whole - 1 if not rest.terms else top // self.denominator

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        return self.numerator.substitute(mapping) // self.denominator.substitute(mapping)

    def evaluate(self, environment: Mapping[str, int]) -> int:
        return self.numerator.evaluate(environment) // self.denominator.evaluate(environment)


class Mod(_Division):
    """``numerator % denominator``."""

    def __str__(self) -> str:
        return self._text("%")

    @property
    def greatest(self) -> Index:
        return self.denominator - 1

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        return self.numerator.substitute(mapping) % self.denominator.substitute(mapping)

    def evaluate(self, environment: Mapping[str, int]) -> int:
        return self.numerator.evaluate(environment) % self.denominator.evaluate(environment)


IndexLike: TypeAlias = "Index | Atom | int"


class Index(Polynomial[Atom]):
    """A polynomial over positions and sizes, with division by ranges.

    Its text is C and Python alike, except that a quotient is written ``/`` (C) and values are in angle brackets.
    """

    @property
    def variable(self) -> Var | None:
        """The loop variable that this is, or None if it is anything else."""
        return self.single if isinstance(self.single, Var) else None

    def __floordiv__(self, other: IndexLike) -> Index:
        divisor = Index.of(other)
        quotient, rest = self.split(divisor)
        if not rest.terms or _below(rest, divisor):
            return quotient
        inner = rest.single
        if isinstance(inner, FloorDiv):
            return quotient + inner.numerator // (inner.denominator * divisor)
        if isinstance(inner, Mod):
            factor, remainder = inner.denominator.split(divisor)
            if not remainder.terms:
                return quotient + (inner.numerator // divisor) % factor
        common = _common_factor(rest, divisor)
        if common is not None:
            whole, smaller, _ = common
            return quotient + whole // smaller
        return quotient + FloorDiv(rest, divisor)

    def __mod__(self, other: IndexLike) -> Index:
        divisor = Index.of(other)
        _, rest = self.split(divisor)
        if not rest.terms or _below(rest, divisor):
            return rest
        inner = rest.single
        if isinstance(inner, Mod) and not inner.denominator.split(divisor)[1].terms:
            return inner.numerator % divisor
        common = _common_factor(rest, divisor)
        if common is not None:
            whole, smaller, factor = common
            return (whole % smaller) * factor + (rest - whole * factor)
        return Index.of(Mod(rest, divisor))

    @cached_property
    def variables(self) -> frozenset[Var]:
        """All loop variables, also those inside quotients, remainders and values."""
        return frozenset(v for a in self.atoms for v in a.variables)

    @cached_property
    def sizes(self) -> frozenset[Size]:
        """The runtime sizes named, without those in the extents of variables and in values."""
        return frozenset(s for a in self.atoms for s in a.sizes)

    def coefficient(self, variable: Var) -> Index | None:
        """The factor of ``variable``, free of it; None if the expression is not linear in it."""
        if any(variable in a.variables for m, _ in self.terms if variable not in m for a in m):
            return None
        return self.factor_of(variable)

    @property
    def affine(self) -> bool:
        """True if it is a sum of sizes times variables: no quotient, remainder or value."""
        return all(isinstance(a, (Var, Size)) for a in self.atoms)

    def substitute(self, mapping: Mapping[Var, Index]) -> Index:
        """The expression with variables replaced, simplified again."""
        if not any(v in mapping for v in self.variables):
            return self
        total = Index()
        for monomial, coefficient in self.terms:
            term = Index.of(coefficient)
            for atom in monomial:
                term = term * atom.substitute(mapping)
            total = total + term
        return total

    def evaluate(self, environment: Mapping[str, int]) -> int:
        """The integer for given variables and sizes (by name); raises KeyError for what is not given."""
        return sum(c * math.prod(a.evaluate(environment) for a in m) for m, c in self.terms)


def upper_bound(index: Index) -> Index | None:
    """An inclusive upper bound free of variables; None if none is known."""
    total = Index()
    for monomial, coefficient in index.terms:
        if coefficient < 0:
            continue
        term = Index.of(coefficient)
        for atom in monomial:
            bound = atom.greatest
            if bound is None:
                return None
            term = term * bound
        total = total + term
    return total


def non_negative(index: Index) -> bool:
    """True if every term is certainly not negative."""
    return all(c >= 0 for _, c in index.terms)


def _below(index: Index, limit: Index) -> bool:
    """True if ``0 <= index < limit`` is certain (sizes are at least 1)."""
    if not non_negative(index):
        return False
    top = upper_bound(index)
    if top is None:
        return False
    margin = limit - 1 - top
    # Every size is at least 1, so a polynomial with its negative constant covered by positive terms is not negative.
    return all(c >= 0 for m, c in margin.terms if m) and sum(c for _, c in margin.terms) >= 0


def _common_factor(index: Index, divisor: Index) -> tuple[Index, Index, Index] | None:
    """``(whole, smaller, factor)``: index == whole * factor + r with 0 <= r < factor, and divisor == smaller * factor.

    Then ``index // divisor == whole // smaller`` and ``index % divisor == (whole % smaller) * factor + r``.
    """
    if len(divisor.terms) != 1:
        return None
    (by, number), *_ = divisor.terms
    candidates = set()
    for monomial, coefficient in index.terms:
        shared = tuple(a for a in by if a in monomial)
        candidates.add((shared, math.gcd(coefficient, number)))
    for shared, count in sorted(candidates, key=lambda c: (-len(c[0]), -c[1])):
        factor = Index(((shared, count),))
        if factor == Index.of(1) or factor == divisor:
            continue
        whole, rest = index.split(factor)
        if whole.terms and _below(rest, factor):
            return whole, divisor.split(factor)[0], factor
    return None
