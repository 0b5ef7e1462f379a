"""Dead code: operations whose results nobody reads."""

from __future__ import annotations

from dataclasses import replace

from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.emit.emitter import Traits
from kernelevolve.operators.synthesis.ir import Operation, Program, read_buffers, written_buffers
from kernelevolve.operators.synthesis.plan import Planner


def without_dead_operations(program: Program, planner: Planner, traits: Traits) -> Program:
    """The program without operations that no output depends on."""
    live: set[Buffer] = set(program.outputs)
    kept: list[Operation] = []
    for operation in reversed(program.operations):
        if any(b in live for b in written_buffers(operation)):
            kept.append(operation)
            live |= read_buffers(operation)
    return replace(program, operations=tuple(reversed(kept)))
