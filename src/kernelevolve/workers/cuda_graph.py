"""A call captured as a CUDA graph: all its launches in one piece, without what the host does between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def capture(call: Callable[[], Any]) -> Callable[[], Any]:
    """Record what a call launches; what is returned replays it and gives the call's result, which lives as long.

    The result is the same memory every time, and inputs are read where they lay when the call was recorded. The call
    must have been made before, so that compilers and libraries have set up what they need. Raises RuntimeError if it
    does what cannot be recorded: waits for the device, or takes memory past torch's allocator.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        result = call()
    graph.replay()  # The first launch brings the graph to the device.
    torch.cuda.synchronize()

    def replay() -> Any:
        graph.replay()
        return result

    return replay
