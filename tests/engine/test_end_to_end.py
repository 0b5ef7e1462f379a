"""The whole path with nothing scripted: a problem file, the built-in operators, the judge, the files at the end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import kernelevolve
from kernelevolve import session
from kernelevolve.errors import InvalidRequest
from kernelevolve.judge.local import LocalJudge
from kernelevolve.judge.settings import JudgeSettings, TimingPlan
from kernelevolve.judge.verdict import Effort, VerdictKind
from kernelevolve.problems import Problem
from kernelevolve.store import RunStatus, Store
from kernelevolve.targets import Target
from kernelevolve.workers.sandbox import Sandbox

PROBLEM = """
import torch
from torch import nn

rows, columns = 256, 1024


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        gated = x * torch.sigmoid(x) * self.weight
        return gated / (gated.abs().mean(dim=-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns]
"""

pytestmark = pytest.mark.slow
QUICK = JudgeSettings(baselines=("eager",), promotion=TimingPlan(blocks=5, min_blocks=5, calls=1, seconds=1.0))
"""Less timing than a claim needs, which none of these tests makes."""


@pytest.fixture(scope="module", autouse=True)
def quick_judge() -> Iterator[None]:
    def open_judge(
        problem: Problem, target: Target, store: Store, sandbox: Sandbox = Sandbox.AUTO, **more: object
    ) -> LocalJudge:
        settings = QUICK.model_copy(update={"sandbox": sandbox, **more})
        return LocalJudge(problem, target, workspace=store.workspace / "judge", settings=settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_judge", open_judge)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("workspace")
    (place / "gated.py").write_text(PROBLEM)
    return place


@pytest.fixture(scope="module")
def run(place: Path) -> kernelevolve.Run:
    return kernelevolve.optimize(place / "gated.py", target="cpu", evaluations=3, minutes=0.5, out=place / "runs")


def told(run: kernelevolve.Run) -> str:
    """What a run says of itself, so that a failure on another machine explains itself."""
    lines = [f"the run ended because: {run.record.reason}; load {os.getloadavg()}; baselines {run.record.baselines}"]
    for node in run.nodes():
        for verdict in run.verdicts(node.id):
            lines.append(
                f"node {node.id} by {node.operator}, {verdict.effort}: {verdict.kind} at {verdict.stage} after "
                f"{verdict.seconds_total:.1f} s; {verdict.reason}"
            )
            lines += [f"  {roofline.model_dump()}" for roofline in verdict.rooflines]
            lines += [f"  {line}" for line in verdict.detail.splitlines()[-12:]]
    return "\n".join(lines)


def test_a_search_ends_with_a_verified_kernel_and_its_papers(run: kernelevolve.Run) -> None:
    summary = json.loads(run.summary().model_dump_json())
    assert summary["run"] == run.id
    assert (summary["problem"], summary["target"], summary["status"]) == ("gated", "cpu", "finished")
    assert 1 <= summary["evaluations"] == sum(summary["verdicts"].values()) <= 3, told(run)
    best = summary["best"]
    assert best is not None, told(run)
    assert (best["verdict"], best["promoted"]) == ("correct", True), told(run)
    assert set(best["speedup"]) == {"eager"}
    for speedup in best["speedup"].values():
        assert speedup["low"] <= speedup["value"] <= speedup["high"]
        assert speedup["clock"] == "wall"
    assert best["roofline_fraction"] > 0
    kernel = Path(best["path"])
    assert "ModelNew" in kernel.read_text()
    certificate = json.loads((kernel.parent / "certificate.json").read_text())
    assert certificate["verdict"]["candidate_id"]
    assert "<html" in (run.directory / "report.html").read_text()


def test_the_kernel_stands_in_for_the_reference(run: kernelevolve.Run) -> None:
    from kernelevolve.problems.instance import load_instance

    reference = load_instance(run.problem, "cpu").make_model(7)
    assert run.best is not None, told(run)
    kernel = run.best.load(reference)
    x = torch.randn(256, 1024)
    torch.testing.assert_close(kernel(x), reference(x))
    torch.testing.assert_close(run.best.load(seed=7)(x), reference(x))
    with pytest.raises(InvalidRequest, match="do not fit"):
        run.best.load(torch.nn.Linear(2, 2))


def test_the_kernel_file_is_judged_like_any_other(run: kernelevolve.Run, place: Path) -> None:
    assert run.best is not None, told(run)
    assert run.best.path is not None
    verdict = kernelevolve.verify(
        place / "gated.py", run.best.path, target="cpu", effort=Effort.SCREEN, out=place / "runs"
    )
    assert verdict.kind is VerdictKind.CORRECT, f"{verdict.stage}: {verdict.reason}\n{verdict.detail}"


def test_a_finished_run_goes_on_with_a_larger_budget(run: kernelevolve.Run, place: Path) -> None:
    before = list(run.nodes())
    minutes = run.summary().seconds / 60 + 5
    more = kernelevolve.resume(run.id, out=place / "runs", evaluations=len(before) + 2, minutes=minutes)
    after = list(more.nodes())
    assert after[: len(before)] == before
    assert len(after) > len(before), told(more)
    assert more.record.status is RunStatus.FINISHED


def test_a_function_with_example_inputs_is_a_problem(place: Path) -> None:
    def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + y)

    inputs = (torch.randn(512, 512), torch.randn(512, 512))
    run = kernelevolve.optimize(scaled, inputs, target="cpu", evaluations=1, minutes=3, out=place / "runs")
    assert run.best is not None, told(run)
    torch.testing.assert_close(run.best.load()(*inputs), scaled(*inputs))


def _processes_below(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += (child, *_processes_below(child))
    return found


def test_whoever_kills_workers_does_not_end_the_search(place: Path) -> None:
    """Candidates' workers, baselines' workers, their supervisors and the zygote, at random moments."""
    rng, over, killed = random.Random(5), threading.Event(), []

    def kill() -> None:
        while len(killed) < 8 and not over.wait(0.9):
            below = _processes_below(os.getpid())
            if below:
                killed.append(rng.choice(below))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run = kernelevolve.optimize(place / "gated.py", target="cpu", evaluations=4, minutes=0.7, out=place / "killed")
    finally:
        over.set()
        killer.join()
    assert len(killed) >= 3
    assert run.summary().status is RunStatus.FINISHED, told(run)
    assert run.summary().verdicts.get(VerdictKind.CORRECT, 0) >= 1, told(run)
