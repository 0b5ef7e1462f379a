"""Places in shared memory: what is written at a place is read there, and places do not overlap."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.workers.layout import ALIGNMENT, Layout, TensorSlot, materialise, same_leaves, write_all

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int8,
    torch.bool,
    torch.complex64,
]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    values = torch.randint(0, 2, [2 * size for size in shape]).to(dtype)
    view = values[tuple(slice(None, None, 2) for _ in shape)] if draw(st.booleans()) else values
    return view.transpose(0, -1) if view.dim() > 1 and draw(st.booleans()) else view


@given(values=st.lists(tensors(), min_size=1, max_size=5))
def test_written_values_are_read_back(values: list[torch.Tensor]) -> None:
    layout = Layout()
    slots = layout.place_all({"list": values, "plain": 3})
    memory = torch.full((layout.bytes,), 0xFF, dtype=torch.uint8)
    write_all(slots, {"list": values, "plain": 3}, memory)
    seen = materialise(slots, memory)
    assert seen["plain"] == 3
    for value, found in zip(values, seen["list"], strict=True):
        assert torch.equal(value, found)
        assert found.dtype == value.dtype and found.shape == value.shape
        assert found.stride() == value.stride() and found.storage_offset() == 0


@given(values=st.lists(tensors(), min_size=2, max_size=6))
def test_places_are_aligned_and_apart(values: list[torch.Tensor]) -> None:
    layout = Layout()
    slots = [layout.place(value) for value in values]
    assert all(slot.offset % ALIGNMENT == 0 for slot in slots)
    for earlier, later in itertools.pairwise(slots):
        assert earlier.offset + earlier.extent <= later.offset
    assert slots[-1].offset + slots[-1].extent <= layout.bytes


def test_later_contents_appear_at_the_same_address() -> None:
    layout = Layout()
    slot = layout.place(torch.zeros(8))
    memory = torch.zeros(layout.bytes, dtype=torch.uint8)
    view = slot.view(memory)
    slot.write(memory, torch.arange(8.0))
    assert torch.equal(view, torch.arange(8.0))


def test_an_expanded_tensor_keeps_its_stride() -> None:
    value = torch.arange(3.0).reshape(3, 1).expand(3, 1000)
    layout = Layout()
    slot = layout.place(value)
    assert layout.bytes == ALIGNMENT
    memory = torch.zeros(layout.bytes, dtype=torch.uint8)
    slot.write(memory, value)
    assert torch.equal(slot.view(memory), value) and slot.view(memory).stride() == (1, 0)


def test_one_place_gives_no_way_to_another() -> None:
    layout = Layout()
    first, _ = layout.place(torch.zeros(4)), layout.place(torch.zeros(4))
    view = first.view(torch.zeros(layout.bytes, dtype=torch.uint8))
    assert view.untyped_storage().nbytes() == 16


def test_poison_reads_as_nan() -> None:
    memory = torch.full((64,), 0xFF, dtype=torch.uint8)
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        assert math.isnan(TensorSlot(0, (1,), (1,), dtype).view(memory).item())


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


def test_named_tuples_and_gradients_survive() -> None:
    tree = Pair(torch.ones(2, requires_grad=True), 7)
    layout = Layout()
    slots = layout.place_all(tree)
    memory = torch.zeros(layout.bytes, dtype=torch.uint8)
    write_all(slots, tree, memory)
    seen = materialise(slots, memory)
    assert isinstance(seen, Pair) and seen.right == 7 and seen.left.requires_grad


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ((1, [2, "x"]), (1, [2, "x"]), True),
        ((1, 2), (1, 3), False),
        ((1,), (1, 2), False),
        ({"a": 1}, {"b": 1}, False),
        ((object(),), (object(),), False),
    ],
)
def test_same_leaves(a: Any, b: Any, same: bool) -> None:
    assert same_leaves(a, b) is same
