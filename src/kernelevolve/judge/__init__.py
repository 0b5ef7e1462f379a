"""The judge: the only place where a verdict is made."""

from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Effort, Measurement, Stage, Verdict, VerdictKind

__all__ = ["Effort", "Judge", "Measurement", "Stage", "Verdict", "VerdictKind"]
