"""What a writer of kernels should know: pages with sources, found by target, language, bottleneck and words."""

from kernelevolve.knowledge.base import KnowledgeBase
from kernelevolve.knowledge.page import Page
from kernelevolve.knowledge.retrieval import Found

__all__ = ["Found", "KnowledgeBase", "Page"]
