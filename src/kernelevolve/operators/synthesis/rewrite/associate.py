"""Association: a chain of two products is done in the other order where that takes less arithmetic.

``A (B C)`` and ``(A B) C`` are the same by the associative law; with A of N x D and B C of D x K the first takes
D K (M + N) multiplications and the second N M (D + K), M being the inner extent of B C. For the factorisation machine
``X (Xᵀ Y)`` with N far below D and K that is a fraction. Rounding differs, so the judge has the last word.
"""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.expr import Cast, Expr, Load
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import (
    Extern,
    Operation,
    Product,
    Program,
    StridedView,
    Target,
    read_buffers,
)
from kernelevolve.operators.synthesis.layout import product_of
from kernelevolve.operators.synthesis.plan import Planner


def chains_associated(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program with the order of every chain of two products settled; the cheaper one is the default."""
    settled: set[str] = set()
    while (chain := _next_chain(program, settled)) is not None:
        position, flipped, inner, outer, other = chain
        settled.add(outer.name)
        cheaper = _cost(other, program) < _cost((inner, outer), program)
        options = ("changed", "as-written") if cheaper else ("as-written", "changed")
        if planner.choose(f"association:{outer.name}", options, niche=True) == "changed":
            operations = list(program.operations)
            operations[position : position + 1] = [_flip(p) if flipped else p for p in other]
            program = replace(program, operations=tuple(operations))
    return program


def _next_chain(
    program: Program, settled: set[str]
) -> tuple[int, bool, Product, Product, tuple[Product, Product]] | None:
    """The first chain not yet settled: where its outer product is, whether the chain hangs on its left side, the inner
    and the outer product, and the two products of the other order."""
    for position, operation in enumerate(program.operations):
        if not isinstance(operation, Product) or operation.name in settled:
            continue
        for flipped in (False, True):
            outer = _flip(operation) if flipped else operation
            inner = _inner(outer, program.operations[:position], program)
            other = _other_order(outer, inner) if inner is not None else None
            if inner is not None and other is not None:
                return position, flipped, inner, outer, other
    return None


def _flip(product: Product) -> Product:
    """The same product with its sides named the other way round: what is said of the right side holds for the left."""
    return replace(product, rows=product.columns, columns=product.rows, left=product.right, right=product.left)


def _source(expr: Expr) -> Load | None:
    """The load that a side of a product is, through a widening."""
    inner = expr.arg if isinstance(expr, Cast) else expr
    return inner if isinstance(inner, Load) else None


def _inner(outer: Product, before: tuple[Operation, ...], program: Program) -> Product | None:
    """The product whose result is the right side of ``outer`` and is used nowhere else."""
    load = _source(outer.right)
    if load is None or load.buffer.role is not Role.TEMPORARY:
        return None
    readers = [o for o in program.operations if load.buffer in read_buffers(o)]
    writers = [o for o in before if isinstance(o, Product) and o.target.buffer == load.buffer]
    return writers[0] if len(readers) == 1 and len(writers) == 1 else None


def _other_order(outer: Product, inner: Product) -> tuple[Product, Product] | None:
    """``left (b c)`` as ``(left b) c``; None if the two do not fit together that plainly."""
    load = _source(outer.right)
    assert load is not None
    named: dict[Var, Index] = {}
    for at, used in zip(inner.target.index, load.index, strict=True):
        if at.variable is None or used.variable is None:
            return None
        named[at.variable] = used
    # Names of the inner sum may be in use outside: it gets names of its own.
    fresh = {v: Var(f"{v.name}_{outer.name}", v.extent) for v in inner.contracted}
    named |= {v: Index.of(f) for v, f in fresh.items()}
    joint = {v for v in (*inner.rows, *inner.columns) if named.get(v, Index()).variable in outer.contracted}
    if set(inner.rows) == joint:
        b, c, free = inner.left, inner.right, inner.columns
    elif set(inner.columns) == joint:
        b, c, free = inner.right, inner.left, inner.rows
    else:
        return None
    if {named[v].variable for v in free} != set(outer.columns) or len(joint) != len(outer.contracted):
        return None
    middle = tuple(fresh.values())
    shape = tuple(v.extent for v in (*outer.batch, *outer.rows, *middle))
    result = Buffer(f"{outer.name}_inner", shape, load.buffer.dtype, Role.TEMPORARY)
    place = tuple(map(Index.of, (*outer.batch, *outer.rows, *middle)))
    first = Product(
        result.name, outer.batch, outer.rows, middle, outer.contracted, outer.left, b.substitute(named),
        Target(result, place), (*outer.origins, *inner.origins), _first_call(outer, inner, result, b is inner.left),
    )  # fmt: skip
    held: Expr = Load(result, place)
    held = Cast(held, outer.left.dtype) if held.dtype != outer.left.dtype else held
    second = replace(
        outer, contracted=middle, left=held, right=c.substitute(named),
        library=_second_call(outer, inner, result, b is inner.left),
    )  # fmt: skip
    return first, second


def _first_call(outer: Product, inner: Product, result: Buffer, plain: bool) -> Extern | None:
    """``left b`` as a torch call, if both products are one each on whole matrices."""
    if not plain or not _whole(outer, inner):
        return None
    assert outer.library is not None and inner.library is not None
    args = (outer.library.args[0], inner.library.args[0])
    return replace(outer.library, name=result.name, args=args, outputs=(result,))


def _second_call(outer: Product, inner: Product, result: Buffer, plain: bool) -> Extern | None:
    if not plain or not _whole(outer, inner):
        return None
    assert outer.library is not None and inner.library is not None
    view = StridedView(result, result.shape, _strides(result.shape))
    return replace(outer.library, args=(view, inner.library.args[1]))


def _whole(outer: Product, inner: Product) -> bool:
    """True if both are one kind of torch call and the inner result goes into the outer one as it is."""
    calls = (outer.library, inner.library)
    if any(c is None or c.target not in ("aten.mm", "aten.bmm") for c in calls):
        return False
    assert outer.library is not None and inner.library is not None
    right = outer.library.args[1]
    same = outer.library.target == inner.library.target
    # A flipped product's call still has its sides in the old order: then the left argument is the inner result.
    return same and isinstance(right, StridedView) and right.plain and right.buffer == inner.target.buffer


def _strides(shape: tuple[Index, ...]) -> tuple[Index, ...]:
    return tuple(product_of(shape[i + 1 :]) for i in range(len(shape)))


def _cost(products: tuple[Product, Product], program: Program) -> int:
    """Multiplications of both."""
    total = 0
    for product in products:
        axes = (*product.batch, *product.rows, *product.columns, *product.contracted)
        total += program.hint(product_of(a.extent for a in axes))
    return total
