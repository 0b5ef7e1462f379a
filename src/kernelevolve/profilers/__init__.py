"""What profilers say of a candidate, as one ``Diagnosis``; one module each, found through ``PROFILERS``.

Nothing here makes or changes a verdict: a profiler runs in a process that the candidate shares, and what it says is
evidence for the search.
"""

from kernelevolve.profilers.diagnosis import Bottleneck, Diagnosis, Distance, Evidence, Metric, Place, Suggestion
from kernelevolve.profilers.profiler import Profiler
from kernelevolve.registry import Registry

PROFILERS: Registry[Profiler] = Registry(
    "profiler", "kernelevolve.profilers", "PROFILER",
    frozenset({"diagnosis", "naming", "suggestions", "profiler", "inside"}),
)  # fmt: skip

__all__ = ["PROFILERS", "Bottleneck", "Diagnosis", "Distance", "Evidence", "Metric", "Place", "Profiler", "Suggestion"]
