"""The graph: insert-only, acyclic, and its indices agree with what a look at all nodes would find."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.judge.verdict import VerdictKind
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.node import Node


@st.composite
def histories(draw: st.DrawFn) -> list[Node]:
    """Nodes in the order of insertion, with up to two parents each."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(0, 25))):
        parents = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        correct = draw(st.booleans())
        nodes.append(
            Node(
                id=number,
                candidate_id=f"c{number}",
                parents=tuple(parents),
                operator="draft",
                kind=VerdictKind.CORRECT if correct else draw(st.sampled_from(list(VerdictKind)[1:])),
                fitness=draw(st.sampled_from([-0.5, 0.0, 0.25, 1.0])) if correct else -math.inf,
                structure=f"s{draw(st.integers(0, 8))}",
                depth=1 + min(nodes[p].depth for p in parents) if parents else 0,
            )
        )
    return nodes


def build(nodes: list[Node]) -> SearchGraph:
    graph = SearchGraph()
    for node in nodes:
        graph.insert(node)
    return graph


@given(histories())
def test_indices_agree_with_the_nodes(nodes: list[Node]) -> None:
    graph = build(nodes)
    assert list(graph.nodes()) == nodes
    assert len(graph) == len(nodes)
    assert list(graph.roots) == [n.id for n in nodes if not n.parents]
    for node in nodes:
        assert graph[node.id] is node
        assert list(graph.children(node.id)) == [n.id for n in nodes if node.id in n.parents]
        assert all(parent < node.id for parent in node.parents), "an edge runs backwards, so there may be a cycle"
    best = max((n for n in nodes if n.correct), key=lambda n: (n.fitness, -n.id), default=None)
    assert graph.best is best
    for key in range(10):
        assert graph.contains_structure(f"s{key}") == any(n.structure == f"s{key}" for n in nodes)


@given(histories(), st.data())
def test_nothing_is_changed_by_an_insert_but_what_it_adds(nodes: list[Node], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(nodes)))
    graph = build(nodes[:cut])
    children = {n.id: list(graph.children(n.id)) for n in nodes[:cut]}
    for node in nodes[cut:]:
        graph.insert(node)
    assert list(graph.nodes())[:cut] == nodes[:cut]
    for number, before in children.items():
        assert list(graph.children(number))[: len(before)] == before


def draft(number: int, *parents: int) -> Node:
    return Node(number, "c", parents, "draft", VerdictKind.WRONG, -math.inf, "s", 0)


@pytest.mark.parametrize("node", [draft(0), draft(2), draft(-1), draft(1, 1), draft(1, 2), draft(1, -1)])
def test_a_node_out_of_order_or_with_an_unknown_parent_is_refused(node: Node) -> None:
    graph = build([draft(0)])
    with pytest.raises(ValueError, match="node"):
        graph.insert(node)
    assert len(graph) == 1


def test_a_number_that_is_not_there_is_an_error() -> None:
    graph = build([draft(0)])
    for number in (1, -1):
        with pytest.raises(IndexError):
            graph[number]
