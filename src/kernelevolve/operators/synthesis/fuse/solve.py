"""Solving index equations: which loop variables make an index expression stand at a given position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelevolve.operators.synthesis.index import FloorDiv, Index, Mod, Var

Fresh = Callable[[Index], Var]
"""Makes a variable of an extent for a digit that the equations leave free."""


def solve(
    equations: Sequence[tuple[Index, Index]], unknown: Sequence[Var], fresh: Fresh | None = None
) -> dict[Var, Index] | None:
    """Values of unknown variables for which each left side equals its right side, or None.

    Understood are sides in which an unknown stands alone, digits of one unknown (``v // 8``, ``v % 8``), and unknowns
    that are the digits of the side (``8 * v + w``). Where only some digits of an unknown are given, ``fresh`` makes
    variables for the others; without it that is no solution. Unknowns that occur nowhere are left out. The solution
    has been checked by putting it in.
    """
    values: dict[Var, Index] = {}
    digits: dict[Var, list[tuple[Index, Index | None, Index]]] = {}
    free = set(unknown)
    for left, right in equations:
        wanted = left.variables & free
        if not wanted:
            continue
        alone = left.variable
        if alone is not None:
            values.setdefault(alone, right)
        elif len(wanted) == 1 and (digit := _digit_of(left)) is not None:
            variable, stride, modulus = digit
            digits.setdefault(variable, []).append((stride, modulus, right))
        elif wanted <= set(values):
            continue
        elif not _assign_radix(left.substitute(values), right, free - set(values), values):
            return None
    for variable, parts in digits.items():
        value = _from_digits(variable, parts, fresh)
        if value is None:
            return None
        values.setdefault(variable, value)
    if any(_recombined(left.substitute(values)) != right for left, right in equations):
        return None
    return values


def _recombined(index: Index) -> Index:
    """The same with quotients and remainders put together again: ``v // 8 * 8 + v % 8`` is ``v``."""
    for monomial, coefficient in index.terms:
        for place, atom in enumerate(monomial):
            if isinstance(atom, Mod):
                others = Index(((monomial[:place] + monomial[place + 1 :], coefficient),))
                quotient = atom.numerator // atom.denominator * atom.denominator
                shorter = index + others * (atom.numerator - quotient - Index.of(atom))
                if len(shorter.terms) < len(index.terms):
                    return _recombined(shorter)
    return index


def _digit_of(index: Index) -> tuple[Var, Index, Index | None] | None:
    """``(v, stride, modulus)`` of ``v // stride % modulus``; the modulus is None if there is none."""
    if len(index.terms) != 1 or index.terms[0][1] != 1 or len(index.terms[0][0]) != 1:
        return None
    atom = index.terms[0][0][0]
    modulus: Index | None = None
    if isinstance(atom, Mod):
        modulus = atom.denominator
        inner = atom.numerator
        if inner.variable is not None:
            return inner.variable, Index.of(1), modulus
        if len(inner.terms) != 1 or inner.terms[0][1] != 1 or len(inner.terms[0][0]) != 1:
            return None
        atom = inner.terms[0][0][0]
    if isinstance(atom, FloorDiv) and atom.numerator.variable is not None:
        return atom.numerator.variable, atom.denominator, modulus
    return None


def _from_digits(variable: Var, parts: list[tuple[Index, Index | None, Index]], fresh: Fresh | None) -> Index | None:
    """The variable as a sum of its digits, missing ones filled in with fresh variables."""
    ordered = _by_stride(parts)
    if ordered is None:
        return None
    total, reached = Index(), Index.of(1)
    for stride, modulus, value in ordered:
        if stride != reached:
            missing, rest = _divide(stride, reached)
            if fresh is None or rest.terms:
                return None
            total = total + Index.of(fresh(missing)) * reached
        total = total + value * stride
        if modulus is None:
            rest = _divide(variable.extent, stride)[1]
            return total if not rest.terms else None
        reached = stride * modulus
    if reached != variable.extent:
        missing, rest = _divide(variable.extent, reached)
        if fresh is None or rest.terms:
            return None
        total = total + Index.of(fresh(missing)) * reached
    return total


def _by_stride(parts: list[tuple[Index, Index | None, Index]]) -> list[tuple[Index, Index | None, Index]] | None:
    """Digits from the lowest up: each stride divides the next."""
    ordered = sorted(parts, key=lambda part: (len(part[0].terms and part[0].terms[0][0]), part[0].terms))
    strides = [stride for stride, _, _ in ordered]
    if all(s.constant is not None for s in strides):
        ordered.sort(key=lambda part: part[0].constant or 0)
    return ordered if len(set(strides)) == len(strides) else None


def _divide(index: Index, by: Index) -> tuple[Index, Index]:
    quotient = index // by
    return quotient, index - quotient * by


def _assign_radix(left: Index, right: Index, free: set[Var], values: dict[Var, Index]) -> bool:
    """Solve ``sum(stride * v) + rest == right`` where the strides are those of a mixed radix."""
    if not left.affine:
        return False
    factors = {v: left.coefficient(v) for v in left.variables & free}
    rest = left
    for variable, factor in factors.items():
        if factor is None or factor.variables:
            return False
        rest = rest - Index.of(variable) * factor
    pending = dict(factors)
    reached = Index.of(1)
    order: list[tuple[Var, Index]] = []
    while pending:
        found = [v for v, factor in pending.items() if factor == reached]
        if len(found) != 1:
            return False
        order.append((found[0], reached))
        reached = reached * found[0].extent
        del pending[found[0]]
    position = right - rest
    for number, (variable, stride) in enumerate(order):
        digit = position // stride
        values[variable] = digit if number == len(order) - 1 else digit % variable.extent
    return True
