"""Operators: how one program becomes another; one module or package each, found through ``OPERATORS``.

``llm`` is not among them: a language model is an operator for each model that a run was given (``llm/writer.py``).
"""

from kernelevolve.operators.operator import Judged, Operator, PastKernel, ProposalContext, ProposalLost, Retune, Writer
from kernelevolve.registry import Registry

OPERATORS: Registry[Operator] = Registry(
    "operator",
    "kernelevolve.operators",
    "OPERATOR",
    frozenset({"operator", "synthesis", "llm", "workshop", "purse", "exchange", "rerun"}),
)

__all__ = ["OPERATORS", "Judged", "Operator", "PastKernel", "ProposalContext", "ProposalLost", "Retune", "Writer"]
