"""Candidates: programs, their numeric freedom, and what can be read of them without running them."""

from kernelevolve.candidates.candidate import Candidate
from kernelevolve.candidates.space import Bool, Choice, Config, Int, PowerOfTwo, TunableSpace

__all__ = ["Bool", "Candidate", "Choice", "Config", "Int", "PowerOfTwo", "TunableSpace"]
