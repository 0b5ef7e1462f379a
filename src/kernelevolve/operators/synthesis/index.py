"""Index algebra: integer expressions over loop variables and runtime sizes, kept in a normal form.

An ``Index`` is a polynomial with integer coefficients over atoms: loop variables, runtime sizes, floor divisions,
remainders and values read from memory. Views (reshape, permute, slice, expand) are composed into such expressions and
disappear; the quotients and remainders that a reshape introduces are simplified with the ranges of the variables.
All quantities are non-negative element counts or positions unless a coefficient says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kernelevolve.operators.synthesis.expr import Expr


@dataclass(frozen=True)
class Size:
    """A size known only when the kernel runs, at least 1: the emitted code receives it as an integer argument."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Var:
    """A loop variable: ``0 <= name < extent``. Two variables are the same if and only if name and extent agree."""

    name: str
    extent: Index

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FloorDiv:
    """``numerator // denominator``, both non-negative, the denominator positive."""

    numerator: Index
    denominator: Index

    def __str__(self) -> str:
        return f"(({self.numerator}) / {_factor(self.denominator)})"


@dataclass(frozen=True)
class Mod:
    """``numerator % denominator``, both non-negative, the denominator positive."""

    numerator: Index
    denominator: Index

    def __str__(self) -> str:
        return f"(({self.numerator}) % {_factor(self.denominator)})"


@dataclass(frozen=True)
class Value:
    """A position read from memory (a gather): ``0 <= expr < bound``, which lowering guarantees."""

    expr: Expr
    bound: Index

    def __str__(self) -> str:
        return f"<{self.expr}>"


Atom: TypeAlias = Size | Var | FloorDiv | Mod | Value
Monomial: TypeAlias = tuple[Atom, ...]
IndexLike: TypeAlias = "Index | Var | Size | int"


@dataclass(frozen=True)
class Index:
    """``sum(coefficient * product(atoms))``; equal expressions in normal form are equal objects.

    ``terms`` maps each monomial (a sorted tuple of atoms, ``()`` for the constant) to a coefficient other than 0.
    """

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: IndexLike | FloorDiv | Mod | Value) -> Index:
        """The expression that consists of one atom or one integer."""
        if isinstance(value, Index):
            return value
        if isinstance(value, int):
            return Index((((), int(value)),)) if value else Index()
        return Index((((value,), 1),))

    @property
    def constant(self) -> int | None:
        """The integer that this is, or None if it has atoms."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def variable(self) -> Var | None:
        """The loop variable that this is, or None if it is anything else."""
        if len(self.terms) == 1:
            (monomial, coefficient), *_ = self.terms
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Var):
                return monomial[0]
        return None

    def __add__(self, other: IndexLike) -> Index:
        return _collect((*self.terms, *Index.of(other).terms))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: IndexLike) -> Index:
        return self + (-Index.of(other))

    def __rsub__(self, other: IndexLike) -> Index:
        return Index.of(other) - self

    def __mul__(self, other: IndexLike) -> Index:
        right = Index.of(other)
        return _collect((_product(a, b), x * y) for a, x in self.terms for b, y in right.terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: IndexLike) -> Index:
        divisor = Index.of(other)
        quotient, rest = self._split(divisor)
        if not rest.terms or _below(rest, divisor):
            return quotient
        inner = _single(rest)
        if isinstance(inner, FloorDiv):
            return quotient + inner.numerator // (inner.denominator * divisor)
        if isinstance(inner, Mod):
            factor, remainder = inner.denominator._split(divisor)
            if not remainder.terms:
                return quotient + (inner.numerator // divisor) % factor
        common = _common_factor(rest, divisor)
        if common is not None:
            whole, smaller, _ = common
            return quotient + whole // smaller
        return quotient + Index.of(FloorDiv(rest, divisor))

    def __mod__(self, other: IndexLike) -> Index:
        divisor = Index.of(other)
        _, rest = self._split(divisor)
        if not rest.terms or _below(rest, divisor):
            return rest
        inner = _single(rest)
        if isinstance(inner, Mod) and not inner.denominator._split(divisor)[1].terms:
            return inner.numerator % divisor
        common = _common_factor(rest, divisor)
        if common is not None:
            whole, smaller, factor = common
            return (whole % smaller) * factor + (rest - whole * factor)
        return Index.of(Mod(rest, divisor))

    def _split(self, divisor: Index) -> tuple[Index, Index]:
        """``self == quotient * divisor + rest`` with every term that the divisor divides moved into the quotient."""
        if len(divisor.terms) != 1:
            return (Index.of(1), Index()) if self == divisor else (Index(), self)
        (by, factor), *_ = divisor.terms
        quotient: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
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
        return _collect(quotient), _collect(rest)

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        """All atoms at the top level (not those inside quotients, remainders and values)."""
        return frozenset(a for m, _ in self.terms for a in m)

    @cached_property
    def variables(self) -> frozenset[Var]:
        """All loop variables, also those inside quotients, remainders and values."""
        found: set[Var] = set()
        for atom in self.atoms:
            if isinstance(atom, Var):
                found.add(atom)
            elif isinstance(atom, (FloorDiv, Mod)):
                found |= atom.numerator.variables | atom.denominator.variables
            elif isinstance(atom, Value):
                found |= atom.expr.variables
        return frozenset(found)

    @cached_property
    def sizes(self) -> frozenset[Size]:
        """All runtime sizes named, also in the extents of the variables."""
        found: set[Size] = set()
        for atom in self.atoms:
            if isinstance(atom, Size):
                found.add(atom)
            elif isinstance(atom, (FloorDiv, Mod)):
                found |= atom.numerator.sizes | atom.denominator.sizes
        return frozenset(found)

    def coefficient(self, variable: Var) -> Index | None:
        """The factor of ``variable``, free of it; None if the expression is not linear in it."""
        total: list[tuple[Monomial, int]] = []
        for monomial, c in self.terms:
            if variable in monomial:
                rest = _quotient(monomial, (variable,))
                if rest is None or variable in rest:
                    return None
                total.append((rest, c))
            elif any(not isinstance(a, Var) and variable in Index.of(a).variables for a in monomial):
                return None
        return _collect(total)

    def _atom_factor(self, atom: Atom) -> Index | None:
        """The factor of an atom that occurs linearly; None otherwise."""
        total = [(_quotient(m, (atom,)), c) for m, c in self.terms if atom in m]
        if any(rest is None or atom in rest for rest, _ in total):
            return None
        return _collect((rest, c) for rest, c in total if rest is not None)

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
                term = term * _substitute_atom(atom, mapping)
            total = total + term
        return total

    def evaluate(self, environment: Mapping[str, int]) -> int:
        """The integer for given variables and sizes (by name); raises KeyError for a name that is not given."""
        total = 0
        for monomial, coefficient in self.terms:
            value = coefficient
            for atom in monomial:
                if isinstance(atom, (Var, Size)):
                    value *= environment[atom.name]
                elif isinstance(atom, FloorDiv):
                    value *= atom.numerator.evaluate(environment) // atom.denominator.evaluate(environment)
                elif isinstance(atom, Mod):
                    value *= atom.numerator.evaluate(environment) % atom.denominator.evaluate(environment)
                else:
                    raise KeyError(str(atom))
            total += value
        return total

    def __str__(self) -> str:
        """C and Python text alike, except that a quotient is written ``/`` (C) and values are in angle brackets."""
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
        return f"Index({self})"

    def __iter__(self) -> Iterator[tuple[Monomial, int]]:
        return iter(self.terms)


def product_of(sizes: Iterable[IndexLike]) -> Index:
    """The product of sizes; 1 for none."""
    total = Index.of(1)
    for size in sizes:
        total = total * size
    return total


def strides_of(shape: tuple[Index, ...]) -> tuple[Index, ...]:
    """Row-major strides in elements."""
    strides: list[Index] = []
    step = Index.of(1)
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def flatten(index: tuple[Index, ...], shape: tuple[Index, ...]) -> Index:
    """The row-major offset of a position in elements."""
    total = Index()
    for i, s in zip(index, strides_of(shape), strict=True):
        total = total + i * s
    return _recombined(total)


def unflatten(offset: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
    """The position in a row-major shape of an offset in elements."""
    position = []
    for size, stride in zip(shape, strides_of(shape), strict=True):
        position.append(Index() if size.constant == 1 else (offset // stride) % size)
    return tuple(position)


def upper_bound(index: Index) -> Index | None:
    """An inclusive upper bound free of variables; None if none is known."""
    total = Index()
    for monomial, coefficient in index.terms:
        if coefficient < 0:
            continue
        term = Index.of(coefficient)
        for atom in monomial:
            bound = _atom_bound(atom)
            if bound is None:
                return None
            term = term * bound
        total = total + term
    return total


def non_negative(index: Index) -> bool:
    """True if every term is certainly not negative."""
    return all(c >= 0 for _, c in index.terms)


def _atom_bound(atom: Atom) -> Index | None:
    if isinstance(atom, Size):
        return Index.of(atom)
    if isinstance(atom, Var):
        return atom.extent - 1
    if isinstance(atom, Value):
        return atom.bound - 1
    if isinstance(atom, Mod):
        return atom.denominator - 1
    top = upper_bound(atom.numerator)
    if top is None:
        return None
    whole, rest = (top + 1)._split(atom.denominator)
    return whole - 1 if not rest.terms else top // atom.denominator


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
        whole, rest = index._split(factor)
        if whole.terms and _below(rest, factor):
            return whole, divisor._split(factor)[0], factor
    return None


def _recombined(index: Index) -> Index:
    """The expression with every ``(n // d) * d * c + (n % d) * c`` replaced by ``n * c``."""
    for atom in index.atoms:
        if not isinstance(atom, Mod):
            continue
        scale = index._atom_factor(atom)
        quotient = atom.numerator // atom.denominator
        if scale is None or not quotient.terms:
            continue
        whole = quotient * atom.denominator * scale
        held = dict(index.terms)
        if all(held.get(m, 0) == c for m, c in whole.terms):
            return _recombined(index - whole - Index.of(atom) * scale + atom.numerator * scale)
    return index


def _single(index: Index) -> Atom | None:
    """The atom that this is, or None."""
    if len(index.terms) == 1 and index.terms[0][1] == 1 and len(index.terms[0][0]) == 1:
        return index.terms[0][0][0]
    return None


def _substitute_atom(atom: Atom, mapping: Mapping[Var, Index]) -> Index:
    if isinstance(atom, Var):
        return mapping.get(atom, Index.of(atom))
    if isinstance(atom, FloorDiv):
        return atom.numerator.substitute(mapping) // atom.denominator.substitute(mapping)
    if isinstance(atom, Mod):
        return atom.numerator.substitute(mapping) % atom.denominator.substitute(mapping)
    if isinstance(atom, Value):
        return Index.of(Value(atom.expr.substitute(mapping), atom.bound))
    return Index.of(atom)


def _key_of(monomial: Monomial) -> tuple[str, ...]:
    return tuple(f"{type(a).__name__}{a}" for a in monomial)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    return tuple(sorted((*left, *right), key=lambda a: f"{type(a).__name__}{a}"))


def _quotient(monomial: Monomial, by: Monomial) -> Monomial | None:
    """``monomial / by`` if ``by`` divides it."""
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Index:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in sums.items() if c]
    return Index(tuple(sorted(kept, key=lambda t: _key_of(t[0]))))


def _factor(index: Index) -> str:
    return str(index) if len(index.terms) == 1 and len(index.terms[0][0]) <= 1 else f"({index})"
