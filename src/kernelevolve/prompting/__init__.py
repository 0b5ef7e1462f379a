"""Prompting: one prompt for every node, assembled from what is known there, and the answers to it."""

from kernelevolve.prompting.analysis import Analysis
from kernelevolve.prompting.answers import Change, Edit, Edits, WholeFile, answered_source, change_between, parse_answer
from kernelevolve.prompting.context import BudgetLeft, Memory, PromptContext, Step
from kernelevolve.prompting.prompt import DEFAULT_TOKENS, Prompt, assemble
from kernelevolve.prompting.retrieval import Found, Retriever
from kernelevolve.prompting.section import Cut, Section, Version, estimated_tokens
from kernelevolve.prompting.trimming import fenced, shortened, trimmed_log

__all__ = [
    "DEFAULT_TOKENS", "Analysis", "BudgetLeft", "Change", "Cut", "Edit", "Edits", "Found", "Memory", "Prompt",
    "PromptContext", "Retriever", "Section", "Step", "Version", "WholeFile", "answered_source",
    "assemble", "change_between", "estimated_tokens", "fenced", "parse_answer", "shortened", "trimmed_log",
]  # fmt: skip
