"""Seeding: every random draw of a problem follows from a seed; the caller's generators are left as they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draws of torch, numpy and ``random`` follow the seed, and tensors are made on the device, inside this block."""
    devices = []
    if device.type == "cuda":
        devices = [torch.cuda.current_device() if device.index is None else device.index]
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=devices), device:
            torch.manual_seed(seed)
            random.seed(seed)
            numpy.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(python_state)
        numpy.random.set_state(numpy_state)
