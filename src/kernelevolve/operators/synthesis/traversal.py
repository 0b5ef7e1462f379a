"""Ways through expressions: what is below a node, and the same expression with nodes replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernelevolve.operators.synthesis.expr import (
    Cast,
    Expr,
    IndexValue,
    Load,
    Masked,
    Op,
    Search,
    TableValue,
    Value,
    cast,
)
from kernelevolve.operators.synthesis.index import FloorDiv, Index, Mod


def children(expr: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, those inside indices (gathers) excluded; see ``indices``."""
    if isinstance(expr, Op):
        return expr.args
    if isinstance(expr, Cast):
        return (expr.arg,)
    if isinstance(expr, Masked):
        return (expr.condition, expr.value, expr.other)
    if isinstance(expr, Search):
        return (expr.value,)
    return ()


def indices(expr: Expr) -> tuple[Index, ...]:
    """Index expressions that stand directly in an expression."""
    if isinstance(expr, Load):
        return expr.index
    if isinstance(expr, Search):
        return (*expr.row, expr.length)
    if isinstance(expr, (IndexValue, TableValue)):
        return (expr.index,)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, also those inside indices, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)
    for index in indices(expr):
        yield from walk_index(index)


def walk_index(index: Index) -> Iterator[Expr]:
    """All expressions read inside an index."""
    for atom in index.atoms:
        if isinstance(atom, Value):
            yield from walk(atom.expr)
        elif isinstance(atom, (FloorDiv, Mod)):
            yield from walk_index(atom.numerator)


def rebuild(expr: Expr, leaf: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with each node for which ``leaf`` gives a replacement replaced, top down, also in indices."""
    replaced = leaf(expr)
    if replaced is not None:
        return replaced
    if isinstance(expr, Op):
        return Op(expr.name, tuple(rebuild(a, leaf) for a in expr.args), expr.dtype)
    if isinstance(expr, Cast):
        return cast(rebuild(expr.arg, leaf), expr.dtype)
    if isinstance(expr, Masked):
        return Masked(rebuild(expr.condition, leaf), rebuild(expr.value, leaf), rebuild(expr.other, leaf))
    if isinstance(expr, Load):
        return Load(expr.buffer, tuple(rebuild_index(i, leaf) for i in expr.index))
    if isinstance(expr, Search):
        row = tuple(rebuild_index(i, leaf) for i in expr.row)
        return Search(
            expr.sorted, row, rebuild_index(expr.length, leaf), rebuild(expr.value, leaf), expr.right, expr.dtype
        )
    if isinstance(expr, IndexValue):
        return IndexValue(rebuild_index(expr.index, leaf), expr.dtype)
    if isinstance(expr, TableValue):
        return TableValue(expr.values, rebuild_index(expr.index, leaf), expr.dtype)
    return expr


def rebuild_index(index: Index, leaf: Callable[[Expr], Expr | None]) -> Index:
    """``rebuild`` applied to the values read inside an index."""
    if not any(isinstance(a, (Value, FloorDiv, Mod)) for a in index.atoms):
        return index
    total = Index()
    for monomial, coefficient in index.terms:
        term = Index.of(coefficient)
        for atom in monomial:
            if isinstance(atom, Value):
                term = term * Index.of(Value(rebuild(atom.expr, leaf), atom.bound))
            elif isinstance(atom, FloorDiv):
                term = term * (rebuild_index(atom.numerator, leaf) // atom.denominator)
            elif isinstance(atom, Mod):
                term = term * (rebuild_index(atom.numerator, leaf) % atom.denominator)
            else:
                term = term * Index.of(atom)
        total = total + term
    return total


def loads(expr: Expr) -> Iterator[Load]:
    """All loads of an expression, also those inside indices."""
    return (e for e in walk(expr) if isinstance(e, Load))
