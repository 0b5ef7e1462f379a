"""Primitives, types and literals in C++."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernelevolve.operators.synthesis.dtype import INTEGRAL, DType
from kernelevolve.operators.synthesis.expr import Const

VALUE_TYPES: Mapping[DType, str] = {
    "float32": "float", "float64": "double", "float16": "float", "bfloat16": "float", "int8": "int8_t",
    "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "bool": "bool",
}  # fmt: skip
"""Type of a value in registers."""
STORAGE_TYPES: Mapping[DType, str] = {**VALUE_TYPES, "float16": "ke::f16", "bfloat16": "ke::bf16", "bool": "uint8_t"}
"""Type of an element in memory. Loops over arrays of bool do not vectorise; over bytes they do."""
_LOADS = {"float16": "ke::load_f16({})", "bfloat16": "ke::load_bf16({})", "bool": "({} != 0)"}
_STORES = {"float16": "ke::store_f16({})", "bfloat16": "ke::store_bf16({})"}

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "and": "&", "or": "|", "xor": "^", "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
_SHARED = {
    "neg": "-{0}", "square": "({0} * {0})", "reciprocal": "(1 / {0})", "sign": "ke::sign<{type}>({0})",
    **{n: f"ke::{n}<{{type}}>({{0}}, {{1}})" for n in ("maximum", "minimum", "floor_divide", "trunc_divide")},
    **{n: f"ke::{n}<{{type}}>({{0}}, {{1}})" for n in ("remainder", "fmod")}, "where": "({0} ? {1} : {2})",
}  # fmt: skip
_FLOAT = {
    **{n: f"ke::{n}({{0}})" for n in ("exp", "expm1", "log", "log1p", "rsqrt", "tanh", "sigmoid", "silu", "softplus")},
    **{n: f"ke::{n}({{0}})" for n in ("erf", "gelu", "gelu_tanh", "abs")},
    "fma": "ke::fma({0}, {1}, {2})", "copysign": "ke::copysign({0}, {1})", "reciprocal": "(1.0f / {0})",
}  # fmt: skip
_DOUBLE = {
    **{n: f"ke::lib::{n}({{0}})" for n in ("exp", "expm1", "log", "log1p", "tanh", "erf")},
    **{n: f"ke::{n}({{0}})" for n in ("rsqrt", "sigmoid", "silu", "softplus", "gelu", "gelu_tanh")},
    "abs": "ke::lib::fabs({0})",
    "fma": "ke::lib::fma({0}, {1}, {2})",
    "copysign": "ke::lib::copysign({0}, {1})",
}
_EITHER = {
    **{n: f"ke::lib::{n}({{0}})" for n in ("exp2", "log2", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos")},
    **{n: f"ke::lib::{n}({{0}})" for n in ("atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc")},
    **{n: f"ke::lib::{n}({{0}})" for n in ("floor", "ceil", "trunc")},
    "round": "ke::lib::nearbyint({0})",
    "pow": "ke::lib::pow({0}, {1})",
    "atan2": "ke::lib::atan2({0}, {1})",
    "hypot": "ke::lib::hypot({0}, {1})",
    "isnan": "({0} != {0})",
    "isinf": "(ke::lib::fabs({0}) == ke::lib::infinity)",
}


def loaded(dtype: DType, text: str) -> str:
    """The value of a stored element."""
    return _LOADS.get(dtype, "{}").format(text)


def stored(dtype: DType, text: str) -> str:
    """What is stored for a value."""
    return _STORES.get(dtype, "{}").format(text)


def operation(name: str, dtype: DType, result: DType, arguments: list[str], bounded: bool) -> str:
    """A primitive applied to texts. ``dtype`` is that of the arguments; ``bounded`` if the last one is a literal.

    Small integers are brought back to their width, as C++ computes them in int.
    """
    if name == "not":
        return f"!{arguments[0]}" if dtype == "bool" else f"~{arguments[0]}"
    if bounded and dtype == "float32" and name in ("maximum", "minimum"):
        return f"ke::{name[:3]}({arguments[0]}, {arguments[1]})"
    if name == "abs" and dtype in INTEGRAL:
        return f"({arguments[0]} < 0 ? -{arguments[0]} : {arguments[0]})"
    if name in _INFIX:
        text = f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
        return f"static_cast<{VALUE_TYPES[result]}>{text}" if result in ("int8", "uint8", "int16") else text
    special = {"float32": _FLOAT, "float64": _DOUBLE}.get(dtype, {})
    template = special.get(name) or _SHARED.get(name) or _EITHER[name]
    return template.format(*arguments, type=VALUE_TYPES[dtype])


def converted(text: str, source: DType, target: DType) -> str:
    """A conversion of a value."""
    if VALUE_TYPES[source] == VALUE_TYPES[target]:
        return text
    if target == "bool":
        return f"({text} != 0)"
    return f"static_cast<{VALUE_TYPES[target]}>({text})"


def literal(constant: Const) -> str:
    """A constant."""
    value, dtype = constant.value, constant.dtype
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in INTEGRAL:
        number = int(value)
        if number == -(1 << 63):
            return "INT64_MIN"
        return f"{number}LL" if abs(number) >= 1 << 31 else str(number) if number >= 0 else f"({number})"
    suffix = "" if dtype == "float64" else "f"
    number_ = float(value)
    if math.isnan(number_):
        return "ke::lib::nan"
    if math.isinf(number_):
        return "ke::lib::infinity" if number_ > 0 else "-ke::lib::infinity"
    text = repr(number_)
    text = text if any(c in text for c in ".e") else text + ".0"
    return f"{text}{suffix}" if number_ >= 0 else f"({text}{suffix})"
