"""Small problems, written out, that the tests of the judge's own arithmetic share."""

from __future__ import annotations

from kernelevolve.problems import Problem, TolerancePolicy, Workload
from kernelevolve.problems.instance import Instance, load_instance

AS_WRITTEN = Workload(name="as-written")


def problem(forward: str, inputs: str, init: str = "", tolerance: TolerancePolicy | None = None) -> Problem:
    """A problem with this body of ``forward(self, *x)``, these inputs (a Python list) and this body of ``__init__``."""
    lines = [
        "import torch",
        "import torch.nn.functional as F",
        "from torch import nn",
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *("        " + line for line in init.strip("\n").splitlines()),
        "    def forward(self, *x):",
        *("        " + line for line in forward.strip("\n").splitlines()),
        "def get_inputs():",
        f"    return {inputs}",
        "def get_init_inputs():",
        "    return []",
    ]
    source = "\n".join(lines) + "\n"
    return Problem(name="small", source=source, tolerance=tolerance or TolerancePolicy())


def instance(forward: str, inputs: str, init: str = "") -> Instance:
    """The same, loaded on the CPU."""
    return load_instance(problem(forward, inputs, init), "cpu")
