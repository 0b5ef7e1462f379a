"""Fusion: operations are grouped into kernels, greedily along the data flow, and each group is laid out in passes."""

from kernelevolve.operators.synthesis.fuse.schedule import schedule

__all__ = ["schedule"]
