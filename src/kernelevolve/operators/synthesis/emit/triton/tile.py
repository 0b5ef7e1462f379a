"""Row tiles: which rows a Triton program works on, and what the kernel text around the passes looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernelevolve.candidates.space import Value as Setting
from kernelevolve.operators.synthesis.buffer import Buffer
from kernelevolve.operators.synthesis.emit.triton.passes import split_names
from kernelevolve.operators.synthesis.emit.triton.scope import Body, Scope
from kernelevolve.operators.synthesis.index import Index, Var
from kernelevolve.operators.synthesis.kernels import LoopKernel
from kernelevolve.operators.synthesis.layout import product_of

_WIDE = 1 << 30
"""Elements of a buffer from which on positions are computed in 64 bits."""


@dataclass(frozen=True)
class KernelText:
    """A finished kernel: its definition, how it is launched, and what of it can be tuned."""

    source: str
    launch: tuple[str, ...]
    tunables: Mapping[str, str]
    constraints: tuple[str, ...] = ()
    seeds: tuple[Mapping[str, Setting], ...] = ()


def needs_wide_positions(kernel: LoopKernel, hints: Mapping[str, int]) -> bool:
    """True if some buffer is so long that 32 bits do not hold its offsets."""
    return any(b.numel.evaluate(hints) >= _WIDE for b in (*kernel.reads(), *kernel.writes()))


def python_text(index: Index) -> str:
    """A size as a Python expression over the names of the runtime sizes."""
    return str(index).replace("/", "//")


def row_scope(body: Body, axes: tuple[Var, ...], name: str, mask: str) -> tuple[dict[Var, str], dict[Var, str]]:
    """Texts and masks of row axes walked as one flattened index called ``name``."""
    return split_names(name, axes, Scope(body, {}, {})), dict.fromkeys(axes, mask)


def define(kernel: LoopKernel, body: Body, constants: tuple[str, ...]) -> str:
    """The definition of a kernel whose body is written."""
    arguments = [*body.pointers.values(), *body.tables.values(), *body.sizes]
    arguments += [f"{name}: tl.constexpr" for name in (*body.searches.values(), *constants)]
    about = f"{kernel.title} ({', '.join(kernel.origins)})" if kernel.origins else kernel.title
    head = ["@triton.jit", f"def {kernel.name}({', '.join(arguments)}):", f'    """Computes {about}."""']
    return "\n".join([*head, *body.lines])


def launch(kernel: LoopKernel, body: Body, grid: tuple[str, ...], constants: Mapping[str, str]) -> tuple[str, ...]:
    """The statement of ``forward`` that runs a kernel."""
    arguments = [_pointer_argument(buffer) for buffer in body.pointers]
    for values in body.tables:
        entries = "".join(f"{python_text(v)}, " for v in values)
        arguments.append(f"constant_table(({entries}), {_any_tensor(body)}.device)")
    arguments += list(body.sizes)
    arguments += [f"{name}={_halvings(length)}" for length, name in body.searches.items()]
    arguments += [f"{name}={text}" for name, text in constants.items()]
    return (f"{kernel.name}[({', '.join(grid)},)](", *(f"    {a}," for a in arguments), ")")


def span_arguments(body: Body) -> dict[str, str]:
    """The widths of tiles whose extent is known at run time only."""
    return {
        name: f"max({least}, triton.next_power_of_2({python_text(extent)}))"
        for (extent, least), name in body.spans.items()
    }


def _pointer_argument(buffer: Buffer) -> str:
    if buffer.members:
        return f"address_table(({', '.join(m.name for m in buffer.members)},))"
    return buffer.name


def _any_tensor(body: Body) -> str:
    return next((m.name for b in body.pointers for m in (b.members or (b,))), "")


def _halvings(length: Index) -> str:
    return str(length.constant.bit_length()) if length.constant is not None else f"({python_text(length)}).bit_length()"


def extent_of(axes: tuple[Var, ...]) -> Index:
    """Number of points of some axes together."""
    return product_of(a.extent for a in axes)
