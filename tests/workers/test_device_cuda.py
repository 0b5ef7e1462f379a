"""The same worker on an NVIDIA GPU: device memory of the judge in the worker, both clocks, the host-memory fall-back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelevolve.workers import messages
from kernelevolve.workers.handle import ProgramRaised, WorkerHandle
from kernelevolve.workers.isolation import IsolationPolicy, interpreter_directories
from kernelevolve.workers.launcher import Launcher
from kernelevolve.workers.layout import Layout
from kernelevolve.workers.spawn import Spawn

pytestmark = [
    pytest.mark.nvidia,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU"),
]

SOURCE = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x @ x
"""


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher(threads=1) as launcher:
        yield launcher


@pytest.fixture
def handle(launcher: Launcher, tmp_path: Path) -> Iterator[WorkerHandle]:
    home = tmp_path / "home"
    home.mkdir()
    policy = IsolationPolicy(home, hidden=(Path("/tmp"),), visible=interpreter_directories())
    handle = launcher.spawn(Spawn(policy, "cuda", 1, 50 << 20, {"HOME": str(home)}, tmp_path / "output.txt"))
    yield handle
    handle.kill()


@pytest.mark.parametrize("shared", [True, False], ids=["device memory", "host memory"])
def test_calls_see_new_contents_and_both_clocks_run(handle: WorkerHandle, shared: bool) -> None:
    from kernelevolve.workers.device_cuda import CudaArenaMaker

    maker = CudaArenaMaker()
    if not shared:
        assert maker.fall_back() and not maker.fall_back()
    handle.ask(messages.Load(messages.CandidateProgram(SOURCE)), 30)
    x = torch.randn(1024, 1024, device="cuda")
    layout = Layout()
    slot = layout.place(x)
    given, taken = maker.make(layout.bytes), maker.make(layout.bytes)
    assert given.memory.device.type == ("cuda" if shared else "cpu")
    for arena in (given, taken):
        handle.ask(messages.Share(arena.handle), 30, arena.descriptors)
    handle.ask(messages.Construct("i", (), {}, frozenset(), given.handle.name), 30)
    handle.ask(messages.Bind({"b": (slot,)}, given.handle.name), 30)
    for clock in ("wall", "device"):
        x = torch.randn_like(x)
        slot.write(given.memory, x)
        given.settle()
        handle.ask(messages.Prepare(("b",)), 30)
        exchange = handle.ask(messages.Run("i", (("b", "out"),), clock), 30)
        ran = exchange.reply
        assert isinstance(ran, messages.Ran) and ran.device is not None
        assert 0 < ran.device <= ran.wall <= exchange.seconds
        handle.ask(messages.Pull((("out", {"0": slot}),), taken.handle.name), 30)
        torch.testing.assert_close(slot.view(taken.memory).cuda(), x @ x)


def test_an_arena_shows_nothing_else_of_the_judge() -> None:
    from kernelevolve.workers.device_cuda import CudaArenaMaker

    maker = CudaArenaMaker()
    first, second = maker.make(1000), maker.make(1000)
    assert first.memory.numel() == 1000 and bool((first.memory == 0xFF).all())
    assert abs(first.memory.data_ptr() - second.memory.data_ptr()) >= 2 << 20
    for arena in (first, second):
        arena.close()


def test_a_captured_call_is_replayed_on_new_contents_until_its_inputs_are_bound_anew(handle: WorkerHandle) -> None:
    from kernelevolve.workers.device_cuda import CudaArenaMaker

    maker = CudaArenaMaker()
    handle.ask(messages.Load(messages.CandidateProgram(SOURCE)), 30)
    x = torch.randn(64, 64, device="cuda")
    layout = Layout()
    slot = layout.place(x)
    given, taken = maker.make(layout.bytes), maker.make(layout.bytes)
    for arena in (given, taken):
        handle.ask(messages.Share(arena.handle), 30, arena.descriptors)
    handle.ask(messages.Construct("i", (), {}, frozenset(), given.handle.name), 30)
    handle.ask(messages.Bind({"b": (slot,)}, given.handle.name), 30)
    handle.ask(messages.Run("i", (("b", "out"),)), 30)
    handle.ask(messages.CaptureGraph("i", "b"), 30)
    for clock in ("device", "wall"):
        x = torch.randn_like(x)
        slot.write(given.memory, x)
        given.settle()
        handle.ask(messages.Prepare(("b",), ("out",)), 30)
        handle.ask(messages.Run("i", (("b", "out"),), clock, graph=True), 30)
        handle.ask(messages.Pull((("out", {"0": slot}),), taken.handle.name), 30)
        torch.testing.assert_close(slot.view(taken.memory).cuda(), x @ x)
    handle.ask(messages.Bind({"b": (slot,)}, given.handle.name), 30)
    with pytest.raises(ProgramRaised, match="no graph of this call"):
        handle.ask(messages.Run("i", (("b", "out"),), graph=True), 30)
