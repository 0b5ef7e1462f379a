"""Buffers: what is in memory. They are row-major and contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernelevolve.operators.synthesis.dtype import DType
from kernelevolve.operators.synthesis.index import Index
from kernelevolve.operators.synthesis.layout import product_of


class Role(StrEnum):
    """What a buffer is to the program."""

    INPUT = "input"
    WEIGHT = "weight"
    """A parameter or registered buffer of the module; its content may change between calls."""
    CONSTANT = "constant"
    """A tensor literal of the reference, the same in every call."""
    TEMPORARY = "temporary"
    OUTPUT = "output"
    FAMILY = "family"
    """Several buffers of one rank and dtype seen as one: the first index chooses the member."""
    ROW = "row"
    """Scratch of one row of a kernel (see ``kernels.LoopKernel``); never in memory between kernels."""


@dataclass(frozen=True)
class Buffer:
    """A contiguous row-major tensor. ``name`` is unique in a program and a valid identifier in C and Python."""

    name: str
    shape: tuple[Index, ...]
    dtype: DType
    role: Role
    members: tuple[Buffer, ...] = ()
    """For a FAMILY: the buffers that the first index chooses from. ``shape[1:]`` is the shape of each member, except
    that ragged leading sizes are given by their maximum."""

    @property
    def numel(self) -> Index:
        """Elements."""
        return product_of(self.shape)
