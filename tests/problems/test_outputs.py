"""Paths of nested results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from kernelevolve.problems.outputs import flatten_outputs, named_leaves, plain_outputs

T = torch.zeros(2)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Result:
    logits: Any
    cache: Any


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (T, ["0"]),
        ((T,), ["0"]),
        ([T, (T, T)], ["0", "1.0", "1.1"]),
        ({"b": T, "a": [T]}, ["b", "a.0"]),
        (Pair(T, {"x": T}), ["first", "second.x"]),
        (Result(T, [T, T]), ["logits", "cache.0", "cache.1"]),
        ((T, torch.max(torch.eye(3), dim=1)), ["0", "1.values", "1.indices"]),
        ((torch.topk(torch.arange(5.0), 2),), ["0.values", "0.indices"]),
        ((torch.linalg.slogdet(torch.eye(2)),), ["0.sign", "0.logabsdet"]),
    ],
)
def test_paths(value: Any, paths: list[str]) -> None:
    assert [path for path, _ in flatten_outputs(value)] == paths


def test_leaves_that_are_no_tensors_are_kept_aside() -> None:
    value = (T, None, {"n": 3, "name": "x"})
    assert [path for path, _ in flatten_outputs(value)] == ["0"]
    assert plain_outputs(value) == [("1", None), ("2.n", 3), ("2.name", "x")]
    assert [path for path, _ in named_leaves(value)] == ["0", "1", "2.n", "2.name"]


def test_nothing_and_empty_containers_hold_no_tensor() -> None:
    assert flatten_outputs(None) == flatten_outputs([]) == flatten_outputs({}) == []
    assert plain_outputs(None) == [("0", None)]
