"""ProgramSession: one program in one worker, driven by the judge, with the memory that the two share."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelevolve.judge.red_zones import RedZones, layout_with_zones
from kernelevolve.workers import messages
from kernelevolve.workers.device import Arena, ArenaMaker
from kernelevolve.workers.handle import ProgramRaised, WatchedExchange, WorkerFailure, WorkerHandle
from kernelevolve.workers.layout import Layout, TensorSlot, map_leaves, materialise, same_leaves, write_all
from kernelevolve.workers.messages import ClockName, OutputDescription

_SHARING_SECONDS = 30.0
_DISTURBED_SECONDS = 2e-3
"""The hand-shake itself costs a thread some tenths of a millisecond where every core is in use, a time slice more."""
_DISTURBED_SHARE = 0.05


@dataclass(slots=True)
class Binding:
    """The inputs of a program: places in an arena whose contents the judge replaces between calls."""

    name: str
    slots: Any
    arena: Arena
    zones: RedZones


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of a finished call (or of ``repeats`` calls in one go), in seconds."""

    keep: str
    """Name under which the worker keeps the output."""
    wall: float
    """By the worker's clock."""
    device: float | None
    outer: float
    """By the judge's clock, hand-shake included."""
    waited: float = 0.0
    """Longest that a thread of the worker stood ready without a processor meanwhile."""
    delayed: float = 0.0
    """Part of ``outer`` in which the two that talk stood ready without a processor."""

    @property
    def gap(self) -> float:
        """What the worker's clock leaves unexplained: a hand-shake, if it is honest."""
        return self.outer - self.delayed - self.wall

    @property
    def disturbed(self) -> bool:
        """True if other work on the machine, and not the program, made this call long."""
        return self.waited > max(_DISTURBED_SECONDS, _DISTURBED_SHARE * self.outer)

    def seconds(self, clock: ClockName) -> float:
        """The worker's reading of one clock."""
        if clock == "wall":
            return self.wall
        assert self.device is not None
        return self.device


class ProgramSession:
    """Requests in the judge's terms. Everything may raise WorkerFailure or WireViolation."""

    def __init__(self, handle: WorkerHandle, maker: ArenaMaker) -> None:
        self.handle = handle
        self._maker = maker
        self._arenas: dict[str, Arena] = {}
        self._stale: list[str] = []
        self._outputs: dict[tuple[tuple[str, TensorSlot], ...], Arena] = {}

    def load(self, program: messages.Program, timeout: float) -> None:
        """Import the program's module."""
        self.handle.ask(messages.Load(program), timeout)

    def construct(
        self,
        instance: str,
        init_inputs: tuple[Any, ...],
        weights: Mapping[str, torch.Tensor],
        parameters: frozenset[str],
        training: bool,
        timeout: float,
    ) -> bool:
        """Make an instance with these weights; True if the program repacked them."""
        layout = Layout()
        weight_slots = {name: layout.place(tensor.detach()) for name, tensor in weights.items()}
        init_slots = layout.place_all(init_inputs)
        arena = self._share(layout.bytes)
        write_all(weight_slots, dict(weights), arena.memory)
        write_all(init_slots, init_inputs, arena.memory)
        arena.settle()
        request = messages.Construct(instance, init_slots, weight_slots, parameters, arena.handle.name, training)
        reply = self.handle.ask(request, timeout).reply
        self._unshare(arena)
        assert isinstance(reply, messages.Constructed)
        return reply.repacked

    def bind(self, name: str, inputs: tuple[Any, ...]) -> Binding:
        """Places for inputs like these; their contents are written by ``prepare``."""
        layout = layout_with_zones()
        slots = layout.place_all(inputs)
        arena = self._share(layout.bytes)
        self.handle.ask(messages.Bind(name, slots, arena.handle.name), _SHARING_SECONDS)
        return Binding(name, slots, arena, RedZones(arena.memory, slots, layout.bytes))

    def prepare(self, binding: Binding, inputs: tuple[Any, ...], timeout: float) -> None:
        """Put new contents at the same addresses and have the worker evict its caches."""
        self._fit(binding, inputs)
        write_all(binding.slots, inputs, binding.arena.memory)
        binding.arena.settle()
        self.handle.ask(messages.Prepare(binding.name, tuple(self._stale)), timeout)
        self._stale.clear()

    def _fit(self, binding: Binding, inputs: tuple[Any, ...]) -> None:
        """Bind anew if shapes or plain values differ from one input set to the next, as ragged inputs may."""
        layout = layout_with_zones()
        slots = layout.place_all(inputs)
        if same_leaves(slots, binding.slots):
            return
        if layout.bytes > binding.arena.handle.size:
            self._unshare(binding.arena)
            binding.arena = self._share(layout.bytes)
        binding.slots = slots
        binding.zones = RedZones(binding.arena.memory, slots, layout.bytes)
        self.handle.ask(messages.Bind(binding.name, slots, binding.arena.handle.name), _SHARING_SECONDS)

    def call(
        self, instance: str, binding: Binding, timeout: float, clock: ClockName = "wall", repeats: int = 1
    ) -> Call:
        """Call the instance on what the binding holds now. The output is kept until ``forget``."""
        keep = secrets.token_hex(6)
        exchange = self.handle.ask_watched(messages.Run(instance, binding.name, keep, clock, repeats), timeout)
        ran = exchange.reply
        assert isinstance(ran, messages.Ran)
        return Call(keep, ran.wall, ran.device, exchange.seconds, exchange.waited, exchange.delayed)

    def describe(self, call: Call, binding: Binding) -> tuple[tuple[OutputDescription, ...], float]:
        """What the output of a call is made of, as the worker reports it, and the seconds of work that it took."""
        exchange = self.handle.ask_watched(messages.Describe(call.keep, binding.name), _SHARING_SECONDS)
        assert isinstance(exchange.reply, messages.Described)
        return exchange.reply.outputs, _worked(exchange)

    def pull(self, call: Call, slots: dict[str, TensorSlot], timeout: float) -> tuple[dict[str, torch.Tensor], float]:
        """Private copies of an output's tensors by path, and the seconds of work that it took to hand them over.

        The shapes and dtypes are those of the slots. Whatever the worker does not write reads as NaN.
        """
        arena = self._output_arena(slots)
        arena.memory.fill_(0xFF)
        arena.settle()
        exchange = self.handle.ask_watched(messages.Pull(call.keep, slots, arena.handle.name), timeout)
        outputs = {path: self._copy(slot, arena) for path, slot in slots.items()}
        return outputs, _worked(exchange)

    def hand_over(self, call: Call, binding: Binding, slots: dict[str, TensorSlot], timeout: float) -> float:
        """Describe and pull once, for the time alone: the seconds of work that it took."""
        _, described = self.describe(call, binding)
        _, pulled = self.pull(call, slots, timeout)
        return described + pulled

    def read_state(self, instance: str, weights: Mapping[str, torch.Tensor], timeout: float) -> dict[str, torch.Tensor]:
        """Private copies of the state dict of an instance."""
        layout = Layout()
        slots = {name: layout.place(tensor.detach()) for name, tensor in weights.items()}
        arena = self._share(layout.bytes)
        self.handle.ask(messages.ReadState(instance, slots, arena.handle.name), timeout)
        state = {name: self._copy(slot, arena) for name, slot in slots.items()}
        self._unshare(arena)
        return state

    def inputs_now(self, binding: Binding) -> Any:
        """The inputs as they are in the worker at this moment (views; copy what must last)."""
        tensors = materialise(binding.slots, binding.arena.memory)
        return map_leaves(tensors, lambda leaf: leaf.to(self._maker.torch_device) if torch.is_tensor(leaf) else leaf)

    def forget(self, call: Call) -> None:
        """Let the worker drop an output before its next call."""
        self._stale.append(call.keep)

    def drop(self, instance: str, binding: Binding) -> None:
        """Let the worker forget an instance and a binding for good."""
        self.handle.ask(messages.Forget((instance,), (binding.name,)), _SHARING_SECONDS)
        self._unshare(binding.arena)

    def close(self) -> None:
        """End the worker and free the shared memory."""
        self.handle.kill()
        for arena in self._arenas.values():
            arena.close()
        self._arenas.clear()

    def _copy(self, slot: TensorSlot, arena: Arena) -> torch.Tensor:
        return slot.view(arena.memory).to(self._maker.torch_device, copy=True)

    def _output_arena(self, slots: dict[str, TensorSlot]) -> Arena:
        key = tuple(slots.items())
        if key not in self._outputs:
            size = max((slot.offset + slot.extent for slot in slots.values()), default=0)
            self._outputs[key] = self._share(size)
        return self._outputs[key]

    def _share(self, size: int) -> Arena:
        while True:
            arena = self._maker.make(size)
            try:
                self.handle.ask(messages.Share(arena.handle), _SHARING_SECONDS, arena.descriptors)
            except ProgramRaised:
                arena.close()
                # No program has a part in this request: the two sides cannot share memory in this way.
                if not self._maker.fall_back():
                    raise
            except WorkerFailure:
                arena.close()
                raise
            else:
                self._arenas[arena.handle.name] = arena
                return arena

    def _unshare(self, arena: Arena) -> None:
        with contextlib.suppress(KeyError):
            del self._arenas[arena.handle.name]
        self.handle.ask(messages.Unshare((arena.handle.name,)), _SHARING_SECONDS)
        arena.close()


def _worked(exchange: WatchedExchange) -> float:
    """Seconds of an exchange without those in which a processor was waited for.

    A copy is shared among the threads of the worker's pool, whose processors may still be taken by the pool of another
    process, and it ends when the last of them has been served: the longest wait of any thread counts.
    """
    return max(0.0, exchange.seconds - max(exchange.delayed, exchange.waited))
