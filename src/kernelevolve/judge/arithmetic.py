"""Arithmetic: the fewest floating-point operations that a captured graph can be done with. Always a lower bound.

Counted are products and convolutions, of what is needed of them: products in their cheapest association, convolutions
with the multiplications of a minimal filtering algorithm. What can be folded into weights beforehand is free, and so is
whatever a sum or mean of the result makes superfluous. Everything else counts one operation an element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from kernelevolve.judge.demand import VIEWS, Demand, argument, common, elements, is_zero, operator_name, shape

_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "linear": (0, 1)}
"""Operator -> positions of its left and right factor."""
_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "convolution"})
_SAME_ROWS = frozenset({"view", "_unsafe_view", "reshape", "expand", "clone", "alias", "unsqueeze", "squeeze"})
_SUMS = frozenset({"sum", "mean", "avg_pool1d", "avg_pool2d", "avg_pool3d"})
_LINEAR = _SAME_ROWS | {"permute", "transpose", "add", "sub", "neg", "_to_copy", "_native_batch_norm_legit_no_training"}
_SCALING = frozenset({"mul", "div"})
_WIDE_TILE = frozenset({"float32", "float64"})
"""Formats that stand Winograd's F(4, 3); the 16-bit ones lose too much beyond F(2, 3)."""
_FREE = VIEWS | {"cat", "where", "gather", "index", "index_select", "embedding", "constant_pad_nd", "_to_copy", "clone",
                 "full", "full_like", "scalar_tensor", "arange", "sort", "topk", "flip", "copy"}  # fmt: skip
"""Operators that move values or make constants."""


@dataclass(frozen=True)
class Work:
    """Operations of one graph."""

    products: dict[str, float] = field(default_factory=dict)
    """dtype of the factors -> operations of products and convolutions, a multiply-add counted as two."""
    pointwise: float = 0.0

    @property
    def total(self) -> float:
        """All operations."""
        return sum(self.products.values()) + self.pointwise


class Arithmetic:
    """Counts the work of one graph. ``weights`` are the placeholders that do not change from call to call."""

    def __init__(self, graph: fx.Graph, demand: Demand, weights: frozenset[fx.Node]) -> None:
        self._graph = graph
        self._demand = demand
        self._fixed = _fixed_nodes(graph, weights)
        self._inner: dict[tuple[fx.Node, int], _Inner] = {}
        """A product and the position of a factor -> the product whose result, used by it alone, that factor is."""
        for node in graph.nodes:
            if operator_name(node) in _PRODUCTS and (outer := self._outer(node)) is not None:
                user, position, scaled = outer
                self._inner[user, position] = _Inner(node, scaled)

    def work(self) -> Work:
        """The least work."""
        products: dict[str, float] = {}
        pointwise = 0.0
        for node in self._graph.nodes:
            name = operator_name(node)
            if not name or node in self._fixed:
                continue
            share = self._demand.shares.get(node, 0.0)
            if name in _PRODUCTS or name in _CONVOLUTIONS:
                count = self._chain(node, share) if name in _PRODUCTS else share * _convolution(node, name)
                data = node.args[_PRODUCTS[name][0] if name in _PRODUCTS else 0]
                dtype = str(data.meta["val"].dtype).removeprefix("torch.")
                products[dtype] = products.get(dtype, 0.0) + count / self._summed_away(node)
            elif _is_pointwise(node, name):
                pointwise += share * elements(node) / self._summed_away(node)
        return Work(products, pointwise)

    def _summed_away(self, node: fx.Node) -> float:
        """How many elements of a result are summed into one further on, with nothing but linear operators between.

        A sum commutes with those, so that it can be taken first, and only one in so many elements has to be made.
        """
        return min((self._summed_by(user, node) for user in node.users), default=1.0)

    def _summed_by(self, user: fx.Node, node: fx.Node) -> float:
        name = operator_name(user)
        if name in _SUMS:
            return elements(node) / max(1, elements(user)) * self._summed_away(user)
        if name == "getitem":
            return self._summed_away(user)
        others = [source for source in user.all_input_nodes if source is not node]
        scaled = name in _SCALING | _PRODUCTS.keys() | _CONVOLUTIONS and user.args[1] is not node
        linear = name in _LINEAR or (scaled and all(source in self._fixed for source in others))
        return self._summed_away(user) if linear else 1.0

    def _chain(self, node: fx.Node, share: float) -> float:
        """Operations of a product in the cheapest association with the products that only it uses; 0 for those.

        ``share`` is how much of its result is needed: a part of a single product is so much less to do, of a chain the
        last of its products is. Where one factor is a product that was masked or scaled element by element, as in
        linear attention, the two can be made one after the other, less what the mask saves, or in the cheapest
        association without the mask, as a recurrence over the rows does.
        """
        if any(inner.product is node for inner in self._inner.values()):
            return 0.0
        factors = [self._inner.get((node, position)) for position in _PRODUCTS[operator_name(node)]]
        scaled = [inner.product for inner in factors if inner is not None and inner.scaled]
        plain = self._cheapest(node, share)
        if not scaled:
            return plain
        in_turn = plain + sum(self._cheapest(one, self._demand.shares.get(one, 0.0)) for one in scaled)
        return min(in_turn, self._cheapest(node, share, scaled=True))

    def _cheapest(self, node: fx.Node, share: float, *, scaled: bool = False) -> float:
        batch = _batch(node)
        factors = self._factors(node, batch, scaled)
        n = len(factors)
        if n == 2:
            return _product(factors[:1], factors[1:], batch, share)
        cost = {(i, i): 0.0 for i in range(n)}
        for length in range(2, n + 1):
            for i in range(n - length + 1):
                j = i + length - 1
                cost[i, j] = min(
                    cost[i, k] + cost[k + 1, j] + _product(factors[i : k + 1], factors[k + 1 : j + 1], batch)
                    for k in range(i, j)
                )
        return share * cost[0, n - 1]

    def _outer(self, node: fx.Node) -> tuple[fx.Node, int, bool] | None:
        """The product that alone uses this one as a factor, and the factor's position among its arguments.

        Seen through views that keep rows and columns, and through what scales or masks elements, which is said.
        """
        seen, scaled = node, False
        while len(seen.users) == 1:
            (user,) = seen.users
            name = operator_name(user)
            if name in _PRODUCTS:
                left, right = _PRODUCTS[name]
                position = left if user.args[left] is seen else right
                fits = user.args[position] is seen and (position == left or name != "linear")  # It transposes a weight.
                return (user, position, scaled) if fits and self._same_batch(node, user) else None
            scales = name not in _SAME_ROWS
            if scales and not _scales(user, seen):
                return None
            if shape(user)[-1:] != shape(node)[-1:] or elements(user) != elements(node):
                return None
            seen, scaled = user, scaled or scales
        return None

    def _same_batch(self, inner: fx.Node, outer: fx.Node) -> bool:
        """True if one batch size describes both, or all entries of the outer batch share the inner's weight."""
        right = inner.args[_PRODUCTS[operator_name(inner)][1]]
        return _batch(inner) == _batch(outer) or (_batch(inner) == 1 and right in self._fixed)

    def _factors(self, node: fx.Node, batch: int, scaled: bool) -> list[_Factor]:
        """The factors of a product, with those of inner products in their place, if ``scaled`` as if nothing was."""
        name = operator_name(node)
        found: list[_Factor] = []
        for position, transposed in zip(_PRODUCTS[name], (False, name == "linear"), strict=True):
            inner = self._inner.get((node, position))
            if inner is not None and (scaled or not inner.scaled):
                found += self._factors(inner.product, batch, scaled)
            else:
                side = node.args[position]
                assert isinstance(side, fx.Node)
                found.append(self._factor(side, transposed, batch))
        return found

    def _factor(self, node: fx.Node, transposed: bool, batch: int) -> _Factor:
        sizes = shape(node)
        rows, columns = (math.prod(sizes[:-1]), sizes[-1])
        fixed = node in self._fixed
        # A factor of a batched product is one matrix an entry, unless it is a weight that all entries share.
        shared = batch == 1 or (fixed and len(sizes) < 3)
        rows = rows if shared else max(1, rows // batch)
        base = _through_rows(node)
        flipped = operator_name(base) in ("permute", "transpose") and _swaps_last(base)
        base = _through_rows(base.args[0]) if flipped and isinstance(base.args[0], fx.Node) else base
        rows, columns = (columns, rows) if transposed else (rows, columns)
        return _Factor(rows, columns, shared, fixed, base, flipped != transposed, self._demand.density(node))


@dataclass(frozen=True)
class _Inner:
    """A product that is a factor of another."""

    product: fx.Node
    scaled: bool
    """True if its elements are scaled or masked on the way."""


@dataclass(frozen=True)
class _Factor:
    """One matrix of a chain (one an entry of the batch, unless shared)."""

    rows: int
    columns: int
    shared: bool
    fixed: bool
    base: fx.Node
    transposed: bool
    density: float


def _scales(user: fx.Node, node: fx.Node) -> bool:
    """True if the user is linear in every element of the node for itself: it scales, converts or masks by zero."""
    name = operator_name(user)
    if name == "where":
        mask, one, other = user.args[:3]
        return mask is not node and is_zero(other if one is node else one)
    if name in _SCALING:
        return user.args[0] is not user.args[1] and (name == "mul" or user.args[0] is node)
    return name in ("neg", "_to_copy")


def _batch(node: fx.Node) -> int:
    """How many products a node makes: more than one for bmm and baddbmm."""
    return math.prod(shape(node)[:-2]) if operator_name(node) in ("bmm", "baddbmm") else 1


def _product(left: list[_Factor], right: list[_Factor], batch: int, share: float = 1.0) -> float:
    """Operations of one product of two parts of a chain, of which a share is needed."""
    both = [*left, *right]
    if all(factor.fixed for factor in both):
        return 0.0
    count = 2.0 * left[0].rows * left[-1].columns * right[-1].columns * (1 if all(f.shared for f in both) else batch)
    if len(both) == 2:
        count *= common(share, left[0].density, right[0].density)
        if left[0].base is right[0].base and left[0].transposed != right[0].transposed:
            count /= 2  # X Xᵀ is symmetric.
    return count


def _fixed_nodes(graph: fx.Graph, weights: frozenset[fx.Node]) -> frozenset[fx.Node]:
    """Nodes that follow from weights and constants alone, and so can be prepared before the first call."""
    fixed: set[fx.Node] = set(weights)
    for node in graph.nodes:
        if node.op == "call_function" and all(source in fixed for source in node.all_input_nodes):
            fixed.add(node)
    return frozenset(fixed)


def _through_rows(node: fx.Node) -> fx.Node:
    """The node behind views that keep the last dimension and every element."""
    while operator_name(node) in _SAME_ROWS and isinstance(node.args[0], fx.Node):
        inner = node.args[0]
        if shape(inner)[-1:] != shape(node)[-1:] or elements(inner) != elements(node):
            break
        node = inner
    return node


def _swaps_last(node: fx.Node) -> bool:
    """True if a permutation exchanges the last two dimensions and nothing else."""
    count = len(shape(node))
    if operator_name(node) == "transpose":
        return {int(d) % count for d in node.args[1:3]} == {count - 2, count - 1}  # type: ignore[arg-type]
    order = [int(d) % count for d in node.args[1]]  # type: ignore[union-attr, arg-type]
    return order == [*range(count - 2), count - 1, count - 2]


def _convolution(node: fx.Node, name: str) -> float:
    """Operations of a convolution: window positions that meet data, by a minimal filtering algorithm.

    With tiles of m outputs, r taps of stride 1 take (m + r - 1) / m multiplications an output instead of r (Winograd
    1980; Lavin and Gray 2016). A stride splits a window into phases of stride 1, a transposed convolution likewise.
    """
    data, weight = node.args[0], node.args[1]
    assert isinstance(data, fx.Node) and isinstance(weight, fx.Node)
    kernel, dimensions = shape(weight)[2:], len(shape(weight)) - 2
    transposed = name == "convolution" and bool(argument(node, 6))
    stride, padding, dilation = (_spread(argument(node, 3 + i), dimensions, i != 1) for i in range(3))
    inside, outside = (data, node) if not transposed else (node, data)
    tile = 4 if str(data.meta["val"].dtype).removeprefix("torch.") in _WIDE_TILE else 2
    positions = 1.0
    for d in range(dimensions):
        met = _meetings(shape(inside)[2 + d], shape(outside)[2 + d], kernel[d], stride[d], padding[d], dilation[d])
        positions *= met * _fewer_multiplications(kernel[d], stride[d], tile)
    # The weight is (out, in / groups, ...), transposed (in, out / groups, ...): one side whole, one side by groups.
    return 2.0 * shape(data)[0] * shape(weight)[0] * shape(weight)[1] * positions


def _meetings(inside: int, outside: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """Pairs of an outer position and a tap that fall on an inner position, not on padding."""
    total = 0
    for tap in range(taps):
        offset = tap * dilation - padding
        first = max(0, -(offset // stride))  # ceil(-offset / stride)
        last = min(outside - 1, (inside - 1 - offset) // stride)
        total += max(0, last - first + 1)
    return total


def _fewer_multiplications(taps: int, stride: int, tile: int) -> float:
    phases = [math.ceil((taps - phase) / stride) for phase in range(min(stride, taps))]
    return sum(min(float(r), (tile + r - 1) / tile) for r in phases) / taps


def _spread(value: Any, dimensions: int, ones: bool) -> list[int]:
    """A list of one number a dimension from what a convolution was called with."""
    if value is None or value == []:
        return [1 if ones else 0] * dimensions
    if isinstance(value, str):
        return [0] * dimensions  # 'valid'; 'same' counts the few positions beyond the border as well.
    values = [int(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
    return values * dimensions if len(values) == 1 else values


def _is_pointwise(node: fx.Node, name: str) -> bool:
    value = node.meta.get("val")
    floating = getattr(value, "dtype", None) is not None and value.dtype.is_floating_point  # type: ignore[union-attr]
    return floating and name not in _FREE
