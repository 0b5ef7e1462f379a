"""Which tensors a block of memory may be: a sanitizer knows blocks by size, and people by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelevolve.workers.layout import Layout, leaves

_MOST_NAMES = 3


def named_blocks(weights: Mapping[str, torch.Tensor], inputs: Any) -> dict[int, list[str]]:
    """Bytes -> which weights and inputs take as many."""
    found: dict[int, list[str]] = {}
    named = [(f"input {path}", leaf) for path, leaf in leaves(inputs)]
    named += [(f"weight {name}", weight) for name, weight in weights.items()]
    for name, tensor in named:
        if isinstance(tensor, torch.Tensor):
            found.setdefault(Layout().place(tensor).extent, []).append(name)
    return found


def block_in_words(size: int, blocks: Mapping[int, Sequence[str]]) -> str:
    """'a block of 1024 bytes (as long as weight gain)'; ``blocks`` is what ``named_blocks`` makes."""
    names = list(blocks.get(size, ()))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    who = f" (as long as {', '.join(names[:_MOST_NAMES])}{more})" if names else ""
    return f"a block of {size} bytes{who}"
