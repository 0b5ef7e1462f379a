"""Element by element: arithmetic, comparisons, logic, elementary functions, with torch's type promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from kernelevolve.operators.synthesis.dtype import INTEGRAL, DType, compute_dtype
from kernelevolve.operators.synthesis.expr import Const, Expr, cast
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.lower.context import (
    Argument,
    Lowering,
    NotLowered,
    Tensor,
    dtype_name,
    op,
    scalar,
)
from kernelevolve.operators.synthesis.lower.table import arguments, lowers

Body = Callable[..., Expr]


def elementwise(
    lowering: Lowering, node: fx.Node, operands: list[Any], body: Body, dtype: DType | None = None
) -> Tensor:
    """``body(*values)`` at every position; the values are the operands in ``dtype``, the result's if None."""
    result = lowering.dtype(node)
    wanted = dtype or compute_dtype(result)
    values = [lowering.argument(o) for o in operands]
    shape = lowering.shape(node)
    _check_broadcast(values, shape)

    def value(at: tuple[Index, ...]) -> Expr:
        return cast(body(*(scalar(v, at, wanted) for v in values)), compute_dtype(result))

    return lowering.pointwise(node.name, shape, result, value)


def _check_broadcast(values: list[Argument | Index], shape: tuple[Index, ...]) -> None:
    for value in values:
        if isinstance(value, Tensor):
            for mine, whole in zip(value.shape[::-1], shape[::-1], strict=False):
                if mine.constant != 1 and mine != whole:
                    raise NotLowered("sizes that may be 1 at run time are broadcast")


def common_dtype(operands: list[Any]) -> DType:
    """The dtype in which torch compares operands (nodes or numbers)."""
    fakes = [o.meta["val"] if isinstance(o, fx.Node) else o for o in operands]
    fakes = [int(f) if isinstance(f, torch.SymInt) else f for f in fakes]
    return compute_dtype(dtype_name(torch.result_type(fakes[0], fakes[1])))


def _register_simple() -> None:
    """Overloads that are one primitive on operands in the dtype of the result."""
    unary = (
        "neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
        "atanh erf erfc sigmoid reciprocal floor ceil round trunc silu"
    )
    for name in unary.split():

        def one(lowering: Lowering, node: fx.Node, name: str = name) -> Tensor:
            if name in ("floor", "ceil", "round", "trunc") and lowering.dtype(node) in INTEGRAL:
                return elementwise(lowering, node, [node.args[0]], lambda x: x)
            return elementwise(lowering, node, [node.args[0]], lambda x: op(name, x))

        lowers(name)(one)
    binary = {
        "mul.Tensor": "mul", "mul.Scalar": "mul", "maximum": "maximum", "minimum": "minimum", "atan2": "atan2",
        "bitwise_and.Tensor": "and", "bitwise_and.Scalar": "and", "bitwise_or.Tensor": "or",
        "bitwise_or.Scalar": "or", "bitwise_xor.Tensor": "xor", "bitwise_xor.Scalar": "xor",
        "remainder.Tensor": "remainder", "remainder.Scalar": "remainder", "fmod.Tensor": "fmod",
        "fmod.Scalar": "fmod", "copysign.Tensor": "copysign", "copysign.Scalar": "copysign", "hypot": "hypot",
        "bitwise_left_shift.Tensor": "shift_left", "bitwise_right_shift.Tensor": "shift_right",
    }  # fmt: skip
    for overload, name in binary.items():

        def two(lowering: Lowering, node: fx.Node, name: str = name) -> Tensor:
            real = "and" if name == "mul" and lowering.dtype(node) == "bool" else name
            return elementwise(lowering, node, list(node.args[:2]), lambda a, b: op(real, a, b))

        lowers(overload)(two)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):

        def compare(lowering: Lowering, node: fx.Node, name: str = name) -> Tensor:
            operands = list(node.args[:2])
            body = lambda a, b: op(name, a, b, dtype="bool")  # noqa: E731
            return elementwise(lowering, node, operands, body, common_dtype(operands))

        lowers(f"{name}.Tensor", f"{name}.Scalar")(compare)
    for name in ("and", "or", "xor"):

        def logical(lowering: Lowering, node: fx.Node, name: str = name) -> Tensor:
            return elementwise(lowering, node, list(node.args[:2]), lambda a, b: op(name, a, b), "bool")

        lowers(f"logical_{name}")(logical)


_register_simple()


@lowers("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _add(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    name = "add" if "add" in str(node.target) else "sub"
    alpha = given["alpha"]

    def body(a: Expr, b: Expr) -> Expr:
        if a.dtype == "bool":
            return op("or", a, b)
        return op(name, a, b if alpha == 1 else op("mul", scalar(alpha, (), b.dtype), b))

    return elementwise(lowering, node, [given["self"], given["other"]], body)


@lowers("rsub.Tensor", "rsub.Scalar")
def _rsub(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    alpha = given["alpha"]
    body = lambda a, b: op("sub", b, a if alpha == 1 else op("mul", scalar(alpha, (), a.dtype), a))  # noqa: E731
    return elementwise(lowering, node, [given["self"], given["other"]], body)


@lowers("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "floor_divide", "floor_divide.Scalar")
def _div(lowering: Lowering, node: fx.Node) -> Tensor:
    mode = node.kwargs.get("rounding_mode")
    if "floor_divide" in str(node.target):
        mode = "floor"
    name = {None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}[mode]  # type: ignore[index]
    return elementwise(lowering, node, list(node.args[:2]), lambda a, b: op(name, a, b))


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(lowering: Lowering, node: fx.Node) -> Tensor:
    exponent = node.args[1]
    result = lowering.dtype(node)

    def body(a: Expr, b: Expr) -> Expr:
        if isinstance(exponent, (int, float)):
            known = power(a, exponent)
            if known is not None:
                return known
        if result in INTEGRAL:
            raise NotLowered("integer power with a variable exponent")
        return op("pow", a, b)

    return elementwise(lowering, node, list(node.args[:2]), body)


def power(a: Expr, exponent: float) -> Expr | None:
    """A power as products and roots where that is what torch computes too; None otherwise."""
    if exponent == 0.5:
        return op("sqrt", a)
    if exponent == -0.5:
        return op("rsqrt", a)
    if exponent == -1:
        return op("reciprocal", a)
    if exponent == 2:
        return op("mul", a, a)
    if exponent in (1, 3, 4):
        square = op("mul", a, a)
        return a if exponent == 1 else op("mul", square, a) if exponent == 3 else op("mul", square, square)
    return None


@lowers("sign", "sgn")
def _sign(lowering: Lowering, node: fx.Node) -> Tensor:
    return elementwise(lowering, node, [node.args[0]], lambda x: op("sign", x) if x.dtype != "bool" else x)


@lowers("relu", "clamp", "clamp.Tensor", "clamp_min", "clamp_max", "clamp_min.Tensor", "clamp_max.Tensor", "hardtanh")
def _clamp(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    if "relu" in str(node.target):
        low, high = 0, None
    else:
        low = given.get("min", given.get("min_val"))
        high = given.get("max", given.get("max_val"))
    operands = [given["self"], *(o for o in (low, high) if o is not None)]

    def body(x: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        if low is not None:
            x = op("maximum", x, rest.pop(0))
        return op("minimum", x, rest.pop(0)) if high is not None else x

    return elementwise(lowering, node, operands, body)


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(lowering: Lowering, node: fx.Node) -> Tensor:
    condition, a, b = (lowering.argument(x) for x in node.args)
    result, shape = lowering.dtype(node), lowering.shape(node)
    _check_broadcast([condition, a, b], shape)
    wanted = compute_dtype(result)

    def value(at: tuple[Index, ...]) -> Expr:
        return op("where", scalar(condition, at, "bool"), scalar(a, at, wanted), scalar(b, at, wanted))

    return lowering.pointwise(node.name, shape, result, value)


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(lowering: Lowering, node: fx.Node) -> Tensor:
    x, mask, fill = (lowering.argument(a) for a in node.args)
    result, shape = lowering.dtype(node), lowering.shape(node)
    _check_broadcast([x, mask], shape)
    wanted = compute_dtype(result)

    def value(at: tuple[Index, ...]) -> Expr:
        return op("where", scalar(mask, at, "bool"), scalar(fill, at, wanted), scalar(x, at, wanted))

    return lowering.pointwise(node.name, shape, result, value)


@lowers("logical_not", "bitwise_not")
def _not(lowering: Lowering, node: fx.Node) -> Tensor:
    dtype = "bool" if "logical" in str(node.target) else None
    return elementwise(lowering, node, [node.args[0]], lambda x: op("not", x), dtype)


@lowers("isnan", "isinf")
def _is(lowering: Lowering, node: fx.Node) -> Tensor:
    name = "isnan" if "isnan" in str(node.target) else "isinf"
    source = compute_dtype(lowering.dtype(node.args[0]))
    if source in INTEGRAL or source == "bool":
        return elementwise(lowering, node, [], lambda: Const(False, "bool"))
    return elementwise(lowering, node, [node.args[0]], lambda x: op(name, x, dtype="bool"), source)


@lowers("_to_copy", "prims.convert_element_type.default")
def _convert(lowering: Lowering, node: fx.Node) -> Tensor:
    source = lowering.tensor(node.args[0])
    result = lowering.dtype(node)
    if source.dtype == result:
        return source
    # Through the compute dtype: a value in float32 that stands for a 16-bit float converts like one.
    return lowering.pointwise(node.name, source.shape, result, lambda at: cast(source.value(at), compute_dtype(result)))


@lowers("clone", "alias", "detach", "lift_fresh_copy", "contiguous", "copy")
def _same(lowering: Lowering, node: fx.Node) -> Tensor:
    if "copy.default" in str(node.target) and "lift" not in str(node.target):
        source = lowering.tensor(node.args[1])
        shape = lowering.shape(node)
        _check_broadcast([source], shape)
        result = lowering.dtype(node)
        return lowering.pointwise(node.name, shape, result, lambda at: source.value(at, compute_dtype(result)))
    return lowering.tensor(node.args[0])


@lowers("gelu")
def _gelu(lowering: Lowering, node: fx.Node) -> Tensor:
    name = "gelu_tanh" if arguments(node)["approximate"] == "tanh" else "gelu"
    return elementwise(lowering, node, [node.args[0]], lambda x: op(name, x))


@lowers("softplus")
def _softplus(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    beta, threshold = float(given["beta"]), float(given["threshold"])

    def body(x: Expr) -> Expr:
        scaled = op("mul", x, Const(beta, x.dtype))
        soft = op("div", op("softplus", scaled), Const(beta, x.dtype))
        return op("where", op("gt", scaled, Const(threshold, x.dtype), dtype="bool"), x, soft)

    return elementwise(lowering, node, [given["self"]], body)


@lowers("leaky_relu")
def _leaky_relu(lowering: Lowering, node: fx.Node) -> Tensor:
    slope = float(arguments(node)["negative_slope"])

    def body(x: Expr) -> Expr:
        zero = Const(0.0, x.dtype)
        return op("where", op("gt", x, zero, dtype="bool"), x, op("mul", x, Const(slope, x.dtype)))

    return elementwise(lowering, node, [node.args[0]], body)


@lowers("elu")
def _elu(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    alpha, scale, input_scale = (float(given[k]) for k in ("alpha", "scale", "input_scale"))

    def body(x: Expr) -> Expr:
        low = op("mul", Const(alpha * scale, x.dtype), op("expm1", op("mul", x, Const(input_scale, x.dtype))))
        return op("where", op("gt", x, Const(0.0, x.dtype), dtype="bool"), op("mul", x, Const(scale, x.dtype)), low)

    return elementwise(lowering, node, [given["self"]], body)


@lowers("hardswish", "hardsigmoid")
def _hard(lowering: Lowering, node: fx.Node) -> Tensor:
    swish = "hardswish" in str(node.target)

    def body(x: Expr) -> Expr:
        shifted = op("add", x, Const(3.0, x.dtype))
        gate = op("minimum", op("maximum", shifted, Const(0.0, x.dtype)), Const(6.0, x.dtype))
        return op("mul", op("mul", x, gate) if swish else gate, Const(1.0 / 6.0, x.dtype))

    return elementwise(lowering, node, [node.args[0]], body)


@lowers("full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "scalar_tensor", "new_full")
def _full(lowering: Lowering, node: fx.Node) -> Tensor:
    name = str(node.target)
    given = arguments(node)
    fill = 0 if "zeros" in name else 1 if "ones" in name else given["s" if "scalar_tensor" in name else "fill_value"]
    if isinstance(fill, fx.Node):
        raise NotLowered("fill value of a tensor")
    result = lowering.dtype(node)
    shape = lowering.shape(node)
    value = fill if not isinstance(fill, float) or not math.isnan(fill) else math.nan
    # A literal costs nothing: it is no operation but a tensor without a buffer.
    return Tensor(shape, result, lowering.axes(shape), scalar(value, (), result))


@lowers("arange.start_step", "arange.start", "arange")
def _arange(lowering: Lowering, node: fx.Node) -> Tensor:
    given = arguments(node)
    result, shape = lowering.dtype(node), lowering.shape(node)
    start, step = given.get("start", 0), given.get("step", 1)
    axes = lowering.axes(shape)
    at = Index() if shape[0].constant == 1 else Index.of(axes[0])
    if result in INTEGRAL:
        expr = scalar(lowering.size(start) + at * lowering.size(step), (), result)
    else:
        position = scalar(at, (), compute_dtype(result))
        scaled = op("mul", position, scalar(float(step), (), position.dtype))
        expr = cast(op("add", scaled, scalar(float(start), (), position.dtype)), result)
    return Tensor(shape, result, axes, expr)
