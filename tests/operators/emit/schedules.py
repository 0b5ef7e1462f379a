"""Hand-made schedules, one of each shape of kernel, with inputs and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernelevolve.operators.synthesis.buffer import Buffer, Role
from kernelevolve.operators.synthesis.expr import Cast, Const, Expr, IndexValue, Load, Masked, Op, Search, Value
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.ir import Combine, Program, Segment, Target
from kernelevolve.operators.synthesis.kernels import Accumulate, Assign, LoopKernel, Pass, ProductPass, Schedule


@dataclass(frozen=True)
class Example:
    """A schedule of one kernel and its data."""

    schedule: Schedule
    tensors: dict[str, torch.Tensor]
    expected: dict[str, torch.Tensor]


def buffer(name: str, shape: tuple[int, ...], dtype: str = "float32", role: Role = Role.INPUT) -> Buffer:
    return Buffer(name, tuple(map(Index.of, shape)), dtype, role)


def var(name: str, extent: int) -> Var:
    return Var(name, Index.of(extent))


def load(source: Buffer, *index: Index | Var | int) -> Load:
    return Load(source, tuple(map(Index.of, index)))


def wide(expr: Expr) -> Expr:
    return Cast(expr, "float32") if expr.dtype in ("float16", "bfloat16") else expr


def put(target: Buffer, *index: Index | Var | int) -> Target:
    return Target(target, tuple(map(Index.of, index)))


def op(name: str, *args: Expr, dtype: str = "float32") -> Op:
    return Op(name, args, dtype)


def one_kernel(kernel: LoopKernel, inputs: list[Buffer], output: Buffer) -> Schedule:
    return Schedule(Program(tuple(inputs), (), (), (), (output,)), (kernel,))


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """An output whose every element is recognisably unwritten."""
    return torch.full(shape, float("nan") if dtype.is_floating_point else -9, dtype=dtype)


def rms_norm(rows: int = 7, width: int = 100, dtype: str = "float32") -> Example:
    x, o = buffer("x", (rows, width), dtype), buffer("o", (rows, width), dtype, Role.OUTPUT)
    total, scale = buffer("total", (), role=Role.ROW), buffer("scale", (), role=Role.ROW)
    r, c, d = var("r", rows), var("c", width), var("d", width)
    mean = op("div", load(total), Const(float(width), "float32"))
    passes = (
        Pass((), (c,), (), (Accumulate((put(total),), Combine.SUM, op("square", wide(load(x, r, c)))),)),
        Pass((), (), (Assign(put(scale), op("rsqrt", op("add", mean, Const(1e-6, "float32")))),)),
        Pass((d,), (), (Assign(put(o, r, d), op("mul", wide(load(x, r, d)), load(scale))),)),
    )
    kernel = LoopKernel("norm", (r,), passes, (total, scale), ("mean", "rsqrt"), "rms norm")
    data = torch.randn(rows, width).to(getattr(torch, dtype))
    expected = data.float() * torch.rsqrt(data.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    out = empty(rows, width, dtype=data.dtype)
    return Example(one_kernel(kernel, [x], o), {"x": data, "o": out}, {"o": expected.to(data.dtype)})


def feed_forward(batch: int = 2, tokens: int = 20, outer: int = 32, inner: int = 24) -> Example:
    x, w = buffer("x", (batch, tokens, outer)), buffer("w", (batch, outer, inner))
    w2, o = buffer("w2", (batch, inner, outer)), buffer("o", (batch, tokens, outer), role=Role.OUTPUT)
    h, g, y = (buffer(n, (s,), role=Role.ROW) for n, s in (("h", inner), ("g", inner), ("y", outer)))
    total = buffer("total", (), role=Role.ROW)
    b, t, d, k = var("b", batch), var("t", tokens), var("d", outer), var("k", inner)
    i, j, e, f = var("i", inner), var("j", inner), var("e", outer), var("f", outer)
    passes = (
        ProductPass((k,), (d,), load(x, b, t, d), load(w, b, d, k), put(h, k), (t,)),
        Pass((i,), (), (Assign(put(g, i), op("gelu", load(h, i))),)),
        Pass((), (j,), (), (Accumulate((put(total),), Combine.SUM, op("square", load(g, j))),)),
        Pass((i,), (), (Assign(put(g, i), op("mul", load(g, i), op("rsqrt", load(total)))),)),
        ProductPass((e,), (j,), load(g, j), load(w2, b, j, e), put(y, e), (t,)),
        Pass((f,), (), (Assign(put(o, b, t, f), op("add", load(y, f), load(x, b, t, f))),)),
    )
    kernel = LoopKernel("ffn", (b, t), passes, (h, g, y, total), ("bmm", "bmm_1"), "feed-forward")
    data = [torch.randn(batch, tokens, outer), torch.randn(batch, outer, inner), torch.randn(batch, inner, outer)]
    hidden = torch.nn.functional.gelu(data[0] @ data[1])
    hidden = hidden * torch.rsqrt(hidden.pow(2).sum(-1, keepdim=True))
    tensors = {"x": data[0], "w": data[1], "w2": data[2], "o": empty(batch, tokens, outer)}
    return Example(one_kernel(kernel, [x, w, w2], o), tensors, {"o": hidden @ data[2] + data[0]})


def factorisation(batch: int = 2, n: int = 5, d: int = 17, k: int = 300) -> Example:
    x, y = buffer("x", (batch, n, d)), buffer("y", (batch, n, k))
    o, g = buffer("o", (batch, n, k), role=Role.OUTPUT), buffer("g", (n,), role=Role.ROW)
    b, r, m, c, m2, col = var("b", batch), var("r", n), var("m", n), var("c", d), var("m2", n), var("col", k)
    passes = (
        ProductPass((m,), (c,), load(x, b, r, c), load(x, b, m, c), put(g, m), (r,)),
        ProductPass((col,), (m2,), load(g, m2), load(y, b, m2, col), put(o, b, r, col), (r,)),
    )
    kernel = LoopKernel("fm", (b, r), passes, (g,), ("bmm", "bmm_1"), "product chain")
    data = torch.randn(batch, n, d), torch.randn(batch, n, k)
    expected = data[0] @ (data[0].transpose(1, 2) @ data[1])
    tensors = {"x": data[0], "y": data[1], "o": empty(batch, n, k)}
    return Example(one_kernel(kernel, [x, y], o), tensors, {"o": expected})


def linear(rows: int = 70, columns: int = 300, depth: int = 50) -> Example:
    x, w, bias = buffer("x", (rows, depth)), buffer("w", (columns, depth)), buffer("bias", (columns,))
    o, h = buffer("o", (rows, columns), role=Role.OUTPUT), buffer("h", (columns,), role=Role.ROW)
    m, n, k, n2 = var("m", rows), var("n", columns), var("k", depth), var("n2", columns)
    passes = (
        ProductPass((n,), (k,), load(x, m, k), load(w, n, k), put(h, n), (m,)),
        Pass((n2,), (), (Assign(put(o, m, n2), op("add", load(h, n2), load(bias, n2))),)),
    )
    kernel = LoopKernel("gemm", (m,), passes, (h,), ("linear",), "linear")
    data = torch.randn(rows, depth), torch.randn(columns, depth), torch.randn(columns)
    tensors = {"x": data[0], "w": data[1], "bias": data[2], "o": empty(rows, columns)}
    return Example(one_kernel(kernel, [x, w, bias], o), tensors, {"o": data[0] @ data[1].T + data[2]})


def map_id(ids: int = 130, vocabulary: int = 50) -> Example:
    v, t = buffer("v", (ids,), "int64"), buffer("t", (vocabulary,), "int64")
    o, at = buffer("o", (ids,), "int64", Role.OUTPUT), buffer("at", (), "int64", Role.ROW)
    i = var("i", ids)
    found = Search(t, (), Index.of(vocabulary), load(v, i), False, "int64")
    known = Load(t, (Index.of(Value(load(at), Index.of(vocabulary))),))
    result = op(
        "where",
        op("eq", known, load(v, i), dtype="bool"),
        op("add", load(at), Const(1, "int64"), dtype="int64"),
        Const(0, "int64"),
        dtype="int64",
    )
    passes = (
        Pass((), (), (Assign(put(at), op("minimum", found, Const(vocabulary - 1, "int64"), dtype="int64")),)),
        Pass((), (), (Assign(put(o, i), result),)),
    )
    kernel = LoopKernel("ids", (i,), passes, (at,), ("bucketize", "gather"), "map id")
    table, values = torch.arange(vocabulary) * 7, torch.randint(0, 7 * vocabulary + 20, (ids,))
    position = torch.bucketize(values, table).clamp(max=vocabulary - 1)
    expected = torch.where(table[position] == values, position + 1, 0)
    tensors = {"v": values, "t": table, "o": empty(ids, dtype=torch.int64)}
    return Example(one_kernel(kernel, [v, t], o), tensors, {"o": expected})


def embedding_bag(bags: int = 6, entries: int = 40, dim: int = 20, count: int = 30) -> Example:
    w, ids, starts = buffer("w", (entries, dim)), buffer("ids", (count,), "int64"), buffer("starts", (bags,), "int64")
    o, total = buffer("o", (bags, dim), role=Role.OUTPUT), buffer("total", (dim,), role=Role.ROW)
    b, d, j, e = var("b", bags), var("d", dim), var("j", count), var("e", dim)
    following = Index.of(b) + 1
    inside = op("lt", IndexValue(following, "int64"), Const(bags, "int64"), dtype="bool")
    end = Masked(inside, load(starts, following), Const(count, "int64"))
    row = Load(w, (Index.of(Value(load(ids, j), Index.of(entries))), Index.of(d)))
    accumulate = Accumulate((put(total, d),), Combine.SUM, row)
    passes = (
        Pass((d,), (j,), (), (accumulate,), Segment(j, load(starts, b), end)),
        Pass((e,), (), (Assign(put(o, b, e), load(total, e)),)),
    )
    kernel = LoopKernel("bag", (b,), passes, (total,), ("_embedding_bag",), "embedding bag")
    table, chosen = torch.randn(entries, dim), torch.randint(0, entries, (count,))
    offsets = torch.tensor([0, 4, 4, 10, 17, 29])
    expected = torch.nn.functional.embedding_bag(chosen, table, offsets, mode="sum")
    tensors = {"w": table, "ids": chosen, "starts": offsets, "o": empty(bags, dim)}
    return Example(one_kernel(kernel, [w, ids, starts], o), tensors, {"o": expected})


EXAMPLES: dict[str, Callable[[], Example]] = {
    "rms_norm": rms_norm,
    "long_rms_norm": lambda: rms_norm(2, 9000),
    "feed_forward": feed_forward,
    "factorisation": factorisation,
    "linear": linear,
    "map_id": map_id,
    "embedding_bag": embedding_bag,
}
