"""Problems: what to compute, on which workloads, and how much error is allowed."""

from kernelevolve.problems.problem import Problem
from kernelevolve.problems.tolerance import TolerancePolicy
from kernelevolve.problems.workload import Distribution, Role, Workload

__all__ = ["Distribution", "Problem", "Role", "TolerancePolicy", "Workload"]
