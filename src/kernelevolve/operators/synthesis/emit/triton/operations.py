"""Primitives of the intermediate form as Triton text. Arguments are texts of tensors in the compute dtype."""

from __future__ import annotations

from collections.abc import Mapping

DTYPES: Mapping[str, str] = {
    "bool": "tl.int1", "int8": "tl.int8", "uint8": "tl.uint8", "int16": "tl.int16", "int32": "tl.int32",
    "int64": "tl.int64", "float16": "tl.float16", "bfloat16": "tl.bfloat16", "float32": "tl.float32",
    "float64": "tl.float64",
}  # fmt: skip

_NAN = "propagate_nan=tl.PropagateNan.ALL"

FLOATING: Mapping[str, str] = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "abs": "tl.abs({0})",
    "sign": "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0 * {0}))", "reciprocal": "1.0 / {0}",
    "square": "{0} * {0}",
    "maximum": f"tl.maximum({{0}}, {{1}}, {_NAN})", "minimum": f"tl.minimum({{0}}, {{1}}, {_NAN})",
    "floor_divide": "tl.floor({0} / {1})", "trunc_divide": "libdevice.trunc({0} / {1})",
    "remainder": "{0} - tl.floor({0} / {1}) * {1}", "fmod": "libdevice.fmod({0}, {1})", "fma": "{0} * {1} + {2}",
    "floor": "tl.floor({0})", "ceil": "tl.ceil({0})", "round": "libdevice.rint({0})", "trunc": "libdevice.trunc({0})",
    "exp": "tl.exp({0})", "exp2": "tl.exp2({0})", "expm1": "libdevice.expm1({0})", "log": "tl.log({0})",
    "log2": "tl.log2({0})", "log10": "libdevice.log10({0})", "log1p": "libdevice.log1p({0})", "sqrt": "tl.sqrt({0})",
    "rsqrt": "tl.rsqrt({0})", "pow": "libdevice.pow({0}, {1})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "tan": "libdevice.tan({0})", "asin": "libdevice.asin({0})", "acos": "libdevice.acos({0})",
    "atan": "libdevice.atan({0})", "sinh": "libdevice.sinh({0})", "cosh": "libdevice.cosh({0})",
    "tanh": "libdevice.tanh({0})", "asinh": "libdevice.asinh({0})", "acosh": "libdevice.acosh({0})",
    "atanh": "libdevice.atanh({0})", "atan2": "libdevice.atan2({0}, {1})", "erf": "tl.erf({0})",
    "erfc": "libdevice.erfc({0})", "hypot": "libdevice.hypot({0}, {1})", "copysign": "libdevice.copysign({0}, {1})",
    "sigmoid": "1.0 / (1.0 + tl.exp(-{0}))", "silu": "{0} / (1.0 + tl.exp(-{0}))",
    "gelu": "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))",
    "gelu_tanh": "0.5 * {0} * (1.0 + libdevice.tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))",
    "softplus": "tl.maximum({0}, 0.0) + libdevice.log1p(tl.exp(-tl.abs({0})))",
}  # fmt: skip

INTEGRAL: Mapping[str, str] = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "neg": "-{0}", "abs": "tl.abs({0})",
    "sign": "tl.where({0} > 0, 1, tl.where({0} < 0, -1, 0))", "square": "{0} * {0}",
    "maximum": "tl.maximum({0}, {1})", "minimum": "tl.minimum({0}, {1})",
    "floor_divide": "floor_divide({0}, {1})", "trunc_divide": "{0} // {1}",
    "remainder": "{0} - floor_divide({0}, {1}) * {1}", "fmod": "{0} % {1}", "fma": "{0} * {1} + {2}",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}", "shift_left": "{0} << {1}",
    "shift_right": "{0} >> {1}",
}  # fmt: skip

LOGICAL: Mapping[str, str] = {
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "{0} == 0",
    "maximum": "{0} | {1}", "minimum": "{0} & {1}", "add": "{0} | {1}", "mul": "{0} & {1}",
}  # fmt: skip

COMPARING: Mapping[str, str] = {
    "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", 
    "ge": "{0} >= {1}", "isnan": "{0} != {0}", "isinf": 'tl.abs({0}) == float("inf")',
}  # fmt: skip

HELPERS = '''@triton.jit
def floor_divide(a, b):
    """Integer division that rounds down; the hardware's rounds towards zero."""
    quotient = a // b
    return quotient - tl.where((quotient * b != a) & ((a < 0) != (b < 0)), 1, 0)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def multiplied(a, b):
    return a * b
'''
"""Functions that kernels call; only those that are named in a kernel are written into a candidate."""


def template(name: str, argument_dtype: str, result_dtype: str) -> str | None:
    """The text of a primitive with places for its arguments; None if Triton has nothing for it."""
    if name in COMPARING:
        return COMPARING[name]
    if argument_dtype == "bool" and result_dtype == "bool":
        return LOGICAL.get(name)
    table = FLOATING if argument_dtype.startswith(("float", "bfloat")) else INTEGRAL
    return table.get(name)
