"""ProgramSession: one program in one worker, driven by the judge, with the memory that the two share."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelevolve.judge.clocks import Bounds
from kernelevolve.judge.red_zones import RedZones, layout_with_zones
from kernelevolve.workers import messages
from kernelevolve.workers.device import Arena, ArenaMaker
from kernelevolve.workers.handle import ProgramRaised, WatchedExchange, WorkerFailure, WorkerHandle
from kernelevolve.workers.layout import Layout, TensorSlot, map_leaves, materialise, same_leaves, write_all
from kernelevolve.workers.messages import ClockName, OutputDescription
from kernelevolve.workers.wire import WireViolation

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
    zones: RedZones | None = None
    """What lies between the inputs; None for those of a series, whose memory is overwritten anyway."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of a finished call, or of a series in one go, in seconds."""

    outputs: tuple[tuple[str, str], ...]
    """For every output the name under which the worker keeps it, and that of the binding from which it was made."""
    wall: float
    """By the worker's clock."""
    device: float | None
    outer: float
    """By the judge's clock, hand-shake included."""
    waited: float = 0.0
    """Longest that a thread of the worker stood ready without a processor meanwhile."""
    delayed: float = 0.0
    """Part of ``outer`` in which the two that talk stood ready without a processor."""
    stood: float = 0.0
    """What all threads of the two together stood so, one added to the other: at most so much is the machine's doing."""

    @property
    def gap(self) -> float:
        """What the worker's wall clock leaves unexplained: a hand-shake, if it is honest."""
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
        self._outputs: dict[int, Arena] = {}
        """Bytes -> where outputs of that size are handed over."""

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
        self.handle.ask(messages.Bind({name: slots}, arena.handle.name), _SHARING_SECONDS)
        return Binding(name, slots, arena, RedZones(arena.memory, slots, layout.bytes))

    @contextlib.contextmanager
    def series(self, inputs: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Binding, ...]]:
        """Bindings for a series of calls, each with its own inputs in place; afterwards they are gone."""
        layout = Layout()
        slots = {secrets.token_hex(6): layout.place_all(one) for one in inputs}
        arena = self._share(layout.bytes)
        for places, values in zip(slots.values(), inputs, strict=True):
            write_all(places, values, arena.memory)
        arena.settle()
        self.handle.ask(messages.Bind(slots, arena.handle.name), _SHARING_SECONDS)
        yield tuple(Binding(name, places, arena) for name, places in slots.items())
        self.handle.ask(messages.Forget(bindings=tuple(slots)), _SHARING_SECONDS)
        self._unshare(arena)

    def spoil(self, bindings: Sequence[Binding]) -> None:
        """Overwrite the inputs of a series: what has not been computed by now cannot be computed any more."""
        arena = bindings[0].arena
        arena.memory.fill_(0xFF)
        arena.settle()
        self.ready(bindings, _SHARING_SECONDS)

    def prepare(self, binding: Binding, inputs: tuple[Any, ...], timeout: float) -> None:
        """Put new contents at the same addresses and have the worker evict its caches."""
        self._fit(binding, inputs)
        write_all(binding.slots, inputs, binding.arena.memory)
        binding.arena.settle()
        self.ready([binding], timeout)

    def ready(self, bindings: Sequence[Binding], timeout: float) -> None:
        """Have the worker take over what lies in the bindings, drop what is stale and evict its caches."""
        self.handle.ask(messages.Prepare(tuple(b.name for b in bindings), tuple(self._stale)), timeout)
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
        self.handle.ask(messages.Bind({binding.name: slots}, binding.arena.handle.name), _SHARING_SECONDS)

    def call(
        self,
        instance: str,
        bindings: Sequence[Binding],
        timeout: float,
        clock: ClockName = "wall",
        head_start: float | None = None,
        graph: bool = False,
    ) -> Call:
        """Call the instance on what each of the bindings holds now. The outputs are kept until ``forget``.

        With ``graph`` the graphs are replayed that ``capture_graph`` has recorded of these calls.
        """
        outputs = tuple((secrets.token_hex(6), binding.name) for binding in bindings)
        calls = tuple((binding, keep) for keep, binding in outputs)
        exchange = self.handle.ask_watched(messages.Run(instance, calls, clock, head_start, graph), timeout)
        ran = exchange.reply
        assert isinstance(ran, messages.Ran)
        return Call(outputs, ran.wall, ran.device, exchange.seconds, exchange.waited, exchange.delayed, exchange.stood)

    def capture_graph(self, instance: str, binding: Binding, timeout: float) -> None:
        """Record one call as a CUDA graph. It holds until contents of other shapes are put into the binding."""
        self.handle.ask(messages.CaptureGraph(instance, binding.name), timeout)

    def describe(self, call: Call) -> tuple[tuple[tuple[OutputDescription, ...], ...], Bounds]:
        """What every output is made of, as the worker reports it, and the seconds of work that it took."""
        exchange = self.handle.ask_watched(messages.Describe(call.outputs), _SHARING_SECONDS)
        assert isinstance(exchange.reply, messages.Described)
        if len(exchange.reply.outputs) != len(call.outputs):
            raise WireViolation(f"{len(call.outputs)} outputs were asked for, {len(exchange.reply.outputs)} described")
        return exchange.reply.outputs, _work(exchange)

    def pull(
        self,
        call: Call,
        places: Mapping[int, Mapping[str, TensorSlot]],
        timeout: float,
        wanted: Collection[int] = (0,),
    ) -> tuple[dict[int, dict[str, torch.Tensor]], Bounds]:
        """Private copies of the ``wanted`` outputs' tensors, and the seconds of work that it took to hand over all.

        ``places`` maps the index of an output to its paths' slots, all in one layout. The shapes and dtypes are those
        of the slots. Whatever the worker does not write reads as NaN.
        """
        arena = self._output_arena([slot for slots in places.values() for slot in slots.values()])
        arena.memory.fill_(0xFF)
        arena.settle()
        outputs = tuple((call.outputs[index][0], dict(slots)) for index, slots in places.items())
        exchange = self.handle.ask_watched(messages.Pull(outputs, arena.handle.name), timeout)
        copies = {index: {path: self._copy(slot, arena) for path, slot in places[index].items()} for index in wanted}
        return copies, _work(exchange)

    def hand_over(self, call: Call, places: Mapping[int, Mapping[str, TensorSlot]], timeout: float) -> Bounds:
        """Describe and pull with cold caches, for the time alone: the seconds of work that it took."""
        self.ready((), timeout)
        _, described = self.describe(call)
        _, pulled = self.pull(call, places, timeout, wanted=())
        return described + pulled

    def differentiate(
        self,
        call: Call,
        instance: str,
        cotangents: Mapping[str, torch.Tensor],
        inputs: Mapping[str, TensorSlot],
        parameters: Mapping[str, TensorSlot],
        layout: Layout,
        timeout: float,
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Private copies of the gradients of a call's output, by input and by parameter.

        ``layout`` is where the places of the gradients lie; the cotangents are placed behind them.
        """
        given = {path: layout.place(tensor) for path, tensor in cotangents.items()}
        arena = self._share(layout.bytes)
        write_all(given, dict(cotangents), arena.memory)
        arena.settle()
        ((keep, binding),) = call.outputs
        request = messages.Differentiate(
            instance, binding, keep, given, dict(inputs), dict(parameters), arena.handle.name
        )
        self.handle.ask(request, timeout)
        by_input, by_parameter = (
            {name: self._copy(slot, arena) for name, slot in slots.items()} for slots in (inputs, parameters)
        )
        self._unshare(arena)
        return by_input, by_parameter

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
        """Let the worker drop the outputs of a call before its next one."""
        self._stale += (keep for keep, _ in call.outputs)

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

    def _output_arena(self, slots: Sequence[TensorSlot]) -> Arena:
        size = max((slot.offset + slot.extent for slot in slots), default=0)
        if size not in self._outputs:
            self._outputs[size] = self._share(size)
        return self._outputs[size]

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


def _work(exchange: WatchedExchange) -> Bounds:
    """Seconds of work of an exchange: at least those in which nobody waited for a processor, at most all.

    A copy is shared among the threads of the worker's pool, whose processors may still be taken by the pool of another
    process, and it ends when the last of them has been served: the longest wait of any thread counts.
    """
    return Bounds(max(0.0, exchange.seconds - max(exchange.delayed, exchange.waited)), exchange.seconds)
