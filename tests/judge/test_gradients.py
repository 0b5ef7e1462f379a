"""Gradients of a candidate for a problem in training mode, asked for by the judge."""

from __future__ import annotations

from pathlib import Path

from judging import SCALE, candidate, quick_judge

from kernelevolve.judge.verdict import Stage, VerdictKind

TRAINING = SCALE + "\nTRAINING = True\n"
HEAD = """
import time
import torch


class Scale(torch.autograd.Function):
    waits = {first_backward}

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.relu(x * weight) + x

    @staticmethod
    def backward(ctx, gradient):
        # As a kernel that is compiled when it is first called.
        time.sleep(Scale.waits)
        Scale.waits = 0
        x, weight = ctx.saved_tensors
        passed = gradient * (x * weight > 0)
        return passed * weight + gradient, (passed * x).sum(0)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(features))

    def forward(self, x):
"""


def test_a_first_backward_call_may_take_as_long_as_a_compiler(tmp_path: Path) -> None:
    judge = quick_judge(tmp_path, TRAINING, compile_seconds=6.0, run_seconds=1.0)
    forward = "return Scale.apply(x, self.weight)"
    try:
        slow = judge.evaluate(candidate(forward, HEAD.format(first_backward=1.5)))
        assert slow.kind is VerdictKind.CORRECT, (slow.stage, slow.reason, slow.detail)
        assert {error.output for error in slow.errors} >= {"gradient of input 0", "gradient of parameter weight"}
        hung = judge.evaluate(candidate(forward, HEAD.format(first_backward=600)))
        assert hung.kind is VerdictKind.TIMEOUT and hung.stage is Stage.INTEGRITY
    finally:
        judge.close()
