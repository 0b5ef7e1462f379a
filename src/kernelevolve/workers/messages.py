"""What the judge asks of a worker, and what a worker may answer.

Requests are dataclasses (they are pickled, from the trusted side). Replies are pydantic models: the judge validates
every field before it uses one. A program is called in one way only, whether its output will be compared, its time
kept, both or neither, so that nothing tells it what a call is for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.problems import Problem
from kernelevolve.workers.layout import TensorSlot

ClockName: TypeAlias = Literal["wall", "device"]


@dataclass(frozen=True, slots=True)
class CandidateProgram:
    """A candidate's text, with its configuration already written into it."""

    source: str


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """The problem's own ``Model`` as a baseline. Never sent to a worker that runs a candidate."""

    problem: Problem
    compile_mode: str | None
    """None: eager. Otherwise the ``mode`` of torch.compile."""
    library: bool = False
    """True: call the problem's ``LIBRARY`` instead."""


Program: TypeAlias = CandidateProgram | ReferenceProgram


@dataclass(frozen=True, slots=True)
class ArenaHandle:
    """How to map a block of memory that the judge made."""

    name: str
    size: int
    """In bytes."""
    kind: Literal["memfd", "cuda-ipc"]
    ipc: bytes = b""
    """The CUDA handle; a memfd travels as a descriptor beside the request."""


@dataclass(frozen=True, slots=True)
class Share:
    """Map an arena; later requests name it."""

    arena: ArenaHandle


@dataclass(frozen=True, slots=True)
class Unshare:
    """Forget arenas."""

    arenas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Import the program's module."""

    program: Program


@dataclass(frozen=True, slots=True)
class Construct:
    """Make one instance of the program: ``ModelNew(*init_inputs)`` and a strict load of the weights."""

    instance: str
    init_inputs: Any
    """Tuple of plain values and TensorSlots."""
    weights: dict[str, TensorSlot]
    parameters: frozenset[str]
    """Which of the weights are parameters (the others are buffers)."""
    arena: str
    training: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """Make sets of inputs of an arena: tensors view it, so later contents appear at the same addresses."""

    inputs: dict[str, Any]
    """Name of a binding -> tuple of nested containers of plain values and TensorSlots."""
    arena: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get ready: forget outputs, take over new input contents, evict the caches."""

    bindings: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """Call an instance, once or in a series, and keep the outputs under names."""

    instance: str
    calls: tuple[tuple[str, str], ...]
    """For every call the binding whose inputs it gets, and the name of its output."""
    clock: ClockName = "wall"
    head_start: float | None = None
    """Seconds for which the device is kept busy meanwhile, so that the host can launch ahead; None: as it needs."""
    graph: bool = False
    """Replay the graph that was captured of this instance on this binding instead of calling."""


@dataclass(frozen=True, slots=True)
class CaptureGraph:
    """Record one call as a CUDA graph, which later runs can replay; only for GPUs, and for instances called before.

    It is dropped when the binding or the instance is made anew or forgotten.
    """

    instance: str
    binding: str


@dataclass(frozen=True, slots=True)
class Describe:
    """Say what kept outputs are made of."""

    outputs: tuple[tuple[str, str], ...]
    """The name of an output and the binding that it was made from."""


@dataclass(frozen=True, slots=True)
class Pull:
    """Copy the tensors of kept outputs into an arena."""

    outputs: tuple[tuple[str, dict[str, TensorSlot]], ...]
    """The name of an output, and output path to place; shapes and dtypes are the judge's, not the worker's."""
    arena: str


@dataclass(frozen=True, slots=True)
class Differentiate:
    """Copy gradients of a kept output into an arena; zeros where it does not hang on something."""

    instance: str
    binding: str
    keep: str
    cotangents: dict[str, TensorSlot]
    """Output path to what the gradient of that output is."""
    inputs: dict[str, TensorSlot]
    """Path of an input to the place of its gradient."""
    parameters: dict[str, TensorSlot]
    """Name in the state dict to the place of its gradient; only for instances loaded by a strict match."""
    arena: str


@dataclass(frozen=True, slots=True)
class ReadState:
    """Copy the state dict of an instance into an arena; only for instances loaded by a strict match."""

    instance: str
    slots: dict[str, TensorSlot]
    arena: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop instances and bindings."""

    instances: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspect:
    """Have a function of ours look at the program from inside, or start a tool that does.

    Only sent to a worker whose word settles nothing, or that holds no candidate.
    """

    probe: Callable[..., dict[str, Any]]
    """Called with a ``site.Site`` and the arguments; pickled by name, so it must be a function of a module of ours."""
    arguments: dict[str, Any] = field(default_factory=dict)


class Reply(BaseModel):
    """What every answer is checked against."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Hello(Reply):
    """First words of a worker, before it has loaded anything that is not ours."""

    pid: int
    isolation: dict[str, str]


class Done(Reply):
    """The request was carried out; there is nothing to say."""


class Constructed(Reply):
    """``repacked`` is True if the weights went through ``from_reference``: the state dict is then the program's own."""

    repacked: bool


class Ran(Reply):
    """Times of the call or calls, in seconds for all together, by the worker's own clocks."""

    wall: float = Field(ge=0, allow_inf_nan=False)
    device: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class OutputDescription(Reply):
    """One leaf of a result, as its worker reports it."""

    path: str = Field(max_length=512)
    type: str = Field(max_length=256, description="qualified name of the Python type")
    dtype: str = Field(default="", max_length=32)
    shape: tuple[int, ...] = Field(default=(), max_length=64)
    device: str = Field(default="", max_length=32)
    aliases: tuple[str, ...] = Field(
        default=(), max_length=1024, description="paths of the inputs whose memory it uses"
    )
    value: bool | int | float | str | None = Field(default=None, description="a leaf that is not a tensor")


class Described(Reply):
    """All leaves of each result."""

    outputs: tuple[Annotated[tuple[OutputDescription, ...], Field(max_length=4096)], ...]


class Inspected(Reply):
    """What a probe found, as JSON; the profiler that sent it validates the fields."""

    report: dict[str, Any]


class Failed(Reply):
    """The program raised. ``category`` says which kind of trouble it was."""

    category: Literal["build", "interface", "memory", "exception"]
    type: str = Field(max_length=256)
    message: str = Field(max_length=20_000)
    traceback: str = Field(default="", max_length=20_000)


REPLIES: dict[type, type[Reply]] = {
    Share: Done,
    Unshare: Done,
    Load: Done,
    Construct: Constructed,
    Bind: Done,
    Prepare: Done,
    CaptureGraph: Done,
    Run: Ran,
    Describe: Described,
    Pull: Done,
    Differentiate: Done,
    ReadState: Done,
    Forget: Done,
    Inspect: Inspected,
}
"""What answers each request, unless it is ``Failed``."""
