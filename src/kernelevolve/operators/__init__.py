"""Operators: how one program becomes another; one module or package each, found through ``OPERATORS``."""

from kernelevolve.operators.operator import Judged, Operator, PastKernel, ProposalContext
from kernelevolve.registry import Registry

OPERATORS: Registry[Operator] = Registry(
    "operator", "kernelevolve.operators", "OPERATOR", frozenset({"operator", "synthesis"})
)

__all__ = ["OPERATORS", "Judged", "Operator", "PastKernel", "ProposalContext"]
