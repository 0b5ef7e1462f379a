"""Names of dtypes: which there are, how wide they are, and in which their values are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

DType: TypeAlias = str
"""A torch dtype name without 'torch.': 'float32', 'float16', 'bfloat16', 'float64', 'int64', 'bool', …"""

FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGRAL = frozenset({"int8", "int16", "int32", "int64", "uint8"})
DTYPES = FLOATING | INTEGRAL | {"bool"}
ITEM_BYTES: Mapping[DType, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
    "int64": 8, "float64": 8,
}  # fmt: skip


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which values of a storage dtype are computed: float32 for the two 16-bit floats, else itself."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype
