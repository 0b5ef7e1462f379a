"""Demand: which share of every tensor in a captured graph the outputs really need. Always a lower bound.

Shares are passed from the outputs back to the placeholders. A slice needs a part of what it cuts, a gather needs the
rows that its indices name, a masked value is needed where the mask lets it through. Masks and indices that follow from
integers alone are computed on one draw of the inputs; what would have to be guessed counts as not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import fx

VIEWS = frozenset({
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "alias", "detach",
    "slice", "select", "split", "split_with_sizes", "unbind", "getitem",
})  # fmt: skip
"""Operators whose result is a window on the memory of their first argument."""
_STRIDED = {"conv1d": 3, "conv2d": 3, "convolution": 3, "avg_pool1d": 2, "avg_pool2d": 2, "avg_pool3d": 2,
            "max_pool2d_with_indices": 2, "max_pool3d_with_indices": 2}  # fmt: skip
"""Windowed operators and the position of their stride: a stride beyond the window leaves elements out."""
_SAME_VALUES = VIEWS | {"clone", "_to_copy"}
_PICKING = frozenset({"embedding", "index_select", "gather", "index"})
"""Operators that take elements of a table by indices, each to a place of its own."""
_NORMALISED = frozenset({"softmax", "_softmax", "_log_softmax", "log_softmax"})
_MOST_ELEMENTS = 1 << 28
"""Larger masks and indices are not computed."""


def operator_name(node: Any) -> str:
    """'mm' for a node that calls aten.mm.default; '' for anything but a call."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return ""
    packet = getattr(node.target, "overloadpacket", node.target)
    return str(getattr(packet, "__name__", packet))


def elements(node: fx.Node) -> int:
    """Elements of a node's tensor, of all of them if it has several."""
    value = node.meta.get("val")
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return sum(part.numel() for part in parts if isinstance(part, torch.Tensor))


def shape(node: fx.Node) -> tuple[int, ...]:
    """Shape of a node's tensor."""
    return tuple(int(size) for size in node.meta["val"].shape)


def argument(node: fx.Node, position: int, default: Any = None) -> Any:
    """A positional argument, or the default if the call leaves it out."""
    return node.args[position] if position < len(node.args) else default


def common(*shares: float) -> float:
    """The share that lies in all of several parts of one whole at least, wherever they lie (Fréchet, 1935)."""
    parts = [share for share in shares if share < 1.0]
    return max(0.0, sum(parts) - (len(parts) - 1)) if parts else 1.0


def memory(node: fx.Node) -> fx.Node:
    """The node whose memory a chain of views shows."""
    while operator_name(node) in VIEWS and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


class Demand:
    """Shares of the tensors of one graph, for one draw of the inputs."""

    def __init__(self, graph: fx.Graph, inputs: Mapping[fx.Node, torch.Tensor]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._known: dict[fx.Node, torch.Tensor | None] = {}

    @cached_property
    def shares(self) -> dict[fx.Node, float]:
        """Node -> share of its elements, 0 to 1, without which the outputs cannot be made."""
        shares: dict[fx.Node, float] = {}
        for node in reversed(self._graph.nodes):
            if node.op == "output":
                continue
            pieces = [self._piece(user, node, shares.get(user, 1.0)) for user in node.users]
            shares[node] = min(1.0, _union(node, pieces))
        return shares

    def density(self, node: fx.Node) -> float:
        """Share of a matrix that is not zero by construction: 0.5 for a triangle, 1 for anything that is computed."""
        if node in self._inputs and self._inputs[node].is_floating_point():
            value = self._inputs[node]
            share = float(torch.count_nonzero(value)) / max(1, value.numel())
            # A few zeros are chance, and dense kernels do not look for them.
            return share if share < 0.75 else 1.0
        name = operator_name(node)
        if name in _SAME_VALUES and isinstance(node.args[0], fx.Node):
            base = node.args[0]
            # An expanded matrix holds the same several times. A part of a matrix may be the one with the zeros.
            part = 1.0 if name == "expand" else elements(node) / max(1, elements(base)) or 1.0
            return common(self.density(base), part) / part
        if name == "where":
            mask = self.known(node.args[0])
            if mask is not None and (is_zero(node.args[1]) or is_zero(node.args[2])):
                return 1.0 - _mean(mask) if is_zero(node.args[1]) else _mean(mask)
        return 1.0

    def known(self, node: Any) -> torch.Tensor | None:
        """The value of a node that follows from integer inputs and constants alone; None if it does not."""
        if not isinstance(node, fx.Node):
            return None
        if node not in self._known:
            self._known[node] = self._compute(node)
        return self._known[node]

    def _compute(self, node: fx.Node) -> torch.Tensor | None:
        if node in self._inputs:
            value = self._inputs[node]
            return None if value.is_floating_point() else value
        if node.op != "call_function" or elements(node) > _MOST_ELEMENTS or operator_name(node).startswith("rand"):
            return None
        values = {source: self.known(source) for source in node.all_input_nodes}
        if any(value is None for value in values.values()):
            return None
        target: Callable[..., Any] = node.target  # type: ignore[assignment]
        arguments: Any = fx.map_arg((node.args, node.kwargs), lambda source: values[source])
        try:
            result = target(*arguments[0], **arguments[1])
        except Exception:
            return None
        return result if isinstance(result, torch.Tensor) else None

    def _piece(self, user: fx.Node, node: fx.Node, share: float) -> _Piece:
        """What one user needs of a node, given the share of the user itself that is needed."""
        if user.op == "output":
            # A window on an input is handed back as it is.
            return _Piece(0.0 if memory(node).op == "placeholder" else 1.0)
        name, size = operator_name(user), max(1, elements(node))
        if name in ("slice", "select"):
            return _Piece(share * elements(user) / size, _span(user, node))
        if name == "getitem":
            parts = node.meta["val"]
            whole = sum(part.numel() for part in parts if isinstance(part, torch.Tensor))
            splits = operator_name(node) in ("split", "split_with_sizes", "unbind", "chunk")
            return _Piece(share * elements(user) / max(1, whole) if splits else share, disjoint=splits)
        if name == "where":
            return _Piece(common(self._through_mask(user, node), share))
        if name in _STRIDED and user.args[0] is node:
            return _Piece(share * _window_share(user, name))
        through = self._through_index(user, node, name)
        if name in _PICKING and through < 1.0:
            # Of what is not needed each element saves one of the table at most.
            return _Piece(max(0.0, through - (1.0 - share) * elements(user) / size))
        return _Piece(through * share)

    def _through_mask(self, user: fx.Node, node: fx.Node) -> float:
        if user.args[0] is node:
            return 1.0
        mask = self.known(user.args[0])
        if mask is None:
            return 0.0
        return _mean(mask) if user.args[1] is node else 1.0 - _mean(mask)

    def _through_index(self, user: fx.Node, node: fx.Node, name: str) -> float:
        """1 for operators that use every element of an argument, less for tables of which rows are picked."""
        if name in ("embedding", "_embedding_bag", "_embedding_bag_forward_only") and user.args[0] is node:
            return self._distinct(user.args[1]) / max(1, shape(node)[0])
        if name == "index_select" and user.args[0] is node:
            return self._distinct(user.args[2]) / max(1, shape(node)[int(user.args[1])])  # type: ignore[arg-type]
        if name == "gather" and user.args[0] is node:
            if operator_name(node) in _NORMALISED and elements(user) * shape(node)[int(user.args[1])] >= elements(node):  # type: ignore[arg-type]
                return 1.0  # One value of every row, and each rests on the whole of its row.
            return self._distinct(user.args[2]) / max(1, elements(node))
        if name == "index" and user.args[0] is node:
            return self._picked(list(user.args[1]), node)  # type: ignore[arg-type]
        if (name == "bucketize" and user.args[1] is node) or (name == "searchsorted" and user.args[0] is node):
            return 0.0  # Nobody needs a border that no value comes near.
        overwrites = name in ("scatter", "index_put", "index_copy") and argument(user, 3) is not True
        return 0.0 if overwrites and node in (user.args[0], argument(user, 2), argument(user, 3)) else 1.0

    def _distinct(self, index: Any) -> int:
        value = self.known(index)
        return int(torch.unique(value).numel()) if value is not None else 0

    def _picked(self, indices: list[fx.Node | None], table: fx.Node) -> float:
        """Share of a table that advanced indexing picks: the whole of the dimensions without an index."""
        used = [(index, size) for index, size in zip(indices, shape(table), strict=False) if index is not None]
        places: torch.Tensor | None = None
        for index, size in used:
            value = self.known(index)
            if value is None or value.dtype is torch.bool:
                return 0.0
            place = value.long() % max(1, size)  # Negative ones count from the end.
            places = place if places is None else places * size + place
        picked = 0 if places is None else torch.unique(places).numel()
        return picked / max(1, math.prod(size for _, size in used))


class _Piece:
    """A needed part of a tensor: how much of it, and where if that is known."""

    def __init__(self, share: float, span: tuple[int, int, int] | None = None, disjoint: bool = False) -> None:
        self.share = share
        self.span = span
        """Dimension, start and stop of a slice of step 1."""
        self.disjoint = disjoint
        """True if it overlaps no other piece that says so too."""


def _union(node: fx.Node, pieces: list[_Piece]) -> float:
    """Share that several users need together: summed where their parts are known not to overlap, else the largest."""
    most = max((piece.share for piece in pieces), default=0.0)
    apart = sum(piece.share for piece in pieces if piece.disjoint)
    spans = [piece for piece in pieces if piece.span is not None]
    for dimension in {piece.span[0] for piece in spans if piece.span is not None}:
        covered, end = 0.0, 0
        for start, stop, share in sorted(
            (p.span[1], p.span[2], p.share) for p in spans if p.span is not None and p.span[0] == dimension
        ):
            length = max(1, stop - start)
            covered += share * max(0, stop - max(start, end)) / length
            end = max(end, stop)
        apart = max(apart, covered)
    return max(most, apart)


def _span(user: fx.Node, node: fx.Node) -> tuple[int, int, int] | None:
    sizes = shape(node)
    dimension = int(argument(user, 1, 0)) % max(1, len(sizes))
    if operator_name(user) == "select":
        index = int(argument(user, 2)) % max(1, sizes[dimension])
        return dimension, index, index + 1
    if int(argument(user, 4, 1)) != 1:
        return None
    start, length = argument(user, 2) or 0, shape(user)[dimension]
    start = max(0, start + sizes[dimension]) if start < 0 else start
    return dimension, start, start + length


def _window_share(user: fx.Node, name: str) -> float:
    """Share of the data that a windowed operator looks at: all of it unless its stride exceeds its window."""
    if name.startswith("conv"):
        kernel: Any = shape(user.args[1])[2:]  # type: ignore[arg-type]
        if name == "convolution" and argument(user, 6):
            return 1.0
    else:
        kernel = argument(user, 1)
    stride = argument(user, _STRIDED[name]) or kernel
    count = len(kernel)
    strides = list(stride) * count if len(stride) == 1 else list(stride)
    return math.prod(min(1.0, k / s) for k, s in zip(kernel, strides, strict=False))


def is_zero(value: Any) -> bool:
    """True for the number zero, and for a node that makes a tensor of nothing else."""
    if operator_name(value) in ("scalar_tensor", "full", "full_like", "zeros", "zeros_like"):
        fill = value.args[-1] if operator_name(value) != "scalar_tensor" else value.args[0]
        return operator_name(value).startswith("zeros") or fill == 0
    return bool(value == 0)


def _mean(mask: torch.Tensor) -> float:
    return float(torch.count_nonzero(mask)) / max(1, mask.numel())
