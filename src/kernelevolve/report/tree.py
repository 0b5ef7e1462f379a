"""Layout of the search graph as a forest: first parents give the tree, other parents are drawn as extra edges.

Subtrees are packed side by side by their contours, as in Reingold and Tilford, "Tidier drawings of trees", 1981.
No step is recursive: a greedy search can be a chain of a thousand nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelevolve.report.contents import Contents, NodeEntry

_WIDEST_STEP, _NARROWEST_STEP = 46.0, 9.0
_HIGHEST_ROW, _LOWEST_ROW = 84.0, 20.0
_GOOD_WIDTH, _GOOD_HEIGHT = 690.0, 520.0
_MARGIN = 30.0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where and how large a node is drawn, in SVG user units."""

    entry: NodeEntry
    x: float
    y: float
    radius: float
    winning: bool
    """True on the path from a draft to the best node."""
    best: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from a parent down to a child."""

    path: str
    """SVG path data."""
    winning: bool
    extra: bool
    """True for the second parent of a combination."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A drawing of the search graph."""

    spots: tuple[Spot, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float
    labelled: bool
    """True if there is room for the node numbers."""


def lay_out(contents: Contents) -> Tree:
    """Place every node; size follows the speed-up."""
    entries = contents.entries
    parents = [entry.node.parents[0] if entry.node.parents else None for entry in entries]
    columns, rows = tidy(parents)
    step = _between(_NARROWEST_STEP, _GOOD_WIDTH / max(1.0, max(columns, default=0.0)), _WIDEST_STEP)
    row = _between(_LOWEST_ROW, _GOOD_HEIGHT / max(1, max(rows, default=0)), _HIGHEST_ROW)
    places = [(_MARGIN + x * step, _MARGIN + y * row) for x, y in zip(columns, rows, strict=True)]
    on_path = {entry.node.id for entry in contents.lineage}
    best = contents.best.node.id if contents.best is not None else None
    largest = _between(3.2, 0.42 * min(step, row), 13.0)
    radii = _radii(entries, largest)
    spots = tuple(
        Spot(entry, round(x, 1), round(y, 1), round(radius, 1), entry.node.id in on_path, entry.node.id == best)
        for entry, (x, y), radius in zip(entries, places, radii, strict=True)
    )
    edges = tuple(
        Edge(_curve(places[parent], places[entry.node.id]), {parent, entry.node.id} <= on_path and at == 0, at > 0)
        for entry in entries
        for at, parent in enumerate(entry.node.parents)
    )
    width = 2 * _MARGIN + max(columns, default=0.0) * step
    height = 2 * _MARGIN + max(rows, default=0) * row
    return Tree(spots, edges, round(width, 1), round(height, 1), labelled=step >= 24 and row >= 34)


def tidy(parents: Sequence[int | None]) -> tuple[list[float], list[int]]:
    """Column and row of each node of a forest, in units of the least distance, from the index of each one's parent.

    A parent comes before its children, is centred over them, and no two nodes of a row are closer than 1.
    """
    count = len(parents)
    children: list[list[int]] = [[] for _ in range(count)]
    rows = [0] * count
    for node, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(node)
            rows[node] = rows[parent] + 1
    shift = [0.0] * count
    """Of a node's subtree against its parent's frame, in which the first child's subtree is at 0."""
    center = [0.0] * count
    """Of a node in the frame of its own subtree."""
    contours: dict[int, tuple[list[float], list[float]]] = {}
    for node in reversed(range(count)):
        left, right = _pack(children[node], contours, shift)
        if children[node]:
            first, last = children[node][0], children[node][-1]
            center[node] = (shift[first] + center[first] + shift[last] + center[last]) / 2
        contours[node] = ([center[node], *left], [center[node], *right])
    roots = [node for node, parent in enumerate(parents) if parent is None]
    left, _ = _pack(roots, contours, shift)
    columns = [0.0] * count
    offset = [0.0] * count
    least = min(left, default=0.0)
    for node, parent in enumerate(parents):
        offset[node] = shift[node] + (offset[parent] if parent is not None else -least)
        columns[node] = offset[node] + center[node]
    return columns, rows


def _pack(
    siblings: Sequence[int], contours: dict[int, tuple[list[float], list[float]]], shift: list[float]
) -> tuple[list[float], list[float]]:
    """Set subtrees side by side as close as their contours allow; the contours of the whole, row by row."""
    left: list[float] = []
    right: list[float] = []
    for node in siblings:
        own_left, own_right = contours.pop(node)
        shift[node] = max((r + 1 - near for r, near in zip(right, own_left, strict=False)), default=0.0)
        left += [shift[node] + x for x in own_left[len(left) :]]
        right = [shift[node] + x for x in own_right] + right[len(own_right) :]
    return left, right


def _radii(entries: Sequence[NodeEntry], largest: float) -> list[float]:
    """By area: the best is ``largest``, the worst correct one and every failure small."""
    fits = [e.node.fitness for e in entries if math.isfinite(e.node.fitness)]
    low, high = min(fits, default=0.0), max(fits, default=0.0)
    radii = []
    for entry in entries:
        if math.isfinite(entry.node.fitness):
            part = (entry.node.fitness - low) / (high - low) if high > low else 1.0
            radii.append(largest * math.sqrt(0.25 + 0.75 * part))
        else:
            radii.append(largest * 0.42)
    return radii


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x0, y0), (x1, y1) = start, end
    middle = (y0 + y1) / 2
    return f"M{x0:.1f} {y0:.1f}C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"


def _between(low: float, value: float, high: float) -> float:
    return max(low, min(value, high))
