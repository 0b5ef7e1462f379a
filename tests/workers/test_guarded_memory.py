"""Guarded device memory: where tensors lie and what is seen, on a driver that keeps bytes in Python; then on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelevolve.languages.toolchain.cuda_driver import DriverError
from kernelevolve.workers.guarded_memory import ALIGNMENT, GuardedMemory, OutOfBoundsWrite

GRANULE = 2 << 20


class Memory:
    """A device of bytearrays; every access to an address that is not mapped is an error."""

    granule = GRANULE

    def __init__(self) -> None:
        self.next = 1 << 40
        self.reserved: dict[int, int] = {}
        self.mapped: dict[int, bytearray] = {}
        self.capturing: set[int] = set()
        self.full = False

    def reserve(self, size: int) -> int:
        address, self.next = self.next, self.next + size
        self.reserved[address] = size
        return address

    def release_addresses(self, address: int, size: int) -> None:
        assert self.reserved.pop(address) == size

    def map(self, address: int, size: int) -> int:
        if self.full:
            raise DriverError.__new__(DriverError)
        self.mapped[address] = bytearray(size)
        return address

    def unmap(self, address: int, size: int, handle: int) -> None:
        assert handle == address and len(self.mapped.pop(address)) == size

    def at(self, address: int) -> tuple[bytearray, int]:
        for start, content in self.mapped.items():
            if start <= address < start + len(content):
                return content, address - start
        raise AssertionError(f"fault at {address:x}")

    def write(self, address: int, data: bytes) -> None:
        content, at = self.at(address)
        content[at : at + len(data)] = data

    def read(self, address: int, size: int) -> bytes:
        content, at = self.at(address)
        return bytes(content[at : at + size])

    def synchronize(self) -> None:
        pass

    def is_capturing(self, stream: int) -> bool:
        return stream in self.capturing


@pytest.fixture
def driver() -> Memory:
    return Memory()


@pytest.mark.parametrize("size", [1, 16, 1000, 1024, GRANULE, GRANULE + 1, 5 * GRANULE - 7])
def test_a_tensor_ends_where_its_mapping_ends(driver: Memory, size: int) -> None:
    memory = GuardedMemory(driver)
    address = memory.allocate(size, 0)
    assert address % ALIGNMENT == 0
    content, at = driver.at(address + size - 1)
    assert len(content) - at <= ALIGNMENT  # behind it there is less than one aligned unit, and then nothing
    with pytest.raises(AssertionError, match="fault"):
        driver.at(address + size - 1 + ALIGNMENT)
    memory.check()
    memory.free(address, 0)
    assert not driver.mapped and not driver.reserved


@pytest.mark.parametrize(("offset", "words"), [(1000, "byte 0 behind the end"), (-4, "byte 1 in front of the start")])
@pytest.mark.parametrize("freed", [False, True])
def test_a_write_beside_a_tensor_is_told_once(driver: Memory, offset: int, words: str, freed: bool) -> None:
    memory = GuardedMemory(driver)
    address = memory.allocate(1000, 0)
    before = driver.read(address + offset, 4)
    driver.write(address + offset, bytes(255 - byte for byte in before))
    if freed:
        memory.free(address, 0)
    with pytest.raises(OutOfBoundsWrite, match=f"{words} of a tensor of 1000 bytes"):
        memory.check()
    if freed:
        memory.check()


def test_what_a_recorded_graph_uses_stays(driver: Memory) -> None:
    memory = GuardedMemory(driver)
    early = memory.allocate(64, 7)
    driver.capturing.add(7)
    inside = memory.allocate(64, 7)
    for address in (early, inside):
        memory.free(address, 7)
    assert len(driver.mapped) == 2
    driver.capturing.clear()
    memory.free(inside, 7)
    memory.check()
    assert len(driver.mapped) == 2


def test_no_addresses_are_lost_where_memory_is_full(driver: Memory) -> None:
    driver.full = True
    with pytest.raises(DriverError):
        GuardedMemory(driver).allocate(64, 0)
    assert not driver.reserved
    assert GuardedMemory(driver).allocate(0, 0) == 0


# -- on a GPU ----------------------------------------------------------------------------------------------------------

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")

HEAD = """
from kernelevolve.workers.guarded_cuda import GuardedAllocator
allocator = GuardedAllocator()
allocator.install()
import torch
import triton
import triton.language as tl
torch.cuda.init()
@triton.jit
def add(x, y, n, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1.0, i < count)
"""

HONEST = """
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for m, k, n in ((1, 1, 1), (127, 65, 33), (256, 512, 128), (1, 4096, 1), (3, 1000, 777)):
        a = torch.randn(m, k, device="cuda", dtype=dtype)
        b = torch.randn(k, n, device="cuda", dtype=dtype)
        torch.testing.assert_close((a @ b).double(), a.double() @ b.double(), rtol=0.1, atol=0.5)
        for f in (lambda t: torch.softmax(t, -1), lambda t: t.sum(), lambda t: t.sort().values,
                  lambda t: t.cumsum(-1), lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:])):
            f(a)
        x = torch.randn(1, 3, 17, 19, device="cuda", dtype=dtype)
        torch.nn.functional.conv2d(x, torch.randn(5, 3, 3, 3, device="cuda", dtype=dtype))
        torch.nn.functional.scaled_dot_product_attention(*[torch.randn(1, 2, 33, 64, device="cuda", dtype=dtype)] * 3)
for n in (1, 250, 256, 1000, 1 << 20):
    x = torch.randn(n, device="cuda")
    y = torch.empty_like(x)
    add[(triton.cdiv(n, 1024),)](x, y, n, n, BLOCK=1024)
    torch.testing.assert_close(y, x + 1)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    z = (x * 2).sum()
side.synchronize()
graph = torch.cuda.CUDAGraph()
static = torch.ones(1000, device="cuda")
with torch.cuda.graph(graph):
    result = (static * 3).softmax(0) * 1000
del x, y, z
static.fill_(2)
graph.replay()
torch.cuda.synchronize()
torch.testing.assert_close(result, torch.ones_like(result))
allocator.check()
print("all right")
"""

READ = """
x = torch.randn(256, device="cuda")
y = torch.empty(1024, device="cuda")
add[(1,)](x, y, 260, 256, BLOCK=1024)
torch.cuda.synchronize()
"""

WRITE = READ.replace("torch.empty(1024", "torch.empty(256").replace("260, 256", "256, 260")

SMALL_WRITE = """
x = torch.randn(250, device="cuda")
y = torch.empty(250, device="cuda")
add[(1,)](x, y, 250, 251, BLOCK=1024)
torch.cuda.synchronize()
allocator.check()
"""

LATE = """
x = torch.randn(256, device="cuda")
y = torch.empty(1024, device="cuda")
add[(1,)](x, y, 260, 256, BLOCK=1024)
while True:
    torch.empty(1, device="cuda")
"""


def ran(place: Path, program: str) -> subprocess.CompletedProcess[str]:
    path = place / "program.py"
    path.write_text(HEAD + program)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.nvidia
@pytest.mark.slow
@on_gpu
def test_honest_programs_run_in_guarded_memory(tmp_path: Path) -> None:
    finished = ran(tmp_path, HONEST)
    assert "all right" in finished.stdout, finished.stderr[-3000:]


@pytest.mark.nvidia
@pytest.mark.slow
@on_gpu
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (READ, "illegal memory access"),
        (WRITE, "illegal memory access"),
        (SMALL_WRITE, "byte 0 behind the end of a tensor of 1000 bytes"),
        (LATE, "illegal memory access"),
    ],
    ids=["read", "write", "small write", "seen by a later allocation"],
)
def test_what_is_out_of_bounds_is_seen(tmp_path: Path, program: str, words: str) -> None:
    finished = ran(tmp_path, program)
    assert finished.returncode != 0 and words in finished.stderr, finished.stderr[-3000:]
