"""Arguments: Python values as the C values that a prototype asks for, with an error that names what does not fit.

============================  ========================================================================================
parameter                     takes
============================  ========================================================================================
``float*``, ``int64_t*`` …    a tensor of that dtype on the right device, or None for a null pointer. ``uint16_t*`` is
                              either 16-bit float, ``ke::bf16*`` and ``ke::f16*`` (and CUDA's names for them) just one,
                              ``uint8_t*`` takes bool too, ``void*`` and unknown types any dtype.
``T**``                       an int64 tensor of addresses
integers                      an int that fits, or whatever has ``__index__``
``float``, ``double``         an int or float
``bool``                      a bool
============================  ========================================================================================

Strides are not looked at: whether a tensor is contiguous is for the candidate to see to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelevolve.languages.prototypes import Parameter, Prototype

if TYPE_CHECKING:
    import torch

Converter: TypeAlias = Callable[[Any], Any]

_INTEGERS: dict[str, Any] = {
    "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "i16": ctypes.c_int16, "u16": ctypes.c_uint16, "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
}  # fmt: skip
_SCALARS: dict[str, Any] = {**_INTEGERS, "f32": ctypes.c_float, "f64": ctypes.c_double, "bool": ctypes.c_bool}
_DTYPES: dict[str, tuple[str, ...]] = {
    "f32": ("float32",), "f64": ("float64",), "bool": ("bool", "uint8"), "i8": ("int8", "bool", "uint8"),
    "u8": ("uint8", "bool", "int8"), "i16": ("int16",), "u16": ("bfloat16", "float16", "int16", "uint16"),
    "i32": ("int32",), "u32": ("int32", "uint32"), "i64": ("int64",), "u64": ("int64", "uint64"),
    "ke::bf16": ("bfloat16",), "ke::f16": ("float16",), "bf16": ("bfloat16",), "f16": ("float16",),
    "__half": ("float16",), "half": ("float16",), "__half2": ("float16",), "half2": ("float16",),
    "__nv_bfloat16": ("bfloat16",), "nv_bfloat16": ("bfloat16",), "__nv_bfloat162": ("bfloat16",),
    "float2": ("float32",), "float4": ("float32",),
}  # fmt: skip


def c_type(parameter: Parameter) -> Any:
    """The ctypes class of a parameter or result. Raises ValueError for a type that cannot be passed by value."""
    if parameter.pointers:
        return ctypes.c_void_p
    if parameter.type not in _SCALARS:
        raise ValueError(f"{parameter.type!r} cannot be passed by value")
    return _SCALARS[parameter.type]


class Signature:
    """The conversion of one prototype's arguments for tensors on one kind of device ('cpu' or 'cuda')."""

    def __init__(self, prototype: Prototype, device_type: str) -> None:
        self.name = prototype.name
        self.parameters = prototype.parameters
        self.types = tuple(c_type(p) for p in prototype.parameters)
        self._converters = tuple(_converter(p, device_type) for p in prototype.parameters)

    def convert(self, arguments: Sequence[Any]) -> list[Any]:
        """The values to pass, in order. Raises TypeError, naming the parameter, if one does not fit."""
        if len(arguments) != len(self._converters):
            names = ", ".join(f"{p.spelling} {p.name}".strip() for p in self.parameters)
            raise TypeError(f"{self.name}({names}) was called with {len(arguments)} arguments")
        try:
            return [convert(value) for convert, value in zip(self._converters, arguments, strict=True)]
        except _Misfit:
            raise self._misfit(arguments) from None

    def _misfit(self, arguments: Sequence[Any]) -> TypeError:
        for position, (convert, value) in enumerate(zip(self._converters, arguments, strict=True)):
            try:
                convert(value)
            except _Misfit as misfit:
                parameter = self.parameters[position]
                named = f" {parameter.name!r}" if parameter.name else ""
                return TypeError(
                    f"{self.name}: argument {position + 1}{named} ({parameter.spelling}) takes {misfit}, "
                    f"got {_describe(value)}"
                )
        raise AssertionError("no argument misfits")


class _Misfit(Exception):
    """A value does not fit; the text is what would."""


def _converter(parameter: Parameter, device_type: str) -> Converter:
    if parameter.pointers:
        return _pointer(parameter, device_type)
    if parameter.type in ("f32", "f64"):
        return _number
    if parameter.type == "bool":
        return _truth
    bits = ctypes.sizeof(_INTEGERS[parameter.type]) * 8
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if parameter.type[0] == "i" else (0, 1 << bits)
    return _integer(low, high)


def _pointer(parameter: Parameter, device_type: str) -> Converter:
    import torch

    names = ("int64",) if parameter.pointers > 1 else _DTYPES.get(parameter.type)
    dtypes = None if names is None else {getattr(torch, name) for name in names if hasattr(torch, name)}
    wanted = f"a {' or '.join(names) if names else 'torch'} tensor on {device_type}"
    on_cpu = device_type == "cpu"
    tensor = torch.Tensor

    def convert(value: torch.Tensor | None) -> int | None:
        if value is None:
            return None
        fits = isinstance(value, tensor) and (value.is_cpu if on_cpu else value.is_cuda)
        if not fits or (dtypes is not None and value.dtype not in dtypes):
            raise _Misfit(wanted)
        return value.data_ptr()

    return convert


def _integer(low: int, high: int) -> Converter:
    def convert(value: Any) -> int:
        if not hasattr(value, "__index__") or hasattr(value, "data_ptr"):
            raise _Misfit("an int")
        number: int = value.__index__()
        if not low <= number < high:
            raise _Misfit(f"an int from {low} to {high - 1}")
        return number

    return convert


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise _Misfit("an int or float")
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, (bool, int)):
        raise _Misfit("a bool")
    return bool(value)


def _describe(value: Any) -> str:
    dtype, device = getattr(value, "dtype", None), getattr(value, "device", None)
    if dtype is not None and device is not None:
        return f"a {str(dtype).removeprefix('torch.')} tensor on {device.type}"
    return f"{type(value).__name__} {value!r}"[:80]
