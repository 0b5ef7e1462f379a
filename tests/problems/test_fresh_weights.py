"""Redrawn weights keep the variance of a signal."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kernelevolve.problems.weights import redraw_weights


def redrawn(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    redraw_weights(model)
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(512, 256), (64, 512)),
        (nn.Conv2d(32, 48, 3, padding=1), (4, 32, 16, 16)),
        (nn.Conv1d(64, 64, 5, groups=4, padding=2), (8, 64, 100)),
        (nn.ConvTranspose2d(64, 32, 4, stride=2), (4, 64, 12, 12)),
        (nn.ConvTranspose1d(64, 64, 3, groups=2), (4, 64, 80)),
        (nn.Embedding(1000, 64), None),
    ],
)
def test_a_layer_keeps_the_variance(layer: nn.Module, shape: tuple[int, ...] | None) -> None:
    x = torch.randint(0, 1000, (500,)) if shape is None else torch.randn(shape)
    out = redrawn(layer)(x)
    assert 0.7 < float(out.detach().std()) < 1.5


def test_a_deep_network_depends_on_its_input() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        *(part for _ in range(12) for part in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 8)
    ).eval()
    a, b = torch.rand(32, 64), torch.rand(32, 64)

    @torch.no_grad()
    def moved() -> float:
        first, second = model(a), model(b)
        return float((first - second).norm() / first.norm())

    before = moved()
    redrawn(model)
    assert before < 0.05
    assert moved() > 5 * before


def test_normalisation_is_no_longer_the_identity() -> None:
    norm = redrawn(nn.BatchNorm2d(64))
    assert 0.15 < float(norm.running_mean.std()) < 0.45  # type: ignore[operator]
    assert 0.5 <= float(norm.running_var.min()) < float(norm.running_var.max()) <= 1.5  # type: ignore[operator]
    assert int(norm.num_batches_tracked) == 0  # type: ignore[arg-type]
    layer = redrawn(nn.LayerNorm((16, 8)))
    assert abs(float(layer.weight.mean()) - 1) < 0.15 and 0.2 < float(layer.weight.std()) < 0.4  # type: ignore[operator]
    assert 0.2 < float(layer.bias.std()) < 0.4  # type: ignore[operator]


class Bare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 2.0))
        self.bias = nn.Parameter(torch.zeros(64, 1, 1))
        self.matrix = nn.Parameter(torch.zeros(100, 400))
        self.drawn = nn.Parameter(torch.randn(100, 400))
        self.index = nn.Parameter(torch.arange(4), requires_grad=False)
        self.register_buffer("mask", torch.full((3,), float("-inf")))


def test_bare_parameters() -> None:
    model = redrawn(Bare())
    assert isinstance(model, Bare)
    assert 0.5 < float(model.scale) < 3.5 and float(model.scale) != 2.0
    assert 0.2 < float(model.bias.std()) < 0.4
    assert 0.04 < float(model.matrix.std()) < 0.06
    assert 0.9 < float(model.drawn.std()) < 1.1
    assert torch.equal(model.index, torch.arange(4))
    assert torch.isinf(model.mask).all()  # type: ignore[arg-type]


def test_tied_weights_stay_tied() -> None:
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.weight = first.weight
    model = redrawn(nn.Sequential(first, second))
    state = model.state_dict()
    assert torch.equal(state["0.weight"], state["1.weight"])
