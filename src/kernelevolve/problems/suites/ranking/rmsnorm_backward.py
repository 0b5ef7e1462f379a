"""The backward pass of RMSNorm: from x, gain and the gradient of the output to the gradients of x and of gain.

With ``r = 1 / sqrt(mean(x²) + eps)`` and ``g = dy * gain``, ``dx = r * (g - x * r² * mean(g * x))``, and dgain is the
sum over all rows of ``dy * x * r``: the derivative of Zhang and Sennrich (2019), https://arxiv.org/abs/1910.07467, as
training kernels such as Liger's (https://arxiv.org/abs/2410.10989) compute it. Bound by memory: two tensors read, one
written. What is hard is that dx wants rows and dgain columns. Sizes are ours; no figures are published for it.

It is a function that computes the gradients and no problem in training mode. So a call is the backward pass alone, its
two results are checked like any other outputs, and the operators that read a graph have all of it before them. Gain is
an input, so that one file has several widths.
"""

import torch
from torch import Tensor, nn

from kernelevolve.problems import Role, Workload


class Model(nn.Module):
    """x (rows, features), gain (features,), dy (rows, features) -> dx like x, dgain like gain."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor, gain: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        wide, upstream = x.float(), dy.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        normed = wide * scale
        weighed = upstream * gain.float()
        dx = scale * (weighed - normed * (weighed * normed).mean(-1, keepdim=True))
        return dx.to(x.dtype), (upstream * normed).sum(0).to(gain.dtype)


def get_inputs(rows: int = 2048, features: int = 1024) -> list[Tensor]:
    return [torch.randn(rows, features), torch.rand(features) + 0.5, torch.randn(rows, features)]


def get_init_inputs() -> list[float]:
    return [1e-6]


def get_workloads(device_type: str = "cpu") -> list[Workload]:
    if device_type == "cuda":
        dtype, search, held_out = "bfloat16", [(16384, 1024), (65536, 256)], (16384, 4096)
    else:
        dtype, search, held_out = None, [(2048, 1024), (8192, 256)], (1021, 2048)
    cases = [(Role.SEARCH, sizes) for sizes in search]
    cases += [(Role.HELD_OUT, held_out), (Role.STRESS, (1, 1024)), (Role.STRESS, (257, 3)), (Role.STRESS, (131, 769))]
    made = [
        Workload(name=f"{rows}x{features}", role=role, axes={"rows": rows, "features": features}, dtype=dtype)
        for role, (rows, features) in cases
    ]
    axes: dict[str, int | float | str | bool] = {"rows": 65, "features": 512}
    return [*made, Workload(name="strided", role=Role.STRESS, axes=axes, dtype=dtype, contiguous=False)]
