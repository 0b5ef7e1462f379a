"""The worker: loads one program and calls it when asked. Runs in a forked, confined process and trusts nobody.

It answers every request with one reply. Whatever the program raises, SystemExit included, becomes a ``Failed`` reply.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from kernelevolve.problems.outputs import flatten_outputs, named_leaves
from kernelevolve.workers import messages, wire
from kernelevolve.workers.cuda_graph import capture
from kernelevolve.workers.device import WorkerDevice
from kernelevolve.workers.devices import worker_device
from kernelevolve.workers.faults import describe_fault
from kernelevolve.workers.guarded import OwnInputs
from kernelevolve.workers.layout import TensorSlot, leaves, materialise
from kernelevolve.workers.program import Instance, LoadedProgram, load, qualified_type
from kernelevolve.workers.site import Site
from kernelevolve.workers.spawn import Spawn


def serve(sock: socket.socket, spawn: Spawn, isolation: dict[str, str]) -> NoReturn:
    """Say hello, then answer requests until the judge closes the socket."""
    own = os.getpid()
    wire.send_reply(sock, "hello", {"pid": own, "isolation": isolation})
    worker: Worker | None = None
    while True:
        try:
            request, descriptors = wire.receive_request(sock)
        except (EOFError, ConnectionError):
            os._exit(0)
        try:
            # The device context is made with the first request, so that its failure has a reply to go into.
            worker = worker or Worker(
                worker_device(spawn.device_type, spawn.threads, spawn.cache_bytes, guarded=spawn.guarded), spawn.guarded
            )
            body = worker.answer(request.message, descriptors)
        except BaseException as fault:
            body = {"failed": describe_fault(fault)}
        if os.getpid() != own:
            os._exit(1)  # A child that the program forked came back to here; the wire is its parent's.
        wire.send_reply(sock, request.token, body)


@dataclass(frozen=True, slots=True)
class _Binding:
    """Input tensors that view an arena, or that are copies of what lies there."""

    inputs: tuple[Any, ...]
    arena: str
    own: OwnInputs | None = None

    def storages(self) -> dict[int, list[str]]:
        """Address of a storage -> paths of the inputs in it."""
        found: dict[int, list[str]] = {}
        for path, leaf in leaves(self.inputs):
            if isinstance(leaf, torch.Tensor):
                found.setdefault(_address(leaf), []).append(path)
        return found


class Worker:
    """Programs, instances, inputs and outputs of one worker process, by the names that the judge gave them."""

    def __init__(self, device: WorkerDevice, guarded: bool = False) -> None:
        self._device = device
        self._guarded = guarded
        self._program: LoadedProgram | None = None
        self._arenas: dict[str, torch.Tensor] = {}
        self._instances: dict[str, Instance] = {}
        self._bindings: dict[str, _Binding] = {}
        self._kept: dict[str, Any] = {}
        self._graphs: dict[tuple[str, str], Callable[[], Any]] = {}
        """Instance and binding -> what replays a call of one on the other."""

    def answer(self, message: Any, descriptors: list[int]) -> dict[str, Any]:
        """Carry out a request; the body of its reply."""
        match message:
            case messages.Share(arena):
                self._arenas[arena.name] = self._device.map(arena, descriptors)
            case messages.Unshare(arenas):
                for name in arenas:
                    self._arenas.pop(name, None)
                    self._device.unmap(name)
            case messages.Load(program):
                self._program = load(program, Path.cwd(), self._device.torch_device)
            case messages.Construct():
                return self._construct(message)
            case messages.Bind(inputs, arena):
                self._drop_graphs(inputs)
                for name, tree in inputs.items():
                    own = OwnInputs(tree, self._arenas[arena]) if self._guarded else None
                    bound = materialise(tree, self._arenas[arena]) if own is None else own.inputs
                    self._bindings[name] = _Binding(bound, arena, own)
            case messages.Prepare(bindings, forget):
                for name in forget:
                    self._kept.pop(name, None)
                for arena in {self._bindings[name].arena for name in bindings}:
                    self._device.take_over(arena)
                for name in bindings:
                    if (own := self._bindings[name].own) is not None:
                        own.refresh()
                self._device.flush()
            case messages.CaptureGraph(instance, binding):
                # As in ``_run``: another mode of autograd would have torch.compile compile anew while it is recorded.
                with torch.set_grad_enabled(self._instances[instance].training):
                    self._graphs[instance, binding] = capture(self._call(instance, binding))
            case messages.Run():
                return self._run(message)
            case messages.Describe(outputs):
                inputs = {binding: self._bindings[binding].storages() for _, binding in outputs}
                return {"outputs": [describe_outputs(self._kept[keep], inputs[name]) for keep, name in outputs]}
            case messages.Pull(outputs, arena):
                self._copy_out([(dict(flatten_outputs(self._kept[keep])), slots) for keep, slots in outputs], arena)
            case messages.Differentiate():
                self._differentiate(message)
            case messages.ReadState(instance, slots, arena):
                self._copy_out([(self._instances[instance].module.state_dict(), slots)], arena)
            case messages.Forget(instances, bindings):
                self._drop_graphs((*instances, *bindings))
                for name in instances:
                    self._instances.pop(name, None)
                for name in bindings:
                    self._bindings.pop(name, None)
            case messages.Inspect(probe, arguments):
                held = {name: binding.inputs for name, binding in self._bindings.items()}
                return {"report": probe(Site(Path.cwd(), self._device, self._instances, held), **arguments)}
            case _:
                raise TypeError(f"unknown request {type(message).__name__}")
        return {}

    def _construct(self, message: messages.Construct) -> dict[str, Any]:
        assert self._program is not None
        self._device.take_over(message.arena)
        memory = self._arenas[message.arena]
        # Copies: the arena is the judge's to reuse, and a program may keep what it was given.
        weights = {name: slot.view(memory).clone() for name, slot in message.weights.items()}
        init_inputs = materialise(message.init_inputs, memory.clone() if _has_slots(message.init_inputs) else memory)
        instance = self._program.construct(
            init_inputs, weights, message.parameters, self._device.torch_device, message.training
        )
        self._drop_graphs((message.instance,))
        self._instances[message.instance] = instance
        return {"repacked": instance.repacked}

    def _run(self, message: messages.Run) -> dict[str, Any]:
        instance = self._instances[message.instance]
        find = self._replay if message.graph else self._call
        calls = [find(message.instance, binding) for binding, _ in message.calls]
        with torch.set_grad_enabled(instance.training):
            timing = self._device.timed(calls, message.clock, message.head_start)
        self._kept |= {keep: result for (_, keep), result in zip(message.calls, timing.results, strict=True)}
        return {"wall": timing.wall, "device": timing.device}

    def _call(self, instance: str, binding: str) -> Callable[[], Any]:
        return partial(self._instances[instance].call, *self._bindings[binding].inputs)

    def _replay(self, instance: str, binding: str) -> Callable[[], Any]:
        if (instance, binding) not in self._graphs:
            raise RuntimeError("no graph of this call has been captured since its inputs were bound")
        return self._graphs[instance, binding]

    def _drop_graphs(self, names: Collection[str]) -> None:
        """Forget the graphs of instances or bindings, whose memory they would read."""
        self._graphs = {key: graph for key, graph in self._graphs.items() if not set(key) & set(names)}

    def _differentiate(self, message: messages.Differentiate) -> None:
        memory = self._arenas[message.arena]
        self._device.take_over(message.arena)
        outputs = dict(flatten_outputs(self._kept[message.keep]))
        reached = [path for path in message.cotangents if outputs[path].requires_grad]
        inputs = dict(leaves(self._bindings[message.binding].inputs))
        state = self._instances[message.instance].module.state_dict(keep_vars=True)
        places = [(inputs[path], slot) for path, slot in message.inputs.items()]
        places += [(state[name], slot) for name, slot in message.parameters.items()]
        wanted = [tensor for tensor, _ in places if tensor.requires_grad]
        found: dict[int, torch.Tensor | None] = {}
        if reached and wanted:
            cotangents = [message.cotangents[path].view(memory) for path in reached]
            gradients = torch.autograd.grad([outputs[path] for path in reached], wanted, cotangents, allow_unused=True)
            found = {id(tensor): gradient for tensor, gradient in zip(wanted, gradients, strict=True)}
        with torch.no_grad():
            for tensor, slot in places:
                gradient = found.get(id(tensor))
                slot.write(memory, torch.zeros_like(tensor) if gradient is None else gradient)
        self._device.hand_back(message.arena)

    def _copy_out(self, parts: list[tuple[dict[str, Any], dict[str, TensorSlot]]], arena: str) -> None:
        memory = self._arenas[arena]
        self._device.take_over(arena)
        with torch.no_grad():
            for tensors, slots in parts:
                for path, slot in slots.items():
                    slot.write(memory, tensors[path])
        self._device.hand_back(arena)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0


def _has_slots(tree: Any) -> bool:
    return any(isinstance(leaf, TensorSlot) for _, leaf in leaves(tree))


def describe_outputs(result: Any, inputs: dict[int, list[str]]) -> list[dict[str, Any]]:
    """What the judge is told of each leaf of a result; ``inputs`` maps addresses of storages to input paths."""
    described = []
    for path, leaf in named_leaves(result):
        entry: dict[str, Any] = {"path": path, "type": qualified_type(leaf)}
        if isinstance(leaf, torch.Tensor):
            entry |= {
                "dtype": str(leaf.dtype).removeprefix("torch."),
                "shape": list(leaf.shape),
                "device": leaf.device.type,
                "aliases": inputs.get(_address(leaf), []),
            }
        elif isinstance(leaf, (bool, int, float, str)):
            entry["value"] = leaf
        described.append(entry)
    return described
