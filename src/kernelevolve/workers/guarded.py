"""What workers have in which every access to memory is watched: inputs in allocations of their own, and their ends."""

from __future__ import annotations

from typing import Any

import torch

from kernelevolve.workers.layout import TensorSlot, map_leaves

NO_GUARD, ILLEGAL_ACCESS = 96, 98
"""With which a worker ends that gets no guarded memory: because there is none, or because its program has touched what
it must not. Torch cannot be told so, and would go on with no memory at all."""


class OwnInputs:
    """Copies of the inputs that lie in ``memory``, an arena, each as long as its tensor and no longer.

    In the arena itself one input follows another, and who reads past one reads memory that is there.
    """

    def __init__(self, slots: tuple[Any, ...], memory: torch.Tensor) -> None:
        self._memory = memory
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Bytes in the arena, and the same bytes in an allocation of their own."""
        inputs = map_leaves(slots, self._own)
        assert isinstance(inputs, tuple)
        self.inputs: tuple[Any, ...] = inputs

    def _own(self, leaf: Any) -> Any:
        if not isinstance(leaf, TensorSlot):
            return leaf
        if leaf.extent == 0:
            return leaf.view(self._memory)
        place = self._memory[leaf.offset : leaf.offset + leaf.extent]
        copy = place.clone()
        self._copies.append((place, copy))
        tensor = copy.view(leaf.torch_dtype).as_strided(leaf.shape, leaf.stride)
        return tensor.requires_grad_() if leaf.requires_grad else tensor

    def refresh(self) -> None:
        """Bring what lies in the arena now to the same addresses."""
        with torch.no_grad():
            for place, copy in self._copies:
                copy.copy_(place)
