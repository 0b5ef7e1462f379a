"""Row-major layout: between the position in a shape and the offset in memory, both in elements."""

from __future__ import annotations

from collections.abc import Iterable

from kernelevolve.operators.synthesis.index import Index, IndexLike, Mod


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


def _recombined(index: Index) -> Index:
    """The expression with every ``(n // d) * d * c + (n % d) * c`` replaced by ``n * c``."""
    for atom in index.atoms:
        if not isinstance(atom, Mod):
            continue
        scale = index.factor_of(atom)
        quotient = atom.numerator // atom.denominator
        if scale is None or not quotient.terms:
            continue
        whole = quotient * atom.denominator * scale
        held = dict(index.terms)
        if all(held.get(m, 0) == c for m, c in whole.terms):
            return _recombined(index - whole - Index.of(atom) * scale + atom.numerator * scale)
    return index
