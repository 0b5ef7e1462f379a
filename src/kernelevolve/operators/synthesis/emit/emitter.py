"""Emitter: how a schedule becomes the kernel text of one language. The Python shell round it is shared (``shell.py``).

A candidate file is the shell (imports, ``TUNABLES``, ``CONFIG``, ``PLAN``, ``NOTES``, ``ModelNew`` with the parameters
of the reference, shape guards, allocation of outputs and temporaries, the torch form for what the kernels do not cover)
around what an emitter returns: module text that builds the kernels, and for each kernel the Python statements that
launch it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kernelevolve.candidates.space import Value
from kernelevolve.operators.synthesis.kernels import Schedule
from kernelevolve.operators.synthesis.plan import Planner

Facts = Mapping[str, str | int | float]
"""What ``Target.facts()`` says."""


class Inexpressible(Exception):
    """A kernel that a language cannot express as it was scheduled; the message says what stands in the way."""


@dataclass(frozen=True)
class Traits:
    """What a language can express well; scheduling asks before it groups operations."""

    products: tuple[str, ...] = ("tiled", "library")
    """How a matrix product may be computed, preferred first: 'tiled' is a ProductPass, 'library' a torch call."""
    longest_sum: int = 1 << 62
    """Contracted elements beyond which a product is computed by the library unless a plan says otherwise."""
    rows_after_product: bool = True
    """True if passes over whole rows (reductions too) may follow a product in one kernel; else pointwise only."""
    row_elements: int = 1 << 16
    """Largest ROW buffer; longer rows are computed again or go through memory."""
    segments: bool = True
    """True if a reduced axis may have bounds that are read from memory."""
    packed_sides: bool = False
    """True if a side of a product must be contiguous along an axis that is walked in blocks to be read fast."""
    moments: bool = True
    """True if mean and spread can be formed in one sweep (``Combine.MOMENTS``)."""
    families: bool = True
    """True if a kernel may choose among several buffers by an index."""


@dataclass(frozen=True)
class Emitted:
    """The language-dependent text of a candidate.

    In launch statements the tensor of each global buffer stands under the name of the buffer (contiguous, on the
    device; for a family under the names of its members), each runtime size under its name as an int, and each tunable
    as ``CONFIG["NAME"]``. Names that begin with an underscore belong to the shell.
    """

    imports: tuple[str, ...]
    """Import lines, e.g. 'from kernelevolve.languages import cpp'."""
    module_text: str
    """Top-level statements after CONFIG: the kernel source, its build, constants bound to tunables."""
    launches: Mapping[str, tuple[str, ...]]
    """Kernel name -> Python statements of ``forward`` that run it on its buffers."""
    tunables: Mapping[str, str] = field(default_factory=dict)
    """Tunable name -> its declaration as text, e.g. 'PowerOfTwo(64, 4096, 1024)'."""
    constraints: tuple[str, ...] = ()
    seeds: tuple[Mapping[str, Value], ...] = ()
    """Configurations worth trying first; each may name some of the tunables only."""
    notes: tuple[str, ...] = ()


class Emitter(Protocol):
    """One language. The package or module ``emit/<language>`` holds ``EMITTER``, an instance of this."""

    language: str
    """Name of the registered Language that the text is written in."""

    def traits(self, facts: Facts) -> Traits:
        """What scheduling may do for this language on this device."""
        ...

    def emit(self, schedule: Schedule, planner: Planner, facts: Facts) -> Emitted:
        """Text for all kernels of a schedule; structural choices of the language go through the planner."""
        ...
