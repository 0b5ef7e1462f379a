"""KernelEvolve: search for fast, verified kernels for PyTorch operators.

    run = kernelevolve.optimize("problem.py", target="auto", evaluations=60)
    module = run.best.load()

Names are imported when they are first used, so that ``import kernelevolve`` and the command line start without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelevolve.version import __version__ as __version__

if TYPE_CHECKING:
    from kernelevolve.errors import KernelEvolveError
    from kernelevolve.problems import Distribution, Problem, TolerancePolicy, Workload
    from kernelevolve.problems.loaders import load_problem
    from kernelevolve.run import BestKernel, Run, RunSummary
    from kernelevolve.session import optimize, resume, verify
    from kernelevolve.workspace import open_run

_HOME = {
    "KernelEvolveError": "kernelevolve.errors",
    "Distribution": "kernelevolve.problems",
    "Problem": "kernelevolve.problems",
    "TolerancePolicy": "kernelevolve.problems",
    "Workload": "kernelevolve.problems",
    "load_problem": "kernelevolve.problems.loaders",
    "BestKernel": "kernelevolve.run",
    "Run": "kernelevolve.run",
    "RunSummary": "kernelevolve.run",
    "open_run": "kernelevolve.workspace",
    "optimize": "kernelevolve.session",
    "resume": "kernelevolve.session",
    "verify": "kernelevolve.session",
}

__all__ = [
    "BestKernel",
    "Distribution",
    "KernelEvolveError",
    "Problem",
    "Run",
    "RunSummary",
    "TolerancePolicy",
    "Workload",
    "load_problem",
    "open_run",
    "optimize",
    "resume",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kernelevolve' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
